"""Lexicons: sequences of sub-words with a score each, such as n-grams by PMI or words by their likeness to anchors.

`mslm-data vocab` makes them from shards, strategies read them. Entries are token ids, so a lexicon needs no text, and
one of patients' notes is as private as the notes.
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

from mslm_data.data.ragged import Ragged
from mslm_data.errors import VocabularyError
from mslm_data.io import arrow as plain_arrow
from mslm_data.io.files import make_folder, write_whole

FORMAT = 1
"""Version of the file that this package writes, and the newest that it reads."""
_COLUMNS = {
    "tokens": pa.list_(pa.int32()),
    "word_starts": pa.list_(pa.int32()),
    "score": pa.float64(),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lexicon:
    """E sequences of sub-words, in the order in which they are to be used.

    Attributes:
        tokens: int32, E rows: the ids of an entry, none of them special; no entry is empty.
        word_starts: int32, E rows: where each word of an entry begins, counted in tokens; 0 first, rising.
        scores: float64 `[E]`, all finite; what they mean is the maker's.
        about: What made it, as JSON has it. `tokenizer` is the tokenizer's SHA-256 as in the shards' manifest, `size`
            its number of ids, `made` the command that made it with its options.
    """

    tokens: Ragged
    word_starts: Ragged
    scores: npt.NDArray[np.float64]
    about: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def words(self) -> npt.NDArray[np.int64]:
        """Number of words of each entry, `[E]`."""
        return self.word_starts.lengths


def write_lexicon(path: Path, lexicon: Lexicon) -> None:
    """Write a lexicon as one Arrow file, readable by its owner alone; equal lexicons are equal bytes.

    Raises:
        ValueError: One that `read_lexicon` would refuse.
    """
    wrong = (
        _wrong(lexicon)
        if _is_count(lexicon.about.get("size"))
        else "about with the tokenizer's size"
    )
    if wrong:
        raise ValueError(f"lexicon: expected {wrong}")
    about = json.dumps({**lexicon.about, "format": FORMAT}, sort_keys=True, ensure_ascii=False)
    table = pa.record_batch(
        [
            _lists(lexicon.tokens),
            _lists(lexicon.word_starts),
            pa.array(lexicon.scores, pa.float64()),
        ],
        schema=pa.schema(_COLUMNS.items(), metadata={"mslm_data_lexicon": about}),
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_batch(table)
    make_folder(path.parent)
    write_whole(path, [memoryview(sink.getvalue())])


def read_lexicon(path: Path) -> Lexicon:
    """Read a lexicon and check that it can be believed.

    Raises:
        VocabularyError: No such file, not one of ours, of a newer format, or damaged.
    """
    if not path.is_file():
        raise VocabularyError(
            f"{path}: expected a lexicon, found none; `mslm-data vocab` makes one"
        )
    try:
        with pa.BufferReader(path.read_bytes()) as file:
            schema = plain_arrow.schema(file)
            about = json.loads((schema.metadata or {}).get(b"mslm_data_lexicon", b"null"))
            _check_format(path, about, schema)
            batches = plain_arrow.batches(file)
    except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
        raise VocabularyError(
            f"{path}: expected a lexicon ({type(error).__name__}); not one, or damaged"
        ) from None
    if len(batches) != 1:
        raise VocabularyError(
            f"{path}: expected one batch of entries, got {len(batches)}; make it again"
        )
    tokens, starts, scores = batches[0].columns
    if any(array.null_count for array in (tokens, tokens.values, starts, starts.values, scores)):
        raise VocabularyError(f"{path}: expected no nulls; damaged")
    lexicon = Lexicon(
        tokens=_ragged(tokens), word_starts=_ragged(starts), scores=scores.to_numpy(), about=about
    )
    wrong = _wrong(lexicon)
    if wrong:
        raise VocabularyError(f"{path}: expected {wrong}; damaged")
    return lexicon


def open_lexicon(path: Path) -> Lexicon:
    """Read a lexicon; the last few are remembered while their files stay as they are.

    Raises:
        VocabularyError: See `read_lexicon`.
    """
    try:
        status = path.stat()
    except OSError:
        return read_lexicon(path)  # which says what is wrong
    return _read(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=16)
def _read(path: Path, written: int, size: int) -> Lexicon:  # noqa: ARG001 - parts of the cache's key
    return read_lexicon(path)


def _check_format(path: Path, about: Any, schema: pa.Schema) -> None:
    if not (
        isinstance(about, dict) and _is_count(about.get("format")) and _is_count(about.get("size"))
    ):
        raise VocabularyError(f"{path}: expected a lexicon of mslm-data, got another Arrow file")
    if about["format"] > FORMAT:
        raise VocabularyError(
            f"{path}: expected format {FORMAT} or older, got {about['format']}; a newer mslm-data wrote it"
        )
    if [(field.name, field.type) for field in schema] != list(_COLUMNS.items()):
        raise VocabularyError(f"{path}: expected columns {', '.join(_COLUMNS)}; make it again")


def _wrong(lexicon: Lexicon) -> str:
    """Return what is expected of a lexicon and not so, or nothing."""
    tokens, starts, size = lexicon.tokens, lexicon.word_starts, lexicon.about["size"]
    if not len(tokens) == len(starts) == len(lexicon):
        return "word starts and a score for each entry"
    if np.any(tokens.values < 0) or np.any(tokens.values >= size) or np.any(tokens.lengths < 1):
        return f"entries of ids in [0, {size})"
    if not np.isfinite(lexicon.scores).all():
        return "finite scores"
    first = starts.offsets[:-1]
    if np.any(starts.lengths < 1) or np.any(starts.values[first] != 0):
        return "a word at the first token of each entry"
    rising = np.diff(starts.values, append=0) > 0
    rising[starts.offsets[1:] - 1] = True
    if not rising.all() or np.any(starts.values >= np.repeat(tokens.lengths, starts.lengths)):
        return "words that begin one after the other within their entry"
    return ""


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _lists(rows: Ragged) -> pa.ListArray:
    return pa.ListArray.from_arrays(
        pa.array(rows.offsets, pa.int32()), pa.array(rows.values, pa.int32())
    )


def _ragged(lists: pa.ListArray) -> Ragged:
    offsets = lists.offsets.to_numpy().astype(np.int64)
    return Ragged(lists.flatten().to_numpy(), offsets - offsets[0])
