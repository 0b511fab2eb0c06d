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
from tests.builds.inputs import jsonl
from tests.cli.running import run

TEXT = "No kinase or gene. Mother had cancer. He has cancer. r/o gene"
ENTITIES = [[3, 9, "X"], [13, 17, "X"], [30, 36, "Y"], [45, 51, "Y"], [57, 61, "X"]]
EXPECTED = [["negated"], ["negated"], ["family"], [], ["uncertain"]]


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """Three documents, one that is lost, and a split whose only document is lost."""
    rows = [{"id": str(n), "text": TEXT, "entities": ENTITIES} for n in range(3)]
    jsonl(tmp_path / "in", "test.jsonl", "{broken")
    return jsonl(tmp_path / "in", "train.jsonl", *rows, "{broken")


def pipeline_of(unit_bytes: int = 1 << 20, **annotate: Any) -> Pipeline:
    return made.pipeline_of(
        source={"use": "jsonl"},
        segment="clinical",
        annotate=annotate,
        labels=["X", "Y"],
        unit_bytes=unit_bytes,
    )


TERMS = {"use": "terms", "context": True, "leave_out_context": ["uncertain"]}
CASES: list[tuple[dict[str, Any], list[list[str]], dict[str, int]]] = [
    ({"context": True}, EXPECTED, {}),
    (
        {"leave_out_context": ["negated", "family"]},
        [],
        {"context is family": 3, "context is negated": 6},
    ),
    (TERMS, EXPECTED[:-1], {"context is uncertain": 3}),
]


@pytest.mark.parametrize("unit_bytes", [1, 1 << 20])
@pytest.mark.parametrize(("annotate", "expected", "left_out"), CASES)
def test_build__writes_and_leaves_out_mentions_by_context(
    annotate: dict[str, Any],
    expected: list[list[str]],
    left_out: dict[str, int],
    unit_bytes: int,
    inputs: Path,
    tmp_path: Path,
) -> None:
    table = tmp_path / "terms.csv"
    table.write_text("name,label\nkinase,X\ngene,X\ncancer,Y\n")
    more = {"table": str(table)} if annotate is TERMS else {}

    manifest = made.built(tmp_path / "out", inputs, pipeline_of(unit_bytes, **annotate, **more))

    train = manifest.splits["train"]
    assert train.left_out == left_out
    assert (train.given_mentions, train.mentions) == (15, 15 - sum(left_out.values()))
    assert [shard.rows for shard in manifest.splits["test"].shards] == [0]
    assert (train.shards[-1].rows == 0) == (unit_bytes == 1)
    assert verify(tmp_path / "out")[1] == []
    assert manifest.context == bool(expected)
    rows = [*load(tmp_path / "out")["train"]]
    assert ("span_contexts" in rows[0]) == bool(expected)
    if expected:
        found = [decode_flags(bits) for row in rows for bits in row["span_contexts"]]
        assert found == expected * 3
        schema = next(load(tmp_path / "out")["train"].batches()).schema
        assert json.loads(schema.metadata[b"mslm_data"])["contexts"] == list(FLAGS)


@pytest.mark.parametrize("to", ["parquet", "jsonl"])
def test_export__writes_contexts(to: str, whole: Path, tmp_path: Path) -> None:
    done = run("export", whole, "--to", to, "--out", tmp_path / "out")

    assert done.code == 0, done.err
    rows: list[dict[str, Any]] = []
    for path in sorted((tmp_path / "out" / "train").glob(f"*.{to}")):
        if to == "parquet":
            rows += pq.read_table(path).to_pylist()
        else:
            rows += map(json.loads, path.read_text().splitlines())
    contexts = [row["span_contexts"] for row in rows]
    assert contexts == [row["span_contexts"] for row in load(whole)["train"]]
    assert any(map(any, contexts))


def test_inspect__shows_contexts(inputs: Path, tmp_path: Path) -> None:
    made.built(tmp_path / "out", inputs, pipeline_of(context=True))

    done = run("inspect", tmp_path / "out", "--rows", 2)
    of_json = run("inspect", tmp_path / "out", "--rows", 2, "--json")

    assert "}X (negated)" in done.out
    assert "}Y (family)" in done.out
    mentions = [mention["context"] for row in of_json.json["rows"] for mention in row["mentions"]]
    assert mentions == EXPECTED[:3]
