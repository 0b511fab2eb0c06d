"""What the rows of a file share, and what a shape of rows is."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source import Guess
from mslm_data.source.form import Findings, Record, shows_iob1
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.occurrences import OccurrencesOption
from mslm_data.source.reading.records import NAME_THE_ID, RecordError, check_id_column
from mslm_data.source.reading.shapes.mention_forms import (
    count_mentions,
    find_tags,
    find_words,
    look_like_mentions,
)
from mslm_data.source.reading.standoff import OffsetTextSource
from mslm_data.source.reading.versions import (
    AnnotatorOption,
    SeveralOption,
    Version,
    VersionOptions,
)

IDS = ("id", "doc_id", "document_id", "note_id", "pmid", "doc_key")
"""Columns of ids. The first one in a row is used."""
TEXTS = ("text", "data", "full_text", "note_text")
"""Columns of the text. The first one in a row is used."""
MENTIONS = (
    "ents",
    "entities",
    "spans",
    "mentions",
    "annotations",
    "annotation",
    "labels",
    "label",
)
"""Columns of mentions. The first one with mentions at the file's beginning is used."""

_FEWEST_ENDS = 10
"""Minimum number of mentions for detecting whether ends are inclusive."""
_MOST_OF = 0.9
"""Minimum share of the mentions that must agree."""
_FEWEST_REPEATED = 5
_MOST_REPEATED = 0.05
"""Number and share of ids that may repeat an earlier one in the first rows."""
_MOST_NAMES = 8
"""Maximum number of keys in a message."""
_DEEPEST = 4
"""Maximum depth of objects whose keys are counted."""


