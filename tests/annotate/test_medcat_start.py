"""Loading of model packs and tables with MedCAT: accepted and rejected packs."""

from __future__ import annotations

import csv
import json
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mslm_data.annotate.medcat import pack as medcat_pack
from mslm_data.annotate.medcat.annotator import MedCat
from mslm_data.annotate.terms.annotator import Terms
from mslm_data.data.document import Document
from mslm_data.errors import AnnotateError
from mslm_data.io import resources
from tests import made
from tests.annotate.medcat_made import found, load, make_pack, write_table
from tests.cli.running import run

pytest.importorskip("medcat")
pytestmark = pytest.mark.usefixtures("private_cache")


_SEEDED = """
import json, socket, sys

def refuse(*args, **options):
    raise SystemExit(3)

socket.socket.connect = refuse
socket.getaddrinfo = refuse
socket.create_connection = refuse

from pathlib import Path
from mslm_data.data.document import Document
from tests.annotate.medcat_made import load, notes

running = load(Path(sys.argv[1]))
documents = [Document(id="", text=text) for text in notes(40, seed=1)]
print(json.dumps([one.spans for one in running.find(documents)]))
"""
"""Annotates notes in a separate process, which exits with code 3 if it asks for the network."""


class Ended(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def processes(pack: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Ended]]:
    """The home folder of two processes with different hash seeds, and their results."""
    home = tmp_path_factory.mktemp("home")
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _SEEDED, str(pack)],
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
        for seed in ("1", "2")
    ]
    outputs = [process.communicate() for process in started]
    return home, [
        Ended(process.returncode, *output) for process, output in zip(started, outputs, strict=True)
    ]


@pytest.mark.long
def test_annotate__is_the_same_in_every_process(processes: tuple[Path, list[Ended]]) -> None:
    first, second = (ended.out for ended in processes[1])

    assert first == second
    assert sum(map(len, json.loads(first))) > 50


def test_start__needs_no_network(processes: tuple[Path, list[Ended]]) -> None:
    home, ended = processes

    assert [(one.code, one.err) for one in ended] == [(0, "")] * 2
    assert not list(home.glob("**/medcat_version.json"))


def test_load__finds_the_names_of_the_table_of_the_manual(tmp_path: Path) -> None:
    made_table = run(
        "vocab", "concepts", "--from", resources.path("vocab", "sample/concepts.csv"), "--common-words", "keep",
        "--out", tmp_path / "terms.csv",
    )  # fmt: skip
    page = (Path(__file__).parents[2] / "docs" / "annotators.md").read_text("utf-8")
    program = page.split("## MedCAT\n")[1].split("```python\n")[1].split("```")[0]
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "MEDCAT_DISABLE_VERSION_CHECK": "true"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (made_table.code, done.returncode) == (0, 0), done.stderr
    with resources.path("vocab", "sample/mimic/NOTEEVENTS.csv").open(newline="") as file:
        texts = [row["TEXT"] for row in csv.DictReader(file)]
    documents = [Document(id=str(number), text=text) for number, text in enumerate(texts)]

    by_medcat = load(tmp_path / "pack").find(documents)
    terms = Terms(table=str(tmp_path / "terms.csv"), plurals=True, case="short")
    by_terms = made.annotated(terms.start(), documents)

    assert [made.flat(one.spans)[0] for one in by_medcat] == [
        made.flat(one.spans)[0] for one in by_terms
    ]
    assert sum(len(made.flat(one.spans)[0]) for one in by_terms) == 1168


def test_digest__is_the_same_for_a_zip_and_its_files(pack: Path, tmp_path: Path) -> None:
    zipped = _zipped(pack, tmp_path / "pack.zip")
    sha256 = medcat_pack.digest(pack)

    assert medcat_pack.digest(zipped) == sha256
    assert (
        MedCat(model_pack=str(zipped), sha256=sha256).digest()
        == MedCat(model_pack=str(pack), sha256=sha256).digest()
    )


