"""Work units: batches, models and compressed files."""

from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mslm_data.annotate.gold import Gold
from mslm_data.annotate.terms.annotator import Terms
from mslm_data.api.loading import load
from mslm_data.builds import decontaminate, plan, scan, stages
from mslm_data.builds.stages import load_annotator
from mslm_data.builds.tasks import BuildUnit, Unpack
from mslm_data.builds.work import load_stages
from mslm_data.encode.encoder import Encoder
from mslm_data.errors import SourceError
from mslm_data.pipeline import AnnotateOptions
from mslm_data.registry import Registry
from tests import made
from tests.faults.corpora import CORPORA
from tests.stats.test_overlap import folder_of
from tests.support.build_tasks import tasks_run

NCBI = made.SAMPLE / "ncbi-disease"


# Batches ------------------------------------------------------------------------------------------


def test_build__batches_go_over_the_ends_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost of a call does not count for each file."""
    (tmp_path / "in").mkdir()
    for number in range(1000):
        (tmp_path / "in" / f"{number:04d}.txt").write_text(f"Aspirin helps patient x{number}.\n")
    calls: list[str] = []
    for kind, name in ((Gold, "annotate"), (Encoder, "encode")):
        real = getattr(kind, name)

        def count(self: Any, *given: Any, real: Any = real, name: str = name) -> Any:
            calls.append(name)
            return real(self, *given)

        monkeypatch.setattr(kind, name, count)
    source = {"use": "text", "documents": "file"}
    pipeline = made.pipeline_of(source=source, segment="clinical")

    manifest = made.built(tmp_path / "out", tmp_path / "in", pipeline)

    assert manifest.splits["train"].written == 1000
    assert calls.count("annotate") == calls.count("encode") < 4


# Models -------------------------------------------------------------------------------------------


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The name of the table at each load."""
    started: list[str] = []
    start = Terms.start

    def count(self: Terms) -> object:
        started.append(Path(self.table).name)
        return start(self)

    monkeypatch.setattr(stages, "_LOADED", {})
    monkeypatch.setattr(Terms, "start", count)
    return started


def test_build__loads_the_model_once_for_all_units(starts: list[str], tmp_path: Path) -> None:
    lines = CORPORA["lines"]

    with tasks_run() as tasks:
        lines.build(lines.write(tmp_path), tmp_path / "out")

    assert sum(isinstance(task, BuildUnit) for task in tasks) > 3
    assert len(starts) == 1


def test_load_annotator__keeps_the_last_annotator_only(starts: list[str], tmp_path: Path) -> None:
    first = AnnotateOptions(use="terms", options={"table": str(made.SAMPLE / "concepts.csv")})
    (tmp_path / "terms.csv").write_text("name,label\nasthma,Disease\n")
    second = AnnotateOptions(use="terms", options={"table": str(tmp_path / "terms.csv")})

    again = load_annotator(first) is load_annotator(first)
    load_annotator(second)
    load_annotator(first)

    assert again
    assert starts == ["concepts.csv", "terms.csv", "concepts.csv"]
    assert len(stages._LOADED) == 1


def test_build__annotates_with_the_table_as_it_is(tmp_path: Path) -> None:
    table = tmp_path / "terms.csv"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "train.txt").write_text("asthma and diabetes")
    pipeline = made.pipeline_of(
        source={"use": "text"},
        annotate={"use": "terms", "table": str(table)},
        segment="clinical",
        labels=["X"],
    )

    manifests = []
    for number, terms in enumerate(["asthma,X\n", "asthma,X\ndiabetes,X\n"]):
        table.write_text(f"name,label\n{terms}")
        manifests.append(made.built(tmp_path / f"out{number}", tmp_path / "in", pipeline))

    first, second = manifests
    assert first.annotator != second.annotator
    assert [manifest.splits["train"].mentions for manifest in manifests] == [1, 2]


