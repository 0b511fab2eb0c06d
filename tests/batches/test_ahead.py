"""Remote splits: when shards are downloaded and closed, the cache size, and errors."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mslm_data as md
from mslm_data.api.loading import load
from mslm_data.batches import ahead
from mslm_data.batches.batch_options import BatchOptions
from mslm_data.batches.batches import Batches
from mslm_data.batches.mix import Mix
from mslm_data.errors import FetchError, SourceError
from mslm_data.io import cache, remote
from mslm_data.io.locks import HeldError, locked
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
    """A built folder of about fifteen shards. A window of 64 rows has three or four of them."""
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


def kept(cached: Path) -> int:
    """Return the bytes of the cached shards, those that are being made included.

    None is removed meanwhile: a shard that has been counted, and goes to make room for one that is
    counted next, would count with it.
    """
    total = 0
    with locked(cached / ".lock-room", error=SourceError):
        for base, _, names in os.walk(cached):  # it passes over what is renamed meanwhile
            for name in names:
                with suppress(FileNotFoundError):
                    total += (Path(base) / name).stat().st_size
    return total


def shards_of(split: Split, batches: Batches) -> list[int]:
    """Return the shard of each row, in the order of the batches."""
    number = {key: row for row, key in enumerate(keys(Batches(split, "joint", shuffle=False)))}
    firsts = np.cumsum(split.shard_rows)
    return [int(np.searchsorted(firsts, number[key], side="right")) for key in keys(batches)]


def opened(split: Split) -> list[int]:
    return [number for number, shard in enumerate(split._shards) if shard.is_open]


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "mslm-data-ahead"]


def ended() -> bool:
    """Return that the threads that fetch ahead have ended."""
    return wait_for(lambda: not threads())


def bound_of(split: Split, shards: int) -> int:
    return sum(sorted(split.shard_bytes)[-shards:])


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
    monkeypatch.setattr(remote.Ahead, "add", lambda self, jobs: None)
    split = load(url)["train"]
    assert len(split.shard_rows) > 12

    next(iter(Batches(split, "joint", **options)))

    assert sum(Faulty.opened[shard.file] for shard in split.record.shards) == 1


def test_batches__fetch_the_next_shards_while_these_are_read(url: str, cached: Path) -> None:
    split = load(url)["train"]
    batches = iter(Batches(split, "joint", **SHARDS))
    next(batches)

    wait_for(lambda: len(list(cached.glob("*.arrow"))) >= 9)

    assert 9 <= len(list(cached.glob("*.arrow"))) < len(split.shard_rows)
    assert len(opened(split)) < 7


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
    opened_files = {file for file in files if Faulty.opened[file]}
    # Rows are put in order by windows of 64, so the shards of one window may come again.
    assert opened_files >= {files[shard] for shard in whole[given:]}
    assert opened_files <= {files[shard] for shard in whole[given - 64 :]}
    assert len(opened_files) < len(files) - 8


def test_batches__fetch_each_shard_once(url: str) -> None:
    split = load(url)["train"]

    list(Batches(split, "joint", **SHARDS))

    assert {Faulty.opened[shard.file] for shard in split.record.shards} == {1}


@pytest.mark.parametrize("options", [SHARDS, STORED])
@pytest.mark.parametrize("remote_one", [True, False])
def test_batches__close_finished_shards(
    folder: Path, url: str, options: dict[str, Any], remote_one: bool
) -> None:
    split = load(url if remote_one else folder)["train"]

    most = max(len(opened(split)) for _ in Batches(split, "joint", **options))

    assert most < 9 < len(split.shard_rows)


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
def test_mix__starts_with_its_first_shards_and_closes_finished_ones(
    other: Path, url: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote.Ahead, "add", lambda self, jobs: None)
    mix = mixed(load(url), load(f"faulty://{other}"))
    batches = iter(Batches(mix, "joint", **options))

    next(batches)

    assert sum(Faulty.opened[shard.file] for shard in mix.splits[0].source.record.shards) == 1
    for part in mix.splits:
        assert len(part.source.shard_rows) > 12
    most = max(max(len(opened(part.source)) for part in mix.splits) for _ in batches)
    assert most < 9


@pytest.mark.parametrize("options", [SHARDS, STORED])
def test_mix__looks_at_few_shards_ahead(
    folder: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # An epoch of 400 rounds reads a shard thousands of times. All at once would take minutes.
    train = load(folder)["train"]
    calls: list[list[int]] = []
    monkeypatch.setattr(Split, "fetches_ahead", lambda _, shards, __: calls.append(shards) or [])

    next(iter(Batches(md.mix([train], epoch_size=400 * train.tokens), "joint", **options)))

    assert 0 < len(calls) < len(train.shard_rows) + ahead.TOGETHER


@pytest.mark.parametrize("options", [SHARDS, *long(STORED)])
def test_mix__holds_cache_bytes_while_rows_are_read(
    folder: Path, other: Path, url: str, cached: Path, options: dict[str, Any]
) -> None:
    bounds = [bound_of(load(path)["train"], 9) for path in (folder, other)]
    there = [
        load(path, cache_bytes=most)
        for path, most in zip((url, f"faulty://{other}"), bounds, strict=True)
    ]
    found = []
    taken = []

    for batch in Batches(mixed(*there), "joint", **options):
        found += batch["keys"].tolist()
        taken.append(kept(cached))

    assert found == keys(Batches(mixed(load(folder), load(other)), "joint", **options))
    assert sum(bounds) / 2 < max(taken) <= sum(bounds)
    with pytest.raises(ValueError, match=r"cache_bytes: .* pass more, or shuffle='shards'"):
        next(iter(Batches(mixed(*there), "joint")))


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


@pytest.mark.parametrize("options", [SHARDS | {"open_shards": 9}, {"batch_size": 1}])
def test_subset__needs_cache_bytes_for_its_own_shards(
    folder: Path, url: str, cached: Path, options: dict[str, Any]
) -> None:
    here = few(load(folder)["train"])
    needed = sum(here.shard_bytes[shard] for shard in FEW)
    mix = md.mix([few(load(url, cache_bytes=needed)["train"])])

    for rows in (few(load(url, cache_bytes=needed)["train"]), mix):
        assert len(keys(Batches(rows, "joint", **options))) == len(here)
        assert kept(cached) <= needed

    small = few(load(url, cache_bytes=needed - 1)["train"])
    with pytest.raises(ValueError, match=f"cache_bytes: expected at least {needed}, the bytes"):
        next(iter(Batches(small, "joint", **options)))


# Cache size ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("options", [SHARDS, STORED])
def test_cache_bytes__hold_while_rows_are_read(
    folder: Path, url: str, cached: Path, options: dict[str, Any]
) -> None:
    whole = load(url)["train"]
    most = bound_of(whole, 8)
    assert most < whole.record.bytes
    split = load(url, cache_bytes=most)["train"]
    found: list[int] = []
    taken: list[int] = []

    for epoch in (0, 1):
        for batch in Batches(split, "joint", epoch=epoch, **options):
            found += batch["keys"].tolist()
            taken.append(kept(cached))

    expected = [Batches(load(folder)["train"], "joint", epoch=e, **options) for e in (0, 1)]
    assert found == keys(expected[0]) + keys(expected[1])
    assert most / 2 < max(taken) <= most
    assert {path for path in cache._HASHED if path.parent == cached} <= set(cached.glob("*.arrow"))


class Late(remote.Ahead):
    """Does what it is given five calls later, as threads of a machine that is busy may."""

    def __init__(self) -> None:
        super().__init__()
        self._jobs: list[list[Callable[[], object]]] = [[]] * 5

    def add(self, jobs: Iterable[Callable[[], object]]) -> None:
        self._jobs.append(list(jobs))
        for job in self._jobs.pop(0):
            job()


@pytest.mark.parametrize("options", [SHARDS, *long(STORED)])
def test_cache_bytes__hold_where_shards_are_fetched_too_late(
    folder: Path,
    url: str,
    cached: Path,
    options: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ahead, "Ahead", Late)
    most = bound_of(load(url)["train"], 8)
    split = load(url, cache_bytes=most)["train"]
    found: list[int] = []

    for epoch in (0, 1):
        for batch in Batches(split, "joint", epoch=epoch, **options):
            found += batch["keys"].tolist()
            assert kept(cached) <= most

    expected = [Batches(load(folder)["train"], "joint", epoch=e, **options) for e in (0, 1)]
    assert found == keys(expected[0]) + keys(expected[1])


@pytest.mark.parametrize("is_wanted", [True, False])
def test_fetches_ahead__skip_shards_no_longer_needed(
    url: str, cached: Path, is_wanted: bool
) -> None:
    split = load(url)["train"]
    place = cached / f"{split.record.shards[3].sha256}.arrow"
    asked: list[Path] = []

    def wanted() -> bool:
        # A thread that was asked before could wait, and bring what a reader was done with.
        with pytest.raises(HeldError), locked(cache._lock(place), error=SourceError, patience=0):
            pass
        asked.append(place)
        return is_wanted

    [job] = split.fetches_ahead([3], wanted)
    job()

    assert asked == [place]
    assert place.exists() == is_wanted
    assert not list(cached.glob(".part-*"))


def test_batch_stats__reads_the_shards_of_its_steps_in_turn(
    folder: Path, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    split = load(url)["train"]
    small = load(url, cache_bytes=bound_of(split, 8))["train"]
    options = BatchOptions(**SHARDS)

    first = batch_stats(split, options, max_steps=3)

    assert first.steps == 3
    assert sum(Faulty.opened[shard.file] for shard in split.record.shards) == 1
    assert batch_stats(small, options) == batch_stats(load(folder)["train"], options)
    assert "the cache exceeds its limit" not in caplog.text


def test_cache_bytes__hold_for_rows_in_any_order(folder: Path, url: str, cached: Path) -> None:
    most = bound_of(load(url)["train"], 3)
    split = load(url, cache_bytes=most)["train"]
    here = load(folder)["train"]
    taken = []

    for row in np.random.default_rng(0).permutation(len(split))[:60].tolist():
        assert split[row] == here[row]
        taken.append(kept(cached))

    assert max(taken) <= most


def test_cache_bytes__hold_while_all_columns_are_read(folder: Path, url: str, cached: Path) -> None:
    most = bound_of(load(url)["train"], 3)
    split = load(url, cache_bytes=most)["train"]
    rows = []
    taken = []

    for batch in split.batches():
        rows += batch.to_pylist()
        taken.append(kept(cached))

    assert rows == list(load(folder)["train"])
    assert max(taken) <= most


def test_cache_bytes__leave_the_shards_of_other_folders(
    url: str, cached: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    made.built(other, pipeline=made.pipeline_of(unit_bytes=2000, encode={"max_tokens": 9}))
    others = load(f"faulty://{other}")["train"]
    others.bring()
    before = {path.name for path in cached.glob("*.arrow")}
    split = load(url)["train"]

    list(load(url, cache_bytes=bound_of(split, 2))["train"].chunks())

    assert before <= {path.name for path in cached.glob("*.arrow")}


def test_cache_bytes__evict_the_least_recently_used(url: str, cached: Path) -> None:
    split = load(url)["train"]
    bounded = load(url, cache_bytes=bound_of(split, 4))["train"]
    firsts = [0, *np.cumsum(split.shard_rows)[:-1].tolist()]
    names = [f"{shard.sha256}.arrow" for shard in split.record.shards]

    for number in (0, 1, 2, 0):
        bounded[firsts[number]]
        bounded.keep(())
        time.sleep(0.01)
    for number in (4, 5, 6):
        bounded[firsts[number]]
        bounded.keep(())
        time.sleep(0.01)
        assert (cached / names[number]).exists()

    assert not (cached / names[1]).exists()


def test_cache_bytes__reject_an_order_that_needs_more(url: str) -> None:
    split = load(url)["train"]
    small = load(url, cache_bytes=bound_of(split, 2))["train"]

    with pytest.raises(ValueError, match=r"read in any order, got \d+ for \S+/train; pass"):
        next(iter(Batches(small, "joint", shuffle=True)))
    with pytest.raises(
        ValueError, match=r"the shards that are read at a time, got \d+ for \S+; pass more"
    ):
        next(iter(Batches(small, "joint", **SHARDS | {"open_shards": 8})))
    for wrong in (0, -1, 1.5, True, "1GB"):
        with pytest.raises(ValueError, match="cache_bytes: expected a number of bytes of at least"):
            load(url, cache_bytes=wrong)  # type: ignore[arg-type]


def _hold(url: str, most: int, ready: Any, end: Any) -> None:
    with faulty.registered():
        split = load(url, cache_bytes=most)["train"]
        split[0]
        ready.set()
        end.wait()


def test_cache_bytes__keep_shards_that_another_process_reads(
    url: str, cached: Path, caplog: pytest.LogCaptureFixture
) -> None:
    split = load(url)["train"]
    most = bound_of(split, 3)
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    end = context.Event()
    process = context.Process(target=_hold, args=(url, most, ready, end))
    process.start()
    assert ready.wait(PATIENCE_S)
    first = cached / f"{split.record.shards[0].sha256}.arrow"

    bounded = load(url, cache_bytes=most)["train"]
    list(bounded.chunks(rows=5))

    assert first.exists()
    assert caplog.text.count("the cache exceeds its limit") == 1
    bounded.keep(())
    end.set()
    process.join()
    list(bounded.chunks(rows=5))
    assert kept(cached) <= most


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


def test_split__with_a_bound_travels(folder: Path, url: str, cached: Path) -> None:
    most = bound_of(load(url)["train"], 3)
    split = load(url, cache_bytes=most)["train"]
    split[0]

    again = pickle.loads(pickle.dumps(split))  # noqa: S301 - our own
    split.keep(())  # else this process reads a shard twice
    rows = [again[row] for row in range(len(again))]

    assert rows == [load(folder)["train"][row] for row in range(len(again))]
    assert kept(cached) <= most


def test_loader__with_workers_shares_the_cache(
    folder: Path, cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    from mslm_data.torch import MaskedDataset
    from tests.source.server import serving

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as site:
        for name, data in made.tree(folder).items():
            site.add(f"/ncbi/{name}", data)
        here = MaskedDataset(load(folder)["train"], "joint").loader(**SHARDS)
        most = bound_of(here.dataset.split, 10)
        there = MaskedDataset(load(f"{site.url}/ncbi", cache_bytes=most)["train"], "joint").loader(
            workers=2, multiprocessing_context="fork", **SHARDS
        )
        found = []
        taken = []
        for batch in itertools.islice(there, 150):
            found.append(batch["input_ids"])
            taken.append(kept(cached))

    assert all(torch.equal(a, b["input_ids"]) for a, b in zip(found, here, strict=False))
    assert max(taken) <= most


# Errors --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["to the end", "dropped", "thrown away"])
def test_batches__end_their_threads(url: str, how: str) -> None:
    batches = iter(Batches(load(url)["train"], "joint", **SHARDS))
    next(batches)
    assert threads()

    if how == "to the end":
        list(batches)
    elif how == "dropped":
        batches.close()  # type: ignore[attr-defined]
    else:
        del batches
        gc.collect()

    assert ended()


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

    assert ended()
    assert 0 < len(read) < sum(split.shard_rows[:8])
    state = batches.state_dict()
    Faulty.faults.clear()
    again = Batches(split, "joint", **STORED)
    again.load_state_dict(state)
    assert read + keys(again) == keys(Batches(split, "joint", **STORED))


def test_ahead__ends_despite_a_hanging_download(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    split = load(url)["train"]
    Faulty.faults[split.record.shards[8].file] = [faulty.hanging]
    batches = iter(Batches(split, "joint", **STORED))
    next(batches)

    del batches
    gc.collect()

    assert ended()


# Holding files -------------------------------------------------------------------------------------------------------


def test_make_room__keeps_files_in_use(tmp_path: Path) -> None:
    places = {tmp_path / name: 10 for name in ("a", "b", "c")}
    for place in places:
        place.write_bytes(b"0" * 10)
        time.sleep(0.01)
    use = cache.Use.open(tmp_path / "a")
    assert use is not None

    assert cache.make_room(places, 20)
    assert not (tmp_path / "b").exists()
    assert not cache.make_room(places, 5)
    assert [place.name for place in places if place.exists()] == ["a"]
    use.release()
    assert cache.make_room(places, 5)
    assert not (tmp_path / "a").exists()
    assert cache.Use.open(tmp_path / "a") is None


def test_make_room__counts_files_being_written(tmp_path: Path) -> None:
    places = {tmp_path / name: 10 for name in ("a", "b")}
    (tmp_path / "a").write_bytes(b"0" * 10)

    with cache.staging(tmp_path / "b"):
        assert cache.make_room(places, 20)
        assert (tmp_path / "a").exists()
        assert cache.make_room(places, 10)

    assert not (tmp_path / "a").exists()


def test_make_room__removes_nothing_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(handle: int, how: int) -> None:
        raise OSError(38, "Function not implemented")

    (tmp_path / "a").write_bytes(b"0" * 10)
    monkeypatch.setattr(cache.fcntl, "flock", flock)

    assert not cache.make_room({tmp_path / "a": 10}, 5)
    assert (tmp_path / "a").exists()
