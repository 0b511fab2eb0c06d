"""Training documents that occur in the folders of `source.decontaminate` are set aside."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mslm_data.builds import decontaminate
from mslm_data.builds.verify import verify
from mslm_data.data.accounts import in_aside
from mslm_data.errors import ShardError
from mslm_data.pipeline import Pipeline
from tests import made
from tests.builds.inputs import jsonl, lines_of
from tests.stats.test_overlap import FILLER, both, folder_of

ROWS = [
    {"id": "same", "text": "Kinase INHIBITORS, work", "entities": [[0, 6, "X"]]},
    {"id": "near", "text": f"see {FILLER} here", "entities": [[0, 3, "X"], [4, 5, "X"]]},
    {"id": "other", "text": "kinase inhibitors work well", "entities": [[0, 6, "X"]]},
    {"id": "no word", "text": "?"},
]


def pipeline_of(
    *folders: Path, splits: dict[str, list[str]] | None = None, **options: Any
) -> Pipeline:
    source = {"use": "jsonl", "decontaminate": [str(folder) for folder in folders], "max_loss": 0}
    return made.pipeline_of(source=source | ({"splits": splits} if splits else {}), **options)


@pytest.fixture
def test_set(tmp_path: Path) -> Path:
    texts = ["kinase inhibitors work.", f"{FILLER} x y", "?"]
    return folder_of(tmp_path / "test_set", texts, split="test")


@pytest.mark.parametrize("unit_bytes", [1, 100, 1 << 20])
def test_build__sets_aside_documents_of_a_test_set(
    unit_bytes: int, test_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_folders = []
    monkeypatch.setattr(decontaminate, "_LOADED", {})
    reading = decontaminate._read
    monkeypatch.setattr(decontaminate, "_read", lambda of: read_folders.append(of) or reading(of))
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
    for found in both(tmp_path / "out", test_set):
        assert len(found.exact) + len(found.near) == 0
    assert len(read_folders) == 1  # though there are several units


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
    names = ("train", "validation", "test", "extra")
    splits = {split: [f"{split}.jsonl"] for split in names}

    manifest = made.built(tmp_path / "out", inputs, pipeline_of(test_set / "test", splits=splits))

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


def test_build__records_the_name_of_a_folder_wherever_it_is(
    test_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *ROWS)
    made.built(tmp_path / "one", inputs, pipeline_of(test_set))

    monkeypatch.chdir(test_set.parent)
    made.built(tmp_path / "two", inputs, pipeline_of(Path(test_set.name)))

    assert made.tree(tmp_path / "one") == made.tree(tmp_path / "two")
    manifest = (tmp_path / "one" / "manifest.json").read_text()
    assert str(tmp_path) not in manifest
    record = json.loads(manifest)["pipeline"]["source"]["decontaminate"]
    assert [(of["name"], of["splits"]) for of in record] == [("test", ["test"])]


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
