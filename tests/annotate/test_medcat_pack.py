"""Model packs before they are loaded: digests and private copies."""

from __future__ import annotations

import errno
import os
import pickle
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mslm_data.annotate.medcat import pack as medcat_pack
from mslm_data.annotate.medcat.annotator import MedCat
from mslm_data.errors import AnnotateError

pytestmark = pytest.mark.usefixtures("private_cache")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of a pack."""
    path = tmp_path / "pack"
    write(path, "cdb/raw_dict.dat", "vocab/raw_dict.dat", "model_card.json")
    return path


@pytest.fixture(params=["folder", "zip"])
def pack(folder: Path, request: pytest.FixtureRequest) -> Path:
    return folder if request.param == "folder" else zipped(folder)


def write(folder: Path, *names: str, data: bytes = b"{}") -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def zipped(folder: Path) -> Path:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as archive:
        for file in folder.rglob("*"):
            archive.write(file, file.relative_to(folder))
    return path


def test_checked__returns_a_private_copy_of_a_pack_named_by_its_digest(
    pack: Path, folder: Path, tmp_path: Path
) -> None:
    found = medcat_pack.digest(pack)
    assert found == medcat_pack.digest(folder)
    with pytest.raises(
        AnnotateError,
        match=rf"pack.*: loading this pack runs code from it, .*--set annotate\.sha256={found}$",
    ):
        medcat_pack.checked(pack, "")
    with pytest.raises(
        AnnotateError, match=f"expected a pack with sha256 {'0' * 64}, got {found};"
    ):
        medcat_pack.checked(pack, "0" * 64)
    assert not (tmp_path / "cache").exists()

    copy = medcat_pack.checked(pack, found.upper())

    write(folder, "cdb/raw_dict.dat", data=b"[]")
    assert copy == tmp_path / "cache" / "packs" / found
    assert medcat_pack.digest(copy) == found
    assert {stat.S_IMODE(path.stat().st_mode) for path in copy.rglob("*")} == {0o600, 0o700}
    if pack != folder:  # A zip does not depend on the folder beside it.
        assert medcat_pack.checked(pack, found) == copy


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "MedCAT 1": (
        lambda path: write(path, "cdb.dat"),
        "expected a pack of MedCAT 2, got one of MedCAT 1; convert it once with",
    ),
    "another folder": (
        lambda path: write(path, "notes.txt"),
        "not a MedCAT model pack, it has no folder cdb",
    ),
    "nothing": (
        lambda path: None,
        r"expected a model pack of MedCAT 2, a folder or zip, found none; .*annotate\.use=terms",
    ),
    "a table": (
        lambda path: path.write_bytes(b"cui,name\n"),
        "expected a model pack of .*, found none; ",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_check_consent__refuses_what_is_no_pack(what: str, tmp_path: Path) -> None:
    make, message = REFUSED[what]
    make(tmp_path / "given")

    with pytest.raises(AnnotateError, match=f"given: {message}"):
        medcat_pack.check_consent(tmp_path / "given", "")


def test_check_consent__refuses_damaged_and_unsafe_zips(tmp_path: Path) -> None:
    (tmp_path / "torn.zip").write_bytes(b"PK\x03\x04")
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("../out", "x")

    with pytest.raises(AnnotateError, match="a whole, unencrypted tar or zip archive, got BadZipF"):
        medcat_pack.check_consent(tmp_path / "torn.zip", "")
    with pytest.raises(AnnotateError, match=r"evil\.zip: member '.*': expected a path inside the"):
        medcat_pack.check_consent(tmp_path / "evil.zip", "")


class Evil:
    """Runs code when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return Path.touch, (self.target,)


@pytest.mark.parametrize("sha256", ["", "0" * 64])
def test_start__unpickles_only_packs_named_by_digest(sha256: str, tmp_path: Path) -> None:
    pytest.importorskip("medcat")
    evil, touched = tmp_path / "evil", tmp_path / "touched"
    write(evil, "cdb/raw_dict.dat", data=pickle.dumps(Evil(touched)))

    for path in (evil, zipped(evil)):
        with pytest.raises(AnnotateError, match=medcat_pack.digest(evil)):
            MedCat(model_pack=str(path), sha256=sha256).start()
    assert not touched.exists()


def test_checked__rejects_a_copy_that_was_changed(pack: Path) -> None:
    found = medcat_pack.digest(pack)
    write(medcat_pack.checked(pack, found), "vocab/raw_dict.dat", data=b"[]")

    with pytest.raises(AnnotateError, match="delete this folder, and it is copied again"):
        medcat_pack.checked(pack, found)


def test_checked__rejects_a_pack_that_changes_during_the_copy(
    pack: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = medcat_pack.digest(pack)
    check = medcat_pack.check_consent

    def check_and_change(checked: Path, sha256: str) -> str:
        actual = check(checked, sha256)
        write(folder, "cdb/raw_dict.dat", data=b"[]")
        zipped(folder)
        return actual

    monkeypatch.setattr(medcat_pack, "check_consent", check_and_change)
    with pytest.raises(
        AnnotateError,
        match=r"the pack changed while it was read \(digest [0-9a-f]{16}, then [0-9a-f]{16}\); wait",
    ):
        medcat_pack.checked(pack, named)
    assert not (tmp_path / "cache" / "packs" / named).exists()


def test_checked__reports_a_full_disk(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(medcat_pack, "open_private", full)
    with pytest.raises(AnnotateError, match="No space left on device; is the disk full"):
        medcat_pack.checked(pack, medcat_pack.digest(pack))
    assert {path.name[:6] for path in (tmp_path / "cache" / "packs").iterdir()} == {".lock-"}


def test_checked__reports_a_cache_that_cannot_be_made(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "file"))

    with pytest.raises(AnnotateError, match=r"packs: expected a cache folder that can be made"):
        medcat_pack.checked(folder, medcat_pack.digest(folder))


def test_checked__ignores_targets_of_links(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "outside", "raw_dict.dat")
    before = medcat_pack.digest(folder)
    (folder / "more").symlink_to(tmp_path / "outside")

    assert medcat_pack.digest(folder) == before
    assert not (medcat_pack.checked(folder, before) / "more").exists()
