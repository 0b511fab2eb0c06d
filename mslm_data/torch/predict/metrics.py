"""Evaluate models: precision, recall, F1 on unmasked text; perplexity of masked tokens.

Dimensions: B rows, L tokens, V vocabulary size, C tags, M masked tokens.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers
import torch
from torch import Tensor

from mslm_data.data.bio import OUTSIDE, begin, count_tags, inside
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.kernels.pad import IGNORED
from mslm_data.mask.table import strategy
from mslm_data.metrics import (
    NEW,
    KnownMentions,
    Matches,
    MentionScores,
    RecallOfUnseen,
    mention_texts,
    mention_values,
    row_concepts,
)
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

LEAK = (
    "evaluate: masked=True masks the gold mentions, so the masks give them away: predicting a "
    "mention for each run of masks finds most of them without reading a word; do not report these "
    "numbers as accuracy"
)


def evaluate(
    model: Model,
    rows: Rows | Examples,
    *,
    labels: Sequence[str],
    batch_size: int = 32,
    mean_words: float | None = None,
    masked: bool = False,
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
        masked: Whether to mask the gold mentions, as the released code does: joint masking with ELM
            1.0 and BLM 0.075 by independent draws. For diagnosis only; issues a warning.
        train: The training rows. Adds `unseen` to the result: recall of mentions that occur in the
            training rows, and of new mentions. If both folders have concepts (`annotate.weak`),
            also of known concepts under a new name.

    Returns:
        The result of `MentionScores.result`, with `precision`, `recall` (the paper's exact match),
        `micro_f1`, `macro_f1` and more; and `input`, "unmasked" or "masked". With `train`, `unseen`
        is the result of `RecallOfUnseen.result`, with bootstrap intervals over documents.

    Raises:
        TypeError: `rows` is neither a split nor examples, `train` is not a split, or `labels` is a
            string.
        ValueError: The model returns no logits or logits of another shape; model, rows and `train`
            have different tokenizers; or labels do not match.
        AnnotateError: The model's scores are NaN.
    """
    check_names("labels", labels)
    chunks = check_rows("evaluate", model, rows)
    if masked:
        warnings.warn(LEAK, stacklevel=2)

    # Scores count tags in the model's numbering; `tags` converts those of a split.
    scores = MentionScores(labels)
    unseen = None if train is None else _Unseen(rows, train)
    tags = None if isinstance(rows, Examples) else _match_tags(rows.labels, labels)
    with evaluating(model):
        for examples in chunks:
            _score(model, examples, scores, tags, unseen, batch_size=batch_size, masked=masked)
    result = {"input": "masked" if masked else "unmasked", **scores.result(mean_words=mean_words)}
    return result if unseen is None else {**result, "unseen": unseen.result()}


