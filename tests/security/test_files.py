"""Input files that attack their reader, and output files that could attack other programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from mslm_data.cli.output import defused
from tests.cli.running import run
from tests.security.canary import VOCAB

PASSAGE = "<passage><offset>0</offset><text>{}</text></passage>"
COLLECTION = f"<collection><document><id>1</id>{PASSAGE}</document></collection>"
IN_ATTRIBUTE = COLLECTION.format("").replace("<id>", '<id k="&l9;">')
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
BOMBS = {
    "laughs": f'<!DOCTYPE c [<!ENTITY l0 "{"lol" * 10}">{LAUGHS}]>' + COLLECTION.format("&l9;"),
    "one long entity": f'<!DOCTYPE c [<!ENTITY a "{"a" * 100_000}">]>'
    + COLLECTION.format("&a;" * 50_000),
    "in an attribute": f'<!DOCTYPE c [<!ENTITY l0 "lol">{LAUGHS}]>' + IN_ATTRIBUTE,
    "parameter entities": "<!DOCTYPE c [<!ENTITY % a \"<!ENTITY b 'x'>\"> %a;]>"
    + COLLECTION.format("&b;"),
    "a file": '<!DOCTYPE c [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + COLLECTION.format("&x;"),
    "a parameter file": '<!DOCTYPE c [<!ENTITY % x SYSTEM "file:///etc/passwd"> %x;]>'
    + COLLECTION.format("a"),
    "a URL": '<!DOCTYPE c [<!ENTITY x SYSTEM "http://127.0.0.1:9/x">]>' + COLLECTION.format("&x;"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bioc__rejects_entities_before_they_expand(name: str, tmp_path: Path) -> None:
    (tmp_path / "train.xml").write_text(f'<?xml version="1.0"?>{BOMBS[name]}')
    (tmp_path / "mine.toml").write_text('[source]\nuse = "bioc"\n')

    done = run("build", "--source", tmp_path / "mine.toml", "--input", tmp_path / "train.xml", "--tokenizer", VOCAB,
               "--out", tmp_path / "out")  # fmt: skip

    assert done.code == 1
    assert "train.xml:1: expected no entities but XML's own five" in done.err
    assert "root:" not in done.out + done.err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("=1+1", "'=1+1"), ("+ 5", "'+ 5"), ("- 5", "'- 5"), ("@ x", "'@ x"), ("\t=1", "'\t=1"),
        ("a = 1", "a = 1"), ("5", "5"), ("", ""),
    ],
)  # fmt: skip
def test_defused__escapes_spreadsheet_formulas(text: str, expected: str) -> None:
    assert defused(text) == expected


@pytest.mark.parametrize(("name", "count"), [("list.tsv", 0), ("list.csv", 0), ("list.txt", 1)])
def test_pmi__list_for_a_spreadsheet_has_no_formula(name: str, count: int, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "train.tsv").write_text("=\tO\ncmd\tO\npain\tO\n\n" * 12)
    (tmp_path / "mine.toml").write_text('[source]\nuse = "conll"\n[annotate]\nuse = "none"\n')
    run("build", "--source", tmp_path / "mine.toml", "--input", tmp_path / "in", "--out", tmp_path / "out",
        "--tokenizer", _vocabulary(tmp_path))  # fmt: skip

    done = run("vocab", "pmi", tmp_path / "out", "--list", tmp_path / name)

    lines = (tmp_path / name).read_text().splitlines()
    assert done.code == 0
    assert len(lines) >= 3
    assert bool([line for line in lines if line.startswith("=")]) is bool(count)
    assert bool([line for line in lines if line.startswith("'=")]) is not bool(count)


def _vocabulary(folder: Path) -> Path:
    """Write a vocabulary with the words, as n-grams with unknown words are excluded."""
    path = folder / "vocab.txt"
    path.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "=", "cmd", "pain"]))
    return path
