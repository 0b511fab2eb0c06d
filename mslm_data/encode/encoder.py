"""Tokenises documents into rows (`Examples`), and counts mentions that are lost or changed."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from mslm_data.data import bio
from mslm_data.data.accounts import Counts
from mslm_data.data.documents import Documents, Mentions, Ranges
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged, make_offsets
from mslm_data.encode.layout import Layout, lay_out
from mslm_data.encode.mentions import TokenMentions, align, split_at
from mslm_data.encode.replaced import Ints
from mslm_data.encode.text_line import TextLine
from mslm_data.encode.text_rows import fit_rows
from mslm_data.encode.windows import (
    Windows,
    cut_sentences,
    find_sentence_starts,
    join_sentences,
)
from mslm_data.encode.word_table import WordTable
from mslm_data.errors import TokenizerError
from mslm_data.kernels.keys import name_rows
from mslm_data.kernels.pieces import wrap_rows
from mslm_data.pipeline import EncodeOptions

_EIGHT_BYTES = struct.Struct("<Q")


@dataclass(eq=False)
class Encoder:
    """Encoder of documents as rows of at most `options.max_tokens` tokens.

    Attributes:
        table: Tokenizer with its cache of words.
        labels: Label -> index. The caller may add labels later, before they are used.
        options: Length of rows, where sentences are cut and joined, and whether to keep text.
        corpus: Name of the corpus, part of the key of a row. Default: "".
        weak: Whether to store concept and score of each mention. Default: False.
        context: Whether to store context flags of each mention. Default: False.
        doc_labels: Document label -> index; new labels are added. Default: None, no column
            `doc_label`.

    Raises:
        TokenizerError: `max_tokens` is too small for special tokens and another token, or
            `options.eos` is set and the tokenizer has no end-of-text token.
    """

    table: WordTable
    labels: Mapping[str, int]
    options: EncodeOptions
    _: KW_ONLY
    corpus: str = ""
    weak: bool = False
    context: bool = False
    doc_labels: dict[str, int] | None = None

    def __post_init__(self) -> None:
        max_tokens = self.options.max_tokens
        if self.options.eos and self.table.tokenizer.ids.eos < 0:
            raise TokenizerError(
                "eos: the tokenizer has no end-of-text token; name it as eos_token in the "
                "tokenizer_config.json beside the tokenizer, and pass the folder"
            )
        if self.room < 1:
            raise TokenizerError(
                f"max_tokens: expected at least {max_tokens - self.room + 1} (special tokens and "
                f"one more), got {max_tokens}"
            )

    @property
    def room(self) -> int:
        """Maximum number of tokens of a row without its special tokens."""
        tokenizer = self.table.tokenizer
        special = len(tokenizer.prefix) + len(tokenizer.suffix) + self._adds_end
        return self.options.max_tokens - special

    @property
    def _adds_end(self) -> bool:
        """Whether to add an end-of-text token to the last row of each document.

        Not if the tokenizer ends every row with one.
        """
        tokenizer = self.table.tokenizer
        return self.options.eos and tokenizer.suffix[-1:] != (tokenizer.ids.eos,)

    def encode(self, documents: Documents, sentences: Ranges) -> tuple[Examples, Counts]:
        """Encode documents. The rows of a document do not depend on other documents.

        Args:
            documents: D documents, with sorted, non-overlapping mentions.
            sentences: Sentences of each document; no mention crosses a boundary.

        Returns:
            The rows, and counts of rows and tokens, of their mentions, of mentions that were left
            out or changed, and of sentences that were cut or are empty.
        """
        # Characters to tokens, and sentences to windows, one for each row.
        if self.table.tokenizer.reads_text:
            line = TextLine(documents, self.table.tokenizer)
            trimmed = line.trim(documents)
            layout, windows = self._fit_rows(line, sentences, trimmed)
            mentions, counts = align(trimmed, layout, self.labels)
        else:
            layout = lay_out(documents, sentences, self.table)
            mentions, counts = align(documents.mentions, layout, self.labels)
            windows = cut_sentences(layout, mentions, self.room, protect=self._protects)
            if self._joins:
                windows = join_sentences(windows, layout.sentence_documents, self.room)
        starts = find_sentence_starts(layout, windows) if self._joins else None

        # A mention longer than a window has a piece in each of several rows.
        pieces, rows = split_at(mentions, windows.firsts)
        examples = self._rows(documents, layout, windows, pieces, rows, starts)

        per_mention = np.bincount(pieces.sources, minlength=1)
        counts.sequences = len(examples)
        counts.tokens = len(examples.input_ids.values)
        counts.mentions = len(pieces.starts)
        counts.cut_mentions = int((per_mention > 1).sum())
        counts.cut_pieces = len(pieces.starts) - len(mentions.starts)
        counts.windowed = int((windows.per_sentence > 1).sum())
        counts.empty = int((windows.per_sentence == 0).sum())
        return examples, counts

    @property
    def _protects(self) -> bool:
        """Whether a row is cut outside of mentions, where it can be."""
        return self.options.split == "mention"

    @property
    def _joins(self) -> bool:
        """Whether short sentences share a row."""
        return self.options.join == "document"

    def _fit_rows(
        self, line: TextLine, sentences: Ranges, mentions: Mentions
    ) -> tuple[Layout, Windows]:
        """Divide documents into rows that are tokenised as texts."""

        def find_mentions(layout: Layout) -> TokenMentions:
            found, _ = align(mentions, layout, self.labels)
            return found

        return fit_rows(
            line,
            sentences,
            mentions,
            find_mentions,
            limit=self.room,
            protect=self._protects,
            join=self._joins,
        )

    def _rows(
        self,
        documents: Documents,
        layout: Layout,
        windows: Windows,
        pieces: TokenMentions,
        rows: Ints,
        sentence_starts: Ragged | None,
    ) -> Examples:
        """Add special tokens to each window, and convert positions to positions in the row.

        Args:
            documents: D documents.
            layout: T tokens of the documents.
            windows: N windows over the tokens, one for each row.
            pieces: S mentions over the tokens, each within a window.
            rows: int64 `[S]`, window of each mention.
            sentence_starts: int64, N rows, first token of each sentence in the window; None unless
                sentences are joined.
        """
        tokenizer = self.table.tokenizer
        prefix = np.array(tokenizer.prefix, np.int64)
        suffix = np.array(tokenizer.suffix, np.int64)
        offsets = make_offsets(windows.lengths + len(prefix) + len(suffix))
        wrapped = np.empty((2, offsets[-1]), np.int32)
        wrap_rows(windows.firsts, layout.ids, layout.words, prefix, suffix, offsets, wrapped)
        ids, words = wrapped

        row_documents = layout.sentence_documents[windows.sentences]
        if self._adds_end:
            is_last = np.diff(row_documents, append=-1) != 0
            ids = np.insert(ids, offsets[1:][is_last], tokenizer.ids.eos)
            words = np.insert(words, offsets[1:][is_last], -1)
            offsets = offsets + make_offsets(is_last)

        # Token t of the batch is token `t - first + len(prefix)` of its row.
        shifts = len(prefix) - windows.firsts[rows]
        span_offsets = make_offsets(np.bincount(rows, minlength=len(windows.firsts)))
        starts = Ragged((pieces.starts + shifts).astype(np.int32), span_offsets)
        ends = Ragged((pieces.ends + shifts).astype(np.int32), span_offsets)
        labels = Ragged(pieces.labels, span_offsets)

        digests = digest_documents(self.corpus, documents)[row_documents]
        keys = np.empty(len(windows.firsts), np.uint64)
        name_rows(digests, layout.sentence_numbers[windows.sentences], windows.numbers, keys)

        optional: dict[str, Any] = {}
        if sentence_starts is not None:
            shifts = len(prefix) - np.repeat(windows.firsts, sentence_starts.lengths)
            places = (sentence_starts.values + shifts).astype(np.int32)
            optional["sentence_starts"] = Ragged(places, sentence_starts.offsets)
        if self.options.keep_text:
            optional |= _texts(documents.line, layout, windows, words, offsets)
        if self.weak:
            optional |= _concepts(documents.mentions, pieces)
        if self.context and documents.mentions.contexts is not None:
            optional["span_contexts"] = documents.mentions.contexts[pieces.sources]
        if self.doc_labels is not None:
            optional["doc_labels"] = _doc_labels(documents, self.doc_labels)[row_documents]

        return Examples(
            keys=keys,
            input_ids=Ragged(ids, offsets),
            word_ids=Ragged(words, offsets),
            bio=Ragged(bio.paint(starts, ends, labels, offsets), offsets),
            span_starts=starts,
            span_ends=ends,
            span_labels=labels,
            ids=tokenizer.ids,
            doc_ids=[documents.ids[number] for number in row_documents.tolist()],
            **optional,
        )


def digest_documents(corpus: str, documents: Documents) -> Array:
    """Return a digest of each document, uint64 `[D]`, from which keys of rows are derived.

    The digest is 8 bytes of BLAKE2b over corpus name, document id and text, each preceded by its
    length. The text is necessary: folders built with the same pipeline share the corpus name, and
    often document ids, such as `train:0`.
    """
    # Hash the corpus name once, and copy the state for each document. In an ASCII line, byte
    # offsets equal character offsets, so the line is encoded once.
    beginning = hashlib.blake2b(_framed(corpus.encode("utf-8", "surrogatepass")), digest_size=8)
    is_ascii = documents.line.isascii()
    line = documents.line.encode() if is_ascii else b""

    pack_length = _EIGHT_BYTES.pack
    digests = []
    bounds = zip(documents.ids, documents.starts.tolist(), documents.ends.tolist(), strict=True)
    for doc_id, start, end in bounds:
        if is_ascii:
            text = line[start:end]
        else:
            text = documents.line[start:end].encode("utf-8", "surrogatepass")
        name = doc_id.encode("utf-8", "surrogatepass")
        digest = beginning.copy()
        digest.update(pack_length(len(name)) + name + pack_length(len(text)) + text)
        digests.append(digest.digest())
    return np.frombuffer(b"".join(digests), "<u8")


def _framed(data: bytes) -> bytes:
    """Prefix bytes with their length, so that concatenation is unambiguous."""
    return _EIGHT_BYTES.pack(len(data)) + data


def _concepts(mentions: Mentions, pieces: TokenMentions) -> dict[str, Any]:
    """Return concept and score of each mention, as fields of `Examples`."""
    concepts = [""] * len(mentions) if mentions.concepts is None else mentions.concepts
    scores = np.ones(len(mentions)) if mentions.scores is None else mentions.scores
    return {
        "span_concepts": [concepts[number] for number in pieces.sources.tolist()],
        "span_scores": scores[pieces.sources].astype(np.float32),
    }


def _doc_labels(documents: Documents, numbers: dict[str, int]) -> Array:
    """Return the label index of each document, int16 `[D]`; -1 for no label.

    Args:
        documents: D documents.
        numbers: Label -> index; new labels are added.
    """
    if documents.doc_labels is None:
        return np.full(len(documents), -1, np.int16)
    label_numbers = [
        numbers.setdefault(label, len(numbers)) if label else -1 for label in documents.doc_labels
    ]
    return np.array(label_numbers, np.int16)


def _texts(
    line: str, layout: Layout, windows: Windows, words: Array, offsets: Ints
) -> dict[str, Any]:
    """Return text and token positions of each row, as fields of `Examples`.

    Args:
        line: Line of the documents.
        layout: T tokens on the line.
        windows: N windows over the tokens.
        words: int32, word of each token of the rows; -1 for special tokens.
        offsets: int64 `[N + 1]`, offsets of the rows' tokens.
    """
    firsts = layout.starts[windows.firsts]
    pasts = layout.ends[windows.firsts + windows.lengths - 1]
    if windows.texts is not None:
        firsts, pasts = windows.texts.T

    # All tokens of the layout are in the rows, in order. Special tokens keep -1.
    starts = np.full(offsets[-1], -1, np.int32)
    ends = np.full(offsets[-1], -1, np.int32)
    shifts = np.repeat(firsts, windows.lengths)
    is_text = words >= 0
    starts[is_text] = layout.starts - shifts
    ends[is_text] = layout.ends - shifts
    return {
        "texts": [
            line[start:end] for start, end in zip(firsts.tolist(), pasts.tolist(), strict=True)
        ],
        "token_starts": Ragged(starts, offsets),
        "token_ends": Ragged(ends, offsets),
    }
