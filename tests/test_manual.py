"""The manual: its build, its references, and its layout in a browser."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from mslm_data.annotate import ANNOTATORS
from mslm_data.cli import COMMANDS
from mslm_data.errors import MslmDataError
from mslm_data.mask.table import STRATEGIES
from mslm_data.source import SOURCES
from tests.support.browser import needs_chromium, seen_on

pytest.importorskip("sphinx")

pytestmark = pytest.mark.long
ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mslm_data"


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
    for page in (*docs.glob("*.md"), *(docs / "results").glob("*.md")):
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

    assert len(shown["evidence.html"]) == len(list(drawn))
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

    # Two lines per strategy, and the lines of the side-by-side view.
    assert text.count('<div class="mslm drawn">') == len(STRATEGIES.names())
    assert text.count('<div class="mslm beside">') == 1
    assert "needs more than its name: pmi.arrow: expected a lexicon" in text
    assert text.count("As a file, to change") == len(STRATEGIES.names())
    assert tempfile.gettempdir() not in text


def test_manual__loads_nothing_from_other_hosts(manual: Path) -> None:
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


def test_manual__lists_the_warnings_of_every_module_with_warnings(
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
    """Whether code warns by the logger, by Python's warnings or by a line on stderr."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("warning", "warn")
    return isinstance(node, ast.Constant) and str(node.value).startswith("warning: ")


def test_manual__draws_a_bar_for_each_benchmark_with_a_peer(manual: Path) -> None:
    text = text_of(manual, "results/speed")

    assert text.count('<div class="rate">') > 30
    for name in ("build, one process", "mask a corpus: joint"):
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


def test_ran__returns_printed_text_and_the_last_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    from _site.notebooks import run_cell

    names: dict[str, object] = {"x": 2}

    assert run_cell("print(x)\ny = x + 1\ny", names) == ("2\n", 3)
    assert run_cell("y += 1", names) == ("", None)
    assert names["y"] == 4


def test_compatibility__names_the_python_versions_of_the_classifiers(
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

HAS_RESULT = 'document.querySelector("#search-results li a")'
FIRST_RESULT = f'return {HAS_RESULT}.getAttribute("href");'
CONTENTS = """
const list = document.querySelector(".toc-drawer");
const box = list && list.getBoundingClientRect();
return box !== null && box.width > 0 && box.left >= 0 && box.right <= window.innerWidth;
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
@pytest.mark.parametrize("width", [420, 768, 1_000, 1_280, 1_600])
def test_manual__truncates_nothing(manual: Path, width: int) -> None:
    found = seen_on(manual, pages_of(manual), look=WIDE, width=width)

    assert len(found) > 50
    assert {page: wide for page, wide in found.items() if wide} == {}


@needs_chromium
@pytest.mark.parametrize(("width", "seen"), [(420, ["beyond"]), (1_280, ["beyond", "wider"])])
def test_wide__finds_truncated_code_and_text(manual: Path, width: int, seen: list[str]) -> None:
    (found,) = seen_on(manual, ["weights.html"], look=CODE + WIDE, width=width).values()

    assert sorted({line.split()[0] for line in found} - {"the"}) == seen


@needs_chromium
def test_manual__has_contents_beside_the_page_on_a_laptop(manual: Path) -> None:
    for width, is_seen in ((1_000, False), (1_280, True), (1_600, True)):
        assert seen_on(manual, ["building.html"], look=CONTENTS, width=width) == {
            "building.html": is_seen
        }


@needs_chromium
def test_manual__search_finds_the_page_of_a_topic(manual: Path) -> None:
    wanted = {
        "own strategy": "own_strategy.html",
        "few-shot": "training.html",
        "Trainer": "training.html",
        "entry point": "plugins.html",
        "mix": "mixes.html",
        "flat rows": "batches.html",
        "annotate": "annotating.html",
        "export": "exporting.html",
        "perplexity": "evaluating.html",
        "weights": "weights.html",
    }
    queries = [f"search.html?q={quote_plus(words)}" for words in wanted]

    found = seen_on(manual, queries, look=FIRST_RESULT, width=1_280, until=HAS_RESULT)

    first = {words: found[query] for words, query in zip(wanted, queries, strict=True)}
    assert {
        words: page for words, page in first.items() if not page.startswith(wanted[words])
    } == {}
