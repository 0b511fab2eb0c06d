"""A build has the same bytes for any workers, unit sizes, parts and interruptions."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mslm_data.api.loading import load
from mslm_data.builds import finish, plan
from mslm_data.builds.tasks import (
    BuildUnit,
    Cut,
    Digest,
    FindDrops,
    Join,
    ReadUnit,
    Task,
    Unpack,
)
from mslm_data.builds.work import BuildWork
from mslm_data.errors import ShardError
from mslm_data.io.files import SUFFIX
from tests import made
from tests.builds import everything
from tests.builds.inputs import jsonl, lines_of
from tests.faults.corpora import CORPORA
from tests.support.build_tasks import Interruption, at_task, interrupt, tasks_run
from tests.support.cases import long

# Workers, parts and unit sizes --------------------------------------------------------------------


@pytest.mark.parametrize("workers", [2, *long(5)])
def test_build__has_the_same_bytes_for_any_number_of_workers(
    workers: int, corpus: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    everything.build(corpus, tmp_path / "out", workers=workers)

    assert made.tree(tmp_path / "out") == expected


@pytest.mark.parametrize("place", ["a/b/other", "empty", "link"])
def test_build__has_the_same_bytes_wherever_its_input_and_folder_are(
    place: str, expected: dict[str, bytes], tmp_path: Path
) -> None:
    inputs = everything.write(tmp_path / "some where")
    for path in inputs.iterdir():
        os.utime(path, (0, 0))
    files = sorted(inputs.iterdir()) if place == "empty" else ()
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")

    everything.build(inputs, tmp_path / place, files=files)

    assert made.tree(tmp_path / place) == expected
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize(
    "parts",
    [[(1, 3), (2, 3), (3, 3)], [(3, 3), (1, 3), (2, 3)], [(2, 2)], [(3, 3), (1, 2), (3, 3)]],
)
def test_build__has_the_same_bytes_after_any_parts(
    parts: list[tuple[int, int]], corpus: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for part in parts:
        assert everything.build(corpus, out, part=part) is None
        with pytest.raises(ShardError, match=r"no manifest\.json found; .* run the same build"):
            load(out)

    with tasks_run() as tasks:
        everything.build(corpus, out)

    assert made.tree(out) == expected
    units = sum(isinstance(task, BuildUnit) for task in tasks)
    assert (units == 0) == ({*parts} == {(1, 3), (2, 3), (3, 3)})


@pytest.mark.parametrize(
    ("unit_bytes", "shard_bytes"), [(1, 1), (800, 1 << 20), (1 << 20, 3000), (1 << 20, 500)]
)
def test_build__has_the_same_rows_for_any_unit_and_shard_size(
    unit_bytes: int, shard_bytes: int, corpus: Path, whole: Path, tmp_path: Path
) -> None:
    pipeline = everything.pipeline_of(corpus, unit_bytes=shard_bytes)

    manifest = everything.build(corpus, tmp_path / "out", pipeline, unit_bytes=unit_bytes)

    assert manifest
    assert (len(manifest.splits["train"].shards) > 1) == (shard_bytes < 1 << 20)
    expected, found = load(whole), load(tmp_path / "out")
    for split in expected.splits:
        assert [*found[split]] == [*expected[split]]
    assert lines_of(tmp_path / "out") == lines_of(whole)


@pytest.mark.parametrize("unit_bytes", [150, 900])
@pytest.mark.parametrize("name", CORPORA)
def test_build__has_the_same_rows_for_any_unit_size(
    name: str, unit_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = CORPORA[name]
    inputs = corpus.write(tmp_path / "in")
    trees = []
    for size in (1 << 20, unit_bytes):
        monkeypatch.setattr(plan, "UNIT_BYTES", size)
        with tasks_run() as tasks:
            made.built(tmp_path / f"out{size}", inputs, corpus.one_shard)
        trees.append(made.tree(tmp_path / f"out{size}"))

    assert sum(isinstance(task, BuildUnit) for task in tasks) > (4 if unit_bytes == 150 else 2)
    whole, in_units = (
        {file: data for file, data in tree.items() if file.endswith((".arrow", ".jsonl"))}
        for tree in trees
    )
    assert in_units == whole


def test_build__numbers_labels_of_units_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first unit has the labels A and Z, the second Y and Z."""
    rows = [
        {"id": str(n), "text": "kinase inhibitor", "entities": [[0, 6, label], [7, 16, other]]}
        for n, (label, other) in enumerate([("Z", "A"), ("Y", "Z"), ("A", "B"), ("B", "Y")])
    ]
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows)
    monkeypatch.setattr(plan, "UNIT_BYTES", 1)

    manifest = made.built(tmp_path / "out", inputs, made.pipeline_of(source={"use": "jsonl"}))

    assert manifest.labels == ("A", "B", "Y", "Z")
    train = load(tmp_path / "out")["train"]
    assert [train[row]["span_labels"] for row in range(4)] == [[3, 0], [2, 3], [0, 1], [1, 2]]