def test_start__accepts_a_zip_without_a_folder_beside_it(pack: Path, tmp_path: Path) -> None:
    zipped = _zipped(pack, tmp_path / "pack.zip")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "cdb.dat").write_bytes(b"stale")

    running = load(zipped)

    assert found(running, "lung cancer") == [("lung cancer", "Disease")]
    (tmp_path / "cache" / "packs" / medcat_pack.digest(zipped) / "model_card.json").write_text("{}")
    with pytest.raises(
        AnnotateError,
        match=r"expected the files of pack\.zip with the digest [0-9a-f]{16}, got files with "
        r"[0-9a-f]{16}; delete this folder",
    ):
        load(zipped)


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


def test_start__does_not_unpickle_another_pack(tmp_path: Path) -> None:
    import pickle

    evil, touched = tmp_path / "evil", tmp_path / "touched"
    (evil / "cdb").mkdir(parents=True)
    (evil / "cdb" / "raw_dict.dat").write_bytes(pickle.dumps(_Evil(touched)))

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


def rewritten(name: str, value: object) -> Callable[[Path], object]:
    return lambda pack: (pack / name).write_bytes(pickle.dumps(value))


@pytest.mark.parametrize(
    "damage",
    [
        rewritten("cdb/raw_dict.dat", 7),
        rewritten("vocab/raw_dict.dat", ["not", "a", "vocabulary"]),
        lambda pack: (pack / "cdb/raw_dict.dat").write_bytes(b"x"),
        lambda pack: shutil.copy(pack / "vocab/.schema.json", pack / "cdb/.schema.json"),
        lambda pack: shutil.rmtree(pack / "cdb/config"),
        lambda pack: (pack / "model_card.json").write_text("["),
    ],
)
def test_start__names_a_pack_whose_parts_are_no_model(
    damage: Callable[[Path], object], pack: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "damaged"
    shutil.copytree(pack, copy)
    damage(copy)

    with pytest.raises(AnnotateError, match=r"damaged: expected a pack that MedCAT \S+ can load"):
        load(copy)


def test_start__rejects_other_files(tmp_path: Path) -> None:
    (tmp_path / "torn.zip").write_bytes(b"PK\x03\x04")
    for name, message in [
        ("", "no model_pack given; pass --set annotate.model_pack=PACK"),
        (str(tmp_path / "none"), "expected a model pack of MedCAT 2, a folder or zip, found none"),
        (
            str(tmp_path / "torn.zip"),
            "expected a whole, unencrypted tar or zip archive, got BadZipFile",
        ),
    ]:
        with pytest.raises(AnnotateError, match=message):
            MedCat(model_pack=name).start()


def test_start__needs_concepts_with_types_of_the_table(tmp_path: Path) -> None:
    table = write_table(
        tmp_path / "snomed.csv", "cui,name,type_ids\n22298006,myocardial infarction,9090192\n"
    )
    snomed = make_pack(table, tmp_path / "snomed")
    table = write_table(tmp_path / "untyped.csv", "cui,name\n1,myocardial infarction\n")
    untyped = make_pack(table, tmp_path / "untyped")
    types = tmp_path / "snomed.toml"
    types.write_text('labels = ["Disorder"]\n[[type]]\ntui = "9090192"\nlabel = "Disorder"\n')

    with pytest.raises(
        AnnotateError, match="got 1 concepts with types such as 9090192; SNOMED packs have no UMLS"
    ):
        load(snomed)
    with pytest.raises(AnnotateError, match="got 1 concepts with no types"):
        load(untyped)
    running = load(snomed, types=str(types))
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
def test_start__rejects_other_tables(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "types.toml").write_text(content)

    with pytest.raises(AnnotateError, match=message):
        MedCat(types=str(tmp_path / "types.toml")).start()
    with pytest.raises(AnnotateError, match=r"annotate\.types: no file 'nothing\.toml'"):
        MedCat(types="nothing.toml").start()
