"""`build` without `--input`: a corpus downloaded from a server. Errors: tests/source/inputs/test_fetch.py."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import made
from tests.cli.running import Done, run
from tests.source.server import Site, serving

CORPUS = made.SAMPLE / "ncbi-disease"
SPLITS = {"train": "train", "validation": "devel", "test": "test"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "cache"))
    with serving() as served:
        yield served


def build(site: Site, folder: Path, *words: object, out: str = "out", sha256: str = "") -> Done:
    """Build from a pipeline with its corpus on the server."""
    lines = ['[source]\nuse = "conll"\n']
    for split, name in SPLITS.items():
        data = (CORPUS / f"{name}.tsv").read_bytes()
        url = site.add(f"/{name}.tsv", data)
        digest = sha256 or hashlib.sha256(data).hexdigest()
        lines.append(f'[[source.fetch]]\nsplit = "{split}"\nurl = "{url}"\nsha256 = "{digest}"\n')
    (folder / "corpus.toml").write_text("\n".join(lines))
    return run(
        "build", "--source", folder / "corpus.toml", "--tokenizer", made.SAMPLE / "vocab.txt",
        "--out", folder / out, *words,
    )  # fmt: skip


def test_build__downloads_once_and_equals_a_build_with_input(site: Site, tmp_path: Path) -> None:
    fetched = build(site, tmp_path)
    again = build(site, tmp_path)
    given = build(site, tmp_path, "--input", CORPUS, out="given")

    assert (fetched.code, again.code, given.code) == (0, 0, 0)
    assert set(site.requests.values()) == {1}
    for shard in (tmp_path / "given").rglob("*.arrow"):
        other = tmp_path / "out" / shard.relative_to(tmp_path / "given")
        assert shard.read_bytes() == other.read_bytes()


def test_build__failed_download_is_one_error_without_a_folder(site: Site, tmp_path: Path) -> None:
    done = build(site, tmp_path, sha256="0" * 64)

    assert done.code == 1
    assert ".tsv: expected" in done.err
    assert "--input" in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "out").exists()
