"""Strategies of users in commands: the example code of the documentation, and errors."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import mslm_data as md
from tests.cli.running import run

PAGE = Path(__file__).parents[2] / "docs" / "masking.md"
OWN = """
import numpy as np, mslm_data as md
from mslm_data.mask import MaskPlan

def half():
    from neighbour import RATE

    return md.strategy("token", rate=RATE)

def missing():
    return md.strategy("token", rate={}["rate"])

def other():
    return 3

class Short(md.Strategy):
    origin, needs, follows_training = None, frozenset(), False

    def plan_with(self, examples, rng):
        return MaskPlan.from_kinds(examples, np.zeros(3, np.uint8))

    def corrupt_with(self, examples, plan, rng):
        return examples.input_ids

    def table(self):
        return {"use": "short"}

class Leaky(Short):
    def plan_with(self, examples, rng):
        raise ValueError("no rule for Wilhelmina")

class Needy(Short):
    needs = frozenset({"mentions", "word_idz"})
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder with the module of the documentation page, and others."""
    code = re.findall(r"```python\n(# my_strategies.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "my_strategies.py").write_text("\n".join(code), encoding="utf-8")
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    (tmp_path / "neighbour.py").write_text("RATE = 0.5\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("my_strategies", "own", "neighbour"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_strategy__function_masks_like_its_file(ncbi: Path) -> None:
    own = "my_strategies:terms_then_words"
    counted = run("mask-stats", ncbi, "--strategy", own, "--set", "elm=0.3", "--json")

    from my_strategies import terms_then_words

    Path("mine.toml").write_text(repr(terms_then_words(elm=0.3)), encoding="utf-8")
    of_file = run("mask-stats", ncbi, "--strategy", "mine.toml", "--json")

    assert counted.code == of_file.code == 0, counted.err + of_file.err
    assert counted.json["digest"] == of_file.json["digest"]


def test_strategy__class_masks_one_mention_per_row(ncbi: Path) -> None:
    own = "my_strategies:LongestMention"

    counted = run("mask-stats", ncbi, "--strategy", own, "--set", "chance=1", "--json")
    shown = run("inspect", ncbi, "--strategy", own, "--strategy", "joint", "--rows", "2")

    rows = md.load(ncbi)["train"].examples().span_starts.lengths
    assert counted.code == 0, counted.err
    assert counted.json["mentions_whole"] == np.count_nonzero(rows)
    assert shown.code == 0, shown.err
    assert own in shown.out


def test_strategy__function_may_import_its_neighbours_when_it_is_called(ncbi: Path) -> None:
    done = run("mask-stats", ncbi, "--strategy", "own:half", "--json")

    assert done.code == 0, done.err
    assert done.json["rates"][0]["asked"] == 0.5


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("my_strategies:no_such", 1, "no_such"),
        ("my_strategies:LongestMention --set chanse=1", 1, "did you mean 'chance'"),
        ("my_strategies:LongestMention --set chance=often", 1, "expected `float`, got `str` for"),
        ("my_strategies:terms_then_words --set elm=7", 1, "expected `float` <= 1.0 for option"),
        ("own:missing", 1, "strategy 'own:missing': KeyError in own.py:11\n"),
        ("own:other", 1, "expected a strategy, as md.strategy(...) makes one"),
        ("own:Short", 2, "'own:Short': kinds: expected one for each of"),
        ("own:Leaky", 2, "'own:Leaky': ValueError in own.py:30\n"),
        ("own:Needy", 2, "needs: expected some of mentions, scores, word_ids, got word_idz"),
    ],
)
def test_strategy__errors_name_the_strategy_and_its_line(
    ncbi: Path, words: str, code: int, message: str
) -> None:
    done = run("mask-stats", ncbi, "--strategy", *words.split())

    assert done.code == code
    assert message in done.err
    assert "Wilhelmina" not in done.err


def test_strategy__file_cannot_name_code(ncbi: Path) -> None:
    Path("mine.toml").write_text('[mask]\nuse = "my_strategies:LongestMention"\n', encoding="utf-8")

    done = run("mask-stats", ncbi, "--strategy", "mine.toml")

    assert done.code == 1
    with pytest.raises(ValueError, match="strategy"):
        md.strategy("my_strategies:LongestMention")


def test_rates__are_for_the_strategies_that_have_them(ncbi: Path) -> None:
    Path("span.toml").write_text('[mask]\nuse = "span"\n', encoding="utf-8")
    Path("joint.toml").write_text('[mask]\nuse = "joint"\n', encoding="utf-8")
    Path("picks.toml").write_text(
        '[mask]\npicks = [{units = "words", budget = {rate = 0.1}}]\n', encoding="utf-8"
    )
    names = ("joint", "joint.toml", "span.toml", "picks.toml", "my_strategies:terms_then_words")
    several = [word for name in names for word in ("--strategy", name)]

    done = run("inspect", ncbi, *several, "--rows", "1", "--elm", "0.3", "--json")
    alone = run("inspect", ncbi, "--strategy", "span.toml", "--rows", "1", "--elm", "0.3")

    assert done.code == 0, done.err
    asked = {
        name: [rate["asked"] for rate in rates if rate["name"] == "elm"]
        for name, rates in done.json["rates"].items()
    }
    assert asked == {"joint": [0.3], "joint.toml": [0.3]} | {name: [] for name in names[2:]}
    assert alone.code == 1
    assert "unknown option 'elm'" in alone.err
