from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mslm_data.api.loading import load
from mslm_data.builds.verify import verify
from mslm_data.errors import ShardError
from mslm_data.shard.manifest import read_manifest, write_manifest
from tests.shard.damage import edit_manifest

Change = Callable[[dict[str, Any]], Any]


def train(manifest: dict[str, Any]) -> dict[str, Any]:
    of: dict[str, Any] = manifest["splits"]["train"]
    return of


def test_write_manifest__round_trip_gives_the_same_bytes(folder: Path) -> None:
    before = (folder / "manifest.json").read_bytes()
    manifest = read_manifest(folder)

    write_manifest(folder, manifest)

    assert (folder / "manifest.json").read_bytes() == before
    assert read_manifest(folder) == manifest


def test_read_manifest__puts_the_standard_splits_first(folder: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        splits = manifest["splits"]
        manifest["splits"] = {
            "extra": splits["test"],
            **{name: splits[name] for name in reversed(list(splits))},
        }

    edit_manifest(folder, change)

    assert list(read_manifest(folder).splits) == ["train", "validation", "test", "extra"]


def test_read_manifest__reports_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(
        ShardError, match="no such folder; make a built folder with `mslm-data build`"
    ):
        read_manifest(tmp_path / "none")


@pytest.mark.parametrize("relative", [True, False])
def test_read_manifest__reports_the_folder_of_a_split(
    relative: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    given = Path("train") if relative else folder / "train"

    with pytest.raises(
        ShardError, match=f"^{given}: .* open {folder} and select the split by name$"
    ):
        read_manifest(given)


def test_read_manifest__reports_an_unfinished_build(folder: Path) -> None:
    (folder / "manifest.json").unlink()

    with pytest.raises(
        ShardError,
        match=r"no manifest\.json found; .* run the same build command again to resume it",
    ):
        load(folder)


@pytest.mark.parametrize("version", [3, 1, 0, -1])
@pytest.mark.parametrize("read", [read_manifest, load, verify], ids=lambda read: read.__name__)
def test_read_manifest__names_an_unsupported_format_version(
    folder: Path, read: Callable[[Path], object], version: int
) -> None:
    edit_manifest(
        folder, lambda manifest: manifest.update(format=version, splits="what others may have")
    )

    with pytest.raises(ShardError, match=rf"expected format 2, got {version}; another version"):
        read(folder)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"1",
        b'{"format": 2}',
        b'{"format": "x"}',
        b'{"format": true}',
        b"\xff\xfe",
        b'{"a": "\xff"}',
        b"[" * 9999,
    ],
)
def test_read_manifest__rejects_other_files(folder: Path, data: bytes) -> None:
    (folder / "manifest.json").write_bytes(data)

    with pytest.raises(ShardError, match=r"manifest\.json: expected a manifest of mslm-data"):
        read_manifest(folder)


NO_MANIFEST = "expected a manifest of mslm-data"
SIZE = "Expected `int` (>= 1|<= )"
SUM = "train: the counts of the shards do not add up to "
MENTIONS = r"train: expected \d+ mentions according to the counts, got \d+"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(tags=["O"]), "the tags do not match the labels"),
        (lambda m: m["tokenizer"].pop("ids"), NO_MANIFEST),
        (lambda m: m["tokenizer"]["ids"].update(size=0), SIZE),
        (lambda m: m["tokenizer"]["ids"].update(size=1 << 40), SIZE),
        (
            lambda m: m["tokenizer"]["ids"].update(mask=1144),
            "expected special ids below 1144, got 1144",
        ),
        (lambda m: m["tokenizer"]["ids"].update(pad=-2), "Expected `int` >= -1"),
        (
            lambda m: m["tokenizer"]["ids"].update(special=[0, 9999]),
            "expected special ids below 1144",
        ),
        (lambda m: m["tokenizer"].pop("sha256"), "missing required field `sha256`"),
        (
            lambda m: m.update(labels=["X", "X"], tags=["O", "B-X", "I-X", "B-X", "I-X"]),
            "expected different labels",
        ),
        (lambda m: m.update(doc_labels=["no", "no"]), "expected different doc_labels"),
        (lambda m: m["pipeline"].pop("encode"), NO_MANIFEST),
        (lambda m: m["pipeline"]["encode"].update(join="paragraph"), NO_MANIFEST),
        (lambda m: m["pipeline"]["annotate"].pop("weak"), NO_MANIFEST),
        (lambda m: m["pipeline"].update(annotate=[]), NO_MANIFEST),
        (
            lambda m: train(m)["shards"][0].update(rows=-1),
            "expected a manifest of mslm-data: Expected `int` >= 0",
        ),
        (
            lambda m: train(m).update(read=1 << 60, written=1 << 60),
            "expected a manifest of mslm-data: Expected `int` <",
        ),
        (
            lambda m: train(m).setdefault("left_out", {}).update(x=-1),
            "expected a manifest of mslm-data: Expected `int` >= 0",
        ),
        (
            lambda m: train(m)["shards"][1].update(train(m)["shards"][0]),
            "train: expected each shard once",
        ),
        (lambda m: train(m)["shards"][0].update(sha256="x"), "Expected `str` matching regex"),
        (lambda m: m["tokenizer"]["ids"].update(size="many"), NO_MANIFEST),
        (
            lambda m: train(m).update(read=1),
            r"train: expected read = written \+ set aside, got 1 = \d+ \+ 0",
        ),
        (lambda m: train(m).update(tokens=1), SUM),
        (lambda m: train(m).update(sequences=1), SUM),
        (lambda m: train(m).update(mentions=1), SUM),
        (lambda m: train(m)["shards"].pop(), SUM),
        (lambda m: train(m).update(cut_pieces=1), MENTIONS),
        (lambda m: train(m).setdefault("left_out", {}).update(x=1), MENTIONS),
        (lambda m: train(m)["shards"][0].pop("rows"), NO_MANIFEST),
    ],
)
def test_read_manifest__rejects_contradictions(folder: Path, change: Change, message: str) -> None:
    edit_manifest(folder, change)

    with pytest.raises(ShardError, match=message):
        read_manifest(folder)


def rename_split(manifest: dict[str, Any], name: str) -> None:
    manifest["splits"][name] = manifest["splits"]["test"]


def rename_shard(manifest: dict[str, Any], name: str) -> None:
    train(manifest)["shards"][0]["file"] = name


@pytest.mark.parametrize("rename", [rename_split, rename_shard])
@pytest.mark.parametrize(
    "name",
    ["..", "../train", "/etc", "a/b", "", ".hidden", "a\\b", "x\n", "data-\u06600000.arrow"],
)
def test_read_manifest__rejects_names_outside_the_folder(
    folder: Path, rename: Callable[[dict[str, Any], str], None], name: str
) -> None:
    edit_manifest(folder, lambda manifest: rename(manifest, name))

    with pytest.raises(ShardError, match="Expected `str` matching regex"):
        load(folder)
