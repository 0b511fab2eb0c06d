"""User-defined strategies: the example code of the documentation, in commands and in Python."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import mslm_data as md
from mslm_data.errors import VocabularyError
from mslm_data.mask import MaskKind, MaskPlan
from tests.cli.running import run
from tests.generate import fixed_examples

PAGE = Path(__file__).parents[2] / "docs" / "own_strategy.md"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("shards") / "ncbi"
    md.build("blurb/ncbi-disease", sample=True, out=out, workers=1)
    return out


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the module of the documentation page."""
    code = re.findall(r"```python\n(# my_strategies.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "my_strategies.py").write_text("\n".join(code), encoding="utf-8")
    (tmp_path / "broken.py").write_text("def f(:\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "my_strategies", raising=False)
    return tmp_path


@pytest.mark.usefixtures("here")
def test_strategy__function_masks_like_its_file(built: Path) -> None:
    own = "my_strategies:terms_then_words"
    counted = run("mask-stats", str(built), "--strategy", own, "--set", "elm=0.3", "--json")

    from my_strategies import terms_then_words

    Path("mine.toml").write_text(repr(terms_then_words(elm=0.3)), encoding="utf-8")
    of_file = run("mask-stats", str(built), "--strategy", "mine.toml", "--json")

    assert counted.code == of_file.code == 0, counted.err + of_file.err
    assert counted.json["digest"] == of_file.json["digest"]


@pytest.mark.usefixtures("here")
def test_strategy__class_masks_one_mention_per_row(built: Path) -> None:
    own = "my_strategies:LongestMention"

    counted = run("mask-stats", str(built), "--strategy", own, "--set", "chance=1", "--json")
    shown = run("inspect", str(built), "--strategy", own, "--strategy", "joint", "--rows", "2")

    rows = md.load(built)["train"].examples().span_starts.lengths
    assert counted.code == 0, counted.err
    assert counted.json["mentions_whole"] == np.count_nonzero(rows)
    assert shown.code == 0, shown.err
    assert own in shown.out


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["no_such_module:f"], "no_such_module"),
        (["my_strategies:no_such"], "no_such"),
        (["broken:f"], r"got SyntaxError: .*broken\.py, line 1"),
        (["my_strategies:np"], "expected a function or class"),
        (["my_strategies:MaskKind"], "expected a strategy|expected the option"),
        (["my_strategies:LongestMention", "--set", "chanse=1"], "did you mean 'chance'"),
        (
            ["my_strategies:LongestMention", "--set", "chance=often"],
            "expected `float`, got `str` for option 'chance'",
        ),
        (
            ["my_strategies:terms_then_words", "--set", "elm=7"],
            "expected `float` <= 1.0 for option",
        ),
    ],
)
def test_strategy__invalid_own_strategies_exit_with_1(
    built: Path, words: list[str], expected: str
) -> None:
    done = run("mask-stats", str(built), "--strategy", *words)

    assert done.code == 1
    assert re.search(expected, done.err), done.err


@pytest.mark.usefixtures("here")
def test_rates__are_for_the_strategies_that_have_them(built: Path) -> None:
    Path("span.toml").write_text('[mask]\nuse = "span"\n', encoding="utf-8")
    Path("joint.toml").write_text('[mask]\nuse = "joint"\n', encoding="utf-8")
    Path("picks.toml").write_text(
        '[mask]\npicks = [{units = "words", budget = {rate = 0.1}}]\n', encoding="utf-8"
    )
    names = ("joint", "joint.toml", "span.toml", "picks.toml", "my_strategies:terms_then_words")
    several = [word for name in names for word in ("--strategy", name)]

    done = run("inspect", built, *several, "--rows", "1", "--elm", "0.3", "--json")
    alone = run("inspect", built, "--strategy", "span.toml", "--rows", "1", "--elm", "0.3")

    assert done.code == 0, done.err
    asked = {
        name: [rate["asked"] for rate in rates if rate["name"] == "elm"]
        for name, rates in done.json["rates"].items()
    }
    assert asked == {"joint": [0.3], "joint.toml": [0.3]} | {name: [] for name in names[2:]}
    assert alone.code == 1
    assert "unknown option 'elm'" in alone.err


