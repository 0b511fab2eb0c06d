"""Measure a model of masked diffusion: a bound on -log p of rows, in nats a token.

Dimensions: B rows, L tokens, V ids of the vocabulary; N rows, T tokens of some examples; M masked
tokens; G groups of tokens: all, terms, others.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mslm_data.data.bio import OUTSIDE
from mslm_data.data.examples import Examples
from mslm_data.kernels.choose import choose_uniform
from mslm_data.mask.corruption import Corruption, corrupt
from mslm_data.mask.diffusion import DiffusionUnits, find_units
from mslm_data.mask.plan import MaskKind, MaskPlan
from mslm_data.mask.rng import RATE, RowRng
from mslm_data.shard.row_protocol import Rows
from mslm_data.torch.model.checks import check_tokenizer
from mslm_data.torch.model.forward import (
    Model,
    batch_by_length,
    evaluating,
    find_device,
    find_module,
    get_logits,
    language_model,
    padded,
    run,
)
from mslm_data.torch.model.loss import token_losses

_GROUPS = ("all", "terms", "others")
_Z = 1.959963984540054
"""Standard deviations on either side of the mean that hold 95 % of a normal distribution."""


def diffusion_bound(
    model: Model,
    rows: Rows | Examples,
    *,
    units: DiffusionUnits = "tokens",
    samples: int = 16,
    batch_size: int = 32,
    seed: int = 0,
) -> dict[str, Any]:
    """Bound -log p of rows under a model that fills in masked units in any order.

    The process masks all U units of a row, and fills in one after the other in an order drawn at
    random; tokens of a unit are filled in independently. Its bound is the mean, over orders, of the
    losses on the way, which is a sum over masks M of `|M|⁻¹ C(U, |M|)⁻¹` times the losses of their
    tokens. That is what the loss of `md.strategy("diffusion", units=units)`, divided by rates from
    0 to 1, has as its mean, where a row of which nothing is masked counts 0.

    It is estimated here without rates, with less variance, as LLaDA is evaluated (Nie et al. 2025):
    the number k of masked units is uniform from 1 to U, k units are masked, and their losses count
    U / k. A row's k are spread evenly over the samples. Rows of no unit count nothing.

    Args:
        model: A masked language model, an `MslmModel`, or any callable with `input_ids` and
            `attention_mask` that returns logits `[B, L, V]`, as a tensor or as `logits` of its
            output.
        rows: A split of a loaded folder, or any examples.
        units: Those that the model was trained with.
        samples: Masks drawn for each row, 2 or more: the model sees each row so many times.
        batch_size: Number of rows that the model sees at once.
        seed: Of the masks, which are a function of the rows' keys.

    Returns:
        `nats` a token, not counting special tokens; `low` and `high`, an interval of 95 % for the
        bound of these rows over draws of masks; `tokens`; and the same for the tokens in mentions
        and for the others, `terms` and `others`. Their nats are what these tokens add to the bound,
        a token of them. None stands for nats of no token.

    Raises:
        TypeError: Neither a split nor rows, such as a whole folder.
        ValueError: Fewer than two samples, the model returns no logits, or it is of another
            tokenizer than the rows.
    """
    if not isinstance(rows, Rows | Examples):
        raise TypeError(
            "rows: expected one split, as md.load(folder)['test'] gives, or rows of one, got "
            f"{type(rows).__name__}"
        )
    if samples < 2:
        raise ValueError(f"samples: expected 2 or more, for an interval, got {samples}")
    ids = rows.ids if isinstance(rows, Examples) else rows.token_ids
    check_tokenizer("diffusion_bound", find_module(model), ids)

    totals_G = np.zeros(len(_GROUPS))
    variances_G = np.zeros(len(_GROUPS))
    counts_G = np.zeros(len(_GROUPS), np.int64)
    model = language_model(model)
    with evaluating(model):
        for examples in [rows] if isinstance(rows, Examples) else rows.chunks():
            groups_GT = _groups(examples)
            counts_G += groups_GT.sum(1)

            sums_NG = np.zeros((len(examples), len(_GROUPS)))
            squares_NG = np.zeros_like(sums_NG)
            for sample in range(samples):
                plan, weights_N = _hide(examples, units, seed, sample, samples)
                losses_T = _losses(model, examples, plan, batch_size)
                parts_NG = _by_row(groups_GT * losses_T, examples) * weights_N[:, None]
                sums_NG += parts_NG
                squares_NG += parts_NG**2

            # The variance of each row's mean, as if its samples were independent. As their k are
            # spread evenly, the true one is less unless losses jump from one k to the next.
            means_NG = sums_NG / samples
            spread_NG = (squares_NG / samples - means_NG**2).clip(min=0)
            totals_G += means_NG.sum(0)
            variances_G += (spread_NG / (samples - 1)).sum(0)

    measured = [
        _result(*of_group)
        for of_group in zip(totals_G.tolist(), variances_G.tolist(), counts_G.tolist(), strict=True)
    ]
    result, *parts = measured
    named = dict(zip(_GROUPS[1:], parts, strict=True))
    return {**result, **named, "units": units, "samples": samples}


def _hide(
    examples: Examples, units: DiffusionUnits, seed: int, sample: int, samples: int
) -> tuple[MaskPlan, npt.NDArray[np.float64]]:
    """Mask k units of each row, and return by what its losses are multiplied, U / k, `[N]`."""
    of_rows = find_units(examples, units)
    sizes = of_rows.starts.lengths
    places = RowRng(keys=examples.keys, seed=seed, epoch=0).uniforms(RATE)
    numbers = 1 + (sizes * ((places + sample / samples) % 1)).astype(np.int64)
    numbers = np.minimum(numbers, sizes)

    rng = RowRng(keys=examples.keys, seed=seed, epoch=sample)
    taken = np.zeros(len(of_rows), np.uint8)
    eligible = np.ones(len(of_rows), np.uint8)
    choose_uniform(of_rows.starts.offsets, eligible, numbers.copy(), rng.streams(), 1, taken)

    kinds = np.zeros(len(examples.input_ids.values), np.uint8)
    offsets = examples.input_ids.offsets
    of_rows.paint(offsets, taken * of_rows.lengths, MaskKind.BASE.value, kinds)
    return MaskPlan.from_kinds(examples, kinds), sizes / np.maximum(numbers, 1)


def _losses(
    model: Model, examples: Examples, plan: MaskPlan, batch_size: int
) -> npt.NDArray[np.float64]:
    """Return the cross-entropy of each masked token, 0 at others, `[T]`."""
    ids = examples.input_ids
    corrupted = corrupt(examples, plan, Corruption(), seed=0, epoch=0)
    out = np.zeros(len(ids.values))
    device = find_device(model)
    for places in batch_by_length(ids.lengths, batch_size):
        seen = padded(corrupted.take(places), max(examples.ids.pad, 0))
        is_masked = padded(plan.kinds.take(places), 0) > 0
        if not is_masked.any():
            continue
        present = np.arange(seen.shape[1]) < ids.lengths[places, None]
        logits_BLV = get_logits(run(model, seen, present.astype(np.int64)), "logits")

        with torch.inference_mode():
            labels = torch.from_numpy(padded(ids.take(places), 0)[is_masked]).to(device)
            masked = torch.from_numpy(is_masked).to(device)
            losses_M = token_losses(logits_BLV[masked], labels).cpu().double().numpy()
        columns = np.nonzero(is_masked)
        out[ids.offsets[places[columns[0]]] + columns[1]] = losses_M
    return out


def _groups(examples: Examples) -> npt.NDArray[np.bool_]:
    """Return which tokens are in each group, `[G, T]`; special tokens are in none."""
    is_word = examples.word_ids.values >= 0
    is_term = is_word & (examples.bio.values != OUTSIDE)
    return np.stack([is_word, is_term, is_word & ~is_term])


def _by_row(values_GT: npt.NDArray[np.float64], examples: Examples) -> npt.NDArray[np.float64]:
    """Add up the values of each row's tokens, `[N, G]`."""
    sums = np.concatenate([np.zeros((len(values_GT), 1)), np.cumsum(values_GT, axis=1)], axis=1)
    return np.diff(sums[:, examples.input_ids.offsets], axis=1).T


def _result(total: float, variance: float, tokens: int) -> dict[str, Any]:
    if tokens == 0:
        return {"nats": None, "low": None, "high": None, "tokens": 0}
    nats = total / tokens
    half = _Z * math.sqrt(variance) / tokens
    return {"nats": nats, "low": nats - half, "high": nats + half, "tokens": tokens}
