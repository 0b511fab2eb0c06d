"""Broken corpora with text in unexpected places: messages contain none of it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import run
from tests.security.canary import CONCEPTS, VOCAB, found_in, leaks

WORD = "Zebulonkanarie"
HEADER = "ROW_ID,SUBJECT_ID,CATEGORY,ISERROR,TEXT\n"
GOOD = f'1,1,Nursing,,"{WORD} has pain."\n'
BIOC = (
    "<collection><document><id>1</id><passage><offset>0</offset><text>{text}</text>"
    '<annotation id="T1"><infon key="type">Disease</infon><location offset="{offset}" length="4"/><text>{said}</text>'
    "</annotation></passage></document>{end}"
)
EXTRACTED = (
    '{{"extractions": [{{"extraction_class": "X", "extraction_text": "{words}", "char_interval": '
    '{{"start_pos": {start}, "end_pos": {end}}}, "alignment_status": "match_exact"}}], "text": "{text}"}}'
)
TERMS = {"use": "terms", "table": str(CONCEPTS), "labels": ["Disease", "Symptom", "Treatment"]}
NOTES: dict[str, str | bytes] = {
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
CASES: dict[str, tuple[str, str, str | bytes, dict[str, Any]]] = {
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
    "langextract of another text": (
        "jsonl", "train.jsonl", EXTRACTED.format(text=f"x {WORD}", words=WORD, start=0, end=4), {},
    ),
    "langextract interval of text": (
        "jsonl", "train.jsonl", EXTRACTED.format(text=WORD, words=WORD, start=f'"{WORD}"', end=4), {},
    ),
    "words that the text lacks": (
        "jsonl", "train.jsonl", json.dumps({"text": "It has pain.", "entities": {"X": [WORD]}}), {},
    ),
    "comprehend without its text": ("comprehend", "a.json", '{"Entities": [{"BeginOffset": 0, "Text": "' + WORD, {}),
    "omop without text": ("omop", "note.csv", f"note_id,person_id,note_title\n1,1,{WORD}\n", {}),
    "omop no UTF-8": (
        "omop", "note.csv", f"note_id,person_id,note_text\n1,1,{WORD} caf".encode() + b"\xe9\xff\n", {},
    ),
    "pubtator of another text": (
        "pubtator", "train.txt", f"1|t|{WORD} has pain\n1|a|{WORD}\n1\t0\t4\t{WORD}\tDisease\tD1\n\n", {},
    ),
    "pubtator without a mark": ("pubtator", "train.txt", f"{WORD} has pain\n{WORD}\n\n", {}),
    "bioc of another text": ("bioc", "train.xml", BIOC.format(text=WORD, offset=2, said=WORD, end="</collection>"), {}),
    "bioc cut off": ("bioc", "train.xml", BIOC.format(text=WORD, offset=2, said=WORD, end=f"<{WORD}"), {}),
    "bioc offset of text": ("bioc", "train.xml", BIOC.format(text=WORD, offset=WORD, said="", end="</collection>"), {}),
    "bc2gm of another text": ("bc2gm", "train.in", f"P1 {WORD} has pain\n", {}),
    "brat of another text": (
        "brat", "1.ann", f"T1\tDisease 2 6\t{WORD}\nT2\tDisease {WORD} 9\t{WORD}\n{WORD}\n", {},
    ),
    "notes cut off": ("notes", "NOTEEVENTS.csv.gz", gzip.compress((HEADER + GOOD * 99).encode())[:-12], TERMS),
    **{name: ("notes", "NOTEEVENTS.csv", content, TERMS) for name, content in NOTES.items()},
}  # fmt: skip
"""Name -> source, file, its content and the annotator."""

LEFT_OUT = "split 'train': expected at most 5% of the mentions left out"
WHERE = {
    "conll columns swapped": "warning: train: 2 of 3 texts",
    "labels that are not there": "they have 'Gene'",
    "jsonl offsets outside": LEFT_OUT,
    "langextract of another text": LEFT_OUT,
    "words that the text lacks": LEFT_OUT,
    "pubtator of another text": LEFT_OUT,
    "bioc of another text": LEFT_OUT,
    "bc2gm of another text": "train.in: expected GENE.eval",
}
"""Words of the message, where it does not name the file and a line."""


@pytest.mark.parametrize("name", CASES)
def test_build__hides_text_of_a_broken_corpus(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, file, content, annotate = CASES[name]
    inputs, world = tmp_path / "in", tmp_path / "world"
    inputs.mkdir()
    world.mkdir()
    (inputs / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    if source == "brat":
        (inputs / "1.txt").write_text(f"{WORD} has pain")
    tables = {"source": {"use": source}, "annotate": annotate}
    tables["segment"] = {"use": "given" if source == "conll" else "clinical"}
    lines = [
        f"{table}.{name} = {json.dumps(value)}"
        for table, options in tables.items()
        for name, value in options.items()
    ]
    (world / "mine.toml").write_text("\n".join(lines))

    done = run("build", "--source", world / "mine.toml", "--input", inputs / file if source != "brat" else inputs,
               "--tokenizer", VOCAB, "--out", world / "out")  # fmt: skip

    assert done.code == (0 if name == "conll columns swapped" else 1), done.err
    assert WHERE.get(name, f"{file}:") in done.err
    assert "should not happen" not in done.err
    assert not found_in(f"{done} {capfd.readouterr()}")
    assert not leaks(world)
