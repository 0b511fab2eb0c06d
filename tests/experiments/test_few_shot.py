"""Plan, masks, scores and tables of the few-shot question."""

from __future__ import annotations

import collections
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from experiments import encoder, few_shot, few_shot_tables, intervals, masks, plan, scores  # noqa: E402
from experiments.lines import Run  # noqa: E402
from mslm_data.data.examples import examples  # noqa: E402
from mslm_data.data.ragged import Ragged  # noqa: E402
from mslm_data.mask.rng import RowRng  # noqa: E402
from mslm_data.torch import MslmModel  # noqa: E402

if TYPE_CHECKING:
    from experiments.corpora import Cache
    from experiments.lines import Line

NCBI = "NCBI-disease"


def tried(corpus: str, share: float, best: tuple[int, float]) -> list[Line]:
    """Return the lines of all tries; one schedule scores best."""
    return [
        {
            "run": run.__dict__,
            "start": "a",
            "scores": {"f1": 0.5 + 0.1 * ((run.options["epochs"], run.options["rate"]) == best)},
        }
        for run in few_shot.tries(corpus, share)
    ]


def test_steps__arms_of_a_seed_share_subset_schedule_and_replicate() -> None:
    runs = [step.run for step in plan.plan(["few-shot"], []) if step.run.task == "few-shot"]

    by_pair: dict[Any, list[Run]] = {}
    for run in runs:
        about = (run.corpus, run.seed, run.options["share"], run.options["frozen"])
        if run.options["scored"] == "test":
            by_pair.setdefault(about, []).append(run)
    assert all(len({str(run.options) for run in group}) == 1 for group in by_pair.values())
    assert all(
        run.options["replicate"] == run.seed // few_shot.SEEDS for run in runs if run.seed < 100
    )
    primary = {
        (run.corpus, run.options["share"], run.seed)
        for run in runs
        if run.arm == "joint"
        and run.corpus in few_shot.CORPORA
        and run.options["share"] in few_shot.SHARES
        and not run.options["frozen"]
        and run.options["scored"] == "test"
    }
    assert len(primary) == 60


def test_steps__an_encoder_is_adapted_before_it_is_used() -> None:
    made = set()
    for run in (step.run for step in plan.plan(["few-shot"], [])):
        if run.task == "adaptation":
            made.add((run.arm, run.seed))
        elif few_shot.ARMS[run.arm]:
            assert (few_shot.ARMS[run.arm], run.options["replicate"]) in made


def test_choose_schedule__returns_the_best_mean_after_all_tries() -> None:
    lines = tried(NCBI, 0.05, (24, 4e-4))

    assert few_shot.choose_schedule(NCBI, 0.05, lines) == (True, 4e-4)
    assert few_shot.choose_schedule(NCBI, 0.02, lines) == (True, 4e-4)  # of the nearest share
    assert few_shot.choose_schedule(NCBI, 0.10, lines) == (False, 2e-4)
    assert few_shot.choose_schedule(NCBI, 0.05, lines[1:]) == (False, 2e-4)


def scattered(
    words: list[int], spans: list[tuple[int, int]], rows: int
) -> collections.Counter[tuple[tuple[int, int], ...]]:
    """Count the arrangements of spans over rows whose tokens belong to these words."""
    made = examples([len(words)] * rows, keys=np.arange(rows), spans=[spans] * rows)
    made = replace(made, word_ids=Ragged.from_rows([words] * rows, np.int32))

    moved = masks.scatter_mentions(made, RowRng(keys=made.keys, seed=1, epoch=2))

    return collections.Counter(
        tuple(zip(moved.span_starts[row].tolist(), moved.span_ends[row].tolist(), strict=True))
        for row in range(rows)
    )


def test_scatter_mentions__draws_runs_of_whole_words_equally_often() -> None:
    found = scattered([-1, 0, 1, 1, 2, 3, 3, -1], [(4, 7)], 3_000)

    assert set(found) == {((1, 4),), ((2, 5),), ((4, 7),)}
    # Each is expected 1,000 times, with a deviation of 26.
    assert all(abs(count - 1_000) < 5 * 26 for count in found.values())


def test_scatter_mentions__keeps_lengths_and_never_overlaps() -> None:
    found = scattered([0, 1, 2, 2, 3, 4, 4, 5, 6], [(0, 2), (4, 5), (5, 7)], 1_000)

    for spans in found:
        assert sorted(end - start for start, end in spans) == [1, 2, 2]
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
        assert {edge for span in spans for edge in span} <= {0, 1, 2, 4, 5, 7, 8, 9}
    # Two of the four runs of two tokens, and a word of one token beside them.
    assert len(found) == 18


