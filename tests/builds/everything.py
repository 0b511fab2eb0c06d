"""A small corpus whose build has all kinds of tasks, and loses documents in all ways."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from mslm_data.builds import plan
from mslm_data.pipeline import Pipeline
from mslm_data.shard.manifest import Manifest
from tests import made
from tests.builds.test_accounts import jsonl
from tests.stats.test_overlap import folder_of

UNIT_BYTES = 400
"""A few documents."""


def write(folder: Path, *, packed: bool = True) -> Path:
    """Write the input files and a held-out folder, and return the input folder.

    The training documents have a repeated id, exact copies of earlier documents and of a test
    document, a text of the held-out folder, and a line that is no document.

    Args:
        folder: Folder to write into.
        packed: Whether to compress the training file. Default: True.
    """
    first, second, third, held_out, *others = filter(None, made.sample_lines()[:26])
    rows: list[dict[str, str] | str] = [
        {"id": f"{number}", "text": text} for number, text in enumerate([first, *others])
    ]
    rows[4:4] = [{"id": "copy", "text": first}, "{broken", {"id": "0", "text": "Another."}]
    rows[9:9] = [{"id": "held out", "text": held_out}, {"id": "of test", "text": third}]

    inputs = folder / "in"
    jsonl(inputs, "train.jsonl", *rows)
    if packed:
        plain = inputs / "train.jsonl"
        (inputs / "train.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
        plain.unlink()
    jsonl(inputs, "test.jsonl", {"id": "a", "text": second}, {"id": "b", "text": third})
    folder_of(folder / "held_out", [held_out])
    return inputs


def pipeline_of(inputs: Path, **source: object) -> Pipeline:
    """Return the pipeline of this corpus: shards of several units, by a term table."""
    return made.pipeline_of(
        source={
            "use": "jsonl",
            "max_loss": 1,
            "duplicates": "drop",
            "duplicate_similarity": 1,
            "decontaminate": [str(inputs.parent / "held_out")],
            **source,
        },
        annotate={
            "use": "terms",
            "table": str(made.SAMPLE / "concepts.csv"),
            "labels": ["Treatment", "Disease", "Symptom"],
        },
        segment="clinical",
        unit_bytes=1500,
    )


def build(inputs: Path, out: Path, **options: object) -> Manifest | None:
    """Build the corpus in small units."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "UNIT_BYTES", UNIT_BYTES)
        return made.build(
            pipeline_of(inputs), [inputs], made.word_piece(), out, **{"workers": 1, **options}
        )
