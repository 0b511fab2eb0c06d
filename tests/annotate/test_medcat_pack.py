"""Model packs before they are loaded: digests, private copies, packs without code."""

from __future__ import annotations

import json
import os
import pickle
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mslm_data.annotate.medcat import pack as medcat_pack
from mslm_data.annotate.medcat.data_only import is_data_only
from mslm_data.errors import AnnotateError

CLASSES = {
    "": ("medcat.cat.CAT", ["cdb", "vocab"]),
    "cdb": ("medcat.cdb.cdb.CDB", ["config"]),
    "cdb/config": ("medcat.config.config.Config", []),
    "cdb/config/components": ("medcat.config.config.Components", []),
    "vocab": ("medcat.vocab.Vocab", []),
}
RAW = {
    "cdb": {"cui2info": {"C1": {"names": {"__type__": "set", "data": ["pain"]}}}},
    "cdb/config": {
        "last_saved": {"__type__": "datetime", "data": "1970-01-01T00:00:00"},
        "provider": "regex",
    },
    "cdb/config/components": {"ner": {"comp_name": "default"}, "addons": []},
    "vocab": {"vocab": {}},
}


pytestmark = pytest.mark.usefixtures("private_cache")


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """A pack without pickles, in MedCAT's JSON format."""
    folder = tmp_path / "pack"
    for name, (made, given) in CLASSES.items():
        (folder / name).mkdir(parents=True)
        (folder / name / ".serialised_by").write_text("json")
        write(folder / name / ".schema.json", {"serialised-class": made, "init-parts": given})
    for name, raw in RAW.items():
        write(folder / name / "raw_dict.dat", raw)
    write(folder / "model_card.json", {"Required Plugins": [], "provider": "medcat"})
    return folder


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))


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


def test_checked__accepts_a_pack_without_code_and_digest(pack: Path) -> None:
    copy = medcat_pack.checked(pack, "")

    assert is_data_only(copy)
    assert medcat_pack.digest(copy) == medcat_pack.digest(pack)


def schema(name: str, made: str, given: list[str]) -> Callable[[Path], None]:
    value = {"serialised-class": made, "init-parts": given}
    return lambda pack: write(pack / name / ".schema.json", value)


def raw(name: str, text: str) -> Callable[[Path], Any]:
    return lambda pack: (pack / name / "raw_dict.dat").write_text(text)


def other_file(name: str, data: bytes) -> Callable[[Path], Any]:
    def add(pack: Path) -> None:
        (pack / name).parent.mkdir(parents=True, exist_ok=True)
        (pack / name).write_bytes(data)

    return add


CODE = {
    "a pickle": other_file("cdb.dat", pickle.dumps({})),
    "a pickle of MedCAT 2": other_file("cdb/raw_dict.dat", pickle.dumps({})),
    "a class that is no name": other_file("vocab/.schema.json", b"[]"),
    "a pickle of a small part": other_file("cdb/config/raw_dict.dat", pickle.dumps({})),
    "another way of reading it": other_file("cdb/.serialised_by", b"dill"),
    "a class that reads itself": other_file("cdb/.serialised_by", b"MANUALLY_SERIALISED:os.system"),
    "another class": schema("vocab", "subprocess.Popen", []),
    "a function beside MedCAT's configuration": schema(
        "cdb/config", "medcat.config.config.import_module", []
    ),
    "another class's arguments": schema("vocab", "medcat.vocab.Vocab", ["path"]),
    "a class of a value": raw(
        "cdb", '{"a": {"__type__": "dataclass", "data": {"class-path": "a.B", "data": {}}}}'
    ),
    "a class of a value, spaced": raw("cdb", '{"a": {"__type__" :\n"dataclass"}}'),
    "a hidden class of a value": raw("cdb", '{"a": {"\\u005f_type__": "dataclass"}}'),
    "a hidden type of a value": raw(
        "vocab", '{"a": {"__type__": "set", "__type__": "d\\u0061taclass"}}'
    ),
    "a class in the configuration": raw("cdb/config", '{"a": [{"__type__": "dataclass"}]}'),
    "another component": raw(
        "cdb/config", '{"components": {"ner": {"comp_name": "transformers_ner"}}}'
    ),
    "an add-on": raw("cdb/config/components", '{"addons": [{"comp_name": "default"}]}'),
    "a spaCy pipeline": raw("cdb/config", '{"provider": "spacy"}'),
    "a plugin": other_file("model_card.json", b'{"Required Plugins": [{"name": "antigravity.x"}]}'),
    "no JSON": raw("cdb/config", "{"),
    "a key twice": raw("cdb/config", '{"provider": "regex", "provider": "regex"}'),
    "JSON too deep to read": raw("cdb/config", "[" * 100_000),
    "an empty table": raw("cdb", ""),
    "a large configuration": raw("cdb/config", json.dumps("x" * (1 << 20))),
    "a file of another kind": other_file("spacy_model/config.cfg", b""),
}


