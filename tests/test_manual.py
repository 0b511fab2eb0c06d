"""The manual: it is built whole, and its references are those of the code."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from mslm_data.annotate import ANNOTATORS
from mslm_data.cli import COMMANDS
from mslm_data.errors import MslmDataError
from mslm_data.mask.table import STRATEGIES
from mslm_data.source import SOURCES

pytest.importorskip("sphinx")

pytestmark = pytest.mark.long
ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mslm_data"


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the manual as `make docs` does, where a warning is an error.

    What that does not install cannot be imported here either.
    """
    out = tmp_path_factory.mktemp("manual")
    options = ["--fail-on-warning", "--keep-going", "--quiet", "-b", "html"]
    begin = f"import sys; sys.modules.update(dict.fromkeys({not_for_docs()}))"
    build = "from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", f"{begin}; {build}", *options, "docs", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    return out


def not_for_docs() -> list[str]:
    """Return the packages that the extra `all` brings, and the extra `docs` does not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]

    def brought(extra: str) -> set[str]:
        names: set[str] = set()
        for requirement in map(Requirement, extras[extra]):
            more = requirement.extras if requirement.name == project["name"] else ()
            names = names.union({requirement.name} if not more else (), *map(brought, more))
        return names

    return sorted(brought("all") - brought("docs"))


def text_of(manual: Path, page: str) -> str:
    return (manual / f"{page}.html").read_text(encoding="utf-8")


def test_manual__has_a_page_for_each_file_of_docs(manual: Path) -> None:
    docs = ROOT / "docs"
    for page in (*docs.glob("*.md"), *(docs / "results").glob("*.md")):
        assert (manual / page.relative_to(docs).with_suffix(".html")).is_file(), page.name
    assert (manual / "searchindex.js").is_file()


def test_not_for_docs__are_packages_of_other_extras() -> None:
    assert {"datasets", "medcat", "ray", "spacy", "wordfreq"} <= set(not_for_docs())
    assert not {"torch", "transformers", "sphinx"} & set(not_for_docs())


def test_manual__refers_to_everything_that_can_be_named(manual: Path) -> None:
    strategies = text_of(manual, "reference/strategies")
    for name in STRATEGIES.names():
        assert f'id="strategy-{name.rsplit(".v", 1)[0]}"' in strategies, name
    for page, names in (
        ("commands", COMMANDS),
        ("sources", SOURCES.names()),
        ("annotators", ANNOTATORS.names()),
    ):
        text = text_of(manual, f"reference/{page}")
        for name in names:
            assert f'id="{name}"' in text or f'id="mslm-data-{name}"' in text, name


def test_manual__shows_examples_of_commands_as_they_are_typed(manual: Path) -> None:
    page = text_of(manual, "reference/commands")

    assert page.count("highlight-console") >= len(COMMANDS)
    assert not re.findall(r".{20}\N{EN DASH}[a-z]+", page)


def test_manual__draws_a_sentence_under_every_strategy(manual: Path) -> None:
    text = text_of(manual, "reference/strategies")

    # Two lines each, and all that stand side by side.
    assert text.count('<div class="mslm drawn">') == len(STRATEGIES.names())
    assert text.count('<div class="mslm beside">') == 1
    assert "needs more than its name: pmi.arrow: expected a lexicon" in text
    assert text.count("As a file, to change") == len(STRATEGIES.names())
    assert tempfile.gettempdir() not in text


def test_manual__loads_nothing_from_elsewhere(manual: Path) -> None:
    for page in manual.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert 'src="http' not in text, page.name
        assert "@import" not in text, page.name


def test_manual__shows_a_message_of_each_error(manual: Path) -> None:
    page = text_of(manual, "reference/errors")
    kinds = [kind.__name__ for kind in MslmDataError.__subclasses__()]

    for name in kinds:
        section = page.partition(f'<section id="{name.lower()}"')[2].partition("</section>")[0]
        assert "mslm-data" in section, name
        assert "rror: " in section, name


def test_manual__lists_the_warnings_of_every_module_that_warns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    from _site.errors import WARNINGS

    warn = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if any(map(warns, ast.walk(ast.parse(path.read_text(encoding="utf-8")))))
    }

    assert warn - {"cli/process.py"} == set(WARNINGS)


def warns(node: ast.AST) -> bool:
    """Return whether a piece of code warns: by the logger, by Python, or by a line on stderr."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("warning", "warn")
    return isinstance(node, ast.Constant) and str(node.value).startswith("warning: ")


def test_manual__draws_a_bar_for_each_benchmark_with_a_peer(manual: Path) -> None:
    text = text_of(manual, "results/speed")

    assert text.count('<div class="rate">') > 30
    for name in ("build, one process", "packing"):
        assert f"<span>{name}</span>" in text


def test_manual__runs_every_notebook(manual: Path) -> None:
    notebooks = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
    assert notebooks

    for notebook in notebooks:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        assert not any(cell.get("outputs") for cell in cells), f"{notebook.name}: has outputs"
        page = text_of(manual, f"reference/notebook-{notebook.stem.replace('_', '-')}")
        assert 'class="shown"' in page, notebook.name
        assert f"/{notebook.name}" in page

    assert "cisplatin" in text_of(manual, "reference/notebook-tagger").rpartition("<pre>")[2]


def test_ran__shows_what_is_printed_and_the_last_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    from _site.notebooks import ran

    names: dict[str, object] = {"x": 2}

    assert ran("print(x)\ny = x + 1\ny", names) == ("2\n", 3)
    assert ran("y += 1", names) == ("", None)
    assert names["y"] == 4


def test_compatibility__names_the_pythons_of_the_classifiers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    from _site.compatibility import LOWEST, PYTHONS, SHOWN, pinned

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    pins = pinned((ROOT / "tools" / "constraints.txt").read_text(encoding="utf-8"))

    assert list(PYTHONS) == claimed
    assert all(f"{python}.9" in SpecifierSet(project["requires-python"]) for python in PYTHONS)
    wanted = [Requirement(one) for one in project["dependencies"]]
    wanted += [
        Requirement(one) for extra in project["optional-dependencies"].values() for one in extra
    ]
    for one in wanted:
        for versions in (LOWEST, pins):
            if one.name in SHOWN and one.name in versions:
                assert versions[one.name] in one.specifier, one
