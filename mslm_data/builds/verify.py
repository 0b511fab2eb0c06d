"""Checks a built folder against FORMAT.md and its own manifest.

First the files and their checksums are checked, then a shard at a time schema, counts and the laws
of rows. For each rule, only the first violation is reported. Problems never contain text of the
corpus.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from mslm_data.builds.finish import make_files
from mslm_data.data.ragged import Array
from mslm_data.encode.tokenizer import load_tokenizer, open_tokenizer
from mslm_data.errors import ShardError, TokenizerError
from mslm_data.io.files import canonical_json, hash_file
from mslm_data.results import counted
from mslm_data.shard.laws import broken, row_laws
from mslm_data.shard.manifest import NAME, Manifest, read_manifest
from mslm_data.shard.read import Shard
from mslm_data.shard.subset import begins_document


@dataclass(frozen=True)
class Problem:
    """A violation.

    A row::

        place                            what
        train/data-00000-of-00001.arrow  row 7: expected sorted mentions that do not overlap; 1 ...

    Row 7 of the shard is the first with overlapping mentions.

    Attributes:
        place: File or split.
        what: Expected and actual state, without text of the corpus.
    """

    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


def verify(folder: Path) -> tuple[Manifest, list[Problem]]:
    """Check all files and rows of a built folder.

    Files not written by the build are ignored, such as `cache-*.arrow` of `datasets`.

    Returns:
        The manifest, and a list of problems, empty for a valid folder.

    Raises:
        ShardError: The manifest is missing, damaged or inconsistent, or has another format.
    """
    manifest = read_manifest(folder)
    problems = [*_check_files(folder, manifest)]
    for split in manifest.splits:
        problems += _check_split(folder, split, manifest)
    return manifest, problems


def find_other_files(folder: Path, manifest: Manifest) -> list[str]:
    """Return the sorted names of files not written by the build.

    For example, `datasets` writes a `cache-*.arrow` for each `map`, `filter` or `shuffle`. Remains
    of interrupted builds and unknown shards are not included: `verify` reports them.
    """
    reported = {*_find_remains(folder, manifest)}
    for split in manifest.splits:
        reported.update(_find_unknown_shards(folder, split, manifest))
    names = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and (folder / ".build") not in path.parents
    }
    return sorted(names - reported - set(manifest.files()))


def describe_other_files(names: Sequence[str]) -> str:
    """Describe files that no build writes, by their number and the first name."""
    such_as = ", " if len(names) == 1 else ", such as "
    return f"{counted(len(names), 'file')} that no build writes{such_as}{names[0]}"


# Files beside the shards --------------------------------------------------------------------------


def _check_files(folder: Path, manifest: Manifest) -> Iterator[Problem]:
    """Check all files except the shards."""
    yield from _check_set_aside(folder, manifest)
    if not (folder / "README.md").is_file():
        yield Problem("README.md", "expected a dataset card, found no file")
    data = (folder / NAME).read_bytes()
    if canonical_json(msgspec.json.decode(data)) != data:
        yield Problem(NAME, "expected JSON with sorted keys, one space of indent and a newline")

    tokenizer = None
    path = folder / "tokenizer.json"
    if not path.is_file() or hash_file(path) != manifest.tokenizer.sha256:
        yield Problem(path.name, "expected the tokenizer that the manifest names")
    else:
        try:
            tokenizer = load_tokenizer(str(folder))
            stored = open_tokenizer(path)
        except TokenizerError:
            yield Problem(path.name, "expected a tokenizer that can be read")
        else:
            if stored.truncation is not None or stored.padding is not None:
                yield Problem(path.name, "expected truncation and padding switched off")
            if tokenizer.ids != manifest.token_ids:
                yield Problem(NAME, "expected the special ids of the tokenizer's files")

    for name, content in make_files(manifest, tokenizer).items():
        if not (folder / name).is_file() or (folder / name).read_bytes() != content:
            yield Problem(name, "expected the content that manifest and tokenizer give")
    for name in _find_remains(folder, manifest):
        yield Problem(
            name,
            "expected nothing left of an unfinished build; the same build command removes it",
        )


def _find_remains(folder: Path, manifest: Manifest) -> list[str]:
    """Return the sorted names of the remains of an interrupted build."""
    left = [path for split in ("", *manifest.splits) for path in (folder / split).glob(".*.tmp")]
    if (folder / ".build").exists():
        left.append(folder / ".build")
    return sorted(path.relative_to(folder).as_posix() for path in left)


class _Aside(msgspec.Struct, forbid_unknown_fields=True):
    """A line of `set_aside.jsonl`."""

    split: str
    id: str
    place: str
    reason: str


def _check_set_aside(folder: Path, manifest: Manifest) -> Iterator[Problem]:
    """Check the lines of `set_aside.jsonl`, and their number per split."""
    name = "set_aside.jsonl"
    if not (folder / name).is_file():
        yield Problem(name, "expected the documents set aside, found no file")
        return

    decoder = msgspec.json.Decoder(_Aside)
    counts = Counter[str]()
    broken_lines = 0
    with (folder / name).open("rb") as file:
        for line in file:
            try:
                counts[decoder.decode(line).split] += 1
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                broken_lines += 1

    broken_lines += sum(count for split, count in counts.items() if split not in manifest.splits)
    if broken_lines:
        yield Problem(
            name, f"expected split, id, place and reason in each line, got {broken_lines} others"
        )
    for split, record in manifest.splits.items():
        if counts[split] != record.aside:
            yield Problem(
                name, f"expected {record.aside} documents of {split}, got {counts[split]}"
            )


# Shards -------------------------------------------------------------------------------------------


def _check_split(folder: Path, split: str, manifest: Manifest) -> Iterator[Problem]:
    """Check each shard of a split, then the rules across shards."""
    record = manifest.splits[split]
    keys: list[Array] = []
    documents = 0
    for shard_record in record.shards:
        path = folder / split / shard_record.file
        shard = Shard(path, shard_record, manifest)
        found = [*_check_shard(shard)]
        yield from (Problem(f"{split}/{path.name}", what) for what in found)
        if not found:
            keys.append(shard.columns().keys)
            documents += int(begins_document(shard.batch).sum())

    all_keys = np.concatenate([*keys, np.empty(0, np.uint64)])
    duplicates = len(all_keys) - len(np.unique(all_keys))
    if duplicates:
        yield Problem(split, f"expected a unique key for each row, got {duplicates} duplicates")

    # Documents can only be counted if all shards are readable.
    if len(keys) == len(record.shards) and documents != record.written:
        yield Problem(split, f"expected rows of {record.written} documents, got {documents}")

    names = [shard_record.file for shard_record in record.shards]
    if names != [f"data-{i:05d}-of-{len(names):05d}.arrow" for i in range(len(names))]:
        yield Problem(split, "expected shards numbered from 0 in the manifest's order")
    for name in _find_unknown_shards(folder, split, manifest):
        yield Problem(name, "expected no shard that the manifest does not name")


def _find_unknown_shards(folder: Path, split: str, manifest: Manifest) -> list[str]:
    """Return the shard files of a split that are not in the manifest."""
    known = {shard.file for shard in manifest.splits[split].shards}
    files = {path.name for path in (folder / split).glob("data-*.arrow")}
    return [f"{split}/{name}" for name in sorted(files - known)]


def _check_shard(shard: Shard) -> Iterator[str]:
    """Check a shard. Stop at the first problem after which reading on is not safe."""
    manifest = shard.manifest
    try:
        rows = shard.columns().slice(0, len(shard))
    except ShardError as error:
        yield str(error).removeprefix(f"{shard.path}: ")
        return
    if not shard.batch.schema.equals(manifest.schema, check_metadata=True):
        yield "expected the schema that the manifest's labels and options give"
        return

    if not _has_footer(shard.path):
        yield "expected an Arrow file's footer behind the stream"
    buffers = [buffer for column in shard.batch.columns for buffer in column.buffers()]
    if any(buffer is not None and buffer.address % 8 for buffer in buffers):
        yield "expected buffers aligned to 8 bytes"
    for what, got, expected in (
        ("tokens", len(rows.input_ids.values), shard.record.tokens),
        ("mentions", len(rows.span_starts.values), shard.record.mentions),
    ):
        if got != expected:
            yield f"expected {expected} {what}, got {got}"
    yield from broken(row_laws(rows, shard.batch, manifest.pipeline["encode"].get("max_tokens")))


def _has_footer(path: Path) -> bool:
    """Return whether a shard can be opened as an Arrow file, which is read from its footer."""
    try:
        with pa.memory_map(str(path)) as file:
            return bool(pa.ipc.open_file(file).num_record_batches == 1)
    except (pa.ArrowException, OSError, ValueError):
        return False
