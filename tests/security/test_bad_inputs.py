"""Broken corpora with text in unexpected places: messages contain none of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import run
from tests.security.canary import CONCEPTS, VOCAB, found_in, leaks, write_notes

WORD = "Zebulonkanarie"
HEADER = "ROW_ID,SUBJECT_ID,CATEGORY,ISERROR,TEXT\n"
GOOD = f'1,1,Nursing,,"{WORD} has pain."\n'
BIOC = (
    "<collection><document><id>1</id><passage><offset>0</offset><text>{text}</text>"
    '<annotation id="T1"><infon key="type">Disease</infon><location offset="{offset}" length="4"/><text>{said}</text>'
    "</annotation></passage></document>{end}"
)
NOTES = {
    "no header": GOOD * 3,
    "header of text": f"{WORD}, a patient\n" + GOOD,
    "quote never closed": HEADER + GOOD + f'2,1,Nursing,,"{WORD} has pain.\n' + GOOD * 2,
    "quote in the middle": HEADER + f'1,1,Nursing,,"{WORD}" has "pain".\n' + GOOD,
    "too many fields": HEADER + f"1,1,Nursing,,{WORD},{WORD},{WORD}\n" + GOOD,
    "no UTF-8": HEADER.encode()
    + f'1,1,Nursing,,"{WORD} caf'.encode()
    + b"\xe9\xff"
    + b'"\n'
    + GOOD.encode(),
    "a NUL": HEADER + f'1,1,Nursing,,"{WORD}\0 has pain"\n' + GOOD,
    "no text column": HEADER.replace("TEXT", "NOTE") + GOOD,
    "rows twice": HEADER + GOOD * 4,
    "no patient": HEADER + f'1,,Nursing,,"{WORD}"\n' + GOOD,
    "one line without end": HEADER + f'1,1,Nursing,,"{WORD} ' + f"{WORD} " * 5000,
    "no csv at all": json.dumps({"TEXT": WORD}) * 50,
}
OTHERS: dict[str, tuple[str, str, Any, dict[str, Any]]] = {
    "conll columns swapped": ("conll", "train.tsv", f"O\t{WORD}\nO\thas\nB-X\tpain\n\n" * 3, {}),
    "conll tag of text": ("conll", "train.tsv", f"a\tO\n{WORD}\tQ-{WORD}\nb\tO\n\n", {}),
    "conll too many columns": ("conll", "train.tsv", "\t".join([WORD] * 9) + "\nb\tO\n\n", {}),
    "conll one column": ("conll", "train.tsv", f"{WORD}\nhas\npain\n\n" * 3, {}),
    "conll no UTF-8": ("conll", "train.tsv", WORD.encode() + b"\xff\tO\n\n", {}),
    "labels that are not there": ("conll", "train.tsv", f"{WORD}\tB-Gene\n\n", {"labels": ["Disease"]}),
    "jsonl cut off": ("jsonl", "train.jsonl", '{"id": "1", "text": "' + WORD, {}),
    "jsonl of other types": ("jsonl", "train.jsonl", json.dumps({"id": "1", "tokens": WORD, "tags": [WORD]}), {}),
    "jsonl tags of text": ("jsonl", "train.jsonl", json.dumps({"id": "1", "tokens": ["a"], "tags": [f"x{WORD}"]}), {}),
    "jsonl offsets outside": (
        "jsonl", "train.jsonl", json.dumps({"id": "1", "text": WORD, "entities": [[0, 900, "X"]]}), {},
    ),
    "jsonl entities of text": (
        "jsonl", "train.jsonl", json.dumps({"id": "1", "text": WORD, "entities": [[WORD, WORD, WORD]]}), {},
    ),
    "pubtator of another text": (
        "pubtator", "train.txt", f"1|t|{WORD} has pain\n1|a|{WORD}\n1\t0\t4\t{WORD}\tDisease\tD1\n\n", {},
    ),
    "pubtator without a mark": ("pubtator", "train.txt", f"{WORD} has pain\n{WORD}\n\n", {}),
    "bioc of another text": ("bioc", "train.xml", BIOC.format(text=WORD, offset=2, said=WORD, end="</collection>"), {}),
    "bioc cut off": ("bioc", "train.xml", BIOC.format(text=WORD, offset=2, said=WORD, end=f"<{WORD}"), {}),
    "bioc offset of text": ("bioc", "train.xml", BIOC.format(text=WORD, offset=WORD, said="", end="</collection>"), {}),
    "bc2gm of another text": ("bc2gm", "train.in", f"P1 {WORD} has pain\n", {}),
}  # fmt: skip


TERMS = {"use": "terms", "table": str(CONCEPTS), "labels": ["Disease", "Symptom", "Treatment"]}


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def build(inputs: Path, out: Path, source: str, annotate: dict[str, Any]) -> Any:
    pipeline = out.parent / "mine.toml"
    tables = [
        f'[source]\nuse = "{source}"',
        "[annotate]",
        *(f"{k} = {json.dumps(v)}" for k, v in annotate.items()),
    ]
    segment = "" if source == "conll" else '[segment]\nuse = "clinical"'
    write(pipeline, "\n".join([*tables, segment]))
    return run("build", "--source", pipeline, "--input", inputs, "--tokenizer", VOCAB, "--out", out)


def assert_nothing_said(
    done: Any, world: Path, capfd: pytest.CaptureFixture[str], code: tuple[int, ...]
) -> None:
    assert done.code in code, done.err
    assert not found_in(f"{done} {capfd.readouterr()}")
    assert not leaks(world)


@pytest.mark.parametrize("name", NOTES)
def test_build__hides_text_of_a_broken_notes_table(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    inputs = write(tmp_path / "in" / "NOTEEVENTS.csv", NOTES[name])

    done = build(inputs, tmp_path / "world" / "out", "notes", TERMS)

    assert_nothing_said(done, tmp_path / "world", capfd, (0, 1))
    assert done.code == 0 or "NOTEEVENTS.csv:" in done.err


@pytest.mark.parametrize("name", OTHERS)
def test_build__hides_text_of_a_broken_corpus(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, file, content, annotate = OTHERS[name]
    inputs = write(tmp_path / "in" / file, content)

    done = build(inputs, tmp_path / "world" / "out", source, annotate)

    assert_nothing_said(done, tmp_path / "world", capfd, (0, 1))
    assert done.code == 0 or any(
        where in done.err for where in ("train.", "split 'train'", "they have 'Gene'")
    )
    assert "should not happen" not in done.err


def test_build__hides_text_of_mismatched_brat_files(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "in" / "1.txt", f"{WORD} has pain")
    write(
        tmp_path / "in" / "1.ann",
        f"T1\tDisease 2 6\t{WORD}\nT2\tDisease {WORD} 9\t{WORD}\n{WORD}\n",
    )

    done = build(tmp_path / "in", tmp_path / "world" / "out", "brat", {})

    assert_nothing_said(done, tmp_path / "world", capfd, (0, 1))


def test_build__hides_text_of_a_truncated_compressed_table(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import gzip

    table = write_notes(tmp_path / "in" / "NOTEEVENTS.csv").read_bytes()
    inputs = write(tmp_path / "in" / "NOTEEVENTS.csv.gz", gzip.compress(table)[:-400])

    done = build(inputs, tmp_path / "world" / "out", "notes", TERMS)

    assert_nothing_said(done, tmp_path / "world", capfd, (1,))
