"""Inputs that change while a build reads them: nothing that was made of them is kept."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mslm_data.builds import looking, work
from mslm_data.errors import SourceError
from tests import made

NCBI = made.SAMPLE / "ncbi-disease"


def swapping(path: Path, other: bytes, read: Callable[..., Any]) -> Callable[..., Any]:
    """Return what reads the same after a file was overwritten, as by somebody else."""

    def late(*args: Any) -> Iterator[Any]:
        path.write_bytes(other)
        os.utime(path, ns=(0, 0))
        yield from read(*args)

    return late


@pytest.mark.parametrize("kind", ["rows", "signatures", "unpacked"])
def test_build__keeps_nothing_of_a_file_that_changed_while_it_was_read(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command after the file was restored, as the error says, builds the file's rows."""
    whole = (NCBI / "train.tsv").read_bytes()
    sentences = whole.split(b"\n\n")
    first, other = b"\n\n".join([*sentences[:9], sentences[0]]), b"\n\n".join(sentences[9:19])
    duplicates = "drop" if kind == "signatures" else "keep"
    source = {"duplicates": duplicates, "duplicate_similarity": 1, "max_loss": 0.5}
    pipeline = made.pipeline_of(source=source, unit_bytes=200 if kind == "unpacked" else 1 << 20)
    path = tmp_path / "in" / ("train.tsv.gz" if kind == "unpacked" else "train.tsv")
    if kind == "unpacked":
        first, other = gzip.compress(first, mtime=0), gzip.compress(other, mtime=0)
    path.parent.mkdir()
    path.write_bytes(first)
    status = path.stat()
    expected = made.built(tmp_path / "expected", path.parent, pipeline)

    where, name = (looking, "_unpacked") if kind == "unpacked" else (work, "records_of")
    with monkeypatch.context() as patch:
        patch.setattr(where, name, swapping(path, other, getattr(where, name)))
        with pytest.raises(SourceError, match="expected a file that stays as it is"):
            made.built(tmp_path / "out", path.parent, pipeline)
    path.write_bytes(first)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    resumed = made.built(tmp_path / "out", path.parent, pipeline)

    assert resumed.splits["train"].shards == expected.splits["train"].shards
