"""Evaluate models: precision, recall, F1 on unmasked text; perplexity of masked tokens.

Dimensions: B rows, L tokens, V ids of the vocabulary, M masked tokens.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers
import torch
from torch import Tensor

from mslm_data.data.bio import OUTSIDE, begin, count_tags, inside
from mslm_data.data.examples import Examples
from mslm_data.kernels.pad import IGNORED
from mslm_data.mask.table import strategy
from mslm_data.metrics import KnownMentions, MentionScores, RecallOfUnseen
from mslm_data.registry import check_names
from mslm_data.shard.row_protocol import Rows
from mslm_data.torch.model.checks import check_tokenizer
from mslm_data.torch.model.forward import (
    Model,
    batch_by_length,
    check_batches,
    check_numbers,
    evaluating,
    find_device,
    find_module,
    get_logits,
    language_model,
    padded,
    run,
)
from mslm_data.torch.model.loss import token_losses
from mslm_data.torch.model.ranges import NO_SPAN

LEAK = (
    "evaluate: masked=True hides the gold mentions, so that the masks say where they are: a rule "
    "that takes each run of masks for a mention, without reading a word, finds most of them; do "
    "not report these numbers as accuracy"
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
    """Score the mentions that a model predicts against the gold ones, on unmasked text.

    It takes rows, not batches: a batch for training has its mentions hidden, and does not say where
    words begin. Tags are read from the first sub-word of each word.

    Args:
        model: A model called with `input_ids` and `attention_mask`, int64 `[B, L]`. It returns tag
            logits `[B, L, 1 + 2 * labels]`, as a tensor or as `tag_logits` or `logits` of its
            output. Or the method `MslmModel.predict`: the detection head finds mentions, the
            classification head says their types.
        rows: A split of a loaded folder, or any examples.
        labels: The name of each label of the model. A split's own may be fewer, in another order:
            they are compared by name.
        batch_size: Number of rows that the model sees at once.
        mean_words: Where short rows end and long ones begin; None is the average of these rows.
        masked: Score rows whose gold mentions are hidden, as the paper's released code does: joint
            masking with ELM 1.0, and BLM 0.075 drawn for each token. This is a diagnostic, not an
            evaluation, and warns.
        train: The rows that the model was trained on. The result then has `unseen`: recall of
            mentions whose text occurs in these rows' mentions, and of new ones.

    Returns:
        `precision`, `recall` (the paper's exact match), `micro_f1`, `macro_f1` and what else
        `MentionScores.result` has, and `input`: "unmasked" or "masked". With `train`, `unseen` has
        what `RecallOfUnseen.result` returns, with intervals by the bootstrap over documents.

    Raises:
        TypeError: Neither a split nor rows, such as a whole folder; or one name as `labels`.
        ValueError: The model returns no logits, or logits of another shape; it is of another
            tokenizer than the rows; or its labels are others than `labels`, or lack one of a
            split's.
        AnnotateError: The model's scores are not numbers.
    """
    if not isinstance(rows, Rows | Examples):
        raise TypeError(
            "rows: expected a split, such as md.load(folder)['test'], or a subset of one, got "
            f"{type(rows).__name__}"
        )
    check_names("labels", labels)
    if masked:
        warnings.warn(LEAK, stacklevel=2)
    ids = rows.ids if isinstance(rows, Examples) else rows.token_ids
    check_tokenizer("evaluate", find_module(model), ids)

    scores = MentionScores(labels)
    unseen = None if train is None else RecallOfUnseen(_known_mentions(train))
    documents = iter(_row_documents(rows) if unseen else ())
    tags = None if isinstance(rows, Examples) else _tags_by_name(rows.labels, labels)
    with evaluating(model):
        for examples in _chunks(rows):
            names = [*islice(documents, len(examples))]
            _score(
                model, examples, scores, tags, unseen, names, batch_size=batch_size, masked=masked
            )
    result = {"input": "masked" if masked else "unmasked", **scores.result(mean_words=mean_words)}
    return result if unseen is None else {**result, "unseen": unseen.result()}


def perplexity(model: Model, batches: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Measure a model's perplexity over the masked tokens of batches.

    Args:
        model: A masked language model, an `MslmModel`, or any callable with `input_ids` and
            `attention_mask` that returns logits `[B, L, V]`, as a tensor or as `logits` of its
            output.
        batches: Batches of arrays or tensors, packed or not, with `labels`: -100 where nothing is
            predicted.

    Returns:
        `perplexity`, `loss` and `tokens`, as `Perplexity.result` says.

    Raises:
        TypeError: Rows in the place of batches.
        ValueError: The model returns no such logits, or rows are packed and the model is not one
            of Hugging Face, so that it would let them see each other.
    """
    check_batches(batches)
    measured = Perplexity()
    model = language_model(model)
    with evaluating(model):
        for batch in batches:
            measured.add(_masked_logits(model, batch), torch.as_tensor(batch["labels"]))
    return measured.result()


class Perplexity:
    """Accumulate the cross-entropy of masked tokens; perplexity is exp of its mean.

    Natural logarithm, unweighted.

    The sum is kept in float64 over all batches, so it does not depend on how rows fall into
    batches.

    Attributes:
        total: Sum of the losses.
        tokens: Number of masked tokens.
    """

    def __init__(self) -> None:
        """Begin with a sum of 0."""
        self.total = 0.0
        self.tokens = 0

    def add(self, logits_BLV: Tensor, labels_BL: Tensor) -> None:
        """Add a batch.

        Args:
            logits_BLV: Any float; losses are computed in float32 or wider.
            labels_BL: int64, true ids where masked, -100 elsewhere.
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
        """The perplexity; NaN without masked tokens, infinite if it overflows a float."""
        if not self.tokens:
            return math.nan

        try:
            return math.exp(self.total / self.tokens)
        except OverflowError:
            return math.inf

    def result(self) -> dict[str, Any]:
        """Return `perplexity`, mean `loss` and `tokens`, for JSON; None where not finite."""
        mean = self.total / self.tokens if self.tokens else math.nan
        return {"perplexity": _finite(self.value), "loss": _finite(mean), "tokens": self.tokens}


def _masked_logits(model: Model, batch: Mapping[str, Any]) -> Tensor:
    """Return a language model's logits for a batch, `[B, L, V]`."""
    if "sequence_ids" not in batch:
        return get_logits(run(model, batch["input_ids"], batch["attention_mask"]), "logits")

    if not hasattr(model, "config"):
        raise ValueError(
            f"perplexity: in a {type(model).__name__} packed rows would attend to each other; make "
            "the batches without row_tokens and flat"
        )

    # Needs transformers, as that model does.
    from mslm_data.torch.model.packed import ENCODER_COLUMNS, run_packed

    device = find_device(model)
    inputs = {
        name: torch.as_tensor(batch[name]).to(device) for name in ENCODER_COLUMNS if name in batch
    }
    with torch.inference_mode():
        (logits,) = run_packed(
            lambda inputs: (get_logits(model(**inputs), "logits"),), inputs, model
        )
    return logits


def _tags_by_name(given: Sequence[str], labels: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the model's tag number for each tag number of the rows, matched by name.

    Raises:
        ValueError: A label of the rows is not among `labels`.
    """
    absent = [label for label in given if label not in labels]
    if absent:
        raise ValueError(
            f"evaluate: the rows have the labels {', '.join(given)}, the model "
            f"{', '.join(labels)}; pass the labels that the model was trained with, and rows with "
            "the same"
        )
    numbers = [[*labels].index(label) for label in given]
    return np.array([OUTSIDE, *(1 + 2 * n + inside for n in numbers for inside in (0, 1))])


def _known_mentions(train: Rows) -> KnownMentions:
    """Return the texts of the mentions of training rows."""
    core = tokenizers.Tokenizer.from_file(str(train.splits[0].split.tokenizer))
    known = KnownMentions(core.decode_batch)
    for examples in train.chunks():
        rows = np.arange(len(examples))
        known.add(
            padded(examples.input_ids.take(rows), max(examples.ids.pad, 0)),
            padded(examples.bio.take(rows), OUTSIDE),
            padded(examples.word_ids.take(rows), -1),
        )
    return known


def _row_documents(rows: Rows | Examples) -> Iterable[Any]:
    """Return the document of each row; if unknown, each row counts as one."""
    if isinstance(rows, Examples):
        return rows.doc_ids or range(len(rows))
    if len(rows.splits) > 1:
        return range(len(rows))
    return (rows[row]["doc_id"] for row in range(len(rows)))


def _score(
    model: Model,
    examples: Examples,
    scores: MentionScores,
    tags: npt.NDArray[np.int64] | None,
    unseen: RecallOfUnseen | None,
    documents: Sequence[Any],
    *,
    batch_size: int,
    masked: bool,
) -> None:
    """Add a model's predictions for some rows to the scores.

    Args:
        model: See `evaluate`.
        examples: Rows.
        scores: Added to.
        tags: For each tag of the rows, that of the scores; None where they are the same.
        unseen: Added to, where memorised and new mentions are told apart.
        documents: The document of each row; empty without `unseen`.
        batch_size: See `evaluate`.
        masked: See `evaluate`.
    """
    ids = examples.input_ids
    if masked:
        joint = strategy("joint", elm=1.0, blm=0.075, count="bernoulli")
        ids = joint.corrupt(examples, joint.plan(examples, seed=0, epoch=0), seed=0, epoch=0)

    # Empty rows are not shown to the model, but they count as rows.
    empty = int((ids.lengths == 0).sum())
    if empty:
        nothing = np.zeros((empty, 0), np.int64)
        scores.add(nothing, nothing, nothing)

    for places in batch_by_length(ids.lengths, batch_size):
        input_ids = padded(ids.take(places), max(examples.ids.pad, 0))
        present = np.arange(input_ids.shape[1]) < ids.lengths[places, None]
        output = run(model, input_ids, present.astype(np.int64))

        gold = padded(examples.bio.take(places), OUTSIDE)
        gold = gold if tags is None else tags[gold]
        if getattr(output, "labels", None) not in (None, scores.labels):
            raise ValueError(
                f"evaluate: expected the labels of the model, {', '.join(output.labels)}, got "
                f"{', '.join(scores.labels)}"
            )
        words = padded(examples.word_ids.take(places), -1)
        predicted = _tags(output, (*input_ids.shape, count_tags(len(scores.labels))), words >= 0)
        scores.add(gold, predicted, words)
        if unseen is not None:
            text = padded(examples.input_ids.take(places), max(examples.ids.pad, 0))
            unseen.add(text, gold, predicted, words, [documents[place] for place in places])


def _tags(
    output: Any, shape: tuple[int, ...], in_words: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Return the predicted tags, `[B, L]`.

    Args:
        output: Tag logits of this shape, or a `Prediction`.
        shape: B, L, C.
        in_words: `[B, L]`, which tokens are of words: their logits must be numbers.
    """
    if not hasattr(output, "mentions"):
        logits = get_logits(output, "tag_logits", "logits")
        if tuple(logits.shape) != shape:
            raise ValueError(
                f"model: expected tag logits of shape {shape}, got {tuple(logits.shape)}"
            )
        check_numbers(logits.float().cpu().numpy()[in_words])
        return logits.argmax(-1).cpu().numpy()

    tags = np.full(shape[:2], OUTSIDE, np.int64)
    spans = torch.stack([output.span_starts, output.span_ends, output.span_labels]).cpu().numpy()
    rows, places = np.nonzero(spans[0] != NO_SPAN)
    found = spans[:, rows, places].T.tolist()
    for row, (start, end, label) in zip(rows.tolist(), found, strict=True):
        tags[row, start:end] = inside(label)
        tags[row, start] = begin(label)
    return tags


def _chunks(rows: Rows | Examples) -> Iterator[Examples]:
    if isinstance(rows, Examples):
        yield rows
    else:
        yield from rows.chunks()


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
