"""The packages of `examples/plugins/` in commands, and their own tests."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mslm_data as md
from mslm_data import plugins
from tests import made
from tests.cli.running import run
from tests.support.plugins import EXAMPLES, put, put_example

NAMES = sorted(folder.name for folder in EXAMPLES.iterdir() if (folder / "pyproject.toml").exists())
PLUGINS_PAGE = EXAMPLES.parents[1] / "docs" / "plugins.md"
PAGE = """<GateDocument><TextWithNodes>Ada was seen in Ghent.

She lives in Bruges, near Ghent.</TextWithNodes><AnnotationSet>
<Annotation Type="Location" StartNode="16" EndNode="21"/>
<Annotation Type="Location" StartNode="37" EndNode="43"/>
</AnnotationSet></GateDocument>"""


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of GATE files, with all examples installed."""
    for name in NAMES:
        put_example(name, tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    plugins.find_plugins.cache_clear()

    folder = tmp_path / "corpus"
    for name in ("train/a.xml", "train/b.xml", "test/c.xml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(PAGE, encoding="utf-8")
    (tmp_path / "tokenizer.json").write_text(made.word_piece().json, encoding="utf-8")
    yield folder
    plugins.find_plugins.cache_clear()  # other tests do not have the examples


def words_of_build(corpus: Path, *words: str) -> list[object]:
    tokenizer = corpus.parent / "tokenizer.json"
    out = corpus.parent / "out"
    return ["build", "--input", corpus, "--tokenizer", tokenizer, "--out", out, *words]


def test_run__commands_use_a_source_a_segmenter_and_a_strategy(corpus: Path) -> None:
    stages = ["--set", "segment.use=paragraphs", "--set", "shard.input_bytes=65536"]
    built = run(*words_of_build(corpus, "--source", "auto", *stages, "--workers", "2"))
    assert built.code == 0, built.err
    assert "it is a GateDocument" in built.out + built.err

    shards = md.load(corpus.parent / "out")
    assert (len(shards["train"]), len(shards["test"])) == (4, 2)
    assert shards.labels == ("Location",)
    versions = shards.manifest.versions
    assert versions["mslm-data-gate"] == versions["mslm-data-paragraphs"] == "0.1.0"

    mask = ["--strategy", "beside", "--set", "chance=1"]
    counted = run("mask-stats", corpus.parent / "out", *mask, "--json")
    assert counted.code == 0, counted.err
    assert counted.json["strategy"] == "beside"
    assert counted.json["n_elm"] == 0
    assert counted.json["n_blm"] > 4
    assert run("inspect", corpus.parent / "out", *mask, "--rows", "1").code == 0


@pytest.mark.parametrize("name", ["gliner", "gliner2"])
def test_build__uses_the_annotator(name: str, corpus: Path) -> None:
    stages = ["--set", f"annotate.use={name}", "--set", 'annotate.prompts={"town" = "Town"}']

    built = run(*words_of_build(corpus, "--source", "gate", *stages))

    assert built.code == 1
    assert "labels" in built.err
    assert '["Town"]' in built.err


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/*.py")), ids=lambda path: path.stem)
def test_plugin__imports_public_names(path: Path) -> None:
    """Neither private names nor the tests' helpers, which whoever copies the folder does not have."""
    imports = [
        f"{node.module}.{name.name}"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    ]
    private = [name for name in imports if "._" in name or name.startswith("tests.")]

    # The room of torch says which of its names are public.
    private += [
        name
        for name in imports
        if name.startswith("mslm_data.torch.")
        and name.rpartition(".")[2] not in importlib.import_module(name.rpartition(".")[0]).__all__
    ]

    assert imports
    assert private == []


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_plugin__passes_its_own_tests(name: str, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", tmp_path, EXAMPLES / name], check=True)
    if name.startswith("gliner"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", EXAMPLES / name],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        check=False,
        text=True,
    )

    assert done.returncode == 0, done.stdout


def page_of_plugins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the code of the page as the module `of_page`, and its corpus; change to the folder."""
    code = re.findall(r"```python\n(.*?)```", PLUGINS_PAGE.read_text("utf-8"), re.DOTALL)
    (folder / "of_page.py").write_text("\n".join(code), encoding="utf-8")
    (folder / "tests" / "corpus").mkdir(parents=True)
    (folder / "tests" / "corpus" / "a.story").write_text("Ada met Ada.\n" * 9, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "of_page", raising=False)
    monkeypatch.chdir(folder)


def test_page__plugins_pass_the_tests_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page_of_plugins(tmp_path, monkeypatch)

    module = importlib.import_module("of_page")

    tests = [function for name, function in vars(module).items() if name.startswith("test_")]
    assert len(tests) == 2
    for function in tests:
        function()


def test_page__builds_with_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page_of_plugins(tmp_path, monkeypatch)
    put(tmp_path, "stories", {"mslm_data.sources": {"stories": "of_page:Stories"}})
    plugins.find_plugins.cache_clear()
    page = PLUGINS_PAGE.read_text("utf-8").replace("\\\n", "")

    done = [
        run(*command.split(), "--workers", "1")
        for command in re.findall(r"^\$ mslm-data (build .*)$", page, re.MULTILINE)
    ]

    plugins.find_plugins.cache_clear()
    assert [each.code for each in done] == [0, 0], done
    assert md.load(tmp_path / "out" / "stories").labels == ("Person",)
