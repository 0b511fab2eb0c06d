"""Reads JSON lines, a document each; `reading.shapes` has the shapes that are known."""

from __future__ import annotations

import itertools
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source import Source
from mslm_data.source.reading.encodings import TextOptions
from mslm_data.source.reading.files import NumberedLine, lines, stem
from mslm_data.source.reading.records import RecordError, cut_filled_lines, decode_utf8
from mslm_data.source.reading.shapes import RowReader
from mslm_data.source.reading.standoff import OffsetOptions

_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_BEGINNING_BYTES = 1 << 20
_BEGINNING_ROWS = 1000
_FIRST_BYTES = 1024


@dataclass(frozen=True, kw_only=True)
class JsonLines(OffsetOptions, TextOptions, Source):
    """Files of one JSON object a line, and `.json` files that are one array of objects.

    A document without an id of its own is called `{file}:{number}`, with its number in the file
    from 0; blank lines do not count. A line that is not JSON, or not a document, is set aside.

    Attributes:
        tag_names: Names of integer tags (`O`, `B-X` …) or labels, in the order of the integers.
        id_column: Column of the id, "auto" for the first of `shapes.IDS` that a row has, "" to
            number documents.
        untyped: Label of tags without a type.
    """

    suffixes = (".jsonl", ".ndjson", ".json")

    tag_names: tuple[str, ...] = ()
    id_column: str = "auto"
    untyped: str = "Entity"

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file between lines; an array is one part. See `Source.cut`."""
        path = Path(part.path)
        if self._is_array(path) or self.is_one_part(path):
            yield part
        else:
            yield from cut_filled_lines(part, target_bytes=target_bytes)

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Read each row; see `Source.read`."""
        path = Path(part.path)
        name = path.name
        of_file = stem(path)
        reader = RowReader(
            names={"": self.tag_names} if self.tag_names else {},
            id_column=self.id_column,
            untyped=self.untyped,
            placing=self,
            beginning=lambda: self._beginning(path),
        )
        for number, text in enumerate(self._texts(part), start=part.first):
            place = f"{name}:{text.number}"
            numbered = f"{of_file}:{number}"
            try:
                row = msgspec.json.decode(text.data)
            except _DECODE_ERRORS as error:
                yield SetAside(numbered, place, _refusal(text.data, error))
                continue
            yield reader.document(row, numbered=numbered, place=place)

    def _texts(self, part: Part) -> Iterator[NumberedLine]:
        """Give the JSON of each row of a part, with the line that it begins at."""
        path = Path(part.path)
        data = self.utf8(path, part.start, part.stop)
        if self._is_array(path):
            return _elements(data, path.name)
        return (line for line in lines(data, first=part.line) if line.data.strip())

    def _beginning(self, path: Path) -> Iterator[object]:
        """Give the first rows of a file that are JSON."""
        part = Part(str(path))
        if not self._is_array(path):
            part = part._replace(stop=_BEGINNING_BYTES)
        for text in itertools.islice(self._texts(part), _BEGINNING_ROWS):
            try:
                yield msgspec.json.decode(text.data)
            except _DECODE_ERRORS:
                continue

    def _is_array(self, path: Path) -> bool:
        """Return whether a `.json` file begins with a bracket."""
        if not path.name.removesuffix(".gz").endswith(".json"):
            return False
        beginning = self.utf8(path, 0, _FIRST_BYTES)
        return beginning.removeprefix(BOM_UTF8).lstrip().startswith(b"[")


def _elements(data: bytes, name: str) -> Iterator[NumberedLine]:
    """Give the elements of an array, with the line that each begins at.

    Raises:
        SourceError: It is not one JSON array.
    """
    try:
        elements = msgspec.json.decode(data.removeprefix(BOM_UTF8), type=list[msgspec.Raw])
    except _DECODE_ERRORS as error:
        raise SourceError(
            f"{name}:1: expected one JSON array, got {_in_words(error)}; is the file whole?"
        ) from None

    # Each element is a verbatim piece of `data`: it is found after the end of the last one.
    line = 1
    position = 0
    for element in elements:
        text = bytes(element)
        start = data.index(text, position)
        line += data.count(b"\n", position, start)
        yield NumberedLine(line, text)
        line += text.count(b"\n")
        position = start + len(text)


def _refusal(data: bytes, error: Exception) -> str:
    """Return why a row that is not JSON is set aside."""
    try:
        decode_utf8(data)
    except RecordError as not_text:
        return str(not_text)
    return f"expected a JSON object, got {_in_words(error)}"


def _in_words(error: Exception) -> str:
    """Return what is wrong with some JSON.

    msgspec's messages hold positions and no text; those of other errors might hold text.
    """
    if isinstance(error, msgspec.DecodeError):
        return f"'{error}'"
    return "invalid UTF-8" if isinstance(error, UnicodeDecodeError) else "too many levels"
