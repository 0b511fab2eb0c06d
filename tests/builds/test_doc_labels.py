"""Document labels, from the source to a batch."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import mslm_data as md
from mslm_data.api.loading import load
from mslm_data.builds.verify import verify
from mslm_data.errors import BuildError
from tests import made
from tests.builds.inputs import jsonl, lines_of
from tests.shard.damage import edit_manifest

ROWS = [
    {"id": "a", "text": "kinase inhibitors work", "label": "yes"},
    {"id": "b", "text": "p53", "label": "no"},
    {"id": "c", "text": "nothing", "label": None},
    {"id": "d", "text": "kinase", "label": "maybe", "entities": [[0, 6, "X"]]},
]


def pipeline(**options: Any) -> Any:
    source = {"use": "jsonl", "doc_label": "label", **options.pop("source", {})}
    return made.pipeline_of(source=source, **options)


def labels_of(out: Path, split: str = "train") -> dict[str, str | None]:
    """Return the label name of each document id, which all of its rows have."""
    shards = load(out)
    pairs = {(row["doc_id"], row["doc_label"]) for row in shards[split]}
    labels = {
        doc_id: shards.doc_labels[label] if label >= 0 else None for doc_id, label in sorted(pairs)
    }
    assert len(labels) == len(pairs)
    return labels


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A folder built of ROWS."""
    inputs = jsonl(tmp_path / "in", "train.jsonl", *ROWS)
    made.built(tmp_path / "out", inputs, pipeline())
    return tmp_path / "out"


@pytest.mark.parametrize("unit_bytes", [1, 100, 1 << 20])
def test_build__keeps_the_label_of_each_document(tmp_path: Path, unit_bytes: int) -> None:
    long = {"id": "e", "text": "kinase " * 50, "label": "no"}
    jsonl(tmp_path / "in", "train.jsonl", *ROWS, long)
    inputs = jsonl(tmp_path / "in", "test.jsonl", *ROWS[:2])
    options = pipeline(unit_bytes=unit_bytes, encode={"max_tokens": 16})

    manifest = made.built(tmp_path / "out", inputs, options)

    assert manifest.doc_labels == ("maybe", "no", "yes")
    assert manifest.labels == ("X",)
    expected = {"a": "yes", "b": "no", "c": None, "d": "maybe", "e": "no"}
    assert labels_of(tmp_path / "out") == expected
    assert labels_of(tmp_path / "out", "test") == {"a": "yes", "b": "no"}
    assert manifest.splits["train"].sequences > len(expected) + 2
    assert verify(tmp_path / "out")[1] == []


def test_build__shows_the_labels_of_documents(built: Path) -> None:
    shards = load(built)

    assert repr(shards).endswith("; labels of documents 'maybe', 'no', 'yes')")
    assert "labels of documents: maybe, no, yes" in shards._repr_html_()
    assert "* Labels of documents: maybe, no, yes" in (built / "README.md").read_text()


def test_build__accepts_integers_with_names(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    (tmp_path / "in").mkdir()
    kinds = {"text": datasets.Value("string")}
    named = datasets.Features(kinds | {"label": datasets.ClassLabel(names=["bad", "good"])})
    bare = datasets.Features(kinds | {"label": datasets.Value("int64")})
    rows = {"text": ["kinase", "p53"], "label": [1, 0]}

    found = []
    for features in (named, bare):
        table = datasets.Dataset.from_dict(rows, features=features)
        table.to_parquet(tmp_path / "in" / "train.parquet")
        out = tmp_path / str(len(found))
        made.built(out, tmp_path / "in", pipeline(source={"use": "hub"}))
        found.append([*labels_of(out).values()])

    assert found == [["good", "bad"], ["1", "0"]]


@pytest.mark.parametrize("name", ["train.csv", "train.tsv", "train.jsonl", "train.parquet"])
def test_build__keeps_labels_of_plain_text(tmp_path: Path, name: str) -> None:
    rows = [{"text": "kinase inhibitors", "class": "yes"}, {"text": "p53", "class": "no"}]
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / name
    if name.endswith(".parquet"):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif name.endswith(".jsonl"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        between = "\t" if name.endswith(".tsv") else ","
        lines = [rows[0], *[row.values() for row in rows]]
        path.write_text("".join(between.join(line) + "\n" for line in lines))

    made.built(
        tmp_path / "out", tmp_path / "in", pipeline(source={"use": "text", "doc_label": "class"})
    )

    assert labels_of(tmp_path / "out") == {"train:0": "yes", "train:1": "no"}


def test_build__sets_aside_invalid_labels(tmp_path: Path) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *ROWS, {"text": "x", "label": ["a", "b"]})

    made.built(tmp_path / "out", inputs, pipeline())

    (line,) = lines_of(tmp_path / "out")
    assert "expected text or an integer in column 'label'" in line["reason"]


def test_build__rejects_a_column_without_documents(tmp_path: Path) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", *ROWS)

    with pytest.raises(BuildError, match="no document has a label in column 'lable'"):
        made.built(
            tmp_path / "out",
            inputs,
            pipeline(source={"doc_label": "lable", "ignored_columns": ["label"]}),
        )


def test_batches__return_the_labels(built: Path, one_build: Path) -> None:
    train = load(built)["train"]
    token = md.strategy("token")

    (batch,) = md.Batches(train, token, batch_size=8, shuffle=True)

    of_key = {row["key"]: row["doc_label"] for row in train}
    assert batch["doc_labels"].dtype == np.int64
    assert batch["doc_labels"].tolist() == [of_key[key] for key in batch["keys"].tolist()]
    (bare,) = md.Batches(load(one_build)["test"], token, batch_size=1000)
    assert "doc_labels" not in bare


def test_verify__detects_labels_out_of_range(built: Path) -> None:
    edit_manifest(built, lambda manifest: manifest.update(doc_labels=["maybe", "no"]))

    problems = [problem.what for problem in verify(built)[1]]

    assert any("expected labels of documents of the manifest" in what for what in problems)


@pytest.mark.long
@pytest.mark.parametrize(
    ("task", "sizes"), [("acl_arc", (1688, 114, 139)), ("chemprot", (4169, 2427, 3469))]
)
def test_build__keeps_the_labels_of_published_tasks(
    tmp_path: Path, real: Path, task: str, sizes: tuple[int, int, int]
) -> None:
    folder = real / "tasks" / task

    manifest = made.built(tmp_path / "out", folder, pipeline(segment="whole"))

    shards = load(tmp_path / "out")
    for split, size in zip(("train", "validation", "test"), sizes, strict=True):
        assert manifest.splits[split].read == manifest.splits[split].written == size
        (path,) = [path for path in folder.glob("*.jsonl") if _split_of(path) == split]
        lines = path.read_text(encoding="utf-8").splitlines()
        expected = Counter(json.loads(line)["label"] for line in lines)
        found = labels_of(tmp_path / "out", split)
        assert Counter(found.values()) == expected
    assert len(shards.doc_labels) == len(manifest.doc_labels or ())


def _split_of(path: Path) -> str:
    return "validation" if path.stem == "dev" else path.stem
