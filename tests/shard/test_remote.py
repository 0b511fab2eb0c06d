"""Built folders at URLs: downloads, the cache, and errors of the remote."""

from __future__ import annotations

import os
import pickle
import shutil
import stat
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mslm_data.api import loading
from mslm_data.api.loading import Shards, load
from mslm_data.batches.batches import Batches
from mslm_data.data.ragged import Ragged
from mslm_data.errors import FetchError, ShardError, SourceError, VocabularyError
from mslm_data.io import remote
from mslm_data.lexicon.store import Lexicon, write_lexicon
from mslm_data.mask.artefacts import iter_artefacts
from mslm_data.shard import remote as shard_remote
from tests import faulty, made
from tests.faulty import Fault, Faulty
from tests.shard import damage
from tests.source.server import serving
from tests.support.waiting import PATIENCE_S

MANIFEST = "manifest.json"


@pytest.fixture(autouse=True)
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The cache folder of shards, with `faulty://` registered."""
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "cache"))
    with faulty.registered():
        yield tmp_path / "cache" / "shards"


@pytest.fixture
def url(folder: Path) -> str:
    return f"faulty://{folder}"


def records(shards: Shards) -> list[Any]:
    return [shard for split in shards.manifest.splits.values() for shard in split.shards]


def kept(cached: Path) -> list[str]:
    return sorted(path.name for path in cached.iterdir() if not path.name.startswith(".lock-"))


def rows_of(shards: Shards) -> list[dict[str, Any]]:
    return [row for split in shards.values() for row in (split[i] for i in range(len(split)))]


def first(shards: Shards) -> Any:
    return shards.manifest.splits["train"].shards[0]


# Downloads -----------------------------------------------------------------------------------------------------------


def test_load__reads_only_the_manifest(url: str, cached: Path) -> None:
    shards = load(url)

    assert dict(Faulty.opened) == {MANIFEST: 1}
    assert kept(cached) == []
    assert str(shards.folder) == url


def test_batches__repr_downloads_nothing(url: str, cached: Path) -> None:
    train = load(url)["train"]

    for name in ("batch_tokens", "batch_size"):
        repr(Batches(train, "joint", **{name: 100}))

    assert dict(Faulty.opened) == {MANIFEST: 1}


def test_load__loads_kernels_during_the_download_of_the_manifest(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2, timeout=PATIENCE_S)

    def slow(data: bytes) -> bytes:
        both.wait()
        return data

    Faulty.faults[MANIFEST] = [slow]
    monkeypatch.setattr(loading, "_load_batch_kernels", both.wait)

    load(url)

    assert not both.broken
    assert "mslm-data-kernels" not in {thread.name for thread in threading.enumerate()}


def test_load__downloads_a_shard_at_its_first_row(url: str, cached: Path) -> None:
    shards = load(url)

    shards["train"].examples(0, 1)
    shards["train"].examples(0, 1)

    assert kept(cached) == [f"{first(shards).sha256}.arrow"]
    assert Faulty.opened[first(shards).file] == 1


def test_load__gives_the_rows_of_the_local_folder(folder: Path, url: str, cached: Path) -> None:
    shards = load(url)

    assert rows_of(shards) == rows_of(load(folder))
    assert kept(cached) == sorted(f"{record.sha256}.arrow" for record in records(shards))
    assert {stat.S_IMODE(path.stat().st_mode) for path in cached.iterdir()} == {0o600}
    assert stat.S_IMODE(cached.stat().st_mode) == 0o700


def test_load__caches_equal_shards_of_several_folders_once(
    folder: Path, url: str, tmp_path: Path
) -> None:
    rows_of(load(url))
    before = Faulty.opened.copy()

    rows_of(load(f"faulty://{shutil.copytree(folder, tmp_path / 'again')}"))

    assert Faulty.opened - before == {MANIFEST: 1}


def test_load__reads_from_http(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as site:
        for name, data in made.tree(folder).items():
            site.add(f"/sets/ncbi/{name}", data)

        assert rows_of(load(f"{site.url}/sets/ncbi/")) == rows_of(load(folder))


def test_load__reads_from_memory_and_archives(folder: Path, tmp_path: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(str(folder), "/ncbi", recursive=True)
    with zipfile.ZipFile(tmp_path / "ncbi.zip", "w") as archive:
        for name, data in made.tree(folder).items():
            archive.writestr(f"ncbi/{name}", data)

    assert rows_of(load("memory://ncbi")) == rows_of(load(folder))
    assert rows_of(load(f"zip://ncbi::file://{tmp_path / 'ncbi.zip'}")) == rows_of(load(folder))
    memory.rm("/ncbi", recursive=True)


def test_load__opens_file_urls_in_place(folder: Path, cached: Path) -> None:
    assert rows_of(load(folder.as_uri())) == rows_of(load(folder))
    assert not cached.exists()


def test_load__downloads_and_checks_the_tokenizer(folder: Path, url: str) -> None:
    assert load(url).tokenizer.read_bytes() == (folder / "tokenizer.json").read_bytes()
    assert load(folder).tokenizer == folder / "tokenizer.json"


def lexicon_for(shards: Shards, score: float) -> Lexicon:
    return Lexicon(
        tokens=Ragged.from_rows([[9]], np.int32),
        word_starts=Ragged.from_rows([[0]], np.int32),
        scores=np.array([score]),
        about={
            "tokenizer": shards.manifest.tokenizer.sha256,
            "size": shards.manifest.token_ids.size,
        },
    )


def lexicon_of(shards: Shards, name: str) -> str:
    order = {"by": "highest", "score": {"lexicon": name}}
    picks = [{"units": "words", "budget": {"rate": 1.0}, "order": order}]
    (found,) = iter_artefacts(shards.strategy("picks", picks=picks))
    return found


def test_strategy__loads_its_lexicon_from_the_remote_folder(
    folder: Path, url: str, tmp_path: Path
) -> None:
    shards = load(url)
    write_lexicon(folder / "vocab" / "mine.arrow", lexicon_for(shards, 1.0))

    here = Path(lexicon_of(shards, "mine.arrow"))
    again = Path(lexicon_of(shards, "mine.arrow"))

    assert here == again
    assert here.is_relative_to(tmp_path / "cache")
    assert here.read_bytes() == (folder / "vocab" / "mine.arrow").read_bytes()
    write_lexicon(folder / "vocab" / "mine.arrow", lexicon_for(shards, 2.0))
    assert (
        Path(lexicon_of(shards, "mine.arrow")).read_bytes()
        == (folder / "vocab" / "mine.arrow").read_bytes()
    )


@pytest.mark.parametrize("name", ["none.arrow", "../vocab/mine.arrow", "/mine.arrow"])
def test_strategy__looks_for_lexicons_in_vocab_only(name: str, folder: Path, url: str) -> None:
    shards = load(url)
    write_lexicon(folder / "vocab" / "mine.arrow", lexicon_for(shards, 1.0))

    with pytest.raises(
        VocabularyError, match=r"^\S*\.arrow: expected a lexicon, found none; make it"
    ):
        lexicon_of(shards, name)


def test_strategy__reports_an_unreachable_or_foreign_lexicon(folder: Path, url: str) -> None:
    shards = load(url)
    lexicon = lexicon_for(shards, 1.0)
    write_lexicon(folder / "vocab" / "mine.arrow", lexicon)
    Faulty.faults["mine.arrow"] = [faulty.told] * 3

    with pytest.raises(
        FetchError, match=r"/vocab/mine\.arrow: cannot copy the file: OSError \(3 tries\)"
    ):
        lexicon_of(shards, "mine.arrow")
    lexicon.about["tokenizer"] = "another"  # type: ignore[index]
    write_lexicon(folder / "vocab" / "mine.arrow", lexicon)
    with pytest.raises(VocabularyError, match=r"made with another tokenizer than that of"):
        lexicon_of(shards, "mine.arrow")


# Errors --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "got"),
    [
        (faulty.cut, r"\d+ bytes with sha256 [0-9a-f]{64}"),
        (faulty.flipped, r"\d+ bytes with sha256 [0-9a-f]{64}"),
        (faulty.longer, r"more than \d+ bytes"),
        (faulty.refused, "NoCredentialsError"),
        (faulty.told, "OSError"),
    ],
)
def test_load__never_returns_or_caches_wrong_bytes(
    fault: Fault, got: str, url: str, cached: Path
) -> None:
    shards = load(url)
    record = first(shards)
    Faulty.faults[record.file] = [fault] * 3

    with pytest.raises(
        FetchError,
        match=rf"train/{record.file}: expected {record.bytes} bytes with sha256 {record.sha256}, got {got} \(3 tries\)",
    ) as caught:
        shards["train"].examples(0, 1)
    assert faulty.SECRET not in str(caught.value)
    assert kept(cached) == []
    shards["train"].examples(0, 1)  # The remote works again, and no other cleanup is needed.


def test_load__reports_a_missing_built_folder(tmp_path: Path) -> None:
    with pytest.raises(
        SourceError,
        match=rf"{MANIFEST}: cannot read the manifest: no such file; ",
    ):
        load(f"faulty://{tmp_path}")


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        (lambda data: b"<html>", ShardError, f"/{MANIFEST}: expected a manifest of mslm-data"),
        (faulty.cut, ShardError, f"/{MANIFEST}: expected a manifest of mslm-data"),
        (
            lambda data: b'{"format": 99}',
            ShardError,
            "expected format 2, got 99; another version of mslm-data wrote",
        ),
        (
            faulty.refused,
            FetchError,
            r"cannot read the manifest: NoCredentialsError \(3 tries\); check the URL and your access to it",
        ),
    ],
)
def test_load__rejects_an_inconsistent_manifest(
    fault: Fault, error: type[Exception], message: str, url: str
) -> None:
    Faulty.faults[MANIFEST] = [fault] * 3

    with pytest.raises(error, match=message) as caught:
        load(url)
    assert str(caught.value).startswith(url)


def test_load__rejects_manifest_paths_into_the_cache(
    folder: Path, url: str, tmp_path: Path
) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["splits"]["train"]["shards"][0]["sha256"] = "../../" + "a" * 58

    damage.edit_manifest(folder, change)

    with pytest.raises(ShardError, match="sha256"):
        load(url)["train"].examples(0, 1)
    assert not list(tmp_path.glob("aaa*"))


@pytest.mark.parametrize(
    ("change", "got"), [("other bytes", r"\d+ bytes"), ("gone", "no such file")]
)
def test_load__reports_a_changed_folder(change: str, got: str, folder: Path, url: str) -> None:
    shards = load(url)
    shards["train"].examples(0, 1)
    shutil.rmtree(folder)
    if change != "gone":
        made.built(folder, pipeline=made.pipeline_of(unit_bytes=2000, encode={"max_tokens": 9}))

    with pytest.raises(
        FetchError,
        match=rf"{url}/train/.*\.arrow: expected .*, got .*{got}.*; if the folder was built again, "
        "load it again",
    ):
        rows_of(shards)


def test_load__works_from_the_cache_without_the_remote(folder: Path, url: str) -> None:
    shards = load(url)
    expected = rows_of(shards)

    again = pickle.loads(pickle.dumps(shards))  # noqa: S301 - our own
    shutil.rmtree(folder)

    assert rows_of(again) == expected


def test_load__reports_a_full_disk(url: str, cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = load(url)

    def full(path: Path) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(remote, "open_private", full)
    with pytest.raises(
        FetchError,
        match=r"No space left on device; is the disk full\? MSLM_DATA_CACHE names another",
    ):
        shards["train"].examples(0, 1)
    assert kept(cached) == []


# The cache -----------------------------------------------------------------------------------------------------------


def test_load__downloads_a_removed_shard_again(folder: Path, url: str, cached: Path) -> None:
    expected = rows_of(load(url))
    for path in cached.glob("*.arrow"):
        path.unlink()
    before = Faulty.opened.copy()

    assert rows_of(load(url)) == expected
    assert sum((Faulty.opened - before).values()) == 1 + len(
        {record.sha256 for record in records(load(folder))}
    )


def test_load__compares_the_folder_with_the_free_disk(
    url: str, cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {record.sha256: record.bytes for record in records(load(url))}
    needed = sum(sizes.values())
    disk = shutil.disk_usage(cached)._replace(free=needed - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: disk)

    with pytest.raises(
        FetchError,
        match=rf"{len(sizes)} shards of {needed:,} bytes .*, which has {needed - 1:,} bytes free, "
        "1 too few; free them, or set MSLM_DATA_CACHE",
    ):
        load(url)
    assert kept(cached) == []

    # Cached shards need no room.
    monkeypatch.undo()
    monkeypatch.setenv("MSLM_DATA_CACHE", str(cached.parent))
    load(url)["train"].examples()
    disk = shutil.disk_usage(cached)._replace(free=needed - first(load(url)).bytes)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: disk)
    load(url)


def test_load__downloads_once_for_many_threads(folder: Path, url: str) -> None:
    shards = load(url)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: rows_of(load(url)), range(8)))

    assert all(rows == rows_of(load(folder)) for rows in found)
    Faulty.opened.pop(MANIFEST)
    assert sum(Faulty.opened.values()) == len({record.sha256 for record in records(shards)})


# Pickling ------------------------------------------------------------------------------------------------------------


def test_split__is_small_when_pickled_for_workers(folder: Path, url: str) -> None:
    here, there = load(folder)["train"], load(url)["train"]
    there.examples()

    packed = pickle.dumps(there)
    again = pickle.loads(packed)  # noqa: S301 - our own

    assert again[0] == here[0]
    assert len(packed) < len(pickle.dumps(here)) + 1000
    assert pickle.loads(pickle.dumps(load(url)))["test"][0] == load(folder)["test"][0]  # noqa: S301 - our own


def test_split__is_read_by_forked_workers(folder: Path, url: str) -> None:
    torch = pytest.importorskip("torch")
    from mslm_data.torch import MaskingCollator

    def keys(where: str, workers: int) -> list[int]:
        split = load(where)["train"]
        loader = torch.utils.data.DataLoader(
            split,
            16,
            collate_fn=MaskingCollator("joint", split, static=True),
            num_workers=workers,
            multiprocessing_context="fork" if workers else None,
        )
        return [key for batch in loader for key in batch["keys"].tolist()]

    assert keys(url, 2) == keys(str(folder), 0)


def test_load__folder_hides_secrets(url: str) -> None:
    folder = shard_remote.RemoteFolder("https://me:secret@host/ncbi?sig=secret")

    assert str(folder) == "https://host/ncbi"
    assert repr(folder) == "RemoteFolder('https://host/ncbi')"
