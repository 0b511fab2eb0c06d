"""Tokenises documents to flat arrays of token positions on the line.

The other steps of `encode` are arithmetic on these arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mslm_data.data.documents import Documents, Ranges
from mslm_data.data.ragged import count_up, make_offsets
from mslm_data.encode.word_table import WordTable
from mslm_data.kernels.pieces import find_stretches, lay_pieces

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The N sentences and T tokens of a batch of documents.

    Tokens of the word `causes` in `Warfarin causes haemorrhage .`::

        token    id  word  start  end
            4  1044     1      9   13
            5   239     1     13   15

    Attributes:
        sentence_documents: int64 `[N]`, document of each sentence.
        sentence_numbers: int64 `[N]`, index of the sentence within its document.
        offsets: int64 `[N + 1]`, offsets of the sentences' tokens.
        ids: int64 `[T]`, token ids.
        words: int64 `[T]`, word of each token, counted over all documents.
        starts: int64 `[T]`, first character on the line, non-decreasing.
        ends: int64 `[T]`, character after the last, non-decreasing, greater than the start.
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
        """Whether each token is the first of its word, bool `[T]`."""
        heads: npt.NDArray[np.bool_] = np.diff(self.words, prepend=-1) != 0
        return heads


def lay_out(documents: Documents, sentences: Ranges, table: WordTable) -> Layout:
    """Tokenise documents.

    Args:
        documents: D documents.
        sentences: Sentences of the documents.
        table: Cache of tokenised words; new words are added.
    """
    line = _tokenised_line(documents)
    chars = np.frombuffer(line.encode("utf-32-le", "surrogatepass"), np.uint32)
    on_line = np.stack([sentences.starts, sentences.ends], axis=1)
    sentence_documents = np.repeat(np.arange(len(documents)), sentences.counts)

    # Find the words: those of the source, or else character runs between white space. A sentence of
    # C characters has at most (C + 1) / 2 runs, which bounds the size of the result.
    has_words = documents.has_words[sentence_documents]
    words = np.stack([documents.words.starts, documents.words.ends], axis=1)
    characters = int(np.diff(on_line[~has_words]).sum())
    room = len(words) + (characters + len(on_line)) // 2 + 1
    bounds = np.empty((room, 2), np.int64)
    counts = np.empty(len(sentence_documents), np.int64)
    find_stretches(chars, on_line, has_words, words, bounds, counts)
    bounds = bounds[: counts.sum()]

    # Look up the pieces of each word, and move them to the position of the word.
    rows = table.rows(line, chars, bounds)
    pieces = table.offsets[rows + 1] - table.offsets[rows]
    offsets = make_offsets(pieces)[make_offsets(counts)]
    tokens = np.empty((4, offsets[-1]), np.int64)
    lay_pieces(counts, has_words, rows, bounds, table.offsets, table.pieces, tokens)

    ids, token_words, starts, ends = tokens
    numbers = count_up(0, sentences.counts)
    return Layout(sentence_documents, numbers, offsets, ids, token_words, starts, ends)


def _tokenised_line(documents: Documents) -> str:
    """Return the line with placeholders replaced by their words.

    The length stays the same: a word is padded by spaces, and a word longer than its placeholder is
    replaced by spaces.
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
        # A space before the word separates it from preceding characters.
        pieces.append(f" {word}".ljust(room) if len(word) < room else " " * room)
        past = end
    if not pieces:
        return documents.line
    pieces.append(documents.line[past:])
    return "".join(pieces)
