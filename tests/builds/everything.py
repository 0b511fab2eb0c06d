"""A small corpus whose build has all kinds of tasks and columns, and loses documents in all ways."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mslm_data.builds import plan
from mslm_data.pipeline import Pipeline
from mslm_data.shard.manifest import Manifest
from tests import made
from tests.builds.inputs import jsonl
from tests.stats.test_overlap import folder_of

UNIT_BYTES = 800
"""A few documents."""
SHARD_BYTES = 3000
"""A few units."""


def write(folder: Path, *, packed: bool = True) -> Path:
    """Write the input files and a held-out folder, and return the input folder.

    The training documents have a repeated id, exact copies of earlier documents and of a test
    document, a text of the held-out folder, and a line that is no document.

    Args:
        folder: Folder to write into.
        packed: Whether to compress the training file. Default: True.
    """
    lines = [line.replace(" .", ".") for line in made.sample_lines() if line]
    texts = [f"{one} {another}" for one, another in zip(lines[:26], lines[26:], strict=False)]
    first, second, third, held_out, *others = texts
    rows = [
        {"id": f"{number}", "text": text, "kind": "odd" if number % 2 else "even"}
        for number, text in enumerate([first, *others])
    ]
    for row in rows[1::3]:
        row["text"] += " No hypertension."
    lost = [{"id": "copy", "text": first}, "{broken", {"id": "0", "text": "Another."}]
    copied = [{"id": "held out", "text": held_out}, {"id": "of test", "text": third}]

    inputs = folder / "in"
    jsonl(inputs, "train.jsonl", *rows[:4], *lost, *rows[4:6], *copied, *rows[6:])
    if packed:
        plain = inputs / "train.jsonl"
        (inputs / "train.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
        plain.unlink()
    jsonl(inputs, "test.jsonl", {"id": "a", "text": second}, {"id": "b", "text": third})
    folder_of(folder / "held_out", [held_out])
    return inputs


def pipeline_of(
    inputs: Path,
    *,
    source: dict[str, object] | None = None,
    encode: dict[str, object] | None = None,
    annotate: dict[str, object] | None = None,
    **options: Any,
) -> Pipeline:
    """Return the pipeline of this corpus: shards of several units, by a term table.

    Args:
        inputs: The input folder, beside the held-out folder.
        source: Other options of the source.
        encode: Other options of the encoder.
        annotate: Other options of the annotator.
        options: Other options of `made.pipeline_of`.
    """
    options = {"segment": "clinical", "unit_bytes": SHARD_BYTES, **options}
    return made.pipeline_of(
        source={
            "use": "jsonl",
            "doc_label": "kind",
            "max_loss": 1,
            "duplicates": "drop",
            "duplicate_similarity": 1,
            "decontaminate": [str(inputs.parent / "held_out")],
            **(source or {}),
        },
        annotate={
            "use": "terms",
            "table": str(made.SAMPLE / "concepts.csv"),
            "labels": ["Treatment", "Disease", "Symptom"],
            "context": True,
            **(annotate or {}),
        },
        encode={"join": "document", "keep_text": True, **(encode or {})},
        **options,
    )


def build(
    inputs: Path,
    out: Path,
    pipeline: Pipeline | None = None,
    *,
    unit_bytes: int = UNIT_BYTES,
    files: Sequence[Path] = (),
    **options: Any,
) -> Manifest | None:
    """Build the corpus in small units.

    Args:
        inputs: The input folder.
        out: The output folder.
        pipeline: Another pipeline.
        unit_bytes: Input bytes of a unit.
        files: Files to build, if not the folder.
        options: Other options of `builds.build`.
    """
    options = {"tokenizer": made.word_piece(), "workers": 1, **options}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "UNIT_BYTES", unit_bytes)
        return made.build(pipeline or pipeline_of(inputs), files or [inputs], out=out, **options)
