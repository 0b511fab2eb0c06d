"""Hostile and damaged archives."""

from __future__ import annotations

import errno
import io
import os
import stat
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Iterable
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


def cut_off(path: Path, size: int) -> None:
    data = make(path, [("train.tsv", bytes(range(256)) * 100)]).read_bytes()
    path.write_bytes(data[:size])


OUTSIDE = "expected a path inside the archive"
LINK = "expected a plain file or a folder, got a link or a device"
BROKEN = "{}: expected a whole, unencrypted tar or zip archive, got .*; is the file complete"
EVIL = ("../evil", "a/../../evil", "/etc/evil", "C:/evil", "C:evil", "..\\evil", "\\evil")
LINKS = [
    member("link", tarfile.SYMTYPE, to="/etc/passwd"),
    member("link", tarfile.SYMTYPE, to="train.tsv"),
    member("link", tarfile.LNKTYPE, to="../../evil"),
    member("pipe", tarfile.FIFOTYPE),
    member("device", tarfile.CHRTYPE),
]
# The last entry of a name would silently replace the first.
REPEATED = [("a", "a/b"), ("a.tsv", "a.tsv"), ("a.tsv", "./a.tsv")]
REFUSED: list[tuple[str, Callable[[Path], object], str]] = [
    *[
        (name, lambda path, evil=evil: make(path, [("good", b""), (evil, b"x")]), OUTSIDE)
        for name in ("a.tar", "a.tgz", "a.zip")
        for evil in EVIL
    ],
    *[
        (
            name,
            lambda path, names=names: make(path, [(one, b"") for one in names]),
            f"member '{Path(names[1])}': another member of the archive has the same name",
        )
        for name in ("a.tar", "a.zip")
        for names in REPEATED
    ],
    *[
        ("a.tar.gz", lambda path, info=info: make_tar(path, FILES.items(), info), LINK)
        for info in LINKS
    ],
    ("a.zip", lambda path: make_zip(path, [("link", b"/etc")], kind=stat.S_IFLNK), LINK),
    *[
        (name, lambda path, size=size: cut_off(path, size), BROKEN.format(name))
        for name, size in (("a.tar", 18_000), ("a.tgz", 200), ("a.zip", 200))
    ],
    ("a.zip", lambda path: path.write_bytes(b"<html>"), BROKEN.format("a.zip")),
]


@pytest.mark.parametrize(("name", "write", "message"), REFUSED)
def test_unpack__refuses_and_writes_nothing_elsewhere(
    name: str, write: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    write(tmp_path / name)

    with pytest.raises(SourceError, match=message):
        unpacked(tmp_path / name)

    assert {path.name for path in tmp_path.iterdir()} <= {name, "out"}


def test_members__gives_names_and_bytes_in_stored_order(tmp_path: Path) -> None:
    read = [
        (str(m.name), b"".join(m.pieces or ()))
        for m in members(make_zip(tmp_path / "a.zip", FILES.items()))
    ]

    assert read == list(FILES.items())


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
