"""Score models, with counts by group of sentences for the intervals.

Row i of a split is in group `i % GROUPS`. Counts of groups reveal nothing about a single sentence.
As the groups are random and many, they give the same intervals as counts of sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

import mslm_data as md
from experiments import intervals
from experiments.corpora import HELD_OUT, Cache
from experiments.training import reading
from mslm_data.data.bio import OUTSIDE
from mslm_data.data.examples import Examples
from mslm_data.mask.plan import MaskKind
from mslm_data.mask.strategy import Strategy
from mslm_data.metrics import NEW, KnownMentions, MentionCounts, first_subwords, word_mentions
from mslm_data.shard.split import Rows, Split
from mslm_data.torch import MslmModel, mention_confidence
from mslm_data.torch.model.families import find_decoder
from mslm_data.torch.model.forward import batch_by_length, padded

GROUPS = 100
BATCH = 64
CONFIDENCE_ROWS = 1_000
"""Maximum number of test rows for `_confidence`, which reads a row again for each mention."""

Counts = npt.NDArray[np.int64]

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def mention_scores(model: MslmModel, split: Split) -> dict[str, Any]:
    """Score the detection head's mentions on unmasked text.

    Returns:
        `precision`, `recall` and `f1` of all rows; `groups`: hits, gold and predicted mentions of
        each group; `shorter` and `longer`: the same counts over rows with fewer and with more words
        than the average (Table 5 of Abaho et al. 2024).
    """
    counts = np.zeros((len(split), 3), np.int64)  # hits, gold, predicted
    words_of_rows = np.zeros(len(split), np.int64)
    for batch in _predicted_tags(model, split):
        counts[batch.rows] = _by_row(batch.gold, batch.tags, batch.words)
        words_of_rows[batch.rows] = first_subwords(batch.words).sum(axis=1)

    groups = np.zeros((GROUPS, 3), np.int64)
    np.add.at(groups, np.arange(len(counts)) % GROUPS, counts)
    apart = words_of_rows - words_of_rows.mean()
    return _totals(counts) | {
        "groups": _named(groups.T.tolist()),
        "shorter": _named(counts[apart < 0].sum(axis=0).tolist()),
        "longer": _named(counts[apart > 0].sum(axis=0).tolist()),
    }


def unseen_scores(
    model: MslmModel, split: Split, train: Rows, decode: Callable[[list[list[int]]], list[str]]
) -> dict[str, Any]:
    """Score the detection head's mentions, all of them and those absent from the training rows.

    Groups are blocks of consecutive rows, because neighbours come from the same document.

    Args:
        model: Model with a detection head.
        split: Rows to score.
        train: Rows the model was fine-tuned on.
        decode: Decodes lists of token ids.

    Returns:
        `precision`, `recall` and `f1`; `groups`: hits, gold and predicted mentions of each group;
        `new`: hits and gold mentions of each group, for texts that no training mention has.
    """
    known = KnownMentions()
    for start in range(0, len(train), BATCH):
        examples = train.take(np.arange(start, min(start + BATCH, len(train))))
        ids, gold, words = _padded(examples, np.arange(len(examples)))
        known.add(_texts(ids, words, word_mentions(gold, words), decode))

    groups = np.zeros((GROUPS, 5), np.int64)  # hits, gold, predicted, new hits, new gold
    for batch in _predicted_tags(model, split):
        # Batches have rows of similar length, so the block follows from the index in the split.
        blocks = batch.rows * GROUPS // len(split)
        np.add.at(groups[:, :3], blocks, _by_row(batch.gold, batch.tags, batch.words))

        predicted = {tuple(mention) for mention in word_mentions(batch.tags, batch.words).tolist()}
        gold = word_mentions(batch.gold, batch.words)
        classes = known.classify(_texts(batch.ids, batch.words, gold, decode))
        for mention in gold[classes == NEW].tolist():
            groups[blocks[mention[0]], 3:] += (tuple(mention) in predicted, 1)

    hits, new = groups[:, 3].tolist(), groups[:, 4].tolist()
    return _totals(groups[:, :3]) | {
        "groups": _named(groups[:, :3].T.tolist()),
        "new": {"hits": hits, "gold": new},
    }


def _texts(
    ids: Counts,
    words: Counts,
    mentions: Counts,
    decode: Callable[[list[list[int]]], list[str]],
) -> list[str]:
    """Return the text of each mention, `[M]`; see `word_mentions`."""
    # Number the words of each row from 0, as `word_mentions` does.
    ordinals = np.cumsum(first_subwords(words), axis=1) - 1
    ordinals[words < 0] = -1
    return decode(
        [
            ids[row, (ordinals[row] >= first) & (ordinals[row] < past)].tolist()
            for row, first, past, _ in mentions.tolist()
        ]
    )


class _Batch(NamedTuple):
    """Rows with their predicted tags, `[B, L]`, and the indices of the rows in the split, `[B]`."""

    rows: npt.NDArray[np.int64]
    ids: Counts
    gold: Counts
    words: Counts
    tags: Counts


def _predicted_tags(model: MslmModel, split: Split) -> Iterator[_Batch]:
    """Yield all rows of a split with their predicted tags, in batches of similar length."""
    examples = split.examples()
    lengths = examples.input_ids.lengths
    with reading(model) as device:
        for rows in batch_by_length(lengths, BATCH):
            ids, gold, words = _padded(examples, rows)
            present = np.arange(ids.shape[1]) < lengths[rows, None]
            output = model(
                torch.from_numpy(ids).to(device),
                torch.from_numpy(present.astype(np.int64)).to(device),
            )
            tags = output.logits.float().argmax(-1).cpu().numpy()
            yield _Batch(rows, ids, gold, words, tags)


def _padded(examples: Examples, rows: Counts) -> tuple[Counts, Counts, Counts]:
    """Return padded ids, tags and word numbers of rows, `[B, L]` each."""
    return (
        padded(examples.input_ids.take(rows), max(examples.ids.pad, 0)),
        padded(examples.bio.take(rows), OUTSIDE),
        padded(examples.word_ids.take(rows), -1),
    )


def _totals(counts: Counts) -> dict[str, Any]:
    """Return precision, recall and F1 from hits, gold and predicted mentions, `[N, 3]`."""
    total = MentionCounts(*counts.sum(axis=0).tolist())
    return {name: getattr(total, name) for name in ("precision", "recall", "f1")}


def _named(counts: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(("hits", "gold", "predicted"), counts, strict=True))


def _by_row(gold: Counts, tags: Counts, words: Counts) -> Counts:
    """Return hits, gold and predicted mentions of each row, `[B, 3]`."""
    counts = np.zeros((len(gold), 3), np.int64)
    true = {tuple(mention) for mention in word_mentions(gold, words).tolist()}
    predicted = {tuple(mention) for mention in word_mentions(tags, words).tolist()}
    for column, mentions in enumerate((true & predicted, true, predicted)):
        for row, *_ in mentions:
            counts[row, column] += 1
    return counts


def class_scores(gold: Sequence[int], predicted: Sequence[int], classes: int) -> dict[str, Any]:
    """Score predicted classes.

    Returns:
        `macro_f1`, the mean over classes with gold or predicted rows; `micro_f1`, the accuracy;
        `gold` and `predicted`, the class of each row as a digit of base 36, for the intervals.
    """
    counts = intervals.by_class(gold, predicted, classes).sum(axis=0)
    return {
        "macro_f1": float(intervals.macro_f1(counts)),
        "micro_f1": float(intervals.micro_f1(counts)),
        "classes": classes,
        "gold": "".join(_DIGITS[label] for label in gold),
        "predicted": "".join(_DIGITS[label] for label in predicted),
    }


def sensitivity(model: MslmModel, cache: Cache, *, confidence: bool = True) -> dict[str, Any]:
    """Measure the prediction of masked tokens in test text, for terms and for other words.

    The masks are the same for all models: once all mentions, whole; once 15 % of the tokens outside
    mentions. All masked tokens become `[MASK]`.

    Args:
        model: Masked language model.
        cache: Corpora.
        confidence: Whether to also mask each mention by itself. Default: True.

    Returns:
        Corpus -> `terms` and `others` -> `accuracy`, `perplexity` and `groups`: hits, tokens, and
        summed losses of each group; with `confidence`, also `mentions` -> the result of
        `_confidence`.
    """
    fixed = {
        "terms": (md.strategy("elm"), MaskKind.ENTITY),
        "others": (md.strategy("blm", blm=0.15, pool="generic_only"), MaskKind.BASE),
    }
    results = {}
    for corpus in HELD_OUT:
        test = cache.ner(corpus)["test"]
        results[corpus] = {
            name: _predicted(model, test, strategy, kind)
            for name, (strategy, kind) in fixed.items()
        }
        if confidence:
            results[corpus]["mentions"] = _confidence(model, test)
    return results


def _predicted(
    model: MslmModel, split: Split, strategy: Strategy, kind: MaskKind
) -> dict[str, Any]:
    """Measure the prediction of all masked tokens of a kind."""
    decoder = find_decoder(model.masked_lm)
    assert decoder is not None  # noqa: S101 # MiniLM is a BERT
    examples = split.examples()
    plan = strategy.plan(examples, seed=0, epoch=0)
    corrupted = strategy.corrupt(examples, plan, seed=0, epoch=0)

    groups = np.zeros((GROUPS, 3))  # hits, tokens, sum of losses
    lengths = examples.input_ids.lengths
    with reading(model) as device:
        for places in batch_by_length(lengths, BATCH):
            true = padded(examples.input_ids.take(places), max(examples.ids.pad, 0))
            present = np.arange(true.shape[1]) < lengths[places, None]
            masked = (padded(plan.kinds.take(places), 0) == int(kind)) & present
            if not masked.any():
                continue

            input_ids = torch.from_numpy(padded(corrupted.take(places), max(examples.ids.pad, 0)))
            hidden = model.encoder()(
                input_ids=input_ids.to(device),
                attention_mask=torch.from_numpy(present.astype(np.int64)).to(device),
            )[0]
            targets = torch.from_numpy(true[masked]).to(device)
            logits = decoder(hidden[torch.from_numpy(masked).to(device)]).float()
            losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
            hits = logits.argmax(-1) == targets

            # `logits` has one row per masked token; add each to the group of its sentence.
            rows = places[np.nonzero(masked)[0]]
            columns = [hits.cpu().numpy(), np.ones(len(rows)), losses.cpu().numpy()]
            np.add.at(groups, rows % GROUPS, np.stack(columns, axis=1))

    hits, tokens, loss = groups.sum(axis=0)
    return {
        "accuracy": float(hits / tokens),
        "perplexity": float(np.exp(loss / tokens)),
        "groups": {
            "hits": groups[:, 0].astype(int).tolist(),
            "tokens": groups[:, 1].astype(int).tolist(),
            "loss": groups[:, 2].round(2).tolist(),
        },
    }


def _confidence(model: MslmModel, split: Split) -> dict[str, Any]:
    """Measure the probability of each mention, masked by itself.

    Returns:
        `confidence`, the mean over mentions of the geometric mean of their tokens' probabilities
        (Figure 2 of Abaho et al. 2024); and `groups`: summed confidence and number of mentions of
        each group.
    """
    examples = split.take(range(min(CONFIDENCE_ROWS, len(split))))
    with reading(model):
        confidence = mention_confidence(model, examples, batch_size=BATCH).geometric_mean

    groups = np.zeros((GROUPS, 2))
    rows = np.repeat(np.arange(len(examples)), examples.span_starts.lengths)
    np.add.at(groups, rows % GROUPS, np.stack([confidence, np.ones(len(confidence))], axis=1))
    return {
        "confidence": float(confidence.mean()),
        "groups": {
            "confidence": groups[:, 0].round(5).tolist(),
            "mentions": groups[:, 1].astype(int).tolist(),
        },
    }
