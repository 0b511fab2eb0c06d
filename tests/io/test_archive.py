"""Hostile and damaged archives."""

from __future__ import annotations

import errno
import io
import os
import stat
import tarfile
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from mslm_data.errors import AnnotateError, SourceError
from mslm_data.io import archive as archives
from mslm_data.io.archive import is_archive, members, stem, unpack

FILES = {"train.tsv": b"a\tO\n", "more/test.tsv": b"b\tO\n", "more/empty.tsv": b""}


Files = Iterable[tuple[str, bytes]]


def make_tar(path: Path, files: Files, *others: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as tar:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for info in others:
            tar.addfile(info)
    return path


def make_zip(path: Path, files: Files, *, kind: int = 0) -> Path:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        warnings.catch_warnings(action="ignore"),
    ):
        for name, data in files:
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (kind | 0o644) << 16
            archive.writestr(info, data)
    return path


def make(path: Path, files: Files) -> Path:
    return make_zip(path, files) if path.suffix.lower() == ".zip" else make_tar(path, files)


def member(name: str, kind: bytes, *, to: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


def unpacked(path: Path) -> Path:
    unpack(path, path.parent / "out")
    return path.parent / "out"


def refused(path: Path, match: str) -> None:
    """Assert that an archive is rejected, and nothing is written outside its folder."""
    before = set(path.parent.rglob("*"))
    with pytest.raises(SourceError, match=match):
        unpacked(path)
    out = path.parent / "out"
    assert {path for path in out.parent.rglob("*") if not path.is_relative_to(out)} == before


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz", "a.zip", "A.ZIP"])
def test_unpack__writes_all_files(name: str, tmp_path: Path) -> None:
    folder = unpacked(make(tmp_path / name, FILES.items()))

    assert {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    } == FILES


def test_unpack__accepts_folders_and_a_leading_dot(tmp_path: Path) -> None:
    dots = [member("./", tarfile.DIRTYPE), member("./empty", tarfile.DIRTYPE)]
    folder = unpacked(make_tar(tmp_path / "a.tar", [("./b.tsv", b"b")], *dots))

    assert sorted(path.name for path in folder.iterdir()) == ["b.tsv", "empty"]


def test_unpack__accepts_folders_in_zips(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.mkdir("empty")

    assert [path.name for path in unpacked(tmp_path / "a.zip").iterdir()] == ["empty"]


@pytest.mark.parametrize("name", ["a.tgz", "a.zip"])
def test_unpack__makes_private_files_whatever_the_umask_and_the_archive(
    name: str, tmp_path: Path
) -> None:
    archive = make(tmp_path / name, FILES.items())
    folder = tmp_path / "deeper" / "out"
    before = os.umask(0)
    try:
        unpack(archive, folder)
    finally:
        os.umask(before)

    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in folder.parent.rglob("*")}
    assert set(modes.values()) == {0o600, 0o700}
    assert all(mode == (0o700 if path.is_dir() else 0o600) for path, mode in modes.items())
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700


def test_unpack__raises_the_given_error_class(tmp_path: Path) -> None:
    with pytest.raises(AnnotateError, match="expected a path inside the archive"):
        unpack(
            make_zip(tmp_path / "a.zip", [("../evil", b"")]), tmp_path / "out", error=AnnotateError
        )


def test_unpack__distinguishes_a_full_disk_from_a_damaged_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("mslm_data.io.archive.open_private", full)
    with pytest.raises(OSError, match="No space left on device"):
        unpacked(make_zip(tmp_path / "a.zip", FILES.items()))


@pytest.mark.parametrize("suffix", [".zip", ".tar"])
@pytest.mark.parametrize(
    ("first", "second"), [("a", "a/b"), ("a.tsv", "a.tsv"), ("a.tsv", "./a.tsv")]
)
def test_unpack__rejects_a_repeated_name(
    first: str, second: str, suffix: str, tmp_path: Path
) -> None:
    """The last entry would silently replace the first."""
    refused(
        make(tmp_path / f"in{suffix}", [(first, b""), (second, b"")]),
        f"member '{Path(second)}': another member of the archive has the same name",
    )


def test_members__gives_names_and_bytes_in_stored_order(tmp_path: Path) -> None:
    read = [
        (str(m.name), b"".join(m.pieces or ()))
        for m in members(make_zip(tmp_path / "a.zip", FILES.items()))
    ]

    assert read == list(FILES.items())


@pytest.mark.parametrize("suffix", [".tar", ".tgz", ".zip"])
@pytest.mark.parametrize(
    "name", ["../evil", "a/../../evil", "/etc/evil", "C:/evil", "C:evil", "..\\evil", "\\evil"]
)
def test_unpack__rejects_names_outside_the_folder(name: str, suffix: str, tmp_path: Path) -> None:
    refused(
        make(tmp_path / f"a{suffix}", [("good", b""), (name, b"x")]),
        "expected a path inside the archive",
    )


@pytest.mark.parametrize(
    "info",
    [
        member("link", tarfile.SYMTYPE, to="/etc/passwd"),
        member("link", tarfile.SYMTYPE, to="train.tsv"),
        member("link", tarfile.LNKTYPE, to="../../evil"),
        member("pipe", tarfile.FIFOTYPE),
        member("device", tarfile.CHRTYPE),
    ],
)
def test_unpack__rejects_links_and_devices(info: tarfile.TarInfo, tmp_path: Path) -> None:
    refused(
        make_tar(tmp_path / "a.tar.gz", FILES.items(), info),
        "expected a plain file or a folder, got a link or a device",
    )


def test_unpack__rejects_links_in_zips(tmp_path: Path) -> None:
    refused(
        make_zip(tmp_path / "a.zip", [("link", b"/etc/passwd")], kind=stat.S_IFLNK),
        "got a link or a device",
    )


@pytest.mark.parametrize("suffix", [".tar.gz", ".zip"])
def test_unpack__stops_at_the_maximum_size(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = make(tmp_path / f"a{suffix}", [(f"zeros{i}", bytes(600_000)) for i in range(2)])
    many = make(tmp_path / f"b{suffix}", [(str(number), b"") for number in range(300)])
    monkeypatch.setattr(archives, "MAX_BYTES", 1_000_000)

    for archive in (bomb, many):
        with pytest.raises(SourceError, match="expected at most 1000000 bytes unpacked, got more"):
            unpack(archive, tmp_path / archive.stem)


@pytest.mark.parametrize("name", ["a.tar", "a.tgz", "a.zip"])
def test_unpack__reports_a_truncated_archive(name: str, tmp_path: Path) -> None:
    archive = make(tmp_path / name, [("train.tsv", bytes(range(256)) * 100)])
    archive.write_bytes(
        archive.read_bytes()[:-12_000] if name == "a.tar" else archive.read_bytes()[:200]
    )

    refused(
        archive,
        f"{name}: expected a whole, unencrypted tar or zip archive, got .*; is the file complete",
    )


def test_unpack__reports_files_that_are_no_archives(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"<html>")

    refused(
        tmp_path / "a.zip",
        r"a\.zip: expected a whole, unencrypted tar or zip archive, got BadZipFile",
    )


@pytest.mark.parametrize("kind", ["long name", "comment", "map of holes"])
def test_members__rejects_long_headers(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tarfile reads headers whole: an archive of 7 MB took 3.1 GB."""
    size = 4 << 20
    long = b"%d\n" % size + b"0\n" * (size // 2)
    info = member("a" * size if kind == "long name" else "a", tarfile.REGTYPE)
    if kind == "comment":
        info.pax_headers = {"comment": "x" * size}
    if kind == "map of holes":
        info.pax_headers = {f"GNU.sparse.{name}": number for name, number in SPARSE.items()}
        info.size = len(long)
    path = tmp_path / "a.tgz"
    form = tarfile.GNU_FORMAT if kind == "long name" else tarfile.PAX_FORMAT
    with tarfile.open(path, "w:gz", format=form, compresslevel=1) as tar:
        tar.addfile(info, io.BytesIO(long))
    read = archives._Headers.read
    sizes: list[int] = []

    def counted(stream: archives._Headers, count: int) -> bytes:
        data = read(stream, count)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(archives._Headers, "read", counted)

    with pytest.raises(SourceError, match="the header of a member is too large"):
        list(members(path))

    assert sum(sizes) < 2 << 20


SPARSE = {"major": "1", "minor": "0", "realsize": "1", "name": "a"}
"""The pax header of a sparse file, with a map before its data."""


def test_stem__removes_the_complete_suffix() -> None:
    assert [stem(name) for name in ("a.tar.gz", "a.b.zip", "A.TGZ", "a.tsv")] == [
        "a",
        "a.b",
        "A",
        "a.tsv",
    ]
    assert [is_archive(name) for name in ("a.tar.gz", "a.b.zip", "A.TGZ", "a.tsv.gz")] == [
        True,
        True,
        True,
        False,
    ]
