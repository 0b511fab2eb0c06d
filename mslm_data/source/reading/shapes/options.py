"""Options of all sources of rows, and the base class of shapes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from msgspec import Meta

from mslm_data.data.document import Document, NotChosen
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source.reading.cells import Cells, quote_column
from mslm_data.source.reading.records import RecordError, check_id_column
from mslm_data.source.reading.standoff import OffsetTextSource
from mslm_data.source.reading.versions import VersionOptions

TEXTS = ("text", "data")
"""Columns of the text. The first one in a row is used."""


class RowSource(OffsetTextSource, frozen=True, kw_only=True):
    """Base class of sources whose documents are rows with named columns."""

    tag_names: Annotated[
        tuple[str, ...],
        Meta(
            description="Names of integer tags (`O`, `B-X` …) or labels, in the order of the "
            "integers."
        ),
    ] = ()
    id_column: Annotated[
        str,
        Meta(
            description='Column of the id. "auto" uses the first of `id`, `doc_id`, `document_id`, '
            '`pmid` and `doc_key` in a row, "" numbers documents.'
        ),
    ] = "auto"
    untyped: Annotated[
        str, Meta(description="Label of bare tags, and of mentions with a concept but no label.")
    ] = "Entity"
    text_column: Annotated[
        str,
        Meta(
            description='Column of the text. Default: "auto", the column `text`. In tasks of Label '
            "Studio, a field of `data`."
        ),
    ] = "auto"
    mentions_column: Annotated[
        str,
        Meta(
            description="Column of the mentions, as a list or as JSON in a text, or of the tags of "
            'words. "auto" uses the column of the row\'s shape.'
        ),
    ] = "auto"
    ignored_columns: Annotated[
        tuple[str, ...],
        Meta(description="Columns to ignore although their values look like mentions."),
    ] = ()
    doc_label: Annotated[
        str,
        Meta(
            description="Column of the document's label, text or an integer. It becomes the column "
            '`doc_label` of the shards. Default: "", no label.'
        ),
    ] = ""

    def __post_init__(self) -> None:
        check_id_column(
            self.id_column, TEXTS if self.text_column == "auto" else (self.text_column,)
        )


@dataclass(frozen=True, kw_only=True)
class RowFile:
    """What the rows of a file share.

    Attributes:
        options: Options of the source.
        names: Column -> names of its integers, in order, if the file has names.
        versions: Which annotation to read in rows with several.
        beginning: Function that returns the file's first rows. They decide whether a tag I may
            begin a mention; see `tags.opens_with_i`.
    """

    options: RowSource = field(default_factory=RowSource)
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    versions: VersionOptions = field(default_factory=VersionOptions)
    beginning: Callable[[], Iterable[object]] = tuple

    def name(self, value: object, column: str) -> str:
        """Return a tag or label, or the name of an integer tag or label.

        Raises:
            RecordError: The value is neither, or an integer without a name.
            SourceError: The value is an integer, and neither file nor options have names.
        """
        if isinstance(value, str):
            return value
        if not isinstance(value, int) or isinstance(value, bool):
            raise RecordError(
                f"expected names or integers in column {quote_column(column)}, got another value"
            )
        names = self.names.get(column, self.options.tag_names)
        if not names:
            raise SourceError(
                f"expected names in column {quote_column(column)}, got integers without names; set "
                'their names in order with [source] tag_names = ["O", "B-X", ...]'
            )
        if not 0 <= value < len(names):
            raise RecordError(
                Reason(
                    f"expected integers from 0 to {len(names) - 1} in column "
                    f"{quote_column(column)}, got {value}",
                    code="beyond the names of tags",
                    advice={"tag_names": "set the names of tags with source.tag_names"},
                )
            )
        return names[value]


class Shape(ABC):
    """A shape of rows: how to recognise it, and how to make a document from a row.

    Attributes:
        columns: Columns that the shape reads.
        says_none: Whether a row without mentions certainly has none, as with tags. In other shapes,
            mentions may be in a column of unknown name.
    """

    columns: ClassVar[frozenset[str]]
    says_none: ClassVar[bool] = False

    def __init__(self, file: RowFile) -> None:
        """Read rows of one file."""
        self.file = file

    @classmethod
    @abstractmethod
    def fits(cls, row: Cells) -> bool:
        """Return whether a row has this shape."""

    @abstractmethod
    def read(self, row: Cells, doc_id: str, place: str) -> Document | NotChosen:
        """Make a document from a row.

        Raises:
            RecordError: The row cannot be used.
            SourceError: No row of the file can be used, without an option. The message has no
                place; `RowReader` adds it.
        """
