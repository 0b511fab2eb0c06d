"""Plug-ins in registries: discovery, loading and rejection."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mslm_data as md
from mslm_data import plugins
from mslm_data.annotate import ANNOTATORS
from mslm_data.api.loading import load
from mslm_data.engine.ray import versions
from mslm_data.errors import PipelineError
from mslm_data.mask.artefacts import with_artefacts
from mslm_data.mask.table import STRATEGIES, default_options, strategies, strategy
from mslm_data.segment import SEGMENTERS
from mslm_data.shard.manifest import Manifest
from mslm_data.source import SOURCES
from tests import made
from tests.cli.running import run
from tests.made import build
from tests.support.plugins import put

CANARY = "Wilhelmina"
CODE = '''
from dataclasses import dataclass
from typing import ClassVar
from mslm_data.registry import Options
from mslm_data.annotate import Annotations
from mslm_data.annotate.terms.annotator import Terms
from mslm_data.data.document import Document, Span
from mslm_data.data.documents import Mentions
from mslm_data.segment.given import Whole
from mslm_data.source.formats.text import PlainText
import mslm_data as md


class Lines(PlainText):
    """Texts, as a plug-in reads them."""

    suffixes = (".lines",)


class Broken(Lines):
    """A source with a mistake."""

    def batches(self, part):
        raise ValueError(open(part.path).read())


class Beyond(Lines):
    """A source whose mention ends behind the text."""

    def read(self, part):
        text = open(part.path).read().strip()
        spans = (Span(0, 999, "X"), Span(0, 2, "X"))
        yield Document(id="a", text=text, spans=spans, place="a:1")

    def batches(self, part):
        return self.read(part)


class Fails(Options, frozen=True):
    """An annotator with a mistake."""

    weak: bool = False
    slow: ClassVar[bool] = False

    def digest(self):
        return ""

    def labels(self):
        return ("X",)

    def start(self):
        return self

    def annotate(self, documents):
        raise ValueError(documents.line)


class FindsTooMuch(Fails, frozen=True):
    """An annotator whose mentions are behind the text, before it, or empty."""

    def annotate(self, documents):
        spans = [Span(0, 999, "X"), Span(-1, 2, "X"), Span(2, 2, "X"), Span(0, 2, "X")]
        rows = [spans] * len(documents)
        return Annotations(Mentions.from_rows(rows, documents.starts), {})


def most(rate: float = 0.5) -> md.Strategy:
    """Mask most tokens."""
    return md.strategy("token", rate=rate)


@dataclass(frozen=True)
class Steady(md.Strategy):
    """Mask at one rate."""

    origin = None
    needs = frozenset()
    follows_training = False
    rate: float = 0.5

    def plan_with(self, examples, rng):
        return most(self.rate).plan_with(examples, rng)

    def corrupt_with(self, examples, plan, rng):
        return most().corrupt_with(examples, plan, rng)

    def table(self):
        return {"use": "steady", "rate": self.rate}


def nothing():
    return 3
'''
NAMES = {
    "mslm_data.sources": {
        "lines": "made_plugin:Lines",
        "beyond-lines": "made_plugin:Beyond",
        "broken-lines": "made_plugin:Broken",
    },
    "mslm_data.annotators": {
        "fails": "made_plugin:Fails",
        "finds-too-much": "made_plugin:FindsTooMuch",
        "table-again": "made_plugin:Terms",
    },
    "mslm_data.segmenters": {"all-of-it": "made_plugin:Whole"},
    "mslm_data.strategies": {
        "most.v1": "made_plugin:most",
        "steady": "made_plugin:Steady",
        "nothing": "made_plugin:nothing",
    },
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages, including a plug-in of each kind."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "made_plugin.py").write_text(CODE, encoding="utf-8")
    put(folder, "made-plugin", NAMES)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "made_plugin", raising=False)
    plugins.find_plugins.cache_clear()
    yield folder
    plugins.find_plugins.cache_clear()  # other tests do not have the folder


@pytest.mark.usefixtures("site")
def test_registry__lists_plugins_beside_shipped_names() -> None:
    assert {"lines", "conll"} <= {*SOURCES.names()}
    assert {"fails", "gold"} <= {*ANNOTATORS.names()}
    assert {"all-of-it", "clinical"} <= {*SEGMENTERS.names()}
    assert {"most.v1", "joint.v1"} <= {*STRATEGIES.names()}
    assert "lines" in SOURCES
    assert "no-such" not in SOURCES
    assert SOURCES.load("lines").suffixes == (".lines",)
    with pytest.raises(PipelineError, match="unknown source 'lnes'; did you mean 'lines'"):
        SOURCES.load("lnes")


def test_registry__does_not_search_plugins_for_shipped_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plugins, "find_plugins", None)

    assert SOURCES.load("conll")
    assert STRATEGIES.resolve("joint") == "joint.v1"
    with pytest.raises(TypeError):
        SOURCES.resolve("lines")


def test_help__does_not_search_plugins() -> None:
    code = (
        "import sys; from mslm_data.cli import main; main(['build', '--help']); "
        "assert 'mslm_data.plugins' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("registry", "group", "name"),
    [
        (SOURCES, "mslm_data.sources", "conll"),
        (STRATEGIES, "mslm_data.strategies", "joint"),
        (STRATEGIES, "mslm_data.strategies", "joint.v2"),
    ],
)
def test_registry__shipped_names_cannot_be_replaced(site: Path, registry, group, name) -> None:
    shipped = name.partition(".")[0]
    before, names = registry.load(shipped), registry.names()
    put(site, "taker", {group: {name: "made_plugin:Lines"}})
    plugins.find_plugins.cache_clear()

    assert registry.names() == names
    assert registry.load(shipped) is before
    if name != shipped:
        with pytest.raises(PipelineError, match=rf"'{name}' of {group}, from taker 1\.0: the name"):
            registry.load(name)


BROKEN = {
    "mslm_data.sources": {"wrong": "no_module:X", "conll": "made_plugin:Lines"},
    "mslm_data.annotators": {"wrong": "made_plugin:no_such_class"},
    "mslm_data.segmenters": {"wrong": "no_module:X"},
    "mslm_data.strategies": {"wrong": "broken_plugin:half", "joint": "made_plugin:most"},
}
"""Plug-ins that cannot be imported, whose options cannot be read, or with a shipped name."""


@pytest.fixture
def broken(site: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages, one of them broken."""
    code = f"def half(rate: 'Unknown{CANARY}' = 0.5): ..."
    (site / "broken_plugin.py").write_text(code, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "broken_plugin", raising=False)
    put(site, "bad", BROKEN)
    plugins.find_plugins.cache_clear()
    return site


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("registry", [SOURCES, ANNOTATORS, SEGMENTERS, STRATEGIES])
def test_registry__a_broken_plugin_blocks_itself_alone(registry) -> None:
    assert "wrong" not in registry.names()
    assert {"lines", "fails", "all-of-it", "most.v1"} & {*registry.names()}
    assert "wrong" in registry
    with pytest.raises(PipelineError, match=r"'wrong' of mslm_data\.\w+, from bad 1\.0: "):
        registry.load("wrong")


