"""Make a score column, shard by shard.

Each shard has its own file, so an interrupted column can be resumed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.errors import VocabularyError
from mslm_data.io.files import make_folder
from mslm_data.lexicon.artefacts import FORMAT, find_differences
from mslm_data.lexicon.score_columns import read_scores, write_scores
from mslm_data.shard.manifest import Manifest
from mslm_data.shard.split import Split
from mslm_data.shard.write import ShardRecord

Score = Callable[[Examples, Callable[[int], None]], npt.NDArray[np.float32]]
"""Returns the scores of a shard's rows, `[T]`.

Its second argument is called with the number of tokens finished since the last call.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnReport:
    """The result of making a score column.

    Attributes:
        splits: Split -> number of rows.
        tokens: Number of tokens, including special tokens.
        shards: Number of files in the column.
        kept: Number of files from earlier runs.
    """

    splits: Mapping[str, int]
    tokens: int
    shards: int
    kept: int


def about(manifest: Manifest, **made: Any) -> dict[str, Any]:
    """Return the metadata of a lexicon or score column.

    Args:
        manifest: Manifest of the folder.
        **made: Options of the command, as JSON values.
    """
    origin = {
        "tokenizer": manifest.tokenizer.sha256,
        "size": manifest.token_ids.size,
        "protected": manifest.protected,
        "plan": manifest.plan,
    }
    return {**origin, "made": {"command": "vocab scores", **made}}


def longest_row(splits: Mapping[str, Split]) -> int:
    """Return the maximum row length, including special tokens; 0 without rows."""
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
    """Score all rows of splits, shard by shard. Only one process may write a column.

    Files from earlier runs with the same `about` are checked and kept.

    Args:
        folder: The column, with files `SPLIT/SHARD.arrow`.
        splits: Name -> split.
        about: Metadata, see `about`; must include everything that influences the scores.
        score: Scores the rows of a shard.
        progress: Called with the number of tokens finished, and in total.

    Raises:
        ShardError: A shard is missing or damaged, or was modified while it was scored.
        VocabularyError: The folder has scores of other shards or options, or a damaged file.
        OSError: The folder cannot be created.
    """
    about = json.loads(json.dumps(about))  # comparable with files: tuples become lists
    for name, split in splits.items():
        _check_no_other_shards(folder / name, split)

    todo = [
        (folder / name / record.file, split, start, record)
        for name, split in splits.items()
        for start, record in _list_shards(split)
        if not _is_done(folder / name / record.file, folder, about)
    ]

    total = sum(split.record.tokens for split in splits.values())
    shards = sum(len(split.record.shards) for split in splits.values())
    done = total - sum(record.tokens for _, _, _, record in todo)

    def advance(tokens: int) -> None:
        nonlocal done
        done += tokens
        if progress is not None:
            progress(done, total)

    make_folder(folder)  # fails before the first shard is scored, which takes minutes
    advance(0)
    for path, split, start, record in todo:
        examples = split.examples(start, start + record.rows)

        scores = score(examples, advance)
        if not np.isfinite(scores).all():
            raise VocabularyError(
                f"{path}: expected a finite number for each token, got NaN or infinity; the "
                "model's weights are damaged"
            )

        write_scores(path, examples.keys, Ragged(scores, examples.input_ids.offsets), about)

    split_rows = {name: len(split) for name, split in splits.items()}
    return ColumnReport(splits=split_rows, tokens=total, shards=shards, kept=shards - len(todo))


def _list_shards(split: Split) -> list[tuple[int, ShardRecord]]:
    """Return the first row and the record of each shard."""
    starts = np.cumsum([0, *(record.rows for record in split.record.shards)]).tolist()
    return list(zip(starts, split.record.shards, strict=False))


def _is_done(path: Path, folder: Path, about: Mapping[str, Any]) -> bool:
    """Return whether a shard's scores exist, and check that their metadata are the same."""
    if not path.is_file():
        return False

    existing, _ = read_scores(path)
    expected = {**about, "format": FORMAT}
    differs = find_differences({**existing, "made": None}, {**expected, "made": None})
    differs += find_differences(existing.get("made") or {}, expected.get("made") or {})
    if differs:
        raise VocabularyError(
            f"{path}: these scores were made with another {', '.join(differs)}; remove {folder} "
            "or pass another --out"
        )

    return True


def _check_no_other_shards(folder: Path, split: Split) -> None:
    """Check that a folder has no files of other shards."""
    known = {record.file for record in split.record.shards}
    num_others = sum(path.name not in known for path in folder.glob("*.arrow"))
    if num_others:
        raise VocabularyError(
            f"{folder}: has scores of {num_others} other shards; remove {folder.parent} or pass "
            "another --out"
        )
