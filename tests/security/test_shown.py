"""Corpus strings cannot control the terminal, forge a line or inject markup."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest

from mslm_data.builds.card import card
from mslm_data.errors import SourceError
from mslm_data.log import plain
from mslm_data.shard.manifest import read_manifest
from tests import made
from tests.cli.running import Done, run

ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m"
TURNED = "\u202egnp.exe\u2066\u200b\u200f\ufeff"
LABEL = f"B{ESCAPE}{TURNED}\nerror: <img src=x onerror=alert(1)> | `a` **b** [c](d)"
"""A label that clears the screen, reverses text, starts a new line and contains markup."""


def unseen(shown: str) -> set[str]:
    """Return the forbidden characters of an output."""
    return {
        letter
        for letter in shown
        if letter not in "\n\t" and unicodedata.category(letter) in {"Cc", "Cf", "Zl", "Zp"}
    }


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("Disease", "Disease"),
        ("\x1b[31m", "\\u001b[31m"),
        ("a\nb\r\tc", "a\\u000ab\\u000d\\u0009c"),
        ("\u202eabc\u2069", "\\u202eabc\\u2069"),
        ("\u200b\ufeff\u2028", "\\u200b\\ufeff\\u2028"),
        ("\U000e0041\ud800", "\\udb40\\udc41\\ud800"),
    ],
)
def test_plain__escapes_invisible_characters(given: str, shown: str) -> None:
    assert plain(given) == shown


@pytest.mark.parametrize("words", ["مرض", "疾患", "रोग", "e\u0301", "Mühe, α₂", "💊", "Дe"])
def test_plain__keeps_letters_and_marks_of_any_script(words: str) -> None:
    assert plain(words) == words


def test_plain__keeps_json_values() -> None:
    value = {"id": LABEL, "x": "\U000e0041"}

    shown = plain(json.dumps(value, ensure_ascii=False))

    assert json.loads(shown) == value
    assert not unseen(shown)


def test_errors__contain_no_invisible_characters() -> None:
    error = SourceError(f"{LABEL}: expected\nmore")

    assert not unseen(str(error))
    assert "\nmore" in str(error)
    assert "\\u001b]0;owned" in str(error)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with hostile ids and labels, and invalid JSON in its second row."""
    folder = tmp_path_factory.mktemp("corpus")
    rows = [
        {
            "id": f"1{LABEL}",
            "text": "He has gout.",
            "spans": [{"start": 7, "end": 11, "label": LABEL}],
        },
        {"id": f"1{LABEL}", "text": "She has none.", "spans": []},
    ]
    rows += [
        {
            "id": str(n),
            "text": f"Gout it is, {n}.",
            "spans": [{"start": 0, "end": 4, "label": LABEL}],
        }
        for n in range(2, 50)
    ]
    path = folder / f"train{TURNED}\x1b[2J.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    pipeline = folder / "own.toml"
    pipeline.write_text('name = "own"\n[source]\nuse = "jsonl"\n', encoding="utf-8")
    return path


def built(corpus: Path, out: Path) -> Done:
    words = ["build", "--source", corpus.parent / "own.toml", "--input", corpus, "--out", out]
    return run(*words, "--tokenizer", made.SAMPLE / "vocab.txt", "--workers", 1)


def test_main__commands_print_no_control_characters_of_a_corpus(
    corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = [
        run("build", "--source", corpus.parent / "own.toml", "--input", corpus, "--dry-run"),
        built(corpus, out),
        run("look", out, "--out", tmp_path / "page.html"),
        run("inspect", out, "--show-text", "--rows", 2),
        run("inspect", out, "--json"),
        run("verify", out),
        run("build", "--source", "no\x1b[2J\u202e", "--out", out),
        run("mask-stats", out, "--strategy", "no\x1b[2J"),
        run("recipes", "no\x9b"),
        run("verify", tmp_path / "no\x1b[2J"),
    ]

    assert [one.code for one in done[1:6]] == [0] * 5, [one.err for one in done]
    for one in done:
        assert not unseen(one.out + one.err), (one.out, one.err)
        assert "\nerror: <img" not in one.out + one.err
    assert "\\u001b" in done[1].out
    for path in (out / "README.md", out / "set_aside.jsonl", tmp_path / "page.html"):
        assert not unseen(path.read_text(encoding="utf-8")), path
    aside = json.loads((out / "set_aside.jsonl").read_text(encoding="utf-8"))
    assert aside["id"] == f"1{LABEL}"


def test_card__contains_no_markup_of_labels(corpus: Path, tmp_path: Path) -> None:
    built(corpus, tmp_path / "out")

    page = card(read_manifest(tmp_path / "out"))

    (line,) = [line for line in page.splitlines() if line.startswith("* Labels: ")]
    assert "<img" not in page
    assert "&lt;img src=x onerror=alert(1)&gt; \\| \\`a\\` \\*\\*b\\*\\* \\[c\\](d)" in line
