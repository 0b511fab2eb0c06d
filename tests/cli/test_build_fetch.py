"""End-to-end tests of `build` without `--input`: a corpus downloaded from a server."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from mslm_data.io import resources
from tests.cli.running import Done, run
from tests.source.server import Site, serving

SAMPLE = resources.path("vocab", "sample/ncbi-disease")
SPLITS = {"train": "train", "validation": "devel", "test": "test"}


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as made:
        yield made


def build(site: Site, folder: Path, **wrong_sha256: str) -> Done:
    """Build from a pipeline with its corpus on the server."""
    lines = ['[source]\nuse = "conll"\n']
    for split, name in SPLITS.items():
        data = (SAMPLE / f"{name}.tsv").read_bytes()
        url = site.add(f"/{name}.tsv", data)
        sha256 = wrong_sha256.get(split, hashlib.sha256(data).hexdigest())
        lines.append(f'[[source.fetch]]\nsplit = "{split}"\nurl = "{url}"\nsha256 = "{sha256}"\n')
    (folder / "corpus.toml").write_text("\n".join(lines))
    vocab = resources.path("vocab", "sample/vocab.txt")
    return run(
        "build",
        "--source",
        folder / "corpus.toml",
        "--tokenizer",
        vocab,
        "--out",
        folder / "out",
        "--json",
    )


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "cache"))


def test_build__downloads_once_and_equals_a_build_with_input(site: Site, tmp_path: Path) -> None:
    fetched = build(site, tmp_path)
    again = build(site, tmp_path)
    given = run(
        "build", "--source", tmp_path / "corpus.toml", "--input", SAMPLE, "--json",
        "--tokenizer", resources.path("vocab", "sample/vocab.txt"), "--out", tmp_path / "given",
    )  # fmt: skip

    assert fetched.code == again.code == 0
    assert set(site.requests.values()) == {1}
    assert fetched.json["splits"] == given.json["splits"]
    for shard in (tmp_path / "given").rglob("*.arrow"):
        assert (
            shard.read_bytes()
            == (tmp_path / "out" / shard.relative_to(tmp_path / "given")).read_bytes()
        )


def test_build__wrong_checksum_is_one_error_without_a_folder(site: Site, tmp_path: Path) -> None:
    done = build(site, tmp_path, validation="0" * 64)

    assert done.code == 1
    assert "devel.tsv: expected" in done.err
    assert "--input" in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_build__broken_connection_is_one_error(site: Site, tmp_path: Path) -> None:
    site.broken.add("/test.tsv")

    done = build(site, tmp_path)

    assert done.code == 1
    assert "test.tsv: expected" in done.err
    assert not (tmp_path / "out").exists()


def test_build__missing_page_is_one_error(site: Site, tmp_path: Path) -> None:
    build(site, tmp_path)
    site.files.clear()
    (tmp_path / "corpus.toml").write_text(
        (tmp_path / "corpus.toml").read_text().replace("/train.tsv", "/tram.tsv")
    )

    vocab = resources.path("vocab", "sample/vocab.txt")
    done = run(
        "build",
        "--source",
        tmp_path / "corpus.toml",
        "--tokenizer",
        vocab,
        "--out",
        tmp_path / "other",
    )

    assert done.code == 1
    assert "got no such file" in done.err
    assert "--input" in done.err
