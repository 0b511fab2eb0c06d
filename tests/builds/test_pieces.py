"""Shards of several work units: unit size and interruptions do not change the bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mslm_data.builds.worker import BuildWorker

from mslm_data.api.loading import load
from mslm_data.builds import duplicate_ids, scan, work_unit, worker
from mslm_data.builds.tasks import Join, Task, WorkUnit
from mslm_data.builds.verify import verify
from mslm_data.errors import BuildError
from mslm_data.io import resources
from mslm_data.shard import pieces
from tests import made
from tests.builds.test_accounts import bare_pipeline, json_pipeline, jsonl, lines_of
from tests.faults.corpora import CORPORA, Corpus

SIZES = (150, 900)
"""Sizes of a work unit in bytes, for one or two records and for several."""


def one_shard(name: str) -> Corpus:
    """Return a corpus with one shard per file at any unit size."""
    corpus = CORPORA[name]
    shard = corpus.pipeline.shard.__class__(unit_bytes=1 << 20)
    return corpus._replace(pipeline=corpus.pipeline.__class__(**{
        **{field: getattr(corpus.pipeline, field) for field in corpus.pipeline.__dataclass_fields__},
        "shard": shard,
    }))  # fmt: skip


def units_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the work units that are built from now on."""
    names: list[str] = []
    build_unit = worker.build_unit

    def noted(unit: WorkUnit, *more: Any) -> None:
        names.append(unit.name)
        build_unit(unit, *more)

    monkeypatch.setattr(worker, "build_unit", noted)
    return names


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CORPORA)
def test_build__writes_the_same_bytes_for_any_unit_size(
    name: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = one_shard(name)
    inputs = corpus.write(tmp_path / "in")
    corpus.build(inputs, tmp_path / "whole")
    monkeypatch.setattr(scan, "UNIT_BYTES", size)
    built = units_of(monkeypatch)

    corpus.build(inputs, tmp_path / "out")

    assert len(built) > (4 if size == 150 else 2)
    whole, out = made.tree(tmp_path / "whole"), made.tree(tmp_path / "out")
    # With smaller units, a compressed file is unpacked and recorded by its plain name.
    if name != "notes":
        assert out == whole
    assert {n: d for n, d in out.items() if n.endswith((".arrow", ".jsonl"))} == {
        n: d for n, d in whole.items() if n.endswith((".arrow", ".jsonl"))
    }
    assert not (tmp_path / "out" / ".build").exists()


def test_build__joins_pieces_in_input_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = one_shard("words")
    inputs = words.write(tmp_path / "in")
    words.build(inputs, tmp_path / "whole")
    monkeypatch.setattr(scan, "UNIT_BYTES", 150)
    built = units_of(monkeypatch)

    words.build(inputs, tmp_path / "out", part=(2, 2))
    words.build(inputs, tmp_path / "out")

    train = [name for name in built if name.startswith("train-00000-")]
    assert len(train) > 4
    assert train != sorted(train)
    assert made.tree(tmp_path / "out") == made.tree(tmp_path / "whole")


def stopping(function: Callable[..., Any], at: int) -> Callable[..., Any]:
    """Return a function that is interrupted at one of its calls."""
    calls: list[int] = []

    def stopped(*args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt
        return function(*args, **options)

    return stopped


@pytest.mark.parametrize(
    ("module", "name", "at"),
    [
        (work_unit, "write_piece", 1), (work_unit, "write_piece", 4),
        (work_unit, "write_receipt", 3), (worker, "join", 1), (worker, "join", 2),
        (worker, "write_joined", 1), (worker, "write_joined", 3),
    ],
)  # fmt: skip
def test_build__resumes_after_an_interruption(
    module: Any, name: str, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = one_shard("words")
    inputs = words.write(tmp_path / "in")
    words.build(inputs, tmp_path / "whole")
    monkeypatch.setattr(scan, "UNIT_BYTES", 150)
    built = units_of(monkeypatch)

    with monkeypatch.context() as until_stopped:
        until_stopped.setattr(module, name, stopping(getattr(module, name), at))
        with pytest.raises(KeyboardInterrupt):
            words.build(inputs, tmp_path / "out")
    words.build(inputs, tmp_path / "out")

    assert made.tree(tmp_path / "out") == made.tree(tmp_path / "whole")
    # Only the interrupted unit is built twice.
    assert len(built) - len(set(built)) <= 1


def test_build__repeats_a_join_when_the_worker_died_before_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine repeats the task when the pieces of the shard may be gone."""
    words = one_shard("words")
    inputs = words.write(tmp_path / "in")
    words.build(inputs, tmp_path / "whole")
    do = BuildWorker._do

    def twice(self: BuildWorker, task: Task) -> Any:
        if isinstance(task, Join):
            do(self, task)
        return do(self, task)

    monkeypatch.setattr(BuildWorker, "_do", twice)
    words.build(inputs, tmp_path / "out")

    assert made.tree(tmp_path / "out") == made.tree(tmp_path / "whole")


def test_build__merges_labels_of_units_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"id": str(n), "text": "kinase inhibitor", "entities": [[0, 6, label], [7, 16, other]]}
        for n, (label, other) in enumerate(["ZA", "YZ", "AB", "BY"])
    ]
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows)
    pipeline = json_pipeline(unit_bytes=1 << 20)
    made.built(tmp_path / "whole", inputs, pipeline)
    monkeypatch.setattr(scan, "UNIT_BYTES", 1)

    manifest = made.built(tmp_path / "out", inputs, pipeline)

    assert manifest.labels == ("A", "B", "Y", "Z")
    train = load(tmp_path / "out")["train"]
    assert [row["span_labels"] for row in (train[i] for i in range(4))] == [
        [3, 0], [2, 3], [0, 1], [1, 2]
    ]  # fmt: skip
    assert made.tree(tmp_path / "out") == made.tree(tmp_path / "whole")
    assert verify(tmp_path / "out")[1] == []


# Repeated ids -------------------------------------------------------------------------------------


@pytest.fixture
def repeated(tmp_path: Path) -> Path:
    rows = [{"id": str(n % 7), "text": f"kinase inhibitors {n}"} for n in range(10)]
    return jsonl(tmp_path / "in", "train.jsonl", *rows)


@pytest.mark.parametrize("stop", [None, "joins", "again"])
def test_build__sets_aside_ids_shared_by_units_of_a_shard(
    stop: str | None, repeated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = bare_pipeline(unit_bytes=1 << 20)
    made.built(tmp_path / "whole", repeated, pipeline)
    monkeypatch.setattr(scan, "UNIT_BYTES", 1)

    if stop:
        with monkeypatch.context() as until_stopped:
            module, name, at = (
                (worker, "join", 1) if stop == "joins" else (worker, "build_unit", 12)
            )
            until_stopped.setattr(module, name, stopping(getattr(module, name), at))
            with pytest.raises(KeyboardInterrupt):
                made.built(tmp_path / "out", repeated, pipeline)
    made.built(tmp_path / "out", repeated, pipeline)

    assert made.tree(tmp_path / "out") == made.tree(tmp_path / "whole")
    assert [line["id"] for line in lines_of(tmp_path / "out")] == ["0", "1", "2"]


def test_build__repeats_a_unit_with_repeated_ids_unchanged(
    repeated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, out = bare_pipeline(unit_bytes=1 << 20), tmp_path / "out"
    made.built(tmp_path / "whole", repeated, pipeline)
    monkeypatch.setattr(scan, "UNIT_BYTES", 1)
    with monkeypatch.context() as until_stopped:
        until_stopped.setattr(worker, "join", stopping(worker.join, 1))
        with pytest.raises(KeyboardInterrupt):
            made.built(out, repeated, pipeline)
    (out / ".build" / "pieces" / "train-00000-00008.arrow").unlink()

    made.built(out, repeated, pipeline)

    assert made.tree(out) == made.tree(tmp_path / "whole")


def test_build__distinguishes_ids_with_equal_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = one_shard("words")
    inputs = words.write(tmp_path / "in")
    words.build(inputs, tmp_path / "whole")
    monkeypatch.setattr(scan, "UNIT_BYTES", 150)
    hash_rows = pieces.hash_rows

    def hash_badly(text: Any, offsets: Any, hashes: Any) -> None:
        hash_rows(text, offsets, hashes)
        hashes %= 3

    monkeypatch.setattr(pieces, "hash_rows", hash_badly)

    words.build(inputs, tmp_path / "out")

    assert made.tree(tmp_path / "out") == made.tree(tmp_path / "whole")


@pytest.mark.parametrize("at_once", [1, 3, 1_000])
def test_build__finds_repeated_ids_for_any_number_of_shares(
    repeated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    pipeline = bare_pipeline(unit_bytes=1 << 20)
    made.built(tmp_path / "whole", repeated, pipeline)
    monkeypatch.setattr(scan, "UNIT_BYTES", 1)
    monkeypatch.setattr(duplicate_ids, "COMPARED_AT_ONCE", at_once)

    made.built(tmp_path / "out", repeated, pipeline)

    assert made.tree(tmp_path / "out") == made.tree(tmp_path / "whole")
    assert [line["id"] for line in lines_of(tmp_path / "out")] == ["0", "1", "2"]


def test_build__rejects_ids_shared_by_units_of_two_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jsonl(tmp_path / "in", "train-a.jsonl", {"id": "1", "text": "kinase"})
    inputs = jsonl(tmp_path / "in", "train-b.jsonl", {"id": "1", "text": "kinase"})
    monkeypatch.setattr(scan, "UNIT_BYTES", 1)

    with pytest.raises(BuildError, match=r"document id .* is also in "):
        made.built(tmp_path / "out", inputs, json_pipeline(unit_bytes=1 << 20))


@pytest.mark.parametrize("size", [1, 130, 1000])
def test_build__rejects_ids_shared_with_a_neighbour_of_a_large_file(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of the large file shares no unit with a small file before or after it."""
    for name, ids in (("a", "x"), ("b", "123456"), ("c", "x")):
        rows = [{"id": doc_id, "text": "kinase"} for doc_id in ids]
        inputs = jsonl(tmp_path / "in", f"train-{name}.jsonl", *rows)
    monkeypatch.setattr(scan, "UNIT_BYTES", size)

    with pytest.raises(BuildError, match=r"c\.jsonl: document id x is also in .*a\.jsonl"):
        made.built(tmp_path / "out", inputs, json_pipeline(unit_bytes=1 << 20))


def test_build__names_the_files_of_a_shared_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, doc_id in (("a", "1"), ("b", "2"), ("c", "3"), ("d", "2")):
        inputs = jsonl(tmp_path / "in", f"train-{name}.jsonl", {"id": doc_id, "text": "kinase"})
    monkeypatch.setattr(scan, "UNIT_BYTES", 2 * (inputs / "train-a.jsonl").stat().st_size)

    with pytest.raises(BuildError, match=r"d\.jsonl: document id 2 is also in .*b\.jsonl"):
        made.built(tmp_path / "out", inputs, json_pipeline(unit_bytes=1 << 20))


def test_build__sample_of_notes_has_one_piece_per_split() -> None:
    """The unit size was chosen so that small corpora are one unit."""
    size = resources.path("vocab", "sample/mimic/NOTEEVENTS.csv").stat().st_size

    assert size < scan.UNIT_BYTES
