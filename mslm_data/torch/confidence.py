"""Measure the probability that a model gives to the true tokens of each mention, once hidden.

Dimensions: B rows, L tokens, V ids of the vocabulary, M tokens of mentions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import offsets_of
from mslm_data.torch.forward import (
    Model,
    evaluating,
    language_model,
    logits_of,
    padded,
    places_by_length,
    run,
)

Floats = npt.NDArray[np.float64]


def mention_confidence(model: Model, examples: Examples, *, batch_size: int = 32) -> Floats:
    """Hide each mention by itself, all its tokens, and measure the probability of the true ones.

    A row is read once for each of its mentions, with the other mentions visible (Abaho et al. 2024,
    Figure 2).

    Args:
        model: A masked language model, an `MslmModel`, or any callable with `input_ids` and
            `attention_mask`, int64 `[B, L]`, that returns logits `[B, L, V]`, as a tensor or as
            `logits` of its output.
        examples: Rows of a split: `shards["test"].take(rows)`.
        batch_size: Number of mentions that the model sees at once.

    Returns:
        float64 `[S]`, for each mention of the rows the geometric mean of its tokens' probabilities,
        so that long mentions and short ones compare.

    Raises:
        ValueError: The tokenizer has no mask token, or the model returns no such logits.
    """
    if examples.ids.mask < 0:
        raise ValueError("examples: expected a tokenizer with a mask token, got one without")

    model = language_model(model)
    starts = examples.span_starts
    ends = examples.span_ends
    row_of = np.repeat(np.arange(len(examples)), starts.lengths)
    offsets = offsets_of(ends.values - starts.values)
    logs = np.empty(offsets[-1], np.float64)

    with evaluating(model):
        for places in places_by_length(examples.input_ids.lengths[row_of], batch_size):
            rows = row_of[places]
            true = padded(examples.input_ids.take(rows), max(examples.ids.pad, 0))

            tokens = np.arange(true.shape[1])
            hidden = (tokens >= starts.values[places, None]) & (tokens < ends.values[places, None])
            present = tokens < examples.input_ids.lengths[rows, None]
            input_ids = np.where(hidden, examples.ids.mask, true)
            output = run(model, input_ids, present.astype(np.int64))

            found = _log_probabilities(logits_of(output, "logits"), true, hidden)
            ranges = [np.arange(offsets[s], offsets[s + 1]) for s in places.tolist()]
            logs[np.concatenate(ranges)] = found

    if not len(row_of):
        return np.empty(0)
    return np.exp(np.add.reduceat(logs, offsets[:-1]) / np.diff(offsets))


def _log_probabilities(
    logits_BLV: torch.Tensor,
    true: npt.NDArray[np.int64],
    hidden: npt.NDArray[np.bool_],
) -> Floats:
    """Return the log-probability `[M]` of the true ids where they are hidden, row by row.

    It is computed in float32 or wider.
    """
    device = logits_BLV.device
    logits_MV = logits_BLV[torch.from_numpy(hidden).to(device)]
    wide = torch.promote_types(logits_MV.dtype, torch.float32)
    logs_MV = torch.log_softmax(logits_MV, -1, dtype=wide)

    ids_M = torch.from_numpy(true[hidden]).to(device)
    of_true: Floats = logs_MV.gather(-1, ids_M[:, None])[:, 0].cpu().double().numpy()
    return of_true
