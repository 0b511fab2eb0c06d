"""Shard files that change after they are opened."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mslm_data.api.loading import load
from mslm_data.batches.batches import Batches
from mslm_data.errors import ShardError
from mslm_data.shard import split as splits
from mslm_data.shard.split import Split
from tests import made
from tests.shard.damage import first_shard


@pytest.fixture
def mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Map every split, also small ones."""
    monkeypatch.setattr(splits, "IN_MEMORY", 0)


def batches_of(split: Split) -> Batches:
    return Batches(split, "joint", batch_size=8)


def overwrite(path: Path) -> None:
    """Overwrite a file with other bytes of the same size."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(1000)
        file.write(bytes(range(100)))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def cut_off(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 9)


def replace(path: Path) -> None:
    """Replace a file by rename, like a build into the same folder."""
    other = path.with_suffix(".other")
    other.write_bytes(path.read_bytes()[::-1])
    other.replace(path)


CHANGES: list[tuple[Callable[[Path], None], str]] = [
    (overwrite, "the checksum differs from the manifest's"),
    (cut_off, r"expected \d+ bytes, got \d+"),
    (replace, "the checksum differs from the manifest's"),
    (Path.unlink, "the shard is missing"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
@pytest.mark.usefixtures("mapped")
def test_batches__report_at_the_start_of_an_epoch_that_a_mapped_file_has_changed(
    change: Callable[[Path], None], message: str, folder: Path
) -> None:
    batches = batches_of(load(folder)["train"])
    list(batches)
    path = first_shard(folder)
    change(path)
    batches.epoch = 1

    with pytest.raises(ShardError, match=f"{path}: {message}.* since it was opened"):
        next(iter(batches))
    with pytest.raises(ShardError, match=message):  # Again on the next attempt.
        next(iter(batches))


@pytest.mark.usefixtures("mapped")
def test_batches__report_at_the_end_of_an_epoch_that_a_mapped_file_has_changed(
    folder: Path,
) -> None:
    passing = iter(batches_of(load(folder)["train"]))
    next(passing)
    overwrite(first_shard(folder))

    with pytest.raises(ShardError, match="rows read since then may be wrong"):
        list(passing)


@pytest.mark.usefixtures("mapped")
def test_batches__continue_when_a_file_has_its_old_bytes_again(folder: Path) -> None:
    train = load(folder)["train"]
    batches = batches_of(train)
    before = [batch["input_ids"].tolist() for batch in batches]
    keys = train.examples().keys.tolist()

    path = first_shard(folder)
    twin = path.with_suffix(".twin")
    shutil.copy(path, twin)
    path.write_bytes(twin.read_bytes())
    batches.epoch = 0
    assert [batch["input_ids"].tolist() for batch in batches] == before

    twin.replace(path)
    batches.epoch = 0
    assert [batch["input_ids"].tolist() for batch in batches] == before
    assert train.examples().keys.tolist() == keys


@pytest.mark.usefixtures("mapped")
@pytest.mark.parametrize("read", [Split.chunks, Split.texts])
def test_chunks__report_at_their_end_that_a_mapped_file_has_changed(
    read: Callable[..., object], tmp_path: Path
) -> None:
    made.built(tmp_path, pipeline=made.pipeline_of(encode={"keep_text": True}))
    passing = iter(read(load(tmp_path)["train"], 8))  # type: ignore[call-overload]
    next(passing)
    overwrite(first_shard(tmp_path))

    with pytest.raises(ShardError, match="since it was opened"):
        list(passing)


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_split__small_splits_are_read_into_memory(
    change: Callable[[Path], None], message: str, folder: Path
) -> None:
    train = load(folder)["train"]
    sent = copy.deepcopy(train)
    batches = batches_of(train)
    before = [batch["input_ids"].tolist() for batch in batches]
    change(first_shard(folder))

    batches.epoch = 0
    assert [batch["input_ids"].tolist() for batch in batches] == before
    with pytest.raises(ShardError, match=message):  # Another process opens the files anew.
        sent.take(np.arange(len(sent)))


@pytest.mark.parametrize("size", [0, splits.IN_MEMORY])
def test_batches__report_that_the_folder_was_rebuilt(
    size: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "IN_MEMORY", size)
    train = load(folder)["train"]
    other = tmp_path / "other"
    made.built(other, pipeline=made.pipeline_of(encode={"keep_text": True}))
    shutil.rmtree(folder)
    other.rename(folder)

    with pytest.raises(
        ShardError, match=f"^{folder}: the folder was rebuilt after it was opened; load it again$"
    ):
        next(iter(batches_of(train)))


def test_splits__are_small_up_to_a_size(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = load(folder).manifest.splits["train"].bytes
    assert size == sum(path.stat().st_size for path in (folder / "train").glob("data-*.arrow"))

    for most, is_mapped in ((size, False), (size - 1, True)):
        monkeypatch.setattr(splits, "IN_MEMORY", most)
        train = load(folder)["train"]
        train[0]
        maps = Path("/proc/self/maps").read_text()
        assert (str(first_shard(folder)) in maps) is is_mapped
