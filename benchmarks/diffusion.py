"""Masks of masked diffusion against NeMo Automodel: speed, and a chi-square test.

`python -m benchmarks diffusion`

The peer draws a rate per row and a Bernoulli variable per token with torch's generator, on padded
batches. `pip install --no-deps nemo-automodel` is enough: its corruption needs torch alone.

Dimensions: B rows in a batch, L tokens in a padded row, N rows in total.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

import mslm_data as md
from benchmarks.folders import sentences
from benchmarks.harness import Contestant, Results, Row, in_turn, make_row, unless_absent
from benchmarks.inputs import Inputs
from benchmarks.masking import copy, mask
from mslm_data.data.examples import Examples
from mslm_data.kernels.pad import pad
from mslm_data.mask.strategy import Strategy

_BATCH = 32
_TENTHS = 10

Corrupted = tuple[Tensor, Tensor, Tensor]
"""Corrupted ids, whether each is masked, and its rate, each `[B, L]`."""
Corruption = Callable[[Tensor, Tensor, int], Corrupted]


def run(inputs: Inputs, scratch: Path) -> Results:
    """Time strategy and peers over the same rows, and test masks against rates."""
    examples = sentences(inputs, scratch, copies=1)["train"].examples()
    batches = _batches(examples)
    rows = len(examples)

    our_law = _format_chi_square(*chi_square(*_count_strategy(examples)))
    tokens = len(examples.input_ids.values)

    def measure() -> list[Row]:
        corruption = importlib.import_module("nemo_automodel.components.datasets.dllm.corruption")
        corrupt_uniform: Corruption = corruption.corrupt_uniform
        their_law = _format_chi_square(
            *chi_square(*_count_peer(corrupt_uniform, batches, examples.ids.mask))
        )
        what = (
            "rates, plan and corruption by one call on one core; the peer is `corrupt_uniform` of "
            f"NeMo Automodel, of single tokens, in torch, on batches of {_BATCH} rows that are "
            "padded tensors already; the limit is `ndarray.copy` of ids, word numbers and kinds. "
            f"Masks against rates of single tokens: ours {our_law}, theirs {their_law}."
        )
        return [
            make_row(
                f"diffusion by {units}, beside NeMo Automodel",
                _in_turn(md.strategy("diffusion", units=units), corrupt_uniform, examples, batches),
                unit="rows",
                what=what,
            )
            for units in ("tokens", "words", "mentions")
        ]

    return Results(
        rows=unless_absent("diffusion, beside NeMo Automodel", measure),
        inputs=[f"Diffusion: {rows:,} rows, {tokens:,} tokens"],
    )


def _in_turn(
    strategy: Strategy,
    corrupt: Corruption,
    examples: Examples,
    batches: list[tuple[Tensor, Tensor]],
) -> dict[str, list[float]]:
    def peer(_: None) -> object:
        return [corrupt(ids, maskable, examples.ids.mask) for ids, maskable in batches]

    rows = len(examples)
    contestants = {
        "ours": Contestant(call=lambda _: mask(strategy, examples), work=rows, repeat=4),
        "peer": Contestant(call=peer, work=rows),
        "limit": Contestant(call=lambda _: copy(examples), work=rows, repeat=8),
    }
    return in_turn(contestants, rounds=5)


def chi_square(
    rates: npt.NDArray[np.float64], masked: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> tuple[float, float]:
    """Test the number of masked tokens against the rates, in ten bins of the rate.

    Args:
        rates: Rate of each row, `[N]`.
        masked: Number of masked tokens of each row, `[N]`.
        sizes: Number of maskable tokens of each row, `[N]`.

    Returns:
        The chi-square statistic with ten degrees of freedom, and its p-value.
    """
    tenth = (rates * _TENTHS).astype(int).clip(0, _TENTHS - 1)
    excess = np.bincount(tenth, masked - sizes * rates, _TENTHS)
    variance = np.bincount(tenth, sizes * rates * (1 - rates), _TENTHS)
    square = float((excess**2 / variance).sum())

    # With an even number of degrees of freedom, the survival function is a finite sum.
    half = square / 2
    terms = [half**k / math.factorial(k) for k in range(_TENTHS // 2)]
    return square, math.exp(-half) * sum(terms)


def _count_strategy(
    examples: Examples,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    plan = md.strategy("diffusion").plan(examples)
    assert plan.rates is not None  # noqa: S101
    first = examples.input_ids.offsets[:-1]
    masked = np.add.reduceat((plan.kinds.values > 0).astype(np.int64), first)
    sizes = np.add.reduceat((examples.word_ids.values >= 0).astype(np.int64), first)
    return plan.rates.astype(np.float64), masked, sizes


def _count_peer(
    corrupt: Corruption, batches: list[tuple[Tensor, Tensor]], mask_id: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    torch.manual_seed(0)
    corrupted_batches = [(corrupt(ids, maskable, mask_id), maskable) for ids, maskable in batches]
    rates = torch.cat([rates[:, 0] for (_, _, rates), _ in corrupted_batches]).double().numpy()
    masked = torch.cat([masked.sum(1) for (_, masked, _), _ in corrupted_batches]).numpy()
    return rates, masked, torch.cat([maskable.sum(1) for _, maskable in corrupted_batches]).numpy()


def _batches(examples: Examples) -> list[tuple[Tensor, Tensor]]:
    """Return padded ids, and whether each is maskable, of each batch, both `[B, L]`."""
    batches = []
    for start in range(0, len(examples), _BATCH):
        rows = np.arange(start, min(start + _BATCH, len(examples)))
        width = int(examples.input_ids.lengths[rows].max())
        padded = []
        for column, fill in ((examples.input_ids, 0), (examples.word_ids, -1)):
            out = np.empty((len(rows), width), np.int64)
            bounds = np.arange(len(rows) + 1)
            pad(rows, bounds, column.offsets, column.values, fill, out)
            padded.append(torch.from_numpy(out))
        batches.append((padded[0], padded[1] >= 0))
    return batches


def _format_chi_square(square: float, p_value: float) -> str:
    return f"chi-square {square:.1f} of {_TENTHS} tenths (p = {p_value:.2f})"