def test_commands__go_on_beside_a_broken_plugin(broken: Path, tmp_path: Path) -> None:
    made.built(tmp_path / "ncbi")
    corpus = made.SAMPLE / "ncbi-disease"
    (broken.parent / "notes.lines").write_text("A cold.\n", encoding="utf-8")

    listings = [run("recipes", f"--{name}") for name in ("sources", "annotators", "segmenters")]
    of_strategies = run("recipes", "--strategies")
    recognised = run("recipes", "auto", "--input", corpus)
    page = run("look", tmp_path / "ncbi", "--out", tmp_path / "page.html")
    other = run("recipes", "--sources", "lines")
    wrong = run("recipes", "--sources", "wrong")

    for done in (*listings, of_strategies, recognised, page, other):
        assert done.code == 0, done.err
    assert "wrong" not in listings[0].out
    assert "# Found 'conll'" in recognised.out
    assert "most.v1" in of_strategies.out
    assert wrong.code == 1
    assert "from bad 1.0: expected no_module:X to be imported" in wrong.err


def test_recognise__a_plugin_that_fails_at_a_file_blocks_itself_alone(site: Path) -> None:
    code = f"""
from made_plugin import Lines
class Fails(Lines):
    suffixes = (".tsv",)
    def sniff(self, sample):
        raise KeyError('{CANARY}')
"""
    (site / "failing_plugin.py").write_text(code, encoding="utf-8")
    put(site, "failing", {"mslm_data.sources": {"failing": "failing_plugin:Fails"}})
    plugins.find_plugins.cache_clear()
    (site.parent / "a.tsv").write_text("no\x00thing", encoding="utf-8")

    done = run("recipes", "auto", "--input", made.SAMPLE / "ncbi-disease")
    unknown = run("recipes", "auto", "--input", site.parent / "a.tsv")

    assert done.code == 0, done.err
    assert "# Found 'conll'" in done.out
    assert unknown.code == 1
    assert CANARY not in unknown.err


