"""What `mslm-data recipes` prints can be read again, and is complete."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

import mslm_data as md
from mslm_data.annotate import ANNOTATORS
from mslm_data.api.building import read_named
from mslm_data.io import resources
from mslm_data.registry import Registry, from_options, list_options
from mslm_data.segment import SEGMENTERS
from mslm_data.source import SOURCES
from tests.cli.running import run


def with_defaults(text: str) -> str:
    """Return a printed table with its commented options, which have the default values."""
    return re.sub(r"(?m)^# (\w+ = \S.*)$", r"\1", text)


# Pipelines ----------------------------------------------------------------------------------------


def test_recipes__lists_and_prints_pipelines() -> None:
    file = resources.path("pipelines", "blurb/bc2gm.toml")

    assert run("recipes").out.split() == resources.pipeline_names()
    assert run("recipes", "blurb/bc2gm").out == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", resources.pipeline_names())
def test_recipes__commands_of_a_pipeline_list_their_requirements(name: str) -> None:
    lines = run("recipes", name).out.splitlines()

    commands = [line for line in lines if line.startswith("#     mslm-data build")]
    assert commands
    assert all("--tokenizer " in command or "--sample " in command for command in commands)


# Sources, annotators and segmenters ---------------------------------------------------------------


@pytest.mark.parametrize("name", SOURCES.names())
def test_recipes__prints_a_source_as_a_pipeline_file(name: str, tmp_path: Path) -> None:
    text = run("recipes", "--sources", name).out
    options = run("recipes", "--sources", name, "--json").json["options"]
    file = tmp_path / f"{name}.toml"

    file.write_text(text, encoding="utf-8")
    given = read_named(name)
    assert read_named(file) == given

    # The same pipeline with the commented options at their defaults.
    file.write_text(with_defaults(text), encoding="utf-8")
    pipeline = read_named(file)
    with_options = pipeline.source
    shared = {"max_loss", "duplicates", "duplicate_similarity", "decontaminate", "on_crash"}
    assert msgspec.structs.replace(pipeline, source=given.source) == given
    is_set = {option for option, about in options.items() if about["default"] is not None}
    assert {*with_options.options, *shared} == is_set
    assert from_options(SOURCES.load(name), with_options.options, where="") == SOURCES.load(name)()


SHARED = {"labels", "rename", "context", "leave_out_context", "min_term_share"}


@pytest.mark.parametrize(
    ("option", "registry"),
    [("--sources", SOURCES), ("--annotators", ANNOTATORS), ("--segmenters", SEGMENTERS)],
)
def test_recipes__lists_all_names_of_a_registry(option: str, registry: Registry) -> None:
    listed = run("recipes", option).out.splitlines()[1:]

    assert [line.split()[0] for line in listed] == registry.names()


@pytest.mark.parametrize(
    ("option", "stage", "registry", "shared"),
    [
        ("--annotators", "annotate", ANNOTATORS, SHARED),
        ("--segmenters", "segment", SEGMENTERS, set()),
    ],
)
def test_recipes__prints_annotators_and_segmenters_as_tables(
    option: str, stage: str, registry: Registry, shared: set[str]
) -> None:
    for name in registry.names():
        text = run("recipes", option, name).out
        about = run("recipes", option, name, "--json").json
        declared = {option.name: option.default for option in list_options(registry.load(name))}

        set_by_default = {option for option, default in declared.items() if default is not None}
        assert tomllib.loads(text) == {stage: {"use": name}}
        table = tomllib.loads(with_defaults(text))[stage]
        assert table.keys() == {"use", *set_by_default, *shared}
        assert about[registry.kind] == name
        assert about["options"].keys() == {*declared, *shared}
        assert all(described["help"] for described in about["options"].values())
        assert registry.load(name).__doc__.partition("\n")[0] in about["text"]


# Strategies ---------------------------------------------------------------------------------------


def test_recipes__lists_strategies_with_their_papers() -> None:
    lines = run("recipes", "--strategies").out.splitlines()

    for name, summary in md.strategies().items():
        (line,) = [line for line in lines if line.split()[0] == name]
        assert all(part in line for part in summary)


@pytest.mark.parametrize("name", md.strategies())
def test_recipes__prints_a_strategy_as_a_file(name: str, tmp_path: Path) -> None:
    file = tmp_path / "mask.toml"

    text = run("recipes", "--strategies", name).out
    file.write_text(text, encoding="utf-8")

    toml = run("recipes", "--strategies", name, "--json").json["toml"]
    assert text.startswith(f"# {name}: ")
    assert "<factory>" not in text
    assert repr(md.strategy(str(file))) == toml


def test_recipes__comments_give_the_strategy_by_name() -> None:
    text = run("recipes", "--strategies", "selective").out

    commented = text.partition("# [mask]\n")[2].partition("#\n")[0]
    lines = [line.removeprefix("# ") for line in commented.splitlines()]
    table = tomllib.loads("\n".join(lines))
    assert table.pop("use") == "selective.v1"
    assert repr(md.strategy("selective", **table)) == repr(md.strategy("selective"))
