"""Replaces placeholders of de-identified text by words, and converts positions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mslm_data.data.documents import Documents
from mslm_data.data.ragged import count_up

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Replaced:
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
    def from_documents(cls, documents: Documents) -> Replaced:
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

    def restore(self, places: Ints) -> Ints:
        """Convert positions on `line` to positions on the line of the documents.

        A position inside a placeholder's word moves behind the placeholder.
        """
        starts = self.new[:, 0]
        number = np.searchsorted(starts, places, side="right") - 1
        behind = self.old[number, 1] + np.maximum(places - self.new[number, 1], 0)
        restored: Ints = np.where(places == starts[number], self.old[number, 0], behind)
        return restored

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
