"""How sure a masked language model is of each mention: the probability of its true tokens when it is hidden.

Dimensions: B rows, L tokens, V ids of the vocabulary, M tokens of mentions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged, offsets_of
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


@dataclass(frozen=True, slots=True, eq=False)
class MentionConfidence:
    """Confidence in each of S mentions (Abaho et al. 2024, Figure 2).

    Attributes:
        examples: The rows.
        logs: float64, S rows: log-probability of each of a mention's tokens, given the row with that mention hidden.
    """

    examples: Examples
    logs: Ragged

    @property
    def geometric_mean(self) -> Floats:
        """Of the probabilities of each mention's tokens, `[S]`: comparable between mentions of any length."""
        return np.exp(self._reduced(np.add) / self.logs.lengths)

    @property
    def mean(self) -> Floats:
        """Of the probabilities of each mention's tokens, `[S]`."""
        return self._reduced(np.add, of=np.exp(self.logs.values)) / self.logs.lengths

    @property
    def least(self) -> Floats:
        """The lowest probability of each mention's tokens, `[S]`."""
        return np.exp(self._reduced(np.minimum))

    def result(self, labels: Sequence[str]) -> dict[str, Any]:
        """Return averages over mentions, of all and of each label, as JSON has them; None where there is no mention.

        Args:
            labels: The name of each label.
        """
        of = self.examples.span_labels.values
        groups = {label: of == number for number, label in enumerate(labels)}
        return self._averages(np.ones(len(of), np.bool_)) | {
            "types": {label: self._averages(which) for label, which in groups.items()}
        }

    def _averages(self, which: npt.NDArray[np.bool_]) -> dict[str, Any]:
        names = ("geometric_mean", "mean", "least")
        there = bool(which.any())
        averages = {
            name: float(getattr(self, name)[which].mean()) if there else None for name in names
        }
        return {"mentions": int(which.sum()), **averages}

    def _reduced(self, how: np.ufunc, of: Floats | None = None) -> Floats:
        values = self.logs.values if of is None else of
        starts = self.logs.offsets[:-1]
        reduced: Floats = how.reduceat(values, starts) if len(starts) else np.empty(0)
        return reduced


def mention_confidence(
    model: Model, examples: Examples, *, batch_size: int = 32
) -> MentionConfidence:
    """Hide each mention alone, all its tokens, and measure what the model gives to the true ones.

    One pass over a row for each of its mentions, so that the others stand there to be read.

    Args:
        model: A masked language model, an `MslmModel`, or what else gives `[B, L, V]` as `logits` or as a tensor when
            it is called with `input_ids` and `attention_mask`, int64 `[B, L]`.
        examples: Rows of a split: `shards["test"].take(rows)`.
        batch_size: Mentions at once.

    Raises:
        ValueError: The tokenizer has no mask token, or the output has no such logits.
    """
    if examples.ids.mask < 0:
        raise ValueError("examples: expected a tokenizer with a mask token, got one without")
    model = language_model(model)
    starts, ends = examples.span_starts, examples.span_ends
    row_of = np.repeat(np.arange(len(examples)), starts.lengths)
    logs = np.empty(int((ends.values - starts.values).sum()), np.float64)
    offsets = offsets_of(ends.values - starts.values)
    with evaluating(model):
        for places in places_by_length(examples.input_ids.lengths[row_of], batch_size):
            true = padded(examples.input_ids.take(row_of[places]), max(examples.ids.pad, 0))
            tokens = np.arange(true.shape[1])
            hidden = (tokens >= starts.values[places, None]) & (tokens < ends.values[places, None])
            there = tokens < examples.input_ids.lengths[row_of[places], None]
            output = run(model, np.where(hidden, examples.ids.mask, true), there.astype(np.int64))
            found = _log_probabilities(logits_of(output, "logits"), true, hidden)
            logs[
                np.concatenate([np.arange(offsets[s], offsets[s + 1]) for s in places.tolist()])
            ] = found
    return MentionConfidence(examples, Ragged(logs, offsets))


def _log_probabilities(
    logits_BLV: torch.Tensor,
    true: npt.NDArray[np.int64],
    hidden: npt.NDArray[np.bool_],
) -> Floats:
    """Return the log-probability of true ids where they are hidden, `[M]`, row by row; float32 or wider inside."""
    device = logits_BLV.device
    logits_MV = logits_BLV[torch.from_numpy(hidden).to(device)]
    logs_MV = torch.log_softmax(
        logits_MV, -1, dtype=torch.promote_types(logits_MV.dtype, torch.float32)
    )
    ids_M = torch.from_numpy(true[hidden]).to(device)
    of_true: Floats = logs_MV.gather(-1, ids_M[:, None])[:, 0].cpu().double().numpy()
    return of_true
