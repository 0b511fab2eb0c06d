from __future__ import annotations

import hashlib
import math
from collections import Counter
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mslm_data as md
from mslm_data.data.ragged import Ragged
from mslm_data.mask.plan import MaskPlan
from mslm_data.mask.table import varied
from mslm_data.stats import (
    LengthCounts,
    MaskedWord,
    MaskSpecificWeights,
    count_masks,
    mask_stats,
    released_weights,
    sweep,
)
from mslm_data.stats.counts import LONGEST_RUN, MAX_MASKED
from mslm_data.stats.grid import BLMS, ELMS, has_both_rates
from mslm_data.stats.weights import SCHEMES
from tests.generate import examples_of, fixed_examples, random_examples, row_of, rows_of, take
from tests.reference import joint as twins
from tests.reference import tally as tally_twin
from tests.reference import weights as twin

TOKENS = st.integers(0, 10**9)


@given(TOKENS, TOKENS)
def test_weights__equal_twin(n_elm, n_blm):
    assert md.mask_specific_weights(n_elm, n_blm) == pytest.approx(
        twin.paper(n_elm, n_blm), abs=1e-14
    )
    assert released_weights(n_elm, n_blm) == pytest.approx(twin.released(n_elm, n_blm), abs=1e-14)


@pytest.mark.parametrize(
    ("n_elm", "n_blm", "raw", "clipped", "final", "saturated"),
    [
        (30, 70, (0.7, 0.3), (0.7, 0.3), (0.598688, 0.401312), False),
        (10, 90, (0.9, 0.1), (0.9, 0.1), (0.689974, 0.310026), False),
        (40, 60, (0.6, 0.4), (0.6, 0.4), (0.549834, 0.450166), False),
        (50, 50, (0.5, 0.5), (0.5, 0.5), (0.5, 0.5), False),
        (70, 30, (0.3, 0.7), (0.5, 0.5), (0.5, 0.5), True),
        (60, 40, (0.4, 0.6), (0.5, 0.5), (0.5, 0.5), True),  # the paper's example in 4.2
        (0, 100, (1.0, 0.0), (1.0, 0.0), (0.731059, 0.268941), False),
        (100, 0, (0.0, 1.0), (0.5, 0.5), (0.5, 0.5), True),
        (0, 0, (0.5, 0.5), (0.5, 0.5), (0.5, 0.5), False),
    ],
)
def test_weights__worked_examples(n_elm, n_blm, raw, clipped, final, saturated):
    weights = MaskSpecificWeights.from_counts(n_elm, n_blm)

    assert (weights.w_elm_raw, weights.w_blm_raw) == pytest.approx(raw)
    assert (weights.w_elm_clipped, weights.w_blm_clipped) == pytest.approx(clipped)
    assert (weights.w_elm, weights.w_blm) == pytest.approx(final, abs=5e-7)
    assert weights.saturated is saturated
    assert md.mask_specific_weights(n_elm, n_blm) == (weights.w_elm, weights.w_blm)


@pytest.mark.parametrize(
    ("n_elm", "n_blm", "w_elm"),
    [(30, 70, 0.5498), (70, 30, 0.5498), (64902, 29213, 0.5473), (0, 100, 0.6225), (0, 0, 0.5)],
)
def test_released_weights__worked_examples(n_elm, n_blm, w_elm):
    assert released_weights(n_elm, n_blm) == pytest.approx((w_elm, 1 - w_elm), abs=5e-5)


@pytest.mark.parametrize("weights", SCHEMES.values(), ids=SCHEMES)
@pytest.mark.parametrize(("n_elm", "n_blm"), [(3, -1), (math.nan, 1)])
def test_weights__of_no_number_of_tokens(weights, n_elm, n_blm):
    message = rf"^weights: expected numbers of tokens, got n_elm={n_elm}, n_blm={n_blm}$"
    with pytest.raises(ValueError, match=message):
        weights(n_elm, n_blm)


def in_chunks(examples, size):
    return lambda: (
        take(examples, range(start, min(start + size, len(examples))))
        for start in range(0, len(examples), size)
    )


