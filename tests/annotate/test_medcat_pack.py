"""Model packs before they are loaded: digests and private copies."""

from __future__ import annotations

import os
import pickle
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mslm_data.annotate.medcat import pack as medcat_pack
from mslm_data.errors import AnnotateError

pytestmark = pytest.mark.usefixtures("private_cache")


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """Files of a pack."""
    folder = tmp_path / "pack"
    for name in ("cdb", "vocab"):
        (folder / name).mkdir(parents=True)
        (folder / name / "raw_dict.dat").write_text("{}")
    (folder / "model_card.json").write_text("{}")
    return folder


def zipped(folder: Path, path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for file in folder.rglob("*"):
            archive.write(file, file.relative_to(folder))
    return path


class Evil:
    """Runs code when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return Path.touch, (self.target,)


# Packs that require a digest ------------------------------------------------------------------------------------------


def raw(name: str, text: str) -> Callable[[Path], Any]:
    return lambda pack: (pack / name / "raw_dict.dat").write_text(text)


def other_file(name: str, data: bytes) -> Callable[[Path], Any]:
    def add(pack: Path) -> None:
        (pack / name).parent.mkdir(parents=True, exist_ok=True)
        (pack / name).write_bytes(data)

    return add


@pytest.mark.parametrize("suffix", ["", ".zip"])
def test_checked__requires_a_digest(suffix: str, pack: Path, tmp_path: Path) -> None:
    found = medcat_pack.digest(pack)
    path = zipped(pack, tmp_path / "pack.zip") if suffix else pack

    with pytest.raises(
        AnnotateError,
        match=rf"pack{suffix}: loading this pack runs code from it, .*--set annotate\.sha256={found}$",
    ):
        medcat_pack.checked(path, "")
    with pytest.raises(
        AnnotateError, match=f"expected a pack with sha256 {'0' * 64}, got {found};"
    ):
        medcat_pack.checked(path, "0" * 64)
    assert not (tmp_path / "cache").exists()
    assert medcat_pack.digest(medcat_pack.checked(path, found.upper())) == found


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cdb.dat", "expected a pack of MedCAT 2, got one of MedCAT 1; convert it once with"),
        ("notes.txt", "not a MedCAT model pack, it has no folder cdb"),
    ],
)
def test_check_consent__rejects_other_folders(name: str, message: str, tmp_path: Path) -> None:
    other_file(name, b"")(tmp_path / "folder")

    with pytest.raises(AnnotateError, match=f"folder: {message}"):
        medcat_pack.check_consent(tmp_path / "folder", "")


@pytest.mark.parametrize("name", ["none", "concepts.csv"])
def test_checked__rejects_what_is_no_pack(name: str, tmp_path: Path) -> None:
    (tmp_path / "concepts.csv").write_text("cui,name\n")

    with pytest.raises(AnnotateError, match=r"a folder or zip, found none; .*annotate\.use=terms"):
        medcat_pack.checked(tmp_path / name, "0" * 64)


def test_start__unpickles_only_packs_named_by_digest(tmp_path: Path) -> None:
    pytest.importorskip("medcat")
    from mslm_data.annotate.medcat.annotator import MedCat

    evil, touched = tmp_path / "evil", tmp_path / "touched"
    other_file("cdb/raw_dict.dat", pickle.dumps(Evil(touched)))(evil)

    for path in (evil, zipped(evil, tmp_path / "evil.zip")):
        with pytest.raises(
            AnnotateError, match=rf"--set annotate\.sha256={medcat_pack.digest(evil)}"
        ):
            MedCat(model_pack=str(path)).start()
    assert not touched.exists()


# Copies --------------------------------------------------------------------------------------------------------------


def test_checked__returns_a_private_copy_that_ignores_later_changes(
    pack: Path, tmp_path: Path
) -> None:
    found = medcat_pack.digest(pack)
    copies = [
        medcat_pack.checked(path, found) for path in (pack, zipped(pack, tmp_path / "pack.zip"))
    ]

    raw("cdb", "[]")(pack)

    assert copies == [tmp_path / "cache" / "packs" / found] * 2
    assert medcat_pack.digest(copies[0]) == found
    modes = {stat.S_IMODE(path.stat().st_mode) for path in copies[0].rglob("*")}
    assert modes == {0o600, 0o700}


def test_checked__rejects_a_copy_that_was_changed(pack: Path) -> None:
    found = medcat_pack.digest(pack)
    raw("vocab", "[]")(medcat_pack.checked(pack, found))

    with pytest.raises(AnnotateError, match="delete this folder, and it is copied again"):
        medcat_pack.checked(pack, found)


@pytest.mark.parametrize("suffix", ["", ".zip"])
def test_checked__rejects_a_pack_that_changes_during_the_copy(
    suffix: str, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = medcat_pack.digest(pack)
    path = zipped(pack, tmp_path / "pack.zip") if suffix else pack
    check = medcat_pack.check_consent

    def check_and_change(checked: Path, sha256: str) -> str:
        actual = check(checked, sha256)
        raw("cdb", "[]")(pack)
        if suffix:
            zipped(pack, path)
        return actual

    monkeypatch.setattr(medcat_pack, "check_consent", check_and_change)
    with pytest.raises(
        AnnotateError,
        match=r"the pack changed while it was read \(digest [0-9a-f]{16}, then [0-9a-f]{16}\); wait",
    ):
        medcat_pack.checked(path, named)
    assert not (tmp_path / "cache" / "packs" / named).exists()


def test_checked__reports_a_full_disk(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("mslm_data.annotate.medcat.pack.open_private", full)
    for path in (pack, zipped(pack, tmp_path / "pack.zip")):
        with pytest.raises(AnnotateError, match="No space left on device; is the disk full"):
            medcat_pack.checked(path, medcat_pack.digest(pack))
    assert [
        p.name for p in (tmp_path / "cache" / "packs").iterdir() if not p.name.startswith(".lock-")
    ] == []


def test_checked__ignores_targets_of_links(pack: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    other_file("raw_dict.dat", b"x")(outside)
    before = medcat_pack.digest(pack)
    (pack / "more").symlink_to(outside)

    assert medcat_pack.digest(pack) == before
    assert not (medcat_pack.checked(pack, before) / "more").exists()


def test_checked__reports_a_write_error(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "file"))

    with pytest.raises(AnnotateError, match=r"packs: expected a cache folder that can be made"):
        medcat_pack.checked(pack, medcat_pack.digest(pack))
