"""State of an unfinished build that is damaged, or was made from something else."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mslm_data.builds import finish, plan
from mslm_data.builds.tasks import BuildUnit, FindDrops, Join
from mslm_data.errors import BuildError, MslmDataError
from tests import made
from tests.builds import everything
from tests.support.build_tasks import Interruption, at_task, interrupt, tasks_run

STATES = {
    "read": (FindDrops, 1),
    "compared": (BuildUnit, 1),
    "half": (BuildUnit, 5),
    "built": (Join, 1),
    "joining": (Join, 2),
}
"""Name -> the task before which a build was interrupted."""


@pytest.fixture(scope="module")
def folders(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Interrupted builds, by their state."""
    folder = tmp_path_factory.mktemp("damaged")
    for name, (kind, number) in STATES.items():
        with at_task(kind, number, interrupt), pytest.raises(Interruption):
            everything.build(corpus, folder / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finish, "write_manifest", lambda *_: interrupt())
        with pytest.raises(Interruption):
            everything.build(corpus, folder / "joined")
    return folder


def flip(paths: Sequence[Path]) -> None:
    """Flip a bit of each file; in JSON, the last bit of the last letter or digit."""
    for path in paths:
        data = bytearray(path.read_bytes())
        is_text = path.suffix in (".json", ".jsonl")
        places = [match.start() for match in re.finditer(rb"[0-9a-z]", data)] if is_text else []
        data[places[-1] if places else -1] ^= 1
        path.write_bytes(data)


def cut_off(paths: Sequence[Path]) -> None:
    for path in paths:
        path.write_bytes(path.read_bytes()[:-20])


def empty(paths: Sequence[Path]) -> None:
    for path in paths:
        path.write_bytes(b"")


def remove(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink()


def rotate(paths: Sequence[Path]) -> None:
    """Replace each file by the whole file of another unit or shard."""
    contents = [path.read_bytes() for path in paths]
    for path, data in zip(paths, [*contents[1:], contents[0]], strict=True):
        path.write_bytes(data)


def copy_one(paths: Sequence[Path]) -> None:
    """Replace all files by the first."""
    for path in paths:
        path.write_bytes(paths[0].read_bytes())


@pytest.mark.parametrize("damage", [flip, cut_off, empty, remove, rotate, copy_one])
@pytest.mark.parametrize(
    ("state", "files"),
    [
        ("read", ".build/hashes/*"),
        ("compared", ".build/drops.json"),
        ("compared", ".build/staging/*/*/*.jsonl"),
        ("half", ".build/receipts/*"),
        ("built", ".build/drops.json"),
        ("built", ".build/pieces/*"),
        ("built", ".build/receipts/*"),
        ("joining", ".build/receipts/*"),
        ("joined", ".build/shards/*"),
        ("joined", "train/*.arrow"),
    ],
)
def test_build__replaces_damaged_state(
    damage: Callable[[Sequence[Path]], None],
    state: str,
    files: str,
    folders: Path,
    corpus: Path,
    expected: dict[str, bytes],
    tmp_path: Path,
) -> None:
    out = Path(shutil.copytree(folders / state, tmp_path / "out"))
    paths = sorted(path for path in out.glob(files) if path.is_file())
    assert paths

    damage(paths)
    try:
        everything.build(corpus, out)
    except MslmDataError as error:
        if "run the same command again" not in str(error):
            raise
        everything.build(corpus, out)  # the advice works

    assert made.tree(out) == expected


@pytest.mark.parametrize("damage", [flip, cut_off, empty])
@pytest.mark.parametrize("state", STATES)
def test_build__names_a_damaged_plan(
    damage: Callable[[Sequence[Path]], None],
    state: str,
    folders: Path,
    corpus: Path,
    expected: dict[str, bytes],
    tmp_path: Path,
) -> None:
    out = Path(shutil.copytree(folders / state, tmp_path / "out"))
    damage([out / ".build" / "plan.json"])

    with pytest.raises(BuildError, match=r"plan\.json: the plan of .* is damaged; remove"):
        everything.build(corpus, out)
    shutil.rmtree(out)
    everything.build(corpus, out)

    assert made.tree(out) == expected


@pytest.mark.parametrize("state", STATES)
def test_build__makes_a_missing_plan_again(
    state: str, folders: Path, corpus: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    out = Path(shutil.copytree(folders / state, tmp_path / "out"))
    (out / ".build" / "plan.json").unlink()

    everything.build(corpus, out)

    assert made.tree(out) == expected


# Other versions of packages -----------------------------------------------------------------------


@pytest.fixture
def other_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of numpy from now on."""
    versions = {**plan._versions(), "numpy": "0.0.1"}
    monkeypatch.setattr(plan, "_versions", lambda: versions)


@pytest.mark.usefixtures("other_versions")
def test_build__opens_a_finished_folder_of_other_versions(
    corpus: Path, whole: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    out = Path(shutil.copytree(whole, tmp_path / "out"))

    with tasks_run() as tasks:
        manifest = everything.build(corpus, out)

    assert manifest
    assert manifest.versions["numpy"] != "0.0.1"
    assert not any(isinstance(task, BuildUnit) for task in tasks)
    assert made.tree(out) == expected


@pytest.mark.usefixtures("other_versions")
@pytest.mark.parametrize("state", ["half", "built", "joining", "joined"])
def test_build__builds_units_of_other_versions_again(
    state: str, folders: Path, corpus: Path, tmp_path: Path
) -> None:
    """No folder has rows of two versions of a package."""
    out = Path(shutil.copytree(folders / state, tmp_path / "out"))
    with tasks_run() as of_whole:
        everything.build(corpus, tmp_path / "whole")

    with tasks_run() as tasks:
        manifest = everything.build(corpus, out)

    assert manifest
    assert manifest.versions["numpy"] == "0.0.1"
    assert made.tree(out) == made.tree(tmp_path / "whole")
    units = [[task.name for task in of if isinstance(task, BuildUnit)] for of in (tasks, of_whole)]
    assert units[0] == units[1]
