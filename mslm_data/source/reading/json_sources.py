"""Base classes of JSON sources: how files are cut, and which rows become documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source.reading import json_rows
from mslm_data.source.reading.cells import quote_column
from mslm_data.source.reading.files import read_head
from mslm_data.source.reading.shapes import PLAIN_SHAPES, RowFile, RowReader, RowSource
from mslm_data.source.reading.shapes.options import Shape
from mslm_data.source.reading.versions import (
    OTHER_VERSION,
    AnnotatorOption,
    SeveralOption,
    Version,
    VersionOptions,
)

_HOLD_TEXT = frozenset(
    {"text", "data", "tokens", "words", "tokenized_text", "passages", "sentences", "fields"}
) | frozenset({"sents", "documents", "projects"})
"""Columns of rows that are documents or contain documents. Such a row has at least one of them."""


class JsonRows(RowSource, frozen=True, kw_only=True):
    """Files of JSON lines, and `.json` files with an array or an object, whose rows are documents.

    Each row is read independently. Formats that skip rows override `why_not_chosen`.

    Attributes:
        shapes: Shapes by name. A row has the first shape that fits it.
    """

    suffixes = json_rows.SUFFIXES
    shapes: ClassVar[Mapping[str, type[Shape]]] = PLAIN_SHAPES

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file between lines. An array or an object is one part. See `Source.cut`."""
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
        """Return why a row is not read, as in `NotChosen`; "" if it is read.

        Args:
            row: The decoded JSON.
        """
        return ""

    def settle(self, paths: Sequence[Path]) -> Mapping[str, Any]:
        """Check that all files have the column of mentions if some have; see `Source.settle`.

        Raises:
            SourceError: A file lacks the column, such as a test set without answers.
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
        """Return why a file certainly holds no documents; see `Source.disowns`."""
        row = next(json_rows.first_rows(path, read_head(path)), None)
        if not isinstance(row, dict) or not _HOLD_TEXT.isdisjoint(row) or self.text_column in row:
            return ""
        return "its first object holds neither text nor words"


class JsonVersions(JsonRows, frozen=True, kw_only=True):
    """Files like those of `JsonRows`, in which several rows may annotate the same document.

    A file is read in one part, because the choice of rows depends on all of them.
    """

    annotator: AnnotatorOption = ""
    of_several: SeveralOption = "last"

    @property
    def versions(self) -> VersionOptions:
        """The options that choose among annotations of a document."""
        return VersionOptions(annotator=self.annotator, of_several=self.of_several)

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:  # noqa: ARG002 - one part
        """Return the whole file as one part; see `Source.cut`."""
        yield part

    def read(self, part: Part) -> Iterator[Document | SetAside | NotChosen]:
        """Read the chosen rows; see `Source.read`."""
        # Read the file twice, so that only the keys of its rows are held in memory.
        reasons = self.versions.chosen(
            None if isinstance(row, SetAside) else self.read_version(row.value, number)
            for number, row in enumerate(json_rows.rows(part, self))
        )
        united = self.united(part)
        path = Path(part.path)
        file = RowFile(
            options=self,
            versions=self.versions,
            beginning=lambda: json_rows.beginning(path, self),
        )
        reader = RowReader(file, self.shapes)
        for row, reason in zip(json_rows.rows(part, self), reasons, strict=True):
            if isinstance(row, SetAside):
                yield row
            elif reason:
                yield NotChosen(reason)
            elif (value := united(row.value)) is None:
                yield NotChosen(OTHER_VERSION)
            else:
                yield reader.document(value, numbered=row.numbered, place=row.place)

    def united(self, part: Part) -> Callable[[object], object]:  # noqa: ARG002 - overridden
        """Return a function that merges rows of the same annotation into the first of them.

        For the others it returns None. The default returns each row unchanged. Formats with several
        rows per annotation override it.
        """
        return lambda row: row

    def read_version(self, row: object, number: int) -> Version | None:
        """Return the document and annotator of a row, None for a row that is always read.

        Args:
            row: The decoded JSON.
            number: Index of the row in the part.
        """
        raise NotImplementedError
