"""Tokenises documents into rows (`Examples`), and counts what becomes of every mention."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from mslm_data.data import bio
from mslm_data.data.documents import Documents, Mentions, Ranges
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged, make_offsets
from mslm_data.encode.layout import Ints, Layout, lay_out
from mslm_data.encode.mentions import Account, TokenMentions, align, split_at
from mslm_data.encode.windows import Windows, cut_sentences, join_sentences
from mslm_data.encode.word_table import WordTable
from mslm_data.errors import TokenizerError
from mslm_data.kernels.keys import name_rows
from mslm_data.kernels.pieces import wrap_rows

_EIGHT_BYTES = struct.Struct("<Q")


class Encoder:
    """Tokenise documents and cut them into rows of at most `max_tokens`."""

    def __init__(
        self,
        table: WordTable,
        labels: Mapping[str, int],
        *,
        max_tokens: int = 512,
        protect_mentions: bool = True,
        join: bool = False,
        keep_text: bool = False,
        weak: bool = False,
        context: bool = False,
        corpus: str = "",
        doc_labels: dict[str, int] | None = None,
    ) -> None:
        """Keep the options.

        Args:
            table: The tokenizer, with its cache of words.
            labels: Label -> index. Callers may add labels before they encode mentions with them.
            max_tokens: Maximum tokens of a row, special tokens included.
            protect_mentions: Cut long sentences outside mentions where possible. False cuts before
                the first word that does not fit, as Abaho et al. 2024 did.
            join: Join consecutive sentences of a document into rows of at most `max_tokens`; rows
                get `sentence_starts`.
            keep_text: Store the text of each row and the characters of its tokens.
            weak: Store the concept and score of each mention.
            context: Store the context flags of each mention.
            corpus: Name of the corpus, part of each row's key.
            doc_labels: Label of a document -> index; new labels are added. None: no `doc_label`
                column.

        Raises:
            TokenizerError: `max_tokens` leaves no room beside the special tokens.
        """
        self._table = table
        self._tokenizer = table.tokenizer
        self._labels = labels
        self._protect = protect_mentions
        self._join = join
        self._keep_text = keep_text
        self._weak = weak
        self._context = context
        self._corpus = corpus
        self._doc_labels = doc_labels

        num_special = len(self._tokenizer.prefix) + len(self._tokenizer.suffix)
        self._room = max_tokens - num_special
        if self._room < 1:
            raise TokenizerError(
                f"max_tokens: expected at least {num_special + 1} (special tokens and one more), "
                f"got {max_tokens}"
            )

    def encode(self, documents: Documents, sentences: Ranges, account: Account) -> Examples:
        """Encode documents. The rows of a document do not depend on the other documents.

        Args:
            documents: Documents with flat, sorted mentions of known labels.
            sentences: The sentences of each document; no mention crosses a boundary.
            account: Counts of mentions and rows, updated.
        """
        layout = lay_out(documents, sentences, self._table)
        mentions = align(documents.mentions, layout, self._labels, account)
        windows = cut_sentences(layout, mentions, self._room, protect=self._protect)
        starts: Ragged | None = None
        if self._join:
            windows, starts = join_sentences(windows, layout.sentence_documents, self._room)
        pieces, rows = split_at(mentions, windows.firsts)

        per_mention = np.bincount(pieces.sources, minlength=1)
        account.cut_mentions += int((per_mention > 1).sum())
        account.cut_pieces += len(pieces.starts) - len(mentions.starts)
        account.windowed += int((windows.per_sentence > 1).sum())
        account.empty += int((windows.per_sentence == 0).sum())

        return self._rows(documents, layout, windows, pieces, rows, starts)

    def _rows(
        self,
        documents: Documents,
        layout: Layout,
        windows: Windows,
        pieces: TokenMentions,
        rows: Ints,
        sentence_starts: Ragged | None,
    ) -> Examples:
        """Add special tokens to each window, and make positions relative to the row.

        Args:
            documents: The documents.
            layout: Their tokens.
            windows: Windows over these; one becomes one row.
            pieces: Mentions over these tokens, none of them in two windows.
            rows: int64 `[S]`, the window of each.
            sentence_starts: int64, the tokens at which each window's sentences begin; None unless
                sentences are joined.
        """
        prefix = np.array(self._tokenizer.prefix, np.int64)
        suffix = np.array(self._tokenizer.suffix, np.int64)
        offsets = make_offsets(windows.lengths + len(prefix) + len(suffix))
        wrapped = np.empty((2, offsets[-1]), np.int32)
        wrap_rows(windows.firsts, layout.ids, layout.words, prefix, suffix, offsets, wrapped)
        ids, words = wrapped

        shifts = len(prefix) - windows.firsts[rows]
        span_offsets = make_offsets(np.bincount(rows, minlength=len(windows.firsts)))
        starts = Ragged((pieces.starts + shifts).astype(np.int32), span_offsets)
        ends = Ragged((pieces.ends + shifts).astype(np.int32), span_offsets)
        labels = Ragged(pieces.labels, span_offsets)

        row_documents = layout.sentence_documents[windows.sentences]
        optional: dict[str, Any] = {}
        if sentence_starts is not None:
            shifts = len(prefix) - np.repeat(windows.firsts, sentence_starts.lengths)
            places = (sentence_starts.values + shifts).astype(np.int32)
            optional["sentence_starts"] = Ragged(places, sentence_starts.offsets)
        if self._keep_text:
            optional |= _texts(documents.line, layout, windows, words, offsets)
        if self._weak:
            optional |= _concepts(documents.mentions, pieces)
        if self._context and documents.mentions.contexts is not None:
            optional["span_contexts"] = documents.mentions.contexts[pieces.sources]
        if self._doc_labels is not None:
            optional["doc_labels"] = _doc_labels(documents, self._doc_labels)[row_documents]

        return Examples(
            keys=self._keys(documents, layout, windows, row_documents),
            input_ids=Ragged(ids, offsets),
            word_ids=Ragged(words, offsets),
            bio=Ragged(bio.paint(starts, ends, labels, offsets), offsets),
            span_starts=starts,
            span_ends=ends,
            span_labels=labels,
            ids=self._tokenizer.ids,
            doc_ids=[documents.ids[number] for number in row_documents.tolist()],
            **optional,
        )

    def _keys(
        self, documents: Documents, layout: Layout, windows: Windows, row_documents: Ints
    ) -> Array:
        """Return the key of each row, uint64 `[W]`."""
        digests = digest_documents(self._corpus, documents)
        sentence_numbers = layout.sentence_numbers[windows.sentences]
        keys = np.empty(len(windows.firsts), np.uint64)
        name_rows(digests[row_documents], sentence_numbers, windows.numbers, keys)
        return keys


def digest_documents(corpus: str, documents: Documents) -> Array:
    """Return the digest of each document, uint64 `[D]`; row keys are derived from it.

    The digest is BLAKE2b of the name of the corpus, the id of the document and its text, each
    preceded by its length. The text is included because two folders that were built with the same
    pipeline file have the same name and may have the same ids, such as `train:0`.
    """
    # The corpus is digested once for all documents. In an ASCII line, byte offsets are character
    # offsets, so texts need not be encoded one by one.
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
    """Return the concept and confidence of each piece, as fields of `Examples`."""
    concepts = [""] * len(mentions) if mentions.concepts is None else mentions.concepts
    scores = np.ones(len(mentions)) if mentions.scores is None else mentions.scores
    return {
        "span_concepts": [concepts[number] for number in pieces.sources.tolist()],
        "span_scores": scores[pieces.sources].astype(np.float32),
    }


def _doc_labels(documents: Documents, numbers: dict[str, int]) -> Array:
    """Return the number of each document's label, int16 `[D]`, -1 where it has none.

    Args:
        documents: The documents.
        numbers: Label -> number; new labels are added.
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
    """Return each row's text and its tokens' characters within it, as fields of `Examples`.

    Args:
        line: The line of characters.
        layout: Tokens on it.
        windows: Windows over these.
        words: int32, word of each token of the rows; -1 on special tokens.
        offsets: int64 `[W + 1]`, tokens of each row.
    """
    firsts = layout.starts[windows.firsts]
    pasts = layout.ends[windows.firsts + windows.lengths - 1]

    # The rows have the tokens of the line in order; special tokens between them keep -1.
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
