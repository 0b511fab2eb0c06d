"""Counts what a strategy hides in a corpus, exactly as training with the same seed will hide it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.kernels.tally import tally_rows, tally_units
from mslm_data.kernels.tokens import count_numbered, count_words
from mslm_data.mask.plan import MaskPlan
from mslm_data.mask.strategy import Strategy
from mslm_data.stats.counts import (
    LONGEST_RUN,
    MOST_MASKED,
    RATE_BINS,
    LabelCounts,
    LengthCounts,
    MaskStats,
)
from mslm_data.stats.masked_words import MaskedWords

Counts = npt.NDArray[np.int64]


def mask_stats(
    chunks: Callable[[], Iterable[Examples]],
    strategy: Strategy,
    *,
    seed: int = 0,
    epochs: int = 1,
    labels: Sequence[str],
) -> MaskStats:
    """Count what a strategy hides in one pass; a chunk and the types of its words are in memory at a time.

    Args:
        chunks: Called once; gives the split's rows in chunks of any size.
        strategy: What to plan with.
        seed: As in training.
        epochs: Epochs `[0, epochs)` are planned.
        labels: The names that `span_labels` index.

    Raises:
        ValueError: No epoch, or a seed out of range; a strategy with a rate that follows the step of training.
    """
    check_epochs(epochs)
    tally = Tally(labels, epochs)
    for examples in chunks():
        tally.add(
            examples, (strategy.plan(examples, seed=seed, epoch=epoch) for epoch in range(epochs))
        )
    return tally.stats()


def check_epochs(epochs: int) -> None:
    """Refuse to count nothing.

    Raises:
        ValueError: Fewer than one epoch.
    """
    if epochs < 1:
        raise ValueError(f"epochs: expected 1 or more, got {epochs}")


def words_of_rows(examples: Examples) -> Counts:
    """Return the number of words of each row, `[N]`: distinct `word_ids` that are not -1."""
    words = np.empty(len(examples), np.int64)
    count_words(examples.word_ids.offsets, examples.word_ids.values, words)
    return words


def maskable_of_rows(examples: Examples) -> Counts:
    """Return the number of tokens of each row that are not special, `[N]`."""
    maskable = np.empty(len(examples), np.int64)
    count_numbered(examples.word_ids.offsets, examples.word_ids.values, maskable)
    return maskable


class LengthTable:
    """Sums over rows by their number of words, so that one pass tells rows shorter than average from longer ones."""

    def __init__(self) -> None:
        """Begin with no row."""
        self._sums = np.zeros((0, 5), np.int64)

    def add(self, words: Counts, rows: Counts) -> None:
        """Add rows.

        Args:
            words: `[N]`, words of each row.
            rows: `[N, 5]`, the fields of `LengthCounts`.
        """
        missing = int(words.max(initial=-1)) + 1 - len(self._sums)
        if missing > 0:
            self._sums = np.concatenate([self._sums, np.zeros((missing, 5), np.int64)])
        np.add.at(self._sums, words, rows)

    def mean_words(self) -> float:
        """Return the average words of a row; 0 where there is no row."""
        rows, words = self._totals()
        return words / rows if rows else 0.0

    def groups(self) -> tuple[LengthCounts, LengthCounts, LengthCounts]:
        """Return the counts of all rows, of the shorter ones and of the longer."""
        rows, words = self._totals()
        side = np.sign(
            np.arange(len(self._sums)) * rows - words
        )  # in whole numbers: no average to round
        groups = (self._sums, self._sums[side < 0], self._sums[side > 0])
        whole, shorter, longer = (LengthCounts(*group.sum(axis=0).tolist()) for group in groups)
        return whole, shorter, longer

    def _totals(self) -> tuple[int, int]:
        rows = self._sums[:, 0]
        return int(rows.sum()), int(rows @ np.arange(len(rows)))


class Tally:
    """Adds up what plans hide."""

    def __init__(self, labels: Sequence[str], epochs: int) -> None:
        """Begin with nothing.

        Args:
            labels: The names that `span_labels` index.
            epochs: How many plans each chunk will have.
        """
        self._labels = labels
        self._lengths, self._words = LengthTable(), MaskedWords()
        self._digests = [hashlib.sha256() for _ in range(epochs)]
        self._per_label = np.zeros((len(labels), 3), np.int64)
        self._runs = np.zeros(LONGEST_RUN + 1, np.int64)
        self._per_row = np.zeros(
            (2, MOST_MASKED + 1), np.int64
        )  # rows that owe nothing, and those that do
        self._rates = np.zeros(RATE_BINS, np.int64)
        self._mentions = np.zeros(
            4, np.int64
        )  # untouched, partly, whole; masked tokens in mentions

    def add(self, examples: Examples, plans: Iterable[MaskPlan]) -> None:
        """Add the next rows.

        Args:
            examples: The rows.
            plans: Of each epoch, in order.
        """
        starts, ends, labels = examples.span_starts, examples.span_ends, examples.span_labels.values
        rows, maskable = np.zeros((len(examples), 5), np.int64), maskable_of_rows(examples)
        rows[:, 0], rows[:, 1], rows[:, 2] = 1, examples.input_ids.lengths, maskable
        sizes = (ends.values - starts.values).astype(np.int64)
        np.add.at(
            self._per_label,
            labels,
            np.stack([np.ones_like(sizes), sizes, np.zeros_like(sizes)], axis=1),
        )
        self._words.see(examples)
        for plan, digest in zip(plans, self._digests, strict=True):
            kinds = plan.kinds.values
            digest.update(np.ascontiguousarray(kinds).data)
            self._words.add(examples, kinds)
            rows[:, 3:] += self._add_rows(plan, maskable)
            inside = np.empty((len(sizes), 2), np.int64)
            tally_units(
                plan.kinds.offsets, starts.offsets, starts.values, ends.values, kinds, inside
            )
            np.add.at(self._per_label[:, 2], labels[inside[:, 0] == sizes], 1)
            state = (inside[:, 1] > 0) * 1 + (inside[:, 1] == sizes)
            self._mentions += [*np.bincount(state, minlength=3), inside[:, 1].sum()]
        self._lengths.add(words_of_rows(examples), rows)

    def stats(self) -> MaskStats:
        """Return what was added."""
        whole, shorter, longer = self._lengths.groups()
        mentions = LabelCounts(*self._per_label.sum(axis=0).tolist())
        labels = {
            label: LabelCounts(*counts)
            for label, counts in zip(self._labels, self._per_label.tolist(), strict=True)
        }
        untouched, partly, all_of, inside = self._mentions.tolist()
        masked, words = whole.n_elm + whole.n_blm, self._words.counts()
        per_row = self._per_row.sum(axis=0)
        return MaskStats(
            sequences=whole.sequences,
            tokens=whole.tokens,
            maskable_tokens=whole.maskable_tokens,
            mentions=mentions.mentions,
            mention_tokens=mentions.mention_tokens,
            masked_mentions=mentions.masked_mentions,
            n_elm=whole.n_elm,
            n_blm=whole.n_blm,
            mean_words=self._lengths.mean_words(),
            shorter=shorter,
            longer=longer,
            labels=labels,
            masked_tokens=masked,
            realised_rate=_share(masked, whole.maskable_tokens * len(self._digests)),
            rows_under_budget=int(self._per_row[1].sum()),
            rows_without_mask=int(per_row[0]),
            share_in_mentions=_share(inside, masked),
            mentions_whole=all_of,
            mentions_partly=partly,
            mentions_untouched=untouched,
            mean_run_length=_share(masked, int(self._runs.sum())),
            run_lengths=_trimmed(self._runs),
            masked_per_row=_trimmed(per_row),
            owing_per_row=_trimmed(self._per_row[1]),
            rate_per_row=tuple(self._rates.tolist()),
            masked_words=int(words.sum()),
            masked_word_types=int(np.count_nonzero(words)),
            masked_word_entropy=self._words.entropy(),
            digest=self._digest(),
        )

    def _add_rows(self, plan: MaskPlan, maskable: Counts) -> Counts:
        """Add one plan's rows, and return the ENTITY and BASE tokens of each, `[N, 2]`."""
        counts = np.empty((len(plan.kinds), 2), np.int64)
        tally_rows(plan.kinds.offsets, plan.kinds.values, self._runs, counts)
        hidden = counts.sum(axis=1)
        owing = np.zeros(len(hidden), np.int64) if plan.owed is None else (plan.owed > 0) * 1
        np.add.at(self._per_row, (owing, np.minimum(hidden, MOST_MASKED)), 1)
        some = maskable > 0
        bins = np.minimum(hidden[some] * RATE_BINS // maskable[some], RATE_BINS - 1)
        self._rates += np.bincount(bins, minlength=RATE_BINS)
        return counts

    def _digest(self) -> str:
        if len(self._digests) == 1:
            return self._digests[0].hexdigest()
        return hashlib.sha256(b"".join(digest.digest() for digest in self._digests)).hexdigest()


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _trimmed(histogram: Counts) -> tuple[int, ...]:
    """Return a histogram without the zeros at its end."""
    return tuple(np.trim_zeros(histogram, "b").tolist())
