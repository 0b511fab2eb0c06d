"""Computations and pages of the suite. Nothing is timed."""

from __future__ import annotations

import itertools
import re
import shutil
from pathlib import Path

import pytest

from benchmarks import __main__ as suite
from benchmarks import harness, inputs, report
from benchmarks.harness import AbsentError, Contestant, Goal, Ratio, Results, Row, Table
from mslm_data.mask.table import STRATEGIES


@pytest.mark.long
def test_in_turn__warms_contestants_up_and_calls_them_one_after_the_other() -> None:
    calls: list[str] = []
    contestants = {
        name: Contestant(call=calls.append, prepare=lambda name=name: name, work=1, repeat=repeat)
        for name, repeat in (("ours", 2), ("peer", 1))
    }

    rates = harness.in_turn(contestants, rounds=2)

    assert calls == ["ours", "peer"] + ["ours", "ours", "peer"] * 2
    assert {name: len(values) for name, values in rates.items()} == {"ours": 2, "peer": 2}


def test_rate__excludes_preparation(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(harness.time, "perf_counter", lambda: float(next(clock)))

    rate = Contestant(call=lambda _: None, prepare=lambda: next(clock), work=6, repeat=3).rate()

    assert rate == 6.0  # 18 units in three seconds, without the time of `prepare`


def test_ratio__is_the_median_of_the_rounds_ratios() -> None:
    assert harness.ratio([2, 9, 8], [1, 1, 2]) == Ratio(median=4.0, low=2.0, high=9.0)


def test_ratio__refuses_unpaired_rounds() -> None:
    with pytest.raises(ValueError, match="argument"):
        harness.ratio([1, 2], [1])


def test_row_of__judges_medians() -> None:
    rates = {"ours": [60, 70, 10], "peer": [10, 10, 10], "limit": [100, 100, 100]}

    row = harness.make_row("encode", rates, unit="words", what="…", goal=Goal(peer=6, limit=0.7))

    assert (row.ours, row.peer, row.limit) == (60, 10, 100)
    assert row.vs_peer == Ratio(median=6.0, low=1.0, high=7.0)
    assert (row.goal, row.met) == ("6x peer, 0.7x limit", "no")


@pytest.mark.parametrize(
    ("goal", "peer", "met"),
    [
        (Goal(peer=6), 6.0, "yes"),
        (Goal(peer=6), 5.9, "no"),
        (Goal(peer=6), None, "no"),
        (Goal(), 5.0, "-"),
    ],
)
def test_judge__compares_with_the_goal(goal: Goal, peer: float | None, met: str) -> None:
    ratio = None if peer is None else Ratio(median=peer, low=0, high=99)

    assert goal.judge(ratio, None) == met


@pytest.mark.parametrize(("seconds", "met"), [(0.3, "yes"), (0.31, "no")])
def test_row_at_most__compares_with_the_maximum(seconds: float, met: str) -> None:
    row = harness.row_at_most("help", seconds, 0.3, unit="s", what="…", limit=0.01)

    assert (row.ours, row.limit, row.goal, row.met) == (seconds, 0.01, "0.3 s", met)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.01234, "0.0123"),
        (4.561, "4.56"),
        (123.4, "123"),
        (12345, "12,345"),
        (4.6e6, "4.6 M"),
        (1.25e9, "1,250 M"),
    ],
)
def test_number__has_three_significant_digits(value: float, text: str) -> None:
    assert harness.number(value) == text


def test_same__refuses_different_work() -> None:
    with pytest.raises(RuntimeError, match="expected ours and the peer's to be equal"):
        harness.same("ids", [1], [2])


def test_table__has_a_line_for_each_row() -> None:
    ratio = Ratio(median=6.61, low=5.7, high=8)
    rows = [
        Row(
            name="a",
            what="…",
            unit="words",
            ours=2e6,
            peer=3e5,
            vs_peer=ratio,
            goal="6x peer",
            met="yes",
        ),
        Row(name="b", what="…", unit="s", ours=0.04),
    ]

    lines = report.table(rows)

    assert lines[0].startswith("| row | unit | ours | peer | limit |")
    assert lines[2:] == [
        "| a | words | 2 M | 300,000 | - | 6.61x (5.7 to 8) | - | 6x peer | yes |",
        "| b | s | 0.04 | - | - | - | - | - | - |",
    ]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "benchmarks").mkdir()
    return tmp_path


