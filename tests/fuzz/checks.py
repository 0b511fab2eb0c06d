"""Checks that read a mutated file and test the result."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mslm_data.api.loading import load
from mslm_data.builds.verify import verify
from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.errors import BuildError, MslmDataError
from mslm_data.mask.table import make
from mslm_data.source import SOURCES, Source
from tests import made
from tests.fuzz.seeds import CANARY, SHARD, folder

Check = Callable[[Path], object]
Count = Callable[[bytes], int]
REASON = re.compile(r"expected .+, (got|found) ", re.DOTALL)
CUTS, MOST_PARTS = (1, 64, 900), 100


def source(
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    file: str = "",
    count: Count | None = None,
) -> Check:
    """Return a check that reads all files of a source, whole and in parts.

    Args:
        name: Name of the source.
        options: Options of the source.
        file: File for `count`.
        count: Counts the records of the file independently of the source. Default: None.
    """

    def check(folder: Path) -> None:
        general = SOURCES.make(name, dict(options or {}))
        found = general.find([folder])
        paths = sorted({path for of in found.values() for path in of})
        chosen = SOURCES.make(name, {**(options or {}), **general.settle(paths)})
        for split, of in found.items():
            for path in of:
                one = chosen.for_split(split)
                assert all(beside.is_file() for beside in one.files(path))
                records, problem = outcome(one, path, 1 << 40)
                names = {beside.name for beside in one.files(path)}
                for record in records:
                    sound(record, names)
                for target_bytes in (max(cut, path.stat().st_size // MOST_PARTS) for cut in CUTS):
                    assert outcome(one, path, target_bytes) == (records, problem), (
                        f"cut at {target_bytes}"
                    )
                if count and problem is None and path.name == file:
                    assert len(records) == count(path.read_bytes())
                if problem is not None:
                    raise problem[0](problem[1])

    return check


def packing(file: str, into: str, check: Check) -> Check:
    """Return a check that compresses a mutated file with zlib, as mutated compressed bytes fail their checksum."""

    def check_packed(folder: Path) -> object:
        (folder / into).write_bytes(zlib.compress((folder / file).read_bytes(), 1))
        return check(folder)

    return check_packed


def outcome(
    source: Source, path: Path, target_bytes: int
) -> tuple[list[Record], tuple[type[Exception], str] | None]:
    """Return the records of a file before the first error, and the error.

    Records are sorted by kind, because sources guarantee the order only within a kind.
    """
    records: list[Record] = []
    problem = None
    try:
        for part in source.cut(Part(str(path)), target_bytes=target_bytes):
            for record in source.read(part):
                records.append(Record(record))  # noqa: PERF401 - keep the records before an error
    except MslmDataError as error:
        problem = type(error), str(error)
    records.sort(key=lambda record: type(record.of).__name__)
    return records, problem


class Record:
    """A record with equality."""

    def __init__(self, record: Document | SetAside | NotChosen) -> None:
        self.of = record
        self._values: object = record
        if isinstance(record, Document):
            words = None if record.words is None else record.words.tolist()
            fields = (
                record.id,
                record.text,
                record.spans,
                record.sentences,
                record.placeholders,
                record.place,
            )
            self._values = (*fields, words, dict(record.unplaced), dict(record.adjusted))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._values)


def sound(record: Record, names: set[str]) -> None:
    """Assert the properties of a source's record that later stages of a build rely on.

    Ranges of a document lie within its text, the text can be encoded, reasons contain no text of the corpus, and the
    place of the record names a file.

    Args:
        record: Record.
        names: Names of the files that were read.
    """
    of = record.of
    if isinstance(of, SetAside):
        assert REASON.match(of.reason.text), of.reason.text
        assert ":" in of.place, of.place
        assert CANARY not in of.reason.text + of.place, "the text is in a reason"
        of.id.encode()
    elif isinstance(of, Document):
        assert of.text or not of.sentences, "a document without text"
        (of.id + of.text).encode()
        length = len(of.text)
        assert of.place.rpartition(":")[0] in names, of.place
        assert all(0 <= span.start < span.end <= length and span.label for span in of.spans)
        assert all("".join((span.label, span.concept)).encode() for span in of.spans)
        rising([tuple(sentence) for sentence in of.sentences or ()], length)
        rising([] if of.words is None else of.words.tolist(), length)
        rising([(place.start, place.end) for place in of.placeholders], length)
        assert all(count > 0 for count in [*of.unplaced.values(), *of.adjusted.values()])
    else:
        assert isinstance(of, NotChosen)


def rising(ranges: Sequence[Sequence[int]], length: int) -> None:
    assert all(0 <= start < end <= length for start, end in ranges), ranges
    assert all(left[1] <= right[0] for left, right in pairwise(ranges)), ranges


def building(name: str, file: str, **pipeline: Any) -> Check:
    """Return a check that builds a folder from a file, and verifies it."""

    def check(folder: Path) -> None:
        out = folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        of = made.pipeline_of(source={"use": name}, unit_bytes=600, **pipeline)
        try:
            manifest = made.built(out, folder / file, of)
        except BuildError as error:
            if "expected mentions" in str(error) or "none that can be used" in str(error):
                return  # a mutation may leave no mention
            raise
        assert verify(out)[1] == []
        for split in manifest.splits.values():
            assert split.read == split.written + split.aside
        assert CANARY.encode() not in b"".join(
            path.read_bytes() for path in out.iterdir() if path.is_file()
        )
        read_rows(out)

    return check


def verified(file: str) -> Check:
    """Return a check that verifies a built folder with one mutated file."""

    def check(at: Path) -> None:
        manifest, problems = verify(at)
        said = json.dumps(problems, default=asdict)
        assert CANARY not in said, "the text is in a problem"
        same = (at / file).read_bytes() == folder()[file]
        if same:
            assert problems == []
        elif file.endswith(".arrow") or file == "tokenizer.json":
            assert any(problem.place.startswith(file) for problem in problems), (
                "a change went unseen"
            )
        if not problems:
            read_rows(at)
            assert load(at).splits == tuple(manifest.splits)

    return check


def blessed(at: Path) -> None:
    """Adapt the manifest to the size and digest of a mutated shard, then read and mask its rows."""
    data = (at / SHARD).read_bytes()
    value = json.loads(folder()["manifest.json"])
    value["splits"]["train"]["shards"][0] |= {
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    (at / "manifest.json").write_text(json.dumps(value))
    _, problems = verify(at)
    assert CANARY not in json.dumps(problems, default=asdict), "the text is in a problem"
    try:
        read_rows(at)
    except MslmDataError:
        assert problems, "a shard that cannot be read went unseen"
        raise


def read_rows(at: Path) -> None:
    """Read and mask all rows of a built folder in all ways, and check that all numbers are in range."""
    shards = load(at)
    size, labels = shards.manifest.token_ids.size, len(shards.labels)
    for split in shards.values():
        examples = split.examples()
        lengths = np.repeat(examples.input_ids.lengths, examples.span_starts.lengths)
        assert within(examples.input_ids.values, 0, size)
        assert within(examples.word_ids.values, -1, 1 << 31)
        assert within(examples.bio.values, 0, 1 + 2 * labels)
        assert within(examples.span_labels.values, 0, labels)
        assert bool(np.all(examples.span_starts.values >= 0))
        assert bool(np.all(examples.span_starts.values < examples.span_ends.values))
        assert bool(np.all(examples.span_ends.values <= lengths))
        for name in ("joint", "whole-word", "spanbert"):
            strategy = make(name, {})
            strategy.corrupt(examples, strategy.plan(examples, seed=1))
        split.take(np.arange(len(split))[::-1])
        for i in range(len(split)):
            split[i]


def within(values: Any, low: int, high: int) -> bool:
    """Return whether all values are in `[low, high)`."""
    return bool(np.all((values >= low) & (values < high)))
