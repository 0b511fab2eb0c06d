"""Inputs that change while a build reads them: the build keeps nothing made from them."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mslm_data.builds.reading import read_records

from mslm_data.builds import plan, scan, worker
from mslm_data.errors import SourceError
from tests import made

NCBI = made.SAMPLE / "ncbi-disease"


def swapping(path: Path, other: bytes, read: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a reader. The file is overwritten between the call and the first item."""

    def late(*args: Any) -> Iterator[Any]:
        overwrite(path, other)
        yield from read(*args)

    return late


def overwrite(path: Path, data: bytes) -> None:
    """Overwrite a file with other bytes of the same size, and restore its modification time."""
    status = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert path.stat().st_size == status.st_size


def padded(*packed: bytes) -> list[bytes]:
    """Return gzip files of equal length, padded in their unused name fields."""
    longest = max(map(len, packed))
    head = 10
    return [
        data[:3] + b"\x08" + data[4:head] + b"n" * (longest - len(data)) + b"\0" + data[head:]
        for data in packed
    ]


@pytest.mark.parametrize("kind", ["rows", "signatures", "unpacked"])
def test_build__keeps_nothing_of_a_file_that_changes_while_it_is_read(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the file is restored, as the error suggests, the same command builds its rows."""
    whole = (NCBI / "train.tsv").read_bytes()
    sentences = whole.split(b"\n\n")
    first = b"\n\n".join([*sentences[:9], sentences[0]])
    other = b"\n\n".join([*sentences[:9][::-1], sentences[0]])
    duplicates = "drop" if kind == "signatures" else "keep"
    source = {"duplicates": duplicates, "duplicate_similarity": 1, "max_loss": 0.5}
    pipeline = made.pipeline_of(source=source, unit_bytes=200 if kind == "unpacked" else 1 << 20)
    path = tmp_path / "in" / ("train.tsv.gz" if kind == "unpacked" else "train.tsv")
    if kind == "unpacked":
        first, other = padded(gzip.compress(first, mtime=0), gzip.compress(other, mtime=0))
    path.parent.mkdir()
    path.write_bytes(first)
    expected = made.built(tmp_path / "expected", path.parent, pipeline)

    where, name = (scan, "_unpacked") if kind == "unpacked" else (worker, "read_records")
    with monkeypatch.context() as patch:
        patch.setattr(where, name, swapping(path, other, getattr(where, name)))
        with pytest.raises(SourceError, match="the file has changed since the command began"):
            made.built(tmp_path / "out", path.parent, pipeline)
    overwrite(path, first)

    resumed = made.built(tmp_path / "out", path.parent, pipeline)

    assert resumed.splits["train"].shards == expected.splits["train"].shards


def test_build__hashes_its_inputs_again_when_times_do_not_show_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Network file systems may store times in whole seconds, and cache them."""
    first = (NCBI / "train.tsv").read_bytes()
    other = b"\n\n".join(first.split(b"\n\n")[::-1])
    path = tmp_path / "in" / "train.tsv"
    path.parent.mkdir()
    path.write_bytes(first)
    expected = made.built(tmp_path / "expected", path.parent, made.pipeline_of())
    monkeypatch.setattr(plan, "_stamp", lambda path: plan.Stamp(str(path), 0, 0, 0))

    with monkeypatch.context() as patch:
        patch.setattr(worker, "read_records", swapping(path, other, read_records))
        with pytest.raises(SourceError, match=r"train\.tsv: the file has changed since"):
            made.built(tmp_path / "out", path.parent, made.pipeline_of())
    overwrite(path, first)

    resumed = made.built(tmp_path / "out", path.parent, made.pipeline_of())

    assert resumed.splits["train"].shards == expected.splits["train"].shards
