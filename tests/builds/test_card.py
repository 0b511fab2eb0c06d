"""The dataset card: metadata of the hub, and instructions for readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.feather
import pytest
import yaml

from mslm_data.api.loading import load
from mslm_data.builds.card import card
from mslm_data.pipeline import read
from mslm_data.shard.manifest import Manifest
from tests import made
from tests.builds.inputs import jsonl

ABOUT = {
    "title": "Names: [a] corpus",
    "licence": "CC BY 4.0, as its README says",
    "licence_id": "cc-by-4.0",
    "language": ["en", "no"],
    "tags": ["medical"],
}


def built(out: Path, **about: Any) -> Manifest:
    pipeline = made.pipeline_of()
    pipeline = msgspec.structs.replace(
        pipeline, about=read({"name": "x", "about": about, "source": {"use": "conll"}}).about
    )
    return made.built(out, pipeline=pipeline)


def metadata(text: str) -> dict[str, Any]:
    _, top, _ = text.split("---\n", 2)
    found: dict[str, Any] = yaml.safe_load(top)
    return found


def test_card__has_the_metadata_of_the_hub(tmp_path: Path) -> None:
    manifest = built(tmp_path / "out", **ABOUT)

    assert metadata((tmp_path / "out" / "README.md").read_text()) == {
        "pretty_name": "Names: [a] corpus",
        "language": ["en", "no"],
        "license": "cc-by-4.0",
        "task_categories": ["fill-mask", "token-classification"],
        "tags": ["mslm-data", "medical"],
        "configs": [
            {
                "config_name": manifest.name.replace("/", "-"),
                "data_files": [
                    {"split": split, "path": f"{split}/data-*.arrow"} for split in manifest.splits
                ],
            }
        ],
    }


def test_card__accepts_a_corpus_with_few_details(tmp_path: Path) -> None:
    found = metadata(card(built(tmp_path / "out")))

    assert found["license"] == "unknown"
    assert found["tags"] == ["mslm-data"]
    assert not found.keys() & {"language", "pretty_name"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [("unknown: the release states none", "unknown"), ("GENIA Project licence", "other")],
)
def test_card__names_licences_without_an_identifier(
    words: str, expected: str, tmp_path: Path
) -> None:
    text = card(built(tmp_path / "out", licence=words))

    assert metadata(text)["license"] == expected
    assert f"* Licence of the source: {words}" in text


def test_card__lists_the_tasks_of_the_columns(tmp_path: Path) -> None:
    manifest = built(tmp_path / "out")

    of_documents = metadata(
        card(msgspec.structs.replace(manifest, labels=(), doc_labels=("a", "b")))
    )

    assert of_documents["task_categories"] == ["fill-mask", "text-classification"]


# Counts -------------------------------------------------------------------------------------------


def test_card__counts_every_record_and_mention(tmp_path: Path) -> None:
    answers = ["accept", "accept", "reject", "ignore", "reject", "accept"]
    rows = [
        {"text": "kinase", "spans": [{"start": 0, "end": 6, "label": "X"}], "answer": answer}
        for answer in answers
    ]
    rows[1]["text"] = ""  # Set aside.
    rows[5]["spans"] = [rows[0]["spans"][0], {"start": 0, "end": 3, "label": "X"}]
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows)
    source = {"use": "prodigy", "max_loss": 1}

    made.built(tmp_path / "out", inputs, made.pipeline_of(source=source))

    lines = (tmp_path / "out" / "README.md").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| split |"))
    names, values = ([*map(str.strip, lines[at].split("|")[1:-1])] for at in (start, start + 2))
    assert dict(zip(names, values, strict=True)) == {
        "split": "train",
        "records": "6",
        "not chosen": "3",
        "set aside": "1",
        "documents": "2",
        "rows": "2",
        "tokens": "6",
        "mentions given": "4",
        "left out": "2",
        "in rows": "2",
    }


# Readers named by FORMAT.md and the card -----------------------------------------------------------


def test_record_batch__feather_readers_reject_a_shard(whole: Path) -> None:
    shard = next((whole / "train").glob("data-*.arrow"))

    with pytest.raises(pa.ArrowInvalid, match="Not a Feather V1 or Arrow IPC file"):
        pa.feather.read_table(shard)


def test_card__datasets_opens_the_folder_with_its_card(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)

    mapped = datasets.load_from_disk(str(whole))
    copied = datasets.load_dataset(str(whole), cache_dir=str(tmp_path))

    assert set(copied) == set(mapped)
    for split, rows in load(whole).items():
        assert copied[split].to_list() == mapped[split].to_list() == list(rows)
    features = mapped["train"].features
    assert features["sentence_starts"].feature.dtype == "int32"
    assert features["doc_label"].dtype == "int16"
