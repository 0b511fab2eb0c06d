"""Opens input files as bytes, and reads parts of them."""

from __future__ import annotations

import gzip
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, cast, overload

import numpy as np
import numpy.typing as npt

from mslm_data.errors import SourceError
from mslm_data.io import limits

IdFrom = Literal["file", "folder"]
"""Origin of a document's id: the name of its file, or of the folder that contains the file."""

HEAD_BYTES = 64 << 10
"""Number of bytes at a file's beginning that identify its format."""
_CHUNK = 1 << 20
_AT_ONCE = 16 << 20


class NumberedLine(NamedTuple):
    """A line of a file.

    Attributes:
        number: Line number, from 1.
        data: Bytes without the line end.
    """

    number: int
    data: bytes


class LinesOfFile(Sequence[str]):
    """A sequence of names `file:line`, formatted on access, as few are ever needed."""

    def __init__(self, name: str, lines: npt.NDArray[np.integer[Any]]) -> None:
        """Keep the name of the file and its line numbers, `[N]`."""
        self._name = name
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> LinesOfFile: ...
    def __getitem__(self, number: int | slice) -> str | LinesOfFile:
        """Return `file:line`, or a slice of these names."""
        if isinstance(number, slice):
            return LinesOfFile(self._name, self._lines[number])
        return f"{self._name}:{self._lines[number]}"


_DOCUMENTS = {
    b"%PDF-": ("a PDF document", "pdftotext"),
    b"PK\x03\x04": ("a zipped document, such as .docx or .odt", "pandoc --to plain"),
    b"\xd0\xcf\x11\xe0": ("an old Office document", "libreoffice --convert-to txt"),
    b"{\\rtf": ("an RTF document", "pandoc --to plain"),
}
"""First bytes of documents that are no text: what they are, and a program that converts them."""


def name_document(head: bytes) -> str:
    """Return what a file is if it is a document of another program, with the way out, or "".

    Args:
        head: First bytes of the file.
    """
    for mark, (what, program) in _DOCUMENTS.items():
        if head.startswith(mark):
            return f"{what}; convert it to text first, as with `{program}`"
    return ""


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading bytes. A `.gz` file is unpacked while it is read.

    Raises:
        SourceError: The file is missing, unreadable or truncated. Reads within the block raise it
            too.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield cast(BinaryIO, file)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise SourceError(f"{path.name}: cannot be read ({reason}); is the file whole?") from None


def read_head(path: Path) -> bytes:
    """Return the first 64 KiB of a file, unpacked; `b""` if it cannot be read."""
    try:
        with opened(path) as file:
            return file.read(HEAD_BYTES)
    except SourceError:
        return b""


def read_bytes(path: Path, start: int = 0, stop: int = -1) -> bytes:
    """Read bytes `[start, stop)` of a file, counted after unpacking; -1 is the end of the file.

    Raises:
        SourceError: As for `opened`, or the range is larger than `limits.LARGEST`; or the file is
            a document of another program, such as a PDF.
    """
    # Ask for one byte more than allowed, to notice a larger range.
    max_bytes = limits.LARGEST
    num_bytes = max_bytes + 1 if stop < 0 else min(stop - start, max_bytes + 1)
    with opened(path) as file:
        file.seek(start)
        data = _read_up_to(file, num_bytes)
    if len(data) > max_bytes:
        raise SourceError(f"{path.name}: {limits.TOO_LARGE}")
    if start == 0 and (document := name_document(data)):
        raise SourceError(f"{path.name}: expected text, got {document}")
    return data


def _read_up_to(file: BinaryIO, size: int) -> bytes:
    """Read `size` bytes, or fewer at the end of the file, without allocating `size` in advance."""
    pieces = []
    while size > 0 and (piece := file.read(min(size, _AT_ONCE))):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def has_cr_lines(data: bytes) -> bool:
    """Return whether lines end in CR alone, judged by a file or its beginning."""
    return b"\r" in data and b"\n" not in data


def plain_lines(data: bytes, *, first: int) -> bytes:
    """Remove a file's byte order mark, and convert line ends of CR alone to LF.

    Args:
        data: Whole lines.
        first: Line number of the first line. Lines are converted only if it is 1: other parts of a
            file begin after an LF, so the file has LF.
    """
    if first != 1:
        return data
    data = data.removeprefix(BOM_UTF8)
    return data.replace(b"\r", b"\n") if has_cr_lines(data) else data


def lines(data: bytes, *, first: int = 1) -> Iterator[NumberedLine]:
    r"""Split bytes into lines at LF or CRLF, or at CR in a file without LF.

    Other Unicode line breaks (such as U+2028) may occur within a text, so they do not end a line.

    Args:
        data: Whole lines.
        first: Line number of the first line. If it is 1, a leading byte order mark is removed.
    """
    data = plain_lines(data, first=first)
    number = first
    start = 0
    while start < len(data):
        # Split in chunks: a list of all lines may take far more memory than the file.
        stop = data.find(b"\n", start + _CHUNK) + 1 or len(data)
        pieces = data[start:stop].split(b"\n")
        if not pieces[-1]:
            pieces.pop()
        for piece in pieces:
            yield NumberedLine(number, piece.removesuffix(b"\r"))
            number += 1
        start = stop


def stem(path: Path) -> str:
    """Return a file's name without `.gz` and its last suffix: `a/train.jsonl.gz` -> `train`."""
    return Path(path.stem).stem if path.suffix == ".gz" else path.stem


def ends_with(path: Path, suffixes: str | Iterable[str]) -> bool:
    """Return whether a file's name, without `.gz`, ends with one of some suffixes."""
    endings = suffixes if isinstance(suffixes, str) else tuple(suffixes)
    return path.name.removesuffix(".gz").endswith(endings)


def ending(path: Path) -> str:
    """Return a file's suffix without `.gz`, such as `.txt`, or the whole name if it has none."""
    plain = Path(path.name.removesuffix(".gz"))
    return plain.suffix or plain.name


def packed_or_plain(path: Path) -> Path | None:
    """Return a file if it exists, else the same name with `.gz`, else None."""
    for candidate in (path, path.with_name(f"{path.name}.gz")):
        if candidate.is_file():
            return candidate
    return None


def document_id(path: Path, id_from: IdFrom) -> str:
    """Return the id of a document that is a whole file."""
    return stem(path) if id_from == "file" else folder_name(path)


def folder_name(path: Path) -> str:
    """Return the name of the folder that contains a file, resolving `..`."""
    folder = path.absolute().parent
    return folder.resolve().name if folder.name == ".." else folder.name
