"""Columns of rows, and closing of shards out of view."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mslm_data as md
from mslm_data.look.corpus import Corpus
from mslm_data.look.reading import close_other_shards, read_column, reopen
from mslm_data.look.render import render_view
from mslm_data.look.state import State
from tests import made


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> md.Shards:
    """A folder of several shards, mapped like a large folder."""
    monkeypatch.setattr("mslm_data.shard.split.IN_MEMORY", 0)
    made.built(tmp_path / "many", pipeline=made.pipeline_of(unit_bytes=1500))
    return md.load(tmp_path / "many")


def open_shards(split: md.Split) -> list[int]:
    return [number for number, shard in enumerate(split._shards) if shard.is_open]


def test_close_other_shards__keeps_shards_with_rows(shards: md.Shards) -> None:
    split = shards["train"]
    firsts = np.cumsum([0, *split.shard_rows]).tolist()
    assert len(split.shard_rows) > 3

    for start, stop, kept in (
        (firsts[1], firsts[2], [1]),
        (firsts[1] - 1, firsts[2], [0, 1]),
        (firsts[1], firsts[2] + 1, [1, 2]),
        (firsts[2], firsts[2] + 1, [2]),
    ):
        split.examples()
        close_other_shards(split, start, stop)
        assert open_shards(split) == kept


def test_rows__of_a_page_leave_only_their_shards_open(shards: md.Shards) -> None:
    corpus = Corpus(shards)
    last = len(shards["train"]) - 1
    for row in (0, last // 2, last):
        render_view("rows", corpus, State(row=row), live=True, count=1)
        with corpus.scroll("train") as split:
            assert len(open_shards(split)) == 1

    # Counting and drawing close the splits of the folder.
    render_view("corpus", corpus, State(), live=False)
    render_view("rates", corpus, State(), live=False)
    assert open_shards(shards["train"]) == []


def test_read_column__has_rows_in_any_order(shards: md.Shards) -> None:
    split = reopen(shards["train"])
    rows = np.array([len(split) - 1, 0, 1, 2, len(split) // 2])

    assert read_column(split, "doc_id", rows) == [split[int(row)]["doc_id"] for row in rows]
    assert read_column(split, "span_scores", rows) == [None] * len(rows)
