"""What is copied from the page: it gives the numbers of the page."""

from __future__ import annotations

import html
import re
import shlex
from pathlib import Path

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
    cells = [cell["point"].whole for line in table["lines"] for cell in line]
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


def test_again__is_the_view_before(chem: Shards) -> None:
    corpus = Corpus(chem, live=True)

    render_view("batches", corpus, State(view="batches"), live=True)
    for _ in range(2):
        words = shlex.split(taken(corpus, State(view="take"), live=True)["again"])
        assert words[-1].startswith("batches?")

    # A file does not know which of its views was read.
    assert shlex.split(taken(Corpus(chem), State(view="rates"))["again"])[-1].startswith("rates?")
