"""Reads plain text without mentions: files, lines or blocks of lines, and text columns.

A file is one document by default, since lines would cut wrapped prose. `auto` never chooses plain
text, because any file of lines is plain text.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.data.documents import Documents, Mentions, Ranges
from mslm_data.data.reason import Reason
from mslm_data.kernels.lines import NEWLINE
from mslm_data.source.form import (
    ArrowRows,
    Blocks,
    Container,
    FilledLines,
    Findings,
    FormSource,
    JsonRows,
    Record,
    TableRows,
    WholeFile,
    by_suffix,
)
from mslm_data.source.reading import arrow_rows, cells
from mslm_data.source.reading.csv_records import Quotes
from mslm_data.source.reading.encodings import TextSource
from mslm_data.source.reading.files import LinesOfFile, ends_with, plain_lines, stem
from mslm_data.source.reading.records import NOT_UTF8, RecordError, check_id_column
from mslm_data.source.reading.tables import TableReader

Ints = npt.NDArray[np.int64]

_LONGEST = 64 << 20
"""Maximum size in bytes of a file that is one document."""
_DAMAGED = "?"
"""Replaces a line that is not valid UTF-8."""


def _table(options: PlainText, path: Path) -> TableReader:
    is_csv = ends_with(path, ".csv")
    return TableReader(
        columns={column: column for column in options.columns},
        keys=(),
        separator="" if is_csv else "\t",
        text=options,
        quotes=True if options.quotes == "auto" and is_csv else options.quotes,
    )


_ARROW = (".parquet", ".arrow")
_ROWS: Mapping[tuple[str, ...], Container[Any]] = {
    (".csv", ".tsv"): TableRows(_table),
    (".jsonl", ".ndjson"): JsonRows(),
    _ARROW: ArrowRows(lambda options, _: options.columns),
}
"""Suffixes of files with rows -> their container."""
_LINES: Mapping[str, Container[Any]] = {
    "file": WholeFile(),
    "line": FilledLines(),
    "block": Blocks(),
}
"""Unit of documents -> container that cuts a file of lines between them."""


class PlainText(FormSource, TextSource, frozen=True, kw_only=True):
    """Texts without mentions, for adaptation, or for annotators to find mentions in.

    A file of lines (`.txt`, or any other file given directly) is one document, or has one document
    per line or per block between blank lines. CRLF is read as LF. Blank lines around a document do
    not belong to it. `.csv`, `.tsv`, `.jsonl`, `.parquet` and `.arrow` have one document per row,
    in one column. Lines and rows without text are set aside; blank lines are skipped. The header
    shows whether columns of `.csv` are separated by `,`, `;`, TAB or `|`. Values in `.csv` may be
    in quotes; for `.tsv`, the first rows or `quotes` decide.

    Documents are called `file:number`, unless they are whole files, which have the file's name, or
    rows with an id.

    The text is not assumed to be patients'. If it is, set `about.protected = true`.
    """

    suffixes = (".txt", ".text", *itertools.chain.from_iterable(_ROWS))
    container = by_suffix(_ROWS, lambda options: _LINES[options.documents])
    without_mentions: ClassVar[bool] = True
    segmenter: ClassVar[str] = "clinical"

    documents: Annotated[
        Literal["file", "line", "block"], Meta(description="Unit of a document in files of lines.")
    ] = "file"
    text_column: Annotated[
        str, Meta(min_length=1, description="Column of the text in tables and JSON lines.")
    ] = "text"
    id_column: Annotated[
        str, Meta(description='Column of the id. Default: "", rows are numbered.')
    ] = ""
    doc_label: Annotated[
        str,
        Meta(
            description='Column of the document\'s label, text or an integer. Default: "", no '
            "label."
        ),
    ] = ""

    quotes: Annotated[
        Quotes,
        Meta(
            description='Whether values in `.csv` and `.tsv` may be in quotes. "auto": yes in '
            "`.csv`; in `.tsv` the first rows show it, and if they do not, the build stops."
        ),
    ] = "auto"

    def __post_init__(self) -> None:
        if self.doc_label == self.text_column:
            raise ValueError(
                f"expected doc_label to differ from text_column, got '{self.doc_label}' for both"
            )
        check_id_column(self.id_column, (self.text_column,))

    @property
    def columns(self) -> Sequence[str]:
        """Columns of the text, the id and the label, if they have one."""
        return tuple(filter(None, (self.text_column, self.id_column, self.doc_label)))

    def is_lines(self, path: Path) -> bool:
        """Return whether a file has lines, and is neither a table nor JSON lines."""
        return not ends_with(path, itertools.chain.from_iterable(_ROWS))

    def read(self, part: Part) -> Iterator[Document | SetAside | NotChosen]:
        """Read each document; see `Source.read`."""
        if not self.is_lines(Path(part.path)):
            yield from super().read(part)
            return
        for record in self._batches_of_lines(part):
            if isinstance(record, Documents):
                yield from record
            else:
                yield record

    def batches(self, part: Part) -> Iterator[Document | Documents | SetAside | NotChosen]:
        """Read the documents of a part. A file of lines gives one batch."""
        if self.is_lines(Path(part.path)):
            return self._batches_of_lines(part)
        return super().batches(part)

    def for_file(self, path: Path) -> Callable[[Record, Findings], None]:
        """Read rows with the names that an Arrow file has for labels; see `FormSource.for_file`."""
        if not self.doc_label or not ends_with(path, _ARROW):
            return self.understand
        names = arrow_rows.class_names(arrow_rows.schema(path)).get(self.doc_label, ())
        return functools.partial(self.understand, names=names)

    def understand(self, record: Record, found: Findings, names: Sequence[str] = ()) -> None:
        """Read a row, with names for integer labels."""
        row = record.content
        if not isinstance(row, Mapping):
            raise RecordError("expected a JSON object, got another line")
        found.id = cells.document_id(row.get(self.id_column)) or record.id
        text = row.get(self.text_column)
        if not isinstance(text, str) or not text:
            raise RecordError(
                f"expected text in column '{self.text_column}', got none, or a value that is not "
                "text; set [source] text_column"
            )
        found.text = text
        found.doc_label = cells.doc_label(row.get(self.doc_label), self.doc_label, names)

    def _batches_of_lines(self, part: Part) -> Iterator[Document | Documents | SetAside]:
        path = Path(part.path)
        data = self.utf8(path, part.start, part.stop)
        if self.documents == "file" and len(data) > _LONGEST:
            yield SetAside(
                stem(path),
                f"{path.name}:1",
                Reason(
                    f"expected a document of at most {_LONGEST} bytes, got {len(data)}; set "
                    '[source] documents = "line" or "block"',
                    code="longest document",
                ),
            )
            return
        laid = _laid(data, first=part.line)
        if self.documents == "file":
            yield _whole(laid, path)
        else:
            yield from self._documents(laid, part)

    def _documents(self, laid: _Lines, part: Part) -> Iterator[Documents | SetAside]:
        """Make one batch of the documents in some lines, after the documents set aside."""
        path = Path(part.path)
        first, last = self._bounds(laid.is_filled)
        places = LinesOfFile(path.name, part.line + first)
        numbers = np.arange(part.first, part.first + len(first))
        ids = LinesOfFile(stem(path), numbers)
        documents = Documents(
            ids=ids,
            places=places,
            line=laid.text,
            starts=laid.starts[first],
            ends=laid.ends[last],
            mentions=Mentions(
                offsets=np.zeros(len(first) + 1, np.int64),
                starts=np.empty(0, np.int64),
                ends=np.empty(0, np.int64),
                labels=np.empty(0, np.int64),
                names=(),
            ),
            sentences=Ranges.none(len(first)),
            words=Ranges.none(len(first)),
            has_words=np.zeros(len(first), np.bool_),
            placeholders=Ranges.none(len(first)),
            unplaced={},
            adjusted={},
        )

        # Find the first damaged line of each document. Damaged lines lie within documents, so the
        # document of a line is the first one that ends at or after it.
        at = np.searchsorted(last, laid.damaged)
        damaged, nth = np.unique(at, return_index=True)
        for number, line in zip(damaged.tolist(), laid.damaged[nth].tolist(), strict=True):
            yield SetAside(ids[number], f"{path.name}:{part.line + line}", NOT_UTF8)
        yield documents.take(np.setdiff1d(np.arange(len(first)), damaged))

    def _bounds(self, is_filled: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """Return the first and the last line of each document, int64 `[D]` each."""
        filled = np.flatnonzero(is_filled)
        # A document of a line, or of a run of filled lines.
        if self.documents == "line" or not len(filled):
            return filled, filled
        goes_on = np.diff(filled) == 1
        is_first = np.append(True, ~goes_on)
        is_last = np.append(~goes_on, True)
        return filled[is_first], filled[is_last]


class _Lines(NamedTuple):
    """N lines of text.

    Attributes:
        text: The lines, each followed by LF.
        starts: int64 `[N]`, first character of each line.
        ends: int64 `[N]`, position of each line's LF.
        is_filled: bool `[N]`, whether the line has more than blanks.
        damaged: int64, ascending indices of lines that were not valid UTF-8.
    """

    text: str
    starts: Ints
    ends: Ints
    is_filled: npt.NDArray[np.bool_]
    damaged: Ints


def _whole(laid: _Lines, path: Path) -> Document | SetAside:
    """Make one document of all lines of a file, from the first filled one to the last."""
    filled = np.flatnonzero(laid.is_filled).tolist()
    if not filled:
        return SetAside(stem(path), f"{path.name}:1", Reason("expected text, got an empty file"))
    if len(laid.damaged):
        return SetAside(stem(path), f"{path.name}:{1 + int(laid.damaged[0])}", NOT_UTF8)

    text = laid.text[int(laid.starts[filled[0]]) : int(laid.ends[filled[-1]])]
    return Document(id=stem(path), text=text, place=f"{path.name}:{1 + filled[0]}")


def _laid(data: bytes, *, first: int) -> _Lines:
    """Find the lines of UTF-8 bytes; `first` is the line number of the first line."""
    data = plain_lines(data, first=first).replace(b"\r\n", b"\n")
    if data and not data.endswith(b"\n"):
        data = data.removesuffix(b"\r") + b"\n"
    data, damaged = _mended(data)

    # Positions in bytes first. uint8 wraps around, so one comparison tests for TAB to CR.
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets == NEWLINE)
    starts = np.append(0, ends + 1)[:-1]
    is_blank = (octets == ord(" ")) | (octets - ord("\t") <= ord("\r") - ord("\t"))
    is_filled = ~np.logical_and.reduceat(is_blank, starts) if len(starts) else np.empty(0, np.bool_)

    text = data.decode()
    if len(text) < len(data):
        # Convert positions to characters: continuation bytes (10xxxxxx) do not count.
        goes_on = (octets & 0xC0) == 0x80
        num_continuing = np.add.reduceat(goes_on.view(np.uint8), starts, dtype=np.int64)
        before = np.cumsum(num_continuing)
        starts = starts - before + num_continuing
        ends = ends - before
    return _Lines(text, starts, ends, is_filled, damaged)


def _mended(data: bytes) -> tuple[bytes, Ints]:
    """Replace lines that are not valid UTF-8, and return their indices."""
    try:
        data.isascii() or data.decode()
    except UnicodeDecodeError:
        pieces = data.split(b"\n")
        damaged = [number for number, piece in enumerate(pieces) if not _is_text(piece)]
        for number in damaged:
            pieces[number] = _DAMAGED.encode()
        return b"\n".join(pieces), np.array(damaged, np.int64)
    return data, np.empty(0, np.int64)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
