"""Converts text files of any encoding to UTF-8, the only encoding that readers handle.

A source of text files derives from `TextSource` and reads bytes with its methods.

The encoding is an option or shown by the first bytes of a file, and never guessed: Latin-1 decodes
nearly anything.
"""

from __future__ import annotations

import codecs
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, cast

from msgspec import Meta

from mslm_data.data.document import Part
from mslm_data.source import Source
from mslm_data.source.reading.files import has_cr_lines, opened, read_bytes

Encoding = Literal[
    "utf-8",
    "utf-16",
    "utf-16-le",
    "utf-16-be",
    "utf-32",
    "ascii",
    "latin-1",
    "latin1",
    "iso-8859-1",
    "iso-8859-2",
    "iso-8859-3",
    "iso-8859-4",
    "iso-8859-5",
    "iso-8859-6",
    "iso-8859-7",
    "iso-8859-8",
    "iso-8859-9",
    "iso-8859-10",
    "iso-8859-13",
    "iso-8859-14",
    "iso-8859-15",
    "iso-8859-16",
    "windows-1250",
    "windows-1251",
    "windows-1252",
    "windows-1253",
    "windows-1254",
    "windows-1255",
    "windows-1256",
    "windows-1257",
    "windows-1258",
    "cp1252",
    "cp437",
    "cp850",
    "mac-roman",
    "koi8-r",
    "koi8-u",
    "tis-620",
    "euc-jp",
    "euc-kr",
    "shift-jis",
    "big5",
    "gbk",
    "gb18030",
]
"""Supported encodings. Python has others, including codecs that unpack archives and codecs that
take quadratic time."""

_NOT_ASCII = frozenset(
    {"utf-16", "utf-16-le", "utf-16-be", "utf-32", "shift-jis", "big5", "gbk", "gb18030"}
)
"""Encodings in which an ASCII byte may be part of another character."""

_MARKS: tuple[tuple[bytes, Encoding], ...] = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins with the mark of UTF-16, so it must come first
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LONGEST_MARK = 4
_CHUNK = 1 << 20

DAMAGED = "mslm_data.damaged"
"""Error handler for decoding: replaces invalid bytes by `DAMAGED_LETTER`."""
DAMAGED_LETTER = "\udcff"
"""A lone surrogate. It occurs in no text and is not valid in UTF-8, so its record is set aside."""


