from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mslm_data.api.loading import load
from mslm_data.builds import scan
from mslm_data.builds.tasks import Unpack
from mslm_data.errors import SourceError
from tests import made
from tests.source.formats.fixtures.webanno import NAMED

NCBI = made.SAMPLE / "ncbi-disease"
SMALL = made.pipeline_of(unit_bytes=1000)


def packed(folder: Path) -> Path:
    folder.mkdir()
    for path in NCBI.glob("*.tsv"):
        (folder / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    return folder


def test_build__divides_compressed_files_like_plain_files(tmp_path: Path) -> None:
    plain = made.built(tmp_path / "plain", NCBI, SMALL)
    compressed = made.built(tmp_path / "compressed", packed(tmp_path / "in"), SMALL)

    assert len(plain.splits["train"].shards) > 3
    for split, record in plain.splits.items():
        assert compressed.splits[split].shards == record.shards
        assert [source["name"] for source in compressed.splits[split].sources] == [
            f"{source['name']}.gz" for source in record.sources
        ]
    assert not list((tmp_path / "compressed").rglob("staging"))


def test_build__second_run_on_compressed_files_is_already_done(tmp_path: Path) -> None:
    inputs = packed(tmp_path / "in")
    first = made.built(tmp_path / "out", inputs, SMALL)

    again = made.built(tmp_path / "out", inputs, SMALL)

    assert (again.plan, dict(again.splits)) == (first.plan, dict(first.splits))
    assert len(load(tmp_path / "out")["train"]) == 60


NOTES = made.pipeline_of(
    source={
        "use": "webanno",
        "id_from": "folder",
        "concept_feature": "",
        "splits": {"train": ["*/CURATION_USER.tsv*"]},
    },
    segment="clinical",
    unit_bytes=300,
)
"""A source with document ids that contain their folder."""


def write_notes(folder: Path) -> list[Path]:
    """Write two compressed files of one name into two folders."""
    paths = []
    for name, disease in (("note1.txt", "asthma"), ("note2.txt", "gout")):
        lines = ["#FORMAT=WebAnno TSV 3.2", f"#T_SP={NAMED}|value", "", ""]
        at = 0
        for number in range(1, 41):
            end = at + len(disease)
            lines += [f"#Text={disease}", f"{number}-1\t{at}-{end}\t{disease}\tDisease\t", ""]
            at = end + 1
        path = folder / name / "CURATION_USER.tsv.gz"
        path.parent.mkdir(parents=True)
        path.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
        paths.append(path)
    return paths


def test_build__ids_of_unpacked_documents_have_their_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked: list[str] = []
    unpack = scan.unpack

    def counted(task: Unpack, check_unchanged: Callable[[], object]) -> None:
        unpacked.append(task.path)
        unpack(task, check_unchanged)

    monkeypatch.setattr(scan, "unpack", counted)
    paths = write_notes(tmp_path / "in")
    first = made.built(tmp_path / "first", tmp_path / "in", NOTES)
    for path in paths:
        os.utime(path, (0, 0))

    second = made.built(tmp_path / "second", tmp_path / "in", NOTES)

    rows = load(tmp_path / "first")["train"]
    assert {rows[i]["doc_id"] for i in range(len(rows))} == {"note1.txt", "note2.txt"}
    assert second.splits["train"].shards == first.splits["train"].shards
    assert unpacked == [*map(str, paths)] * 2


def test_staged__stays_in_its_folder_below_a_path_with_dots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path, _) = write_notes(tmp_path)
    below = path.parent / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    staging = tmp_path / "staging"

    staged = scan.staged(staging, Path("..", path.name))

    assert staged.parent.name == "note1.txt"
    assert staged.parents[2] == staging


def unpacking(path: Path, staging: Path) -> Unpack:
    return Unpack(0, str(path), str(staging / "digest" / path.name.removesuffix(".gz")))


def test_unpack__is_private_and_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = next(packed(tmp_path / "in").glob("train*"))
    task = unpacking(path, tmp_path / "staging")
    scan.unpack(task, lambda: None)
    monkeypatch.setattr(scan, "write_whole", pytest.fail)

    scan.unpack(task, lambda: None)

    plain = Path(task.into)
    assert plain.read_bytes() == (NCBI / "train.tsv").read_bytes()
    assert plain.stat().st_mode & 0o777 == 0o600
    assert plain.parent.stat().st_mode & 0o777 == 0o700


def test_unpack__reports_a_damaged_file_and_leaves_nothing(tmp_path: Path) -> None:
    path = next(packed(tmp_path / "in").glob("train*"))
    path.write_bytes(path.read_bytes()[:-20])

    with pytest.raises(SourceError, match=r"train\.tsv\.gz: cannot be read"):
        scan.unpack(unpacking(path, tmp_path / "staging"), lambda: None)

    assert not [file for file in (tmp_path / "staging").rglob("*") if file.is_file()]
