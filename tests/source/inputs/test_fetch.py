"""Downloads from a working server and from a failing one."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import stat
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mslm_data.errors import FetchError
from mslm_data.io import remote, resources
from mslm_data.pipeline import Fetch
from mslm_data.source.inputs.fetch import fetch
from mslm_data.source.reading.splits import sort_by_split
from tests.source.server import Site, serving

SPLITS = {"train": "train", "validation": "devel", "test": "test"}


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as made:
        yield made


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def entries_of(site: Site) -> list[Fetch]:
    """Serve a shipped sample as a corpus."""
    entries = []
    for split, name in SPLITS.items():
        data = resources.path("vocab", f"sample/bc2gm/{name}.tsv").read_bytes()
        entries.append(
            Fetch(url=site.add(f"/bc2gm/{name}.tsv", data), sha256=sha256(data), split=split)
        )
    return entries


def files_below(folder: Path) -> list[str]:
    """Return the files below a folder, except locks."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.match(".lock-*")]
    return sorted(path.relative_to(folder).as_posix() for path in files)


def test_fetch__gives_a_folder_whose_files_are_found_by_split(site: Site, tmp_path: Path) -> None:
    found = fetch("blurb/bc2gm", entries_of(site), cache=tmp_path)

    split_files = sort_by_split(found, suffixes=(".tsv",), splits={})
    assert {split: [path.name for path in paths] for split, paths in split_files.items()} == {
        split: [f"{name}.tsv"] for split, name in SPLITS.items()
    }
    assert split_files["test"][0].read_bytes() == site.files["/bc2gm/test.tsv"]


def test_fetch__assigns_files_to_splits_regardless_of_names(site: Site, tmp_path: Path) -> None:
    url = site.add("/corpus%20a.tsv", b"a\tO\n")

    (folder,) = fetch("x", [Fetch(url=url, sha256=sha256(b"a\tO\n"), split="test")], cache=tmp_path)

    assert files_below(folder) == ["test/corpus a.tsv"]


def test_fetch__asks_the_server_once(site: Site, tmp_path: Path) -> None:
    entries = entries_of(site)
    first = fetch("blurb/bc2gm", entries, cache=tmp_path)
    second = fetch("blurb/bc2gm", entries, cache=tmp_path)

    assert first == second
    assert set(site.requests.values()) == {1}


def test_fetch__of_the_same_files_leaves_those_of_others_unchanged(
    site: Site, tmp_path: Path
) -> None:
    (folder,) = fetch("x", entries_of(site), cache=tmp_path)
    before = (folder / "train/train.tsv").stat()

    fetch("y", entries_of(site), cache=tmp_path)

    assert (folder / "train/train.tsv").stat() == before
    assert site.requests == dict.fromkeys(site.requests, 1)


def test_fetch__uses_another_folder_for_other_entries(site: Site, tmp_path: Path) -> None:
    entries = entries_of(site)

    assert fetch("x", entries, cache=tmp_path) != fetch("x", entries[:2], cache=tmp_path)


def test_fetch__keeps_the_cache_private_in_the_configured_folder(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "elsewhere"))

    (folder,) = fetch("x", entries_of(site))

    assert folder.is_relative_to(tmp_path / "elsewhere" / "corpora")
    assert stat.S_IMODE((tmp_path / "elsewhere" / "corpora").stat().st_mode) == 0o700


def test_fetch__refuses_other_bytes_and_names_both_digests(site: Site, tmp_path: Path) -> None:
    wanted = "0" * 64
    url = site.add("/train.tsv", b"<html>Log in to this hotel's network</html>")

    with pytest.raises(FetchError) as caught:
        fetch("blurb/x", [Fetch(url=url, sha256=wanted, split="train")], cache=tmp_path)
    message = str(caught.value)
    assert all(
        part in message
        for part in ("blurb/x", url, wanted, sha256(site.files["/train.tsv"]), "--input")
    )
    assert "hotel" not in message
    assert files_below(tmp_path) == []


