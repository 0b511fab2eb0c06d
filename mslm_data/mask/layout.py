"""Layouts that change lengths: one id in the place of each hidden run, and the runs as a sequence to be written.

Pure functions of rows and plan. A run is tokens hidden next to each other; a plan that knows its units (`joined`) tells
runs apart that touch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples, TokenIds
from mslm_data.data.ragged import Array, Ragged, offsets_of
from mslm_data.kernels.layout import measure_runs, write_inputs, write_targets
from mslm_data.mask.plan import MaskPlan


def sentinel_inputs(examples: Examples, plan: MaskPlan, sentinels: Sequence[int] = ()) -> Ragged:
    """Return the rows with a sentinel in the place of each hidden run: int32, N rows, offsets of their own.

    Args:
        examples: N rows.
        plan: What is hidden, of the same rows.
        sentinels: Their ids, those of a row's first run first; none are those of `default_sentinels`.

    Raises:
        ValueError: A plan of other rows, more runs in a row than sentinels, or sentinels that are no ids.
    """
    hidden, runs, _ = _measured(examples, plan)
    return _inputs(examples, plan, hidden, runs, _marks(examples, runs, sentinels))


def sentinel_targets(examples: Examples, plan: MaskPlan, sentinels: Sequence[int] = ()) -> Ragged:
    """Return what is to be written: each run behind its sentinel, then the special tokens at the row's end.

    Int32, N rows, offsets of their own. A row of special tokens alone is written as it is.

    Args:
        examples: N rows.
        plan: What is hidden, of the same rows.
        sentinels: See `sentinel_inputs`.

    Raises:
        ValueError: See `sentinel_inputs`.
    """
    hidden, runs, tails = _measured(examples, plan)
    marks = _marks(examples, runs, sentinels)
    offsets = offsets_of(hidden + runs + tails)
    out = np.empty(offsets[-1], np.int32)
    ids, kinds = examples.input_ids, plan.kinds.values
    write_targets(ids.offsets, ids.values, kinds, _joined(plan), marks, tails, offsets, out)
    return Ragged(out, offsets)


def single_mask_inputs(examples: Examples, plan: MaskPlan) -> Ragged:
    """Return the rows with one `[MASK]` in the place of each hidden run: int32, N rows, offsets of their own.

    Args:
        examples: N rows.
        plan: What is hidden, of the same rows.

    Raises:
        ValueError: A plan of other rows, or a tokenizer without a mask token.
    """
    if examples.ids.mask < 0:
        raise ValueError(
            "corrupt: expected a tokenizer with a mask token, got one without; a plan needs none"
        )
    hidden, runs, _ = _measured(examples, plan)
    return _inputs(examples, plan, hidden, runs, np.array([examples.ids.mask], np.int32))


def default_sentinels(ids: TokenIds) -> list[int]:
    """Return the sentinels of a tokenizer made for them, as T5 orders its `<extra_id_0>` and on.

    The special ids from the highest down, as long as none is missing; those of mask, pad and unk are none.
    """
    special = set(ids.special) - {ids.mask, ids.pad, ids.unk}
    found: list[int] = []
    highest = max(special, default=-1)
    while highest - len(found) in special:
        found.append(highest - len(found))
    return found


def check_sentinels(sentinels: Sequence[int]) -> None:
    """Refuse what cannot tell spans apart.

    Raises:
        ValueError: The same id twice, or a negative one.
    """
    if len(set(sentinels)) < len(sentinels) or min(sentinels, default=0) < 0:
        raise ValueError("sentinels: expected ids of 0 or more, each once")


def prepend(rows: Ragged, ids: Array) -> Ragged:
    """Return the rows with one more id before each.

    Args:
        rows: N rows.
        ids: `[N]`.
    """
    values = np.insert(rows.values, rows.offsets[:-1], ids)
    return Ragged(values, rows.offsets + np.arange(len(rows.offsets)))


def _measured(examples: Examples, plan: MaskPlan) -> npt.NDArray[np.int64]:
    """Return hidden tokens, runs, and special tokens at the end of each row, `[3, N]`."""
    kinds, words = plan.kinds, examples.word_ids
    if len(kinds.values) != len(words.values) or len(kinds) != len(examples):
        raise ValueError(
            f"plan: expected one of these {len(examples)} rows, got one of {len(kinds)} rows"
        )
    out = np.empty((3, len(examples)), np.int64)
    measure_runs(words.offsets, words.values, kinds.values, _joined(plan), out)
    return out


def _joined(plan: MaskPlan) -> Array:
    return np.ones(len(plan.kinds.values), np.uint8) if plan.joined is None else plan.joined.values


def _inputs(examples: Examples, plan: MaskPlan, hidden: Array, runs: Array, marks: Array) -> Ragged:
    offsets = offsets_of(examples.input_ids.lengths - hidden + runs)
    out, ids = np.empty(offsets[-1] + 1, np.int32), examples.input_ids
    write_inputs(ids.offsets, ids.values, plan.kinds.values, _joined(plan), marks, offsets, out)
    return Ragged(out[:-1], offsets)


def _marks(examples: Examples, runs: Array, sentinels: Sequence[int]) -> npt.NDArray[np.int32]:
    """Return the sentinels, enough for every row."""
    given, need, size = (
        sentinels or default_sentinels(examples.ids),
        int(runs.max(initial=0)),
        examples.ids.size,
    )
    if max(given, default=0) >= size:
        raise ValueError(f"sentinels: expected ids below {size}, the tokenizer's, got {max(given)}")
    if need > len(given):
        raise ValueError(
            f"sentinels: expected {need} for the spans of a row, got {len(given)}"
            f"{'' if sentinels else ' of the tokenizer'}; pass sentinels=(…): ids that stand in no text, in order"
        )
    marks = np.array([*given, -1][: max(len(given), 1)], np.int32)
    if not sentinels:
        special = examples.input_ids.values[examples.word_ids.values < 0]
        if np.isin(special, marks).any():
            raise ValueError(
                "sentinels: expected special ids that stand in no row, and the tokenizer's highest do; pass "
                "sentinels=(…): ids that stand in no text, in order"
            )
    return marks
