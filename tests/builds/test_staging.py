from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from mslm_data.builds import looking
from mslm_data.builds.tasks import Unpack
from mslm_data.errors import SourceError
from mslm_data.io import limits
from mslm_data.io.limits import Limits
from mslm_data.loading import load
from tests import made

NCBI = made.SAMPLE / "ncbi-disease"
SMALL = made.pipeline_of(unit_bytes=1000)


def packed(folder: Path) -> Path:
    folder.mkdir()
    for path in NCBI.glob("*.tsv"):
        (folder / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    return folder


def test_build__cuts_compressed_files_like_plain_ones(tmp_path: Path) -> None:
    plain = made.built(tmp_path / "plain", NCBI, SMALL)
    compressed = made.built(tmp_path / "compressed", packed(tmp_path / "in"), SMALL)

    assert len(plain.splits["train"].shards) > 3
    for split, record in plain.splits.items():
        assert compressed.splits[split].shards == record.shards
        assert [source["name"] for source in compressed.splits[split].sources] == [
            f"{source['name']}.gz" for source in record.sources
        ]
    assert not list((tmp_path / "compressed").rglob("staging"))


def test_build__twice_from_compressed_files_is_done_already(tmp_path: Path) -> None:
    inputs = packed(tmp_path / "in")
    first = made.built(tmp_path / "out", inputs, SMALL)

    again = made.built(tmp_path / "out", inputs, SMALL)

    assert (again.plan, dict(again.splits)) == (first.plan, dict(first.splits))
    assert len(load(tmp_path / "out")["train"]) == 60


def unpacking(path: Path, staging: Path) -> Unpack:
    return Unpack(0, str(path), str(staging / "digest" / path.name.removesuffix(".gz")))


def test_unpack__is_private_and_done_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = next(packed(tmp_path / "in").glob("train*"))
    task = unpacking(path, tmp_path / "staging")
    looking.unpack(task)
    monkeypatch.setattr(looking, "write_whole", pytest.fail)

    looking.unpack(task)

    plain = Path(task.into)
    assert plain.read_bytes() == (NCBI / "train.tsv").read_bytes()
    assert plain.stat().st_mode & 0o777 == 0o600
    assert plain.parent.stat().st_mode & 0o777 == 0o700


def test_unpack__says_that_a_file_is_damaged_and_leaves_nothing(tmp_path: Path) -> None:
    path = next(packed(tmp_path / "in").glob("train*"))
    path.write_bytes(path.read_bytes()[:-20])

    with pytest.raises(SourceError, match=r"train\.tsv\.gz: cannot be read"):
        looking.unpack(unpacking(path, tmp_path / "staging"))

    assert not [file for file in (tmp_path / "staging").rglob("*") if file.is_file()]


def test_unpack__stops_at_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = next(packed(tmp_path / "in").glob("train*"))
    monkeypatch.setattr(limits, "LIMITS", Limits(num_bytes=100))

    with pytest.raises(SourceError, match="expected at most 100 bytes unpacked from"):
        looking.unpack(unpacking(path, tmp_path / "staging"))
