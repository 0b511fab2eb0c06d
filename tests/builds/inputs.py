"""Small inputs of builds, and what builds say of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mslm_data import builds
from mslm_data.pipeline import Pipeline
from tests import made


def conll(folder: Path, name: str, *sentences: str) -> Path:
    """Write tagged words, with blank lines between sentences. Return the folder."""
    folder.mkdir(exist_ok=True)
    text = "\n".join(
        "".join(f"{pair.replace('/', chr(9))}\n" for pair in line.split()) for line in sentences
    )
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def jsonl(folder: Path, name: str, *rows: dict[str, Any] | str) -> Path:
    """Write a line for each row. Return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def lines_of(out: Path) -> list[dict[str, Any]]:
    """Return the lines of `set_aside.jsonl`."""
    lines = (out / "set_aside.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def preview(out: Path, inputs: Path, pipeline: Pipeline) -> builds.Preview:
    """Plan a build and read its documents, as `--dry-run` does."""
    return builds.plan_build(builds.find(pipeline, [inputs]), made.word_piece(), out)
