"""Splits and files of Azure's labels files; tests/cases/azure has the documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, Part
from mslm_data.source import SOURCES, Source


def write(path: Path, datasets: dict[str, str | None]) -> Path:
    """Write a labels file with a document of each name and dataset, and the texts beside it."""
    documents: list[dict[str, Any]] = []
    for name, dataset in datasets.items():
        (path.parent / f"{name}.txt").write_text("Gout", encoding="utf-8")
        own = {} if dataset is None else {"dataset": dataset}
        documents.append({"location": f"{name}.txt", "entities": [], **own})
    labels = {"projectKind": "CustomEntityRecognition", "assets": {"documents": documents}}
    path.write_text(json.dumps(labels), encoding="utf-8")
    return path


def read(source: Source, folder: Path) -> dict[str, list[str]]:
    """Return split -> ids of the documents."""
    found: dict[str, list[str]] = {}
    for split, paths in source.find([folder]).items():
        own = source.for_split(split)
        records = [record for path in paths for record in own.read(Part(str(path)))]
        found[split] = [record.id for record in records if isinstance(record, Document)]
        assert len(found[split]) == len(records)
    return found


@pytest.mark.parametrize(
    ("name", "datasets", "expected"),
    [
        ("labels", {"a": "Train", "b": "Test", "c": None}, {"train": ["a", "c"], "test": ["b"]}),
        ("labels", {"a": None, "b": None}, {"train": ["a", "b"]}),
        ("test", {"a": None, "b": None}, {"test": ["a", "b"]}),
        ("test", {"a": "Train", "b": "Train"}, {"train": ["a", "b"]}),
    ],
)
def test_find__takes_the_split_of_datasets_else_of_the_name(
    name: str, datasets: dict[str, str | None], expected: dict[str, list[str]], tmp_path: Path
) -> None:
    write(tmp_path / f"{name}.json", datasets)

    assert read(SOURCES.make("azure", {}), tmp_path) == expected


def test_splits__replace_datasets(tmp_path: Path) -> None:
    write(tmp_path / "labels.json", {"a": "Train", "b": "Test"})

    assert read(SOURCES.make("azure", {"splits": {"validation": ["*"]}}), tmp_path) == {
        "validation": ["a", "b"]
    }


def test_files__are_the_texts_within_the_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "c.txt").write_text("Gout", encoding="utf-8")
    path = write(tmp_path / "in" / "labels.json", {"a": "Train", "b": "Test", "../c": "Test"})

    source = SOURCES.make("azure", {}).for_split("train")

    assert source.files(path) == [path, path.with_name("a.txt"), path.with_name("b.txt")]
