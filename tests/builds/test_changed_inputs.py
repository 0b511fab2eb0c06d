"""Inputs that change while a build runs, or between two runs."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from mslm_data.builds.tasks import BuildUnit, Cut, Digest, FindDrops, Join, ReadUnit, Unpack
from mslm_data.errors import BuildError, SourceError
from tests import made
from tests.builds import everything
from tests.builds.inputs import jsonl
from tests.support.build_tasks import Interruption, at_task, interrupt, tasks_run

TASKS = [
    (Digest, 1), (Unpack, 1), (Cut, 1), (ReadUnit, 1), (ReadUnit, 3), (FindDrops, 1),
    (BuildUnit, 1), (BuildUnit, 4), (Join, 1),
]  # fmt: skip
FIRST = {"train.jsonl.gz": (Digest,), "train.jsonl": (Cut,), "test.jsonl": (Cut, Digest)}
"""File -> the tasks before which nothing of it is read."""


class Two:
    """A corpus with two contents of equal size, and what is built from each.

    Attributes:
        inputs: The input folder.
        name: Name of the file with two contents.
        expected: The bytes of the folder built from each content.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.inputs = everything.write(folder, packed=name.endswith(".gz"))
        self._path = self.inputs / name
        data = self._path.read_bytes()
        plain = gzip.decompress(data) if name.endswith(".gz") else data

        # Without its first line, lines begin elsewhere.
        first, *lines = plain.splitlines(keepends=True)
        contents = [plain, b"".join([*lines, first])]
        self._contents = _padded(contents) if name.endswith(".gz") else contents
        assert len({*map(len, self._contents)}) == 1
        self.expected: list[dict[str, bytes]] = []
        for number in (1, 0):
            self.put(number)
            everything.build(self.inputs, folder / f"expected{number}")
            self.expected.insert(0, made.tree(folder / f"expected{number}"))

    def put(self, number: int) -> None:
        """Replace the file; its size and time of modification stay."""
        time = self._path.stat().st_mtime_ns
        self._path.write_bytes(self._contents[number])
        os.utime(self._path, ns=(time, time))


def _padded(contents: list[bytes]) -> list[bytes]:
    """Return gzip files of equal length, padded in their unused name fields."""
    packed = [gzip.compress(data, mtime=0) for data in contents]
    longest = max(map(len, packed))
    return [
        data[:3] + b"\x08" + data[4:10] + b"n" * (longest - len(data)) + b"\0" + data[10:]
        for data in packed
    ]


@pytest.fixture(scope="module", params=FIRST)
def two(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Two:
    return Two(tmp_path_factory.mktemp("two"), request.param)


def build(two: Two, out: Path) -> SourceError | None:
    """Build a folder; return the error of a changed input, if there is one."""
    try:
        everything.build(two.inputs, out)
    except SourceError as error:
        return error
    return None


def check_advice(error: SourceError, two: Two, out: Path) -> None:
    """Check that an error names the file, and that its advice works."""
    message = f"{two.inputs / two.name}: the file has changed since the build began; run the same"
    assert str(error).startswith(message)
    everything.build(two.inputs, out)
    assert made.tree(out) == two.expected[1]


@pytest.mark.parametrize(("kind", "number"), TASKS)
def test_build__notices_a_file_that_is_replaced_before_any_task(
    kind: type[Any], number: int, two: Two, tmp_path: Path
) -> None:
    """Its size and times are the same, as network file systems may show old ones."""
    if kind is Unpack and not two.name.endswith(".gz"):
        pytest.skip("there is no such task")
    two.put(0)

    with at_task(kind, number, lambda: two.put(1)):
        error = build(two, tmp_path / "out")

    if error is None:
        # Nothing of the file was read before, or nothing after: the folder never mixes the two.
        assert made.tree(tmp_path / "out") == two.expected[kind in FIRST[two.name]]
    else:
        check_advice(error, two, tmp_path / "out")


@pytest.mark.parametrize(("kind", "number"), [(ReadUnit, 1), (BuildUnit, 1), (BuildUnit, 4)])
def test_build__rejects_a_file_that_is_replaced_between_two_runs(
    kind: type[Any], number: int, two: Two, tmp_path: Path
) -> None:
    two.put(0)
    with at_task(kind, number, interrupt), pytest.raises(Interruption):
        everything.build(two.inputs, tmp_path / "out")
    two.put(1)

    with pytest.raises(BuildError, match=r"unfinished build of something else; different: sources"):
        everything.build(two.inputs, tmp_path / "out")


@pytest.mark.parametrize(("kind", "number"), [(Cut, 1), (BuildUnit, 3), (Digest, 1)])
def test_build__accepts_new_links_modes_and_times_of_a_file(
    kind: type[Any], number: int, two: Two, tmp_path: Path
) -> None:
    """Backups link, chmod and touch files."""
    path = two.inputs / two.name
    two.put(0)

    def back_up() -> None:
        os.link(path, tmp_path / "link")
        path.chmod(0o600)
        path.touch()

    with at_task(kind, number, back_up):
        everything.build(two.inputs, tmp_path / "out")

    assert made.tree(tmp_path / "out") == two.expected[0]


def test_build__goes_on_with_a_file_that_was_mended_after_an_error(tmp_path: Path) -> None:
    """The error for data loss advises it."""
    rows = [{"id": f"{n}", "text": text} for n, text in enumerate(made.sample_lines()[:30]) if text]
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows, "{broken")
    pipeline = made.pipeline_of(
        source={"use": "jsonl", "max_loss": 0}, annotate={"use": "none"}, unit_bytes=400
    )
    for _ in range(2):
        with pytest.raises(BuildError, match="mend it and run the same command again"):
            made.built(tmp_path / "out", inputs, pipeline)

    jsonl(inputs, "train.jsonl", *rows)
    with tasks_run() as tasks:
        made.built(tmp_path / "out", inputs, pipeline)

    made.built(tmp_path / "expected", inputs, pipeline)
    assert made.tree(tmp_path / "out") == made.tree(tmp_path / "expected")
    assert sum(isinstance(task, BuildUnit) for task in tasks) == 1
