"""Growth of costs: the fitted law, and the page."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks import growth, inputs
from benchmarks.growth import Measured
from benchmarks.watch import Figure


def figure(seconds: float, alone: float = 0, disk: float = 0) -> Figure:
    return Figure(seconds=seconds, cpu=seconds, mib=100, alone=alone, disk=disk, printed="")


MEASURED = Measured(
    sentences=1000,
    tokens=50_000_000,
    read=2_000_000,
    written=3_000_000,
    builds={1: figure(10, alone=10), 2: figure(6, alone=1, disk=0.5)},
    stats=figure(5),
    epoch=figure(4),
)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ({1: 10, 2: 6}, 2),  # 2 + 8 / n
        ({1: 10, 2: 6, 4: 4}, 2),
        ({1: 10, 2: 5}, 0),
        ({1: 10, 2: 4}, 0),  # faster than the law allows: noise
        ({1: 10, 2: 11}, 10),  # nothing was divided
    ],
)
def test_undivided__fits_the_time_without_division(
    seconds: dict[int, float], expected: float
) -> None:
    assert growth.undivided(seconds) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("undivided", "cores", "expected"), [(0, 64, 64), (10, 64, 1), (2, 4, 10 / 4), (2, 1, 1)]
)
def test_speed_up__follows_amdahls_law(undivided: float, cores: int, expected: float) -> None:
    assert growth.speed_up(undivided, 10, cores) == pytest.approx(expected)


def test_tables__have_builds_reading_and_serial_shares() -> None:
    builds, reading, scaling = growth.tables([MEASURED], rounds=1)

    assert [" ".join(row) for row in builds.rows] == [
        "1,000 50.0 2 3 1 10.0 10.0 5.00 100",
        "1,000 50.0 2 3 2 6.0 6.0 8.33 100",
    ]
    assert [" ".join(row) for row in reading.rows] == ["1,000 5.0 10.00 100 4.0 12.50 100"]
    by_times = "2.00 20.0% 4.7x"
    by_looking = "1.00 10.0% 8.8x 0.50 5.0% 15.4x"
    expected = f"1,000 10.0 6.0 1.67x {by_times} {by_looking}"
    assert [" ".join(row) for row in scaling.rows] == [expected]
    for table in (builds, reading, scaling):
        assert {len(row) for row in table.rows} == {len(table.header)} == {len(table.align)}
    assert "built once with each number of workers" in builds.about


def test_tables__omit_many_cores_with_one_number_of_workers() -> None:
    tables = growth.tables([MEASURED._replace(builds={2: figure(6)})], rounds=3)

    assert len(tables) == 2
    assert "built 3 times in turn (the medians are shown)" in tables[0].about


@pytest.mark.long
@pytest.mark.timeout(900)  # compiles kernels if none are cached
def test_run__measures_a_small_corpus(tmp_path: Path) -> None:
    results = growth.run(inputs.find(tmp_path / "none"), tmp_path, sizes=[30], workers=[1, 2])

    assert [[row[0] for row in table.rows] for table in results.tables] == [
        ["30"] * 2,
        ["30"],
        ["30"],
    ]
    assert list(tmp_path.iterdir()) == []
