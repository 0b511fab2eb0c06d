"""Folders that a build fills, opens, repairs and refuses."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import socket
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mslm_data.api.loading import load
from mslm_data.builds import Progress
from mslm_data.errors import BuildError, ShardError
from mslm_data.pipeline import Pipeline
from mslm_data.shard.manifest import Manifest
from tests import made
from tests.builds import everything
from tests.made import build
from tests.stats.test_overlap import folder_of

needs_rensa = pytest.mark.skipif(not find_spec("rensa"), reason="near copies need rensa")


class StoppedError(Exception):
    pass


# Progress -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 1, 3])
def test_build__reports_progress_and_goes_on_where_it_ended(
    after: int, corpus: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    datasets = pytest.importorskip("datasets")
    out = tmp_path / "out"
    seen: list[Progress] = []

    def stop(progress: Progress) -> None:
        seen.append(progress)
        if progress.done == after:
            raise StoppedError

    with pytest.raises(StoppedError):
        everything.build(corpus, out, progress=stop)
    with pytest.raises(ShardError, match=r"no manifest\.json found; .* run the same build"):
        load(out)
    with pytest.raises(FileNotFoundError):
        datasets.load_from_disk(str(out))
    again: list[Progress] = []
    manifest = everything.build(corpus, out, progress=again.append)

    assert made.tree(out) == expected
    total = seen[0].total
    assert [progress.done for progress in seen] == [*range(after + 1)]
    assert [progress.done for progress in again] == [*range(after, total + 1)]
    assert again[0] == seen[-1]
    assert seen[0] == Progress(
        done=0, total=total, bytes_done=0, bytes_total=seen[0].bytes_total, documents=0, rows=0
    )
    assert all(
        before.bytes_done < then.bytes_done for before, then in pairwise([*seen, *again[1:]])
    )
    assert again[-1].bytes_done == again[-1].bytes_total
    packed, plain = corpus / "train.jsonl.gz", corpus / "test.jsonl"
    size = len(gzip.decompress(packed.read_bytes())) + plain.stat().st_size
    assert size - total <= again[-1].bytes_total <= size
    assert manifest
    assert again[-1].documents == sum(split.read for split in manifest.splits.values())
    assert again[-1].rows == sum(split.sequences for split in manifest.splits.values())


# A finished folder --------------------------------------------------------------------------------


@pytest.fixture
def finished(whole: Path, tmp_path: Path) -> Path:
    """A copy of a finished folder."""
    return Path(shutil.copytree(whole, tmp_path / "out"))


@pytest.mark.parametrize("is_cleared", [True, False])
def test_build__second_run_changes_nothing(
    is_cleared: bool, corpus: Path, finished: Path, expected: dict[str, bytes]
) -> None:
    """Not even if the first was killed before it removed its state."""
    times = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    if not is_cleared:
        (finished / ".build").mkdir()
        (finished / ".build" / "plan.json").write_text("{}")

    manifest = everything.build(corpus, finished)

    assert isinstance(manifest, Manifest)
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == times
    assert made.tree(finished) == expected


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
    corpus: Path,
    finished: Path,
    expected: dict[str, bytes],
    caplog: pytest.LogCaptureFixture,
) -> None:
    (finished / "vocab").mkdir()
    (finished / "vocab" / "pmi.arrow").write_bytes(b"made of the shards")
    (path,) = finished.glob(name)
    damage(path)

    everything.build(corpus, finished)

    assert made.tree(finished) == {**expected, "vocab/pmi.arrow": b"made of the shards"}
    assert f"{finished}: " in caplog.text
    assert f"missing or damaged, such as {path.relative_to(finished)}" in caplog.text


# Rejected folders ---------------------------------------------------------------------------------


def test_build__explains_how_to_replace_an_unreadable_folder(corpus: Path, finished: Path) -> None:
    (finished / "manifest.json").write_bytes(b"")
    before = made.tree(finished)

    with pytest.raises(
        BuildError, match=f"manifest.json: .*; choose another --out or remove {finished} first$"
    ):
        everything.build(corpus, finished)
    assert made.tree(finished) == before


def protected(inputs: Path) -> Pipeline:
    pipeline = everything.pipeline_of(inputs)
    return replace(pipeline, about=replace(pipeline.about, protected=True))


def with_another_file(inputs: Path) -> Pipeline:
    with (inputs / "test.jsonl").open("a") as file:
        file.write(json.dumps({"id": "c", "text": "More."}))
    return everything.pipeline_of(inputs)


def with_another_held_out_folder(inputs: Path) -> Pipeline:
    shutil.rmtree(inputs.parent / "held_out")
    shutil.rmtree(inputs.parent / "held_out-in")
    folder_of(inputs.parent / "held_out", ["Another text ."])
    return everything.pipeline_of(inputs)


def with_options(**options: Any) -> Callable[[Path], Pipeline]:
    return lambda inputs: everything.pipeline_of(inputs, **options)


OTHERS: list[Any] = [
    (with_options(encode={"max_tokens": 77}), "pipeline.encode.max_tokens"),
    (with_options(unit_bytes=9000), "pipeline.shard.input_bytes"),
    (with_options(segment="whole"), "pipeline.segment.use"),
    (with_options(annotate={"min_term_share": 0.1}), "pipeline.annotate.min_term_share"),
    (with_options(source={"duplicates": "keep"}), "pipeline.source.duplicates"),
    (with_options(source={"decontaminate": []}), "pipeline.source.decontaminate"),
    (with_another_held_out_folder, "pipeline.source.decontaminate"),
    pytest.param(
        with_options(source={"duplicate_similarity": 0.9}),
        "pipeline.source.duplicate_similarity",
        marks=needs_rensa,
    ),
    (protected, "about.protected"),
    (everything.pipeline_of, "tokenizer"),
    (with_another_file, "sources.test"),
]


@pytest.mark.parametrize("is_finished", [True, False])
@pytest.mark.parametrize(("change", "named"), OTHERS)
def test_build__rejects_a_folder_of_another_build(
    change: Callable[[Path], Pipeline],
    named: str,
    is_finished: bool,
    corpus: Path,
    whole: Path,
    half: Path,
    tmp_path: Path,
) -> None:
    out = Path(shutil.copytree(whole if is_finished else half, tmp_path / "out"))
    (out / ".build" / "locks" / "build").touch() if not is_finished else None
    before = made.tree(out)
    inputs = Path(shutil.copytree(corpus.parent, tmp_path / "changed")) / "in"
    pipeline = change(inputs)
    tokenizer = made.unigram() if named == "tokenizer" else made.word_piece()

    message = "built from something else"
    if not is_finished:
        message = "an unfinished build of something else"
        named = named.replace("sources.test", "inputs")  # they are digested at the end
    with pytest.raises(
        BuildError,
        match=rf"{message}; different: (.*, )?{re.escape(named)}[,;].*choose another --out",
    ):
        everything.build(inputs, out, pipeline, tokenizer=tokenizer)

    assert made.tree(out) == before


@pytest.mark.parametrize("name", [".build", "train"])
@pytest.mark.parametrize("is_unfinished", [True, False])
def test_build__rejects_links_within_its_folder(
    name: str, is_unfinished: bool, corpus: Path, half: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    if is_unfinished:
        shutil.copytree(half, out)
    (out / ".build").mkdir(parents=True, exist_ok=True)
    (out / name).mkdir(exist_ok=True)
    (out / name).rename(tmp_path / "elsewhere")
    (out / name).symlink_to(tmp_path / "elsewhere")
    before = made.tree(tmp_path / "elsewhere")

    message = f"^{out / name}: expected a folder, got a link; remove it"
    with pytest.raises(BuildError, match=message):
        everything.build(corpus, out)

    assert made.tree(tmp_path / "elsewhere") == before


def test_build__rejects_a_link_to_a_missing_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nothing")

    with pytest.raises(
        BuildError, match=f"^{tmp_path / 'link'}: expected a folder, got a broken link"
    ):
        made.built(tmp_path / "link")


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
        build(made.pipeline_of(), [made.SAMPLE / "bc2gm"], made.word_piece(), out, part=part)

    assert (out / name).read_text() == "mine"


# Contents of the folder ---------------------------------------------------------------------------


def test_build__writes_no_path_host_or_time(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "a-telling-name"
    everything.build(corpus, out)

    tree = made.tree(out)
    for name, data in tree.items():
        text = data.decode(errors="replace")
        for telling in (
            str(tmp_path),
            "a-telling-name",
            str(made.SAMPLE),
            str(corpus),
            socket.gethostname(),
        ):
            assert telling not in text, name
    manifest = tree["manifest.json"].decode()
    assert not re.search(r'\d{4}-\d{2}-\d{2}|\d{2}:\d{2}:\d{2}|"/', manifest)
    assert json.loads(manifest)["splits"]["train"]["sources"][0]["name"] == "train.jsonl.gz"


def test_build__writes_the_documented_files(expected: dict[str, bytes]) -> None:
    files = {name for name in expected if not name.endswith(".arrow")}

    assert files == {
        "manifest.json", "dataset_dict.json", "tokenizer.json", "tokenizer_config.json",
        "README.md", "set_aside.jsonl", "train/dataset_info.json", "train/state.json",
        "test/dataset_info.json", "test/state.json",
    }  # fmt: skip
    assert {name.split("/")[0] for name in expected.keys() - files} == {"train", "test"}


def test_build__writes_no_columns_without_their_options(one_build: Path) -> None:
    shards = load(one_build)

    assert {*shards["train"][0]} == {
        "key", "doc_id", "input_ids", "word_ids", "bio", "span_starts", "span_ends", "span_labels",
    }  # fmt: skip
    assert shards["train"].examples().sentence_starts is None
    assert shards.manifest.doc_labels is None
    assert not shards.manifest.context
    assert "doc_label" not in (one_build / "manifest.json").read_text()