def slow_stats(examples, *, seed, epochs, labels, **options):
    """Count over rows as lists. Per row: tokens, maskable, words, n_elm, n_blm; per mention: label, tokens, masked."""
    rows, mentions = [], []
    for row in rows_of(examples):
        masks = [twins.joint(row, seed=seed, epoch=epoch, **options) for epoch in range(epochs)]
        n_elm, n_blm = (sum(mask.count(kind) for mask in masks) for kind in (2, 1))
        real = [word for word in row.word_ids if word >= 0]
        rows.append((len(row.ids), len(real), len(set(real)), n_elm, n_blm))
        for start, end, label in row.mentions:
            mentions.append(
                (label, end - start, sum(set(mask[start:end]) == {2} for mask in masks))
            )
    mean = sum(row[2] for row in rows) / max(len(rows), 1)

    def group(some):
        return (len(some), *(sum(row[column] for row in some) for column in (0, 1, 3, 4)))

    maskable = max(sum(row[1] for row in rows), 1)

    def label_counts(some):
        tokens = sum(size for _, size, _ in some)
        masked = sum(masked for _, _, masked in some)
        return (len(some), tokens, masked, tokens / maskable)

    return {
        "all": group(rows),
        "shorter": group([row for row in rows if row[2] < mean]),
        "longer": group([row for row in rows if row[2] > mean]),
        "mean_words": mean,
        "mentions": label_counts(mentions),
        "labels": [label_counts([m for m in mentions if m[0] == k]) for k in range(len(labels))],
    }


@given(random_examples(), st.integers(1, 3), st.integers(1, 3), st.sampled_from([0.25, 0.5, 1.0]))
def test_mask_stats__equals_twin(examples, size, epochs, elm):
    strategy = md.strategy("joint", elm=elm, blm=0.15)
    stats = mask_stats(
        in_chunks(examples, size), strategy, seed=7, epochs=epochs, labels=["a", "b"]
    )
    slow = slow_stats(examples, seed=7, epochs=epochs, labels=["a", "b"], elm=elm, blm=0.15)

    assert (stats.sequences, stats.tokens, stats.maskable_tokens, stats.n_elm, stats.n_blm) == slow[
        "all"
    ]
    assert tuple(asdict(stats.shorter).values()) == slow["shorter"]
    assert tuple(asdict(stats.longer).values()) == slow["longer"]
    in_all = (stats.mentions, stats.mention_tokens, stats.masked_mentions, stats.term_share)
    assert in_all == slow["mentions"]
    assert [tuple(asdict(counts).values()) for counts in stats.labels.values()] == slow["labels"]
    assert stats.mean_words == pytest.approx(slow["mean_words"])


def test_mask_stats__whatever_the_chunks():
    examples = fixed_examples()
    strategy = md.strategy("joint", elm=0.5)
    seen = [
        mask_stats(in_chunks(examples, size), strategy, epochs=2, labels=["a", "b"])
        for size in (1, 7, 64)
    ]

    assert seen[0] == seen[1] == seen[2]


def test_mask_stats__rows_of_average_length_are_in_neither_group():
    examples = examples_of([row_of([1] * 2), row_of([2] * 3), row_of([1] * 4, [(0, 1)])])
    stats = mask_stats(lambda: [examples], md.strategy("joint", blm=0), labels=["a"])

    assert stats.mean_words == 3
    assert stats.shorter == LengthCounts(sequences=1, tokens=4, maskable_tokens=2, n_elm=0, n_blm=0)
    assert stats.longer == LengthCounts(sequences=1, tokens=6, maskable_tokens=4, n_elm=1, n_blm=0)


def test_terms_in_loss__is_their_share_of_the_weights_of_all_masked_tokens():
    examples = fixed_examples()
    strategy = md.strategy("joint", elm=0.3)
    stats = mask_stats(lambda: [examples], strategy, labels=["a", "b"])
    kinds = strategy.plan(examples).kinds.values

    weight = {0: 0.0, 1: stats.weights.w_blm, 2: stats.weights.w_elm}
    weights = [weight[kind] for kind in kinds.tolist()]

    terms = sum(w for w, kind in zip(weights, kinds.tolist(), strict=True) if kind == 2)
    assert 0 < terms < sum(weights)
    assert stats.terms_in_loss == pytest.approx(terms / sum(weights))


def test_mask_stats__no_rows():
    stats = mask_stats(lambda: [], md.strategy("joint"), labels=[])

    assert (stats.sequences, stats.n_elm, stats.mean_words, stats.weights.w_elm) == (0, 0, 0.0, 0.5)
    assert stats.terms_in_loss == 0


