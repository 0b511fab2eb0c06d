"""Measure a model's probability of each masked mention.

Dimensions: B rows, L tokens, V vocabulary size, M tokens of mentions, S mentions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mslm_data.data.examples import Examples, check_examples
from mslm_data.data.ragged import Ragged, make_offsets
from mslm_data.torch.model.forward import (
    Model,
    batch_by_length,
    evaluating,
    get_logits,
    language_model,
    padded,
    run,
)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class MentionConfidence:
    """Token probabilities of S masked mentions (Abaho et al. 2024, Figure 2).

    Attributes:
        examples: The rows.
        logs: float64, S lists: log-probabilities of the tokens of a mention, given its row with
            that mention masked.
    """

    examples: Examples
    logs: Ragged

    @property
    def geometric_mean(self) -> Floats:
        """Geometric mean of the token probabilities of each mention, `[S]`."""
        return np.exp(self._reduce(np.add, self.logs.values) / self.logs.lengths)

    @property
    def mean(self) -> Floats:
        """Arithmetic mean of the token probabilities of each mention, `[S]`."""
        return self._reduce(np.add, np.exp(self.logs.values)) / self.logs.lengths

    @property
    def least(self) -> Floats:
        """Minimum of the token probabilities of each mention, `[S]`."""
        return np.exp(self._reduce(np.minimum, self.logs.values))

    def result(self, labels: Sequence[str]) -> dict[str, Any]:
        """Return averages over all mentions, and in `types` per label, for JSON.

        Averages are None without mentions.

        Args:
            labels: Name of each label.
        """
        labels_S = self.examples.span_labels.values
        types = {label: self._averages(labels_S == number) for number, label in enumerate(labels)}
        return {**self._averages(np.ones(len(labels_S), np.bool_)), "types": types}

    def _averages(self, is_included: npt.NDArray[np.bool_]) -> dict[str, Any]:
        averages: dict[str, Any] = {"mentions": int(is_included.sum())}
        for name in ("geometric_mean", "mean", "least"):
            values = getattr(self, name)[is_included]
            averages[name] = float(values.mean()) if len(values) else None
        return averages

    def _reduce(self, reduction: np.ufunc, values: Floats) -> Floats:
        """Reduce the values of tokens to one value per mention."""
        starts = self.logs.offsets[:-1]
        reduced: Floats = reduction.reduceat(values, starts) if len(starts) else np.empty(0)
        return reduced


def mention_confidence(
    model: Model, examples: Examples, *, batch_size: int = 32
) -> MentionConfidence:
    """Mask each mention, one at a time, and measure the probability of its tokens.

    A row with n mentions is read n times; the other mentions stay visible.

    Args:
        model: A masked language model, an `MslmModel`, or any callable with `input_ids` and
            `attention_mask`, int64 `[B, L]`, that returns logits `[B, L, V]`, as a tensor or as
            `logits` of its output.
        examples: Rows of a split: `shards["test"].take(rows)`.
        batch_size: Number of mentions in a batch.

    Raises:
        TypeError: `examples` is something else, such as a split.
        ValueError: The tokenizer has no mask token, or the model returns no logits.
    """
    check_examples("examples", examples)
    if examples.ids.mask < 0:
        raise ValueError(
            "examples: the tokenizer has no mask token; build the folder with one that has"
        )

    model = language_model(model)
    starts = examples.span_starts
    ends = examples.span_ends
    mention_rows = np.repeat(np.arange(len(examples)), starts.lengths)
    offsets = make_offsets(ends.values - starts.values)
    logs = np.empty(offsets[-1], np.float64)

    with evaluating(model):
        for mentions in batch_by_length(examples.input_ids.lengths[mention_rows], batch_size):
            rows = mention_rows[mentions]
            original_ids = padded(examples.input_ids.take(rows), max(examples.ids.pad, 0))

            # Mask the batch's mentions, one per row.
            tokens = np.arange(original_ids.shape[1])
            is_masked = (tokens >= starts.values[mentions, None]) & (
                tokens < ends.values[mentions, None]
            )
            attention_mask = tokens < examples.input_ids.lengths[rows, None]
            input_ids = np.where(is_masked, examples.ids.mask, original_ids)
            output = run(model, input_ids, attention_mask.astype(np.int64))

            # The log-probabilities come row by row: write each mention's to its place.
            mention_logs = _log_probabilities(get_logits(output, "logits"), original_ids, is_masked)
            ranges = [np.arange(offsets[s], offsets[s + 1]) for s in mentions.tolist()]
            logs[np.concatenate(ranges)] = mention_logs
    return MentionConfidence(examples, Ragged(logs, offsets))


def _log_probabilities(
    logits_BLV: torch.Tensor,
    original_ids: npt.NDArray[np.int64],
    is_masked: npt.NDArray[np.bool_],
) -> Floats:
    """Return the log-probability `[M]` of the original id of each masked token, row by row.

    Computed in float32 or wider.
    """
    device = logits_BLV.device
    logits_MV = logits_BLV[torch.from_numpy(is_masked).to(device)]
    wide = torch.promote_types(logits_MV.dtype, torch.float32)
    logs_MV = torch.log_softmax(logits_MV, -1, dtype=wide)

    ids_M = torch.from_numpy(original_ids[is_masked]).to(device)
    original_logs: Floats = logs_MV.gather(-1, ids_M[:, None])[:, 0].cpu().double().numpy()
    return original_logs
