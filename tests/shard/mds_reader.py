"""A slow and simple reader of MDS files, written from the reader of mosaicml-streaming 0.13."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np


def read_split(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a split, and check its index against its files."""
    index = json.loads((folder / "index.json").read_bytes())
    assert sorted(index) == ["shards", "version"]
    assert index["version"] == 2

    rows = []
    for shard in index["shards"]:
        data = (folder / shard["raw_data"]["basename"]).read_bytes()
        assert shard["raw_data"]["bytes"] == len(data)
        assert shard["zip_data"] is None
        of_file = read_file(data)
        assert shard["samples"] == len(of_file)
        assert {**shard, **description(data)} == shard
        rows += of_file
    return rows


def description(data: bytes) -> dict[str, Any]:
    """Return the JSON header of a file, between its offsets and its rows."""
    (count,) = struct.unpack_from("<I", data)
    (first,) = struct.unpack_from("<I", data, 4)
    described: dict[str, Any] = json.loads(data[4 + 4 * (count + 1) : first])
    return described


def read_file(data: bytes) -> list[dict[str, Any]]:
    about = description(data)
    (count,) = struct.unpack_from("<I", data)
    offsets = struct.unpack_from(f"<{count + 1}I", data, 4)
    assert offsets[-1] == len(data)
    return [_row(data[offsets[i] : offsets[i + 1]], about) for i in range(count)]


def _row(data: bytes, about: dict[str, Any]) -> dict[str, Any]:
    place = 0
    sizes = []
    for fixed in about["column_sizes"]:
        if fixed is None:
            sizes += struct.unpack_from("<I", data, place)
            place += 4
        else:
            sizes.append(fixed)

    row = {}
    for name, encoding, size in zip(
        about["column_names"], about["column_encodings"], sizes, strict=True
    ):
        row[name] = _value(data[place : place + size], encoding)
        place += size
    assert place == len(data)
    return row


def _value(data: bytes, encoding: str) -> Any:
    if encoding == "str":
        return data.decode()
    if encoding == "json":
        return json.loads(data)
    kind, _, of = encoding.partition(":")
    if kind != "ndarray":
        (number,) = np.frombuffer(data, kind)
        return number.item()

    assert data[0] >> 2 == 1, "one dimension"
    width = 1 << data[0] % 4
    length = int.from_bytes(data[1 : 1 + width], "little")
    items = np.frombuffer(data[1 + width :], of).tolist()
    assert len(items) == length
    return items
