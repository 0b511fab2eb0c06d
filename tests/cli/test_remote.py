"""Commands on the URL of a built folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from tests.cli.running import run


@pytest.fixture
def url(ncbi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "cache"))
    memory = fsspec.filesystem("memory")
    memory.put(str(ncbi), "/sets/ncbi", recursive=True)
    yield "memory://sets/ncbi"
    memory.rm("/sets", recursive=True)


@pytest.mark.parametrize(
    "words", ["mask-stats --top-words 3 --json", "inspect --rows 2", "verify --json"]
)
def test_load__commands_print_the_same_for_a_folder_and_its_url(
    words: str, ncbi: Path, url: str
) -> None:
    command, *options = words.split()

    here, there = (run(command, place, *options) for place in (ncbi, url))

    assert (there.code, there.out) == (0, here.out)


def test_verify__prints_the_url_and_its_problems(url: str) -> None:
    whole = run("verify", url)
    fsspec.filesystem("memory").pipe("/sets/ncbi/train/data-00001-of-00002.arrow", b"")
    other = run("verify", url)

    place = "train/data-00001-of-00002.arrow"
    assert whole.out.startswith(f"{url}: 3 shards, ")
    assert other.code == 1
    assert ": 1 problem\n" in other.out
    assert f"{place}: expected no shard that the manifest does not name" in other.out


def test_verify__reports_that_http_cannot_list_files() -> None:
    done = run("verify", "https://me:secret@host/ncbi?sig=secret")

    assert done.code == 1
    assert (
        "https://host/ncbi: http cannot list the files of a folder; download the folder, and "
        "verify the copy" in done.err
    )


@pytest.mark.parametrize("command", ["mask-stats", "verify"])
def test_load__commands_report_a_missing_folder(command: str) -> None:
    done = run(command, "memory://nothing")

    assert done.code == 1
    assert "memory://nothing" in done.err