@pytest.mark.usefixtures("here")
def test_strategy__file_cannot_name_code(built: Path) -> None:
    Path("mine.toml").write_text('[mask]\nuse = "my_strategies:LongestMention"\n', encoding="utf-8")

    done = run("mask-stats", str(built), "--strategy", "mine.toml")

    assert done.code == 1
    with pytest.raises(ValueError, match="strategy"):
        md.strategy("my_strategies:LongestMention")


def test_strategy__loads_lexicons_for_a_strategy_object(built: Path, tmp_path: Path) -> None:
    (tmp_path / "longest.toml").write_text(
        '[mask]\npicks = [{units = "mentions", budget = {rate = 0.4}, '
        'order = {by = "highest", score = {lexicon = "pmi.arrow", missing = 0.5}}}]\n',
        encoding="utf-8",
    )
    made = run("vocab", "pmi", str(built), "--min-count", "1")
    assert made.code == 0, made.err
    shards = md.load(built)
    rows = shards["train"].examples()
    strategy = md.strategy(tmp_path / "longest.toml")

    with pytest.raises(VocabularyError, match=r"shards\.strategy\("):
        strategy.plan(rows)
    found = shards.strategy(strategy).plan(rows)

    batches = [
        next(iter(md.Batches(shards["train"], one, batch_size=60, shuffle=False)))
        for one in (strategy, shards.strategy(strategy))
    ]
    for name, array in batches[0].items():
        assert np.array_equal(array, batches[1][name]), name
    assert md.show(shards["train"], strategy, rows=1).html

    by_name = shards.strategy(tmp_path / "longest.toml").plan(rows)
    assert found.counts() > (0, 0)
    assert np.array_equal(found.kinds.values, by_name.kinds.values)
    with pytest.raises(TypeError, match="no options"):
        shards.strategy(strategy, elm=0.5)


def test_mask_plan__requires_a_kind_for_each_token() -> None:
    rows = fixed_examples()
    kinds = (rows.word_ids.values >= 0) * MaskKind.BASE

    assert MaskPlan.from_kinds(rows, kinds).counts() == (0, kinds.sum())
    for wrong, message in (
        (kinds[1:], "expected one for each of"),
        (kinds * 0.5, "expected integers, got an array of float64"),
        (kinds * 7, "got numbers from 0 to 7"),
        (-kinds, "got numbers from -1 to 0"),
        (np.full_like(kinds, MaskKind.BASE), "expected MaskKind.NONE on special tokens"),
    ):
        with pytest.raises(ValueError, match=message):
            MaskPlan.from_kinds(rows, wrong)


BAD = """
import numpy as np, mslm_data as md
from mslm_data.mask import MaskPlan

class Short(md.Strategy):
    origin, needs, follows_training = None, frozenset(), False

    def plan_with(self, examples, rng):
        return MaskPlan.from_kinds(examples, np.zeros(3, np.uint8))

    def corrupt_with(self, examples, plan, rng):
        return examples.input_ids

    def table(self):
        return {"use": "short"}

class Wrong(Short):
    def plan_with(self, examples, rng):
        return {}["Wilhelmina"]

class Leaky(Short):
    def plan_with(self, examples, rng):
        raise ValueError("no rule for Wilhelmina")

class Needy(Short):
    needs = frozenset({"mentions", "word_idz"})
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Short", r"'bad:Short': kinds: expected one for each of [\d,]+ tokens, got"),
        ("Wrong", r"'bad:Wrong': KeyError in bad\.py:19$"),
        ("Leaky", r"'bad:Leaky': ValueError in bad\.py:23$"),
        ("Needy", r"'bad:Needy': needs: expected some of mentions, scores, word_ids, got word_idz"),
    ],
)
def test_strategy__own_errors_name_the_strategy(
    built: Path, here: Path, name: str, message: str
) -> None:
    (here / "bad.py").write_text(BAD, encoding="utf-8")

    done = run("mask-stats", str(built), "--strategy", f"bad:{name}")

    assert done.code == 2
    assert re.search(message, done.err.strip()), done.err
    assert "Wilhelmina" not in done.err
