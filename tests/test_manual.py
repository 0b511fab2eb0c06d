"""The manual: its build, its references, and its layout in a browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from mslm_data.annotate import ANNOTATORS
from mslm_data.cli import COMMANDS
from mslm_data.errors import MslmDataError
from mslm_data.mask.table import STRATEGIES
from mslm_data.source import SOURCES
from tests.support.browser import needs_chromium, seen_on

pytest.importorskip("sphinx")

pytestmark = pytest.mark.long
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the manual like `make docs`, with warnings as errors.

    Packages outside the extra `docs` cannot be imported.
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
    """Return the packages of the extra `all` that the extra `docs` lacks."""
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
    folders = (docs, docs / "questions", docs / "results")
    for page in (page for folder in folders for page in folder.glob("*.md")):
        assert (manual / page.relative_to(docs).with_suffix(".html")).is_file(), page.name
    assert (manual / "searchindex.js").is_file()


def test_manual__index_has_a_line_for_each_page(manual: Path) -> None:
    listed: list[str] = []
    for page in ("index", "speed"):
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        listed += re.findall(r"^\* \[[^\]]+\]\(([\w/-]+)\.md\): \S", text, re.MULTILINE)

    pages = {page.removesuffix(".html") for page in pages_of(manual)}
    assert sorted(listed) == sorted(pages - {"index"})


def test_manual__has_the_pictures_it_shows(manual: Path) -> None:
    shown = {
        page: re.findall(r'<img [^>]*src="([^"]+)"', (manual / page).read_text(encoding="utf-8"))
        for page in pages_of(manual)
    }
    drawn = (ROOT / "experiments" / "figures").glob("*.svg")

    assert len(shown["results/evidence.html"]) == len(list(drawn))
    for page, sources in shown.items():
        for source in sources:
            assert (manual / page).parent.joinpath(source).is_file(), (page, source)


def test_not_for_docs__lists_packages_of_other_extras() -> None:
    assert {"datasets", "medcat", "ray", "spacy", "wordfreq"} <= set(not_for_docs())
    assert not {"torch", "transformers", "sphinx"} & set(not_for_docs())


def test_manual__lists_every_registered_name(manual: Path) -> None:
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


def test_manual__shows_examples_of_commands_unchanged(manual: Path) -> None:
    page = text_of(manual, "reference/commands")

    assert page.count("highlight-console") >= len(COMMANDS)
    assert not re.findall(r".{20}\N{EN DASH}[a-z]+", page)


def test_manual__draws_a_sentence_under_every_strategy(manual: Path) -> None:
    text = text_of(manual, "reference/strategies")

    assert text.count('<div class="mslm drawn">') == len(STRATEGIES.names())
    assert "needs more than its name: pmi.arrow: expected a lexicon" in text
    assert text.count("As a file, to change") == len(STRATEGIES.names())
    assert tempfile.gettempdir() not in text


def test_manual__loads_nothing_from_other_hosts(manual: Path) -> None:
    for page in manual.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert 'src="http' not in text, page.name
        assert "@import" not in text, page.name


def test_manual__has_the_advice_of_each_error(manual: Path) -> None:
    page = text_of(manual, "reference/errors")

    for kind in (MslmDataError, *MslmDataError.__subclasses__()):
        section = page.partition(f'id="mslm_data.errors.{kind.__name__}"')[2].partition("</dd>")[0]
        assert section.count("<p>") >= 2, kind.__name__


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


def test_ran__returns_printed_text_and_the_last_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    from _site.notebooks import run_cell

    names: dict[str, object] = {"x": 2}

    assert run_cell("print(x)\ny = x + 1\ny", names) == ("2\n", 3)
    assert run_cell("y += 1", names) == ("", None)
    assert names["y"] == 4


# In a browser ----------------------------------------------------------------------------------------


WIDE = """
const column = document.querySelector("article");
const right = column.getBoundingClientRect().right + 1;
const scrolls = (node) => /auto|scroll/.test(window.getComputedStyle(node).overflowX);
const found = [];
const name = (node) => node.tagName.toLowerCase() + ": " + node.textContent.trim().slice(0, 40);

for (const node of column.querySelectorAll("pre, table, svg, img, .mslm, p, li, dl")) {
  if (node.checkVisibility && !node.checkVisibility()) continue;
  let outer = node.parentElement;
  while (outer !== column && !scrolls(outer)) outer = outer.parentElement;
  if (outer === column && node.getBoundingClientRect().right > right) {
    found.push("beyond its column, " + name(node));
  }
  const hides = node.scrollWidth > node.clientWidth + 1;
  if (hides && node.clientWidth && window.getComputedStyle(node).overflowX === "hidden") {
    found.push("cut, " + name(node));
  }
  if (/PRE|TABLE/.test(node.tagName) && hides && window.innerWidth >= 1200) {
    found.push("wider than its column, " + name(node));
  }
}
const page = document.documentElement;
if (page.scrollWidth > window.innerWidth) found.push("the page itself is moved sideways");
return found;
"""
"""Elements wider than their column that cannot be scrolled; on a desktop, also scrollable elements.
"""

CODE = """
const code = document.createElement("div");
code.className = "highlight-python notranslate";
code.innerHTML = "<div class=highlight><pre style='white-space: pre'></pre></div>";
code.querySelector("pre").textContent = "x".repeat(300);
document.querySelector("article").append(code);
document.querySelector("article").insertAdjacentHTML("beforeend", "<p style='width: 3000px'>wide");
"""


def pages_of(manual: Path) -> list[str]:
    """Return the paths of the pages with a text."""
    made = {"genindex.html", "py-modindex.html", "search.html"}
    pages = {path.relative_to(manual).as_posix() for path in manual.rglob("*.html")}
    return sorted(pages - made)


@needs_chromium
@pytest.mark.parametrize("width", [420, 1_280])
def test_manual__truncates_nothing(manual: Path, width: int) -> None:
    found = seen_on(manual, pages_of(manual), look=WIDE, width=width)

    assert len(found) > 40
    assert {page: wide for page, wide in found.items() if wide} == {}


@needs_chromium
@pytest.mark.parametrize(("width", "seen"), [(420, ["beyond"]), (1_280, ["beyond", "wider"])])
def test_wide__finds_truncated_code_and_text(manual: Path, width: int, seen: list[str]) -> None:
    (found,) = seen_on(manual, ["masking.html"], look=CODE + WIDE, width=width).values()

    assert sorted({line.split()[0] for line in found} - {"the"}) == seen
