from __future__ import annotations

import stat
from pathlib import Path

import pytest

from mslm_data.api.loading import load
from mslm_data.lexicon.store import read_lexicon
from tests import made
from tests.cli.running import run


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sample with each sentence repeated five times, as none of its n-grams is frequent."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "in").mkdir()
    for path in (made.SAMPLE / "ncbi-disease").glob("*.tsv"):
        text = path.read_text(encoding="utf-8").strip("\n") + "\n\n"
        (folder / "in" / path.name).write_text(text * 5, encoding="utf-8")
    made.built(folder / "out", folder / "in")
    return folder / "out"


def test_pmi__rejects_a_range_with_two_ends(built: Path, tmp_path: Path) -> None:
    done = run("vocab", "pmi", built, "--lengths", "2-3-4", "--out", tmp_path / "pmi.arrow")

    assert done.code == 2
    assert "lengths: expected N or N-M, got '2-3-4'" in done.err


def test_pmi__writes_a_lexicon_of_the_shards(built: Path) -> None:
    done = run("vocab", "pmi", built, "--json")

    path = built / "vocab" / "pmi.arrow"
    lexicon = read_lexicon(path)
    manifest = load(built).manifest
    assert done.code == 0
    assert done.err == ""
    assert done.json["out"] == str(path)
    assert (done.json["splits"], done.json["measure"], done.json["min_counts"]) == (
        ["train"],
        "levine",
        [5],
    )
    assert sum(done.json["entries"].values()) == len(lexicon) > 10
    assert 0 < done.json["covered_tokens"] < done.json["tokens"]
    assert lexicon.about["tokenizer"] == manifest.tokenizer.sha256
    assert lexicon.about["size"] == manifest.token_ids.size
    assert lexicon.about["made"]["command"] == "vocab pmi"
    assert str(built) not in str(lexicon.about)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert run("verify", built).code == 0


def test_pmi__prints_counts_without_words(built: Path, tmp_path: Path) -> None:
    done = run("vocab", "pmi", built, "--out", tmp_path / "a" / "pmi.arrow")

    lines = done.out.splitlines()
    assert lines[0] == "train: paper, measure levine"
    assert [line.rsplit("  ", 2)[0].strip() for line in lines[1:-1]] == [
        "entries of 2 words", "entries of 3 words", "entries of 4 words", "entries",
        "tokens", "in an entry",
    ]  # fmt: skip
    assert lines[-1] == str(tmp_path / "a" / "pmi.arrow")


def test_pmi__equal_calls_write_equal_bytes(built: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        run("vocab", "pmi", built, "--out", tmp_path / name)

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_pmi__writes_a_text_list_on_request(built: Path, tmp_path: Path) -> None:
    done = run("vocab", "pmi", built, "--out", tmp_path / "x", "--list", tmp_path / "new" / "list")

    lines = [line.split("\t") for line in (tmp_path / "new" / "list").read_text().splitlines()]
    scores = read_lexicon(tmp_path / "x").scores
    assert done.code == 0
    assert [float(score) for _, score in lines] == pytest.approx(scores, abs=1e-7)
    assert all(2 <= len(text.split(" ")) <= 4 for text, _ in lines)
    assert stat.S_IMODE((tmp_path / "new" / "list").stat().st_mode) == 0o600


def test_pmi__recipes_set_defaults(built: Path, tmp_path: Path) -> None:
    released = run(
        "vocab", "pmi", built, "--recipe", "released", "--out", tmp_path / "r", "--json"
    ).json
    train = run(
        "vocab",
        "pmi",
        built,
        "--recipe",
        "released",
        "--split",
        "train",
        "--out",
        tmp_path / "t",
        "--json",
    )
    levine = run(
        "vocab",
        "pmi",
        built,
        "--recipe",
        "levine",
        "--min-count",
        5,
        "--out",
        tmp_path / "l",
        "--json",
    )

    assert released["splits"] == ["train", "validation", "test"]
    assert (released["stop_words"], released["drop_short_words"], released["measure"]) == (
        179,
        True,
        "plain",
    )
    assert train.json["splits"] == ["train"]
    assert list(levine.json["entries"]) == ["2", "3", "4", "5"]
    assert levine.json["covered_tokens"] >= 0.5 * levine.json["tokens"]


def test_pmi__options_override_a_recipe(built: Path, tmp_path: Path) -> None:
    (tmp_path / "stop").write_text("the\n")
    words = [
        "--recipe", "released", "--all-splits", "--measure", "squared", "--lengths", "3", "--min-count", "3",
        "--size", "4", "--order", "score", "--keep-short-words", "--stop-words", tmp_path / "stop",
        "--within-sentences", "--out", tmp_path / "x", "--json",
    ]  # fmt: skip

    done = run("vocab", "pmi", built, *words)

    made = read_lexicon(tmp_path / "x").about["made"]
    assert done.json["entries"] == {"3": 4}
    assert (made["stop_words"], made["across_sentences"], made["drop_short_words"]) == (
        1,
        False,
        False,
    )
    assert (made["lengths"], made["min_counts"], made["order"], made["size"]) == (
        [3, 3],
        [3],
        "score",
        4,
    )


def test_pmi__warns_about_an_unreachable_coverage(built: Path, tmp_path: Path) -> None:
    done = run(
        "vocab", "pmi", built, "--min-count", 11, "--coverage", 0.99, "--out", tmp_path / "x"
    )

    assert done.code == 0
    assert "warning: all n-grams together cover less than --coverage" in done.err


WRONG = [
    (["--recipe", "papers"], "recipe: no 'papers'; did you mean 'paper'?"),
    (["--split", "train", "--all-splits"], "split: expected --split or --all-splits, got both"),
    (["--min-count", "0"], "expected `int` >= 1 for option 'min_counts[0]'"),
    (["--min-count", "a,b"], "min-count: expected numbers with ',' between them, got 'a,b'"),
    (["--lengths", "2-6"], "expected `int` <= 5 for option 'lengths[1]'"),
    (
        ["--size", "10", "--shares", "50,25,20"],
        "shares: expected 3 percentages that sum to 100, got 50, 25, 20",
    ),
    (["--measure", "levin"], "invalid value for option 'measure'; did you mean 'levine'?"),
    (["--coverage", "nan"], "expected `float` > 0.0 for option 'coverage'"),
]
LACKING = [
    (["--split", "dev"], "no split 'dev'"),
    (["--stop-words", "/nowhere"], "/nowhere: no such file of stop words"),
    (["--min-count", "100000"], "lower --min-count"),
]


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [*((*wrong, 2) for wrong in WRONG), *((*lacking, 1) for lacking in LACKING)],
)
def test_pmi__invalid_calls_report_the_expected_value(
    built: Path, tmp_path: Path, words: list[str], message: str, code: int
) -> None:
    done = run("vocab", "pmi", built, *words, "--out", tmp_path / "x")

    assert done.code == code
    assert message in done.err
    assert not (tmp_path / "x").exists()


def test_pmi__rejects_the_same_file_for_list_and_lexicon(built: Path, tmp_path: Path) -> None:
    path = tmp_path / "pmi.arrow"

    done = run("vocab", "pmi", built, "--out", path, "--list", tmp_path / "a" / ".." / "pmi.arrow")

    assert done.code == 2
    assert "--list: expected another file than the lexicon's, got " in done.err
    assert not path.exists()
