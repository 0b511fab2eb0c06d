"""Loading of model packs and tables with MedCAT: accepted and rejected packs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mslm_data.annotate.medcat import pack as medcat_pack
from mslm_data.annotate.medcat.annotator import MedCat
from mslm_data.errors import AnnotateError
from mslm_data.io import resources
from mslm_data.io.files import hash_file
from tests.annotate.medcat_made import found, write_table

pytest.importorskip("medcat")
pytestmark = pytest.mark.usefixtures("private_cache")


_SEEDED = """
import json, socket, sys

def refuse(*args, **options):
    raise SystemExit(3)

socket.socket.connect = refuse
socket.getaddrinfo = refuse
socket.create_connection = refuse

from mslm_data.annotate.medcat.annotator import MedCat
from mslm_data.data.document import Document
from tests.annotate.medcat_made import notes

running = MedCat(model_pack=sys.argv[1]).load()
documents = [Document(id="", text=text) for text in notes(40, seed=1)]
print(json.dumps([one.spans for one in running.find(documents)]))
"""
"""Annotates notes in a separate process, which exits with code 3 if it asks for the network."""


class Ended(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def processes(
    pack: Path, table: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[Ended]]:
    """The home folder of three processes with different hash seeds, and their results."""
    home = tmp_path_factory.mktemp("home")
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _SEEDED, str(model)],
            env={
                **os.environ,
                "PYTHONHASHSEED": seed,
                "HOME": str(home),
                "MSLM_DATA_CACHE": str(home / "cache"),
                "MEDCAT_DISABLE_VERSION_CHECK": "",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for model, seed in ((pack, "1"), (pack, "2"), (table, "3"))
    ]
    outputs = [process.communicate() for process in started]
    return home, [
        Ended(process.returncode, *output) for process, output in zip(started, outputs, strict=True)
    ]


@pytest.mark.long
def test_annotate__is_the_same_in_every_process(processes: tuple[Path, list[Ended]]) -> None:
    first, second, of_table = (ended.out for ended in processes[1])

    assert first == second == of_table
    assert sum(map(len, json.loads(first))) > 50


def test_start__needs_no_network(processes: tuple[Path, list[Ended]]) -> None:
    home, ended = processes

    assert [(one.code, one.err) for one in ended] == [(0, "")] * 3
    assert not list(home.glob("**/medcat_version.json"))


def test_start__reads_the_shipped_sample() -> None:
    running = MedCat(model_pack=str(resources.path("vocab", "sample/concepts.csv"))).load()

    assert found(running, "COPD, chills; on Lasix") == [
        ("COPD", "Disease"), ("chills", "Symptom"), ("Lasix", "Treatment"),
    ]  # fmt: skip


def test_digest__is_the_same_for_a_zip_and_its_files(
    pack: Path, table: Path, tmp_path: Path
) -> None:
    zipped = _zipped(pack, tmp_path / "pack.zip")

    assert medcat_pack.digest(zipped) == medcat_pack.digest(pack)
    assert medcat_pack.digest(table) != medcat_pack.digest(pack)
    assert MedCat(model_pack=str(zipped)).digest() == MedCat(model_pack=str(pack)).digest()


def test_start__accepts_a_zip_without_a_folder_beside_it(pack: Path, tmp_path: Path) -> None:
    zipped = _zipped(pack, tmp_path / "pack.zip")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "cdb.dat").write_bytes(b"stale")

    running = MedCat(model_pack=str(zipped), sha256=medcat_pack.digest(zipped)).load()

    assert found(running, "lung cancer") == [("lung cancer", "Disease")]
    (tmp_path / "cache" / "packs" / medcat_pack.digest(zipped) / "model_card.json").write_text("{}")
    with pytest.raises(
        AnnotateError,
        match=r"expected the files of pack\.zip with the digest [0-9a-f]{16}, got files with "
        r"[0-9a-f]{16}; delete this folder",
    ):
        MedCat(model_pack=str(zipped)).start()


def test_start__accepts_the_sha256_of_a_zip(pack: Path, tmp_path: Path) -> None:
    zipped = _zipped(pack, tmp_path / "pack.zip")

    copy = medcat_pack.checked(zipped, hash_file(zipped).upper())

    assert medcat_pack.digest(copy) == medcat_pack.digest(pack)


def _zipped(pack: Path, path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in pack.rglob("*"):
            archive.write(file, file.relative_to(pack))
    return path


class _Evil:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return (Path.touch, (self.target,))


@pytest.mark.parametrize("file", ["cdb.dat", "cdb/raw_dict.dat"])
def test_start__does_not_unpickle_another_pack(file: str, tmp_path: Path) -> None:
    import pickle

    evil, touched = tmp_path / "evil", tmp_path / "touched"
    (evil / file).parent.mkdir(parents=True)
    (evil / file).write_bytes(pickle.dumps(_Evil(touched)))

    with pytest.raises(
        AnnotateError,
        match=f"expected a pack with sha256 {'0' * 64}, got .*nothing was loaded",
    ):
        MedCat(model_pack=str(evil), sha256="0" * 64).start()

    assert not touched.exists()


@pytest.mark.parametrize("name", ["../out", "/out", "a/../../out", "C:\\out"])
def test_start__unpacks_nothing_outside_its_folder(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "pack.zip", "w") as archive:
        archive.writestr(name, "x")

    with pytest.raises(
        AnnotateError,
        match=r"pack\.zip: member '.*': expected a path inside the archive; not unpacked",
    ):
        MedCat(model_pack=str(tmp_path / "pack.zip")).start()


def test_start__rejects_a_bomb(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "pack.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cdb/raw_dict.dat", bytes(65 << 20))

    with pytest.raises(AnnotateError, match=r"pack\.zip: .*nothing was loaded"):
        MedCat(model_pack=str(tmp_path / "pack.zip")).start()


def test_start__rejects_other_files(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "torn.zip").write_bytes(b"PK\x03\x04")
    write_table(tmp_path / "names.csv", "id,label\n1,x\n")
    write_table(tmp_path / "open.csv", 'cui,name\n1,"asthma\n2,cough\n')
    for name, message in [
        ("", "no model_pack given; pass --set annotate.model_pack=PACK"),
        (str(tmp_path / "none"), "no such file or folder; pass a MedCAT model pack"),
        (
            str(tmp_path / "folder"),
            "not a MedCAT model pack, it has neither a folder cdb nor a file cdb.dat",
        ),
        (
            str(tmp_path / "torn.zip"),
            "expected a whole, unencrypted tar or zip archive, got BadZipFile",
        ),
        (str(tmp_path / "names.csv"), "expected a table with the columns cui, name"),
        (str(tmp_path / "open.csv"), r"open\.csv:2: expected a row of a table"),
    ]:
        with pytest.raises(AnnotateError, match=message):
            MedCat(model_pack=name).start()


def test_start__rejects_packs_without_types_of_the_table(tmp_path: Path) -> None:
    snomed = write_table(
        tmp_path / "snomed.csv", "cui,name,type_ids\n22298006,myocardial infarction,9090192\n"
    )
    untyped = write_table(tmp_path / "untyped.csv", "cui,name\n1,myocardial infarction\n")

    with pytest.raises(
        AnnotateError, match="got 1 concepts with types such as 9090192; SNOMED packs have no UMLS"
    ):
        MedCat(model_pack=str(snomed)).start()
    with pytest.raises(AnnotateError, match="got 1 concepts with no types"):
        MedCat(model_pack=str(untyped)).start()


def test_start__accepts_a_custom_type_table(tmp_path: Path) -> None:
    snomed = write_table(
        tmp_path / "snomed.csv", "cui,name,type_ids\n22298006,myocardial infarction,9090192\n"
    )
    types = tmp_path / "snomed.toml"
    types.write_text('labels = ["Disorder"]\n[[type]]\ntui = "9090192"\nlabel = "Disorder"\n')

    running = MedCat(model_pack=str(snomed), types=str(types)).load()

    assert found(running, "myocardial infarction") == [("myocardial infarction", "Disorder")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("labels = [", "expected labels = .* got DecodeError"),
        ('[[type]]\ntui = "T047"\nlabel = "Disease"\n', "missing required field `labels`"),
        (
            'labels = []\n[[type]]\ntui = "T047"\nlabel = "Disease"\n',
            "type T047: expected one of the labels",
        ),
        (
            'labels = ["A", "B"]\n[[type]]\ntui = "T047"\nlabel = "A"\n'
            '[[type]]\ntui = "t047"\nlabel = "B"\n',
            "expected one label for each type, got several for T047",
        ),
    ],
)
def test_start__rejects_other_tables(
    content: str, message: str, table: Path, tmp_path: Path
) -> None:
    (tmp_path / "types.toml").write_text(content)

    with pytest.raises(AnnotateError, match=message):
        MedCat(model_pack=str(table), types=str(tmp_path / "types.toml")).start()
    with pytest.raises(AnnotateError, match=r"annotate\.types: no file 'nothing\.toml'"):
        MedCat(model_pack=str(table), types="nothing.toml").start()


def test_start__converts_packs_of_medcat_1(tmp_path: Path) -> None:
    dill = pytest.importorskip("dill")
    old = tmp_path / "old"
    old.mkdir()
    (old / "cdb.dat").write_bytes(dill.dumps({"cdb": _OLD}))
    (old / "vocab.dat").write_bytes(dill.dumps({"vocab": {"lung": {"cnt": 3, "vec": None}}}))
    (old / "config.json").write_text(json.dumps(_OLD_CONFIG))

    running = MedCat(model_pack=str(old), sha256=medcat_pack.digest(old)).load()

    assert found(running, "lung cancer") == [("lung cancer", "Disease")]
    with pytest.raises(AnnotateError, match="got one of MedCAT 1; convert it once"):
        MedCat(model_pack=str(old), sha256=medcat_pack.digest(old), tokenizer="pack").start()


_OLD = {
    "name2cuis": {"lung~cancer": ["C99"]}, "name2cuis2status": {"lung~cancer": {"C99": "P"}},
    "name2count_train": {}, "name_isupper": {}, "snames": {"lung", "lung~cancer"},
    "cui2names": {"C99": {"lung~cancer"}}, "cui2snames": {"C99": {"lung", "lung~cancer"}},
    "cui2context_vectors": {}, "cui2count_train": {}, "cui2tags": {}, "cui2type_ids": {"C99": {"T191"}},
    "cui2preferred_name": {"C99": "Lung cancer"}, "cui2average_confidence": {},
    "addl_info": {"type_id2name": {"T191": "Neoplastic Process"}}, "vocab": {},
}  # fmt: skip
"""Attributes pickled by MedCAT 1, as `medcat.utils.legacy.convert_cdb` reads them."""

_OLD_CONFIG = {
    "cdb_maker": {}, "preprocessing": {"keep_punct": {"==SET==": [".", ":"]}}, "linking": {"filters": {"cuis": {}}},
    "ner": {"min_name_len": 3}, "general": {"spacy_model": "en_core_web_md", "spacy_disabled_components": []},
    "annotation_output": {},
}  # fmt: skip
