"""Score which tokens a task model does not need (Selective Masking).

This is the stage on task data of Gu et al. 2020.

The model is behind a callable, so that any framework will do:

    def p_true(rows: list[list[int]], keys: list[int]) -> Sequence[float]

gives for each sequence of token ids the probability of the true label of the row that it comes
from. `rows[i]` has the special tokens around it and is not a row of the folder but what the
algorithm has put together of one; `keys[i]` is that row's key, by which its label is found:
`{row["key"]: labels[row["doc_id"]] for row in load(DIR)["train"]}`. NaN says that a row is not to
be used: it has no label, or, as the paper asks, the model is wrong about it. Only the answer for a
whole row may be NaN; the first call for a key is with its whole row.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.errors import CallError, MslmDataError, VocabularyError

PTrue = Callable[[list[list[int]], list[int]], Sequence[float]]
ROWS_AT_ONCE = 256
"""Rows that are scanned side by side: sequences of one call."""
_ROUNDING = 1e-5


@dataclass(slots=True)
class Confidence:
    """Score tokens by the margin `threshold - drop`.

    A row is scanned from left to right with a buffer that is empty at first. A token w is put to
    its end; where `drop = P(y | row) - P(y | buffer + w)` is below the threshold, w is important
    and taken out again, otherwise it stays (`data/sc_mask_gen.py` at 316eac9; stop words are
    scanned too, and only left unmasked afterwards).

    So the score of a token that was scanned is above 0 just where it is important, and the higher,
    the more the model was sure with it: the transform `flag` gives the released code's set exactly.
    Special tokens and rows that are not used have 0.

    Attributes:
        p_true: See the module.
        threshold: 0.01 in the released configurations.
        rows: Rows that were scanned so far, by this object.
        left_out: Rows that the callable did not want.
        scanned: Tokens of the former.
        important: Important ones among these.

    Raises:
        CallError: A threshold outside `[0, 1]`.
    """

    p_true: PTrue
    threshold: float = 0.01
    rows: int = field(default=0, init=False)
    left_out: int = field(default=0, init=False)
    scanned: int = field(default=0, init=False)
    important: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise CallError(f"threshold: expected a number in [0, 1], got {self.threshold:g}")

    def __call__(
        self, examples: Examples, advance: Callable[[int], None]
    ) -> npt.NDArray[np.float32]:
        """Return a score for each token, `[T]`; see `write_column`.

        Raises:
            VocabularyError: The callable raises, or answers with other than a probability for each
                row.
        """
        ids = examples.input_ids
        out = np.zeros(len(ids.values), np.float32)

        # Rows of like length are done in as many steps, so they are scanned side by side.
        order = np.argsort(-ids.lengths, kind="stable")
        for start in range(0, len(order), ROWS_AT_ONCE):
            places = order[start : start + ROWS_AT_ONCE].tolist()
            scans = [
                _Scan(ids[place].tolist(), (examples.word_ids[place] >= 0).tolist())
                for place in places
            ]
            keys = [int(examples.keys[place]) for place in places]
            self._scan(scans, keys)

            for place, scan in zip(places, scans, strict=True):
                out[ids.offsets[place] : ids.offsets[place + 1]] = scan.margins
            advance(int(ids.lengths[places].sum()))

        return out

    def _scan(self, scans: list[_Scan], keys: list[int]) -> None:
        """Score rows in parallel, one token of each per step."""
        whole = self._ask([scan.ids for scan in scans], keys, may_be_nan=True)
        chosen = [
            (scan, key, p)
            for scan, key, p in zip(scans, keys, whole, strict=True)
            if not math.isnan(p)
        ]
        self.rows += len(chosen)
        self.left_out += len(scans) - len(chosen)

        active = [one for one in chosen if one[0].step()]
        while active:
            rows = [scan.tried() for scan, _, _ in active]
            tried = self._ask(rows, [key for _, key, _ in active])
            for (scan, _, full), p in zip(active, tried, strict=True):
                margin = self.threshold - (full - p)
                scan.decide(margin)
                self.scanned += 1
                self.important += margin > 0

            active = [one for one in active if one[0].step()]

    def _ask(
        self, rows: list[list[int]], keys: list[int], *, may_be_nan: bool = False
    ) -> list[float]:
        """Call the callable for the probability of each row's true label."""
        given = self._given(rows, keys)
        try:
            answer = [float(p) for p in given]
        except (TypeError, ValueError):
            raise VocabularyError(
                f"--callable: expected {len(rows)} probabilities, got {type(given).__name__} that "
                "is not a list of numbers; return one number for each row"
            ) from None

        good = [-_ROUNDING <= p <= 1 + _ROUNDING or (may_be_nan and math.isnan(p)) for p in answer]
        if len(answer) != len(rows) or not all(good):
            raise VocabularyError(
                f"--callable: expected {len(rows)} probabilities, got {len(answer)} numbers, "
                f"{good.count(False)} of them not in [0, 1]"
            )
        return answer

    def _given(self, rows: list[list[int]], keys: list[int]) -> Any:
        """Call the callable, and convert its errors."""
        try:
            # Lists of its own, as it may pad or cut them.
            return self.p_true([[*row] for row in rows], [*keys])
        except (MslmDataError, OSError, MemoryError):
            raise
        except Exception as error:
            raise VocabularyError(
                f"--callable: expected {len(rows)} probabilities, got {type(error).__name__}, "
                "which the function raised; --debug shows where"
            ) from error


class _Scan:
    """A row being scored: the tokens kept so far, and the next one."""

    def __init__(self, ids: list[int], wanted: list[bool]) -> None:
        self.ids = ids
        self._wanted = wanted
        self.margins = [0.0] * len(ids)
        self._kept: list[int] = []
        self._next = -1

        # Special tokens at the row's end follow the buffer in every question.
        at_end = next((i for i, word in enumerate(reversed(wanted)) if word), len(ids))
        self._tail = len(ids) - at_end

    def step(self) -> bool:
        """Advance to the next regular token; special tokens before it are kept.

        Returns False at the row's end.
        """
        self._next += 1
        while self._next < len(self.ids) and not self._wanted[self._next]:
            self._kept.append(self.ids[self._next])
            self._next += 1
        return self._next < len(self.ids)

    def tried(self) -> list[int]:
        """Return the kept tokens, the next token, and the final special tokens."""
        return [*self._kept, self.ids[self._next], *self.ids[self._tail :]]

    def decide(self, margin: float) -> None:
        """Store the token's margin; keep the token if it is unimportant."""
        self.margins[self._next] = margin
        if not margin > 0:
            self._kept.append(self.ids[self._next])


def load_callable(name: str) -> PTrue:
    """Import `package.module:function`.

    Raises:
        VocabularyError: No such module or function, or a module that raises as it is imported.
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute or module.startswith("."):
        raise VocabularyError(f"--callable: expected package.module:function, got '{name}'")
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        raise VocabularyError(
            f"--callable {name}: no module '{error.name}'; it is looked for where Python looks and "
            "in this folder"
        ) from None
    except (MslmDataError, OSError, MemoryError):
        raise
    except Exception as error:
        raise VocabularyError(
            f"--callable {name}: expected a module that can be imported, got "
            f"{type(error).__name__}; --debug shows where"
        ) from error
    if not callable(found):
        raise VocabularyError(
            f"--callable {name}: expected a function '{attribute}' in '{module}', found none"
        )
    function: PTrue = found
    return function
