"""What is copied from the page: it gives the numbers of the page."""

from __future__ import annotations

import html
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

import mslm_data as md
from mslm_data.api.loading import Shards
from mslm_data.look.corpus import Corpus
from mslm_data.look.render import render_view
from mslm_data.look.state import Choice, State
from mslm_data.look.views import rates
from tests.cli.running import run


def taken(corpus: Corpus, state: State, *, live: bool = False) -> dict[str, str]:
    """Return the texts to copy, by the id of their field."""
    page = str(render_view("take", corpus, state, live=live)[0])
    fields = re.findall(r'<textarea id="(\w+)".*?>(.*?)</textarea>', page, re.DOTALL)
    return {name: html.unescape(text) for name, text in fields}


def test_sweep__gives_the_cells_of_the_rates(chem: Shards) -> None:
    choices = (Choice("joint", {"elm": "0.3", "pool": "generic_only"}), Choice("span"))
    state = State(strategies=choices, split="test", seed=4)
    corpus = Corpus(chem)

    texts = taken(corpus, state)
    words = shlex.split(texts["sweep1"])
    points = run(*words[1:], "--json").json["sweep"]

    (table,) = rates.context(corpus, state)["tables"]
    cells = [cell["point"].stats for line in table["lines"] for cell in line]
    assert [(point["n_elm"], point["n_blm"]) for point in points] == [
        (cell.n_elm, cell.n_blm) for cell in cells
    ]
    assert "sweep2" not in texts


@pytest.mark.parametrize(
    ("choice", "lines"),
    [
        (Choice("joint"), ["elm = 0.5", "blm = 0.15"]),
        (Choice("joint-paper", {"elm": "0.75"}), ["elm = 0.75", "blm = 0.075"]),
        (Choice("joint", {"pool": "generic_only"}), ["elm = 0.5", 'pool = "generic_only"']),
        (Choice("blm"), ["blm = 0.15"]),
        (Choice("span"), ['use = "span"']),
    ],
)
def test_toml__has_the_rates_at_their_defaults_too(
    chem: Shards, tmp_path: Path, choice: Choice, lines: list[str]
) -> None:
    text = taken(Corpus(chem), State(strategies=(choice,)))["toml1"]

    assert set(lines) <= set(text.splitlines())
    (tmp_path / "own.toml").write_text(text + "\n")
    options = {
        name: value if name == "pool" else float(value) for name, value in choice.options.items()
    }
    assert md.strategy(tmp_path / "own.toml").origin == md.strategy(choice.name, **options).origin


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with strategies of the user's own."""
    (tmp_path / "mine.toml").write_text('[mask]\nuse = "joint"\nblm = 0.2\n', encoding="utf-8")
    (tmp_path / "own_code.py").write_text(
        "import mslm_data as md\n"
        "def make(elm=0.5):\n"
        "    return md.strategy('picks', picks=[{'units': 'mentions', 'budget': {'rate': elm}}])\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_code", raising=False)
    return tmp_path


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", ["mine.toml", "own_code:make"])
def test_texts__have_the_options_of_the_command(chem: Shards, name: str) -> None:
    words = ("--strategy", "span", "--strategy", name, "--set", f"{name}.elm=0.9", "--out")
    run("look", chem.folder, *words, "first.html")
    page = html.unescape(Path("first.html").read_text(encoding="utf-8"))
    texts = dict(re.findall(r'<textarea id="(\w+)".*?>(.*?)</textarea>', page, re.DOTALL))

    counts = run(*shlex.split(texts["command2"])[1:], "--json").json
    scope: dict[str, Any] = {}
    exec(texts["python2"], scope)  # noqa: S102 - our own code
    again = run(*shlex.split(texts["again"])[1:], "--out", "again.html")

    whole = run("mask-stats", chem.folder, "--strategy", name, "--set", "elm=0.9", "--json").json
    default = run("mask-stats", chem.folder, "--strategy", name, "--json").json
    assert counts["digest"] == whole["digest"] != default["digest"]
    assert scope["plan"].counts() == (whole["n_elm"], whole["n_blm"])
    assert again.code == 0, again.err
    assert html.unescape(Path("again.html").read_text(encoding="utf-8")) == page


def test_again__is_the_view_before(chem: Shards) -> None:
    corpus = Corpus(chem, live=True)

    render_view("batches", corpus, State(view="batches"), live=True)
    for _ in range(2):
        words = shlex.split(taken(corpus, State(view="take"), live=True)["again"])
        assert words[-1].startswith("batches?")

    # A file does not know which of its views was read.
    assert shlex.split(taken(Corpus(chem), State(view="rates"))["again"])[-1].startswith("rates?")
