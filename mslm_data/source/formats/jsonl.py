"""Reads JSON lines, a document each; `reading.shapes` has the shapes that are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mslm_data.data.document import SetAside
from mslm_data.errors import SourceError
from mslm_data.source.reading import json_rows
from mslm_data.source.reading.json_sources import JsonRows
from mslm_data.source.reading.shapes import RowReader, find_columns, recognised


@dataclass(frozen=True, kw_only=True)
class JsonLines(JsonRows):
    """Files of one JSON object a line, and `.json` files that are one array of objects.

    A document without an id of its own is called `{file}:{number}`, with its number in the file
    from 0; blank lines do not count. A line that is not JSON, or not a document, is set aside.
    Rows that annotators rejected or skipped are counted, and not read. A row without
    mentions is refused if another of its columns looks like mentions.
    """

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:
        """Return what speaks for rows of JSON; see `Source.recognises`."""
        why = recognised(json_rows.first_rows(path, head))
        if not why and (columns := find_columns(json_rows.first_rows(path, head))):
            why = f"its rows have a text and, in {columns['mentions_column']}, mentions"
        return why

    @classmethod
    def options_of(cls, path: Path, head: bytes) -> Mapping[str, Any]:
        """Return the columns of rows that have none of the usual names; see `Source.options_of`."""
        if recognised(json_rows.first_rows(path, head)):
            return {}
        return find_columns(json_rows.first_rows(path, head))

    @classmethod
    def falls_short(cls, path: Path, head: bytes) -> str:
        """Return what keeps the first row from being read; see `Source.falls_short`."""
        row = next(json_rows.first_rows(path, head), None)
        if not isinstance(row, dict):
            return ""
        place = f"{path.name}:1"
        try:
            found = RowReader().document(row, numbered="", place=place)
        except SourceError as error:
            return str(error).removeprefix(f"{place}: ")
        return found.reason.text if isinstance(found, SetAside) else ""
