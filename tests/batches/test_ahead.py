"""Remote splits: when shards are downloaded, and errors."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mslm_data as md
from mslm_data.api.loading import load
from mslm_data.batches import order
from mslm_data.batches.batch_options import BatchOptions
from mslm_data.batches.batches import Batches
from mslm_data.batches.blocks import block_rows, find_parts
from mslm_data.batches.mix import Mix
from mslm_data.batches.order import EpochOrder
from mslm_data.errors import FetchError
from mslm_data.io import remote
from mslm_data.shard import split as split_module
from mslm_data.shard.split import Split
from mslm_data.stats.batch_counts import batch_stats
from tests import faulty, made
from tests.faulty import Faulty
from tests.support.cases import long
from tests.support.waiting import PATIENCE_S, wait_for

SHARDS: dict[str, Any] = {"shuffle": "shards", "open_shards": 2, "batch_size": 1}
STORED: dict[str, Any] = {"shuffle": False, "batch_size": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built folder of about fifteen shards. A window of 64 rows has three to five of them."""
    out = tmp_path_factory.mktemp("built") / "ncbi"
    pipeline = made.pipeline_of(unit_bytes=300, encode={"max_tokens": 8})
    made.built(out, pipeline=pipeline)
    return out


@pytest.fixture(autouse=True)
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The cache folder of shards, with `faulty://` registered. All shards are memory-mapped."""
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(remote, "PAUSE_S", 0.0)
    monkeypatch.setattr(split_module, "IN_MEMORY", 0)
    with faulty.registered():
        yield tmp_path / "cache" / "shards"


@pytest.fixture
def url(folder: Path) -> str:
    return f"faulty://{folder}"


def keys(batches: Batches) -> list[int]:
    return [key for batch in batches for key in batch["keys"].tolist()]


def shards_of(split: Split, batches: Batches) -> list[int]:
    """Return the shard of each row, in the order of the batches."""
    number = {key: row for row, key in enumerate(keys(Batches(split, "joint", shuffle=False)))}
    firsts = np.cumsum(split.shard_rows)
    return [int(np.searchsorted(firsts, number[key], side="right")) for key in keys(batches)]


def files_of(rows: Split | Mix, options: dict[str, Any], block: int) -> set[str]:
    """Return the files of the shards of a block of epoch 0."""
    chosen = BatchOptions(**options)
    start, stop = EpochOrder(rows, chosen).bounds(0)[block : block + 2]
    numbers, _ = block_rows(find_parts(rows), chosen, epoch=0, start=start, stop=stop)
    return {shard.record.file for shard in rows.shards(numbers)}


def downloaded() -> set[str]:
    """Return the files of the shards that were opened at the server."""
    return {file for file in Faulty.opened if file.endswith(".arrow")}


# Downloads and open shards -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [SHARDS, *long(STORED)])
@pytest.mark.parametrize("epoch", [0, 1])
def test_batches__of_a_remote_split_equal_the_local_ones(
    folder: Path, url: str, options: dict[str, Any], epoch: int
) -> None:
    here = Batches(load(folder)["train"], "joint", epoch=epoch, **options)
    there = Batches(load(url)["train"], "joint", epoch=epoch, **options)

    assert [batch["input_ids"].tolist() for batch in there] == [
        batch["input_ids"].tolist() for batch in here
    ]


@pytest.mark.parametrize("options", [SHARDS, STORED])
def test_batches__begin_when_their_own_shards_are_here(
    url: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "fetch_ahead", lambda *_: None)
    split = load(url)["train"]
    assert len(split.shard_rows) > 12

    next(iter(Batches(split, "joint", **options)))

    assert downloaded() == files_of(split, options, 0)
    assert len(downloaded()) < 6


@pytest.mark.parametrize("options", [SHARDS, STORED])
def test_batches__fetch_the_next_block_while_this_one_is_read(
    url: str, options: dict[str, Any]
) -> None:
    split = load(url)["train"]
    batches = iter(Batches(split, "joint", **options))
    next(batches)
    files = files_of(split, options, 0) | files_of(split, options, 1)

    assert files > files_of(split, options, 0)
    assert wait_for(lambda: downloaded() == files)


@pytest.mark.parametrize("how", ["dropped", "thrown away"])
def test_batches__cancel_the_download_of_the_next_shard(
    url: str, cached: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its incomplete file is removed."""
    monkeypatch.setattr(remote, "_AT_ONCE", 10)
    split = load(url)["train"]
    begun = threading.Event()

    def slow(data: bytes) -> bytes:
        begun.set()
        time.sleep(0.2)
        return data

    here = files_of(split, STORED, 0)
    for file in files_of(split, STORED, 1) - here:
        Faulty.faults[file] = [slow]
    batches = iter(Batches(split, "joint", **STORED))
    next(batches)
    assert begun.wait(PATIENCE_S)

    if how == "dropped":
        batches.close()  # type: ignore[attr-defined]
    else:
        del batches
        gc.collect()

    assert len(list(cached.glob("*.arrow"))) == len(here)
    assert not list(cached.glob("*.mslm.tmp"))


