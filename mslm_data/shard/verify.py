"""Checks a built folder against all it says of itself: checksums, counts, schema, offsets, tags against spans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow.compute as pc

from mslm_data.data.bio import OUTSIDE, paint
from mslm_data.data.columns import schema
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged
from mslm_data.errors import ShardError
from mslm_data.io.files import sha256_of
from mslm_data.shard.manifest import Manifest, read_manifest
from mslm_data.shard.read import Shard


class Problem(NamedTuple):
    """Something that is not as it should be.

    Attributes:
        place: File, and row where there is one.
        what: What was expected and what is there; never text.
    """

    place: str
    what: str


def verify(folder: Path) -> tuple[Manifest, list[Problem]]:
    """Read every byte of a built folder and return what is wrong with it.

    Raises:
        ShardError: No manifest that could be checked against.
    """
    manifest = read_manifest(folder)
    problems = list(_beside(folder, manifest))
    for split, record in manifest.splits.items():
        keys: list[Array] = []
        documents = 0
        for shard_record in record.shards:
            path = folder / split / shard_record.file
            shard = Shard(path, shard_record, manifest.token_ids, labels=None)
            found = list(_shard(shard, manifest))
            problems += [Problem(f"{split}/{path.name}{place}", what) for place, what in found]
            if not found:
                keys.append(shard.flat("key"))
                documents += _documents(shard)
        problems += _keys(split, keys)
        if len(keys) == len(record.shards) and documents != record.written:
            problems.append(
                Problem(split, f"expected rows of {record.written} documents, got {documents}")
            )
        known = {shard_record.file for shard_record in record.shards}
        strange = sorted(
            path.name for path in (folder / split).glob("*.arrow") if path.name not in known
        )
        problems += [
            Problem(f"{split}/{name}", "expected no shard that the manifest does not name")
            for name in strange
        ]
    return manifest, problems


def _beside(folder: Path, manifest: Manifest) -> Iterator[Problem]:
    """Check the files beside the shards."""
    tokenizer = folder / "tokenizer.json"
    if not tokenizer.is_file() or sha256_of(tokenizer) != manifest.tokenizer["sha256"]:
        yield Problem("tokenizer.json", "expected the tokenizer that the manifest names")
    yield from _set_aside(folder, manifest)
    splits = _json(folder / "dataset_dict.json", "splits")
    if not isinstance(splits, list) or sorted(map(str, splits)) != sorted(manifest.splits):
        yield Problem("dataset_dict.json", "expected the manifest's splits")
    text = bool(manifest.pipeline["encode"]["keep_text"])
    metadata = schema(manifest.labels, weak=manifest.weak, text=text).metadata
    features = msgspec.json.decode(metadata[b"huggingface"])["info"]["features"]
    for split, record in manifest.splits.items():
        files = [{"filename": shard.file} for shard in record.shards]
        if _json(folder / split / "state.json", "_data_files") != files:
            yield Problem(f"{split}/state.json", "expected the manifest's shards")
        if _json(folder / split / "dataset_info.json", "features") != features:
            yield Problem(
                f"{split}/dataset_info.json", "expected the features of the shards' columns"
            )
    for path in (folder, *(folder / split for split in manifest.splits)):
        left = [
            *path.glob(".*.tmp"),
            *([path / ".build"] if path is folder and (path / ".build").exists() else []),
        ]
        for name in sorted(str(one.relative_to(folder)) for one in left):
            yield Problem(
                name,
                "expected nothing left of an unfinished build; the same build command removes it",
            )


class _Aside(msgspec.Struct):
    """A line of `set_aside.jsonl`."""

    split: str
    id: str
    place: str
    reason: str


def _set_aside(folder: Path, manifest: Manifest) -> Iterator[Problem]:
    """Check that each document which is not written is named once, in its split."""
    name, decoder = "set_aside.jsonl", msgspec.json.Decoder(_Aside)
    counts, broken = Counter[str](), 0
    if not (folder / name).is_file():
        yield Problem(name, "expected the documents set aside, found no file")
        return
    with (folder / name).open("rb") as file:
        for line in file:
            try:
                counts[decoder.decode(line).split] += 1
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                broken += 1
    strange = sum(count for split, count in counts.items() if split not in manifest.splits)
    if broken or strange:
        yield Problem(
            name,
            f"expected split, id, place and reason in each line, got {broken + strange} others",
        )
    for split, record in manifest.splits.items():
        if counts[split] != record.set_aside:
            yield Problem(
                name, f"expected {record.set_aside} documents of {split}, got {counts[split]}"
            )


def _json(path: Path, key: str) -> Any:
    """Return a value of a JSON object in a file, None where there is none."""
    try:
        value = msgspec.json.decode(path.read_bytes()) if path.is_file() else None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value.get(key) if isinstance(value, dict) else None


def _shard(shard: Shard, manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Check one shard, and stop where going on would read what cannot be believed."""
    try:
        if shard.path.is_file() and sha256_of(shard.path) != shard.record.sha256:
            yield "", "expected the manifest's checksum: bytes have changed"
            return
        examples = shard.examples(0, len(shard))
    except (ShardError, OSError) as error:
        yield "", str(error).removeprefix(f"{shard.path}: ")
        return
    text = bool(manifest.pipeline["encode"]["keep_text"])
    if not shard.batch.schema.equals(
        schema(manifest.labels, weak=manifest.weak, text=text), check_metadata=True
    ):
        yield "", "expected the schema that the manifest's labels and options give"
    for what, got, expected in (
        ("tokens", len(examples.input_ids.values), shard.record.tokens),
        ("mentions", len(examples.span_starts.values), shard.record.mentions),
    ):
        if got != expected:
            yield "", f"expected {expected} {what}, got {got}"
    yield from _rows(examples, len(manifest.labels))


