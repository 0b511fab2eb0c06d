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
    replaced = _Replaced.from_documents(documents)
    line = replaced.line
    chars = np.frombuffer(line.encode("utf-32-le", "surrogatepass"), np.uint32)
    on_line = replaced.move(np.stack([sentences.starts, sentences.ends], axis=1))
    sentence_documents = np.repeat(np.arange(len(documents)), sentences.counts)

    # Find the words: those of the source, or else character runs between white space. A sentence of
    # C characters has at most (C + 1) / 2 runs, which bounds the size of the result.
    has_words = documents.has_words[sentence_documents]
    words = replaced.move(np.stack([documents.words.starts, documents.words.ends], axis=1))
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

    ids, token_words, token_starts, token_ends = tokens
    starts, ends = replaced.move_back(token_starts, token_ends)
    numbers = count_up(0, sentences.counts)
    return Layout(sentence_documents, numbers, offsets, ids, token_words, starts, ends)


@dataclass(frozen=True, slots=True, eq=False)
class _Replaced:
    """A line in which P placeholders are replaced by their words.

    `[**Hospital1 18**] today`, whose placeholder has the word `hospital`::

        line      " hospital  today"
        old       [[0, 0], [0, 18]]
        new       [[0, 0], [0, 10]]

    A word has a space on both sides, which separates it from its neighbours. Row 0 of `old` and
    `new` is empty: it stands for the start of the line.

    Attributes:
        line: The line to tokenise.
        old: int64 `[1 + P, 2]`, character range of each placeholder on the line of the documents.
        new: int64 `[1 + P, 2]`, character range of its replacement on `line`.
    """

    line: str
    old: Ints
    new: Ints

    @classmethod
    def from_documents(cls, documents: Documents) -> _Replaced:
        """Replace all placeholders except those that are tokenised as they are."""
        marks = documents.placeholders
        has_word = np.array([word is not None for word in documents.placeholder_words], np.bool_)
        bounds = np.stack([marks.starts, marks.ends], axis=1)[has_word]
        old = np.concatenate([np.zeros((1, 2), np.int64), bounds])
        words = ["", *(f" {word} " for word in documents.placeholder_words if word is not None)]

        past = 0
        pieces: list[str] = []
        for (start, end), word in zip(old.tolist(), words, strict=True):
            pieces += (documents.line[past:start], word)
            past = end
        line = "".join([*pieces, documents.line[past:]])

        lengths = np.fromiter(map(len, words), np.int64, len(words))
        ends = old[:, 1] + np.cumsum(lengths - (old[:, 1] - old[:, 0]))
        return cls(line, old, np.stack([ends - lengths, ends], axis=1))

    def move(self, places: Ints) -> Ints:
        """Convert positions on the line of the documents to positions on `line`.

        A position inside a placeholder, such as the end of a sentence, moves behind its word.
        """
        if len(self.old) == 1:  # most lines have no placeholder
            return places
        starts = self.old[:, 0]
        ends = self.old[:, 1]
        new_starts = self.new[:, 0]
        new_ends = self.new[:, 1]
        number = np.searchsorted(starts, places, side="right") - 1
        behind = new_ends[number] + np.maximum(places - ends[number], 0)
        return np.where(places == starts[number], new_starts[number], behind)

    def move_back(self, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
        """Convert tokens on `line` to character ranges on the line of the documents.

        A token of a placeholder's word gets all characters of the placeholder.
        """
        if len(self.old) == 1:
            return starts, ends

        # Shift all tokens by the placeholders before them.
        first, past = np.searchsorted(starts, self.new).T  # tokens of each word
        shifts = self.old[:, 1] - self.new[:, 1]
        token_shifts = np.repeat(shifts, np.diff(first, append=len(starts)))
        starts = starts + token_shifts
        ends = ends + token_shifts

        tokens = count_up(first, past - first)
        starts[tokens] = np.repeat(self.old[:, 0], past - first)
        ends[tokens] = np.repeat(self.old[:, 1], past - first)
        return starts, ends