@pytest.mark.usefixtures("broken")
def test_doctor__lists_plugins_and_what_is_wrong_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(md, "build", None)  # so that it masks no batch

    done = run("doctor", "--json")

    problems = {
        (plugin["group"], plugin["name"]): plugin["problem"] for plugin in done.json["plugins"]
    }
    assert problems["mslm_data.sources", "lines"] is None
    assert "no_module" in problems["mslm_data.sources", "wrong"]
    assert "is shipped" in problems["mslm_data.sources", "conll"]
    assert "is shipped" in problems["mslm_data.strategies", "joint"]
    assert "NameError" in problems["mslm_data.strategies", "wrong"]
    assert CANARY not in done.out
    lines = [line for line in run("doctor").out.splitlines() if line.startswith("plug-in")]
    assert any("bad 1.0" in line and "no_module" in line for line in lines)
    assert any("made-plugin 1.0" in line for line in lines)


@pytest.mark.parametrize(
    ("stands_for", "code", "got"),
    [
        ("no_module:X", "", "ModuleNotFoundError of no_module"),
        ("of_plugin:X", "", "AttributeError"),
        ("of_plugin:X", f"raise RuntimeError('{CANARY}')", "RuntimeError;"),
        ("of_plugin:X", "X = 3", "expected a class or a function, got int"),
        (
            "of_plugin:X",
            "from mslm_data.source.form import FormSource\nclass X(FormSource): pass",
            "class X: expected FormSource before a base of options",
        ),
    ],
)
def test_load__names_the_broken_plugin(
    site: Path, monkeypatch: pytest.MonkeyPatch, stands_for: str, code: str, got: str
) -> None:
    (site / "of_plugin.py").write_text(code, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "of_plugin", raising=False)
    put(site, "wrong", {"mslm_data.sources": {"wrong": stands_for}})
    plugins.find_plugins.cache_clear()

    with pytest.raises(
        PipelineError, match=r"entry point 'wrong' of mslm_data\.sources, from wrong 1\.0: "
    ) as told:
        SOURCES.load("wrong")

    assert got in str(told.value)
    assert CANARY not in str(told.value)


def test_load__refuses_a_name_of_two_packages(site: Path) -> None:
    put(site, "another", {"mslm_data.sources": {"lines": "made_plugin:Lines"}})
    plugins.find_plugins.cache_clear()

    with pytest.raises(PipelineError, match=r"made-plugin.*; uninstall one of both") as told:
        SOURCES.load("lines")

    assert "another" in str(told.value)
    assert SOURCES.load("beyond-lines").__name__ == "Beyond"


@pytest.mark.usefixtures("site")
def test_strategy__of_a_plugin_works_by_name_and_file(tmp_path: Path) -> None:
    made_by_name = strategy("most", rate=0.25)
    (tmp_path / "mine.toml").write_text('[mask]\nuse = "most"\nrate = 0.25\n')

    assert made_by_name == strategy("token", rate=0.25)
    assert strategy(tmp_path / "mine.toml") == made_by_name
    assert made_by_name.origin is not None
    assert made_by_name.origin.name == "most.v1"
    assert default_options("most") == {"rate": 0.5}
    assert strategies()["most.v1"] == ("Mask most tokens.", "own", "made-plugin 1.0")
    with pytest.raises(ValueError, match="did you mean 'rate'"):
        strategy("most", rte=1)
    with pytest.raises(ValueError, match=r"expected a strategy, .*got int"):
        strategy("nothing")


@pytest.mark.usefixtures("site")
def test_strategy__of_a_plugin_may_be_a_dataclass_without_an_origin_field() -> None:
    steady = strategy("steady", rate=0.25)

    assert steady.table() == {"use": "steady", "rate": 0.25}
    assert steady.origin is not None
    assert (steady.origin.name, steady.origin.options) == ("steady", {"rate": 0.25})
    assert with_artefacts(steady, lambda name, _: name).origin == steady.origin