def test_scatter_mentions__cuts_words_only_without_a_run_of_the_length() -> None:
    assert set(scattered([0, 0, 1, 1], [(0, 3)], 200)) == {((0, 3),), ((1, 4),)}


def test_scatter_mentions__keeps_mentions_without_a_place() -> None:
    # The only word of two tokens leaves no run of two.
    assert set(scattered([0, 1, 1, 2], [(0, 2), (2, 4)], 200)) == {((0, 2), (2, 4))}


def test_scatter_mentions__depends_on_key_seed_and_epoch() -> None:
    rows = examples([30] * 3, keys=[5, 6, 7], spans=[[(0, 2), (4, 9)]] * 3)

    def starts(seed: int, epoch: int, order: list[int]) -> list[list[int]]:
        keys = rows.keys[order]
        taken = examples([30] * 3, keys=keys, spans=[[(0, 2), (4, 9)]] * 3)
        rng = RowRng(keys=taken.keys, seed=seed, epoch=epoch)
        return [masks.scatter_mentions(taken, rng).span_starts[row].tolist() for row in range(3)]

    assert starts(0, 0, [2, 1, 0]) == starts(0, 0, [0, 1, 2])[::-1]
    assert len({str(starts(seed, epoch, [0, 1, 2])) for seed in (0, 1) for epoch in (0, 1)}) == 4


@pytest.mark.long
def test_random_spans__masks_as_many_tokens_at_other_positions(cache: Cache) -> None:
    shards = cache.weak_domain()

    joint, joint_stats = masks.masks(
        "half-unbiased", shards, encoder=cache.encoder, seed=0, target=0.15
    )
    spans, spans_stats = masks.masks(
        "random spans", shards, encoder=cache.encoder, seed=0, target=0.15
    )

    assert spans_stats.realised_rate == pytest.approx(joint_stats.realised_rate, abs=0.005)
    assert spans_stats.n_elm == pytest.approx(joint_stats.n_elm, rel=0.15)
    rows = shards["train"].examples()
    a, b = (strategy.plan(rows, seed=0, epoch=0) for strategy in (joint, spans))
    assert (a.kinds.values != b.kinds.values).any()
    assert spans.corrupt(rows, b).values[b.kinds.values > 0].tolist() == [rows.ids.mask] * int(
        (b.kinds.values > 0).sum()
    )


@pytest.mark.long
def test_unseen_scores__counts_mentions_absent_from_training(cache: Cache) -> None:
    shards = cache.ner(NCBI)
    train = shards["train"].subset(documents=3, seed=0)
    torch.manual_seed(0)
    model = MslmModel.wrap(encoder.masked_lm(cache.encoder), labels=shards.labels, two_views=False)

    def decode(ids: list[list[int]]) -> list[str]:
        return [" ".join(map(str, one)) for one in ids]

    found = scores.unseen_scores(model, shards["test"], train, decode)

    whole = scores.mention_scores(model, shards["test"])
    assert found["f1"] == whole["f1"]
    assert sum(found["groups"]["gold"]) == sum(whole["groups"]["gold"])
    known = {
        tuple(row["input_ids"][start:end])
        for row in (train[number] for number in range(len(train)))
        for start, end in zip(row["span_starts"], row["span_ends"], strict=True)
    }
    new = sum(
        tuple(row["input_ids"][start:end]) not in known
        for row in (shards["test"][number] for number in range(len(shards["test"])))
        for start, end in zip(row["span_starts"], row["span_ends"], strict=True)
    )
    assert 0 < sum(found["new"]["gold"]) == new