def test_fetch__leaves_no_partial_file_after_a_broken_connection(
    site: Site, tmp_path: Path
) -> None:
    data = b"token\tO\n" * 50_000
    entry = Fetch(url=site.add("/train.tsv", data), sha256=sha256(data), split="train")
    site.broken.add("/train.tsv")

    with pytest.raises(
        FetchError, match=r"broke off in the middle of the file \(3 tries\).*--input"
    ):
        fetch("x", [entry], cache=tmp_path)
    assert files_below(tmp_path) == []
    site.broken.clear()
    (folder,) = fetch("x", [entry], cache=tmp_path)
    assert files_below(folder) == ["train/train.tsv"]


def test_fetch__retries_if_the_server_is_busy(site: Site, tmp_path: Path) -> None:
    entry = Fetch(url=site.add("/train.tsv", b"a\tO\n"), sha256=sha256(b"a\tO\n"), split="train")
    site.failing["/train.tsv"] = 2

    (folder,) = fetch("x", [entry], cache=tmp_path)

    assert files_below(folder) == ["train/train.tsv"]
    assert site.requests["/train.tsv"] == 3


def test_fetch__does_not_retry_a_missing_file(site: Site, tmp_path: Path) -> None:
    entry = Fetch(url=f"{site.url}/gone.tsv", sha256="1" * 64, split="train")

    with pytest.raises(
        FetchError,
        match=r"gone\.tsv: expected a file with sha256 1+, got no such file;.*--input",
    ):
        fetch("x", [entry], cache=tmp_path)
    assert site.requests["/gone.tsv"] == 1


def test_fetch__reports_a_missing_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as taken:  # bound but not listening, so connections are refused
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/train.tsv"

        with pytest.raises(FetchError, match=r"got no connection \(3 tries\); .*--input"):
            fetch("x", [Fetch(url=url, sha256="1" * 64, split="train")], cache=tmp_path)


def test_fetch__does_not_wait_for_ever(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "STALL_S", 0.2)
    site.slow_s = 0.6
    url = site.add("/train.tsv", b"late")

    with pytest.raises(FetchError, match=r"got no answer in time \(3 tries\); "):
        fetch("x", [Fetch(url=url, sha256=sha256(b"late"), split="train")], cache=tmp_path)