# Interruptions ------------------------------------------------------------------------------------

TASKS = [
    (Unpack, 1), (Cut, 1), (ReadUnit, 1), (ReadUnit, 3), (FindDrops, 1), (BuildUnit, 1),
    (BuildUnit, 4), (Digest, 1), (Join, 1), (Join, 2),
]  # fmt: skip


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("kind", "number"), TASKS)
def test_build__resumes_after_an_interruption_at_any_task(
    kind: type[Any],
    number: int,
    after: bool,
    corpus: Path,
    expected: dict[str, bytes],
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"

    with (
        tasks_run() as tasks,
        at_task(kind, number, interrupt, after=after),
        pytest.raises(Interruption),
    ):
        everything.build(corpus, out)
    with pytest.raises(ShardError):
        load(out)
    with tasks_run() as more:
        everything.build(corpus, out)

    assert made.tree(out) == expected
    built = Counter(task.name for task in [*tasks, *more] if isinstance(task, BuildUnit))
    assert max(built.values()) == 1 or [*built.values()].count(2) == 1


def test_build__resumes_after_an_interruption_before_the_manifest(
    corpus: Path, expected: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(finish, "write_manifest", lambda *_: interrupt())
        with pytest.raises(Interruption):
            everything.build(corpus, out)

    with tasks_run() as tasks:
        everything.build(corpus, out)

    assert made.tree(out) == expected
    assert not any(isinstance(task, BuildUnit) for task in tasks)


@pytest.mark.parametrize("kind", [Unpack, ReadUnit, FindDrops, BuildUnit, Join])
def test_build__may_run_any_task_twice(
    kind: type[Any],
    corpus: Path,
    expected: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task is repeated if its process died before it answered."""
    do = BuildWork.__call__

    def twice(self: BuildWork, task: Task) -> Any:
        if isinstance(task, kind):
            do(self, task)
        return do(self, task)

    monkeypatch.setattr(BuildWork, "__call__", twice)
    everything.build(corpus, tmp_path / "out")

    assert made.tree(tmp_path / "out") == expected


def test_build__removes_half_written_files_of_killed_workers(
    corpus: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    folders = (out, out / ".build" / "pieces", out / ".build" / "staging" / "0", out / "train")
    others = out / ".mine.tmp"

    def leave_files() -> None:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f".half.x{SUFFIX}").touch()
        others.touch()
        interrupt()

    with at_task(BuildUnit, 2, leave_files), pytest.raises(Interruption):
        everything.build(corpus, out)
    assert made.tree(out).keys() & {".mine.tmp"}
    assert not [path for folder in folders for path in folder.glob("*half*")]

    everything.build(corpus, out)

    assert made.tree(out) == {**expected, ".mine.tmp": b""}
