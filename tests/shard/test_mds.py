"""MDS files, checked with our own reader, byte by byte, and with mosaicml-streaming if installed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mslm_data as md
from mslm_data.shard import mds
from tests.shard.mds_reader import read_file, read_split

PEERS = Path(__file__).parents[2] / ".venv-peers" / "bin" / "python"
"""The environment of mosaicml-streaming, made by `make bench`."""

STREAM = """
import json, sys, types
sys.modules["streaming.vision"] = types.ModuleType("streaming.vision")  # needs a torchvision
from streaming import StreamingDataset

rows = StreamingDataset(local=sys.argv[1], split=sys.argv[2], shuffle=False, batch_size=1)
for row in rows:
    plain = {name: getattr(value, "tolist", lambda: value)() for name, value in row.items()}
    print("row", json.dumps(plain))
"""

SCHEMA = pa.schema(
    [
        ("key", pa.uint64()),
        ("doc_id", pa.string()),
        ("doc_label", pa.int16()),
        ("input_ids", pa.list_(pa.int32())),
        ("bio", pa.list_(pa.int16())),
        ("span_concepts", pa.list_(pa.string())),
        ("span_scores", pa.list_(pa.float32())),
    ]
)


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def bytes_of(file: mds.MdsFile) -> bytes:
    return b"".join(map(bytes, file.pieces))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
lengths = st.one_of(st.integers(0, 4), st.sampled_from([255, 256, 300]))
some_rows = st.builds(
    lambda key, doc, label, tokens, concepts: {
        "key": key,
        "doc_id": doc,
        "doc_label": label,
        "input_ids": list(range(tokens)),
        "bio": [-1] * tokens,
        "span_concepts": concepts,
        "span_scores": [0.5] * len(concepts),
    },
    st.integers(0, (1 << 64) - 1),
    texts,
    st.integers(-1, 3),
    lengths,
    st.lists(texts, max_size=3),
)


@given(st.lists(some_rows, max_size=6), st.integers(1, 3000))
def test_make_files__keeps_the_order_of_rows(rows: list[dict[str, Any]], limit: int) -> None:
    files = list(mds.make_files(batch_of(rows), limit))

    assert [row for file in files for row in read_file(bytes_of(file))] == rows
    assert [file.rows for file in files] == [len(read_file(bytes_of(file))) for file in files]
    assert all(len(bytes_of(file)) <= limit or file.rows == 1 for file in files)


def test_make_files__fills_files_up_to_the_limit() -> None:
    row = {"key": 1, "doc_id": "d", "doc_label": 0, "input_ids": [1] * 300, "bio": [0] * 300,
           "span_concepts": [], "span_scores": []}  # fmt: skip
    (file,) = mds.make_files(batch_of([row] * 3), 9999)
    three = len(bytes_of(file))
    assert 1000 <= three <= 9999  # The file contains the limit, so all limits have four digits.

    assert [file.rows for file in mds.make_files(batch_of([row] * 7), three)] == [3, 3, 1]
    assert [file.rows for file in mds.make_files(batch_of([row] * 7), three - 1)] == [2, 2, 2, 1]


def test_make_files__uses_four_byte_lengths_when_two_are_too_few() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"input_ids": pa.array([[7] * 70_000], pa.list_(pa.int32()))}
    )

    (file,) = mds.make_files(batch)

    (row,) = read_file(bytes_of(file))
    assert row["input_ids"] == [7] * 70_000
    assert bytes_of(file)[-4 * 70_000 - 5 : -4 * 70_000] == b"\x06\x70\x11\x01\x00"


def test_make_files__equals_the_reference_writer() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([1 << 63], pa.uint64()),
            "ids": pa.array([[0, 1, 2]], pa.list_(pa.int32())),
            "doc": pa.array(["ä"], pa.string()),
        }
    )

    (file,) = mds.make_files(batch)

    assert bytes_of(file) == (
        b"\x01\x00\x00\x00\xe6\x00\x00\x00\x06\x01\x00\x00"
        b'{"column_encodings": ["str", "ndarray:int32", "uint64"], "column_names": ["doc", "ids", "key"], '
        b'"column_sizes": [null, null, 8], "compression": null, "format": "mds", "hashes": [], '
        b'"size_limit": 67108864, "version": 2}'
        b"\x02\x00\x00\x00\x0e\x00\x00\x00\xc3\xa4\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00"
        b"\x00\x00\x00\x00\x00\x00\x00\x80"
    )
    assert mds.make_index([("shard.00000.mds", 262, file)]) == (
        b'{"shards": [{"column_encodings": ["str", "ndarray:int32", "uint64"], "column_names": ["doc", "ids", "key"], '
        b'"column_sizes": [null, null, 8], "compression": null, "format": "mds", "hashes": [], '
        b'"raw_data": {"basename": "shard.00000.mds", "bytes": 262, "hashes": {}}, "samples": 1, '
        b'"size_limit": 67108864, "version": 2, "zip_data": null}], "version": 2}'
    )


def test_make_files__accepts_arrays_with_an_offset() -> None:
    rows = [{"key": n, "doc_id": f"d{n}", "doc_label": 0, "input_ids": [n] * n, "bio": [0] * n,
             "span_concepts": ["c"], "span_scores": [1.0]} for n in range(4)]  # fmt: skip

    (file,) = mds.make_files(batch_of(rows).slice(2))

    assert read_file(bytes_of(file)) == rows[2:]


def test_export__streaming_reads_the_exported_splits(one_build: Path, tmp_path: Path) -> None:
    if not PEERS.exists():
        pytest.skip("mosaicml-streaming needs an environment of its own: `make bench` makes it")
    shards = md.load(one_build)
    shards.export(to="mds", out=tmp_path / "mds")

    for split in shards:
        done = subprocess.run(
            [PEERS, "-c", STREAM, tmp_path / "mds", split],
            capture_output=True,
            check=True,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )

        lines = [line for line in done.stdout.decode().splitlines() if line.startswith("row ")]
        read = [json.loads(line.removeprefix("row ")) for line in lines]
        assert read == list(shards[split])
        assert read == read_split(tmp_path / "mds" / split)


def test_make_files__rejects_a_file_beyond_its_offset_range(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large = np.array([1 << 33], np.int64)
    monkeypatch.setattr(mds, "_total_sizes", lambda _: large)

    with pytest.raises(ValueError, match="expected less than 4 GiB per file, got 8589934"):
        list(mds.make_files(batch_of([{"key": 1, "doc_id": "", "doc_label": 0, "input_ids": [],
                                     "bio": [], "span_concepts": [], "span_scores": []}])))  # fmt: skip
