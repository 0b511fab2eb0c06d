"""Masks of masked diffusion beside the corruption of `dllm` and NeMo Automodel: speed, and law.

Both draw a rate for each row and a coin for each token from torch's generator, on padded batches.
Their lines are written anew here from what their code does (`dllm/core/trainers/mdlm.py`,
`nemo_automodel/components/datasets/dllm/corruption.py`), because neither installs beside ours.

Batches have B rows of L tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

import mslm_data as md
from benchmarks.folders import sentences
from benchmarks.harness import Contestant, Results, in_turn, row_of
from benchmarks.inputs import Inputs
from benchmarks.masking import copy, mask
from mslm_data.data.examples import Examples
from mslm_data.kernels.pad import pad_rows
from mslm_data.mask.strategy import Strategy

_BATCH = 32
_TENTHS = 10
_LOW = 0.001

Corrupted = tuple[Tensor, Tensor, Tensor]
"""Ids `[B, L]`, which are masked `[B, L]`, and each row's rate `[B]`."""
Corruption = Callable[[Tensor, Tensor, int], Corrupted]


def run(inputs: Inputs, scratch: Path) -> Results:
    """Time each over the same rows, and compare masks with rates."""
    examples = sentences(inputs, scratch, copies=1)["train"].examples()
    batches = _batches(examples)
    rows = len(examples)

    law = _says(*chi_square(*_of_strategy(examples)))
    tokens = len(examples.input_ids.values)
    results = Results(inputs=[f"Diffusion: {rows:,} rows, {tokens:,} tokens"])
    for units in ("tokens", "words", "mentions"):
        for name, corrupt in (("dllm", as_dllm), ("NeMo Automodel", as_automodel)):
            rates = _in_turn(md.strategy("diffusion", units=units), corrupt, examples, batches)
            theirs = _says(*chi_square(*_of_peer(corrupt, batches, examples.ids.mask)))
            results.rows.append(
                row_of(
                    f"diffusion by {units}, beside {name}",
                    rates,
                    unit="rows",
                    what="rates, plan and corruption by one call on one core; the peer has what "
                    f"{name} does to single tokens, in torch, on batches of {_BATCH} rows that are "
                    "padded tensors already; the limit is `ndarray.copy` of ids, word numbers and "
                    f"kinds. Masks against rates of single tokens: ours {law}, theirs {theirs}.",
                )
            )
    return results


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


def as_dllm(ids: Tensor, maskable: Tensor, mask_id: int) -> Corrupted:
    """Corrupt a batch as `MDLMTrainer.compute_loss` does with the linear schedule."""
    rows, width = ids.shape
    times = _LOW + (1 - _LOW) * torch.rand(rows)
    # alpha(t) = 1 - t, and tokens are masked with chance 1 - alpha.
    of_tokens = (1.0 - (1 - times)).unsqueeze(1).expand(rows, width)
    masked = (torch.rand((rows, width)) < of_tokens) & maskable
    # Its weights, 1 / t, are made for all tokens.
    (1 / times).unsqueeze(1).repeat(1, width)
    return torch.where(masked, mask_id, ids), masked, times


def as_automodel(ids: Tensor, maskable: Tensor, mask_id: int) -> Corrupted:
    """Corrupt a batch as `corrupt_uniform` does."""
    rows, width = ids.shape
    chances = (1 - _LOW) * torch.rand((rows,)) + _LOW
    of_tokens = chances[:, None].expand(rows, width)
    masked = (torch.rand((rows, width)) < of_tokens) & maskable.bool()
    corrupted = torch.where(masked, mask_id, ids)
    of_tokens.float()
    return corrupted, masked, chances


def chi_square(
    rates: npt.NDArray[np.float64], masked: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> tuple[float, float]:
    """Compare how many tokens are masked with how many should be, by tenths of the rate.

    Args:
        rates: `[N]`, of rows.
        masked: `[N]`, masked tokens.
        sizes: `[N]`, tokens that can be masked.

    Returns:
        The sum of squared deviations, each in standard deviations, over ten tenths; and the chance
        of at least as much.
    """
    tenth = (rates * _TENTHS).astype(int).clip(0, _TENTHS - 1)
    excess = np.bincount(tenth, masked - sizes * rates, _TENTHS)
    variance = np.bincount(tenth, sizes * rates * (1 - rates), _TENTHS)
    square = float((excess**2 / variance).sum())

    # The survival function, of an even number of degrees of freedom.
    half = square / 2
    terms = [half**k / math.factorial(k) for k in range(_TENTHS // 2)]
    return square, math.exp(-half) * sum(terms)


def _of_strategy(
    examples: Examples,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    plan = md.strategy("diffusion").plan(examples)
    assert plan.rates is not None  # noqa: S101
    first = examples.input_ids.offsets[:-1]
    masked = np.add.reduceat((plan.kinds.values > 0).astype(np.int64), first)
    sizes = np.add.reduceat((examples.word_ids.values >= 0).astype(np.int64), first)
    return plan.rates.astype(np.float64), masked, sizes


def _of_peer(
    corrupt: Corruption, batches: list[tuple[Tensor, Tensor]], mask_id: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    torch.manual_seed(0)
    found = [(corrupt(ids, maskable, mask_id), maskable) for ids, maskable in batches]
    rates = torch.cat([rates for (_, _, rates), _ in found]).double().numpy()
    masked = torch.cat([masked.sum(1) for (_, masked, _), _ in found]).numpy()
    return rates, masked, torch.cat([maskable.sum(1) for _, maskable in found]).numpy()


def _batches(examples: Examples) -> list[tuple[Tensor, Tensor]]:
    """Return ids and which are maskable of each batch, `[B, L]`, padded."""
    batches = []
    for start in range(0, len(examples), _BATCH):
        rows = np.arange(start, min(start + _BATCH, len(examples)))
        width = int(examples.input_ids.lengths[rows].max())
        padded = []
        for column, fill in ((examples.input_ids, 0), (examples.word_ids, -1)):
            out = np.empty((len(rows), width), np.int64)
            pad_rows(rows, column.offsets, column.values, fill, out)
            padded.append(torch.from_numpy(out))
        batches.append((padded[0], padded[1] >= 0))
    return batches


def _says(square: float, chance: float) -> str:
    return f"chi-square {square:.1f} of {_TENTHS} tenths (p = {chance:.2f})"
