"""Evaluate models of masked diffusion: a bound on -log p of rows, in nats per token.

Dimensions: B rows, L tokens, V vocabulary size; N rows and T tokens of some examples; G groups of
tokens: all, terms, others.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.data.bio import OUTSIDE
from mslm_data.data.examples import Examples
from mslm_data.kernels.take import CUT, fill_uniform
from mslm_data.mask.corruption import Corruption, corrupt
from mslm_data.mask.diffusion import DiffusionUnits, find_units
from mslm_data.mask.plan import MaskKind, MaskPlan
from mslm_data.mask.rng import RATE, RowRng
from mslm_data.shard.split import Rows
from mslm_data.torch.model.checks import check_rows
from mslm_data.torch.model.forward import (
    Model,
    evaluating,
    language_model,
    masked_losses,
)

_GROUPS = ("all", "terms", "others")
"""Groups of tokens: all words, words in mentions, other words."""
_Z = 1.959963984540054
"""Quantile of the normal distribution for a 95 % interval."""


def diffusion_bound(
    model: Model,
    rows: Rows | Examples,
    *,
    units: DiffusionUnits = "tokens",
    samples: int = 16,
    batch_size: int = 32,
    seed: int = 0,
) -> dict[str, Any]:
    """Bound -log p of rows under a model that fills in masked units in random order.

    The process masks all U units of a row, then fills them in one by one in random order; the
    tokens of a unit are filled in independently. The bound is the mean over orders of the summed
    losses: the sum over sets of masked units M of `|M|⁻¹ C(U, |M|)⁻¹` times the losses of their
    tokens. It equals the expectation of the loss of `md.strategy("diffusion", units=units)`,
    divided by rates uniform in (0, 1), with 0 for rows in which nothing is masked.

    The estimate follows the evaluation of LLaDA (Nie et al. 2025), which has less variance: k,
    uniform from 1 to U, units are masked, and their losses weighted by U / k. Each row's k are
    spread evenly over the samples. Rows without units are skipped.

    Args:
        model: A masked language model, an `MslmModel`, or any callable with `input_ids` and
            `attention_mask` that returns logits `[B, L, V]`, as a tensor or as `logits` of its
            output.
        rows: A split of a loaded folder, or examples.
        units: Units of the strategy that the model was trained with.
        samples: Number of masks per row, at least 2.
        batch_size: Number of rows in a batch.
        seed: Seed of the masks, which also depend on the rows' keys.

    Returns:
        `nats` per non-special token; `low` and `high`, a 95 % interval over the random masks;
        `tokens`; and in `terms` and `others` the same for tokens in mentions and all other tokens:
        their contribution to the bound per token. Nats are None for groups without tokens.

    Raises:
        TypeError: `rows` is neither a split nor examples.
        ValueError: `samples` is less than 2, the model returns no logits, or model and rows have
            different tokenizers.
    """
    chunks = check_rows("diffusion_bound", model, rows)
    if samples < 2:
        raise ValueError(f"samples: expected 2 or more, for an interval, got {samples}")

    totals_G = np.zeros(len(_GROUPS))
    variances_G = np.zeros(len(_GROUPS))
    counts_G = np.zeros(len(_GROUPS), np.int64)
    model = language_model(model)
    with evaluating(model):
        for examples in chunks:
            groups_GT = _find_groups(examples)
            counts_G += groups_GT.sum(1)

            sums_NG = np.zeros((len(examples), len(_GROUPS)))
            squares_NG = np.zeros_like(sums_NG)
            for sample in range(samples):
                plan, weights_N = _mask_units(examples, units, seed, sample, samples)
                losses_T = masked_losses(
                    model,
                    examples.input_ids,
                    corrupt(examples, plan, Corruption(), seed=0, epoch=0),
                    plan.kinds.values > 0,
                    ids=examples.ids,
                    batch_size=batch_size,
                )
                parts_NG = _sum_by_row(groups_GT * losses_T, examples) * weights_N[:, None]
                sums_NG += parts_NG
                squares_NG += parts_NG**2

            # Variance of each row's mean, as if samples were independent. Stratifying k usually
            # makes the true variance smaller.
            means_NG = sums_NG / samples
            sample_variances_NG = (squares_NG / samples - means_NG**2).clip(min=0)
            totals_G += means_NG.sum(0)
            variances_G += (sample_variances_NG / (samples - 1)).sum(0)

    groups = zip(totals_G.tolist(), variances_G.tolist(), counts_G.tolist(), strict=True)
    result, *parts = [_make_result(*group) for group in groups]
    part_results = dict(zip(_GROUPS[1:], parts, strict=True))
    return {**result, **part_results, "units": units, "samples": samples}


def _mask_units(
    examples: Examples, units: DiffusionUnits, seed: int, sample: int, samples: int
) -> tuple[MaskPlan, npt.NDArray[np.float64]]:
    """Mask k units of each row; return the plan and the weights U / k, `[N]`."""
    row_units = find_units(examples, units)
    units_per_row = row_units.starts.lengths
    # k of sample s: one uniform number per row, shifted by s / samples, so that the samples of a
    # row are stratified over 1 to U.
    offsets_N = RowRng(keys=examples.keys, seed=seed, epoch=0).uniforms(RATE)
    unit_counts = 1 + (units_per_row * ((offsets_N + sample / samples) % 1)).astype(np.int64)
    unit_counts = np.minimum(unit_counts, units_per_row)

    # Choose k of the U units, uniformly.
    rng = RowRng(keys=examples.keys, seed=seed, epoch=sample)
    is_taken = np.zeros(len(row_units), np.uint8)
    ones = np.ones(len(row_units), np.uint8)
    offsets = row_units.starts.offsets
    fill_uniform(offsets, ones, ones, unit_counts.copy(), CUT, rng.streams(), is_taken)

    kinds = np.zeros(len(examples.input_ids.values), np.uint8)
    offsets = examples.input_ids.offsets
    row_units.paint(offsets, is_taken * row_units.lengths, MaskKind.BASE.value, kinds)
    return MaskPlan.from_kinds(examples, kinds), units_per_row / np.maximum(unit_counts, 1)


def _find_groups(examples: Examples) -> npt.NDArray[np.bool_]:
    """Return the tokens of each group, bool `[G, T]`; special tokens are in none."""
    is_word = examples.word_ids.values >= 0
    is_term = is_word & (examples.bio.values != OUTSIDE)
    return np.stack([is_word, is_term, is_word & ~is_term])


def _sum_by_row(values_GT: npt.NDArray[np.float64], examples: Examples) -> npt.NDArray[np.float64]:
    """Sum the values of each row's tokens, `[N, G]`."""
    # Differences of prefix sums: also correct for rows without tokens, unlike reduceat.
    sums = np.concatenate([np.zeros((len(values_GT), 1)), np.cumsum(values_GT, axis=1)], axis=1)
    return np.diff(sums[:, examples.input_ids.offsets], axis=1).T


def _make_result(total: float, variance: float, tokens: int) -> dict[str, Any]:
    if tokens == 0:
        return {"nats": None, "low": None, "high": None, "tokens": 0}
    nats = total / tokens
    half = _Z * math.sqrt(variance) / tokens
    return {"nats": nats, "low": nats - half, "high": nats + half, "tokens": tokens}