def test_store__round_trips_results(root: Path) -> None:
    ratio = Ratio(median=6.61, low=5.7, high=8)
    results = Results(
        rows=[
            Row(name="a", what="…", unit="words", ours=2e6, peer=3e5, vs_peer=ratio),
            harness.left_out("b", "not installed"),
        ],
        inputs=["Input: some"],
    )

    report.store("reading", results, root=root)

    kept = report.stored("reading", root=root)
    assert kept == results
    assert kept.machine[-1] == "Commit: unknown"  # the folder is not a checkout
    assert report.stored("encode", root=root) is None


def test_page__has_a_section_for_each_measured_topic(root: Path) -> None:
    for name in ("loss", "reading"):
        row = Row(name=f"row of {name}", what="who", unit="s", ours=1)
        report.store(name, Results(rows=[row], inputs=[f"Input of {name}"]), root=root)

    topics = {"reading": "Reading", "encode": "Encoding", "loss": "Loss"}
    text = report.speed_page(topics, {}, root=root)

    assert [line for line in text.split("\n") if line.startswith("## ")] == [
        "## Goals missed",
        "## Reading",
        "## Loss",
    ]
    assert text.index("Input of reading") < text.index("## Loss") < text.index("Input of loss")


def test_page__names_missed_goals_and_no_path(root: Path) -> None:
    rows = [
        Row(name="a", what="who", unit="s", ours=1, met="no", why="Physics."),
        Row(name="b", what="who", unit="s", ours=1, met="yes", why="Said where it is missed."),
    ]
    report.store("reading", Results(rows=rows, inputs=["Input: some"]), root=root)

    text = report.speed_page({"reading": "Reading"}, {}, root=root)

    assert "## Goals missed\n\n* **a**: Physics.\n\n" in text
    assert "Said where" not in text
    assert "* **b**: who" in text
    assert "* Input: some" in text
    assert not any(path in text for path in (str(root), str(Path.home()), "/tmp"))  # noqa: S108


def test_page__links_to_evidence_if_it_exists(tmp_path: Path) -> None:
    (tmp_path / "docs" / "results").mkdir(parents=True)

    without = report.speed_page({}, {}, root=tmp_path)
    (tmp_path / "docs" / "results" / "evidence.md").touch()

    assert "evidence.md" not in without
    link = "[evidence.md](evidence.md)"
    assert link in report.speed_page({}, {}, root=tmp_path)


def test_own_page__has_text_failures_tables_and_machine(root: Path) -> None:
    table = Table(
        title="Builds",
        about="Some.\n\n* One.\n* Two.",
        header=("n", "s"),
        rows=[(1, "2.0")],
        align="rr",
    )
    results = Results(about="Words.", tables=[table], failures=["folder 2: other bytes"])
    report.store("growth", results, root=root)
    (root / "docs" / "results").mkdir(parents=True)

    report.write_pages({}, {"growth": ("Growth", "docs/results/growth.md")}, root=root)

    text = (root / "docs" / "results" / "growth.md").read_text(encoding="utf-8")
    assert text.startswith(
        "# Growth\n\nWritten by `python -m benchmarks growth`. Words.\n\n"
        "* Failed: folder 2: other bytes\n\n"
        "## Builds\n\nSome.\n\n* One.\n* Two.\n\n"
        "| n | s |\n| ---: | ---: |\n| 1 | 2.0 |\n\n* "
    )
    assert text.endswith("* Commit: unknown\n")
    assert "[growth.md](growth.md)" in (root / report.SPEED).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [report.SPEED, *(path for _, path in suite.PAGES.values())])
def test_results__match_the_committed_page(path: str, tmp_path: Path) -> None:
    """Fails after an edit by hand, and after new results without a new page."""
    for name in ("benchmarks/results", "docs"):
        shutil.copytree(inputs.ROOT / name, tmp_path / name)

    report.write_pages(suite.TOPICS, suite.PAGES, root=tmp_path)

    written = (tmp_path / path).read_text(encoding="utf-8")
    assert written == (inputs.ROOT / path).read_text(encoding="utf-8")


