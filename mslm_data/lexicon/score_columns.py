"""Score columns: one number per token of a built folder.

`mslm-data vocab scores` makes them with a model and strategies read them. A column is a folder with
a file for each shard, `COLUMN/SPLIT/SHARD.arrow`. Two rows of such a file:

    key      12297829382473034410              3353953467947191203
    scores   [0.0, 0.0625, 0.375, 0.125, 0.0]  [0.0, 0.5, 0.0]         special tokens included

A row is found by its key, so rows in any order and of any batch get their own numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged, make_offsets
from mslm_data.errors import VocabularyError
from mslm_data.io.arrow import IN_MEMORY, numbers
from mslm_data.kernels.gather import gather
from mslm_data.lexicon.artefacts import (
    SCORE_COLUMN,
    damaged,
    missing,
    read_artefact,
    write_artefact,
)


class ShardScores(NamedTuple):
    """The scores of one shard's rows, in memory or mapped.

    Attributes:
        keys: uint64 `[N]`, of the rows.
        offsets: int32 `[N + 1]`: the scores of row i are `values[offsets[i]:offsets[i + 1]]`.
        values: float32, all finite.
    """

    keys: npt.NDArray[np.uint64]
    offsets: Array
    values: Array


def write_scores(
    path: Path, keys: npt.NDArray[np.uint64], scores: Ragged, about: Mapping[str, Any]
) -> None:
    """Write the scores of one shard's rows. Equal scores give equal bytes.

    Args:
        path: `COLUMN/SPLIT/SHARD.arrow`, whole or not there, readable by its owner alone.
        keys: `[N]`, of the shard's rows.
        scores: float32, N rows: a number for each token. Those of special tokens are never read.
        about: What made them, as JSON has it; see `Lexicon.about`.
    """
    lists = pa.ListArray.from_arrays(
        pa.array(scores.offsets, pa.int32()), pa.array(scores.values, pa.float32())
    )
    write_artefact(path, SCORE_COLUMN, [pa.array(keys, pa.uint64()), lists], about)


def read_scores(path: Path, *, mapped: bool = False) -> tuple[dict[str, Any], ShardScores]:
    """Read or map the scores of one shard's rows, and what made them.

    Raises:
        VocabularyError: The file is missing, not of a score column, of a newer format, or damaged.
    """
    about, (keys, lists) = read_artefact(path, SCORE_COLUMN, mapped=mapped)

    values = numbers(lists.values)
    if not np.isfinite(values).all():
        raise damaged(path, "finite numbers, got NaN or infinity")

    return about, ShardScores(numbers(keys), numbers(lists.offsets), values)


@dataclass(frozen=True, slots=True, eq=False)
class ScoreColumn:
    """The scores of all rows in a folder, mapped unless small.

    Attributes:
        folder: Where the files are.
        about: What made them.
        keys: uint64 `[N]`, of all rows, sorted.
        file_numbers: int32 `[N]`: number of the file that holds the row of each key.
        row_numbers: int64 `[N]`: number of that row within its file.
        files: The files.
    """

    folder: Path
    about: Mapping[str, Any]
    keys: npt.NDArray[np.uint64]
    file_numbers: npt.NDArray[np.int32]
    row_numbers: npt.NDArray[np.int64]
    files: tuple[ShardScores, ...]

    def gather(self, examples: Examples) -> Ragged:
        """Look up the scores of rows by key: float32, with the offsets of `input_ids`.

        Raises:
            VocabularyError: A row has no scores, or has another number of tokens than scores.
        """
        places = self._places(examples.keys)
        files = self.file_numbers[places]
        rows = self.row_numbers[places]

        lengths = examples.input_ids.lengths
        offsets = make_offsets(lengths)
        out = np.empty(offsets[-1], np.float32)

        for number in np.unique(files):
            at = np.flatnonzero(files == number)
            _, source, values = self.files[number]

            if np.any(source[rows[at] + 1] - source[rows[at]] != lengths[at]):
                raise VocabularyError(
                    f"{self.folder}: the scores have other row lengths, so they belong to other "
                    "shards; make scores for this folder"
                )

            gather(rows[at], source, values, offsets[at], out)

        return Ragged(out, offsets)

    def _places(self, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Return the index of each key in `self.keys`."""
        places = np.searchsorted(self.keys, keys)

        found = places < len(self.keys)
        found[found] = self.keys[places[found]] == keys[found]
        if not found.all():
            raise VocabularyError(
                f"{self.folder}: {int((~found).sum())} of {len(found)} rows have no scores; make "
                "them for this split too, with the command that made the column"
            )

        return places


def open_scores(folder: Path) -> ScoreColumn:
    """Open the scores in a folder.

    The last 8 columns are remembered as long as their files do not change.

    Args:
        folder: The column: files `SPLIT/SHARD.arrow` below it are read.

    Raises:
        VocabularyError: There is no such folder or file; a file is not of a score column, of a
            newer format, damaged, or made in another way than the first; or two rows share a key
            and differ in their scores.
    """
    paths = sorted(folder.glob("*/*.arrow"))
    if not paths:
        raise missing(folder, SCORE_COLUMN)

    try:
        states = [path.stat() for path in paths]
    except OSError as error:
        raise VocabularyError(
            f"{folder}: expected scores that can be read, got {type(error).__name__}; remove links "
            "to files that are gone"
        ) from None

    versions = tuple((state.st_ino, state.st_mtime_ns, state.st_size) for state in states)
    return _remembered(folder, tuple(paths), versions)


@lru_cache(maxsize=8)
def _remembered(
    folder: Path,
    paths: tuple[Path, ...],
    versions: tuple[tuple[int, int, int], ...],
) -> ScoreColumn:
    mapped = sum(size for _, _, size in versions) > IN_MEMORY
    abouts, files = zip(*(read_scores(path, mapped=mapped) for path in paths), strict=True)
    for path, about in zip(paths, abouts, strict=True):
        if about != abouts[0]:
            different = sorted(
                key for key in {*about, *abouts[0]} if about.get(key) != abouts[0].get(key)
            )
            raise VocabularyError(
                f"{path}: expected scores made as those of {paths[0]}, got some of another "
                f"{' and '.join(different)}; make all of one folder in one way"
            )

    # A row is found by binary search among the keys of all files.
    keys = np.concatenate([file.keys for file in files])
    order = np.argsort(keys, kind="stable")
    rows = [len(file.keys) for file in files]
    file_numbers = np.repeat(np.arange(len(files), dtype=np.int32), rows)
    row_numbers = np.concatenate([np.arange(count) for count in rows])

    column = ScoreColumn(
        folder=folder,
        about=abouts[0],
        keys=keys[order],
        file_numbers=file_numbers[order],
        row_numbers=row_numbers[order],
        files=tuple(files),
    )
    _check_unambiguous(column)
    return column


def _check_unambiguous(column: ScoreColumn) -> None:
    """Check that rows with equal keys have equal scores.

    Splits that share document ids have rows of one key.
    """

    def scores_at(place: int) -> Array:
        file = column.files[column.file_numbers[place]]
        row = column.row_numbers[place]
        scores: Array = file.values[file.offsets[row] : file.offsets[row + 1]]
        return scores

    repeated = np.flatnonzero(column.keys[1:] == column.keys[:-1]).tolist()
    different = sum(
        not np.array_equal(scores_at(place), scores_at(place + 1)) for place in repeated
    )
    if different:
        raise VocabularyError(
            f"{column.folder}: {different} keys belong to two rows with different scores, as "
            "document ids occur in two splits; make scores for one split only"
        )