@pytest.mark.parametrize("threads", [None, "mine"])
def test_load_stages__loads_what_workers_share(
    threads: str | None, starts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    load_one = Registry.load

    def noted(self: Registry, name: str) -> Any:
        names.append(name)
        return load_one(self, name)

    monkeypatch.setattr(Registry, "load", noted)
    monkeypatch.setattr(decontaminate, "_LOADED", {})
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    if threads:
        monkeypatch.setenv("TOKENIZERS_PARALLELISM", threads)
    (tmp_path / "terms.csv").write_text("name,label\nasthma,Disease\n")
    held_out = str(folder_of(tmp_path / "test_set", ["kinase inhibitors work"]))
    pipeline = made.pipeline_of(
        source={"use": "pubtator", "decontaminate": [held_out]},
        annotate={"use": "terms", "table": str(tmp_path / "terms.csv")},
        segment="clinical",
    )

    load_stages(msgspec.json.encode(pipeline).decode())

    assert starts == ["terms.csv"]
    assert {"pubtator", "clinical"} <= set(names)
    ((folders, (part,)),) = decontaminate._LOADED.items()
    assert folders == (held_out,)
    assert len(part.fingerprints._sentences) == 1
    assert os.environ.get("TOKENIZERS_PARALLELISM") == threads


def test_load_stages__leaves_errors_to_the_workers(starts: list[str], tmp_path: Path) -> None:
    pipeline = made.pipeline_of(
        source={"decontaminate": [str(tmp_path / "nothing")]},
        annotate={"use": "terms", "table": str(tmp_path / "none.csv")},
    )

    load_stages(msgspec.json.encode(pipeline).decode())

    assert stages._LOADED == {}


@pytest.mark.parametrize(
    ("annotate", "expected"),
    [
        ({"use": "gold"}, plan.UNIT_BYTES),
        ({"use": "model", "model": "m", "labels": ["X"]}, plan.SLOW_UNIT_BYTES),
    ],
)
def test_choose_unit_bytes__is_small_for_slow_annotators(
    annotate: dict[str, object], expected: int
) -> None:
    assert plan.choose_unit_bytes(made.pipeline_of(annotate=annotate)) == expected


# Compressed files ---------------------------------------------------------------------------------


def test_build__divides_compressed_files_like_plain_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for path in NCBI.glob("*.tsv"):
        packed = gzip.compress(path.read_bytes(), mtime=0)
        (tmp_path / "in" / f"{path.name}.gz").write_bytes(packed)
    small = made.pipeline_of(unit_bytes=1000)

    plain = made.built(tmp_path / "plain", NCBI, small)
    compressed = made.built(tmp_path / "compressed", tmp_path / "in", small)

    assert len(plain.splits["train"].shards) > 3
    for split, record in plain.splits.items():
        assert compressed.splits[split].shards == record.shards
        assert [source["name"] for source in compressed.splits[split].sources] == [
            f"{source['name']}.gz" for source in record.sources
        ]
    assert not list((tmp_path / "compressed").rglob("staging"))

    with tasks_run() as tasks:
        made.built(tmp_path / "compressed", tmp_path / "in", small)
    assert not any(isinstance(task, Unpack | BuildUnit) for task in tasks)


def test_build__ids_of_unpacked_documents_have_their_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the input is given by a path with dots."""
    for folder in ("note1.txt", "note2.txt"):
        lines = [
            "#FORMAT=WebAnno TSV 3.2",
            "#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|value",
            "",
            "",
        ]
        for number in range(40):
            start = 5 * number
            lines += ["#Text=gout", f"{number + 1}-1\t{start}-{start + 4}\tgout\tDisease\t", ""]
        path = tmp_path / "in" / folder / "CURATION_USER.tsv.gz"
        path.parent.mkdir(parents=True)
        path.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
    pipeline = made.pipeline_of(
        source={
            "use": "webanno",
            "id_from": "folder",
            "concept_feature": "",
            "splits": {"train": ["*/CURATION_USER.tsv*"]},
        },
        segment="clinical",
        unit_bytes=300,
    )
    (tmp_path / "in" / "below").mkdir()
    monkeypatch.chdir(tmp_path / "in" / "below")

    with tasks_run() as tasks:
        made.built(tmp_path / "out", Path(".."), pipeline)

    rows = load(tmp_path / "out")["train"]
    assert {rows[number]["doc_id"] for number in range(len(rows))} == {"note1.txt", "note2.txt"}
    unpacked = {Path(task.into) for task in tasks if isinstance(task, Unpack)}
    assert {path.parent.name for path in unpacked} == {"note1.txt", "note2.txt"}
    assert {path.parents[2].name for path in unpacked} == {"staging"}


def unpacking(tmp_path: Path, data: bytes) -> Unpack:
    path = tmp_path / "train.tsv.gz"
    path.write_bytes(data)
    into = tmp_path / "staging" / "0" / "train.tsv"
    return Unpack(str(path), hashlib.sha256(data).hexdigest(), str(into))


def test_unpack__runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = unpacking(tmp_path, gzip.compress(b"kinase\tO\n"))
    scan.unpack(task)
    monkeypatch.setattr(scan, "write_whole", pytest.fail)

    scan.unpack(task)

    assert Path(task.into).read_bytes() == b"kinase\tO\n"


def test_unpack__reports_a_damaged_file_and_leaves_nothing(tmp_path: Path) -> None:
    task = unpacking(tmp_path, gzip.compress(b"kinase\tO\n" * 50)[:-20])

    with pytest.raises(SourceError, match=r"train\.tsv\.gz: cannot be read"):
        scan.unpack(task)

    assert not [file for file in (tmp_path / "staging").rglob("*") if file.is_file()]
