from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from experiments import few_shot, figure, intervals, lines, page, plan, repeats
from experiments.corpora import TASKS
from experiments.intervals import Difference

GROUPS = 100
few_resamples = pytest.mark.usefixtures("_few_resamples")
ABOUT = {"commit": "abc", "torch": "2", "transformers": "5", "numpy": "2", "cpu": "X", "data": "D"}


@pytest.fixture
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw few samples, for tests that compare no interval."""
    monkeypatch.setattr(intervals, "RESAMPLES", 50)


def ner(arm: str, seed: int, hits: int, *, start: str = "s", scored: str = "test") -> Any:
    groups = {"hits": [hits] * GROUPS, "gold": [10] * GROUPS, "predicted": [10] * GROUPS}
    share = hits / 10
    scores = {"f1": share, "precision": share, "recall": share, "groups": groups}
    for length, more in (("shorter", 0), ("longer", 1)):
        scores[length] = {"hits": hits - more, "gold": 10, "predicted": 10}
    options = {"scored": scored, "rate": 1e-4}
    about = {"task": "ner", "corpus": "NCBI-disease", "arm": arm, "seed": seed, "options": options}
    return {
        "run": about, "scores": scores, "hidden": 0.0, "start": start, "hours": 1.0, "about": ABOUT,
    }  # fmt: skip


def adapted(arm: str, hits: int) -> Any:
    groups = {"hits": [hits] * GROUPS, "tokens": [10] * GROUPS, "loss": [10 * math.log(4)] * GROUPS}
    kinds = {kind: {"groups": groups} for kind in ("terms", "others")}
    kinds["mentions"] = {"groups": {"confidence": [hits / 2] * GROUPS, "mentions": [5] * GROUPS}}
    about = {"task": "adaptation", "corpus": "domain", "arm": arm, "seed": 0, "options": {}}
    scores = dict.fromkeys(page.HELD_OUT, kinds)
    return {
        "run": about, "scores": scores, "hidden": 0.2, "start": "s", "hours": 1.0, "about": ABOUT,
    }  # fmt: skip


def classified(arm: str, seed: int, predicted: str) -> Any:
    counts = intervals.by_class([0, 1, 1], [int(one) for one in predicted], 2).sum(axis=0)
    scores = {
        "macro_f1": float(intervals.macro_f1(counts)),
        "micro_f1": float(intervals.micro_f1(counts)),
        "classes": 2,
        "gold": "011",
        "predicted": predicted,
    }
    about = {
        "task": "classification", "corpus": "ACL-ARC", "arm": arm, "seed": seed,
        "options": {"scored": "test"},
    }  # fmt: skip
    return {
        "run": about, "scores": scores, "hidden": 0.0, "start": "s", "hours": 1.0, "about": ABOUT,
    }  # fmt: skip


@pytest.mark.long
def test_page__committed_page_matches_the_lines() -> None:
    """Fails after an edit by hand, and after new lines without a new page."""
    every = lines.read()
    found = plan.current(every)
    figures = page.figures(found)

    for name, svg in figures.items():
        assert (page.FIGURES / name).read_text(encoding="utf-8") == svg
    assert sorted(figures) == sorted(path.name for path in page.FIGURES.glob("*.svg"))
    guide = page.GUIDE.read_text(encoding="utf-8")
    assert page.fill_tables(guide, found, every) == guide
    shown = re.findall(r"\.\./\.\./experiments/figures/([\w-]+\.svg)", guide)
    assert sorted(shown) == sorted(figures)


def test_lines__committed_lines_are_complete_and_of_known_arms() -> None:
    found = lines.read()
    texts = [
        text for path in lines.RESULTS.glob("*.jsonl") for text in path.read_text().splitlines()
    ]
    arms = {*plan.JOINT, *plan.WEIGHTS, *plan.RATED, *plan.ADAPTED, *plan.CLASSIFIED, ""}
    arms |= {f"adapted, {masks}" for masks in plan.ADAPTED}
    arms |= {*few_shot.ARMS, *few_shot.ARMS.values()}

    assert len(found) == len(texts)
    assert sum(map(len, lines.starts(found).values())) == len(found)
    for line in found:
        assert line["run"]["arm"] in arms
        assert set(line["about"]) >= {"commit", "torch", "transformers", "data"}
        assert line["hours"] > 0
        if line["run"]["task"] in ("ner", "few-shot"):
            groups = line["scores"]["groups"]
            counts = np.array([groups[name] for name in ("hits", "gold", "predicted")]).T
            assert line["scores"]["f1"] == pytest.approx(float(intervals.f1(counts.sum(axis=0))))


@few_resamples
def test_ner_table__pairs_runs_by_seed_and_start() -> None:
    found = [ner("plain", 0, 5), ner("plain", 1, 7), ner("the paper's", 1, 4)]
    found.append(ner("the paper's", 0, 1, start="other"))  # began with other weights: no pair

    table = page.ner_table(found, ("plain", "the paper's"), "NCBI-disease")

    assert table[2].startswith("| plain | 2 | - | 60.0 ± 14.1 |")
    assert "| -30.0 | (-30.0 to -30.0) | - |" in table[3]


@few_resamples
def test_ner_table__shows_weights_if_they_differ() -> None:
    found = [ner(arm, 0, 5) for arm in ("plain", "equal", "by counts", "by Eq. 5")]
    asked = (None, [0.5, 0.5], "inverse", "eq5")
    for line, weights in zip(found, asked, strict=True):
        line.update({"n_elm": 1, "n_blm": 3, "eq5": [0.6, 0.4]})
        if weights:
            line["run"]["options"]["weights"] = weights

    table = page.ner_table(found, [line["run"]["arm"] for line in found], "NCBI-disease")
    alike = page.ner_table(found[:2], ("plain", "equal"), "NCBI-disease")

    assert table[0].startswith("| arm | runs | terms / others | hidden | F1 |")
    assert [row.split(" | ")[2] for row in table[2:]] == [
        "-",
        "0.50 / 0.50",
        "0.75 / 0.25",
        "0.60 / 0.40",
    ]
    assert alike[0].startswith("| arm | runs | hidden | F1 |")


@few_resamples
def test_ner_table__excludes_scores_on_validation_text() -> None:
    tried = [ner("plain", plan.TRIED_SEEDS[0], 5, scored="validation") for _ in plan.RATES]
    for line, rate in zip(tried, plan.RATES, strict=True):
        line["run"]["options"] = {"scored": "validation", "rate": rate}
    found = [*tried, ner("plain", 0, 7)]

    assert len(page.ner_table(found, ("plain",), "NCBI-disease")) == 3
    assert not page.figures(found)
    assert "| plain | 1 | 50.0 |" in page.fill_tables("<!-- made: rates -->\n<!-- end -->\n", found)


@few_resamples
def test_fill_tables__makes_every_kind_of_table() -> None:
    found = [ner("plain", 0, 5), ner("the paper's", 0, 4), adapted("", 1), adapted("token", 2)]
    found += [
        adapted("joint", 3),
        classified("no adaptation", 0, "010"),
        classified("token", 0, "011"),
    ]

    marks = ("joint", "lengths", "sensitivity", "confidence", "ACL-ARC", "about")
    guide = "".join(f"<!-- made: {mark} -->\n<!-- end -->\n" for mark in marks)
    text = page.fill_tables(guide, found)

    assert list(page.figures(found)) == ["joint-training-ncbi-disease.svg"]
    assert "| nothing | 1 | 20.0 | 10.0 | 4.0 | 10.0 | 4.0 | - |" in text
    assert "| joint | 1 | 20.0 | 30.0 | 4.0 | 30.0 | 4.0 | +10.0 | (+10.0 to +10.0) |" in text
    assert "| joint | 1 | 30.0 | +10.0 | (+10.0 to +10.0) | - |" in text
    assert "| token | 1 | - | 100.0 | +33.3 |" in text
    assert "| the paper's | 1 | 40.0 | -10.0 | 30.0 | -10.0 |" in text
    assert "7 runs, 7.0 hours" in text


@few_resamples
def test_fill_tables__compares_terms_by_corpus() -> None:
    token, weak = adapted("token", 4), adapted("joint, weak", 4)
    for corpus, hits in (("NCBI-disease", 6), ("BC2GM", 1)):
        terms = {**weak["scores"][corpus]["terms"]}
        terms["groups"] = {**terms["groups"], "hits": [hits] * GROUPS}
        weak["scores"][corpus] = {**weak["scores"][corpus], "terms": terms}

    table = page.fill_tables("<!-- made: terms -->\n<!-- end -->\n", [token, weak])

    assert (
        "| joint, weak | 1 | 60.0 | +20.0 | (+20.0 to +20.0) | 40.0 | +0.0 | (+0.0 to +0.0) "
        "| 10.0 | -30.0 | (-30.0 to -30.0) |"
    ) in table


@few_resamples
def test_fill_tables__separates_the_texts_of_adaptation() -> None:
    on_gold, others = adapted("token", 4), [adapted("token", 4), adapted("half-unbiased", 6)]
    for line in others:
        line["run"]["corpus"] = "open text"

    gold, open_text = (
        f"<!-- made: {mark} -->\n<!-- end -->\n" for mark in ("terms", "few-shot terms")
    )
    made = page.fill_tables(gold, [on_gold, *others])
    few_shot = page.fill_tables(open_text, [on_gold, *others])

    assert "| token | 1 | 40.0 |" in made
    assert made == page.fill_tables(gold, [on_gold])
    assert "| joint | 1 | 60.0 | +20.0 | (+20.0 to +20.0) |" in few_shot
    assert few_shot == page.fill_tables(open_text, others)


def test_classified__excludes_training_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "read", lambda: {"ACL-ARC": [1]})
    found = [classified("no adaptation", 0, "010"), classified("token", 0, "001")]

    whole, new = (
        page._classified("ACL-ARC", "micro_f1", repeated=repeated)(found)
        for repeated in (True, False)
    )

    assert [row.split(" | ")[3] for row in whole[2:]] == ["66.7", "66.7"]
    assert [row.split(" | ")[3] for row in new[2:]] == ["50.0", "100.0"]


def test_repeated__returns_indices_of_repeated_texts(tmp_path: Path) -> None:
    for split, texts in {"train": ["a", "b\u2028c"], "test": ["b\u2028c", "A", "a ", "a"]}.items():
        rows = [json.dumps({"text": text, "label": split}, ensure_ascii=False) for text in texts]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")

    assert repeats.repeated(tmp_path) == [0, 3]


def test_repeats__committed_file_matches_the_tasks(real: Path) -> None:
    for name, folder in TASKS.items():
        assert repeats.read()[name] == repeats.repeated(real / "tasks" / folder)


@few_resamples
def test_fill_tables__compares_two_views_with_plain_training_of_equal_cost() -> None:
    found = [ner("plain, twice as long", 0, 7), ner("two views, light", 0, 5)]

    table = page.fill_tables("<!-- made: equal cost -->\n<!-- end -->\n", found)

    assert "| two views, light | 1 | - | 50.0 | 50.0 | 50.0 | -20.0 |" in table
    assert {plan.JOINT[arm].views for arm in page.EQUAL_COST[1:]} == {"two"}


@few_resamples
def test_fill_tables__marks_only_the_chosen_rate() -> None:
    found = []
    for rate in plan.RATES:
        line = ner("the paper's", plan.TRIED_SEEDS[0], 0, scored="validation")
        line["run"]["options"] = {"scored": "validation", "rate": rate}
        found.append(line)

    table = page.fill_tables("<!-- made: rates -->\n<!-- end -->\n", found)

    assert "| the paper's | 1 | 0.0 | 0.0 | 0.0 | **0.0** |" in table


@few_resamples
def test_fill_tables__writes_only_between_marks() -> None:
    guide = "before\n<!-- made: joint -->\nold\n<!-- end -->\nafter\n"

    none = page.fill_tables(guide, [])
    some = page.fill_tables(none, [ner("plain", 0, 5), ner("the paper's", 0, 4)])

    assert none == "before\n<!-- made: joint -->\nNo line yet.\n<!-- end -->\nafter\n"
    assert some.startswith("before\n<!-- made: joint -->\nNCBI-disease:\n\n| arm |")
    assert some.endswith("joint-training-ncbi-disease.svg)\n<!-- end -->\nafter\n")
    assert page.fill_tables(some, []) == none
    with pytest.raises(ValueError, match=r"guide: expected marks of joint, .*, got 'other'"):
        page.fill_tables("<!-- made: other -->\n<!-- end -->\n", [])


@few_resamples
def test_corpus_tables__concludes_on_each_arm() -> None:
    found = [ner("plain", seed, 5) for seed in range(3)]
    found += [ner("the paper's", seed, 4) for seed in range(3)]
    found += [ner("two views, joint", seed, 5) for seed in range(3)]
    found += [ner("two views, token", 0, 9)]

    said = "\n".join(page.corpus_tables(found, "NCBI-disease", ["joint"]))

    assert "*two views, joint* cannot be told from plain" in said
    assert "*two views, token* cannot be judged yet against plain fine-tuning (+40.0" in said
    assert (
        "* NCBI-disease: *the paper's* scores lower than plain fine-tuning "
        "(-10.0 points, -10.0 to -10.0, 3 pairs)." in said
    )


def test_fill_tables__shows_clear_differences_in_bold() -> None:
    found = [ner("plain", seed, 5) for seed in plan.SEEDS]
    found += [ner("the paper's", seed, 4) for seed in plan.SEEDS]
    found += [ner("two views, joint", seed, 5) for seed in range(3)]
    found += [ner("two views, token", 0, 9)]

    said = page.fill_tables("<!-- made: overview -->\n<!-- end -->\n", found)

    assert "| arm | NCBI-disease |" in said
    assert "| the paper's | **-10.0 (-10.0 to -10.0)** |" in said
    assert "| two views, joint | +0.0 (+0.0 to +0.0), 3 pairs |" in said
    assert "| two views, token | +40.0, 1 pair |" in said


@few_resamples
def test_main__writes_figures_and_guide(tmp_path: Path) -> None:
    results, guide = tmp_path / "results", tmp_path / "guide.md"
    guide.write_text("<!-- made: about -->\n<!-- end -->\n")
    for seed in range(2):
        for arm, hits in (("plain", 5), ("the paper's", 4)):
            for rate in (2e-4, 3e-4):  # the second is in no plan
                line = ner(arm, seed, hits)
                options = plan.JOINT[arm].options(rate)
                lines.append(lines.Run(**line.pop("run") | {"options": options}), line, results)

    folders = ["--results", str(results), "--figures", str(tmp_path / "figures")]
    assert page.main([*folders, "--guide", str(guide)]) == 0

    assert (tmp_path / "figures" / "joint-training-ncbi-disease.svg").is_file()
    assert "4 runs, 4.0 hours" in guide.read_text()


@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("deviation", [0.0, 0.05])
def test_difference__covers_the_truth_as_often_as_it_says(seeds: int, deviation: float) -> None:
    draw = np.random.default_rng(1)
    inside = 0
    studies = 60
    for _ in range(studies):
        # The second arm is 0.1 better, and by how much differs from seed to seed.
        better = 0.1 + deviation * draw.standard_normal((seeds, 1))
        first = draw.binomial(20, 0.5, (seeds, 50))
        second = draw.binomial(20, (0.5 + better).repeat(50, 1))
        counts = [
            np.stack([hits, np.full(hits.shape, 20), np.zeros(hits.shape)], axis=-1).astype(float)
            for hits in (first, second)
        ]
        found = intervals.difference(*counts, score=intervals.accuracy)
        inside += found.low <= 0.1 <= found.high

    assert inside >= 0.9 * studies


def test_difference__of_equal_sentences_is_a_t_interval() -> None:
    rates = np.random.default_rng(2).normal(0.7, 0.05, 8)
    first = np.full((8, 40, 2), [50.0, 100.0])
    second = first.copy()
    second[..., 0] = 100 * rates[:, None]

    found = intervals.difference(first, second, score=intervals.accuracy)

    of_seeds = rates - 0.5
    low, high = stats.t.interval(0.95, 7, of_seeds.mean(), stats.sem(of_seeds))
    assert found.mean == pytest.approx(of_seeds.mean())
    assert found.high - found.low == pytest.approx(high - low, rel=0.05)


def test_difference__is_0_between_an_arm_and_itself() -> None:
    counts = np.random.default_rng(0).integers(1, 9, (3, GROUPS, 3)).astype(float)

    found = intervals.difference(counts, counts, score=intervals.f1)

    assert found == Difference(0.0, 0.0, 0.0, 0.0, 3)


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (-0.013, 0.94, "-0.1 to +1.0"),
        (0.013, 0.94, "+0.0 to +1.0"),
        (-0.94, -0.013, "-1.0 to -0.0"),
        (-0.94, 0.013, "-1.0 to +0.1"),
    ],
)
def test_interval__shows_by_its_signs_whether_it_holds_0(
    low: float, high: float, text: str
) -> None:
    assert intervals.interval(low, high) == text


def test_scores__of_counts() -> None:
    counts = np.array([[1.0, 2.0, 4.0], [0.0, 0.0, 0.0]])

    assert intervals.f1(counts).tolist() == [pytest.approx(1 / 3), 0.0]
    assert intervals.accuracy(counts)[0] == 0.5
    assert intervals.perplexity(counts)[0] == pytest.approx(math.exp(2))


def test_class_scores__are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    draw = np.random.default_rng(0)
    gold, predicted = draw.integers(5, size=(2, 60)).tolist()
    gold = [0 if one == 4 else one for one in gold]

    counts = intervals.by_class(gold, predicted, 6).sum(axis=0)

    for score, average in ((intervals.macro_f1, "macro"), (intervals.micro_f1, "micro")):
        expected = metrics.f1_score(gold, predicted, average=average)
        assert float(score(counts)) == pytest.approx(expected)


def test_figure__is_a_drawing_with_a_line_for_each_arm() -> None:
    svg = figure.intervals(
        "a < b", {"one": Difference(1, -1, 3, 2, 5), "two": Difference(2, 1, 3, 1, 5)}
    )

    root = ElementTree.fromstring(svg)  # noqa: S314 # our own
    circles = [part for part in root if part.tag.endswith("circle")]
    assert len(circles) == 2
    assert float(circles[0].get("cx")) < float(circles[1].get("cx"))
    assert "a &lt; b" in svg


def test_intervals__beyond_the_axis_are_arrows() -> None:
    found = {"near": Difference(-2, -3, -1, 2, 5), "far": Difference(-80, -82, -78, 2, 5)}

    alone = figure.intervals("title", {"near": found["near"]})
    both = figure.intervals("title", found)

    assert "<path" not in alone
    assert both.count("<path") == both.count("<circle") == 1
    assert "-80.0" in both


def test_intervals__are_cut_at_the_axis() -> None:
    svg = figure.intervals("title", {"wide": Difference(-9, -25, 4, 2, 5)})

    (line,) = re.findall(r'<line class="arm" x1="(\S+)" x2="(\S+)"', svg)
    assert float(line[0]) == figure.LEFT
    assert figure.LEFT < float(line[1]) <= figure.WIDTH - figure.RIGHT