@pytest.mark.parametrize("options", [SHARDS, STORED])
def test_batches__resumed_skip_finished_shards(
    folder: Path, url: str, options: dict[str, Any]
) -> None:
    here = Batches(load(folder)["train"], "joint", **options)
    whole = shards_of(load(folder)["train"], Batches(load(folder)["train"], "joint", **options))
    passed = iter(here)
    given = sum(len(next(passed)["keys"]) for _ in range(2 * len(here) // 3))
    split = load(url)["train"]
    there = Batches(split, "joint", **options)
    there.load_state_dict(here.state_dict())

    list(there)

    files = [shard.file for shard in split.record.shards]
    assert downloaded() >= {files[shard] for shard in whole[given:]}
    blocks = len(EpochOrder(split, BatchOptions(**options)).bounds(0)) - 1
    begun = here.state_dict()["block"]
    assert 0 < begun < blocks
    assert downloaded() == set().union(
        *(files_of(split, options, block) for block in range(begun, blocks))
    )


def test_batches__fetch_each_shard_once(url: str) -> None:
    split = load(url)["train"]

    list(Batches(split, "joint", **SHARDS))

    assert {Faulty.opened[shard.file] for shard in split.record.shards} == {1}


# A mix ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another folder with many shards."""
    out = tmp_path_factory.mktemp("built") / "chem"
    pipeline = made.pipeline_of(unit_bytes=300, encode={"max_tokens": 8}, name="chem")
    made.built(out, made.SAMPLE / "bc5cdr-chem", pipeline)
    return out


def mixed(first: Any, second: Any) -> Mix:
    """Mix two folders, of which the first comes twice in an epoch."""
    splits = [shards["train"] for shards in (first, second)]
    return md.mix(
        dict(zip(splits, (len(splits[0]) * 2, len(splits[1]) / 2), strict=True)),
        by="rows",
        epoch_size=len(splits[0]) * 2 + len(splits[1]) // 2,
    )


@pytest.mark.long
@pytest.mark.parametrize("options", [SHARDS, STORED, {"batch_size": 1}])
def test_mix__of_remote_splits_equals_the_local_one(
    folder: Path, other: Path, url: str, options: dict[str, Any]
) -> None:
    there = mixed(load(url), load(f"faulty://{other}"))
    here = mixed(load(folder), load(other))
    assert [round(part.times, 1) for part in here.splits] == [2.0, 0.5]

    for epoch in (0, 1):
        assert keys(Batches(there, "joint", epoch=epoch, **options)) == keys(
            Batches(here, "joint", epoch=epoch, **options)
        )


@pytest.mark.parametrize("options", [SHARDS, *long(STORED)])
def test_mix__starts_with_its_first_shards(
    other: Path, url: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "fetch_ahead", lambda *_: None)
    mix = mixed(load(url), load(f"faulty://{other}"))
    batches = iter(Batches(mix, "joint", **options))

    next(batches)

    assert downloaded() == files_of(mix, options, 0)
    for part in mix.splits:
        assert len(part.source.shard_rows) > 12
    assert len(downloaded()) < 10


# A subset ------------------------------------------------------------------------------------------------------------

FEW = (2, 5, 11)
"""Shards with rows of the subset."""


def few(split: Split) -> Split:
    """Return every other row of a few shards."""
    firsts = np.cumsum((0, *split.shard_rows))
    rows = [np.arange(firsts[shard], firsts[shard + 1], 2) for shard in FEW]
    return split.select(np.sort(np.concatenate(rows)))


@pytest.mark.parametrize("options", [SHARDS, STORED, {"batch_size": 1}])
def test_subset__downloads_only_its_own_shards(
    folder: Path, url: str, options: dict[str, Any]
) -> None:
    there = few(load(url)["train"])

    found = keys(Batches(there, "joint", **options))

    assert found == keys(Batches(few(load(folder)["train"]), "joint", **options))
    shards = there.record.shards
    assert {s.file for s in shards if Faulty.opened[s.file]} == {shards[n].file for n in FEW}


def test_batch_stats__of_remote_shards_are_those_of_local_ones(folder: Path, url: str) -> None:
    split = load(url)["train"]
    options = BatchOptions(**SHARDS)

    assert batch_stats(split, options) == batch_stats(load(folder)["train"], options)


def test_batches__go_on_where_another_process_removes_a_shard(
    folder: Path, url: str, cached: Path
) -> None:
    split = load(url)["train"]
    found = []
    for batch in Batches(split, "joint", **SHARDS):
        found += batch["keys"].tolist()
        for path in cached.glob("*.arrow"):
            path.unlink(missing_ok=True)

    assert found == keys(Batches(load(folder)["train"], "joint", **SHARDS))


# Errors --------------------------------------------------------------------------------------------------------------


def test_batches__raise_errors_of_prefetched_shards(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = load(url)["train"]
    record = split.record.shards[8]
    Faulty.faults[record.file] = [faulty.told] * 9
    batches = Batches(split, "joint", **STORED)
    read = []

    def read_slowly() -> None:
        for batch in batches:
            read.extend(batch["keys"].tolist())
            time.sleep(0.001)

    with pytest.raises(FetchError, match=rf"train/{record.file}: expected {record.bytes} bytes"):
        read_slowly()

    assert 0 < len(read) < sum(split.shard_rows[:8])
    state = batches.state_dict()
    Faulty.faults.clear()
    again = Batches(split, "joint", **STORED)
    again.load_state_dict(state)
    assert read + keys(again) == keys(Batches(split, "joint", **STORED))