def _rows(examples: Examples, labels: int) -> Iterator[tuple[str, str]]:
    """Check what holds within rows, each law once: the first row that breaks it."""
    ids, words, bio = examples.input_ids, examples.word_ids.values, examples.bio.values
    starts, ends, of = (
        examples.span_starts.values,
        examples.span_ends.values,
        examples.span_labels.values,
    )
    in_row = (
        np.diff(np.repeat(np.arange(len(examples)), examples.span_starts.lengths), prepend=-1) == 0
    )
    laws = [
        (ids, (ids.values < 0) | (ids.values >= examples.ids.size), "ids of the tokenizer"),
        (ids, words < -1, "word numbers of at least -1"),
        (ids, _falls(examples), "word numbers that never fall"),
        (ids, (words == -1) & (bio != OUTSIDE), "O on special tokens"),
        (examples.span_starts, (of < 0) | (of >= labels), "labels of the manifest"),
        (
            examples.span_starts,
            in_row & (starts < np.append(0, ends[:-1])),
            "sorted mentions that do not overlap",
        ),
    ]
    broken = False
    for column, breaks, law in laws:
        where = np.flatnonzero(breaks)
        if len(where):
            broken = True
            row = int(np.searchsorted(column.offsets, where[0], side="right")) - 1
            yield f" row {row}", f"expected {law}; {len(where)} are not"
    if not broken:
        expected = paint(
            examples.span_starts, examples.span_ends, examples.span_labels, ids.offsets
        )
        different = np.flatnonzero(expected != bio)
        if len(different):
            row = int(np.searchsorted(ids.offsets, different[0], side="right")) - 1
            yield (
                f" row {row}",
                f"expected the tags that the mentions give; {len(different)} tokens have others",
            )


def _falls(examples: Examples) -> Array:
    """Say where a word number is lower than one before it in its row, special tokens aside."""
    words: Ragged = examples.word_ids
    row = np.repeat(np.arange(len(examples)), words.lengths)
    inside = np.flatnonzero(words.values >= 0)
    falls = np.zeros(len(words.values), np.bool_)
    falls[inside[1:]] = (np.diff(words.values[inside]) < 0) & (np.diff(row[inside]) == 0)
    return falls


def _documents(shard: Shard) -> int:
    """Count the documents of a shard's rows; those of one stand together, and in one shard."""
    ids = shard.batch.column("doc_id")
    return 1 + int(pc.sum(pc.not_equal(ids[1:], ids[:-1])).as_py() or 0) if len(ids) else 0


def _keys(split: str, keys: list[Array]) -> Iterator[Problem]:
    every = np.concatenate(keys) if keys else np.empty(0, np.uint64)
    twice = len(every) - len(np.unique(every))
    if twice:
        yield Problem(split, f"expected a key of its own for each row; {twice} stand twice")
