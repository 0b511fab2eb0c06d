"""Documents laid end to end on one line of characters, and their tokens on it.

Everything `encode` does after this is arithmetic on the flat arrays that are made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from mslm_data.data.document import Document, Sentence
from mslm_data.data.ragged import offsets_of
from mslm_data.encode.word_table import WordTable
from mslm_data.kernels.words import count_pieces, find_words, lay_pieces

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Documents, sentences and T tokens of a batch of documents.

    Attributes:
        bases: int64 `[D + 1]`, where each document's text begins on the line; one character lies between two.
        sentence_documents: int64 `[N]`, each sentence's document.
        sentence_numbers: int64 `[N]`, its number within the document.
        offsets: int64 `[N + 1]`, tokens of each sentence.
        ids: int64 `[T]`.
        words: int64 `[T]`, each token's word, counted over all documents.
        starts: int64 `[T]`, first character on the line, never falling.
        ends: int64 `[T]`, half open, never falling, past the start.
    """

    bases: Ints
    sentence_documents: Ints
    sentence_numbers: Ints
    offsets: Ints
    ids: Ints
    words: Ints
    starts: Ints
    ends: Ints

    @property
    def heads(self) -> npt.NDArray[np.bool_]:
        """Whether each token begins its word, `[T]`."""
        heads: npt.NDArray[np.bool_] = np.diff(self.words, prepend=-1) != 0
        return heads


def lay_out(
    documents: Sequence[Document], sentences: Sequence[Sequence[Sentence]], table: WordTable
) -> Layout:
    """Tokenise documents.

    Args:
        documents: Any number.
        sentences: Of each document.
        table: Filled with the words that are new.
    """
    texts = [shown(document) for document in documents]
    line = "\n".join(texts)
    chars = np.frombuffer(line.encode("utf-32-le", "surrogatepass"), np.uint32)
    bases = offsets_of(np.fromiter(map(len, texts), np.int64, len(texts)) + 1)
    per_document = np.fromiter(map(len, sentences), np.int64, len(documents))
    document = np.repeat(np.arange(len(documents)), per_document)
    on_line = np.fromiter(
        chain.from_iterable(chain.from_iterable(sentences)), np.int64, 2 * len(document)
    )
    on_line = on_line.reshape(-1, 2) + bases[document, None]
    given = np.array([document.words is not None for document in documents], np.bool_)[document]
    words = _given_words(documents, bases)
    room = len(words) + int((np.diff(on_line[~given]).sum() + len(on_line)) // 2 + 1)
    bounds, counts = np.empty((room, 2), np.int64), np.empty(len(document), np.int64)
    find_words(chars, on_line, given, words, bounds, counts)
    bounds = bounds[: counts.sum()]
    rows = table.rows(line, chars, bounds)
    offsets = np.empty(len(document) + 1, np.int64)
    count_pieces(counts, rows, table.offsets, offsets)
    tokens = np.empty((4, offsets[-1]), np.int64)
    lay_pieces(counts, given, rows, bounds, table.offsets, table.pieces, tokens)
    numbers = np.arange(len(document)) - np.repeat(
        np.cumsum(per_document) - per_document, per_document
    )
    return Layout(bases, document, numbers, offsets, *tokens)


def shown(document: Document) -> str:
    """Return what of a document is tokenised: its text, with placeholders' words in their place, of the same length.

    A word that is longer than its placeholder leaves white space only.
    """
    if not document.placeholders:
        return document.text
    pieces: list[str] = []
    end = 0
    for placeholder in document.placeholders:
        if placeholder.word is not None:
            room = placeholder.end - placeholder.start
            word = f" {placeholder.word}" if len(placeholder.word) < room else ""
            pieces += [document.text[end : placeholder.start], word.ljust(room)]
            end = placeholder.end
    return "".join([*pieces, document.text[end:]])


def _given_words(documents: Sequence[Document], bases: Ints) -> Ints:
    """Return the words of all documents that have words, on the line."""
    none = np.empty((0, 2), np.int32)
    words = [none if document.words is None else document.words for document in documents]
    placed = np.concatenate([none, *words], dtype=np.int64)
    placed += np.repeat(bases[:-1], [*map(len, words)])[:, None]
    return placed
