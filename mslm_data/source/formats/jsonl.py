"""Reads JSON lines, a document each; `reading.shapes` has the shapes that are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.source import Source
from mslm_data.source.reading import json_rows
from mslm_data.source.reading.encodings import TextOptions
from mslm_data.source.reading.shapes import RowFile, RowOptions, RowReader, recognised


@dataclass(frozen=True, kw_only=True)
class JsonLines(RowOptions, TextOptions, Source):
    """Files of one JSON object a line, and `.json` files that are one array of objects.

    A document without an id of its own is called `{file}:{number}`, with its number in the file
    from 0; blank lines do not count. A line that is not JSON, or not a document, is set aside.
    Rows that annotators rejected or skipped are counted, and not read. A row without
    mentions is refused if another of its columns looks like mentions.
    """

    suffixes = json_rows.SUFFIXES

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file between lines; an array is one part. See `Source.cut`."""
        return json_rows.cut(part, self, target_bytes=target_bytes)

    def read(self, part: Part) -> Iterator[Document | SetAside | NotChosen]:
        """Read each row; see `Source.read`."""
        path = Path(part.path)
        file = RowFile(options=self, beginning=lambda: json_rows.beginning(path, self))
        reader = RowReader(file)
        for row in json_rows.rows(part, self):
            if isinstance(row, SetAside):
                yield row
            else:
                yield reader.document(row.value, numbered=row.numbered, place=row.place)

    def columns_of(self, path: Path) -> list[str]:
        """Return the columns of a file's first row; see `Source.columns_of`."""
        return json_rows.columns_of(path)

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:
        """Return what speaks for rows of JSON; see `Source.recognises`."""
        return recognised(json_rows.first_row(path, head))
