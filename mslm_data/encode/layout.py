"""Lays documents end to end on one line of characters, and their tokens on it.

All that `encode` does afterwards is arithmetic on the flat arrays that are made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from mslm_data.data.document import Document, Placeholder, Sentence
from mslm_data.data.ragged import offsets_of
from mslm_data.encode.word_table import WordTable
from mslm_data.kernels.pieces import count_pieces, find_stretches, lay_pieces

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """D documents, N sentences and T tokens of a batch of documents.

    Attributes:
        bases: int64 `[D + 1]`, where each document's text begins on the line; one character lies
            between two texts.
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
        documents: D documents.
        sentences: The sentences of each document.
        table: Words that are known; new ones are added to it.
    """
    texts = [tokenised_text(document.text, document.placeholders) for document in documents]
    line = "\n".join(texts)
    chars = np.frombuffer(line.encode("utf-32-le", "surrogatepass"), np.uint32)
    bases = offsets_of(np.fromiter(map(len, texts), np.int64, len(texts)) + 1)

    # Sentences of all documents, on the line.
    per_document = np.fromiter(map(len, sentences), np.int64, len(documents))
    document_of = np.repeat(np.arange(len(documents)), per_document)
    number_of = number_within(per_document)
    positions = chain.from_iterable(chain.from_iterable(sentences))
    on_line = np.fromiter(positions, np.int64, 2 * len(document_of)).reshape(-1, 2)
    on_line += bases[document_of, None]

    # Words: the source's, or the stretches between white space, of which C characters have at most
    # (C + 1) / 2.
    has_words = [document.words is not None for document in documents]
    given = np.array(has_words, np.bool_)[document_of]
    words = _given_words([document.words for document in documents], bases)
    characters = int(np.diff(on_line[~given]).sum())
    room = len(words) + (characters + len(on_line)) // 2 + 1
    bounds = np.empty((room, 2), np.int64)
    counts = np.empty(len(document_of), np.int64)
    find_stretches(chars, on_line, given, words, bounds, counts)
    bounds = bounds[: counts.sum()]

    # Tokens: the pieces of each word, moved to where the word stands.
    rows = table.rows(line, chars, bounds)
    offsets = np.empty(len(document_of) + 1, np.int64)
    count_pieces(counts, rows, table.offsets, offsets)
    tokens = np.empty((4, offsets[-1]), np.int64)
    lay_pieces(counts, given, rows, bounds, table.offsets, table.pieces, tokens)

    ids, token_words, starts, ends = tokens
    return Layout(bases, document_of, number_of, offsets, ids, token_words, starts, ends)


def number_within(counts: Ints) -> Ints:
    """Return 0, 1, 2 … for the items of each group.

    Args:
        counts: int64 `[G]`, items of each group.

    Returns:
        int64 `[counts.sum()]`.
    """
    firsts = np.cumsum(counts) - counts
    numbers: Ints = np.arange(counts.sum()) - np.repeat(firsts, counts)
    return numbers


def tokenised_text(text: str, placeholders: Sequence[Placeholder]) -> str:
    """Return the characters of a document that are tokenised, in a string as long as its text.

    The word of a placeholder takes its place. A word that has no room in its placeholder leaves
    white space only.
    """
    if not placeholders:
        return text

    pieces: list[str] = []
    past = 0
    for start, end, word in placeholders:
        if word is None:
            continue
        room = end - start
        pieces.append(text[past:start])
        pieces.append(f" {word}".ljust(room) if len(word) < room else " " * room)
        past = end
    pieces.append(text[past:])
    return "".join(pieces)


def _given_words(words: Sequence[npt.NDArray[np.int32] | None], bases: Ints) -> Ints:
    """Return the words of the documents that have words, on the line, int64 `[G, 2]`."""
    nothing = np.empty((0, 2), np.int32)
    of_documents = [nothing if given is None else given for given in words]
    placed = np.concatenate([nothing, *of_documents], dtype=np.int64)
    placed += np.repeat(bases[:-1], [len(given) for given in of_documents])[:, None]
    return placed