def _as_surrogate(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return DAMAGED_LETTER, error.end


codecs.register_error(DAMAGED, _as_surrogate)


EncodingOption = Annotated[
    Encoding,
    Meta(
        description="Encoding of the files. With the default, files that begin with the byte "
        "order mark of UTF-16 or UTF-32 are read in that encoding. Files in UTF-16, UTF-32, "
        "Shift-JIS, Big5, GBK and GB18030 are read in one part."
    ),
]


class TextReading:
    """Reads text files with the option `encoding` of a source."""

    __slots__ = ()

    encoding: Encoding

    def utf8(self, path: Path, start: int = 0, stop: int = -1) -> bytes:
        """Read bytes `[start, stop)` of a file as UTF-8; -1 is the end of the file.

        Bytes that are invalid in the file's encoding become bytes that are invalid in UTF-8.

        Raises:
            SourceError: As for `files.read_bytes`.
        """
        # Only the first bytes of a file can have a byte order mark.
        data = read_bytes(path, start, stop)
        encoding = marked(data, self.encoding) if start == 0 else self.encoding
        return to_utf8(data, encoding)

    def beginning(self, path: Path, size: int) -> bytes:
        """Read the whole lines in the first `size` bytes of a file, as UTF-8.

        If the file is shorter than `size`, its last line is included.

        Raises:
            SourceError: As for `files.read_bytes`.
        """
        raw = read_bytes(path, 0, size)
        data = to_utf8(raw, marked(raw, self.encoding))
        if len(raw) == size:
            # A CR at the very end may be the first half of CRLF.
            end = b"\r" if has_cr_lines(data.removesuffix(b"\r")) else b"\n"
            data = data[: data.rfind(end) + 1]
        return data

    def may_be_cut(self, part: Part, *, target_bytes: int) -> bool:
        """Return whether a part is longer than `target_bytes`, and can be cut between lines.

        Reading a part of a compressed file would mean unpacking everything before it.
        """
        path = Path(part.path)
        if path.suffix == ".gz":
            return False
        try:
            stop = path.stat().st_size if part.stop < 0 else part.stop
        except OSError:  # `read` reports it
            return False
        return stop - part.start > target_bytes and not self.is_one_part(path)

    def is_one_part(self, path: Path) -> bool:
        """Return whether bytes of a line end may belong to another character of a file."""
        return detect_encoding(path, self.encoding) in _NOT_ASCII


class TextSource(TextReading, Source, frozen=True, kw_only=True):
    """Base class of sources of text files."""

    encoding: EncodingOption = "utf-8"


def detect_encoding(path: Path, encoding: Encoding) -> Encoding:
    """Return `encoding`, or that of the byte order mark if `encoding` is UTF-8.

    Raises:
        SourceError: As for `files.opened`.
    """
    if encoding != "utf-8":
        return encoding
    with opened(path) as file:
        return marked(file.read(_LONGEST_MARK), encoding)


def marked(data: bytes, encoding: Encoding) -> Encoding:
    """Return the encoding of the byte order mark at a file's beginning, else `encoding`."""
    if encoding == "utf-8":
        for mark, marked_encoding in _MARKS:
            if data.startswith(mark):
                return marked_encoding
    return encoding


def to_utf8(data: bytes, encoding: Encoding) -> bytes:
    """Convert text to UTF-8.

    Invalid bytes become bytes that are invalid in UTF-8, so that only their record is set aside.
    """
    if encoding == "utf-8" or (data.isascii() and encoding not in _NOT_ASCII):
        return data
    return data.decode(encoding, DAMAGED).encode("utf-8", "surrogatepass")


@contextmanager
def opened_utf8(path: Path, encoding: Encoding) -> Iterator[BinaryIO]:
    """Open a file of any encoding and size for reading as UTF-8 with LF line ends.

    The file supports only `read` and `seek`; positions count bytes of UTF-8. CR alone is converted
    to LF if the first chunk of the file has no LF.

    Raises:
        SourceError: As for `files.opened`.
    """
    with opened(path) as file:
        yield cast(BinaryIO, _Recoding(file, detect_encoding(path, encoding)))


class _Recoding:
    """A file in another encoding, converted to UTF-8 while it is read."""

    def __init__(self, file: BinaryIO, encoding: Encoding) -> None:
        self._file = file
        self._encoding = encoding
        self._restart()

    def _restart(self) -> None:
        self._pieces = _recoded(self._file, self._encoding)
        self._data = b""  # converted, not yet read
        self._position = 0

    def read(self, size: int = -1) -> bytes:
        """Read as any file does."""
        while size < 0 or len(self._data) < size:
            piece = next(self._pieces, b"")
            if not piece:
                break
            self._data += piece
        stop = len(self._data) if size < 0 else size
        piece = self._data[:stop]
        self._data = self._data[stop:]
        self._position += len(piece)
        return piece

    def seek(self, position: int) -> None:
        """Move to a byte position, by reading up to it."""
        # A decoder cannot go back, so start again.
        if position < self._position:
            self._restart()
        while self._position < position and self.read(min(_CHUNK, position - self._position)):
            pass


def _recoded(file: BinaryIO, encoding: Encoding) -> Iterator[bytes]:
    """Yield a file in pieces of UTF-8, with CR converted to LF if the first piece has no LF."""
    file.seek(0)
    raw = iter(functools.partial(file.read, _CHUNK), b"")
    ends_in_cr: bool | None = None
    for text in codecs.iterdecode(raw, encoding, DAMAGED):
        data = text.encode("utf-8", "surrogatepass")
        if ends_in_cr is None:
            ends_in_cr = has_cr_lines(data)
        yield data.replace(b"\r", b"\n") if ends_in_cr else data
