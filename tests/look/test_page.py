"""The page as a file: complete, self-contained and deterministic."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest

from mslm_data.api.loading import Shards
from mslm_data.look.corpus import Corpus
from mslm_data.look.page import draw_page
from mslm_data.look.render import mark_code
from mslm_data.look.state import Choice, State
from mslm_data.look.views import VIEWS
from mslm_data.stats import mask_stats
from tests.cli.running import run

STATE = State(strategies=(Choice("joint"), Choice("span")))


@pytest.mark.parametrize("folder", ["chem", "evil", "notes"])
def test_page__is_self_contained_and_has_no_script(
    folder: str, request: pytest.FixtureRequest
) -> None:
    html = draw_page(Corpus(request.getfixturevalue(folder)), STATE)

    assert not re.search(r"<(script|link|img|iframe|form|base)\b", html)
    assert not re.search(r"<[^>]*\s(src|action|on\w+|style)=", html)
    assert all(target.startswith("#") for target in re.findall(r'href="([^"]*)"', html))
    style = re.search("<style>(.*?)</style>", html, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in html
    assert not re.search(r"url\(|@import|https?:", style[1])


def test_page__shows_the_counts_of_mask_stats(chem: Shards) -> None:
    html = draw_page(Corpus(chem), STATE)
    train = chem["train"]

    for name in ("joint", "span"):
        stats = mask_stats(train.chunks, chem.strategy(name), labels=chem.labels)
        of_strategy = html.partition(f'<tr data-strategy="{name}">')[2].partition("</tr>")[0]
        counts = dict(re.findall(r'data-count="(\w+)">([^<]*)<', of_strategy))
        assert counts["n_elm"] == f"{stats.n_elm:,}"
        assert counts["n_blm"] == f"{stats.n_blm:,}"
        assert counts["w_elm"] == f"{stats.weights.w_elm:.4f}"


def test_page__is_deterministic(chem: Shards) -> None:
    first, second = (draw_page(Corpus(chem), STATE) for _ in range(2))

    assert first == second


def test_page__says_what_it_was_made_from(chem: Shards) -> None:
    choices = (Choice("joint", {"elm": "0.3"}), Choice("span"))
    html = draw_page(Corpus(chem), State(strategies=choices, split="test", seed=3))

    header = html.partition("<header>")[2].partition("</header>")[0]
    terms = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", header))
    assert terms["folder"] == str(chem.folder)
    assert terms["masks"] == "test, seed 3, epoch 0"
    assert terms["joint"].startswith("elm 0.3, blm 0.15, count fixed, ")
    assert terms["span"].startswith("rate 0.15, ")


@pytest.mark.parametrize(("address", "first"), [("", "strategy"), ("rates?split=test", "rates")])
def test_look__begins_the_file_with_a_view_and_ends_it_with_rows(
    chem: Shards, tmp_path: Path, address: str, first: str
) -> None:
    file = tmp_path / "page.html"
    run("look", chem.folder, "--out", file, *(["--at", address] if address else []))

    views = re.findall(r'<section id="(\w+)"', file.read_text(encoding="utf-8"))
    assert sorted(views) == sorted(VIEWS)
    assert [views[0], views[-1]] == [first, "rows"]


def test_look__writes_a_file(chem: Shards, tmp_path: Path) -> None:
    done = run(
        "look", chem.folder, "--strategy", "joint", "--elm", "0.3", "--out", tmp_path / "page.html"
    )

    assert done.code == 0
    assert (tmp_path / "page.html").stat().st_mode & 0o077 == 0
    assert "proteinuria" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_look__never_writes_protected_text(notes: Shards, tmp_path: Path) -> None:
    file = tmp_path / "page.html"

    refused = run("look", notes.folder, "--show-text", "--out", file)
    done = run("look", notes.folder, "--out", file)

    assert (refused.code, done.code) == (2, 0)
    assert "proteinuria" not in file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`fixed` or <b>", "<code>fixed</code> or &lt;b&gt;"),
        ("`<i>`", "<code>&lt;i&gt;</code>"),
        ("a ` alone", "a ` alone"),
    ],
)
def test_mark_code__escapes_all_else(text: str, expected: str) -> None:
    assert mark_code(text) == expected
