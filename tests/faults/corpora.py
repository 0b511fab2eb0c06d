"""Small corpora of several work units, one for each way in which sources are divided."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mslm_data.pipeline import Pipeline, from_tables
from mslm_data.shard.manifest import Manifest
from tests import made
from tests.made import build

_NOTES = made.SAMPLE / "mimic" / "NOTEEVENTS.csv"
_NUM_NOTES = 8
_ANNOTATE = {
    "use": "terms",
    "table": str(made.SAMPLE / "concepts.csv"),
    "labels": ["Treatment", "Disease", "Symptom"],
}


class Corpus(NamedTuple):
    """How to build a corpus, and a function that writes its input into a folder."""

    pipeline: Pipeline
    write: Callable[[Path], Path]

    def build(self, inputs: Path, out: Path, **options: Any) -> Manifest | None:
        return build(self.pipeline, [inputs], made.word_piece(), out, **{"workers": 1, **options})


def _words(folder: Path) -> Path:
    """Write a few sentences per split, as only the calls of a build matter here, not its rows."""
    inputs = folder / "words"
    inputs.mkdir(parents=True, exist_ok=True)
    for path in (made.SAMPLE / "ncbi-disease").glob("*.tsv"):
        sentences = path.read_text(encoding="utf-8").split("\n\n")
        some = sentences[: 18 if path.stem == "train" else 6]
        (inputs / path.name).write_text("\n\n".join(some), encoding="utf-8")
    return inputs


def _notes(folder: Path) -> Path:
    """Write notes of both splits into a compressed file that is large enough to be unpacked first."""
    folder.mkdir(exist_ok=True)
    path = folder / "NOTEEVENTS.csv.gz"
    with _NOTES.open(newline="", encoding="utf-8") as file:
        rows = [*csv.reader(file)]
    some = io.StringIO(newline="")
    csv.writer(some).writerows(rows[: _NUM_NOTES + 1])
    path.write_bytes(gzip.compress(some.getvalue().encode(), mtime=0))
    return path


def _lines(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    rows = [
        {"id": f"{n}", "text": line}
        for n, line in enumerate([*dict.fromkeys(made.sample_lines())][:60])
    ]
    rows[7]["id"] = "6"  # A repeated id.
    lines = [json.dumps(row) for row in rows]
    lines[11] = "{broken"
    path = folder / "train.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def _pipeline(name: str, source: dict[str, object], *, segment: str, unit_bytes: int) -> Pipeline:
    tables = {
        "source": {"max_loss": 1, **source},
        "annotate": _ANNOTATE,
        "segment": {"use": segment},
        "shard": {"unit_bytes": unit_bytes},
    }
    return from_tables(tables, name=name)


CORPORA = {
    "words": Corpus(made.pipeline_of(unit_bytes=600), _words),
    "notes": Corpus(
        _pipeline(
            "notes",
            {"use": "notes", "shares": {"train": 0.6, "test": 0.4}},
            segment="clinical",
            unit_bytes=4_000,
        ),
        _notes,
    ),
    "lines": Corpus(
        _pipeline("lines", {"use": "jsonl"}, segment="clinical", unit_bytes=1500), _lines
    ),
}
