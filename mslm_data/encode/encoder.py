"""Turns documents into rows (`Examples`), with an account of every mention."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mslm_data.data import bio
from mslm_data.data.document import Document, Sentence
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged, offsets_of
from mslm_data.encode.layout import Ints, Layout, lay_out
from mslm_data.encode.mentions import Account, TokenMentions, align, split_at
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.encode.windows import Windows, cut_sentences
from mslm_data.encode.word_table import WordTable
from mslm_data.errors import TokenizerError
from mslm_data.kernels.keys import name_rows
from mslm_data.kernels.pieces import wrap_rows


class Encoder:
    """Tokenises documents and cuts them into rows."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        *,
        max_tokens: int = 512,
        protect_mentions: bool = True,
        keep_text: bool = False,
        weak: bool = False,
        corpus: str = "",
    ) -> None:
        """Begin with no known words.

        Args:
            tokenizer: The tokenizer of all rows.
            labels: The label of each index.
            max_tokens: Maximum tokens of a row, special tokens included.
            protect_mentions: Cut a sentence that is too long where no mention is, if it can be
                done. False cuts before the word that would overflow, as the inputs of Abaho et al.
                2024 were cut.
            keep_text: Give each row its text and its tokens' characters.
            weak: Give each mention its concept and confidence.
            corpus: The name of the corpus, which is part of each row's key.

        Raises:
            TokenizerError: `max_tokens` leaves no room beside the special tokens.
        """
        self._tokenizer = tokenizer
        self._table = WordTable(tokenizer)
        self._labels: Mapping[str, int] = {label: number for number, label in enumerate(labels)}
        self._protect = protect_mentions
        self._keep_text = keep_text
        self._weak = weak
        self._corpus = corpus

        num_special = len(tokenizer.prefix) + len(tokenizer.suffix)
        self._room = max_tokens - num_special
        if self._room < 1:
            raise TokenizerError(
                f"max_tokens: expected room for a token beside the special ones, got {max_tokens}; "
                f"pass {num_special + 1} or more"
            )

    def encode(
        self,
        documents: Sequence[Document],
        sentences: Sequence[Sequence[Sentence]],
        account: Account,
    ) -> Examples:
        """Encode documents; the rows of one do not depend on the others.

        Args:
            documents: Documents with flat, sorted mentions of known labels.
            sentences: The sentences of each document; no mention crosses from one to the next.
            account: Counts of mentions and rows, added to.
        """
        layout = lay_out(documents, sentences, self._table)
        spans = [document.spans for document in documents]
        mentions = align(spans, layout, self._labels, account)
        windows = cut_sentences(layout, mentions, self._room, protect=self._protect)
        pieces, rows = split_at(mentions, windows.firsts)

        per_mention = np.bincount(pieces.sources, minlength=1)
        account.cut_mentions += int((per_mention > 1).sum())
        account.cut_pieces += len(pieces.starts) - len(mentions.starts)
        account.windowed += int((windows.per_sentence > 1).sum())
        account.empty += int((windows.per_sentence == 0).sum())

        return self._rows(documents, layout, windows, pieces, rows)

    def _rows(
        self,
        documents: Sequence[Document],
        layout: Layout,
        windows: Windows,
        pieces: TokenMentions,
        rows: Ints,
    ) -> Examples:
        """Put special tokens around each window, and count everything within its row.

        Args:
            documents: The documents.
            layout: Their tokens.
            windows: Windows over these; one becomes one row.
            pieces: Mentions over these tokens, none of them in two windows.
            rows: int64 `[S]`, the window of each.
        """
        prefix = np.array(self._tokenizer.prefix, np.int64)
        suffix = np.array(self._tokenizer.suffix, np.int64)
        offsets = offsets_of(windows.lengths + len(prefix) + len(suffix))
        wrapped = np.empty((2, offsets[-1]), np.int32)
        wrap_rows(windows.firsts, layout.ids, layout.words, prefix, suffix, offsets, wrapped)
        ids, words = wrapped

        shifts = len(prefix) - windows.firsts[rows]
        span_offsets = offsets_of(np.bincount(rows, minlength=len(windows.firsts)))
        starts = Ragged((pieces.starts + shifts).astype(np.int32), span_offsets)
        ends = Ragged((pieces.ends + shifts).astype(np.int32), span_offsets)
        labels = Ragged(pieces.labels, span_offsets)

        document_of = layout.sentence_documents[windows.sentences]
        optional: dict[str, Any] = {}
        if self._keep_text:
            texts = [document.text for document in documents]
            optional |= _texts(texts, layout, windows, document_of, words, offsets)
        if self._weak:
            optional |= _concepts(documents, pieces)

        return Examples(
            keys=self._keys(documents, layout, windows, document_of),
            input_ids=Ragged(ids, offsets),
            word_ids=Ragged(words, offsets),
            bio=Ragged(bio.paint(starts, ends, labels, offsets), offsets),
            span_starts=starts,
            span_ends=ends,
            span_labels=labels,
            ids=self._tokenizer.ids,
            doc_ids=[documents[number].id for number in document_of.tolist()],
            **optional,
        )

    def _keys(
        self, documents: Sequence[Document], layout: Layout, windows: Windows, document_of: Ints
    ) -> Array:
        """Return the key of each row, uint64 `[W]`."""
        corpus = _framed(self._corpus)
        of_documents = b"".join([_digest(corpus, document) for document in documents])
        digests = np.frombuffer(of_documents, "<u8")
        sentence_numbers = layout.sentence_numbers[windows.sentences]
        keys = np.empty(len(windows.firsts), np.uint64)
        name_rows(digests[document_of], sentence_numbers, windows.numbers, keys)
        return keys


