"""Builds in parts: each reads its own share, and none runs beside a whole build."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mslm_data.builds import plan, scan
from mslm_data.builds.tasks import BuildUnit, Cut, Digest, FindDrops, ReadUnit, Task
from mslm_data.errors import BuildError
from tests import made
from tests.builds import everything
from tests.builds.inputs import jsonl
from tests.support.build_tasks import at_task, tasks_run

PARTS = [(number, 4) for number in range(1, 5)]


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    for file in range(8):
        rows = [{"id": f"{file}-{n}", "text": f"Aspirin helps {file} {n}."} for n in range(50)]
        jsonl(tmp_path / "in", f"train{file}.jsonl", *rows)
    return tmp_path / "in"


@pytest.mark.parametrize("unit_bytes", [1000, 3000])
def test_build__a_part_reads_its_own_share(
    unit_bytes: int, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first part also hashes all files; with 1,000 bytes a unit, it cuts them too."""
    hashed = 0
    hash_file, hash_range = scan.hash_file, scan._hash_range

    def count_file(path: Path) -> str:
        nonlocal hashed
        hashed += path.stat().st_size
        return hash_file(path)

    def count_range(path: Path, start: int, stop: int) -> str:
        nonlocal hashed
        hashed += (path.stat().st_size if stop < 0 else stop) - start
        return hash_range(path, start, stop)

    monkeypatch.setattr(scan, "hash_file", count_file)
    monkeypatch.setattr(scan, "_hash_range", count_range)
    monkeypatch.setattr(plan, "UNIT_BYTES", unit_bytes)
    total = sum(path.stat().st_size for path in inputs.iterdir())
    pipeline = made.pipeline_of(source={"use": "jsonl"}, annotate={"use": "none"})

    shares = []
    units: list[int] = []
    for part in PARTS:
        hashed = 0
        with tasks_run() as tasks:
            made.build(
                pipeline, [inputs], made.word_piece(), tmp_path / "out", workers=1, part=part
            )
        shares.append(hashed / total)
        assert {type(task) for task in tasks} <= {Cut, Digest, BuildUnit}
        units.append(sum(isinstance(task, BuildUnit) for task in tasks))
    made.built(tmp_path / "out", inputs, pipeline)

    assert shares[0] == pytest.approx(1.25 + (unit_bytes == 1000), abs=0.05)
    assert shares[1:] == [pytest.approx(0.25, abs=0.05)] * 3
    assert max(units) - min(units) <= 1
    assert min(units) > 1


def test_build__only_the_first_part_looks_at_all_documents(corpus: Path, tmp_path: Path) -> None:
    kinds = []
    for part in PARTS:
        with tasks_run() as tasks:
            everything.build(corpus, tmp_path / "out", part=part)
        kinds.append({type(task) for task in tasks} & {Cut, ReadUnit, FindDrops})

    assert kinds == [{Cut, ReadUnit, FindDrops}, set(), set(), set()]


def test_build__parts_that_start_together_plan_once(
    corpus: Path,
    expected: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plan, "UNIT_BYTES", everything.UNIT_BYTES)
    out = tmp_path / "out"

    def wait(task: Task) -> None:
        if isinstance(task, Cut):
            time.sleep(0.2)  # the others wait for the plan

    with tasks_run(before=wait) as tasks, ThreadPoolExecutor() as pool:
        parts = [pool.submit(everything.build, corpus, out, part=part) for part in PARTS]
        assert [part.result() for part in parts] == [None] * 4

    kinds = Counter(type(task) for task in tasks)
    assert kinds[Cut] == kinds[FindDrops] == 1
    everything.build(corpus, out)
    assert made.tree(out) == expected


@pytest.mark.parametrize("kind", [ReadUnit, BuildUnit])
@pytest.mark.parametrize("part", [None, (1, 2)])
def test_build__waits_for_no_build_of_the_whole_folder(
    part: tuple[int, int] | None,
    kind: type[Any],
    corpus: Path,
    expected: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mslm_data.builds.folder._PATIENCE_S", 0)
    out = tmp_path / "out"

    def build_another() -> None:
        with pytest.raises(BuildError, match="another build is running in this folder; wait for"):
            everything.build(corpus, out, part=part)

    with at_task(kind, 1, build_another):
        everything.build(corpus, out)

    assert made.tree(out) == expected


def test_build__other_parts_run_while_one_builds(
    corpus: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "out"

    with at_task(BuildUnit, 1, lambda: everything.build(corpus, out, part=(2, 2))):
        everything.build(corpus, out, part=(1, 2))

    everything.build(corpus, out)
    assert made.tree(out) == expected