@pytest.mark.parametrize("what", CODE)
def test_checked__requires_a_digest_for_a_pack_with_pickles(what: str, pack: Path) -> None:
    CODE[what](pack)
    found = medcat_pack.digest(pack)

    with pytest.raises(
        AnnotateError,
        match=rf"pack: loading this pack runs code from it, .*--set annotate\.sha256={found}$",
    ):
        medcat_pack.checked(pack, "")
    assert medcat_pack.digest(medcat_pack.checked(pack, found)) == found


def test_checked__rejects_other_files(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").touch()

    with pytest.raises(
        AnnotateError,
        match=r"folder: not a MedCAT model pack, it has neither a folder cdb nor a file cdb\.dat",
    ):
        medcat_pack.checked(tmp_path / "folder", "")


def test_start__unpickles_only_packs_named_by_digest(tmp_path: Path) -> None:
    pytest.importorskip("medcat")
    from mslm_data.annotate.medcat.annotator import MedCat

    evil, touched = tmp_path / "evil", tmp_path / "touched"
    other_file("cdb/raw_dict.dat", pickle.dumps(Evil(touched)))(evil)
    other_file("cdb.dat", pickle.dumps(Evil(touched)))(evil)

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

    raw("cdb", "{}")(pack)

    assert copies == [tmp_path / "cache" / "packs" / found] * 2
    assert medcat_pack.digest(copies[0]) == found
    modes = {stat.S_IMODE(path.stat().st_mode) for path in copies[0].rglob("*")}
    assert modes == {0o600, 0o700}


def test_checked__rejects_a_copy_that_was_changed(pack: Path) -> None:
    copy = medcat_pack.checked(pack, "")
    raw("vocab", "[]")(copy)

    with pytest.raises(AnnotateError, match="delete this folder, and it is copied again"):
        medcat_pack.checked(pack, "")


def test_checked__copies_a_table_with_a_given_digest(tmp_path: Path) -> None:
    table = tmp_path / "concepts.csv"
    table.write_text("cui,name\n1,pain\n")

    assert medcat_pack.checked(table, "") == table
    copy = medcat_pack.checked(table, medcat_pack.digest(table))
    assert copy != table
    assert copy.read_text() == table.read_text()


@pytest.mark.parametrize("suffix", ["", ".zip"])
def test_checked__rejects_a_pack_that_changes_during_the_copy(
    suffix: str, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = medcat_pack.digest(pack)
    path = zipped(pack, tmp_path / "pack.zip") if suffix else pack
    look = medcat_pack.digest

    def look_and_change(looked_at: Path) -> str:
        found = look(looked_at)
        raw("cdb", "{}")(pack)
        if suffix and looked_at == path:
            zipped(pack, path)
        return found

    monkeypatch.setattr(medcat_pack, "digest", look_and_change)
    with pytest.raises(
        AnnotateError,
        match=r"the pack changed while it was read \(digest [0-9a-f]{16}, then [0-9a-f]{16}\); wait",
    ):
        medcat_pack.checked(path, named)
    assert not (tmp_path / "cache" / "packs" / named).exists()


def test_checked__accepts_the_sha256_of_a_zip_of_the_same_bytes_only(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mslm_data.io.files import hash_file

    path = zipped(pack, tmp_path / "pack.zip")
    named = hash_file(path)
    good = path.read_bytes()
    raw("cdb", '{"other": 1}')(pack)
    zipped(pack, path)
    look = medcat_pack.digest

    def look_and_swap(looked_at: Path) -> str:
        found = look(looked_at)
        if looked_at == path:
            path.write_bytes(good)
        return found

    monkeypatch.setattr(medcat_pack, "digest", look_and_swap)
    with pytest.raises(AnnotateError, match=f"expected a pack with sha256 {named}, got"):
        medcat_pack.checked(path, named)


def test_checked__reports_a_full_disk(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("mslm_data.annotate.medcat.pack.open_private", full)
    with pytest.raises(AnnotateError, match="No space left on device; is the disk full"):
        medcat_pack.checked(pack, "")
    with pytest.raises(
        AnnotateError, match=r"pack\.zip: cannot copy it: No space left on device; is the"
    ):
        medcat_pack.checked(zipped(pack, tmp_path / "pack.zip"), "0" * 64)
    assert [
        p.name for p in (tmp_path / "cache" / "packs").iterdir() if not p.name.startswith(".lock-")
    ] == []


def test_checked__ignores_targets_of_links(pack: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    other_file("raw_dict.dat", b"x")(outside)
    before = medcat_pack.digest(pack)
    (pack / "more").symlink_to(outside)

    assert medcat_pack.digest(pack) == before
    assert not (medcat_pack.checked(pack, "") / "more").exists()


def test_checked__reports_a_write_error(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "file"))

    with pytest.raises(AnnotateError, match=r"packs: expected a cache folder that can be made"):
        medcat_pack.checked(pack, "")
