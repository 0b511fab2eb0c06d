"""A build has the same bytes under every disturbance, and the same rows for any unit size.

Other disturbances need more than one process: tests/faults kills builds at any call, kills their
workers and cuts the power, tests/engine/test_ray.py builds with Ray. State that is damaged while no
build runs: test_damaged_state.py.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
from mslm_data.errors import BuildError, ShardError
from mslm_data.io.files import SUFFIX
from tests import made
from tests.builds import everything
from tests.builds.inputs import jsonl, lines_of
from tests.faults.corpora import CORPORA
from tests.support.build_tasks import Interruption, at_task, interrupt, tasks_run
from tests.support.cases import long

Disturbance = Callable[[Path, Path], object]
"""Builds a corpus, the first argument, into a folder, the second, and is disturbed."""

# The law: the same bytes under every disturbance --------------------------------------------------


def workers(number: int) -> Disturbance:
    return lambda corpus, out: everything.build(corpus, out, workers=number)


def of_files_elsewhere(_: Path, out: Path) -> None:
    """The files are given, with other times, for an empty folder behind a link."""
    inputs = everything.write(out.parent / "some where")
    for path in inputs.iterdir():
        os.utime(path, (0, 0))
    (out.parent / "empty").mkdir()
    out.symlink_to("empty")

    everything.build(inputs, out, files=sorted(inputs.iterdir()))
    assert out.is_symlink()


def of_moved_inputs(_: Path, out: Path) -> None:
    """Parts of a build may run on machines that see the inputs elsewhere."""
    inputs = everything.write(out.parent / "one")
    everything.build(inputs, out, part=(1, 2))
    assert str(inputs).encode() not in (out / ".build" / "plan.json").read_bytes()
    moved = (out.parent / "one").rename(out.parent / "other")

    everything.build(moved / "in", out)


def parts(*given: tuple[int, int]) -> Disturbance:
    def build(corpus: Path, out: Path) -> None:
        for part in given:
            assert everything.build(corpus, out, part=part) is None
            with pytest.raises(ShardError, match=r"no manifest\.json found; .* run the same build"):
                load(out)

        with tasks_run() as tasks:
            everything.build(corpus, out)
        units = sum(isinstance(task, BuildUnit) for task in tasks)
        assert (units == 0) == ({*given} == {(1, 3), (2, 3), (3, 3)})

    return build


def parts_that_start_together(corpus: Path, out: Path) -> None:
    """They plan once."""

    def wait(task: Task) -> None:
        if isinstance(task, Cut):
            time.sleep(0.2)  # the others wait for the plan

    with (
        pytest.MonkeyPatch.context() as patch,
        tasks_run(before=wait) as tasks,
        ThreadPoolExecutor() as pool,
    ):
        patch.setattr(plan, "UNIT_BYTES", everything.UNIT_BYTES)
        jobs = [pool.submit(everything.build, corpus, out, part=(n, 4)) for n in range(1, 5)]
        assert [job.result() for job in jobs] == [None] * 4

    kinds = Counter(type(task) for task in tasks)
    assert kinds[Cut] == kinds[FindDrops] == 1
    everything.build(corpus, out)


def a_part_beside_another(corpus: Path, out: Path) -> None:
    with at_task(BuildUnit, 1, lambda: everything.build(corpus, out, part=(2, 2))):
        everything.build(corpus, out, part=(1, 2))

    everything.build(corpus, out)


def refused_beside(kind: type[Any], part: tuple[int, int] | None) -> Disturbance:
    """Another build of the folder, or a part, is refused while the whole builds."""

    def build(corpus: Path, out: Path) -> None:
        def build_another() -> None:
            with pytest.raises(BuildError, match="another build is running in this folder; wait"):
                everything.build(corpus, out, part=part)

        with pytest.MonkeyPatch.context() as patch, at_task(kind, 1, build_another):
            patch.setattr("mslm_data.builds.folder._PATIENCE_S", 0)
            everything.build(corpus, out)

    return build


def interruption(kind: type[Any], number: int, *, after: bool) -> Disturbance:
    def build(corpus: Path, out: Path) -> None:
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

        built = Counter(task.name for task in [*tasks, *more] if isinstance(task, BuildUnit))
        assert max(built.values()) == 1

    return build


def interruption_before_the_manifest(corpus: Path, out: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finish, "write_manifest", lambda *_: interrupt())
        with pytest.raises(Interruption):
            everything.build(corpus, out)

    with tasks_run() as tasks:
        everything.build(corpus, out)
    assert not any(isinstance(task, BuildUnit) for task in tasks)


def twice(kind: type[Any]) -> Disturbance:
    """A task is repeated if its process died before it answered."""

    def build(corpus: Path, out: Path) -> None:
        do = BuildWork.__call__

        def run_twice(self: BuildWork, task: Task) -> Any:
            if isinstance(task, kind):
                do(self, task)
            return do(self, task)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BuildWork, "__call__", run_twice)
            everything.build(corpus, out)

    return build


def half_written_files(corpus: Path, out: Path) -> None:
    """Files of killed workers are removed, and no file of the user."""
    folders = (out, out / ".build" / "pieces", out / ".build" / "staging" / "0", out / "train")
    mine = out / ".mine.tmp"

    def leave_files() -> None:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f".half.x{SUFFIX}").touch()
        mine.touch()
        interrupt()

    with at_task(BuildUnit, 2, leave_files), pytest.raises(Interruption):
        everything.build(corpus, out)
    assert not [path for folder in folders for path in folder.glob("*half*")]

    everything.build(corpus, out)
    mine.unlink()  # it is still there


TASKS = [
    (Unpack, 1), (Cut, 1), (ReadUnit, 1), (ReadUnit, 3), (FindDrops, 1), (BuildUnit, 1),
    (BuildUnit, 4), (Digest, 1), (Join, 1), (Join, 2),
]  # fmt: skip
DISTURBANCES: dict[str, Disturbance] = {
    "2 workers": workers(2),
    "5 workers": workers(5),
    "files elsewhere": of_files_elsewhere,
    "moved inputs": of_moved_inputs,
    "parts in order": parts((1, 3), (2, 3), (3, 3)),
    "parts in another order": parts((3, 3), (1, 3), (2, 3)),
    "a part": parts((2, 2)),
    "parts of different numbers": parts((3, 3), (1, 2), (3, 3)),
    "parts that start together": parts_that_start_together,
    "a part beside another": a_part_beside_another,
    **{
        f"refused beside {kind.__name__}, {part}": refused_beside(kind, part)
        for kind in (ReadUnit, BuildUnit)
        for part in (None, (1, 2))
    },
    **{
        f"interrupted {'after' if after else 'before'} {kind.__name__} {number}": interruption(
            kind, number, after=after
        )
        for kind, number in TASKS
        for after in (False, True)
    },
    "interrupted before the manifest": interruption_before_the_manifest,
    **{
        f"{kind.__name__} twice": twice(kind)
        for kind in (Unpack, ReadUnit, FindDrops, BuildUnit, Join)
    },
    "half-written files": half_written_files,
}
DAILY = [name for name in DISTURBANCES if name != "5 workers"]


@pytest.mark.parametrize("name", [*DAILY, *long("5 workers")])
def test_build__has_the_same_bytes(
    name: str, corpus: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "folders" / "that are not there" / "out"

    DISTURBANCES[name](corpus, out)

    assert made.tree(out) == expected


# The same rows ------------------------------------------------------------------------------------


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
