"""JSON lines: one object a line, each a document; see `shapes` for what an object may look like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source.reading.inputs import SingleFile, by_split, lines, read_bytes
from mslm_data.source.reading.records import at_lines, opened, stem
from mslm_data.source.reading.shapes import RowReader
from mslm_data.source.reading.standoff import Discontinuous

SUFFIXES = (".jsonl", ".ndjson", ".json")
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True, kw_only=True)
class JsonLines(SingleFile):
    """Files of one JSON object a line, or `.json` files that are one array of objects.

    A document without an id of its own is called `{file}:{number}` with its number in the file from 0, blank lines
    not counted. A line that is no JSON, or no document, is set aside.

    Attributes:
        tag_names: Names of integer tags (`O`, `B-X` …) or labels, in the order of the integers.
        id_column: Column of the id, "auto" for the first there is of `shapes.IDS`, "" to number documents.
        untyped: Label of tags without a type.
        discontinuous: What becomes of a mention in several pieces.
        splits: Split -> patterns of file names, see `inputs.by_split`.
    """

    tag_names: tuple[str, ...] = ()
    id_column: str = "auto"
    untyped: str = "Entity"
    discontinuous: Discontinuous = "hull"
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        """Return split -> files; see `Source.find`."""
        return by_split(inputs, suffixes=SUFFIXES, splits=self.splits)

    def cut(self, path: Path, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file between lines; an array is one part; see `Source.cut`."""
        if _is_array(path):
            yield Part(str(path))
        else:
            yield from at_lines(path, target_bytes=target_bytes, begins=_begins)

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Give each row; see `Source.read`."""
        path = Path(part.path)
        reader = RowReader(
            names={"": self.tag_names} if self.tag_names else {},
            id_column=self.id_column,
            untyped=self.untyped,
            discontinuous=self.discontinuous,
        )
        data = read_bytes(path, part.start, part.stop)
        texts = _elements(data, path.name) if _is_array(path) else _rows(data, part.line)
        for number, text in enumerate(texts, start=part.first):
            place, numbered = f"{path.name}:{text.line}", f"{stem(path)}:{number}"
            try:
                row = msgspec.json.decode(text.data)
            except _DECODE_ERRORS as error:
                yield SetAside(numbered, place, f"expected a JSON object, got {_problem(error)}")
                continue
            yield reader.document(row, numbered=numbered, place=place)


def _begins(_: bytes, line: bytes) -> bool:
    return bool(line)


class _Text(NamedTuple):
    """A row's JSON and the line it begins at."""

    line: int
    data: bytes


def _rows(data: bytes, first: int) -> Iterator[_Text]:
    return (_Text(line.number, line.data) for line in lines(data, first=first) if line.data.strip())


def _elements(data: bytes, name: str) -> Iterator[_Text]:
    """Give the elements of an array; each is a verbatim piece of `data`, so that its line can be found."""
    try:
        elements = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=list[msgspec.Raw])
    except _DECODE_ERRORS as error:
        raise SourceError(
            f"{name}:1: expected one JSON array, got {_problem(error)}; is the file whole?"
        ) from None
    line, position = 1, 0
    for element in elements:
        text = bytes(element)
        start = data.index(text, position)
        line += data.count(b"\n", position, start)
        yield _Text(line, text)
        line += text.count(b"\n")
        position = start + len(text)


def _problem(error: Exception) -> str:
    """Name what is wrong with some JSON; msgspec's messages hold positions and no text, the others may."""
    if isinstance(error, msgspec.DecodeError):
        return f"'{error}'"
    return "invalid UTF-8" if isinstance(error, UnicodeDecodeError) else "too many levels"


def _is_array(path: Path) -> bool:
    """Say whether a `.json` file begins with a bracket."""
    if not path.name.removesuffix(".gz").endswith(".json"):
        return False
    with opened(path) as file:
        head = file.read(1024).removeprefix(b"\xef\xbb\xbf").lstrip()
    return head.startswith(b"[")