class RowOptions(OffsetTextSource, frozen=True, kw_only=True):
    """Options of all sources whose documents are rows with named columns."""

    tag_names: Annotated[
        tuple[str, ...],
        Meta(
            description="Names of integer tags (`O`, `B-X`, `I-X` …) or labels, in the order of "
            "the integers. With `O` and labels alone, equal neighbours are one mention."
        ),
    ] = ()
    id_column: Annotated[
        str,
        Meta(
            description='Column of the id. "auto" uses the first of `id`, `doc_id`, `document_id`, '
            '`note_id`, `pmid` and `doc_key` in a row, unless the first rows repeat it; "" numbers '
            "documents."
        ),
    ] = "auto"
    untyped: Annotated[
        str, Meta(description="Label of bare tags, and of mentions with a concept but no label.")
    ] = "Entity"
    text_column: Annotated[
        str,
        Meta(
            description='Column of the text. Default: "auto", the column `text`. In tasks of Label '
            "Studio, a field of `data`. As for all columns, `data.text` is the field `text` of the "
            "objects in column `data`."
        ),
    ] = "auto"
    mentions_column: Annotated[
        str,
        Meta(
            description="Column of the mentions, as a list or as JSON in a text, or of the tags of "
            'words. "auto" uses the column of the row\'s shape.'
        ),
    ] = "auto"
    start_key: Annotated[
        str, Meta(description='Key of a mention\'s start. Default: "", one of the usual keys.')
    ] = ""
    end_key: Annotated[
        str, Meta(description='Key of a mention\'s end. Default: "", one of the usual keys.')
    ] = ""
    label_key: Annotated[
        str, Meta(description='Key of a mention\'s label. Default: "", one of the usual keys.')
    ] = ""
    occurrences: OccurrencesOption = "once"
    alignment: Annotated[
        Literal["exact", "any"],
        Meta(
            description='Mentions of LangExtract to read: "exact", those whose words the text has '
            '(`match_exact`); "any", also the words that it found in place of others '
            "(`match_lesser`, `match_fuzzy`)."
        ),
    ] = "exact"
    text_after: Annotated[
        str,
        Meta(
            description="Words before the text in the messages of a chat, such as the end of an "
            'instruction. Default: "", a message is the text.'
        ),
    ] = ""
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
    annotator: AnnotatorOption = ""
    of_several: SeveralOption = "last"

    def __post_init__(self) -> None:
        check_id_column(
            self.id_column, TEXTS if self.text_column == "auto" else (self.text_column,)
        )

    @property
    def versions(self) -> VersionOptions:
        """The options that choose among annotations of a document."""
        return VersionOptions(annotator=self.annotator, of_several=self.of_several)

    @property
    def reads_predictions(self) -> bool:
        """Whether predictions of Label Studio are read instead of annotations."""
        return False

    @property
    def label_of_concepts(self) -> str:
        """Label of mentions with a concept and no label; "cui" uses the concept."""
        return self.untyped


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A shape of rows: how to recognise it, and how to read a row.

    Attributes:
        name: Name, for messages.
        fits: Whether a row has this shape.
        read: Fills a `Findings` from a row. It raises `RecordError` if the row cannot be used, and
            `SourceError`, without a place, if no row of the file can be used without an option.
        texts: Columns of the text or the words. A row without any is no document.
        columns: Other columns that it reads by name. Further columns of Arrow files are read only
            if their type or content may be mentions.
        ignored: Columns that may look like mentions, but are not.
        is_complete: Whether a row without mentions certainly has none, as with tags. In other
            shapes, mentions may be in a column of unknown name, which is an error.

        source: Name of the source that recognises files of this shape.
        why: Evidence for this shape, to follow "because". Default: its name.
        needs: Options that files of this shape need besides the defaults.
        shows: Whether a row that fits is evidence. Default: always.

        version: The document and annotator of a row with its number, None if the row has no other
            annotations. `versions.VersionOptions` chooses among rows with the same document.
            Default: None, each row is a document.
        piece: Key of an annotation that is given in several rows, which have one mention each. The
            mentions are in column `spans`. None for other rows.
        show_ends: Whether a row shows that ends of words are inclusive, and that they are
            exclusive. Default: a row shows neither.
        in_file: Column of many such documents in one object, and the source that reads such files.
    """

    name: str
    fits: Callable[[Cells], bool]
    read: Callable[[Cells, RowsFile, Findings], None]
    texts: frozenset[str]
    columns: frozenset[str]
    ignored: frozenset[str] = frozenset()
    is_complete: bool = True

    source: str = "jsonl"
    why: str = ""
    needs: Mapping[str, Any] = field(default_factory=dict)
    shows: Callable[[Cells], bool] = lambda _: True

    version: Callable[[Cells, int], Version | None] | None = None
    piece: Callable[[Cells], Hashable | None] = lambda _: None
    show_ends: Callable[[Cells], tuple[bool, bool]] = lambda _: (False, False)
    in_file: tuple[str, str] = ("", "")

    @property
    def read_columns(self) -> frozenset[str]:
        """All columns that it reads by name."""
        return self.texts | self.columns

    @property
    def guess(self) -> Guess:
        """Evidence for this shape, and the options that it needs."""
        return Guess(self.why or f"its rows are those of {self.name}", self.needs)


def find_written(rows: Sequence[Cells]) -> frozenset[str]:
    """Return the columns whose values are all lists or objects, written as texts.

    In JSON, as pandas makes it of a table, they may be in Python's notation.
    """
    columns = {name for row in rows for name, value in row.items() if isinstance(value, str)}
    return frozenset(name for name in columns if _are_written([row.get(name) for row in rows]))


def _are_written(values: Sequence[object]) -> bool:
    filled = [value for value in values if value not in (None, "")]
    return all(
        isinstance(value, str) and not isinstance(cells.parse_cell(value), str) for value in filled
    )


def decode_written(row: Cells, columns: Collection[str]) -> Cells:
    """Decode the lists in some columns of a row; see `find_written`."""
    if not columns:
        return row
    return {
        name: cells.parse_cell(value) if name in columns and isinstance(value, str) else value
        for name, value in row.items()
    }


def find_shape(row: Cells, shapes: Sequence[Shape]) -> Shape:
    """Return the first shape that fits a row."""
    return next(shape for shape in shapes if shape.fits(row))


@dataclass(frozen=True, kw_only=True)
class RowsFile:
    """What the rows of a file share. Its first rows decide it, once.

    Attributes:
        options: Options of the source.
        shapes: Shapes. A row has the first one that fits it.
        first: First rows of the file, with lists that are written as texts decoded.
        written: Columns of lists that are written as texts; see `find_written`.
        names: Column -> names of its integers, in order, if the file has names.
        names_beside: Names of integers in any column, from a file beside it. Options precede them.
    """

    options: RowOptions
    shapes: Sequence[Shape]
    first: Sequence[Cells] = ()
    written: Collection[str] = ()
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    names_beside: Sequence[str] = ()

    # Decided by the first rows -------------------------------------------------------------------

    @functools.cached_property
    def shape(self) -> Shape:
        """The shape of the first rows: of several, the first in `shapes`."""
        found = {self.find_shape(row).name for row in self.first}
        return next((shape for shape in self.shapes if shape.name in found), self.shapes[-1])

    @functools.cached_property
    def has_versions(self) -> bool:
        """Whether rows may annotate the same document."""
        return any(self.find_shape(row).version for row in self.first)

    @functools.cached_property
    def id_columns(self) -> Sequence[str]:
        """Columns of ids. A column that repeats many values names something larger."""
        if self.has_versions:
            return IDS
        values = {name: [*filter(None, (row.get(name) for row in self.first))] for name in IDS}
        return [
            name
            for name, ids in values.items()
            if len(ids) - len(set(map(str, ids)))
            <= max(_FEWEST_REPEATED, _MOST_REPEATED * len(ids))
        ]

    @functools.cached_property
    def mentions_column(self) -> str:
        """Column of mentions, "" if there is none.

        If a row's list in this column is empty, the row has no mentions, even if other columns do,
        such as a model's suggestions.
        """
        return next(
            (
                name
                for name in MENTIONS
                if any(look_like_mentions(row.get(name)) for row in self.first)
            ),
            "",
        )

    @functools.cached_property
    def tag_column(self) -> str:
        """Column of tags, "" if there is none. Rows without mentions may not show it."""
        found = ((row, row.get(find_words(row))) for row in self.first)
        columns = (find_tags(row, len(words)) for row, words in found if isinstance(words, list))
        return next((names[0] for names in columns if names), "")

    @functools.cached_property
    def ends(self) -> Literal["", "inclusive"]:
        """Meaning of ends, for mentions without their words.

        "inclusive" if in the first rows nearly all ends would cut a word if exclusive, and nearly
        none if inclusive.
        """
        ends = [
            (found.text, end)
            for found in self._read_first()
            for mention in found.mentions
            for _, end in mention.fragments
        ]
        cut = sum(_cuts_a_word(text, end) for text, end in ends)
        cut_inclusive = sum(_cuts_a_word(text, end + 1) for text, end in ends)
        are_enough = len(ends) >= _FEWEST_ENDS
        is_sure = cut >= _MOST_OF * len(ends) and cut_inclusive <= (1 - _MOST_OF) * len(ends)
        return "inclusive" if are_enough and is_sure else ""

    @functools.cached_property
    def word_ends(self) -> Literal["auto", "exclusive", "inclusive"]:
        """Meaning of ends that count words, "auto" if the first rows do not decide it."""
        shown = [self.find_shape(row).show_ends(row) for row in self.first]
        is_inclusive = any(inclusive for inclusive, _ in shown)
        is_exclusive = any(exclusive for _, exclusive in shown)
        if is_inclusive == is_exclusive:
            return "auto"
        return "inclusive" if is_inclusive else "exclusive"

    @functools.cached_property
    def is_iob1(self) -> bool:
        """Whether I may begin mentions; see `form.shows_iob1`."""
        return shows_iob1(self._read_first())

    def _read_first(self) -> Iterator[Findings]:
        """Read the first rows. Errors are reported, with their places, when the rows are read."""
        for row in self.first:
            found = Findings("", "")
            with suppress(RecordError, SourceError):
                self.shape_of(row).read(row, self, found)
                yield found

    @functools.cached_property
    def _columns(self) -> frozenset[str]:
        """Columns with a value in the first rows."""
        return frozenset(
            name for row in self.first for name, value in row.items() if value is not None
        )

    @functools.cached_property
    def _read_columns(self) -> frozenset[str]:
        return frozenset(IDS).union(*(shape.read_columns for shape in self.shapes))

    @functools.cached_property
    def _keys(self) -> Mapping[str, tuple[Counter[str], int]]:
        """Column -> keys of the objects in it, and the number of objects; "" for the rows."""
        objects: dict[str, list[Cells]] = {"": [*self.first]}
        for row in self.first:
            for column, value in row.items():
                objects.setdefault(column, []).extend(objects_within(value))
        return {
            column: (Counter(str(key) for one in listed for key in one), len(listed))
            for column, listed in objects.items()
        }

    # Rows ----------------------------------------------------------------------------------------

    def find_shape(self, row: Cells) -> Shape:
        """Return the first shape that fits a row."""
        return find_shape(row, self.shapes)

    def shape_of(self, row: Cells) -> Shape:
        """Return the shape of a row: the file's, unless it does not fit or has new columns."""
        is_known = row.keys() <= self._columns or all(
            value is None or name in self._columns for name, value in row.items()
        )
        return self.shape if is_known and self.shape.fits(row) else self.find_shape(row)

    def understand(self, record: Record, found: Findings) -> None:
        """Read a row; see `FormSource.understand`.

        Raises:
            RecordError: The row cannot be used.
            SourceError: No row of the file can be used without an option, or the row seems to have
                mentions in a column that is not read.
        """
        try:
            self.read_row(cells.named_columns(record.content), found)
        except SourceError as error:
            raise SourceError(f"{record.place}: {error}") from None
        except RecordError:
            found.lost = count_mentions(record.content)
            raise

    def read_row(self, row: Cells, found: Findings) -> None:
        """Read a row, as `understand`. A `SourceError` has no place."""
        row = decode_written(row, self.written)
        # The id and the label come first, so that they are known if the row is set aside.
        found.id = self._read_id(row) or found.id
        row = self._take_doc_label(row, found)
        shape = self.shape_of(row)
        if shape is self.shapes[-1]:
            self._check_not_file(row)
        shape.read(row, self, found)
        found.lost = len(found.mentions)
        if self.options.ends == "auto":
            found.ends = self.ends

        # A row without mentions may have them in a column of another name.
        is_bare = not (found.mentions or found.spans or found.left_out or found.not_chosen)
        if is_bare and not shape.is_complete:
            self._check_unread_columns(row, shape)

    def _read_id(self, row: Cells) -> str:
        """Return the id in a row, "" if there is none."""
        option = self.options.id_column
        column = cells.first_filled(row, self.id_columns) or "" if option == "auto" else option
        value = cells.lookup(row, column)
        doc_id = cells.document_id(value)
        if not doc_id and value != "" and option not in ("auto", ""):
            got = "none" if value is None else "another value"
            raise RecordError(
                Reason(
                    f"expected an id in column '{option}', text or a whole number, got {got}",
                    advice=NAME_THE_ID,
                )
            )
        return doc_id

    def _take_doc_label(self, row: Cells, found: Findings) -> Cells:
        """Set the document's label, and return the row without it: it may look like mentions."""
        column = self.options.doc_label
        if not column:
            return row
        names = self.names.get(column, ())
        found.doc_label = cells.doc_label(cells.lookup(row, column), column, names)
        return {name: value for name, value in row.items() if name != column}

    def _check_not_file(self, row: Cells) -> None:
        """Raise if a row is a whole file of another format."""
        for column, source in (shape.in_file for shape in self.shapes):
            if column and isinstance(row.get(column), list) and "text" not in row:
                raise SourceError(
                    f"expected one document per row, got an object with a list of {column}; "
                    f"source '{source}' reads such files"
                )

    def _check_unread_columns(self, row: Cells, shape: Shape) -> None:
        """Raise if a row without mentions has an unread column that looks like mentions."""
        option = self.options.mentions_column
        read = shape.read_columns
        if option != "auto" and cells.lookup(row, option) is None:
            read = read - {*MENTIONS}
        skipped = {*read, *shape.ignored, *self.options.ignored_columns, option.split(".")[0]}
        for column, value in row.items():
            if column in skipped or not look_like_mentions(value):
                continue
            name = self.quote(column)
            raise SourceError(
                f"expected mentions in one of the columns {', '.join(MENTIONS)}, got "
                f"column {name}, which looks like mentions and is not read; set [source] "
                f"mentions_column = {name}, or ignored_columns = [{name}] if it has no mentions"
            )

    # Values --------------------------------------------------------------------------------------

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
                f"expected names or integers in column {self.quote(column)}, got another value"
            )
        names = self.names.get(column) or self.options.tag_names or self.names_beside
        if not names:
            raise SourceError(
                f"expected names in column {self.quote(column)}, got integers without names; set "
                'their names in order with [source] tag_names = ["O", "B-X", "I-X", ...], or with '
                '["O", "X", ...] if neighbours with the same number are one mention'
            )
        if not 0 <= value < len(names):
            raise RecordError(
                Reason(
                    f"expected integers from 0 to {len(names) - 1} in column "
                    f"{self.quote(column)}, got {value}",
                    code="beyond the names of tags",
                    advice={"tag_names": "set the names of tags with source.tag_names"},
                )
            )
        return names[value]

    def quote(self, column: str) -> str:
        """Quote the name of a column for a message, or hide it if it may be corpus text."""
        options = (self.options.text_column, self.options.mentions_column)
        counts, total = self._keys[""]
        may_show = column in (*self._read_columns, *options) or 2 * counts[column] > total
        return cells.quote_column(column) if may_show else "of an unusual name"

    def may_show(self, key: str, column: str = "") -> bool:
        """Return whether a key may appear in a message, because most objects in a column have it.

        A single object shows nothing: it may be `{word: label}`.
        """
        counts, total = self._keys.get(column, (Counter(), 0))
        is_usual = key in self._read_columns or counts[key] > max(1, total / 2)
        return is_usual and cells.can_be_shown(key)

    def show_keys(self, keys: Collection[str], column: str = "", *, noun: str = "key") -> str:
        """List keys for a message. Keys that most objects lack may be words of a text.

        Args:
            keys: The keys.
            column: Column of the objects. Default: "", the keys are columns.
            noun: Noun for a key.

        Returns:
            The keys that most objects have, or else their number.
        """
        shown = [str(key) for key in keys if self.may_show(str(key), column)]
        if not shown:
            return f"{len(keys)} {noun}(s) that are not shown, as few rows have them"
        others = f" and {len(keys) - len(shown)} other(s)" if len(shown) < len(keys) else ""
        return f"the {noun}s {', '.join(shown[:_MOST_NAMES])}{others}"


def objects_within(value: object, *, depth: int = _DEEPEST) -> Iterator[Cells]:
    """Yield the objects within a value, down to some depth."""
    if depth == 0:
        return
    value = cells.parse_json_text(value)
    if isinstance(value, Mapping):
        yield value
        value = [*value.values()]
    if isinstance(value, list):
        for inner in value:
            yield from objects_within(inner, depth=depth - 1)


def _cuts_a_word(text: str, end: int) -> bool:
    return 0 < end < len(text) and text[end - 1].isalnum() and text[end].isalnum()
