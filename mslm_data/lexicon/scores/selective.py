"""Score the importance of tokens for a task model (Selective Masking, Gu et al. 2020).

This is the stage on task data. The model is wrapped by a callable, for any framework:

    def p_true(rows: list[list[int]], keys: list[int]) -> Sequence[float]

It returns for each sequence of token ids the probability of the true label. `rows[i]` includes
special tokens, and is a subsequence of a row of the folder, built by the algorithm; `keys[i]` is
the key of that row, to look up its label: `{row["key"]: labels[row["doc_id"]] for row in
load(DIR)["train"]}`. NaN skips a row, for example without a label or, as in the paper, with a wrong
prediction. Only the probability of a complete row may be NaN; the first call for a key has the
complete row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.errors import VocabularyError

PTrue = Callable[[list[list[int]], list[int]], Sequence[float]]
ROWS_AT_ONCE = 256
"""Number of rows scanned in parallel: sequences in one call."""
_ROUNDING = 1e-5
"""Tolerance for probabilities outside of [0, 1]."""


@dataclass(slots=True)
class Confidence:
    """Score tokens by the margin `threshold - drop`.

    Each row is scanned from left to right with an initially empty buffer. A token w is appended to
    the buffer, and `drop = P(y | row) - P(y | buffer + w)` computed. If the drop is below the
    threshold, w is important and removed again; otherwise it stays (`data/sc_mask_gen.py` at
    316eac9; there stop words are scanned too, but not masked).

    The score of a token is above 0 only if it is important, and higher the more the model's
    confidence rises. The transform `flag` reproduces the set of the released code. Special tokens
    and skipped rows get 0.

    Attributes:
        p_true: The callable, see the module.
        threshold: Threshold of the drop. Default: 0.01, as in the released configurations.
        rows: Number of rows scanned so far.
        left_out: Number of rows skipped by the callable.
        scanned: Number of tokens scanned.
        important: Number of important tokens.
    """

    p_true: PTrue
    threshold: float = 0.01
    rows: int = field(default=0, init=False)
    left_out: int = field(default=0, init=False)
    scanned: int = field(default=0, init=False)
    important: int = field(default=0, init=False)

    def __call__(
        self, examples: Examples, advance: Callable[[int], None]
    ) -> npt.NDArray[np.float32]:
        """Return a score for each token, `[T]`; see `write_column`.

        Raises:
            VocabularyError: The callable raises an error, or does not return a probability for each
                row.
        """
        ids = examples.input_ids
        out = np.zeros(len(ids.values), np.float32)

        # Rows of similar length need the same number of steps, so scan these in parallel.
        order = np.argsort(-ids.lengths, kind="stable")
        for start in range(0, len(order), ROWS_AT_ONCE):
            row_numbers = order[start : start + ROWS_AT_ONCE].tolist()
            scans = [
                _Scan(ids[row].tolist(), (examples.word_ids[row] >= 0).tolist())
                for row in row_numbers
            ]
            keys = [int(examples.keys[row]) for row in row_numbers]
            self._scan(scans, keys)

            for row, scan in zip(row_numbers, scans, strict=True):
                out[ids.offsets[row] : ids.offsets[row + 1]] = scan.margins
            advance(int(ids.lengths[row_numbers].sum()))

        return out

    def _scan(self, scans: list[_Scan], keys: list[int]) -> None:
        """Score rows in parallel, one token of each row per step."""
        row_probabilities = self._ask([scan.ids for scan in scans], keys, may_be_nan=True)
        kept = [
            (scan, key, p)
            for scan, key, p in zip(scans, keys, row_probabilities, strict=True)
            if not math.isnan(p)
        ]
        self.rows += len(kept)
        self.left_out += len(scans) - len(kept)

        # One call per step, for the next token of all rows that have one.
        active = [(scan, key, p) for scan, key, p in kept if scan.step()]
        while active:
            rows = [scan.candidate() for scan, _, _ in active]
            probabilities = self._ask(rows, [key for _, key, _ in active])
            for (scan, _, row_p), p in zip(active, probabilities, strict=True):
                margin = self.threshold - (row_p - p)
                scan.record(margin)
                self.scanned += 1
                self.important += margin > 0

            active = [(scan, key, p) for scan, key, p in active if scan.step()]

    def _ask(
        self, rows: list[list[int]], keys: list[int], *, may_be_nan: bool = False
    ) -> list[float]:
        """Return the probability of each row's true label, checked."""
        try:
            # Pass copies, since the callable may pad or cut them in place.
            probabilities = [float(p) for p in self.p_true([[*row] for row in rows], [*keys])]
        except Exception as error:  # the user's code may raise anything
            raise VocabularyError(
                f"--callable: expected a list of {len(rows)} numbers from the function, got "
                f"{type(error).__name__}; --debug shows where"
            ) from error

        good = [
            -_ROUNDING <= p <= 1 + _ROUNDING or (may_be_nan and math.isnan(p))
            for p in probabilities
        ]
        if len(probabilities) != len(rows) or not all(good):
            raise VocabularyError(
                f"--callable: expected {len(rows)} probabilities, got {len(probabilities)} "
                f"numbers, {good.count(False)} of them not in [0, 1]"
            )
        return probabilities


class _Scan:
    """A row being scanned: the buffer, and the next token."""

    def __init__(self, ids: list[int], is_word: list[bool]) -> None:
        self.ids = ids
        self._is_word = is_word
        self.margins = [0.0] * len(ids)
        self._buffer: list[int] = []
        self._next = -1

        # Special tokens at the end of the row follow the buffer in every candidate.
        tail_length = next((i for i, word in enumerate(reversed(is_word)) if word), len(ids))
        self._tail = len(ids) - tail_length

    def step(self) -> bool:
        """Advance to the next regular token; special tokens before it join the buffer.

        Returns False at the end of the row.
        """
        self._next += 1
        while self._next < len(self.ids) and not self._is_word[self._next]:
            self._buffer.append(self.ids[self._next])
            self._next += 1
        return self._next < len(self.ids)

    def candidate(self) -> list[int]:
        """Return the buffer, the next token, and the final special tokens."""
        return [*self._buffer, self.ids[self._next], *self.ids[self._tail :]]

    def record(self, margin: float) -> None:
        """Store the token's margin; append the token to the buffer if it is not important."""
        self.margins[self._next] = margin
        if not margin > 0:
            self._buffer.append(self.ids[self._next])