@pytest.mark.usefixtures("site")
def test_recipes__list_plugins() -> None:
    assert "lines" in run("recipes", "--sources").out
    assert 'use = "lines"' in run("recipes", "--sources", "lines").out
    assert "table-again" in run("recipes", "--annotators").out
    assert "all-of-it" in run("recipes", "--segmenters").out
    assert "made-plugin 1.0" in run("recipes", "--strategies").out
    assert "most.v1: own, made-plugin 1.0" in run("recipes", "--strategies", "most").out


def built(site: Path, out: Path) -> Manifest:
    path = site.parent / "notes.lines"
    path.write_text(f"{CANARY} has a cold.\n", encoding="utf-8")
    pipeline = made.pipeline_of(source={"use": "lines"}, segment="all-of-it")
    return build(pipeline, [path], made.word_piece(), out, workers=1)


def test_build__records_another_plugin_version(site: Path, tmp_path: Path) -> None:
    manifest = built(site, tmp_path / "out")
    assert manifest.versions["made-plugin"] == "1.0"

    (site / "made_plugin-1.0.dist-info").rename(site / "gone")
    put(site, "made-plugin", NAMES, version="1.1")
    plugins.find_plugins.cache_clear()
    again = built(site, tmp_path / "again")

    assert again.versions["made-plugin"] == "1.1"
    assert again.plan != manifest.plan
    assert built(site, tmp_path / "out") == manifest


def test_build__records_the_version_of_an_ensemble_member(site: Path, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name,label\ncold,X\n", encoding="utf-8")
    path = tmp_path / "a.txt"
    path.write_text("A cold.\n", encoding="utf-8")
    mine = {"use": "table-again", "table": str(tmp_path / "t.csv")}

    pipeline = made.pipeline_of(
        source={"use": "text"},
        annotate={
            "use": "ensemble",
            "annotators": {"mine": mine, "given": {"use": "gold"}},
            "combine": "union",
            "priority": ["mine", "given"],
            "labels": ["X"],
        },
    )
    manifest = build(pipeline, [path], made.word_piece(), tmp_path / "out", workers=1)

    assert manifest.splits["train"].mentions == 1
    assert manifest.versions["made-plugin"] == "1.0"


def test_build__records_no_version_of_an_unused_plugin(site: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("A cold.\n", encoding="utf-8")

    pipeline = made.pipeline_of(source={"use": "text"})
    manifest = build(pipeline, [path], made.word_piece(), tmp_path / "out", workers=1)

    assert "made-plugin" not in manifest.versions


@pytest.mark.usefixtures("site")
def test_ray__compares_the_versions_of_plugins() -> None:
    assert ("made-plugin", "1.0") in versions()


@pytest.mark.parametrize(
    "stages",
    [
        ["--set", "annotate.use=fails", "--set", 'annotate.labels=["X"]'],
        ["--set", "source.use=broken-lines"],
    ],
)
def test_build__plugin_error_shows_no_text(site: Path, tmp_path: Path, stages: list[str]) -> None:
    (tmp_path / "notes.lines").write_text(f"{CANARY} has a cold.\n", encoding="utf-8")
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text(made.word_piece().json, encoding="utf-8")

    done = run(
        *("build", "--source", "lines", "--input", tmp_path / "notes.lines", *stages),
        *("--tokenizer", tokenizer, "--out", tmp_path / "out", "--workers", 1),
    )

    assert done.code == 1
    assert "ValueError" in done.err
    assert CANARY not in done.out + done.err


@pytest.mark.parametrize(
    ("stages", "outside"),
    [
        (["--set", "source.use=beyond-lines", "--set", "annotate.use=gold"], 1),
        (["--set", "annotate.use=finds-too-much"], 3),
    ],
)
def test_build__counts_mentions_outside_of_their_text(
    site: Path, tmp_path: Path, stages: list[str], outside: int
) -> None:
    (tmp_path / "notes.lines").write_text("No rash.\n", encoding="utf-8")
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text(made.word_piece().json, encoding="utf-8")

    done = run(
        *("build", "--source", "lines", "--input", tmp_path / "notes.lines", *stages),
        *("--set", 'annotate.labels=["X"]', "--set", "source.max_loss=1"),
        *("--tokenizer", tokenizer, "--out", tmp_path / "out", "--workers", 1),
    )

    assert done.code == 0, done.err
    split = load(tmp_path / "out").manifest.splits["train"]
    assert split.left_out == {
        "expected a mention within the text of its document, got another range": outside
    }
    assert (split.given_mentions, split.mentions) == (outside + 1, 1)