def test_mask_stats__no_epoch():
    with pytest.raises(ValueError, match=r"^epochs: expected 1 or more, got 0$"):
        mask_stats(lambda: [], md.strategy("joint"), epochs=0, labels=[])


def slow_masked(examples, *, seed, epochs, **options):
    """Count masks by row, mention, run and word, over lists."""
    masked, mentions, runs, words = [], Counter(), [], Counter()
    inside = 0
    for row in rows_of(examples):
        for epoch in range(epochs):
            mask = twins.joint(row, seed=seed, epoch=epoch, **options)
            masked.append((len(mask) - mask.count(0), sum(word >= 0 for word in row.word_ids)))
            runs += tally_twin.runs(mask)
            for start, end, _ in row.mentions:
                count = sum(kind > 0 for kind in mask[start:end])
                inside += count
                mentions[
                    "whole" if count == end - start else "partly" if count else "untouched"
                ] += 1
            words.update(
                ids for ids, places in tally_twin.words(row) if any(mask[t] for t in places)
            )
    return masked, mentions, runs, words, inside


@given(random_examples(), st.integers(1, 3), st.integers(1, 3), st.sampled_from([0.25, 1.0]))
def test_mask_stats__what_is_masked_equals_twin(examples, size, epochs, elm):
    strategy = md.strategy("joint", elm=elm, blm=0.4)
    stats = mask_stats(
        in_chunks(examples, size), strategy, seed=7, epochs=epochs, labels=["a", "b"]
    )
    masked, mentions, runs, words, inside = slow_masked(
        examples, seed=7, epochs=epochs, elm=elm, blm=0.4
    )

    total, possible = sum(n for n, _ in masked), sum(n for _, n in masked)
    per_row, lengths = Counter(n for n, _ in masked), Counter(runs)
    bins = Counter(min(n * 20 // of, 19) for n, of in masked if of)
    assert stats.masked_tokens == total
    assert stats.realised_rate == pytest.approx(total / max(possible, 1))
    assert stats.share_in_mentions == pytest.approx(inside / max(total, 1))
    assert stats.mentions_whole == mentions["whole"]
    assert stats.mentions_partly == mentions["partly"]
    assert stats.mentions_untouched == mentions["untouched"]
    assert stats.rows_without_mask == per_row[0]
    assert list(stats.masked_per_row) == [per_row[k] for k in range(max(per_row, default=-1) + 1)]
    assert list(stats.run_lengths) == [lengths[k] for k in range(max(lengths, default=-1) + 1)]
    assert stats.mean_run_length == pytest.approx(sum(runs) / max(len(runs), 1))
    assert list(stats.rate_per_row) == [bins[k] for k in range(20)]
    assert (stats.masked_words, stats.masked_word_types) == (sum(words.values()), len(words))
    assert stats.masked_word_entropy == pytest.approx(tally_twin.entropy(words))


def test_mask_stats__rows_under_budget_are_those_that_owe():
    rows = [row_of([1] * 8, [(0, 8)], key=1), row_of([1] * 8, [(0, 1)], key=2), row_of([], key=3)]
    stats = mask_stats(
        lambda: [examples_of(rows)], md.strategy("joint", blm=0.25), epochs=3, labels=["a"]
    )

    assert stats.rows_under_budget == 3  # nothing is left for BLM in the first row
    assert stats.owing_per_row == (0,) * 8 + (3,)
    assert stats.masked_per_row == (3, 0, 0, 3, 0, 0, 0, 0, 3)
    assert stats.rows_without_mask == 3


def test_mask_stats__histograms_end():
    rows = [row_of([1] * (MAX_MASKED + 50), [(0, MAX_MASKED + 50)])]
    stats = mask_stats(lambda: [examples_of(rows)], md.strategy("elm"), labels=["a"])

    assert stats.masked_per_row == (0,) * MAX_MASKED + (1,)
    assert stats.run_lengths == (0,) * LONGEST_RUN + (1,)
    assert stats.mean_run_length == MAX_MASKED + 50


def test_mask_stats__digest_is_of_the_kinds_in_stored_order():
    examples, strategy = fixed_examples(), md.strategy("joint", elm=0.5)
    kinds = [strategy.plan(examples, epoch=epoch).kinds.values.tobytes() for epoch in range(2)]
    one = mask_stats(lambda: [examples], strategy, labels=["a", "b"])
    two = mask_stats(in_chunks(examples, 5), strategy, epochs=2, labels=["a", "b"])

    assert one.digest == hashlib.sha256(kinds[0]).hexdigest()
    assert (
        two.digest
        == hashlib.sha256(b"".join(hashlib.sha256(k).digest() for k in kinds)).hexdigest()
    )


def test_mask_stats__a_plan_of_ones_own_owes_nothing():
    class Nothing:
        follows_training = False

        def plan(self, examples, **_):
            return MaskPlan(
                Ragged(
                    np.zeros(len(examples.input_ids.values), np.uint8), examples.input_ids.offsets
                )
            )

    stats = mask_stats(lambda: [fixed_examples()], Nothing(), labels=["a", "b"])

    assert (stats.masked_tokens, stats.rows_under_budget, stats.rows_without_mask) == (0, 0, 64)
    assert (stats.mean_run_length, stats.share_in_mentions, stats.masked_word_entropy) == (0, 0, 0)
    assert stats.run_lengths == ()


@given(random_examples(), st.integers(1, 3))
def test_top_words__equal_twin(examples, size):
    strategy = md.strategy("joint", elm=1.0, blm=0.3)
    tally = count_masks(in_chunks(examples, size), strategy, seed=7, epochs=2, labels=["a", "b"])
    words = tally.top_words(1000)
    *_, masked, _ = slow_masked(examples, seed=7, epochs=2, elm=1.0, blm=0.3)
    there = Counter(ids for row in rows_of(examples) for ids, _ in tally_twin.words(row))

    assert {word.tokens: (word.masked, word.occurrences) for word in words} == {
        ids: (times, there[ids]) for ids, times in masked.items()
    }
    assert [word.masked for word in words] == sorted((word.masked for word in words), reverse=True)


def test_top_words__the_first_in_the_corpus_comes_first_among_equals():
    examples = examples_of([row_of([2, 1, 1, 2], [(0, 1), (1, 2), (2, 3), (3, 4)])])
    tally = count_masks(lambda: [examples], md.strategy("elm", elm=1.0), labels=["a"])

    assert tally.top_words(1) == [MaskedWord(tokens=(10, 10), masked=2, occurrences=2)]


@pytest.mark.parametrize("epochs", [1, 2])
def test_sweep__each_point_is_what_mask_stats_counts(epochs):
    examples = fixed_examples()
    labels = ["a", "b"]
    points = sweep(
        in_chunks(examples, 9), md.strategy("joint"), labels=labels, seed=3, epochs=epochs
    )

    assert [(point.elm, point.blm) for point in points] == [
        (elm, blm) for elm in ELMS for blm in BLMS
    ]
    for point in points:
        strategy = md.strategy("joint", elm=point.elm, blm=point.blm)
        stats = mask_stats(lambda: [examples], strategy, seed=3, epochs=epochs, labels=labels)
        assert point.stats == replace(
            stats, masked_words=None, masked_word_types=None, masked_word_entropy=None
        )


def test_sweep__other_options_stay():
    examples = fixed_examples()
    strategy = md.strategy("joint", elm=0.5, blm=0.225, pool="generic_only")
    (point,) = sweep(
        lambda: [examples], varied(strategy, elm=1.0), labels=["a", "b"], elms=[0.5], blms=[0.225]
    )

    assert (point.stats.n_elm, point.stats.n_blm) == strategy.plan(examples).counts()


def test_sweep__no_rows():
    points = sweep(lambda: [], md.strategy("joint"), labels=[])

    assert {point.stats.realised_rate for point in points} == {0.0}


def test_sweep__strategies_without_both_rates():
    assert has_both_rates(md.strategy("joint-released"))
    assert not has_both_rates(md.strategy("elm"))
    with pytest.raises(
        ValueError,
        match=r"^sweep: expected a strategy with the options elm and blm, such as joint$",
    ):
        sweep(lambda: [], md.strategy("elm"), labels=[])


def test_sweep__no_epoch():
    with pytest.raises(ValueError, match=r"^epochs: expected 1 or more, got 0$"):
        sweep(lambda: [], md.strategy("joint"), labels=[], epochs=0)