def test_fetch__ends_a_transfer_that_stalls(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"token\tO\n" * 50_000
    entry = Fetch(url=site.add("/train.tsv", data), sha256=sha256(data), split="train")
    monkeypatch.setattr(remote, "STALL_S", 0.2)
    site.stalled.add("/train.tsv")

    with pytest.raises(FetchError, match=r"got no answer in time \(3 tries\); "):
        fetch("x", [entry], cache=tmp_path)
    assert files_below(tmp_path) == []


def test_fetch__has_no_limit_for_a_whole_transfer(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"token\tO\n" * 50_000
    entry = Fetch(url=site.add("/train.tsv", data), sha256=sha256(data), split="train")
    monkeypatch.setattr(remote, "STALL_S", 0.4)
    site.slow_piece_s = 0.1

    fetch("x", [entry], cache=tmp_path)

    assert site.requests["/train.tsv"] == 1


def test_fetch__reports_a_pipeline_without_downloads() -> None:
    with pytest.raises(FetchError, match=r"pipeline 'mine': it has no download URL; .*--input"):
        fetch("mine", [])


def test_fetch__rejects_two_files_with_one_name(site: Site, tmp_path: Path) -> None:
    entries = [
        Fetch(url=f"{site.url}/{n}/train.tsv", sha256=str(n) * 64, split="train") for n in (1, 2)
    ]

    with pytest.raises(FetchError, match="unique within the split"):
        fetch("x", entries, cache=tmp_path)


@pytest.mark.parametrize("url", ["ftp://host/a.tsv", "file:///etc/passwd"])
def test_fetch__takes_http_only(url: str, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match=r"got a URL that is not http\(s\)"):
        fetch("x", [Fetch(url=url, sha256="1" * 64)], cache=tmp_path)


def tar_gz(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return made.getvalue()


def test_fetch__unpacks_archives_and_reads_them_only(site: Site, tmp_path: Path) -> None:
    data = tar_gz({"corpus/a.iob2": b"a\tO\n", "corpus/raw/b.raw": b"b"})
    entry = Fetch(
        url=site.add("/Corpus.tar.gz", data), sha256=sha256(data), split="train", unpack=True
    )
    found = fetch("x", [entry], cache=tmp_path)

    assert files_below(found[0]) == ["train/Corpus/corpus/a.iob2", "train/Corpus/corpus/raw/b.raw"]
    assert list(sort_by_split(found, suffixes=(".iob2",), splits={})) == ["train"]
    assert fetch("x", [entry], cache=tmp_path) == found
    assert site.requests["/Corpus.tar.gz"] == 1


def test_fetch__rejects_two_archives_for_one_folder(site: Site, tmp_path: Path) -> None:
    entries = [
        Fetch(url=f"{site.url}/c.{suffix}", sha256="1" * 64, split="train", unpack=True)
        for suffix in ("tgz", "zip")
    ]

    with pytest.raises(FetchError, match="unique within the split"):
        fetch("x", entries, cache=tmp_path)


def test_fetch__rejects_an_archive_with_paths_outside(site: Site, tmp_path: Path) -> None:
    data = tar_gz({"../evil.tsv": b"a\tO\n"})
    entry = Fetch(url=site.add("/c.tgz", data), sha256=sha256(data), unpack=True)

    with pytest.raises(
        FetchError, match=r"c\.tgz: member '\.\./evil\.tsv': expected a path inside .*--input"
    ):
        fetch("x", [entry], cache=tmp_path)
    assert files_below(tmp_path) == [f"corpora/downloads/{entry.sha256}/c.tgz"]


def test_fetch__asks_the_server_once_for_many(site: Site, tmp_path: Path) -> None:
    entries = entries_of(site)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: fetch("x", entries, cache=tmp_path), range(8)))

    assert all(one == found[0] for one in found)
    assert set(site.requests.values()) == {1}


def test_fetch__keeps_files_private_for_any_umask(site: Site, tmp_path: Path) -> None:
    data = tar_gz({"corpus/a.iob2": b"a\tO\n"})
    entry = Fetch(
        url=site.add("/Corpus.tar.gz", data), sha256=sha256(data), split="train", unpack=True
    )
    before = os.umask(0)
    try:
        fetch("x", [*entries_of(site), entry], cache=tmp_path / "cache")
    finally:
        os.umask(before)

    for path in (tmp_path / "cache").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def full(path: Path) -> None:
    raise OSError(28, os.strerror(28))


def test_fetch__reports_a_full_disk(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tar_gz({"corpus/a.iob2": b"a\tO\n"})
    entry = Fetch(
        url=site.add("/Corpus.tar.gz", data), sha256=sha256(data), split="train", unpack=True
    )

    monkeypatch.setattr("mslm_data.io.archive.open_private", full)
    with pytest.raises(
        FetchError,
        match=r"pipeline 'x': .*: expected to write it, got No space left on device; is",
    ):
        fetch("x", [entry], cache=tmp_path)
    monkeypatch.setattr(remote, "open_private", full)
    with pytest.raises(
        FetchError,
        match=r"pipeline 'y': .*: expected to write it, got No space left on device; is",
    ):
        fetch("y", entries_of(site)[:1], cache=tmp_path)
    assert files_below(tmp_path) == [f"corpora/downloads/{entry.sha256}/Corpus.tar.gz"]


def test_fetch__reports_progress(site: Site, tmp_path: Path) -> None:
    data = bytes(300_000)
    seen: list[tuple[str, int, int]] = []

    remote.fetch(
        site.add("/a.bin", data), tmp_path / "a.bin", progress=lambda *args: seen.append(args)
    )

    assert seen[-1] == ("a.bin", len(data), len(data))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
