"""Measure how probable the true tokens of each mention are once the mention is masked.

Dimensions: B rows, L tokens, V ids of the vocabulary, M tokens of mentions.
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
    """Probabilities of the tokens of S masked mentions (Abaho et al. 2024, Figure 2).

    Attributes:
        examples: The rows.
        logs: float64, S rows: the log-probability of each token of a mention, given the row with
            that mention hidden.
    """

    examples: Examples
    logs: Ragged

    @property
    def geometric_mean(self) -> Floats:
        """Geometric mean of each mention's token probabilities, `[S]`, whatever its length."""
        return np.exp(self._reduced(np.add, self.logs.values) / self.logs.lengths)

    @property
    def mean(self) -> Floats:
        """Arithmetic mean of each mention's token probabilities, `[S]`."""
        return self._reduced(np.add, np.exp(self.logs.values)) / self.logs.lengths

    @property
    def least(self) -> Floats:
        """Minimum of each mention's token probabilities, `[S]`."""
        return np.exp(self._reduced(np.minimum, self.logs.values))

    def result(self, labels: Sequence[str]) -> dict[str, Any]:
        """Return averages over all mentions, and in `types` per label, for JSON.

        An average is None where there is no mention.

        Args:
            labels: The name of each label.
        """
        labels_S = self.examples.span_labels.values
        types = {label: self._averages(labels_S == number) for number, label in enumerate(labels)}
        return {**self._averages(np.ones(len(labels_S), np.bool_)), "types": types}

    def _averages(self, which: npt.NDArray[np.bool_]) -> dict[str, Any]:
        averages: dict[str, Any] = {"mentions": int(which.sum())}
        for name in ("geometric_mean", "mean", "least"):
            values = getattr(self, name)[which]
            averages[name] = float(values.mean()) if len(values) else None
        return averages

    def _reduced(self, how: np.ufunc, values: Floats) -> Floats:
        """Reduce the values of tokens to one per mention."""
        starts = self.logs.offsets[:-1]
        reduced: Floats = how.reduceat(values, starts) if len(starts) else np.empty(0)
        return reduced


def mention_confidence(
    model: Model, examples: Examples, *, batch_size: int = 32
) -> MentionConfidence:
    """Mask each mention as a whole, one at a time, and measure the probability of its tokens.

    A row is read once for each of its mentions, with the other mentions visible.

    Args:
        model: A masked language model, an `MslmModel`, or any callable with `input_ids` and
            `attention_mask`, int64 `[B, L]`, that returns logits `[B, L, V]`, as a tensor or as
            `logits` of its output.
        examples: Rows of a split: `shards["test"].take(rows)`.
        batch_size: Number of mentions that the model sees at once.

    Raises:
        TypeError: Not rows, such as a whole split.
        ValueError: The tokenizer has no mask token, or the model returns no such logits.
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
        for places in batch_by_length(examples.input_ids.lengths[mention_rows], batch_size):
            rows = mention_rows[places]
            true = padded(examples.input_ids.take(rows), max(examples.ids.pad, 0))

            tokens = np.arange(true.shape[1])
            hidden = (tokens >= starts.values[places, None]) & (tokens < ends.values[places, None])
            present = tokens < examples.input_ids.lengths[rows, None]
            input_ids = np.where(hidden, examples.ids.mask, true)
            output = run(model, input_ids, present.astype(np.int64))

            found = _log_probabilities(get_logits(output, "logits"), true, hidden)
            ranges = [np.arange(offsets[s], offsets[s + 1]) for s in places.tolist()]
            logs[np.concatenate(ranges)] = found
    return MentionConfidence(examples, Ragged(logs, offsets))


def _log_probabilities(
    logits_BLV: torch.Tensor,
    true: npt.NDArray[np.int64],
    hidden: npt.NDArray[np.bool_],
) -> Floats:
    """Return the log-probability `[M]` of the true ids at the masked tokens, row by row.

    It is computed in float32 or wider.
    """
    device = logits_BLV.device
    logits_MV = logits_BLV[torch.from_numpy(hidden).to(device)]
    wide = torch.promote_types(logits_MV.dtype, torch.float32)
    logs_MV = torch.log_softmax(logits_MV, -1, dtype=wide)

    ids_M = torch.from_numpy(true[hidden]).to(device)
    true_logs: Floats = logs_MV.gather(-1, ids_M[:, None])[:, 0].cpu().double().numpy()
    return true_logs
