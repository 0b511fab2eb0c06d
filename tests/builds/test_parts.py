"""Builds in parts: each reads its own share, and none runs beside a whole build."""

from __future__ import annotations

from pathlib import Path

import pytest

from mslm_data.builds import plan, scan
from mslm_data.builds.tasks import BuildUnit, Cut, Digest, FindDrops, ReadUnit
from tests import made
from tests.builds import everything
from tests.builds.inputs import jsonl
from tests.support.build_tasks import tasks_run

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
