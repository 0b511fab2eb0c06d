"""Columns of rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mslm_data as md
from mslm_data.look.reading import read_column
from tests import made


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> md.Shards:
    """A folder of several shards, mapped like a large folder."""
    monkeypatch.setattr("mslm_data.shard.split.IN_MEMORY", 0)
    made.built(tmp_path / "many", pipeline=made.pipeline_of(unit_bytes=1500))
    return md.load(tmp_path / "many")


def test_read_column__has_rows_in_any_order(shards: md.Shards) -> None:
    split = shards["train"]
    rows = np.array([len(split) - 1, 0, 1, 2, len(split) // 2])

    assert read_column(split, "doc_id", rows) == [split[int(row)]["doc_id"] for row in rows]
    assert read_column(split, "span_scores", rows) == [None] * len(rows)
