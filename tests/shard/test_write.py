from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pyarrow as pa
import pyarrow.dataset
import pytest
from hypothesis import given

from mslm_data.api.loading import load
from mslm_data.data import columns
from mslm_data.data.examples import Examples, concatenate
from mslm_data.data.ragged import Ragged
from mslm_data.errors import ShardError
from mslm_data.shard.pieces import write_piece
from mslm_data.shard.write import ShardRecord, check_token_count, record_batch
from tests.generate import fixed_examples, random_examples, rows_of
from tests.support.properties import fewer

Rows = list[dict[str, Any]]
LABELS = ("Disease", "Chemical")


def three() -> Examples:
    return fixed_examples(3)


def with_ids(examples: Examples, *, weak: bool = False, text: bool = False) -> Examples:
    """Add the remaining columns of a shard to tokens and mentions."""
    count, tokens = len(examples.span_starts.values), examples.input_ids
    places = Ragged(np.arange(len(tokens.values), dtype=np.int32), tokens.offsets)
    return replace(
        examples,
        doc_ids=[f"dök:{i}" for i in range(len(examples))],
        span_concepts=[f"C{s}" for s in range(count)] if weak else None,
        span_scores=np.linspace(0, 1, count, dtype=np.float32) if weak else None,
        texts=[f"text {i} 🧬" for i in range(len(examples))] if text else None,
        token_starts=places if text else None,
        token_ends=places if text else None,
    )


def read_all_ways(path: Path) -> Iterator[tuple[str, Rows]]:
    yield "pyarrow stream", pa.ipc.open_stream(str(path)).read_all().to_pylist()
    yield (
        "pyarrow mapped stream",
        pa.ipc.open_stream(pa.memory_map(str(path))).read_all().to_pylist(),
    )
    yield "pyarrow file", pa.ipc.open_file(str(path)).read_all().to_pylist()
    yield "pyarrow mapped file", pa.ipc.open_file(pa.memory_map(str(path))).read_all().to_pylist()
    yield "pyarrow dataset", pyarrow.dataset.dataset(str(path), format="ipc").to_table().to_pylist()
    yield "polars file", polars.read_ipc(path).to_dicts()
    yield "polars lazy file", polars.scan_ipc(path).collect().to_dicts()
    yield "polars stream", polars.read_ipc_stream(path).to_dicts()


@pytest.mark.parametrize("weak", [False, True])
@pytest.mark.parametrize("text", [False, True])
@fewer(0.25)
@given(examples=random_examples())
def test_write_piece__is_readable_by_all_readers(
    tmp_path_factory: pytest.TempPathFactory, weak: bool, text: bool, examples: Examples
) -> None:
    path = tmp_path_factory.mktemp("shard") / "data-00000-of-00001.arrow"
    full = with_ids(examples, weak=weak, text=text)
    kinds = {kind for kind, is_there in (("weak", weak), ("text", text)) if is_there}

    write_piece(path, full, columns.schema(LABELS, kinds))

    expected = [
        {
            "key": row.key,
            "doc_id": f"dök:{i}",
            "input_ids": row.ids,
            "word_ids": row.word_ids,
            "bio": row.bio,
        }
        | {"span_starts": [m[0] for m in row.mentions], "span_ends": [m[1] for m in row.mentions]}
        | {"span_labels": [m[2] for m in row.mentions]}
        for i, row in enumerate(rows_of(examples))
    ]
    for reader, rows in read_all_ways(path):
        assert [{name: row[name] for name in expected[0]} for row in rows] == expected, reader
        assert (not rows) or ("span_concepts" in rows[0], "text" in rows[0]) == (weak, text), reader


def test_build__is_readable_by_all_readers(one_build: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    for split, of in load(one_build).items():
        ours = [of[i] for i in range(len(of))]
        files = [one_build / split / shard.file for shard in of.record.shards]
        arrow = datasets.load_dataset(
            "arrow",
            data_files={split: [str(file) for file in files]},
            split=split,
            cache_dir=str(tmp_path),
        )
        assert datasets.load_from_disk(str(one_build))[split].to_list() == ours
        assert arrow.to_list() == ours
        for rows in zip(*(dict(read_all_ways(file)).items() for file in files), strict=True):
            assert [row for _, of_file in rows for row in of_file] == ours, rows[0][0]


@pytest.mark.parametrize("weak", [False, True])
def test_schema__declares_the_types_that_datasets_would_infer(weak: bool) -> None:
    datasets = pytest.importorskip("datasets")
    schema = columns.schema(LABELS, {"weak", "text"} if weak else {"text"})

    features = datasets.Features.from_arrow_schema(schema)

    assert features.arrow_schema.remove_metadata() == schema.remove_metadata()


@given(examples=random_examples())
def test_write_piece__is_deterministic(
    tmp_path_factory: pytest.TempPathFactory, examples: Examples
) -> None:
    folder, schema = tmp_path_factory.mktemp("shard"), columns.schema(LABELS, set())
    full = with_ids(examples)

    first = write_piece(folder / "a.arrow", full, schema)
    second = write_piece(folder / "b.arrow", concatenate([full]), schema)

    assert (folder / "a.arrow").read_bytes() == (folder / "b.arrow").read_bytes()
    assert (first.sha256, first.bytes) == (second.sha256, (folder / "a.arrow").stat().st_size)


def test_write_piece__does_not_depend_on_the_memory_layout_of_arrays(tmp_path: Path) -> None:
    whole = with_ids(three())
    names = ("input_ids", "word_ids", "bio", "span_starts", "span_ends", "span_labels")
    sliced = replace(
        whole,
        keys=whole.keys[1:],
        doc_ids=["1", "2"],
        **{name: getattr(whole, name).slice(1, 3) for name in names},
    )
    copied = replace(
        sliced,
        **{name: Ragged.from_rows(getattr(sliced, name).tolist(), np.int32) for name in names},
    )

    one = write_piece(tmp_path / "a.arrow", sliced, columns.schema(LABELS, set()))
    other = write_piece(tmp_path / "b.arrow", copied, columns.schema(LABELS, set()))

    assert one.sha256 == other.sha256


def test_record_batch__copies_no_token() -> None:
    examples = with_ids(three())

    batch = record_batch(examples, columns.schema(LABELS, set()))

    assert np.shares_memory(batch.column("input_ids").values.to_numpy(), examples.input_ids.values)


def test_write_piece__returns_the_record_of_the_shard(tmp_path: Path) -> None:
    examples = with_ids(three())

    record = write_piece(tmp_path / "x.arrow", examples, columns.schema(LABELS, set()))

    assert isinstance(record, ShardRecord)
    assert (record.file, record.rows, record.tokens) == (
        "x.arrow",
        3,
        len(examples.input_ids.values),
    )
    assert record.mentions == len(examples.span_starts.values) > 0


def test_check_token_count__is_the_limit_of_32_bit_offsets() -> None:
    check_token_count(2**31 - 1)

    with pytest.raises(ShardError, match="expected fewer than"):
        check_token_count(2**31)