def line(arm: str, seed: int, hits: int, *, corpus: str = NCBI, share: float = 0.10) -> Line:
    options = {"scored": "test", "frozen": False, "share": share, "replicate": seed // 3}
    groups = {"hits": [hits] * 10, "gold": [10] * 10, "predicted": [10] * 10}
    return {
        "run": {"task": "few-shot", "corpus": corpus, "arm": arm, "seed": seed, "options": options},
        "start": "a",
        "scores": {
            "f1": hits / 10,
            "groups": groups,
            "new": {"hits": [hits] * 10, "gold": [10] * 10},
        },
    }


def test_difference__is_the_mean_over_replicates_of_complete_pairs() -> None:
    found = [line("token", 0, 5), line("joint", 0, 6), line("token", 1, 5), line("joint", 1, 8)]
    found += [line("token", 3, 5), line("joint", 3, 5), line("joint", 4, 9)]

    made = few_shot_tables.difference(found, "token", "joint")

    assert made is not None
    apart, pairs = made
    assert pairs == 3  # seed 4 has no partner
    assert apart.mean == pytest.approx((20.0 + 0.0) / 2)
    assert apart.seeds == 2
    assert apart.low < 0 < apart.high


def test_difference__with_one_pair_per_replicate_equals_difference_over_seeds() -> None:
    chance = np.random.default_rng(0)
    found, before, after = [], [], []
    for replicate in range(5):
        for arm, kept in (("token", before), ("joint", after)):
            one = line(arm, 3 * replicate, 0)
            hits = chance.integers(0, 10, 10)
            one["scores"]["groups"]["hits"] = hits.tolist()
            kept.append(np.stack([hits, [10] * 10, [10] * 10], axis=1).astype(float))
            found.append(one)

    made = few_shot_tables.difference(found, "token", "joint")

    expected = intervals.difference(np.stack(before), np.stack(after), score=intervals.f1)
    assert made is not None
    assert made[0].mean == pytest.approx(100 * expected.mean)
    assert (made[0].low, made[0].high) == pytest.approx(
        (100 * expected.low, 100 * expected.high), abs=1.5
    )


def test_documents_for__interpolates_and_extends_the_last_segment() -> None:
    curve = [(10, 0.5), (20, 0.6), (40, 0.7)]

    assert few_shot_tables.documents_for(curve, 10, 0.1) == pytest.approx(20)
    assert few_shot_tables.documents_for(curve, 10, 0.05) == pytest.approx(10 * 2**0.5)
    assert few_shot_tables.documents_for(curve, 20, -0.1) == pytest.approx(10)
    assert few_shot_tables.documents_for(curve, 40, 0.1) == pytest.approx(80)
    assert few_shot_tables.documents_for([(10, 0.5), (20, 0.5)], 10, 0.1) == float("inf")


def test_yardstick__converts_a_gain_to_documents() -> None:
    found = []
    for share, hits in ((0.05, 5), (0.10, 6), (0.25, 7)):
        for arm, more in (("token", 0), ("joint", 1), ("none", 0)):
            found.append(line(arm, 0, hits + more, share=share) | {"documents": round(600 * share)})

    table = few_shot_tables.yardstick(found)

    # At 30 documents, 30 more raise F1 by 10 points.
    assert "| NCBI-disease | 30 | +10.0 | (+10.0 to +10.0) | +30 | +30 to +30 |" in table
    (drawn,) = few_shot_tables.curves(found).values()
    assert drawn.count("<polyline") == 3
    assert ">150</text>" in drawn
    # Points that only one of two replicates has are no part of a curve.
    found.append(line("none", 3, 5, share=0.05) | {"documents": 30})
    assert few_shot_tables.curve_points(found, "none", NCBI) == [(30, 0.5)]


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ((0, 0, 0, 0, 0), "stop rule applies"),
        ((2, 2, 2, 2, 2), "lies above 0"),
        ((2, -1, 0, 2, -1), "not excluded either"),
    ],
)
def test_primary__applies_the_stop_rule(more: tuple[int, ...], verdict: str) -> None:
    found = []
    for replicate, gain in enumerate(more):
        seed = 3 * replicate
        found += [line("token", seed, 5), line("joint", seed, 5 + gain)]
        found.append(line("random spans", seed, 5 + gain))

    number, made, control = few_shot_tables.primary(found)

    assert f"**{10 * sum(more) / len(more):+.1f} points of F1**" in number
    assert "from 5 pairs in 5 replicates" in number
    assert verdict in made
    assert control == "* Control: *joint* less *random spans* is +0.0, +0.0 to +0.0."
    assert few_shot_tables.primary([]) == []


def test_tables__begin_with_the_primary_number() -> None:
    found = [line("token", 0, 5), line("joint", 0, 6), line("none", 0, 4)]

    table = few_shot_tables.differences(found)

    assert table[2].startswith("| joint less token | both corpora and shares | 1 | 1 | +10.0 |")
    assert few_shot_tables.new_mentions(found)[2].split(" | ")[4] == "+10.0"
    assert "| none | 40.0 |" in few_shot_tables.scores(found)
    assert few_shot_tables.differences([]) == []
