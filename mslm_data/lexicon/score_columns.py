"""Score columns: one number for each token of each row of a built folder, in files beside the shards.

`mslm-data vocab scores` makes them with a model, strategies read them. A row is found by its key, so any batch of rows
in any order gets its own numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged, offsets_of
from mslm_data.errors import VocabularyError
from mslm_data.io import arrow as plain_arrow
from mslm_data.io.files import make_folder, write_whole
from mslm_data.kernels.gather import gather

FORMAT = 1
"""Version of the files that this package writes, and the newest that it reads."""
_SCHEMA = {"key": pa.uint64(), "scores": pa.list_(pa.float32())}


def write_scores(
    path: Path, keys: npt.NDArray[np.uint64], scores: Ragged, about: Mapping[str, Any]
) -> None:
    """Write the scores of one shard's rows; equal ones are equal bytes.

    Args:
        path: `COLUMN/SPLIT/SHARD.arrow`; whole or not there, readable by its owner alone.
        keys: `[N]`, of the shard's rows.
        scores: float32, N rows: a number for each token, specials included (theirs are never read).
        about: What made them, as JSON has it; see `Lexicon.about`.

    Raises:
        ValueError: A score that is not finite, or not as many rows as keys.
    """
    if len(keys) != len(scores):
        raise ValueError(f"scores: expected a key for each of {len(scores)} rows, got {len(keys)}")
    if not np.isfinite(scores.values).all():
        raise ValueError("scores: expected finite numbers, got others")
    text = json.dumps({**about, "format": FORMAT}, sort_keys=True, ensure_ascii=False)
    lists = pa.ListArray.from_arrays(
        pa.array(scores.offsets, pa.int32()), pa.array(scores.values, pa.float32())
    )
    batch = pa.record_batch(
        [pa.array(keys, pa.uint64()), lists],
        schema=pa.schema(_SCHEMA.items(), metadata={"mslm_data_scores": text}),
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    make_folder(path.parent)
    write_whole(path, [memoryview(sink.getvalue())])


@dataclass(frozen=True, slots=True, eq=False)
class ScoreColumn:
    """The scores of all rows below a folder, memory-mapped.

    Attributes:
        folder: Where they are.
        about: What made them.
        keys: uint64 `[N]`, rising.
        file_of: int32 `[N]`: in which file the row of each key is.
        row_of: int64 `[N]`: where in it.
        files: Offsets, `[rows + 1]`, and values of each file.
    """

    folder: Path
    about: Mapping[str, Any]
    keys: npt.NDArray[np.uint64]
    file_of: npt.NDArray[np.int32]
    row_of: npt.NDArray[np.int64]
    files: tuple[tuple[Array, Array], ...]

    def of(self, examples: Examples) -> Ragged:
        """Return the scores of these rows: float32, offsets as `input_ids`.

        Raises:
            VocabularyError: A row without scores, or with another number of tokens.
        """
        lengths = examples.input_ids.lengths
        places = np.searchsorted(self.keys, examples.keys)
        found = places < len(self.keys)
        found[found] = self.keys[places[found]] == examples.keys[found]
        if not found.all():
            raise VocabularyError(
                f"{self.folder}: expected scores of each row, got none for {int((~found).sum())} of {len(found)}; "
                "make them for this split with `mslm-data vocab scores`"
            )
        files, rows = self.file_of[places], self.row_of[places]
        offsets = offsets_of(lengths)
        out = np.empty(offsets[-1], np.float32)
        for number in np.unique(files):
            at = np.flatnonzero(files == number)
            source, values = self.files[number]
            if np.any(source[rows[at] + 1] - source[rows[at]] != lengths[at]):
                raise VocabularyError(
                    f"{self.folder}: expected a score for each token; they are of other shards"
                )
            gather(rows[at], source, values, offsets[at], out)
        return Ragged(out, offsets)


def open_scores(folder: Path) -> ScoreColumn:
    """Open the scores below a folder, `COLUMN/SPLIT/*.arrow`; once, as long as its files stay as they are.

    Raises:
        VocabularyError: No such folder, a file that is not one of ours, of a newer format, or damaged, made
            in another way than the first, or two rows of one key whose scores differ.
    """
    paths = sorted(folder.glob("*/*.arrow"))
    if not paths:
        raise VocabularyError(
            f"{folder}: expected a score column, found none; `mslm-data vocab scores` makes one"
        )
    try:
        states = [path.stat() for path in paths]
    except OSError as error:
        raise VocabularyError(
            f"{folder}: expected scores that can be read, got {type(error).__name__}"
        ) from None
    return _opened(
        folder,
        tuple(paths),
        tuple((state.st_ino, state.st_mtime_ns, state.st_size) for state in states),
    )


@lru_cache(maxsize=8)
def _opened(
    folder: Path, paths: tuple[Path, ...], _states: tuple[tuple[int, int, int], ...]
) -> ScoreColumn:
    opened = [_open(path) for path in paths]
    strange = next(
        (path for path, (about, *_) in zip(paths, opened, strict=True) if about != opened[0][0]),
        None,
    )
    if strange is not None:
        raise VocabularyError(
            f"{strange}: expected scores made as those of {paths[0]}, got others; make all of one folder in one way"
        )
    keys = np.concatenate([keys for _, keys, _, _ in opened])
    sizes = [len(keys) for _, keys, _, _ in opened]
    order = np.argsort(keys, kind="stable")
    file_of = np.repeat(np.arange(len(paths), dtype=np.int32), sizes)[order]
    row_of = np.concatenate([np.arange(size) for size in sizes])[order]
    files = tuple((offsets, values) for _, _, offsets, values in opened)
    column = ScoreColumn(folder, opened[0][0], keys[order], file_of, row_of, files)
    _refuse_ambiguous(column)
    return column


def _refuse_ambiguous(column: ScoreColumn) -> None:
    """See that rows of one key, as splits with the same document ids have them, have the same scores."""

    def row(place: int) -> Array:
        offsets, values = column.files[column.file_of[place]]
        start, stop = offsets[column.row_of[place] : column.row_of[place] + 2].tolist()
        scores: Array = values[start:stop]
        return scores

    repeated = np.flatnonzero(column.keys[1:] == column.keys[:-1]).tolist()
    different = sum(not np.array_equal(row(place), row(place + 1)) for place in repeated)
    if different:
        raise VocabularyError(
            f"{column.folder}: expected a key for each row, got {different} keys of two rows that differ; are "
            "documents of two splits called the same? make scores for one split only"
        )


def about_of(path: Path) -> dict[str, Any]:
    """Return what made a file of scores, as `write_scores` was told, with its format.

    Raises:
        VocabularyError: See `open_scores`.
    """
    return _open(path)[0]


def _open(path: Path) -> tuple[dict[str, Any], Array, Array, Array]:
    """Map a file: what made it, its keys, and its scores as offsets and values."""
    try:
        with pa.memory_map(str(path)) as file:
            schema = plain_arrow.schema(file)
            about = json.loads((schema.metadata or {}).get(b"mslm_data_scores", b"null"))
            _check_format(path, about, schema)
            batches = plain_arrow.batches(file)
    except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
        raise VocabularyError(
            f"{path}: expected scores ({type(error).__name__}); not a file of them, or damaged"
        ) from None
    if len(batches) != 1:
        raise VocabularyError(
            f"{path}: expected one batch of rows, got {len(batches)}; make it again"
        )
    keys, lists = batches[0].columns
    if any(array.null_count for array in (keys, lists, lists.values)):
        raise VocabularyError(f"{path}: expected no nulls; damaged")
    values = lists.values.to_numpy()
    if not np.isfinite(values).all():
        raise VocabularyError(f"{path}: expected finite numbers, got others; make it again")
    return about, keys.to_numpy(), lists.offsets.to_numpy(), values


def _check_format(path: Path, about: Any, schema: pa.Schema) -> None:
    if not (isinstance(about, dict) and isinstance(about.get("format"), int)):
        raise VocabularyError(f"{path}: expected scores of mslm-data, got another Arrow file")
    if about["format"] > FORMAT:
        raise VocabularyError(
            f"{path}: expected format {FORMAT} or older, got {about['format']}; a newer mslm-data wrote it"
        )
    if [(field.name, field.type) for field in schema] != list(_SCHEMA.items()):
        raise VocabularyError(f"{path}: expected columns {', '.join(_SCHEMA)}; make it again")