def test_speed__states_medians_of_the_results() -> None:
    """Fails after new results that change a figure of docs/speed.md, until the page says so."""
    text = (inputs.ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    stored = [report.stored(topic, root=inputs.ROOT) for topic in suite.TOPICS]
    ratios = [
        row.vs_peer.median for results in stored if results for row in results.rows if row.vs_peer
    ]

    stated = re.findall(r"(\d[\d,]*)(\.\d+)?x", text)

    assert len(stated) > 20
    for whole, decimals in stated:
        number = float(f"{whole.replace(',', '')}{decimals}")
        rounding = 0.51 * 10.0 ** -max(0, len(decimals) - 1)
        assert any(abs(ratio - number) <= rounding for ratio in ratios), f"{number:,}x"


def test_results__are_of_registered_strategies() -> None:
    results = report.stored("strategies", root=inputs.ROOT)
    assert results is not None

    rows = [row.name.removeprefix("strategy ") for row in results.rows if row.unit == "tokens"]

    assert {f"{name}.v1" for name in rows} <= set(STRATEGIES.names())


def test_vary__makes_the_same_corpus_every_time() -> None:
    sample = inputs.read(inputs.ROOT / "vocab" / "sample" / "bc2gm" / "train.tsv")

    made = inputs.vary(sample, 50)

    assert made == inputs.vary(sample, 50)
    assert len(made) == 50
    assert all(tag for sentence in made for _, tag in sentence)


def test_enlarge__keeps_the_sentences_and_alters_few_words_of_copies() -> None:
    sample = inputs.read(inputs.ROOT / "vocab" / "sample" / "bc2gm" / "train.tsv")

    made = inputs.enlarge(sample, 400)

    assert made == inputs.enlarge(sample, 400)
    assert len(made) == 400
    assert made[: len(sample)] == sample

    known = {word for sentence in sample for word, _ in sentence}
    rest = [word for sentence in made[len(sample) :] for word, _ in sentence]
    altered = sum(word not in known for word in rest)
    assert 0 < altered < 0.05 * len(rest)


def test_many__writes_sentences_of_the_samples_without_real_data(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MSLM_DATA_REAL", str(tmp_path / "nowhere"))

    found = inputs.many(inputs.find(tmp_path), tmp_path, 700)

    sentences = inputs.read(found.train)
    assert len(sentences) == 700
    assert len({tag for sentence in sentences for _, tag in sentence}) > 5
    assert found.description.startswith("700 sentences in one file, ")


def test_many__excludes_document_headers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MSLM_DATA_REAL", str(tmp_path / "real"))
    folder = tmp_path / "real" / "blurb" / "JNLPBA"
    folder.mkdir(parents=True)
    inputs.write(folder / "devel.tsv", [[("-DOCSTART-", "O")], [("a", "B-DNA"), ("b", "O")]])

    found = inputs.many(inputs.find(tmp_path), tmp_path, 3)

    assert all(len(sentence) == 2 for sentence in inputs.read(found.train))


def test_read__inverts_write(tmp_path: Path) -> None:
    sentences = [[("a", "O"), ("b", "B-X")], [("c", "O")]]

    inputs.write(tmp_path / "x.tsv", sentences)

    assert inputs.read(tmp_path / "x.tsv") == sentences


def test_longer__joins_neighbours() -> None:
    one = [("a", "O")]

    assert [len(sentence) for sentence in inputs.longer([one] * 5, 2)] == [2, 2, 1]


def test_unless_absent__returns_measured_rows() -> None:
    rows = [Row(name="a", what="…", unit="s", ours=1)]

    assert harness.unless_absent("a", lambda: rows) == rows


@pytest.mark.parametrize(
    ("error", "met"),
    [
        (AbsentError("Traceback\nout of rows"), "left out: out of rows"),
        (ModuleNotFoundError("No module named 'x'", name="x"), "left out: No module named 'x'"),
        (
            ImportError("cannot import name 'a' from 'x' (/home/me/x.py)", name="x"),
            "left out: cannot import name 'a' from 'x'",
        ),
    ],
)
def test_unless_absent__gives_the_reason_without_a_path(error: Exception, met: str) -> None:
    def measure() -> list[Row]:
        raise error

    (row,) = harness.unless_absent("a", measure)

    assert (row.name, row.ours, row.met) == ("a", None, met)


def test_unless_absent__raises_our_own_errors() -> None:
    def measure() -> list[Row]:
        raise ImportError("cannot import name 'a'", name="mslm_data.mask")

    with pytest.raises(ImportError, match="cannot import name 'a'"):
        harness.unless_absent("a", measure)


def test_table__has_no_numbers_in_a_skipped_row() -> None:
    lines = report.table([harness.left_out("a", "not installed")])

    assert lines[2:] == ["| a | - | - | - | - | - | - | - | left out: not installed |"]
