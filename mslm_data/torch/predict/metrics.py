"""Evaluate models: precision, recall, F1 on unmasked text; perplexity of masked tokens.

Dimensions: B rows, L tokens, V vocabulary size, C tags, M masked tokens.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mslm_data.data.bio import OUTSIDE, begin, count_tags, inside
from mslm_data.data.examples import Examples
from mslm_data.kernels.pad import IGNORED
from mslm_data.metrics import MentionScores, UnseenMentions
from mslm_data.registry import check_names
from mslm_data.shard.split import Rows
from mslm_data.torch.model.checks import check_rows
from mslm_data.torch.model.forward import (
    Model,
    batch_by_length,
    check_batches,
    check_numbers,
    evaluating,
    get_logits,
    language_model,
    padded,
    run,
    run_rows,
)
from mslm_data.torch.model.loss import token_losses
from mslm_data.torch.model.ranges import NO_SPAN


def evaluate(
    model: Model,
    rows: Rows | Examples,
    *,
    labels: Sequence[str],
    batch_size: int = 32,
    mean_words: float | None = None,
    train: Rows | None = None,
) -> dict[str, Any]:
    """Score a model's mentions against the gold mentions, on unmasked text.

    It takes rows, not training batches, in which mentions are masked. Tags are read from the first
    sub-word of each word.

    Args:
        model: A model called with `input_ids` and `attention_mask`, int64 `[B, L]`, that returns
            tag logits `[B, L, 1 + 2 * labels]`, as a tensor or as `tag_logits` or `logits` of its
            output. Or the method `MslmModel.predict`, which also uses the classification head.
        rows: A split of a loaded folder, or examples.
        labels: Labels of the model. Labels of a split are matched by name, and may be a subset.
        batch_size: Number of rows in a batch.
        mean_words: Number of words that separates short from long rows. Default: the mean of these
            rows.
        train: The training rows. Adds `unseen` to the result: recall of mentions that occur in the
            training rows, and of new mentions. If both folders have concepts (`annotate.weak`),
            also of known concepts under a new name.

    Returns:
        The result of `MentionScores.result`, with `precision`, `recall` (the paper's exact match),
        `micro_f1`, `macro_f1` and more. With `train`, `unseen` is the result of
        `RecallOfUnseen.result`, with bootstrap intervals over documents.

    Raises:
        TypeError: `rows` is neither a split nor examples, `train` is not a split, or `labels` is a
            string.
        ValueError: The model returns no logits or logits of another shape; model, rows and `train`
            have different tokenizers; or labels do not match.
        AnnotateError: The model's scores are NaN.
    """
    check_names("labels", labels)
    chunks = check_rows("evaluate", model, rows)

    # Scores count tags in the model's numbering; `tags` converts those of a split.
    scores = MentionScores(labels)
    unseen = None if train is None else UnseenMentions(rows, train)
    tags = None if isinstance(rows, Examples) else _match_tags(rows.labels, labels)
    with evaluating(model):
        for examples in chunks:
            _score(model, examples, scores, tags, unseen, batch_size)
    result = scores.result(mean_words=mean_words)
    return result if unseen is None else {**result, "unseen": unseen.result()}


def perplexity(model: Model, batches: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Measure a model's perplexity over the masked tokens of batches.

    Args:
        model: A masked language model, an `MslmModel`, or any callable with `input_ids` and
            `attention_mask` that returns logits `[B, L, V]`, as a tensor or as `logits` of its
            output.
        batches: Batches of padded rows, arrays or tensors, with `labels`.

    Returns:
        `perplexity`, exp of the mean cross-entropy of the masked tokens; that `loss`, in nats; and
        the number of `tokens`. Numbers are None if not finite, as without masked tokens.

    Raises:
        TypeError: `batches` yields rows.
        ValueError: The model returns no logits, or rows are flat.
    """
    check_batches(batches)
    model = language_model(model)
    # A sum of all losses in float64, so the result does not depend on the batch size.
    total = 0.0
    tokens = 0
    with evaluating(model):
        for batch in batches:
            if "sequence_ids" in batch:
                raise ValueError(
                    "perplexity: expected padded rows, got a flat batch, in which rows would "
                    "attend to each other; make the batches without flat=True"
                )
            output = run(model, batch["input_ids"], batch["attention_mask"])
            logits_BLV = get_logits(output, "logits")
            labels_BL = torch.as_tensor(batch["labels"]).to(logits_BLV.device)
            is_masked_BL = labels_BL != IGNORED
            losses_M = token_losses(logits_BLV[is_masked_BL], labels_BL[is_masked_BL])
            total += float(losses_M.cpu().double().sum())
            tokens += len(losses_M)

    loss = total / tokens if tokens else math.nan
    is_small = loss < math.log(sys.float_info.max)
    return {
        "perplexity": math.exp(loss) if is_small else None,
        "loss": loss if math.isfinite(loss) else None,
        "tokens": tokens,
    }


def _match_tags(row_labels: Sequence[str], labels: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the model's tag number for each tag number of the rows, matched by name.

    Raises:
        ValueError: The model lacks a label of the rows.
    """
    missing = [label for label in row_labels if label not in labels]
    if missing:
        raise ValueError(
            f"evaluate: the rows have the labels {', '.join(row_labels)}, but the model has "
            f"{', '.join(labels)}; pass the model's labels, and rows that have no other labels"
        )
    numbers = [[*labels].index(label) for label in row_labels]
    return np.array([OUTSIDE, *(1 + 2 * n + inside for n in numbers for inside in (0, 1))])


def _score(
    model: Model,
    examples: Examples,
    scores: MentionScores,
    tags: npt.NDArray[np.int64] | None,
    unseen: UnseenMentions | None,
    batch_size: int,
) -> None:
    """Add a model's predictions for some rows to the scores.

    Args:
        model: See `evaluate`.
        examples: The rows.
        scores: Scores to update.
        tags: The model's tag number for each tag number of the rows; None if they are the same.
        unseen: Recall of seen and new mentions to update, or None.
        batch_size: See `evaluate`.
    """
    ids = examples.input_ids
    if unseen is not None:
        unseen.read(examples)

    # Empty rows count, but are not passed to the model.
    empty = int((ids.lengths == 0).sum())
    if empty:
        no_tokens = np.zeros((empty, 0), np.int64)
        scores.add(no_tokens, no_tokens, no_tokens)

    for rows in batch_by_length(ids.lengths, batch_size):
        output = run_rows(model, ids.take(rows), examples.ids)

        gold = padded(examples.bio.take(rows), OUTSIDE)
        gold = gold if tags is None else tags[gold]
        if getattr(output, "labels", None) not in (None, scores.labels):
            raise ValueError(
                f"evaluate: expected the labels of the model, {', '.join(output.labels)}, got "
                f"{', '.join(scores.labels)}"
            )
        words = padded(examples.word_ids.take(rows), -1)
        predicted = _predict_tags(
            output, (*words.shape, count_tags(len(scores.labels))), words >= 0
        )
        matches = scores.add(gold, predicted, words)
        if unseen is not None:
            unseen.add(matches, words, rows)


def _predict_tags(
    output: Any, shape: tuple[int, ...], in_words: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Return the predicted tags, int64 `[B, L]`.

    Args:
        output: Tag logits, or a `Prediction`.
        shape: B, L, C.
        in_words: bool `[B, L]`, False on special tokens and padding, whose logits may be NaN.
    """
    if not hasattr(output, "mentions"):
        logits = get_logits(output, "tag_logits", "logits")
        if tuple(logits.shape) != shape:
            raise ValueError(
                f"model: expected tag logits of shape {shape}, got {tuple(logits.shape)}"
            )
        check_numbers(logits.float().cpu().numpy()[in_words])
        return logits.argmax(-1).cpu().numpy()

    # A Prediction: paint its mentions.
    tags = np.full(shape[:2], OUTSIDE, np.int64)
    spans = torch.stack([output.span_starts, output.span_ends, output.span_labels]).cpu().numpy()
    rows, columns = np.nonzero(spans[0] != NO_SPAN)
    mentions = spans[:, rows, columns].T.tolist()
    for row, (start, end, label) in zip(rows.tolist(), mentions, strict=True):
        tags[row, start:end] = inside(label)
        tags[row, start] = begin(label)
    return tags
