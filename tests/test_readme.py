"""The README and the pages of docs/, compared with the program."""

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
from mslm_data.mask.table import STRATEGIES, default_options, strategy
from mslm_data.pipeline import read
from mslm_data.source import SOURCES
from tests.generate import fixed_examples
from tests.test_walks import WALKS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
QUESTIONS = sorted((DOCS / "questions").glob("*.md"))
MANUAL = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *QUESTIONS]
PAGES = [*sorted(ROOT.glob("*.md")), *MANUAL[1:], *sorted((DOCS / "results").glob("*.md"))]
COLUMNS = 76
"""Maximum width of code on a page, as the manual shows the contents beside it."""
ELSEWHERE = {"annotators.md"}
"""Pages whose Python is run by other tests: annotate/test_medcat.py."""


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(language: str) -> list[tuple[str, str]]:
    """Yield the page, relative to docs/, and the text of each code block of a language."""
    return [
        (str(page.relative_to(DOCS)) if page.is_relative_to(DOCS) else page.name, block)
        for page in MANUAL
        for block in re.findall(rf"```{language}\n(.*?)```", text_of(page), re.DOTALL)
    ]


def shown_commands() -> list[str]:
    """Return all `mslm-data` calls in the console and bash blocks of the pages."""
    commands = []
    for language in ("console", "bash"):
        for _, block in blocks(language):
            joined = block.replace("\\\n", " ")
            commands += re.findall(r"^(?:\$ |exec )?(mslm-data .+)$", joined, re.MULTILINE)
    # The shell handles redirections and pipes.
    return [re.split(r" (?:\||>|&&) ", command)[0] for command in commands]


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command of a call, and the arguments after it."""
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and words:
        found = command.get_command(context, words[0])
        assert found is not None, words[0]
        command = found
        words = words[1:]
    return command, words


def test_pages__contain_python() -> None:
    assert {page for page, _ in blocks("python")} >= {"README.md", "masking.md", "training.md"}


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with the corpus and the model that pages use."""
    from tests.torch.tiny_models import save_tiny_bert

    monkeypatch.chdir(tmp_path)
    arguments = ["build", "--source", "blurb/ncbi-disease", "--sample", "--out", "shards/ncbi"]
    assert main(arguments) == 0
    # A local folder replaces downloads from the hub.
    save_tiny_bert(load("shards/ncbi"), tmp_path / "bert-base-cased")


def run_python(page: str) -> dict[str, object]:
    """Run the blocks of a page, which share their names, and return these."""
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        # Such as training without dropout, or heads without mentions.
        warnings.filterwarnings("error", message="MslmModel: ")
        for of_page, block in blocks("python"):
            if of_page == page:
                exec(compile(block, page, "exec"), names)  # noqa: S102 - the pages' own code
    return names


@pytest.mark.usefixtures("corpus")
@pytest.mark.parametrize(
    "page",
    sorted(
        {page for page, _ in blocks("python")}
        - {f"{page}.md" for page in WALKS}
        - ELSEWHERE
        - {"README.md"}
    ),
)
def test_pages__python_runs(page: str) -> None:
    assert run_python(page)


@pytest.mark.usefixtures("corpus")
def test_readme__saves_a_model_with_its_tokenizer() -> None:
    """Without the tokenizer's files, AutoTokenizer gives [UNK] for every word, and no error."""
    from transformers import AutoModel, AutoTokenizer

    Path("shards/ncbi").rename("shards/mine")

    run_python("README.md")

    saved = AutoTokenizer.from_pretrained("models/mine")
    assert saved.get_vocab() == AutoTokenizer.from_pretrained("shards/mine").get_vocab()
    assert saved.mask_token == "[MASK]"
    assert AutoModel.from_pretrained("models/mine").config.vocab_size == len(saved)


def test_pages__use_the_default_rates_of_joint() -> None:
    """Readers copy the rates, and docs/evidence.md evaluates the defaults."""
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
        assert SOURCES.load(read({"name": "page", **tomllib.loads(block)}).source.use)
    for block in masks:
        (tmp_path / "mine.toml").write_text(block, encoding="utf-8")
        made = strategy(str(tmp_path / "mine.toml"))

        assert made.plan(fixed_examples(), epoch=3).counts() > (0, 0)


def test_pages__code_fits_the_maximum_width() -> None:
    """Comments stand above long lines; output may have any width."""
    code = [(page, line) for kind in ("python", "toml", "bash") for page, line in lines_of(kind)]
    code += [(page, line) for page, line in lines_of("console") if line.startswith("$ ")]

    assert len(code) > 500
    wide = [(page, line) for page, line in code if len(line) > COLUMNS and page != "README.md"]
    assert wide == []


def lines_of(language: str) -> list[tuple[str, str]]:
    """Yield the page name and the text of each line of code in a language."""
    return [(page, line) for page, block in blocks(language) for line in block.split("\n")]


@pytest.mark.parametrize("shown", shown_commands())
def test_pages__use_existing_commands_and_options(shown: str) -> None:
    command, words = command_of(shlex.split(shown, comments=True)[1:])
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}

    assert {word for word in words if word.startswith("-") and word != "-"} <= known
    for option, value in itertools.pairwise(words):
        if option == "--strategy" and ":" not in value:
            assert STRATEGIES.resolve(value)


def test_building__lists_every_pipeline_and_source() -> None:
    page = text_of(ROOT / "docs" / "building.md")

    for name in (*pipeline_names(), *SOURCES.names()):
        assert f"`{name.split('/')[-1]}`" in page, name


def test_building__states_the_size_of_every_extra() -> None:
    project = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]
    page = text_of(ROOT / "docs" / "building.md")

    for extra in set(project["optional-dependencies"]) - {"test", "docs", "fuzz", "bench"}:
        assert re.search(rf"^\| `{extra}` \| [\d,]+ \|", page, re.MULTILINE), extra
    assert "pytorch.org/get-started" in page


def test_index__links_every_page_of_docs() -> None:
    pages = {str(page.relative_to(DOCS)) for page in MANUAL[1:]} - {"index.md"}

    assert pages <= set(re.findall(r"\]\(([\w./-]+)\)", text_of(DOCS / "index.md")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages__links_lead_to_existing_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", text_of(page))

    for link in links:
        # References are generated with the manual, which checks links to them.
        if not link.startswith(("http:", "https:", "#", "reference/")):
            assert (page.parent / link.split("#")[0]).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages__name_existing_files(page: Path) -> None:
    named = re.findall(r"`([\w.-]+/[\w/.-]+\.\w+)`", text_of(page))
    folders = (ROOT, ROOT / "mslm_data")
    suffixes = (".py", ".toml", ".json", ".md")

    for name in named:
        if name.endswith(suffixes):
            assert any((folder / name).is_file() for folder in folders), name
