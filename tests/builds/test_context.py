"""Contexts of mentions in builds: a column of flags, and excluded mentions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from mslm_data.api.loading import load
from mslm_data.builds.verify import verify
from mslm_data.data.context import FLAGS, decode_flags
from mslm_data.pipeline import Pipeline
from tests import made
from tests.builds.test_accounts import jsonl
from tests.cli.running import run
from tests.made import build

TEXT = "No kinase or gene. Mother had cancer. He has cancer. r/o gene"
ENTITIES = [[3, 9, "X"], [13, 17, "X"], [30, 36, "Y"], [45, 51, "Y"], [57, 61, "X"]]
EXPECTED = [["negated"], ["negated"], ["family"], [], ["uncertain"]]


def pipeline_of(**annotate: Any) -> Pipeline:
    unit_bytes = annotate.pop("unit_bytes", 1 << 20)
    return made.pipeline_of(
        source={"use": "jsonl", "max_loss": 0},
        segment="clinical",
        annotate=annotate,
        labels=["X", "Y"],
        unit_bytes=unit_bytes,
    )


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    rows = [{"id": str(n), "text": TEXT, "entities": ENTITIES} for n in range(3)]
    return jsonl(tmp_path / "in", "train.jsonl", *rows)


def contexts_of(folder: Path) -> list[list[str]]:
    return [decode_flags(bits) for row in load(folder)["train"] for bits in row["span_contexts"]]


def test_build__writes_the_context_of_mentions(inputs: Path, tmp_path: Path) -> None:
    manifest = made.built(tmp_path / "out", inputs, pipeline_of(context=True))

    assert contexts_of(tmp_path / "out") == EXPECTED * 3
    assert manifest.context
    assert manifest.splits["train"].left_out == {}
    assert verify(tmp_path / "out")[1] == []
    schema = next(load(tmp_path / "out")["train"].batches()).schema
    assert json.loads(schema.metadata[b"mslm_data"])["contexts"] == list(FLAGS)


def test_build__excludes_mentions_by_context(inputs: Path, tmp_path: Path) -> None:
    pipeline = pipeline_of(leave_out_context=["negated", "family"])

    manifest = made.built(tmp_path / "out", inputs, pipeline)

    train = manifest.splits["train"]
    assert (train.given_mentions, train.mentions) == (15, 6)
    assert train.left_out == {"context is family": 3, "context is negated": 6}
    assert "span_contexts" not in load(tmp_path / "out")["train"][0]
    assert verify(tmp_path / "out")[1] == []


def test_build__supports_contexts_of_terms(inputs: Path, tmp_path: Path) -> None:
    table = tmp_path / "terms.csv"
    table.write_text("name,label\nkinase,X\ngene,X\ncancer,Y\n")
    pipeline = pipeline_of(
        use="terms", table=str(table), context=True, leave_out_context=["uncertain"]
    )

    manifest = made.built(tmp_path / "out", inputs, pipeline)

    assert contexts_of(tmp_path / "out") == EXPECTED[:-1] * 3
    assert manifest.splits["train"].left_out == {"context is uncertain": 3}
    assert verify(tmp_path / "out")[1] == []


def test_build__supports_contexts_in_units_and_splits_without_documents(tmp_path: Path) -> None:
    row = {"id": "0", "text": TEXT, "entities": ENTITIES}
    jsonl(tmp_path / "in", "train.jsonl", row, "{broken")
    inputs = jsonl(tmp_path / "in", "test.jsonl", "{broken")
    pipeline = made.pipeline_of(
        source={"use": "jsonl"},
        segment="clinical",
        annotate={"context": True},
        labels=["X", "Y"],
        unit_bytes=1,
    )

    manifest = made.built(tmp_path / "out", inputs, pipeline)

    assert contexts_of(tmp_path / "out") == EXPECTED
    rows = {
        split: [shard.rows for shard in record.shards] for split, record in manifest.splits.items()
    }
    assert rows == {"test": [0], "train": [4, 0]}
    assert verify(tmp_path / "out")[1] == []


def test_build__omits_contexts_without_the_options(inputs: Path, tmp_path: Path) -> None:
    manifest = made.built(tmp_path / "out", inputs, pipeline_of())

    assert not manifest.context


@pytest.mark.long
def test_build__context_bytes_do_not_depend_on_workers(inputs: Path, tmp_path: Path) -> None:
    pipeline = pipeline_of(context=True, unit_bytes=1)
    made.built(tmp_path / "one", inputs, pipeline)

    build(pipeline, [inputs], made.word_piece(), tmp_path / "two", workers=2)

    assert made.tree(tmp_path / "one") == made.tree(tmp_path / "two")


@pytest.mark.parametrize("to", ["parquet", "jsonl"])
def test_export__writes_contexts(to: str, inputs: Path, tmp_path: Path) -> None:
    made.built(tmp_path / "out", inputs, pipeline_of(context=True))

    done = run("export", tmp_path / "out", "--to", to, "--out", tmp_path / to)

    assert done.code == 0, done.err
    expected = [row["span_contexts"] for row in load(tmp_path / "out")["train"]]
    if to == "parquet":
        (path,) = (tmp_path / to / "train").glob("*.parquet")
        assert pq.read_table(path)["span_contexts"].to_pylist() == expected
    if to == "jsonl":
        (path,) = (tmp_path / to / "train").glob("*.jsonl")
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        assert [row["span_contexts"] for row in rows] == expected


def test_inspect__shows_contexts(inputs: Path, tmp_path: Path) -> None:
    made.built(tmp_path / "out", inputs, pipeline_of(context=True))

    done = run("inspect", tmp_path / "out", "--rows", 2)
    of_json = run("inspect", tmp_path / "out", "--rows", 2, "--json")

    assert "}X (negated)" in done.out
    assert "}Y (family)" in done.out
    mentions = [mention["context"] for row in of_json.json["rows"] for mention in row["mentions"]]
    assert mentions == EXPECTED[:3]
