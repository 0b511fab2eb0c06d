"""Commands on the URL of a built folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from tests import made
from tests.cli.running import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out)
    return out


@pytest.fixture
def url(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "cache"))
    memory = fsspec.filesystem("memory")
    memory.put(str(folder), "/sets/ncbi", recursive=True)
    yield "memory://sets/ncbi"
    memory.rm("/sets", recursive=True)


@pytest.mark.parametrize(
    "words",
    [
        ("mask-stats", "--top-words", "3", "--json"),
        ("inspect", "--rows", "2"),
        ("verify", "--json"),
    ],
)
def test_load__commands_print_the_same_for_a_folder_and_its_url(
    words: tuple[str, ...], folder: Path, url: str
) -> None:
    here, there = (run(words[0], where, *words[1:]) for where in (folder, url))

    assert (there.code, there.out) == (here.code, here.out)
    assert there.code == 0


def test_verify__names_the_url(url: str) -> None:
    assert run("verify", url).out.startswith(f"{url}: 3 shards, ")


def test_verify__reports_remote_problems(url: str) -> None:
    fsspec.filesystem("memory").pipe("/sets/ncbi/train/data-00001-of-00002.arrow", b"")

    done = run("verify", url)

    assert done.code == 1
    assert (
        "train/data-00001-of-00002.arrow: expected no shard that the manifest does not name"
        in done.out
    )


def test_verify__reports_that_http_cannot_list_files() -> None:
    done = run("verify", "https://me:secret@host/ncbi?sig=secret")

    assert done.code == 1
    assert (
        "https://host/ncbi: http cannot list the files of a folder; download the folder, and "
        "verify the copy" in done.err
    )


@pytest.mark.parametrize("command", ["mask-stats", "inspect", "verify"])
def test_load__commands_report_a_missing_folder(command: str, url: str) -> None:
    done = run(command, "memory://nothing")

    assert done.code == 1
    assert "memory://nothing" in done.err
