"""Holds what sources of JSON share: how files are cut, and which of their rows become documents."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source import Source
from mslm_data.source.reading import json_rows
from mslm_data.source.reading.cells import quote_column
from mslm_data.source.reading.encodings import TextOptions
from mslm_data.source.reading.files import read_head
from mslm_data.source.reading.shapes import PLAIN_SHAPES, RowFile, RowOptions, RowReader
from mslm_data.source.reading.shapes.options import Shape
from mslm_data.source.reading.versions import Version, VersionOptions

_HOLD_TEXT = frozenset(
    {"text", "data", "tokens", "words", "tokenized_text", "passages", "sentences", "fields"}
) | frozenset({"sents", "documents", "projects"})
"""Columns of which a row that is a document, or holds documents, has one."""


@dataclass(frozen=True, kw_only=True)
class JsonRows(RowOptions, TextOptions, Source):
    """Files of JSON lines, and `.json` files of one array or one object, whose rows are documents.

    Each row is read by itself. A format that leaves rows out overrides `why_not_chosen`.

    Attributes:
        shapes: The shapes that rows may have, by name. A row has the first that fits it.
    """

    suffixes = json_rows.SUFFIXES
    shapes: ClassVar[Mapping[str, type[Shape]]] = PLAIN_SHAPES

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file between lines; one array or one object is one part. See `Source.cut`."""
        return json_rows.cut(part, self, target_bytes=target_bytes)

    def read(self, part: Part) -> Iterator[Document | SetAside | NotChosen]:
        """Read each row; see `Source.read`."""
        path = Path(part.path)
        file = RowFile(options=self, beginning=lambda: json_rows.beginning(path, self))
        reader = RowReader(file, self.shapes)
        for row in json_rows.rows(part, self):
            if isinstance(row, SetAside):
                yield row
            elif reason := self.why_not_chosen(row.value):
                yield NotChosen(reason)
            else:
                yield reader.document(row.value, numbered=row.numbered, place=row.place)

    def why_not_chosen(self, row: object) -> str:  # noqa: ARG002 - overridden
        """Return why the options leave a row out, as `NotChosen` says it; "" where it is read.

        Args:
            row: What its JSON says.
        """
        return ""

    def settle(self, paths: Sequence[Path]) -> Mapping[str, Any]:
        """Check that files have the column of mentions that some have; see `Source.settle`.

        Raises:
            SourceError: One has not, such as a test set without answers.
        """
        column = self.mentions_column
        if column != "auto":
            lacking = [path for path in paths if not self._has_column(path, column)]
            if lacking and len(lacking) < len(paths):
                raise SourceError(
                    f"{lacking[0].name}: expected rows with column {quote_column(column)}, as "
                    "other files have, found none in its first rows; if the file has no mentions, "
                    "exclude it with [source] splits"
                )
        return {}

    def _has_column(self, path: Path, column: str) -> bool:
        return any(
            isinstance(row, Mapping) and column in row for row in json_rows.beginning(path, self)
        )

    def list_columns(self, path: Path) -> list[str]:
        """Return the columns of a file's first row; see `Source.list_columns`."""
        return json_rows.list_columns(path)

    def disowns(self, path: Path) -> str:
        """Return why a file surely holds no documents; see `Source.disowns`."""
        row = next(json_rows.first_rows(path, read_head(path)), None)
        if not isinstance(row, dict) or not _HOLD_TEXT.isdisjoint(row) or self.text_column in row:
            return ""
        return "its first object holds neither text nor words"


@dataclass(frozen=True, kw_only=True)
class JsonVersions(VersionOptions, JsonRows):
    """Files as of `JsonRows`, in which several rows may be annotations of one document.

    A file is one part, as only all of its rows together tell which are read.
    """

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:  # noqa: ARG002 - one part
        """Return a file as one part; see `Source.cut`."""
        yield part

    def read(self, part: Part) -> Iterator[Document | SetAside | NotChosen]:
        """Read each row that is chosen; see `Source.read`."""
        # The file is read twice, so that only what tells its rows apart is held.
        reasons = self.chosen(
            None if isinstance(row, SetAside) else self.read_version(row.value, number)
            for number, row in enumerate(json_rows.rows(part, self))
        )
        united = self.united(part)
        reader = RowReader(RowFile(options=self, versions=self), self.shapes)
        for row, reason in zip(json_rows.rows(part, self), reasons, strict=True):
            if isinstance(row, SetAside):
                yield row
            elif reason:
                yield NotChosen(reason)
            else:
                value = united(row.value)
                yield reader.document(value, numbered=row.numbered, place=row.place)

    def united(self, part: Part) -> Callable[[object], object]:  # noqa: ARG002 - overridden
        """Return what makes one row of the several that are one annotation together.

        Formats that have such rows override it. By default, each row is one of its own.
        """
        return lambda row: row

    @abstractmethod
    def read_version(self, row: object, number: int) -> Version | None:
        """Return which annotation of which document a row is, None for a row that always stays.

        Args:
            row: What its JSON says.
            number: Its number in the part, from 0.
        """
