"""Measure a model's probability of each masked mention.

Dimensions: B rows, L tokens, V vocabulary size, S mentions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples, check_examples
from mslm_data.data.ragged import Ragged, count_up, make_offsets
from mslm_data.torch.model.checks import check_tokenizer
from mslm_data.torch.model.forward import (
    Model,
    batch_by_length,
    evaluating,
    find_module,
    language_model,
    masked_losses,
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
        ValueError: The tokenizer has no mask token, the model returns no logits, or model and rows
            have different tokenizers.
    """
    check_examples("examples", examples)
    check_tokenizer("mention_confidence", find_module(model), examples.ids)
    if examples.ids.mask < 0:
        raise ValueError(
            "examples: the tokenizer has no mask token; build the folder with one that has"
        )

    starts = examples.span_starts.values
    lengths = examples.span_ends.values - starts
    mention_rows = np.repeat(np.arange(len(examples)), examples.span_starts.lengths)
    offsets = make_offsets(lengths)
    logs = np.empty(offsets[-1])

    model = language_model(model)
    with evaluating(model):
        for mentions in batch_by_length(examples.input_ids.lengths[mention_rows], batch_size):
            # A row for each mention, in which only its tokens are masked.
            original = examples.input_ids.take(mention_rows[mentions])
            is_masked = np.zeros(len(original.values), np.bool_)
            firsts = original.offsets[:-1] + starts[mentions]
            is_masked[count_up(firsts, lengths[mentions])] = True
            masked = np.where(is_masked, examples.ids.mask, original.values)
            losses = masked_losses(
                model,
                original,
                Ragged(masked, original.offsets),
                is_masked,
                ids=examples.ids,
                batch_size=batch_size,
            )
            logs[count_up(offsets[mentions], lengths[mentions])] = -losses[is_masked]
    return MentionConfidence(examples, Ragged(logs, offsets))
