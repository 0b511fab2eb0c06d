"""Text of `mslm-data mask-stats`; numbers are in tests/stats, keys in golden/mask-stats.json."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import run

VARYING = '{shape = "uniform", start = 0.1, stop = 0.3}'


def shown(folder: Path, *words: object) -> str:
    """Return the output, with single spaces."""
    done = run("mask-stats", folder, *words)
    assert done.code == 0, done.err
    return " ".join(done.out.split())


def counted(folder: Path, *words: object) -> Any:
    return run("mask-stats", folder, *words, "--json").json


def test_mask_stats__shows_the_masked_share_beside_each_rate(ncbi: Path) -> None:
    words = ("--elm", 0.1, "--blm", 0.15, "--epochs", 2)
    joint = shown(ncbi, *words)
    stats = counted(ncbi, *words)
    token = shown(ncbi, "--strategy", "token", "--set", f"rate={VARYING}")

    # At least one mention of each row is masked, and most rows have few mentions.
    elm = stats["masked_mentions"] / (2 * stats["mentions"])
    blm = stats["n_blm"] / (2 * stats["maskable_tokens"])
    assert elm > 0.2
    assert joint.startswith("train, strategy joint: elm 0.1, blm 0.15, seed 0, epochs 2 ")
    assert f"ELM 10.00% {elm:.2%} of the mentions BLM 15.00% {blm:.2%} of the tokens" in joint
    assert "each row's budget is rounded up" in joint
    assert "rounded up" not in shown(ncbi, "--elm", 1, "--blm", 0)
    assert "rate varies" in token


def test_mask_stats__json_has_a_varying_rate_as_asked(ncbi: Path) -> None:
    stats = counted(ncbi, "--set", f"elm={VARYING}")

    assert stats["elm"] == stats["options"]["elm"]
    assert stats["elm"] == {"shape": "uniform", "start": 0.1, "stop": 0.3}
    assert stats["rates"][0]["asked"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--elm 0.25 --blm 0", r"^warning: .*; lower --elm or raise --blm\n$"),
        ("--elm 1 --blm 1", "warning: every token is masked"),
        ("--elm 1 --blm 0.9", "^$"),
        ("--strategy bert --set max_masked=2", "rows reach the limit of 2 masked .* of 15.00%"),
        ("--strategy bert", "^$"),
    ],
)
def test_mask_stats__warns_on_stderr(ncbi: Path, words: str, message: str) -> None:
    done = run("mask-stats", ncbi, *words.split(), "--json")

    assert done.code == 0
    assert re.search(message, done.err)


def test_mask_stats__shows_a_sweep_with_the_given_weights(ncbi: Path) -> None:
    words = ("--sweep", "--weights", "released")
    text = shown(ncbi, *words)
    points = counted(ncbi, *words)["sweep"]

    assert "released *" in text
    for point in points[1:4]:
        weights = point["weights"]["released"]
        columns = (f"{weights['w_elm']:.4f}", f"{weights['w_blm']:.4f}")
        assert f"{point['n_elm']} {point['n_blm']} {' '.join(columns)}" in text
    clipped = sum(point["saturated"] for point in points)
    assert f"At {clipped} of 16 pairs of rates, Eq. 3 clips both weights to 0.5" in text


def test_mask_stats__shows_top_words_on_request(ncbi: Path) -> None:
    words = counted(ncbi, "--top-words", 3)["top_words"]

    text = shown(ncbi, "--top-words", 3)

    assert all(f"{word['word']} {word['masked']} {word['occurrences']}" in text for word in words)
    assert "occurrences" not in shown(ncbi)
