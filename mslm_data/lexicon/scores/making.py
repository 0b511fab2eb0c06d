"""Make a score column, shard by shard.

Each shard has a file of its own, so an interrupted column can be resumed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.errors import VocabularyError
from mslm_data.io.files import clear_abandoned, make_folder
from mslm_data.lexicon.artefacts import FORMAT
from mslm_data.lexicon.score_columns import read_scores, write_scores
from mslm_data.shard.manifest import Manifest
from mslm_data.shard.split import Split
from mslm_data.shard.write import ShardRecord

Score = Callable[[Examples, Callable[[int], None]], npt.NDArray[np.float32]]
"""Scores of one shard's rows, `[T]`; calls its second argument with a number of tokens whenever
these are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnReport:
    """Result of making a score column.

    Attributes:
        splits: Split -> its rows.
        tokens: Tokens of all rows, specials included.
        shards: Files of the column.
        kept: How many of them an earlier call had made.
    """

    splits: Mapping[str, int]
    tokens: int
    shards: int
    kept: int


def about(manifest: Manifest, **made: Any) -> dict[str, Any]:
    """Return metadata of a lexicon or score column: the folder and what made it.

    Args:
        manifest: Of the folder.
        **made: The command's options, as JSON has them.
    """
    known = {
        "tokenizer": manifest.tokenizer["sha256"],
        "size": manifest.token_ids.size,
        "protected": manifest.protected,
        "plan": manifest.plan,
    }
    return {**known, "made": {"command": "vocab scores", **made}}


def longest_row(splits: Mapping[str, Split]) -> int:
    """Return the length of the longest row, special tokens included; 0 without rows."""
    return max(
        (
            int(chunk.input_ids.lengths.max(initial=0))
            for split in splits.values()
            for chunk in split.chunks()
        ),
        default=0,
    )


def write_column(
    folder: Path,
    splits: Mapping[str, Split],
    about: Mapping[str, Any],
    score: Score,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> ColumnReport:
    """Score every row of splits, shard by shard. Only one process may write a column.

    Files that an earlier call with the same `about` has made are kept, and checked before anything
    is scored.

    Args:
        folder: The column, files `SPLIT/SHARD.arrow` below it.
        splits: Name -> rows.
        about: See `about`; it must tell apart whatever gives other scores.
        score: What scores.
        progress: Called with tokens done and all tokens.

    Raises:
        ShardError: A shard is missing or damaged, or has changed while it was scored.
        VocabularyError: Scores of other shards or options are there, or a damaged file.
        OSError: The column's folder cannot be made.
    """
    about = json.loads(json.dumps(about))  # as it will be read: tuples become lists
    for name, split in splits.items():
        _check_no_other_shards(folder / name, split)

    todo = [
        (folder / name / record.file, split, start, record)
        for name, split in splits.items()
        for start, record in _shards(split)
        if not _is_made(folder / name / record.file, folder, about)
    ]

    total = sum(split.record.tokens for split in splits.values())
    shards = sum(len(split.record.shards) for split in splits.values())
    done = total - sum(record.tokens for _, _, _, record in todo)

    def advance(tokens: int) -> None:
        nonlocal done
        done += tokens
        if progress is not None:
            progress(done, total)

    # Before the first shard is scored, which takes minutes.
    folders = dict.fromkeys([folder, *(path.parent for path, _, _, _ in todo)])
    made = [path for path in folders if not path.exists()]
    for path, _, _, _ in todo:
        make_folder(path.parent)

    try:
        advance(0)
        for path, split, start, record in todo:
            clear_abandoned(path.parent)
            examples = split.examples(start, start + record.rows)

            scores = score(examples, advance)
            if not np.isfinite(scores).all():
                raise VocabularyError(
                    f"{path}: expected a finite number for each token, got NaN or infinity; the "
                    "model's weights are damaged"
                )

            # Scoring a shard takes minutes, and a later run keeps what is written here.
            split.check()
            write_scores(path, examples.keys, Ragged(scores, examples.input_ids.offsets), about)
    finally:
        # Those without a shard's scores go: a column that is not there names what makes it.
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir()

    split_rows = {name: len(split) for name, split in splits.items()}
    return ColumnReport(splits=split_rows, tokens=total, shards=shards, kept=shards - len(todo))


def _shards(split: Split) -> list[tuple[int, ShardRecord]]:
    """Yield the first row and the record of each shard."""
    starts = np.cumsum([0, *(record.rows for record in split.record.shards)]).tolist()
    return list(zip(starts, split.record.shards, strict=False))


def _is_made(path: Path, folder: Path, about: Mapping[str, Any]) -> bool:
    """Return whether a shard's scores exist, and check that they were made the same way."""
    if not path.is_file():
        return False

    found, _ = read_scores(path)
    wanted = {**about, "format": FORMAT}
    differs = _differing({**found, "made": None}, {**wanted, "made": None})
    differs += _differing(found.get("made") or {}, wanted.get("made") or {})
    if differs:
        raise VocabularyError(
            f"{path}: expected scores made in the same way, got another {', '.join(differs)}; "
            f"remove {folder} or pass another --out"
        )

    return True


def _differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return the sorted names with different values."""
    names = sorted({*first, *second})
    return [name for name in names if first.get(name) != second.get(name)]


def _check_no_other_shards(folder: Path, split: Split) -> None:
    """Check that a folder holds no files of other shards."""
    known = {record.file for record in split.record.shards}
    strange = sum(path.name not in known for path in folder.glob("*.arrow"))
    if strange:
        raise VocabularyError(
            f"{folder}: expected scores of {len(known)} shards, got {strange} files of others; "
            f"remove {folder.parent} or pass another --out"
        )
