"""Score columns: one number for each token of a built folder.

`mslm-data vocab scores` makes them with a model; strategies read them. A column is a folder with a
file for each shard, `COLUMN/SPLIT/SHARD.arrow`. Two rows of a file:

    key      12297829382473034410              3353953467947191203
    scores   [0.0, 0.0625, 0.375, 0.125, 0.0]  [0.0, 0.5, 0.0]         including special tokens

Rows are looked up by key, so their order does not matter.
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
from mslm_data.lexicon.artefacts import SCORE_COLUMN, damaged, find_differences


class ShardScores(NamedTuple):
    """The scores of one shard's rows, in memory or memory-mapped.

    Attributes:
        keys: uint64 `[N]`, keys of the rows.
        offsets: int32 `[N + 1]`; row i has the scores `values[offsets[i]:offsets[i + 1]]`.
        values: float32, finite.
    """

    keys: npt.NDArray[np.uint64]
    offsets: Array
    values: Array


def write_scores(
    path: Path, keys: npt.NDArray[np.uint64], scores: Ragged, about: Mapping[str, Any]
) -> None:
    """Write the scores of one shard's rows. Equal scores give equal bytes.

    Args:
        path: `COLUMN/SPLIT/SHARD.arrow`, written atomically, readable by its owner only.
        keys: uint64 `[N]`, keys of the shard's rows.
        scores: float32, N rows with a number for each token. Scores of special tokens are not used.
        about: Metadata as JSON values, see `Lexicon.about`.
    """
    lists = pa.ListArray.from_arrays(
        pa.array(scores.offsets, pa.int32()), pa.array(scores.values, pa.float32())
    )
    SCORE_COLUMN.write(path, [pa.array(keys, pa.uint64()), lists], about)


def read_scores(path: Path, *, mapped: bool = False) -> tuple[dict[str, Any], ShardScores]:
    """Read or memory-map the scores of one shard's rows; return metadata and scores.

    Raises:
        VocabularyError: The file is missing, not a score column, has a newer format, or is damaged.
    """
    about, (keys, lists) = SCORE_COLUMN.read(path, mapped=mapped)

    values = numbers(lists.values)
    if not np.isfinite(values).all():
        raise damaged(path, "finite numbers, got NaN or infinity")

    return about, ShardScores(numbers(keys), numbers(lists.offsets), values)


@dataclass(frozen=True, slots=True, eq=False)
class ScoreColumn:
    """The scores of all rows in a folder; large columns are memory-mapped.

    Attributes:
        folder: Folder of the column.
        about: Metadata.
        keys: uint64 `[N]`, keys of all rows, sorted.
        file_numbers: int32 `[N]`, index in `files` of each key's row.
        row_numbers: int64 `[N]`, index of that row in its file.
        files: The scores of each file.
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
            VocabularyError: A row has no scores, or a different number of tokens.
        """
        indices = self._find_rows(examples.keys)
        files = self.file_numbers[indices]
        rows = self.row_numbers[indices]

        lengths = examples.input_ids.lengths
        offsets = make_offsets(lengths)
        out = np.empty(offsets[-1], np.float32)

        # Copy file by file, in the order of the rows.
        for number in np.unique(files):
            selected = np.flatnonzero(files == number)
            _, file_offsets, values = self.files[number]

            if np.any(
                file_offsets[rows[selected] + 1] - file_offsets[rows[selected]] != lengths[selected]
            ):
                raise VocabularyError(
                    f"{self.folder}: the scores have other row lengths, so they belong to other "
                    "shards; make scores for this folder"
                )

            gather(rows[selected], file_offsets, values, offsets[selected], out)

        return Ragged(out, offsets)

    def _find_rows(self, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Return the index of each key in `self.keys`."""
        indices = np.searchsorted(self.keys, keys)

        # `searchsorted` returns an insertion point also for missing keys, up to the end of the
        # array.
        found = indices < len(self.keys)
        found[found] = self.keys[indices[found]] == keys[found]
        if not found.all():
            raise VocabularyError(
                f"{self.folder}: {int((~found).sum())} of {len(found)} rows have no scores; make "
                "them for this split too, with the command that made the column"
            )

        return indices


def open_scores(folder: Path) -> ScoreColumn:
    """Open the scores in a folder. The last 8 unchanged columns are cached.

    Args:
        folder: The column, with files `SPLIT/SHARD.arrow`.

    Raises:
        VocabularyError: The folder or a file is missing; a file is not a score column, has a newer
            format or other metadata than the first, or is damaged; or two rows with the same key
            have different scores.
    """
    paths = sorted(folder.glob("*/*.arrow"))
    if not paths:
        raise SCORE_COLUMN.missing(folder)

    return _open_cached(folder, tuple(paths), tuple(map(SCORE_COLUMN.version, paths)))


@lru_cache(maxsize=8)
def _open_cached(
    folder: Path,
    paths: tuple[Path, ...],
    versions: tuple[tuple[int, int, int], ...],
) -> ScoreColumn:
    mapped = sum(size for _, _, size in versions) > IN_MEMORY
    abouts, files = zip(*(read_scores(path, mapped=mapped) for path in paths), strict=True)
    for path, about in zip(paths, abouts, strict=True):
        different = find_differences(about, abouts[0])
        if different:
            raise VocabularyError(
                f"{path}: has another {' and '.join(different)} than {paths[0]}; make all scores "
                "of a folder with the same options"
            )

    # Sort the keys of all files, for binary search.
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

    Keys are equal if the same document is in two splits.
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