def perplexity(model: Model, batches: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Measure a model's perplexity over the masked tokens of batches.

    Args:
        model: A masked language model, an `MslmModel`, or any callable with `input_ids` and
            `attention_mask` that returns logits `[B, L, V]`, as a tensor or as `logits` of its
            output.
        batches: Batches of padded rows, arrays or tensors, with `labels`.

    Returns:
        `perplexity`, `loss` and `tokens`, see `Perplexity.result`.

    Raises:
        TypeError: `batches` yields rows.
        ValueError: The model returns no logits, or rows are flat.
    """
    check_batches(batches)
    total = Perplexity()
    model = language_model(model)
    with evaluating(model):
        for batch in batches:
            total.add(_get_batch_logits(model, batch), torch.as_tensor(batch["labels"]))
    return total.result()


class Perplexity:
    """Accumulate the cross-entropy of masked tokens; perplexity is exp of its mean.

    Losses are unweighted, in nats. Their sum is kept in float64 over all batches, so the result
    does not depend on the batch size.

    Attributes:
        total: Sum of the losses.
        tokens: Number of masked tokens.
    """

    def __init__(self) -> None:
        """Start with a sum of 0."""
        self.total = 0.0
        self.tokens = 0

    def add(self, logits_BLV: Tensor, labels_BL: Tensor) -> None:
        """Add a batch.

        Args:
            logits_BLV: Logits, any float dtype. Losses are computed in float32 or wider.
            labels_BL: int64, original ids of masked tokens, -100 elsewhere.
        """
        labels_BL = labels_BL.to(logits_BLV.device)
        masked_BL = labels_BL != IGNORED
        self.add_losses(token_losses(logits_BLV[masked_BL], labels_BL[masked_BL]))

    def add_losses(self, losses_M: Tensor) -> None:
        """Add unweighted losses `[M]`, one per masked token."""
        self.total += float(losses_M.detach().cpu().double().sum())
        self.tokens += losses_M.numel()

    @property
    def value(self) -> float:
        """The perplexity; NaN without masked tokens, infinity on overflow."""
        if not self.tokens:
            return math.nan

        try:
            return math.exp(self.total / self.tokens)
        except OverflowError:
            return math.inf

    def result(self) -> dict[str, Any]:
        """Return `perplexity`, mean `loss` and `tokens`, for JSON; None if not finite."""
        mean = self.total / self.tokens if self.tokens else math.nan
        return {"perplexity": _finite(self.value), "loss": _finite(mean), "tokens": self.tokens}


def _get_batch_logits(model: Model, batch: Mapping[str, Any]) -> Tensor:
    """Return the logits of a batch, `[B, L, V]`."""
    if "sequence_ids" in batch:
        raise ValueError(
            "perplexity: expected padded rows, got a flat batch, in which rows would attend to "
            "each other; make the batches without flat=True"
        )
    return get_logits(run(model, batch["input_ids"], batch["attention_mask"]), "logits")


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


class _Unseen:
    """Classifies gold mentions by the training rows, chunk by chunk, and counts their recall."""

    def __init__(self, rows: Rows | Examples, train: Rows) -> None:
        _check_train(rows, train)
        self._tokenizer = tokenizers.Tokenizer.from_file(str(train.splits[0].source.tokenizer))
        self._known = KnownMentions.from_rows(train, self._tokenizer)

        concepts = None if isinstance(rows, Examples) else row_concepts(rows)
        self._concepts = concepts if self._known.has_concepts else None
        self._documents = iter(_row_documents(rows))
        self._recall = RecallOfUnseen(with_concepts=self._concepts is not None)

    def read_chunk(self, examples: Examples) -> None:
        """Read the documents of the next rows, and classify their gold mentions."""
        rows = len(examples)
        concepts = None
        if self._concepts is not None:
            concepts = [*chain.from_iterable(islice(self._concepts, rows))]
        classes = self._known.classify(mention_texts(examples, self._tokenizer), concepts)

        # Paint each class over the tokens of its mention, for `mention_values`.
        offsets = examples.input_ids.offsets
        starts = examples.span_starts
        firsts = starts.values + np.repeat(offsets[:-1], starts.lengths)
        lengths = examples.span_ends.values - starts.values
        token_classes = np.full(offsets[-1], NEW, np.int32)
        for first, length, number in zip(firsts, lengths, classes, strict=True):
            token_classes[first : first + length] = number

        self._classes = Ragged(token_classes, offsets)
        self._chunk_documents = [*islice(self._documents, rows)]

    def add(
        self, matches: Matches, words: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
    ) -> None:
        """Add a batch.

        Args:
            matches: Its mentions.
            words: `[B, L]`, word number in the row; -1 on special tokens and padding.
            rows: `[B]`, row numbers within the chunk.
        """
        classes = mention_values(padded(self._classes.take(rows), NEW), words, matches.gold)
        self._recall.add(matches, classes, [self._chunk_documents[row] for row in rows])

    def result(self) -> dict[str, Any]:
        """Return the result of `RecallOfUnseen.result`."""
        return self._recall.result()


def _check_train(rows: Rows | Examples, train: Any) -> None:
    """Check that training rows have the tokenizer of the rows, so that texts can be compared.

    Raises:
        TypeError: `train` is not a split.
        ValueError: The tokenizers differ.
    """
    if not isinstance(train, Rows):
        raise TypeError(
            "train: expected the split that the model was trained on, such as "
            f"md.load(folder)['train'], or a subset of it, got {type(train).__name__}"
        )

    if isinstance(rows, Examples):  # these do not know their tokenizer, only its special ids
        is_same = rows.ids == train.token_ids
    else:
        digests = {each.splits[0].source.manifest.tokenizer.sha256 for each in (rows, train)}
        is_same = len(digests) == 1
    if not is_same:
        raise ValueError(
            "train: expected rows of the same tokenizer as the scored rows, got another; build "
            "both folders with the tokenizer of the model"
        )


def _row_documents(rows: Rows | Examples) -> Iterable[Any]:
    """Return the document of each row; if unknown, each row is a document."""
    if isinstance(rows, Examples):
        return rows.doc_ids or range(len(rows))
    if rows.digest is None:  # a mix
        return range(len(rows))
    return rows.splits[0].source.values("doc_id")


def _score(
    model: Model,
    examples: Examples,
    scores: MentionScores,
    tags: npt.NDArray[np.int64] | None,
    unseen: _Unseen | None,
    *,
    batch_size: int,
    masked: bool,
) -> None:
    """Add a model's predictions for some rows to the scores.

    Args:
        model: See `evaluate`.
        examples: The rows.
        scores: Scores to update.
        tags: The model's tag number for each tag number of the rows; None if they are the same.
        unseen: Recall of seen and new mentions to update, or None.
        batch_size: See `evaluate`.
        masked: See `evaluate`.
    """
    ids = examples.input_ids
    if masked:
        joint = strategy("joint", elm=1.0, blm=0.075, count="bernoulli")
        ids = joint.corrupt(examples, joint.plan(examples, seed=0, epoch=0), seed=0, epoch=0)

    if unseen is not None:
        unseen.read_chunk(examples)

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


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
