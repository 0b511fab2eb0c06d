"""The sink of a build: encodes documents as rows of a piece."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mslm_data.builds.data_loss import check_labels
from mslm_data.builds.folder import Receipt, Unfinished
from mslm_data.builds.stages import (
    attempts,
    load_word_table,
    make_annotator,
    make_schema,
    make_segmenter,
)
from mslm_data.builds.tasks import BuildUnit
from mslm_data.builds.unit import Account, Reader, build_unit, in_context
from mslm_data.data.documents import Documents, Ints, Ranges
from mslm_data.data.examples import Examples, concatenate
from mslm_data.data.reason import Reason
from mslm_data.data.term_share import term_shares
from mslm_data.encode.encoder import Encoder
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.pipeline import KEPT_WHOLE, Pipeline
from mslm_data.shard.pieces import write_piece
from mslm_data.shard.write import ShardRecord
from mslm_data.source.reading.records import NO_TOKEN

FEW_TERMS = Reason(
    "the share of its tokens in mentions is below annotate.min_term_share", is_rule=True
)


@dataclass(frozen=True, kw_only=True)
class ToRows:
    """Work units write rows.

    Attributes:
        tokenizer: The tokenizer.
    """

    tokenizer: Tokenizer

    def build(self, task: BuildUnit, pipeline: Pipeline, folder: Unfinished) -> Receipt:
        """Build a work unit."""
        path = folder.piece(task.name)
        sink = RowSink(pipeline, self.tokenizer, path, split=task.unit.split)
        return build_unit(task, Reader(task.unit, pipeline), pipeline, sink, folder)


class RowSink:
    """Encodes the documents of a work unit as rows, and writes them as a piece."""

    def __init__(self, pipeline: Pipeline, tokenizer: Tokenizer, path: Path, *, split: str) -> None:
        """Begin a piece without rows.

        Args:
            pipeline: The pipeline.
            tokenizer: The tokenizer.
            path: File of the piece.
            split: Split of the documents.
        """
        self._pipeline = pipeline
        self._min_term_share = 0.0 if split in KEPT_WHOLE else pipeline.annotate.min_term_share
        self._path = path
        self._segmenter = make_segmenter(pipeline)
        # Label -> index. Labels that the pipeline does not name follow by first occurrence; joining
        # pieces gives them the indices of the shard.
        self._labels = {label: number for number, label in enumerate(pipeline.annotate.labels)}
        self._doc_labels: dict[str, int] | None = {} if pipeline.has_doc_labels else None
        self._parts: list[Examples] = []

        self._encoder = Encoder(
            load_word_table(tokenizer),
            self._labels,
            pipeline.encode,
            corpus=pipeline.name,
            weak=make_annotator(pipeline).weak,
            context=pipeline.annotate.context,
            doc_labels=self._doc_labels,
        )

    def add(self, documents: Documents, account: Account) -> None:
        """Segment and encode documents; see `unit.Sink`."""
        for label in documents.mentions.used_labels():
            self._labels.setdefault(label, len(self._labels))
        # A unit is too small to tell whether labels repeat. But long ones, and more than the column
        # holds, are an error before a piece or a receipt has them.
        check_labels(self._pipeline, labels=[*self._labels])

        def refuse(document: Documents, reason: Reason) -> None:
            account.drop(document, np.zeros(1, np.int64), reason, are_annotated=True)

        segmented = attempts(documents, self._segmenter.sentences, "segmenter", refuse)
        for batch, sentences in segmented:
            of_documents = {*(self._doc_labels or ()), *filter(None, batch.doc_labels or ())}
            check_labels(self._pipeline, doc_labels=of_documents)
            flagged = in_context(batch, sentences, account, self._pipeline)
            self._encode(flagged, sentences, account)

    def close(self, account: Account) -> ShardRecord:
        """Write the piece; see `unit.Sink`."""
        if not self._parts:
            # Encode an empty batch, so that the piece has all columns.
            empty = Documents.from_documents([])
            documents = in_context(empty, empty.sentences, account, self._pipeline)
            self._encode(documents, empty.sentences, account)
        examples = concatenate(self._parts)

        # The labels of documents that were set aside meanwhile are not used.
        names = [*self._labels]
        used = np.unique(examples.span_labels.values).tolist()
        account.labels = dict.fromkeys(names[number] for number in used)
        doc_labels = None if self._doc_labels is None else [*self._doc_labels]
        if doc_labels and examples.doc_labels is not None:
            used = np.unique(examples.doc_labels[examples.doc_labels >= 0]).tolist()
            account.doc_labels = dict.fromkeys(doc_labels[number] for number in used)
        return write_piece(self._path, examples, make_schema(self._pipeline, names, doc_labels))

    def _encode(self, documents: Documents, sentences: Ranges, account: Account) -> None:
        examples, counts = self._encoder.encode(documents, sentences)
        sparse = self._find_sparse(documents, examples)
        if len(sparse):
            dense = np.setdiff1d(np.arange(len(documents)), sparse)
            documents = account.drop(documents, sparse, FEW_TERMS, are_annotated=True)
            sentences = sentences.take(dense)
            examples, counts = self._encoder.encode(documents, sentences)
        account.counts += counts
        self._parts.append(examples)

        with_rows = set(examples.doc_ids or ())
        if len(with_rows) < len(documents):
            is_bare = [doc_id not in with_rows for doc_id in documents.ids]
            # All of their mentions are left out already, as no token is theirs.
            bare = documents.take(np.flatnonzero(is_bare))
            none = bare.mentions.choose(np.empty(0, np.int64))
            account.drop(bare.with_mentions(none), np.arange(len(bare)), NO_TOKEN)

    def _find_sparse(self, documents: Documents, examples: Examples) -> Ints:
        """Return the sorted indices of documents below `annotate.min_term_share`.

        Documents without rows are not among these.
        """
        if not self._min_term_share:
            return np.empty(0, np.int64)

        numbers = {doc_id: number for number, doc_id in enumerate(documents.ids)}
        with_rows = np.array([numbers[doc_id] for doc_id in examples.doc_ids or ()], np.int64)
        shares = term_shares([examples], with_rows)
        return np.intersect1d(with_rows, np.flatnonzero(shares < self._min_term_share))
