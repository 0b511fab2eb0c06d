"""Scores of a model: exact match of mentions on unmasked text, and perplexity over masked positions.

Dimensions: B rows, L tokens, V ids of the vocabulary, M masked tokens.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from mslm_data.data.bio import begin, count_tags, inside
from mslm_data.data.examples import Examples
from mslm_data.kernels.pad import IGNORED
from mslm_data.mask import strategy
from mslm_data.metrics import MentionScores
from mslm_data.shard.split import Split
from mslm_data.torch.forward import (
    Model,
    evaluating,
    language_model,
    logits_of,
    padded,
    places_by_length,
    run,
)

LEAK = (
    "evaluate: masked=True hides the gold mentions, so that the masks say where they are: a rule that reads no word "
    "and takes each run of masks for a mention finds most of them; do not report these numbers as accuracy"
)


def evaluate(
    model: Model,
    rows: Split | Examples,
    *,
    labels: Sequence[str],
    batch_size: int = 32,
    mean_words: float | None = None,
    masked: bool = False,
) -> dict[str, Any]:
    """Score the tags that a model predicts against the gold mentions, on the text as it is.

    It takes rows, not a loader of batches, as a batch for training has its mentions hidden and does not say where
    words begin. Tags are scored on the first sub-word of each word (`MentionScores`).

    Args:
        model: Called with `input_ids` and `attention_mask`, int64 `[B, L]`; gives tag logits
            `[B, L, 1 + 2 * labels]`, as a tensor or as `tag_logits` or `logits` of its output. Or a model's `predict`
            (`MslmModel.predict`): mentions as the detection head finds them, their types by the classification head.
        rows: A split of a loaded folder, or any examples.
        labels: The name of each label: `shards.labels`.
        batch_size: Rows that the model sees at once.
        mean_words: Where short rows end and long ones begin; None is the average of these rows.
        masked: A diagnostic, not an evaluation: score on rows whose gold mentions are hidden (joint masking with
            ELM 1.0, and BLM 0.075 by a coin each), as the paper's released code does. Warns.

    Returns:
        What `MentionScores.result` does, and `input`: "unmasked" or "masked".

    Raises:
        ValueError: Logits of another shape, or none.
    """
    if masked:
        warnings.warn(LEAK, stacklevel=2)
    scores = MentionScores(labels)
    with evaluating(model):
        for examples in _chunks(rows):
            _score(model, examples, scores, batch_size=batch_size, masked=masked)
    return {"input": "masked" if masked else "unmasked", **scores.result(mean_words=mean_words)}


def perplexity(model: Model, batches: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Measure a model's perplexity over the masked positions of masked batches; see `Perplexity`.

    Args:
        model: A masked language model, an `MslmModel`, or what else gives `[B, L, V]` as `logits` or as a tensor when
            it is called with `input_ids` and `attention_mask`.
        batches: With `labels` too, -100 where nothing is predicted; arrays or tensors.

    Returns:
        See `Perplexity.result`.
    """
    measured, model = Perplexity(), language_model(model)
    with evaluating(model):
        for batch in batches:
            output = run(model, batch["input_ids"], batch["attention_mask"])
            measured.add(logits_of(output, "logits"), torch.as_tensor(batch["labels"]))
    return measured.result()


class Perplexity:
    """exp of the mean negative log likelihood of the true ids over masked positions: natural logarithm, unweighted.

    The sum is kept in float64 over all batches, so that it does not depend on how rows fall into batches.

    Attributes:
        total: Sum of the losses.
        tokens: Masked positions.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.total = 0.0
        self.tokens = 0

    def add(self, logits_BLV: Tensor, labels_BL: Tensor) -> None:
        """Add a batch.

        Args:
            logits_BLV: Any float type; computed in float32 or wider.
            labels_BL: int64, true ids where masked, -100 elsewhere.
        """
        labels_BL = labels_BL.to(logits_BLV.device)
        masked_BL = labels_BL != IGNORED
        logits_MV = logits_BLV[masked_BL]
        wide = torch.promote_types(logits_MV.dtype, torch.float32)
        self.add_losses(
            functional.cross_entropy(logits_MV.to(wide), labels_BL[masked_BL], reduction="none")
        )

    def add_losses(self, losses_M: Tensor) -> None:
        """Add unweighted losses, one of each masked token."""
        self.total += float(losses_M.detach().cpu().double().sum())
        self.tokens += losses_M.numel()

    @property
    def value(self) -> float:
        """The perplexity; NaN where nothing was masked, infinite where a float cannot hold it."""
        if not self.tokens:
            return math.nan
        try:
            return math.exp(self.total / self.tokens)
        except OverflowError:
            return math.inf

    def result(self) -> dict[str, Any]:
        """Return `perplexity`, the mean `loss` and `tokens`, as JSON has them: None for what is no finite number."""
        mean = self.total / self.tokens if self.tokens else math.nan
        return {"perplexity": _finite(self.value), "loss": _finite(mean), "tokens": self.tokens}


def _score(
    model: Model, examples: Examples, scores: MentionScores, *, batch_size: int, masked: bool
) -> None:
    ids = examples.input_ids
    if masked:
        joint = strategy("joint", elm=1.0, blm=0.075, count="bernoulli")
        ids = joint.corrupt(examples, joint.plan(examples, seed=0, epoch=0), seed=0, epoch=0)
    empty = np.flatnonzero(ids.lengths == 0)
    if len(empty):  # rows all the same
        nothing = np.zeros((len(empty), 0), np.int64)
        scores.add(nothing, nothing, nothing)
    for places in places_by_length(ids.lengths, batch_size):
        input_ids, bio = (
            padded(ids.take(places), max(examples.ids.pad, 0)),
            padded(examples.bio.take(places), 0),
        )
        there = np.arange(input_ids.shape[1]) < ids.lengths[places, None]
        tags = _tags(
            run(model, input_ids, there.astype(np.int64)),
            (*input_ids.shape, count_tags(len(scores.labels))),
        )
        scores.add(bio, tags, padded(examples.word_ids.take(places), -1))


def _tags(output: Any, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Return the tags that a model predicts, `[B, L]`: of its logits, of this shape, or of the mentions it found."""
    if not hasattr(output, "mentions"):
        logits = logits_of(output, "tag_logits", "logits")
        if tuple(logits.shape) != shape:
            raise ValueError(
                f"model: expected tag logits of shape {shape}, got {tuple(logits.shape)}"
            )
        return logits.argmax(-1).cpu().numpy()
    tags = np.zeros(shape[:2], np.int64)
    spans = torch.stack([output.span_starts, output.span_ends, output.span_labels]).cpu().numpy()
    rows, places = np.nonzero(spans[0] >= 0)
    for row, (start, end, label) in zip(
        rows.tolist(), spans[:, rows, places].T.tolist(), strict=True
    ):
        tags[row, start:end] = inside(label)
        tags[row, start] = begin(label)
    return tags


def _chunks(rows: Split | Examples) -> Iterator[Examples]:
    if isinstance(rows, Examples):
        yield rows
    else:
        yield from rows.chunks()


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
