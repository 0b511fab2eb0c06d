"""Tokenises documents into flat arrays of positions on their common line of characters.

All that `encode` does afterwards is arithmetic on the flat arrays that are made here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mslm_data.data.documents import Documents, Ranges
from mslm_data.data.ragged import make_offsets
from mslm_data.encode.word_table import WordTable
from mslm_data.kernels.pieces import find_stretches, lay_pieces

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The N sentences and T tokens of a batch of documents, as positions on the line.

    Attributes:
        sentence_documents: int64 `[N]`, each sentence's document.
        sentence_numbers: int64 `[N]`, its number within the document.
        offsets: int64 `[N + 1]`, tokens of each sentence.
        ids: int64 `[T]`.
        words: int64 `[T]`, each token's word, counted over all documents.
        starts: int64 `[T]`, first character on the line, never falling.
        ends: int64 `[T]`, half open, never falling, past the start.
    """

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


def lay_out(documents: Documents, sentences: Ranges, table: WordTable) -> Layout:
    """Tokenise documents.

    Args:
        documents: D documents.
        sentences: Their sentences.
        table: Words that are known; new ones are added to it.
    """
    line = _tokenised_line(documents)
    chars = np.frombuffer(line.encode("utf-32-le", "surrogatepass"), np.uint32)
    on_line = np.stack([sentences.starts, sentences.ends], axis=1)
    sentence_documents = np.repeat(np.arange(len(documents)), sentences.counts)

    # Words: the source's, or the stretches between white space, of which C characters have at most
    # (C + 1) / 2.
    given = documents.has_words[sentence_documents]
    words = np.stack([documents.words.starts, documents.words.ends], axis=1)
    characters = int(np.diff(on_line[~given]).sum())
    room = len(words) + (characters + len(on_line)) // 2 + 1
    bounds = np.empty((room, 2), np.int64)
    counts = np.empty(len(sentence_documents), np.int64)
    find_stretches(chars, on_line, given, words, bounds, counts)
    bounds = bounds[: counts.sum()]

    # Tokens: the pieces of each word, moved to where the word stands.
    rows = table.rows(line, chars, bounds)
    pieces = table.offsets[rows + 1] - table.offsets[rows]
    offsets = make_offsets(pieces)[make_offsets(counts)]
    tokens = np.empty((4, offsets[-1]), np.int64)
    lay_pieces(counts, given, rows, bounds, table.offsets, table.pieces, tokens)

    ids, token_words, starts, ends = tokens
    numbers = number_within(sentences.counts)
    return Layout(sentence_documents, numbers, offsets, ids, token_words, starts, ends)


def number_within(counts: Ints) -> Ints:
    """Number the items of each group from 0.

    Args:
        counts: int64 `[G]`, items of each group.

    Returns:
        int64 `[counts.sum()]`.
    """
    firsts = np.cumsum(counts) - counts
    numbers: Ints = np.arange(counts.sum()) - np.repeat(firsts, counts)
    return numbers


def _tokenised_line(documents: Documents) -> str:
    """Return the line with placeholders replaced by their words, at the same length.

    The word of a placeholder takes its place. A word that has no room in its placeholder leaves
    white space only.
    """
    marks = documents.placeholders
    pieces: list[str] = []
    past = 0
    for start, end, word in zip(
        marks.starts.tolist(), marks.ends.tolist(), documents.placeholder_words, strict=True
    ):
        if word is None:
            continue
        room = end - start
        pieces.append(documents.line[past:start])
        pieces.append(f" {word}".ljust(room) if len(word) < room else " " * room)
        past = end
    if not pieces:
        return documents.line
    pieces.append(documents.line[past:])
    return "".join(pieces)
