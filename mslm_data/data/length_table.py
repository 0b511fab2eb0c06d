"""Sums over rows, from which those of short and of long rows can be separated."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]


class LengthTable:
    """Sums of columns over rows, by the number of words in a row.

    The mean number of words is known only after the last row. From these sums, rows shorter and
    longer than the mean can be separated without a second pass. Column 0 counts rows.
    """

    def __init__(self, columns: int) -> None:
        """Start without rows."""
        self._sums = np.zeros((0, columns), np.int64)

    def add(self, words: Counts, rows: Counts) -> None:
        """Add rows.

        Args:
            words: `[N]`, the number of words in each row.
            rows: `[N, columns]`, the values to sum of each row, of which the first is 1.
        """
        missing = int(words.max(initial=-1)) + 1 - len(self._sums)
        if missing > 0:
            self._sums = np.pad(self._sums, ((0, missing), (0, 0)))

        # A column at a time: 5 times as fast as `np.add.at` of whole rows.
        for column, values in enumerate(rows.T):
            sums = np.bincount(words, values, minlength=len(self._sums))
            self._sums[:, column] += sums.astype(np.int64)

    def totals(self) -> tuple[int, int]:
        """Return the numbers of rows and of words."""
        rows = self._sums[:, 0]
        return int(rows.sum()), int(rows @ np.arange(len(rows)))

    def mean_words(self) -> float:
        """Return the mean number of words per row; 0 without rows."""
        rows, words = self.totals()
        return words / rows if rows else 0.0

    def groups(self, mean_words: float | None = None) -> tuple[Counts, Counts, Counts]:
        """Return the sums of all rows, of shorter rows, and of longer rows, `[columns]` each.

        Args:
            mean_words: Number of words that separates shorter from longer rows; rows with exactly
                this number are in neither. Default: the mean of all rows.
        """
        lengths = np.arange(len(self._sums))
        if mean_words is None:
            # Compare `length < words / rows` in integers, without rounding.
            rows, words = self.totals()
            side = np.sign(lengths * rows - words)
        else:
            side = np.sign(lengths - mean_words)

        groups = (self._sums, self._sums[side < 0], self._sums[side > 0])
        whole, shorter, longer = (group.sum(axis=0) for group in groups)
        return whole, shorter, longer
