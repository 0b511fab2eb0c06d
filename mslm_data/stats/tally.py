"""Count the masks of a strategy in a corpus, exactly as in training with the same seed."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.data.length_table import LengthTable
from mslm_data.kernels.tally import tally_rows, tally_units
from mslm_data.kernels.tokens import count_numbered, count_words
from mslm_data.mask.plan import MaskPlan
from mslm_data.mask.strategy import Strategy
from mslm_data.stats.counts import (
    LONGEST_RUN,
    MAX_MASKED,
    RATE_BINS,
    LabelCounts,
    LengthCounts,
    MaskStats,
)
from mslm_data.stats.masked_words import MaskedWord, MaskedWords

Counts = npt.NDArray[np.int64]

LENGTH_COLUMNS = len(dataclasses.fields(LengthCounts))


def mask_stats(
    chunks: Callable[[], Iterable[Examples]],
    strategy: Strategy,
    *,
    seed: int = 0,
    epochs: int = 1,
    labels: Sequence[str],
) -> MaskStats:
    """Count the masks of a strategy, in one pass over the rows; see `count_masks`."""
    return count_masks(chunks, strategy, seed=seed, epochs=epochs, labels=labels).stats()


def count_masks(
    chunks: Callable[[], Iterable[Examples]],
    strategy: Strategy,
    *,
    seed: int = 0,
    epochs: int = 1,
    labels: Sequence[str],
) -> Tally:
    """Count the masks of a strategy, in one pass over the rows.

    Memory holds one chunk, and the types of all words.

    Args:
        chunks: Function that returns the split's rows in chunks of any size. Called once.
        strategy: The strategy.
        seed: Seed of the training. Default: 0.
        epochs: Number of epochs to plan, from epoch 0. Default: 1.
        labels: Labels, by `span_labels`.

    Raises:
        ValueError: `epochs` is below 1, the seed is out of range, or a rate depends on the training
            step or tokens.
    """
    tally = Tally(labels, epochs)

    for examples in chunks():
        plans = (strategy.plan(examples, seed=seed, epoch=epoch) for epoch in range(epochs))
        tally.add(examples, plans)

    return tally


def check_epochs(epochs: int) -> None:
    """Check that there is at least one epoch.

    Raises:
        ValueError: `epochs` is below 1.
    """
    if epochs < 1:
        raise ValueError(f"epochs: expected 1 or more, got {epochs}")


def count_row_words(examples: Examples) -> Counts:
    """Count the words of each row, int64 `[N]`."""
    words = np.empty(len(examples), np.int64)
    count_words(examples.word_ids.offsets, examples.word_ids.values, words)
    return words


def count_rows(examples: Examples) -> Counts:
    """Return the fields of `LengthCounts` for each row, int64 `[N, 5]`, with nothing masked."""
    maskable = np.empty(len(examples), np.int64)
    count_numbered(examples.word_ids.offsets, examples.word_ids.values, maskable)

    columns = np.zeros((len(examples), LENGTH_COLUMNS), np.int64)
    columns[:, 0] = 1
    columns[:, 1] = examples.input_ids.lengths
    columns[:, 2] = maskable
    return columns


class Tally:
    """Accumulates the masks of plans."""

    def __init__(self, labels: Sequence[str], epochs: int, *, words: bool = True) -> None:
        """Start without rows.

        Args:
            labels: Labels, by `span_labels`.
            epochs: Number of plans per chunk.
            words: Whether to count masked words too, which takes half of the time. Default: True.

        Raises:
            ValueError: `epochs` is below 1.
        """
        check_epochs(epochs)
        self._labels = labels
        self._lengths = LengthTable(LENGTH_COLUMNS)
        self._words = MaskedWords() if words else None
        self._digests = [hashlib.sha256() for _ in range(epochs)]

        # Per label: mentions, tokens in mentions, mentions masked whole as ENTITY.
        self._per_label = np.zeros((len(labels), 3), np.int64)

        # Mentions untouched, masked in part, masked whole; and masked tokens in mentions.
        self._mentions = np.zeros(4, np.int64)

        # Rows by number of masked tokens, and those of them with an unspent budget.
        self._per_row = np.zeros(MAX_MASKED + 1, np.int64)
        self._owing_per_row = np.zeros(MAX_MASKED + 1, np.int64)

        self._rates = np.zeros(RATE_BINS, np.int64)
        self._runs = np.zeros(LONGEST_RUN + 1, np.int64)

    def add(self, examples: Examples, plans: Iterable[MaskPlan]) -> None:
        """Add rows.

        Args:
            examples: The rows.
            plans: A plan of these rows for each epoch, in order.
        """
        columns = count_rows(examples)
        maskable = columns[:, 2].copy()
        lengths = self._add_mentions(examples)
        if self._words is not None:
            self._words.see(examples)

        for plan, digest in zip(plans, self._digests, strict=True):
            kinds = plan.kinds.values
            digest.update(np.ascontiguousarray(kinds).data)

            columns[:, 3:] += self._add_masked_rows(plan, maskable)
            self._add_masked_mentions(examples, plan, lengths)
            if self._words is not None:
                self._words.add(examples, kinds)

        self._lengths.add(count_row_words(examples), columns)

    def stats(self) -> MaskStats:
        """Return the counts of all rows added so far."""
        whole, shorter, longer = (LengthCounts(*sums.tolist()) for sums in self._lengths.groups())
        masked = whole.n_elm + whole.n_blm
        words = None if self._words is None else self._words.counts()
        epochs = len(self._digests)

        def count(mentions: int, tokens: int, masked_mentions: int) -> LabelCounts:
            share = _share(tokens, whole.maskable_tokens)
            return LabelCounts(mentions, tokens, masked_mentions, share)

        mentions = count(*self._per_label.sum(axis=0).tolist())
        untouched, partly, whole_mentions, tokens_inside = self._mentions.tolist()
        labels = {
            label: count(*counts)
            for label, counts in zip(self._labels, self._per_label.tolist(), strict=True)
        }

        return MaskStats(
            epochs=epochs,
            sequences=whole.sequences,
            tokens=whole.tokens,
            maskable_tokens=whole.maskable_tokens,
            mentions=mentions.mentions,
            mention_tokens=mentions.mention_tokens,
            masked_mentions=mentions.masked_mentions,
            term_share=mentions.term_share,
            n_elm=whole.n_elm,
            n_blm=whole.n_blm,
            mean_words=self._lengths.mean_words(),
            shorter=shorter,
            longer=longer,
            labels=labels,
            masked_tokens=masked,
            realised_rate=_share(masked, whole.maskable_tokens * epochs),
            realised_elm=_share(mentions.masked_mentions, mentions.mentions * epochs),
            effective_blm=_share(whole.n_blm, whole.maskable_tokens * epochs),
            rows_under_budget=int(self._owing_per_row.sum()),
            rows_without_mask=int(self._per_row[0]),
            share_in_mentions=_share(tokens_inside, masked),
            mentions_whole=whole_mentions,
            mentions_partly=partly,
            mentions_untouched=untouched,
            mean_run_length=_share(masked, int(self._runs.sum())),
            run_lengths=_trimmed(self._runs),
            masked_per_row=_trimmed(self._per_row),
            owing_per_row=_trimmed(self._owing_per_row),
            rate_per_row=tuple(self._rates.tolist()),
            masked_words=None if words is None else int(words.sum()),
            masked_word_types=None if words is None else int(np.count_nonzero(words)),
            masked_word_entropy=None if self._words is None else self._words.entropy(),
            digest=self._digest(),
        )

    def top_words(self, count: int) -> list[MaskedWord]:
        """Return the most masked words; none if words were not counted.

        Args:
            count: Maximum number of words. Ties in order of first appearance.
        """
        return [] if self._words is None else self._words.top(count)

    def _add_mentions(self, examples: Examples) -> Counts:
        """Count the mentions of each label, and return the number of tokens in each mention."""
        lengths = (examples.span_ends.values - examples.span_starts.values).astype(np.int64)
        labels = examples.span_labels.values
        self._per_label[:, 0] += self._count_labels(labels)
        np.add.at(self._per_label[:, 1], labels, lengths)
        return lengths

    def _add_masked_rows(self, plan: MaskPlan, maskable: Counts) -> Counts:
        """Count the masks of one plan by row, and return the ENTITY and BASE tokens, `[N, 2]`."""
        counts = np.empty((len(plan.kinds), 2), np.int64)
        tally_rows(plan.kinds.offsets, plan.kinds.values, self._runs, counts)
        masked = counts[:, 0] + counts[:, 1]

        bins = np.minimum(masked, MAX_MASKED)
        self._per_row += np.bincount(bins, minlength=MAX_MASKED + 1)
        if plan.unspent is not None:
            self._owing_per_row += np.bincount(bins[plan.unspent > 0], minlength=MAX_MASKED + 1)

        # A rate of exactly 1 falls into the last bin.
        has_tokens = maskable > 0
        bins = masked[has_tokens] * RATE_BINS // maskable[has_tokens]
        bins = np.minimum(bins, RATE_BINS - 1)
        self._rates += np.bincount(bins, minlength=RATE_BINS)

        return counts

    def _add_masked_mentions(self, examples: Examples, plan: MaskPlan, lengths: Counts) -> None:
        """Count the masks of one plan by mention."""
        starts = examples.span_starts
        counts = np.empty((len(lengths), 2), np.int64)
        tally_units(
            plan.kinds.offsets,
            starts.offsets,
            starts.values,
            examples.span_ends.values,
            plan.kinds.values,
            counts,
        )
        as_entity = counts[:, 0]
        masked = counts[:, 1]

        labels = examples.span_labels.values
        self._per_label[:, 2] += self._count_labels(labels[as_entity == lengths])

        # 0: untouched, 1: masked in part, 2: masked whole.
        state = (masked > 0).astype(np.int64) + (masked == lengths)
        self._mentions[:3] += np.bincount(state, minlength=3)
        self._mentions[3] += masked.sum()

    def _count_labels(self, labels: npt.NDArray[np.int16]) -> Counts:
        """Return the number of mentions of each label, int64 `[labels]`."""
        return np.bincount(labels, minlength=len(self._labels))

    def _digest(self) -> str:
        """Return the digest of the epoch, or of the epochs' digests."""
        if len(self._digests) == 1:
            return self._digests[0].hexdigest()
        return hashlib.sha256(b"".join(digest.digest() for digest in self._digests)).hexdigest()


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _trimmed(histogram: Counts) -> tuple[int, ...]:
    """Return a histogram without trailing zeros."""
    return tuple(np.trim_zeros(histogram, "b").tolist())
