"""Small corpora of several work units, one for each way in which sources are divided."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mslm_data.pipeline import Pipeline
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
    """How to build a corpus.

    Attributes:
        make: Makes the pipeline, given the input bytes of a shard.
        unit_bytes: Input bytes of a shard, for several of them.
        write: Writes the input into a folder, and returns its path.
    """

    make: Callable[[int], Pipeline]
    unit_bytes: int
    write: Callable[[Path], Path]

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline, with several shards."""
        return self.make(self.unit_bytes)

    @property
    def one_shard(self) -> Pipeline:
        """The pipeline, with a shard for each split."""
        return self.make(1 << 20)

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


def pipeline_of(unit_bytes: int, name: str, source: dict[str, object]) -> Pipeline:
    """Make a pipeline that finds mentions by a table of terms."""
    return made.pipeline_of(
        name=name, source=source, annotate=_ANNOTATE, segment="clinical", unit_bytes=unit_bytes
    )


_SHARES = {"train": 0.6, "test": 0.4}
CORPORA = {
    "words": Corpus(lambda size: made.pipeline_of(unit_bytes=size), 600, _words),
    "notes": Corpus(
        lambda size: pipeline_of(size, "notes", {"use": "notes", "shares": _SHARES}), 4_000, _notes
    ),
    "lines": Corpus(lambda size: pipeline_of(size, "lines", {"use": "jsonl"}), 1500, _lines),
}
