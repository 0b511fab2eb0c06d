"""Generate corpora in several formats from the shipped samples. Equal names give equal bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks import notes
from benchmarks.inputs import ROOT, Sentence, enlarge, read, write

VOCAB = ROOT / "vocab" / "sample" / "vocab.txt"
CONCEPTS = ROOT / "vocab" / "sample" / "concepts.csv"
VARIANTS = 3
"""Number of corpora in each format, of different sizes."""


class Corpus(NamedTuple):
    """A corpus and its build options.

    Attributes:
        name: Format and number, such as "conll-0".
        inputs: Folder of its files.
        words: Options of `build` other than `--input` and `--out`.
    """

    name: str
    inputs: Path
    words: tuple[str, ...]


class _Document(NamedTuple):
    """A text with mentions as half-open ranges of characters."""

    number: int
    text: str
    mentions: list[tuple[int, int]]


def names() -> list[str]:
    """Return the names of all corpora."""
    return [f"{form}-{number}" for form in _FORMS for number in range(VARIANTS)]


def make(name: str, scratch: Path) -> Corpus:
    """Write a corpus and its pipeline to `scratch`, unless they exist."""
    form, _, number = name.partition("-")
    inputs = scratch / "corpora" / name
    size = 300 * 3 ** int(number)
    writer, tables = _FORMS[form]

    # The pipeline gives about seven work units.
    pipeline = scratch / "corpora" / f"{name}.toml"
    if not pipeline.exists():
        inputs.mkdir(parents=True)
        writer(inputs, size, random.Random(name))
        total = sum(path.stat().st_size for path in inputs.rglob("*.*"))
        pipeline.write_text(
            f'name = "{name}"\n{tables}\n[shard]\ninput_bytes = {total // 7 + 1}\n',
            encoding="utf-8",
        )
    return Corpus(name, inputs, ("--source", str(pipeline), "--tokenizer", str(VOCAB)))


def _sentences(count: int, rng: random.Random) -> list[Sentence]:
    sample = read(ROOT / "vocab" / "sample" / "bc5cdr-disease" / "train.tsv")
    rng.shuffle(sample)
    return enlarge(sample, count)


def _documents(count: int, rng: random.Random) -> Iterator[_Document]:
    """Yield sentences as texts with mentions."""
    for number, sentence in enumerate(_sentences(count, rng)):
        text = ""
        mentions: list[tuple[int, int]] = []
        for word, tag in sentence:
            start = len(text) + bool(text)
            text = f"{text} {word}" if text else word
            if tag.startswith("B"):
                mentions.append((start, len(text)))
            elif tag.startswith("I") and mentions:
                mentions[-1] = mentions[-1][0], len(text)
        yield _Document(number, text, mentions)


def _write_conll(folder: Path, count: int, rng: random.Random) -> None:
    for split, share in (("train", 4), ("devel", 1), ("test", 1)):
        write(folder / f"{split}.tsv", _sentences(count * share // 4, rng))


def _write_notes(folder: Path, count: int, rng: random.Random) -> None:
    name = "NOTEEVENTS.csv.gz" if rng.random() < 0.5 else "NOTEEVENTS.csv"
    notes.write(folder / name, notes=count // 3)


def _write_json_lines(folder: Path, count: int, rng: random.Random) -> None:
    with (folder / "train.jsonl").open("w", encoding="utf-8") as file:
        for number, text, mentions in _documents(count, rng):
            entities = [{"start": a, "end": b, "label": "Disease"} for a, b in mentions]
            row = {"id": f"d{number}", "text": text, "entities": entities}
            file.write(f"{json.dumps(row)}\n")


def _write_pubtator(folder: Path, count: int, rng: random.Random) -> None:
    with (folder / "train.txt").open("w", encoding="utf-8") as file:
        for number, text, mentions in _documents(count, rng):
            # Offsets count title and abstract as joined by one character.
            begin = len("A title") + 1
            file.write(f"{number}|t|A title\n{number}|a|{text}\n")
            for a, b in mentions:
                place = f"{begin + a}\t{begin + b}"
                file.write(f"{number}\t{place}\t{text[a:b]}\tDisease\tD{number:06d}\n")
            file.write("\n")


def _write_brat(folder: Path, count: int, rng: random.Random) -> None:
    train = folder / "train"
    train.mkdir()
    for number, text, mentions in _documents(count // 6, rng):
        (train / f"{number:05d}.txt").write_text(f"{text}\n", encoding="utf-8")
        lines = [
            f"T{which}\tDisease {a} {b}\t{text[a:b]}\n"
            for which, (a, b) in enumerate(mentions, start=1)
        ]
        (train / f"{number:05d}.ann").write_text("".join(lines), encoding="utf-8")


def _write_text(folder: Path, count: int, rng: random.Random) -> None:
    lines = [f"{document.text}\n" for document in _documents(count, rng)]
    (folder / "train.txt").write_text("".join(lines), encoding="utf-8")


_TERMS = f"""[annotate]
use = "terms"
table = "{CONCEPTS}"
labels = ["Treatment", "Disease", "Symptom"]
"""
# Sentences are drawn from few.
_SOURCE = '[source]\nduplicates = "keep"\n'
_FORMS: Mapping[str, tuple[Callable[[Path, int, random.Random], None], str]] = {
    "conll": (
        _write_conll,
        f'{_SOURCE}use = "conll"\n[annotate]\nlabels = ["Disease"]\n',
    ),
    "notes": (
        _write_notes,
        f'{_SOURCE}use = "notes"\nshares = {{ train = 0.8, test = 0.2 }}\n'
        f'[segment]\nuse = "clinical"\n{_TERMS}',
    ),
    "jsonl": (
        _write_json_lines,
        f'{_SOURCE}use = "jsonl"\n[segment]\nuse = "clinical"\n',
    ),
    "pubtator": (
        _write_pubtator,
        f'{_SOURCE}use = "pubtator"\n[segment]\nuse = "clinical"\n',
    ),
    "brat": (
        _write_brat,
        f'{_SOURCE}use = "brat"\n[segment]\nuse = "clinical"\n',
    ),
    "text": (
        _write_text,
        f'{_SOURCE}use = "text"\ndocuments = "line"\n[segment]\nuse = "clinical"\n{_TERMS}',
    ),
}
"""Format -> function that writes about `count` sentences, and the tables of the pipeline."""