def digest_of(corpus: str, document: Document) -> int:
    """Return the 64 bits that the keys of a document's rows come from.

    They are BLAKE2b of the corpus' name, the document's id and its text, each after its length. The
    text tells corpora apart that have one name and number their documents alike, such as two
    folders built by one pipeline file: their first documents are both `train:0`.
    """
    return int.from_bytes(_digest(_framed(corpus), document), "little")


def _digest(corpus: bytes, document: Document) -> bytes:
    framed = corpus + _framed(document.id) + _framed(document.text)
    return hashlib.blake2b(framed, digest_size=8).digest()


def _framed(text: str) -> bytes:
    """Return the bytes of a text after their number, so that texts in a row stay apart."""
    data = text.encode("utf-8", "surrogatepass")
    return len(data).to_bytes(8, "little") + data


def _concepts(documents: Sequence[Document], pieces: TokenMentions) -> dict[str, Any]:
    """Return each mention's concept and confidence, as fields of `Examples`."""
    spans = [span for document in documents for span in document.spans]
    given = [spans[number] for number in pieces.sources.tolist()]
    return {
        "span_concepts": [span.concept for span in given],
        "span_scores": np.array([span.score for span in given], np.float32),
    }


def _texts(
    texts: Sequence[str],
    layout: Layout,
    windows: Windows,
    document_of: Ints,
    words: Array,
    offsets: Ints,
) -> dict[str, Any]:
    """Return each row's text and its tokens' characters within it, as fields of `Examples`.

    Args:
        texts: The text of each document.
        layout: Tokens.
        windows: Windows over these.
        document_of: int64 `[W]`, each window's document.
        words: int32, the word of each token of the rows; -1 on special tokens.
        offsets: int64 `[W + 1]`, tokens of each row.
    """
    # Characters of each row on the line, and in its document.
    firsts = layout.starts[windows.firsts]
    pasts = layout.ends[windows.firsts + windows.lengths - 1]
    bases = layout.bases[document_of]
    bounds = zip(
        document_of.tolist(), (firsts - bases).tolist(), (pasts - bases).tolist(), strict=True
    )

    # The tokens of the line are those of the rows in order, but for special tokens, which have -1.
    starts = np.full(offsets[-1], -1, np.int32)
    ends = np.full(offsets[-1], -1, np.int32)
    shifts = np.repeat(firsts, windows.lengths)
    is_text = words >= 0
    starts[is_text] = layout.starts - shifts
    ends[is_text] = layout.ends - shifts
    return {
        "texts": [texts[number][start:end] for number, start, end in bounds],
        "token_starts": Ragged(starts, offsets),
        "token_ends": Ragged(ends, offsets),
    }
