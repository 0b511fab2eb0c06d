"""Small corpora of several work units, of each kind of source that is cut in its own way."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mslm_data.builds import build
from mslm_data.pipeline import Pipeline, of_tables
from mslm_data.shard.manifest import Manifest
from tests import made

_NOTES = made.SAMPLE / "mimic" / "NOTEEVENTS.csv"
_ANNOTATE = {
    "use": "terms",
    "table": str(made.SAMPLE / "concepts.csv"),
    "labels": ["Treatment", "Disease", "Symptom"],
}


class Corpus(NamedTuple):
    """How to build it, and what writes its input into a folder."""

    pipeline: Pipeline
    write: Callable[[Path], Path]

    def build(self, inputs: Path, out: Path, **options: object) -> Manifest | None:
        return build(self.pipeline, [inputs], made.word_piece(), out, **{"workers": 1, **options})


def _words(folder: Path) -> Path:
    return made.SAMPLE / "ncbi-disease"


def _notes(folder: Path) -> Path:
    """Forty notes in a compressed file that is large enough to be unpacked first."""
    folder.mkdir(exist_ok=True)
    path = folder / "NOTEEVENTS.csv.gz"
    path.write_bytes(gzip.compress(_NOTES.read_bytes(), mtime=0))
    return path


def _lines(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    rows = [
        {"id": f"{n}", "text": line}
        for n, line in enumerate([*dict.fromkeys(made.sample_lines())][:60])
    ]
    rows[7]["id"] = "6"  # stands twice
    lines = [json.dumps(row) for row in rows]
    lines[11] = "{broken"
    path = folder / "train.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def _pipeline(name: str, source: dict[str, object], *, segment: str, unit_bytes: int) -> Pipeline:
    tables = {
        "source": source,
        "annotate": _ANNOTATE,
        "segment": {"use": segment},
        "shard": {"unit_bytes": unit_bytes},
    }
    return of_tables(tables, name=name)


CORPORA = {
    "words": Corpus(made.pipeline_of(unit_bytes=3000), _words),
    "notes": Corpus(
        _pipeline(
            "notes",
            {"use": "notes", "shares": {"train": 0.9, "test": 0.1}},
            segment="clinical",
            unit_bytes=24_000,
        ),
        _notes,
    ),
    "lines": Corpus(
        _pipeline("lines", {"use": "jsonl"}, segment="clinical", unit_bytes=1500), _lines
    ),
}
