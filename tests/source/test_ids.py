"""Ids stand in messages and in `set_aside.jsonl`, so they are never texts."""

from __future__ import annotations

from typing import Any

import pytest

from mslm_data.errors import PipelineError
from mslm_data.source.table import SOURCES


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("jsonl", {"id_column": "text"}),
        ("jsonl", {"id_column": "data"}),
        ("prodigy", {"id_column": "note", "text_column": "note"}),
        ("hub", {"id_column": "text"}),
        ("text", {"id_column": "text"}),
        ("text", {"id_column": "note", "text_column": "note"}),
        ("notes", {"id_column": "TEXT", "text_column": "text"}),
        ("offsets", {"text_id_column": "abstract", "text_columns": ["title", "abstract"]}),
    ],
)
def test_make__rejects_the_text_as_id(source: str, options: dict[str, Any]) -> None:
    with pytest.raises(PipelineError, match=r"id_column to differ from the column of the text"):
        SOURCES.make(source, options, where="here")
