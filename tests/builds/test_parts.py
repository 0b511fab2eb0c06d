"""Builds in parts: each reads its own share, and none runs beside a whole build."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from mslm_data.builds import plan, scan
from mslm_data.builds.tasks import Cut, FindDrops, ReadUnit
from mslm_data.data.documents import Documents
from mslm_data.errors import BuildError
from mslm_data.source.formats.jsonl import JsonLines
from tests import made
from tests.builds import everything
from tests.support.build_tasks import at_task, tasks_run

PARTS = [(number, 4) for number in range(1, 5)]


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for file in range(8):
        rows = [{"id": f"{file}-{n}", "text": f"Aspirin helps {file} {n}."} for n in range(50)]
        (folder / f"train{file}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


@pytest.mark.parametrize("unit_bytes", [1000, 3000])
def test_build__a_part_reads_its_own_share(
    unit_bytes: int, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first part also hashes all files; with 1,000 bytes a unit, it cuts them too."""
    hashed = documents = 0
    hash_file, hash_range, batches = scan.hash_file, scan._hash_range, JsonLines.batches

    def count_file(path: Path) -> str:
        nonlocal hashed
        hashed += path.stat().st_size
        return hash_file(path)

    def count_range(path: Path, start: int, stop: int) -> str:
        nonlocal hashed
        hashed += (path.stat().st_size if stop < 0 else stop) - start
        return hash_range(path, start, stop)

    def count_batches(self: JsonLines, part: Any) -> Any:
        nonlocal documents
        for record in batches(self, part):
            documents += len(record) if isinstance(record, Documents) else 1
            yield record

    monkeypatch.setattr(scan, "hash_file", count_file)
    monkeypatch.setattr(scan, "_hash_range", count_range)
    monkeypatch.setattr(JsonLines, "batches", count_batches)
    monkeypatch.setattr(plan, "UNIT_BYTES", unit_bytes)
    total = sum(path.stat().st_size for path in inputs.iterdir())
    pipeline = made.pipeline_of(source={"use": "jsonl"}, annotate={"use": "none"})

    shares = []
    for part in PARTS:
        hashed = documents = 0
        made.build(pipeline, [inputs], made.word_piece(), tmp_path / "out", workers=1, part=part)
        shares.append((hashed / total, documents / 400))
    made.built(tmp_path / "out", inputs, pipeline)

    is_cut = unit_bytes == 1000
    assert shares[0] == pytest.approx((1.25 + is_cut, 0.25), abs=0.05)
    assert shares[1:] == [pytest.approx((0.25, 0.25), abs=0.05)] * 3


def test_build__only_the_first_part_looks_at_all_documents(tmp_path: Path) -> None:
    inputs = everything.write(tmp_path)
    kinds = []
    for part in PARTS:
        with tasks_run() as tasks:
            everything.build(inputs, tmp_path / "out", part=part)
        kinds.append({type(task) for task in tasks} & {Cut, ReadUnit, FindDrops})

    assert kinds == [{Cut, ReadUnit, FindDrops}, set(), set(), set()]


@pytest.mark.parametrize("part", [None, (1, 2)])
def test_build__waits_for_no_build_of_the_whole_folder(
    part: tuple[int, int] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mslm_data.builds.folder._PATIENCE_S", 0)
    inputs, out = everything.write(tmp_path), tmp_path / "out"

    def build_another() -> None:
        with pytest.raises(BuildError, match="another build is running in this folder; wait for"):
            everything.build(inputs, out, part=part)

    with at_task(ReadUnit, 1, build_another):
        everything.build(inputs, out)


def test_build__a_part_waits_for_the_plan_of_another(tmp_path: Path) -> None:
    """While one part plans, it holds the lock of planning; other parts run while it builds."""
    inputs, out = everything.write(tmp_path), tmp_path / "out"

    def is_locked(name: str) -> bool:
        lock = FileLock(out / ".build" / "locks" / name, timeout=0)
        try:
            with lock:
                return False
        except TimeoutError:
            return True

    seen = []
    with tasks_run(before=lambda task: seen.append((type(task).__name__, is_locked("plan")))):
        everything.build(inputs, out, part=(1, 2))

    assert {name for name, locked in seen if locked} == {
        *("Unpack", "Cut", "Digest", "ReadUnit", "FindDrops"),
    }
    assert {name for name, locked in seen if not locked} == {"BuildUnit", "Unpack"}
