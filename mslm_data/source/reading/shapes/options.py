"""The options of every source of rows, and what the readers of the shapes share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from mslm_data.data.document import Document, NotChosen
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.registry import Help
from mslm_data.source.reading.cells import Cells, quote_column
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.standoff import OffsetOptions
from mslm_data.source.reading.versions import VersionOptions


@dataclass(frozen=True, kw_only=True)
class RowOptions(OffsetOptions):
    """The options of every source whose documents are rows with named columns."""

    tag_names: Annotated[
        tuple[str, ...],
        Help("Names of integer tags (`O`, `B-X` …) or labels, in the order of the integers."),
    ] = ()
    id_column: Annotated[
        str,
        Help(
            'Column of the id, "auto" for the first of `id`, `doc_id`, `document_id`, `pmid` and '
            '`doc_key` that a row has, "" to number documents.'
        ),
    ] = "auto"
    untyped: Annotated[
        str, Help("Label of tags without a type, and of mentions that have a concept instead.")
    ] = "Entity"
    text_column: Annotated[
        str,
        Help(
            'Column of the text where rows have one, "auto" for `text`; of a task of Label Studio, '
            "the field of its data."
        ),
    ] = "auto"
    mentions_column: Annotated[
        str,
        Help(
            "Column of the mentions, which may stand there as JSON in a text, or of the tags of "
            'words; "auto" for the one that a row\'s shape says.'
        ),
    ] = "auto"
    ignored_columns: Annotated[
        tuple[str, ...], Help("Columns whose values look like mentions, and are to be passed over.")
    ] = ()
    doc_label: Annotated[
        str,
        Help(
            'Column of the document\'s own label, text or an integer, "" where there is none or '
            "none is wanted. It becomes the column `doc_label` of the shards."
        ),
    ] = ""


@dataclass(frozen=True, kw_only=True)
class RowFile:
    """Hold all that the rows of one file need besides themselves.

    Attributes:
        options: Of the source.
        names: Column -> names of its integers, in order, for those that the file itself names.
        versions: Which annotation of a row with several is read.
        beginning: Returns the first rows of the file, which decide whether a tag I may begin a
            mention in it; see `tags.opens_with_i`.
    """

    options: RowOptions = field(default_factory=RowOptions)
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    versions: VersionOptions = field(default_factory=VersionOptions)
    beginning: Callable[[], Iterable[object]] = tuple

    def name(self, value: object, column: str, place: str) -> str:
        """Return a tag or label that is a name, or the name that an integer stands for.

        Raises:
            RecordError: It is neither, or an integer beyond the names.
            SourceError: It is an integer, and nothing says what integers mean.
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
                f"{place}: expected names in column {quote_column(column)}, got integers and "
                "nothing that says what they mean; "
                f'pass their names in order as [source] tag_names = ["O", "B-X", ...]'
            )
        if not 0 <= value < len(names):
            raise RecordError(
                Reason(
                    f"expected integers from 0 to {len(names) - 1} in column "
                    f"{quote_column(column)}, got {value}",
                    code="beyond the names of tags",
                    advice={"tag_names": "say what tags are called with source.tag_names"},
                )
            )
        return names[value]


class Shape(ABC):
    """One shape of rows: how to know it, and how to make a document of it.

    Attributes:
        columns: Columns that rows of this shape have for it.
        says_none: Whether a row in which no mention is found says so itself, as tags do. In other
            shapes, mentions may stand in a column that is unknown.
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
        """Make a document of a row.

        Raises:
            RecordError: The row cannot be used.
            SourceError: As from `RowFile.name`.
        """
