"""The output of an `MslmModel`.

Dimensions: B rows, L tokens, S mentions (padded), C tags, E entity types.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from mslm_data import _optional
from mslm_data.torch.model.ranges import NO_SPAN

if TYPE_CHECKING:
    from transformers.utils.generic import ModelOutput
else:
    _optional.load("transformers", wanted_by="MslmModel")
    from transformers.utils.generic import ModelOutput


class FoundEntity(NamedTuple):
    """A predicted entity: tokens `[start, end)` of its row, and its type."""

    start: int
    end: int
    label: str


@dataclass
class MslmOutput(ModelOutput):
    """The output of a forward pass.

    The three losses have their weights, are divided, and add up to `loss`. A loss is None without
    labels for it in the batch.

    Attributes:
        loss: Eq. 12, scalar.
        logits: `[B, L, C]`, logits of Eq. 7: of the tags in `bio`. None without heads.
        span_logits: `[B, S, E]`, logits of Eq. 10 for the mentions of the batch.
        mslm_loss: Eq. 6, scalar.
        detection_loss: Eq. 8, scalar.
        classification_loss: Eq. 11, scalar.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    span_logits: Tensor | None = None
    mslm_loss: Tensor | None = None
    detection_loss: Tensor | None = None
    classification_loss: Tensor | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """The predicted entities of a batch.

    As in the paper, the detection head predicts their boundaries, the classification head their
    types.

    Attributes:
        tags: int64 `[B, L]`, numbered as `bio`, -100 on special tokens and padding.
        span_starts: int64 `[B, S]`, first token of each entity, padded with -1.
        span_ends: int64 `[B, S]`, token after the last, padded with -1.
        span_labels: int64 `[B, S]`, entity types, padded with -1.
        labels: Names of the entity types.
        sequence_ids: int64 `[1, L]`, number of each token's row in a flat batch, -1 on padding;
            None for padded batches.
    """

    tags: Tensor
    span_starts: Tensor
    span_ends: Tensor
    span_labels: Tensor
    labels: tuple[str, ...]
    sequence_ids: Tensor | None = None

    def mentions(self) -> list[list[FoundEntity]]:
        """Return the entities of each row, with the names of their types.

        A flat batch is split: there is one list per row, in the order of the batch's `keys`, and
        token indices are those of the row.
        """
        spans_BS3 = torch.stack([self.span_starts, self.span_ends, self.span_labels], dim=-1)
        numbers_BL = [] if self.sequence_ids is None else self.sequence_ids.tolist()

        rows = []
        for index, spans in enumerate(spans_BS3.tolist()):
            # First token of each row of a flat batch.
            firsts = _find_row_starts(numbers_BL[index]) if numbers_BL else [0]
            entities: list[list[FoundEntity]] = [[] for _ in firsts]
            for start, end, label in spans:
                if start == NO_SPAN:
                    continue
                row = bisect_right(firsts, start) - 1
                first = firsts[row]
                entities[row].append(FoundEntity(start - first, end - first, self.labels[label]))
            rows += entities
        return rows


def _find_row_starts(numbers: Sequence[int]) -> list[int]:
    """Return the first token of each row in a flat batch."""
    return [
        place
        for place, number in enumerate(numbers)
        if number >= 0 and (place == 0 or number != numbers[place - 1])
    ]
