"""The README and the pages of docs/ show what the program prints, and name what is there."""

from __future__ import annotations

import itertools
import re
import shlex
import tomllib
import warnings
from pathlib import Path

import click
import pytest

from mslm_data.api.loading import load
from mslm_data.cli import cli, main
from mslm_data.io.resources import pipeline_names
from mslm_data.mask import STRATEGIES, default_options
from mslm_data.mask.table import strategy
from mslm_data.pipeline import from_tables
from mslm_data.source import SOURCES
from tests.generate import fixed_examples
from tests.test_walks import WALKS

ROOT = Path(__file__).parent.parent
MANUAL = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RESULTS = sorted((ROOT / "docs" / "results").glob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), *RESULTS]
COLUMNS = 76
"""Of code in a page, so that a column of the manual holds it beside the contents of the page."""


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(language: str) -> list[tuple[str, str]]:
    """Return the code blocks of a language: the page's name, and the code."""
    return [
        (page.name, block)
        for page in MANUAL
        for block in re.findall(rf"```{language}\n(.*?)```", text_of(page), re.DOTALL)
    ]


def shown_commands() -> list[str]:
    """Return every call of `mslm-data` in the pages' console and bash blocks."""
    commands = []
    for language in ("console", "bash"):
        for _, block in blocks(language):
            joined = block.replace("\\\n", " ")
            commands += re.findall(r"^(?:\$ |exec )?(mslm-data .+)$", joined, re.MULTILINE)
    # What the shell does with the output is not the command's.
    return [re.split(r" (?:\||>|&&) ", command)[0] for command in commands]


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that a call names, and the words after its name."""
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and words:
        found = command.get_command(context, words[0])
        assert found is not None, words[0]
        command = found
        words = words[1:]
    return command, words


def test_pages__have_python() -> None:
    assert {page for page, _ in blocks("python")} >= {"README.md", "masking.md", "training.md"}


@pytest.mark.parametrize(
    "page", sorted({page for page, _ in blocks("python")} - {f"{page}.md" for page in WALKS})
)
def test_pages__python_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.torch.tiny_models import save_tiny_bert

    monkeypatch.chdir(tmp_path)
    arguments = ["build", "--source", "blurb/ncbi-disease", "--sample", "--out", "shards/ncbi"]
    assert main(arguments) == 0
    # A folder stands for what would be fetched from the hub.
    save_tiny_bert(load("shards/ncbi"), tmp_path / "bert-base-cased")

    # A page is read from its top, so a block knows the names of those before it.
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        # Such as training without dropout, or heads that see no mention.
        warnings.filterwarnings("error", message="MslmModel: ")
        for of_page, block in blocks("python"):
            if of_page == page:
                exec(compile(block, page, "exec"), names)  # noqa: S102 - the pages' own code

    assert names


def test_pages__have_one_pair_of_rates_for_joint() -> None:
    """That of the defaults, so that what a reader copies is what docs/evidence.md speaks for."""
    default = {name: default_options("joint")[name] for name in ("elm", "blm")}
    examples = sorted((ROOT / "examples").glob("*.py"))
    examples += sorted((ROOT / "tests" / "torch" / "examples").glob("*.py"))
    notebooks = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))

    pairs = []
    for page in (*MANUAL, *notebooks, *examples):
        calls = re.findall(r'strategy\(\\?"joint\\?"(?:, ([^)]*))?\)', text_of(page))
        pairs += [(page.name, eval(f"dict({options})")) for options in calls]  # noqa: S307 - as above

    assert len(pairs) > 8
    for page_name, pair in pairs:
        assert pair in ({}, default), page_name


def test_pages__toml_is_a_pipeline_or_a_strategy(tmp_path: Path) -> None:
    tables = [block for _, block in blocks("toml")]
    pipelines = [block for block in tables if "[source]" in block]
    masks = [block for block in tables if "[mask]" in block]
    assert pipelines
    assert masks
    assert len(pipelines) + len(masks) == len(tables)

    for block in pipelines:
        assert SOURCES.load(from_tables(tomllib.loads(block), name="page").source.use)
    for block in masks:
        (tmp_path / "mine.toml").write_text(block, encoding="utf-8")
        made = strategy(str(tmp_path / "mine.toml"))

        assert made.plan(fixed_examples(), epoch=3).counts() > (0, 0)


def test_pages__code_fits_its_column() -> None:
    """Comments stand above a line that they would make too wide; output is as wide as it is."""
    code = [(page, line) for kind in ("python", "toml", "bash") for page, line in lines_of(kind)]
    code += [(page, line) for page, line in lines_of("console") if line.startswith("$ ")]

    assert len(code) > 500
    wide = [(page, line) for page, line in code if len(line) > COLUMNS and page != "README.md"]
    assert wide == []


def lines_of(language: str) -> list[tuple[str, str]]:
    """Return the lines of the code blocks of a language: the page's name, and the line."""
    return [(page, line) for page, block in blocks(language) for line in block.split("\n")]


@pytest.mark.parametrize("shown", shown_commands())
def test_pages__commands_and_their_options_are_there(shown: str) -> None:
    command, words = command_of(shlex.split(shown, comments=True)[1:])
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}

    assert {word for word in words if word.startswith("-") and word != "-"} <= known
    for option, value in itertools.pairwise(words):
        if option == "--strategy" and ":" not in value:
            assert STRATEGIES.resolve(value)


def test_readme__names_every_strategy() -> None:
    readme = text_of(ROOT / "README.md")

    for name in STRATEGIES.names():
        assert f"`{name.rsplit('.v', 1)[0]}`" in readme, name


def test_building__names_every_pipeline_and_source() -> None:
    page = text_of(ROOT / "docs" / "building.md")

    for name in (*pipeline_names(), *SOURCES.names()):
        assert f"`{name.split('/')[-1]}`" in page, name


def test_building__weighs_every_extra() -> None:
    project = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]
    page = text_of(ROOT / "docs" / "building.md")

    for extra in set(project["optional-dependencies"]) - {"test", "docs", "fuzz", "bench"}:
        assert re.search(rf"^\| `{extra}` \| [\d,]+ \|", page, re.MULTILINE), extra
    assert "pytorch.org/get-started" in page


def test_readme__links_every_page_of_docs() -> None:
    linked = set(re.findall(r"\]\(docs/([\w.-]+)", text_of(ROOT / "README.md")))

    # index.md is the manual's own.
    missing = {page.name for page in (ROOT / "docs").glob("*.md")} - linked - {"index.md"}

    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages__link_to_files_that_are_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", text_of(page))

    for link in links:
        # References are made from the code where the manual is built, which checks links to them.
        if not link.startswith(("http:", "https:", "#", "reference/")):
            assert (page.parent / link.split("#")[0]).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages__name_files_that_are_there(page: Path) -> None:
    named = re.findall(r"`([\w.-]+/[\w/.-]+\.\w+)`", text_of(page))
    folders = (ROOT, ROOT / "mslm_data")
    suffixes = (".py", ".toml", ".json", ".md")

    for name in named:
        if name.endswith(suffixes):
            assert any((folder / name).is_file() for folder in folders), name
