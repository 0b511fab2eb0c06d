"""Text of `mslm-data inspect`; how rows are drawn is in tests/draw/test_text_rows.py."""

from __future__ import annotations

from pathlib import Path

from tests.cli.running import run

WORDS = ("--start", 4, "--rows", 2)
"""Rows of which one has a mention."""


def test_inspect__shows_rows_legend_and_rates(ncbi: Path) -> None:
    strategies = ("--strategy", "joint", "--strategy", "elm", "--elm", 1)

    done = run("inspect", ncbi, *WORDS, *strategies)
    rates = run("inspect", ncbi, *WORDS, *strategies, "--json").json["rates"]

    assert done.code == 0
    assert done.out.count("]]}Disease") == 2
    assert done.out.count("  joint: ") == done.out.count("  elm: ") == 2
    assert (
        "{mention}label   [[masked as a term (ELM)]]   <masked as another word (BLM)>" in done.out
    )
    text = " ".join(done.out.split())
    blm = next(rate["masked"] for rate in rates["joint"] if rate["name"] == "blm")
    assert "joint ELM 100.00% 100.00% of the mentions" in text
    assert f"joint BLM 15.00% {blm:.2%} of the tokens" in text
    assert "agreement" not in text


def test_inspect__warns_when_all_tokens_are_masked(ncbi: Path) -> None:
    done = run("inspect", ncbi, *WORDS, "--elm", 1, "--blm", 1)

    assert done.code == 0
    assert done.err.startswith("warning: joint: every token is masked, so the model sees no")
    assert run("inspect", ncbi, *WORDS).err == ""
