from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mslm_data.api.loading import load
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.errors import ShardError
from mslm_data.shard import split as splits
from mslm_data.shard.manifest import read_manifest
from mslm_data.shard.read import Shard
from tests import made
from tests.shard.damage import (
    claim_bytes,
    dual_file,
    edit_manifest,
    first_shard,
    flip,
    forge,
    set_value,
)


@pytest.fixture(params=["mapped", "in memory"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open shards in memory and mapped: both reject the same."""
    monkeypatch.setattr(splits, "IN_MEMORY", 0 if request.param == "mapped" else 1 << 40)


def read(folder: Path) -> None:
    """Read rows with every method."""
    for split in load(folder).values():
        split.examples()
        split.take(np.arange(len(split)))
        for i in range(len(split)):
            split[i]


def batch_of(folder: Path) -> pa.RecordBatch:
    (batch,) = list(pa.ipc.open_stream(first_shard(folder).read_bytes()))
    return batch


def replaced(
    batch: pa.RecordBatch, name: str, column: pa.Array, new_name: str | None = None
) -> bytes:
    place = batch.schema.names.index(name)
    fields = [batch.schema.field(i) for i in range(len(batch.schema))]
    fields[place] = pa.field(new_name or name, column.type)
    columns = [*batch.columns[:place], column, *batch.columns[place + 1 :]]
    return dual_file(
        pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, batch.schema.metadata))
    )


@pytest.mark.parametrize("link", [False, True])
def test_examples__names_a_missing_shard(folder: Path, link: bool) -> None:
    path = first_shard(folder)
    path.unlink()
    if link:
        path.symlink_to(path)  # a circle of links
    train = load(folder)["train"]

    with pytest.raises(
        ShardError, match=rf"{path.name}: the shard is missing; build the folder again"
    ):
        train.examples()


@pytest.mark.parametrize("size", [0, 7, 1000, -1])
def test_examples__reports_a_truncated_shard(folder: Path, size: int) -> None:
    path = first_shard(folder)
    path.write_bytes(path.read_bytes()[:size])

    with pytest.raises(
        ShardError, match=r"\.arrow: expected \d+ bytes, got \d+; the file is damaged"
    ):
        read(folder)


@pytest.mark.parametrize(
    "data", [b"", b"not arrow", b"\xff\xff\xff\xff", b"\0" * 4096, b"ARROW1\0\0" * 9]
)
def test_examples__reports_a_file_that_is_not_arrow(folder: Path, data: bytes) -> None:
    claim_bytes(folder, data)

    with pytest.raises(ShardError, match=r"\.arrow: expected an Arrow stream"):
        read(folder)


def in_two_batches(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch.slice(0, 2))
        writer.write_batch(batch.slice(2))
    return bytes(sink.getvalue())


def renamed(batch: pa.RecordBatch, name: str) -> bytes:
    return replaced(batch, "word_ids", batch.column("word_ids"), new_name=name)


def with_type(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> bytes:
    return replaced(batch, name, pa.array(batch.column(name).to_pylist(), kind))


def with_null(batch: pa.RecordBatch, name: str, inside: bool = False) -> bytes:
    column = batch.column(name)
    first, *others = column.to_pylist()
    first = [None, *first[1:]] if inside else None
    return replaced(batch, name, pa.array([first, *others], column.type))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda batch: dual_file(batch.slice(1)), r"expected one batch of \d+ rows, got 1 of \d+"),
        (in_two_batches, r"expected one batch of \d+ rows, got 2 of \d+"),
        (lambda batch: renamed(batch, "words"), "column word_ids: expected list<.*>, got none"),
        (
            lambda batch: renamed(batch, "input_ids"),
            "column input_ids: expected list<item: int32>, got list<.*>, list<",
        ),
        (
            lambda batch: replaced(batch, "key", batch.column("key").view("int64")),
            "column key: expected uint64, got int64",
        ),
        *(
            (
                lambda batch, name=name: with_type(batch, name, pa.list_(pa.int64())),
                f"column {name}: expected .*, got list<item: int64>",
            )
            for name in ("input_ids", "bio", "span_labels")
        ),
        *(
            (lambda batch, name=name: with_null(batch, name), f"{name}: the column has nulls")
            for name in ("key", "doc_id", "input_ids", "span_ends")
        ),
        (
            lambda batch: with_null(batch, "input_ids", inside=True),
            "input_ids: the column has nulls",
        ),
    ],
)
def test_examples__names_the_damage_of_columns(
    folder: Path, damage: Callable[[pa.RecordBatch], bytes], message: str
) -> None:
    claim_bytes(folder, damage(batch_of(folder)))

    with pytest.raises(ShardError, match=rf"\.arrow: {message}"):
        read(folder)


@pytest.mark.parametrize("name", ["word_ids", "bio", "span_ends", "span_labels"])
def test_examples__rejects_columns_of_different_row_lengths(folder: Path, name: str) -> None:
    batch = batch_of(folder)
    rows = batch.column(name).to_pylist()
    whole = [value for row in rows for value in row]
    lengths = [len(row) for row in rows]
    longest, other = int(np.argmax(lengths)), int(np.argmin(lengths))
    lengths[longest], lengths[other] = lengths[longest] - 1, lengths[other] + 1
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    column = pa.ListArray.from_arrays(offsets, pa.array(whole, batch.column(name).type.value_type))
    claim_bytes(folder, replaced(batch, name, column))

    with pytest.raises(ShardError, match=rf"{name}: expected as many items in each row as "):
        read(folder)


def _falling(offsets: np.ndarray) -> None:
    offsets[1] = offsets[2] + 1


def _negative(offsets: np.ndarray) -> None:
    offsets[0] = -1


def _beyond(offsets: np.ndarray) -> None:
    offsets[-1] = 2**30


@pytest.mark.parametrize("damage", [_falling, _negative, _beyond])
@pytest.mark.parametrize("name", ["doc_id", "input_ids", "word_ids", "span_starts"])
def test_examples__rejects_offsets_out_of_range(
    folder: Path, name: str, damage: Callable[[np.ndarray], None]
) -> None:
    batch = batch_of(folder)
    old = np.frombuffer(batch.column(name).buffers()[1], np.int32)[: len(batch) + 1]
    new = old.copy()
    damage(new)
    data = first_shard(folder).read_bytes()
    assert old.tobytes() in data
    claim_bytes(folder, data.replace(old.tobytes(), new.tobytes(), 1))

    with pytest.raises(ShardError):
        read(folder)


MENTIONS = "mentions with a token, within their row"


@pytest.mark.parametrize(
    ("column", "value", "wanted"),
    [
        ("input_ids", -1, "ids of the tokenizer"),
        ("input_ids", 1144, "ids of the tokenizer"),
        ("word_ids", -2, "word numbers of at least -1"),
        ("bio", -1, "tags of the manifest"),
        ("bio", 3, "tags of the manifest"),
        ("span_labels", -1, "labels of the manifest"),
        ("span_labels", 1, "labels of the manifest"),
        ("span_starts", -1, MENTIONS),
        ("span_starts", 10**6, MENTIONS),
        ("span_ends", 0, MENTIONS),
        ("span_ends", 10**6, MENTIONS),
    ],
)
def test_examples__rejects_numbers_out_of_range(
    folder: Path, column: str, value: int, wanted: str
) -> None:
    forge(folder, set_value(column, 1, value))

    with pytest.raises(ShardError, match=rf"row \d+: expected {wanted}; 1 are not; the file"):
        read(folder)


def test_examples__rejects_changed_bytes(folder: Path) -> None:
    """A changed token is in range, so the model would be trained on it."""
    read(folder)
    path = first_shard(folder)
    ids = batch_of(folder).column("input_ids").values.buffers()[1].to_pybytes()
    place = path.read_bytes().index(ids[:40])
    flip(path, place + 4)

    with pytest.raises(
        ShardError, match=r"the checksum differs from the manifest's; the file is damaged"
    ):
        read(folder)


def test_examples__follows_a_link_to_the_folder_and_within_it(folder: Path, tmp_path: Path) -> None:
    path = first_shard(folder)
    path.rename(folder / "here.arrow")
    path.symlink_to(folder / "here.arrow")
    (tmp_path / "link").symlink_to(folder)

    read(tmp_path / "link")


def test_examples__reports_an_unreadable_shard(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("mslm_data.shard.read.holds", refuse)
    monkeypatch.setattr(pa, "OSFile", refuse)

    with pytest.raises(ShardError, match=r"arrow: cannot read the shard: Input/output error"):
        read(folder)


def test_examples__reads_an_empty_shard(folder: Path) -> None:
    def empty(examples: Examples) -> Examples:
        nothing = {
            name: Ragged.from_rows([], getattr(examples, name).values.dtype)
            for name in ("input_ids", "word_ids", "bio", "span_starts", "span_ends", "span_labels")
        }
        return Examples(keys=examples.keys[:0], doc_ids=[], ids=examples.ids, **nothing)

    forge(folder, empty)

    def recount(manifest: dict[str, Any]) -> None:
        split = manifest["splits"]["train"]
        for total, what in (("sequences", "rows"), ("tokens", "tokens"), ("mentions", "mentions")):
            split[total] = sum(shard[what] for shard in split["shards"])
        split["given_mentions"] = split["mentions"]

    edit_manifest(folder, recount)

    read(folder)

    assert len(load(folder)["train"].examples()) == len(load(folder)["train"])


@pytest.mark.long
def test_read__flipped_bits_never_end_the_process(tmp_path: Path) -> None:
    """All bytes of a small shard, in a separate process, as a fault would end this one."""
    source = tmp_path / "in"
    source.mkdir()
    (source / "train.tsv").write_text("Fanconi\tB-X\nanaemia\tI-X\n\nkinase\tO\n\ncolon\tB-X\n\n")
    made.built(tmp_path / "out", source)

    ended = subprocess.run(
        [sys.executable, "-m", "tests.shard.test_read", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr[-2000:]
    assert int(ended.stdout) == first_shard(tmp_path / "out").stat().st_size


def flip_everything(folder: Path) -> int:
    """Count detected bit flips, with and without the digest. Other errors are raised."""
    path = first_shard(folder)
    manifest = read_manifest(folder)
    record = manifest.splits["train"].shards[0]
    data = path.read_bytes()
    refused = 0
    for place, byte in enumerate(data):
        put(path, place, byte ^ 1 << 7 * (place % 2))
        shard = Shard(path, record, manifest)
        for open_shard in (shard.columns, lambda shard=shard: shard._parse(None)):
            try:
                open_shard()
            except ShardError:
                refused += open_shard == shard.columns
        put(path, place, byte)
    return refused


def put(path: Path, place: int, byte: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(bytes([byte]))


if __name__ == "__main__":
    print(flip_everything(Path(sys.argv[1])))  # noqa: T201 - the answer to the test above
