"""Training documents that occur in the folders of `source.decontaminate` are set aside."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import mslm_data as md
from mslm_data.builds import decontaminate
from mslm_data.builds.verify import verify
from mslm_data.data.accounts import in_aside
from mslm_data.errors import BuildError, PipelineError, ShardError
from mslm_data.pipeline import Pipeline, read
from tests import made
from tests.builds.test_accounts import jsonl, lines_of
from tests.made import build
from tests.stats.test_overlap import FILLER, both, folder_of

ROWS = [
    {"id": "same", "text": "Kinase INHIBITORS, work", "entities": [[0, 6, "X"]]},
    {"id": "near", "text": f"see {FILLER} here", "entities": [[0, 3, "X"], [4, 5, "X"]]},
    {"id": "other", "text": "kinase inhibitors work well", "entities": [[0, 6, "X"]]},
    {"id": "no word", "text": "?"},
]


def pipeline_of(*folders: Path, **options: Any) -> Pipeline:
    source = {"use": "jsonl", "decontaminate": [str(folder) for folder in folders], "max_loss": 0}
    return made.pipeline_of(source=source, **options)


@pytest.fixture
def test_set(tmp_path: Path) -> Path:
    texts = ["kinase inhibitors work.", f"{FILLER} x y", "?"]
    return folder_of(tmp_path / "test_set", texts, split="test")


@pytest.mark.parametrize("unit_bytes", [1, 100, 1 << 20])
def test_build__sets_aside_documents_of_a_test_set(
    unit_bytes: int, test_set: Path, tmp_path: Path
) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *ROWS)

    manifest = made.built(tmp_path / "out", inputs, pipeline_of(test_set, unit_bytes=unit_bytes))

    train = manifest.splits["train"]
    assert (train.read, train.written, train.aside) == (4, 2, 2)
    assert (train.given_mentions, train.mentions) == (4, 1)
    assert train.left_out == {
        in_aside(decontaminate.HELD_EXACT).text: 1,
        in_aside(decontaminate.HELD_NEAR).text: 2,
    }
    assert [(line["id"], line["reason"]) for line in lines_of(tmp_path / "out")] == [
        ("same", decontaminate.HELD_EXACT.text),
        ("near", decontaminate.HELD_NEAR.text),
    ]
    assert verify(tmp_path / "out")[1] == []
    assert [len(found.exact) + len(found.near) for found in both(tmp_path / "out", test_set)] == [
        0, 0
    ]  # fmt: skip


@pytest.mark.parametrize("name", made.TOKENIZERS)
def test_build__decontaminates_whatever_the_tokenizer_of_the_folder(
    name: str, tmp_path: Path
) -> None:
    texts = ["kinase 腫瘍 inhibitors work", f"{FILLER} x y"]
    folder = folder_of(tmp_path / "test_set", texts, made.TOKENIZERS[name]())
    rows = [
        {"id": "a", "text": "Kinase 腫瘍 inhibitors work"},
        {"id": "b", "text": f"o {FILLER}"},
        {"id": "c", "text": "kinase"},
    ]
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows)

    made.built(tmp_path / "out", inputs, pipeline_of(folder, annotate={"use": "none"}))

    assert [line["id"] for line in lines_of(tmp_path / "out")] == ["a", "b"]


def test_build__sets_aside_a_document_for_one_sentence_of_eight_words(
    test_set: Path, tmp_path: Path
) -> None:
    rows = [
        {"id": "a", "text": "The gene helps. Kinase a b c d e f genes. It does."},
        {"id": "b", "text": "The gene helps. It does."},
        {"id": "c", "text": "a b c d e f g. h i j k l m n o p."},
        {"id": "d", "text": "The gene helps. Kinase a b c d e genes. It does."},
        {"id": "e", "text": "Kinase, a b c d e genes"},
    ]
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows)
    folder = folder_of(tmp_path / "short", ["kinase a b c d e genes", "kinase a b c d e f genes"])
    pipeline = pipeline_of(test_set, folder, annotate={"use": "none"}, segment="clinical")

    made.built(tmp_path / "out", inputs, pipeline)

    reasons = [(line["id"], line["reason"]) for line in lines_of(tmp_path / "out")]
    assert reasons == [
        ("a", decontaminate.HELD_EXACT.text),
        ("c", decontaminate.HELD_NEAR.text),
        ("e", decontaminate.HELD_EXACT.text),
    ]


def test_build__keeps_validation_and_test_complete(test_set: Path, tmp_path: Path) -> None:
    for split in ("train", "validation", "test", "extra"):
        inputs = jsonl(tmp_path / "in", f"{split}.jsonl", *[
            {**row, "id": f"{split} {row['id']}"} for row in ROWS
        ])  # fmt: skip
    source = {
        "splits": {split: [f"{split}.jsonl"] for split in ("train", "validation", "test", "extra")}
    }
    pipeline = read(
        {"name": "test", "source": {"use": "jsonl", "decontaminate": [test_set / "test"], **source}}
    )

    manifest = made.built(tmp_path / "out", inputs, pipeline)

    aside = {split: record.aside for split, record in manifest.splits.items()}
    assert aside == {"train": 2, "validation": 0, "test": 0, "extra": 2}


def test_build__decontaminates_with_a_single_split_of_a_folder(tmp_path: Path) -> None:
    for split, text in (("train", "kinase"), ("test", "gene")):
        given = jsonl(tmp_path / "given", f"{split}.jsonl", {"id": split, "text": text})
    made.built(tmp_path / "whole", given, pipeline_of(annotate={"use": "none"}))
    rows = [{"id": "a", "text": "kinase"}, {"id": "b", "text": "gene"}]
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows)

    pipeline = pipeline_of(tmp_path / "whole" / "test", annotate={"use": "none"})
    made.built(tmp_path / "out", inputs, pipeline)

    assert [line["id"] for line in lines_of(tmp_path / "out")] == ["b"]


@pytest.mark.long
def test_build__decontamination_does_not_depend_on_workers_or_place(
    test_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *ROWS)
    made.built(tmp_path / "one", inputs, pipeline_of(test_set, unit_bytes=50))

    monkeypatch.chdir(test_set.parent)
    pipeline = pipeline_of(Path(test_set.name), unit_bytes=50)
    build(pipeline, [inputs], made.word_piece(), tmp_path / "two", workers=2)

    assert made.tree(tmp_path / "one") == made.tree(tmp_path / "two")
    manifest = (tmp_path / "one" / "manifest.json").read_text()
    assert str(tmp_path) not in manifest
    record = json.loads(manifest)["pipeline"]["source"]["decontaminate"]
    assert [(of["name"], of["splits"]) for of in record] == [("test", ["test"])]


def test_build__does_not_resume_with_another_folder(test_set: Path, tmp_path: Path) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *ROWS)
    other = folder_of(tmp_path / "other", ["gene"])
    build(
        pipeline_of(test_set), [inputs], made.word_piece(), tmp_path / "out", workers=1, part=(1, 1)
    )

    for pipeline in (pipeline_of(other), pipeline_of()):
        with pytest.raises(BuildError, match=r"different: pipeline\.source\.decontaminate"):
            made.built(tmp_path / "out", inputs, pipeline)
    made.built(tmp_path / "out", inputs, pipeline_of(test_set))
    with pytest.raises(BuildError, match=r"different: pipeline\.source\.decontaminate"):
        made.built(tmp_path / "out", inputs, pipeline_of(other))


@pytest.mark.parametrize("value", ["shards/test", [""], [3], {"a": 1}])
def test_pipeline__rejects_values_other_than_a_list_of_folders(value: Any) -> None:
    with pytest.raises(PipelineError, match=r"\[source\]: .*decontaminate"):
        read({"name": "test", "source": {"use": "jsonl", "decontaminate": value}})


def test_build__rejects_a_folder_that_is_not_built(tmp_path: Path) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *ROWS)

    with pytest.raises(ShardError, match=r"decontaminate: .*no such folder"):
        made.built(tmp_path / "out", inputs, pipeline_of(tmp_path / "nothing"))
    assert not (tmp_path / "out").exists()


def test_build__reads_a_rebuilt_folder(test_set: Path, tmp_path: Path) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *ROWS)
    made.built(tmp_path / "one", inputs, pipeline_of(test_set))
    test_set.rename(tmp_path / "before")
    shutil.rmtree(test_set.with_name("test_set-in"))
    folder_of(test_set, ["kinase inhibitors work well"])

    made.built(tmp_path / "two", inputs, pipeline_of(test_set))

    assert [line["id"] for line in lines_of(tmp_path / "two")] == ["other"]


def test_build__reads_folders_of_decontaminate_once_per_process(
    test_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_folders = []
    monkeypatch.setattr(decontaminate, "_LOADED", {})
    reading = decontaminate._read
    monkeypatch.setattr(decontaminate, "_read", lambda of: read_folders.append(of) or reading(of))
    inputs = jsonl(tmp_path / "in", "train.jsonl", *ROWS)

    made.built(tmp_path / "out", inputs, pipeline_of(test_set, unit_bytes=1))

    assert len(read_folders) == 1
    assert len(md.load(tmp_path / "out")["train"]) == 2
