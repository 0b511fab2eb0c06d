from __future__ import annotations

import json
import os
import re
import shutil
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from msgspec.structs import replace

from mslm_data.api.loading import load
from mslm_data.builds import Progress, units
from mslm_data.builds.verify import verify
from mslm_data.errors import BuildError, MslmDataError, ShardError
from mslm_data.shard.manifest import Manifest
from tests import made
from tests.made import build

UNIT_BYTES = 1500
NCBI = made.SAMPLE / "ncbi-disease"
SMALL = made.pipeline_of(unit_bytes=UNIT_BYTES)


class StoppedError(Exception):
    pass


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The bytes of all files of an uninterrupted build."""
    out = tmp_path_factory.mktemp("expected") / "out"
    made.built(out, pipeline=SMALL)
    return made.tree(out)


# The same bytes -----------------------------------------------------------------------------------


def test_build__writes_the_same_bytes_into_another_folder(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    made.built(tmp_path / "a" / "b" / "other", pipeline=SMALL)

    assert made.tree(tmp_path / "a" / "b" / "other") == expected
    assert len([name for name in expected if name.endswith(".arrow")]) >= 6


def test_build__writes_the_same_bytes_with_two_workers(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    build(SMALL, [NCBI], made.word_piece(), tmp_path / "out", workers=2)

    assert made.tree(tmp_path / "out") == expected


def test_build__writes_the_same_bytes_from_a_copy_of_the_input(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    copy = shutil.copytree(NCBI, tmp_path / "some where" / "else")
    os.utime(copy / "train.tsv", (0, 0))

    made.built(tmp_path / "out", Path(copy), SMALL)

    assert made.tree(tmp_path / "out") == expected


def test_build__writes_the_same_bytes_from_listed_files(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    files = [NCBI / "test.tsv", NCBI / "devel.tsv", NCBI / "train.tsv"]

    build(SMALL, files, made.word_piece(), tmp_path / "out", workers=1)

    assert made.tree(tmp_path / "out") == expected


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2)])
def test_build__writes_the_same_bytes_in_parts(
    tmp_path: Path, order: tuple[int, ...], expected: dict[str, bytes]
) -> None:
    out = tmp_path / "out"
    for i in order:
        assert build(SMALL, [NCBI], made.word_piece(), out, part=(i, 3)) is None
        with pytest.raises(ShardError, match=r"no manifest\.json found; .* run the same build"):
            load(out)

    done: list[Progress] = []
    build(SMALL, [NCBI], made.word_piece(), out, progress=done.append)

    assert made.tree(out) == expected
    assert len(done) == 1  # Nothing was left to do.


def test_build__concurrent_parts_share_one_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = made.pipeline_of(unit_bytes=UNIT_BYTES, labels=["Disease"])
    out = tmp_path / "out"
    cut = []
    make = units.make_plan

    def counted(*args: object, **options: object) -> object:
        cut.append(1)
        time.sleep(0.2)  # the second part waits for the plan
        return make(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("mslm_data.builds.units.make_plan", counted)
    with ThreadPoolExecutor() as pool:
        parts = [
            pool.submit(build, SMALL, [NCBI], made.word_piece(), out, part=(number, 2))
            for number in (1, 2)
        ]
        assert [part.result() for part in parts] == [None, None]

    assert len(cut) == 1
    with pytest.raises(BuildError, match="an unfinished build of something else; different: "):
        build(other, [NCBI], made.word_piece(), out, part=(2, 2))


def test_build__finishes_the_units_that_a_part_left(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    build(SMALL, [NCBI], made.word_piece(), tmp_path / "out", part=(2, 2))

    made.built(tmp_path / "out", pipeline=SMALL)

    assert made.tree(tmp_path / "out") == expected


def test_build__writes_the_same_rows_for_any_unit_size(tmp_path: Path) -> None:
    made.built(tmp_path / "one")
    whole = load(tmp_path / "one")
    for unit_bytes in (1, 500, 5000):
        made.built(tmp_path / str(unit_bytes), pipeline=made.pipeline_of(unit_bytes=unit_bytes))
        parts = load(tmp_path / str(unit_bytes))

        assert len(parts["train"].record.shards) > 1
        for split in whole.splits:
            assert [parts[split][i] for i in range(len(parts[split]))] == [
                whole[split][i] for i in range(len(whole[split]))
            ]


def test_build__second_run_changes_nothing(tmp_path: Path, expected: dict[str, bytes]) -> None:
    out = tmp_path / "out"
    made.built(out, pipeline=SMALL)
    times = {path: path.stat().st_mtime_ns for path in out.rglob("*")}

    manifest = made.built(out, pipeline=SMALL)

    assert isinstance(manifest, Manifest)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == times


def cut_off(path: Path) -> None:
    os.truncate(path, 9)


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES: list[tuple[str, Callable[[Path], object]]] = [
    ("train/data-00001-of-*", Path.unlink),
    ("train/data-00001-of-*", cut_off),
    ("train/data-00001-of-*", flip_a_bit),
    ("test", shutil.rmtree),
    ("tokenizer.json", cut_off),
    ("tokenizer_config.json", Path.unlink),
    ("test/state.json", Path.unlink),
    ("set_aside.jsonl", Path.unlink),
]


@pytest.mark.parametrize(("name", "damage"), DAMAGES)
def test_build__second_run_repairs_a_finished_folder(
    name: str,
    damage: Callable[[Path], object],
    tmp_path: Path,
    expected: dict[str, bytes],
    caplog: pytest.LogCaptureFixture,
) -> None:
    out = tmp_path / "out"
    made.built(out, pipeline=SMALL)
    (out / "vocab").mkdir()
    (out / "vocab" / "pmi.arrow").write_bytes(b"made of the shards")
    (path,) = out.glob(name)
    damage(path)

    made.built(out, pipeline=SMALL)

    assert made.tree(out) == {**expected, "vocab/pmi.arrow": b"made of the shards"}
    assert f"{out}: " in caplog.text
    assert f"missing or damaged, such as {path.relative_to(out)}" in caplog.text


def test_build__explains_how_to_replace_an_unreadable_folder(tmp_path: Path) -> None:
    made.built(tmp_path, pipeline=SMALL)
    (tmp_path / "manifest.json").write_bytes(b"")
    before = made.tree(tmp_path)

    with pytest.raises(
        BuildError, match=f"manifest.json: .*; choose another --out or remove {tmp_path} first$"
    ):
        made.built(tmp_path, pipeline=SMALL)
    assert made.tree(tmp_path) == before


# Interruptions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 1, 3])
def test_build__resumes_after_an_interruption(
    tmp_path: Path, after: int, expected: dict[str, bytes]
) -> None:
    datasets = pytest.importorskip("datasets")
    out = tmp_path / "out"

    def stop(progress: Progress) -> None:
        if progress.done == after:
            raise StoppedError

    with pytest.raises(StoppedError):
        made.built(out, pipeline=SMALL, progress=stop)

    with pytest.raises(ShardError, match=r"no manifest\.json found; .* run the same build"):
        load(out)
    with pytest.raises(FileNotFoundError):
        datasets.load_from_disk(str(out))
    seen: list[Progress] = []
    made.built(out, pipeline=SMALL, progress=seen.append)
    assert seen[0].done == after
    assert [progress.done for progress in seen] == list(range(after, seen[0].total + 1))
    assert (seen[-1].bytes_done, seen[-1].done) == (seen[-1].bytes_total, seen[-1].total)
    assert made.tree(out) == expected


@pytest.mark.parametrize("damage", [b"", b"{", b"{}", b"[]", b"null"])
def test_build__repeats_a_unit_with_a_damaged_receipt(
    tmp_path: Path, damage: bytes, expected: dict[str, bytes]
) -> None:
    out = tmp_path / "out"
    build(SMALL, [NCBI], made.word_piece(), out, part=(1, 1))
    (out / ".build" / "receipts" / "train-00001-00000.json").write_bytes(damage)

    made.built(out, pipeline=SMALL)

    assert made.tree(out) == expected


def test_build__repeats_a_unit_with_a_missing_or_truncated_piece(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    out = tmp_path / "out"
    build(SMALL, [NCBI], made.word_piece(), out, part=(1, 1))
    first, second, *_ = sorted((out / ".build" / "pieces").glob("*.arrow"))
    first.unlink()
    second.write_bytes(b"ARROW")

    made.built(out, pipeline=SMALL)

    assert made.tree(out) == expected


def test_build__keeps_a_finished_folder_interrupted_during_cleanup(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    out = tmp_path / "out"
    made.built(out, pipeline=SMALL)
    (out / ".build").mkdir()
    (out / ".build" / "plan.json").write_text("{}")

    made.built(out, pipeline=SMALL)

    assert made.tree(out) == expected


# Rejected folders ---------------------------------------------------------------------------------


def _input(folder: Path) -> Path:
    copy = Path(shutil.copytree(NCBI, folder / "changed"))
    with (copy / "train.tsv").open("a", encoding="utf-8") as file:
        file.write("\nkinase\tO\n")
    return copy


OTHERS = [
    (
        {"pipeline": made.pipeline_of(unit_bytes=UNIT_BYTES, encode={"max_tokens": 77})},
        "pipeline.encode.max_tokens",
    ),
    ({"pipeline": made.pipeline_of(unit_bytes=2 * UNIT_BYTES)}, "pipeline.shard.input_bytes"),
    (
        {"pipeline": made.pipeline_of(unit_bytes=UNIT_BYTES, segment="whole")},
        "pipeline.segment.use",
    ),
    ({"tokenizer": "unigram"}, "tokenizer"),
    ({"inputs": True}, "sources.train"),
]


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize(("other", "named"), OTHERS)
def test_build__rejects_a_folder_of_another_build(
    tmp_path: Path, finished: bool, other: dict[str, Any], named: str
) -> None:
    out = tmp_path / "out"
    build(SMALL, [NCBI], made.word_piece(), out, part=None if finished else (1, 2))
    (out / ".build" / "locks" / "build").touch() if not finished else None
    before = made.tree(out)
    inputs = _input(tmp_path) if "inputs" in other else NCBI
    tokenizer = made.TOKENIZERS[other.get("tokenizer", "word_piece")]()

    message = "built from something else"
    if not finished:
        message = "an unfinished build of something else"
        named = named.replace("sources.train", "inputs")  # they are digested at the end
    with pytest.raises(
        BuildError,
        match=rf"{message}; different: (.*, )?{re.escape(named)}[,;].*choose another --out",
    ):
        build(other.get("pipeline", SMALL), [inputs], tokenizer, out)

    assert made.tree(out) == before


def test_build__rejects_a_folder_with_another_card(tmp_path: Path) -> None:
    made.built(tmp_path / "out", pipeline=SMALL)
    protected = replace(SMALL, about=replace(SMALL.about, protected=True))

    try:
        manifest = made.built(tmp_path / "out", pipeline=protected)
    except BuildError:
        return

    assert manifest.protected


@pytest.mark.parametrize("name", [".build", "train"])
@pytest.mark.parametrize("unfinished", [True, False])
def test_build__rejects_links_within_its_folder(
    name: str, unfinished: bool, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if unfinished:
        build(SMALL, [NCBI], made.word_piece(), out, part=(1, 2))
        shutil.rmtree(elsewhere)
        (out / name).rename(elsewhere)
    else:
        out.mkdir()
        (out / ".build").mkdir() if name == "train" else None
    (out / name).symlink_to(elsewhere)
    before = made.tree(elsewhere)

    message = f"^{out / name}: expected a folder, got a link; remove it"
    with pytest.raises(BuildError, match=message):
        made.built(out, pipeline=SMALL)

    assert made.tree(elsewhere) == before


def test_build__follows_a_link_to_its_folder(tmp_path: Path, expected: dict[str, bytes]) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    made.built(tmp_path / "link", pipeline=SMALL)

    assert made.tree(tmp_path / "real") == expected


def test_build__rejects_a_link_to_a_missing_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nothing")

    with pytest.raises(
        BuildError, match=f"^{tmp_path / 'link'}: expected a folder, got a broken link"
    ):
        made.built(tmp_path / "link", pipeline=SMALL)


@pytest.mark.parametrize("part", [None, (2, 2)])
def test_build__rejects_a_folder_locked_by_another_build(
    part: tuple[int, int] | None, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    build(SMALL, [NCBI], made.word_piece(), out, part=(1, 2))

    with (
        FileLock(out / ".build" / "locks" / "build"),
        pytest.raises(
            BuildError,
            match="another build is running in this folder; wait for it or choose another",
        ),
    ):
        build(SMALL, [NCBI], made.word_piece(), out, part=part)

    made.built(out, pipeline=SMALL)
    assert verify(out)[1] == []


@pytest.mark.parametrize("part", [None, (1, 2)])
@pytest.mark.parametrize("name", ["notes.txt", "train/thesis.docx", ".hidden"])
def test_build__rejects_a_folder_with_other_files(
    tmp_path: Path, name: str, part: tuple[int, int] | None
) -> None:
    out = tmp_path / "out"
    (out / name).parent.mkdir(parents=True)
    (out / name).write_text("mine")

    with pytest.raises(
        BuildError, match="expected an empty folder or an unfinished build, got other files"
    ):
        build(SMALL, [NCBI], made.word_piece(), out, part=part)

    assert (out / name).read_text() == "mine"


def test_build__accepts_an_existing_empty_folder(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    (tmp_path / "out").mkdir()

    made.built(tmp_path / "out", pipeline=SMALL)

    assert made.tree(tmp_path / "out") == expected


@pytest.mark.parametrize("name", ["..", "a/b", ".hidden"])
def test_build__rejects_invalid_split_names(tmp_path: Path, name: str) -> None:
    pipeline = made.pipeline_of(source={"splits": {name: ["train*"]}})

    with pytest.raises(MslmDataError):
        made.built(tmp_path / "in" / "out", pipeline=pipeline)

    assert not (tmp_path / "in" / "out").exists() or not list((tmp_path / "in").rglob("*.arrow"))
    assert not list(tmp_path.glob("*.arrow"))


# Contents of the folder ---------------------------------------------------------------------------


def test_build__writes_no_path_host_or_time(tmp_path: Path, expected: dict[str, bytes]) -> None:
    out = tmp_path / "a-telling-name"
    made.built(out, pipeline=SMALL)

    for name, data in made.tree(out).items():
        text = data.decode(errors="replace")
        for telling in (
            str(tmp_path),
            "a-telling-name",
            str(made.SAMPLE),
            socket.gethostname(),
            str(os.getpid()),
        ):
            assert telling not in text or telling.isdigit(), name
    manifest = json.loads(expected["manifest.json"])
    assert not re.search(r"\d{4}-\d{2}-\d{2}|\d{2}:\d{2}:\d{2}", expected["manifest.json"].decode())
    assert not re.search(r'"/', expected["manifest.json"].decode())
    assert manifest["splits"]["train"]["sources"][0]["name"] == "train.tsv"


def test_build__writes_the_documented_files(expected: dict[str, bytes]) -> None:
    above = {name for name in expected if "/" not in name}
    beside = {
        name.split("/")[1] for name in expected if "/" in name and not name.endswith(".arrow")
    }

    assert above == {
        "manifest.json", "dataset_dict.json", "tokenizer.json", "tokenizer_config.json",
        "README.md", "set_aside.jsonl",
    }  # fmt: skip
    assert beside == {"dataset_info.json", "state.json"}
    assert {name.split("/")[0] for name in expected if "/" in name} == {
        "train",
        "validation",
        "test",
    }


def test_build__reports_progress(tmp_path: Path) -> None:
    seen: list[Progress] = []

    manifest = made.built(tmp_path / "out", pipeline=SMALL, progress=seen.append)

    total = seen[0].bytes_total
    assert seen[0] == Progress(
        done=0, total=len(seen) - 1, bytes_done=0, bytes_total=total, documents=0, rows=0
    )
    assert seen[-1].documents == sum(split.read for split in manifest.splits.values())
    assert seen[-1].rows == sum(split.sequences for split in manifest.splits.values())
    size = sum(path.stat().st_size for path in NCBI.glob("*.tsv"))
    assert size - len(seen) <= seen[-1].bytes_total <= size
    assert all(before.bytes_done < after.bytes_done for before, after in pairwise(seen))


def test_build__keeps_the_text_on_request(tmp_path: Path) -> None:
    made.built(tmp_path / "out", pipeline=made.pipeline_of(encode={"keep_text": True}))

    train = load(tmp_path / "out")["train"]

    core = made.word_piece().core
    for i in range(len(train)):
        row = train[i]
        surfaces = [
            row["text"][a:b]
            for a, b in zip(row["token_starts"], row["token_ends"], strict=True)
            if a >= 0
        ]
        pieces = [core.id_to_token(id_) for id_ in row["input_ids"][1:-1]]
        assert [piece.removeprefix("##") for piece in pieces] == surfaces or "[UNK]" in pieces
