"""Reads elements of XML files one by one, without loading the file.

The parser is expat. Entities other than XML's own five are rejected: they can expand without bound,
fetch other files, or leave gaps in the text.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from mslm_data.io import limits
from mslm_data.source.reading.files import opened
from mslm_data.source.reading.records import RecordError

_CHUNK = 1 << 18
_LONGEST_DEFAULT = 100


def elements(path: Path, *names: str) -> Iterator[tuple[int, Element]]:
    """Yield each element with one of some names when it is complete, with the line of its start.

    An element within another of these names is part of it. A document type is accepted, but never
    fetched.

    Raises:
        RecordError: The file is not well-formed, uses entities, has an unknown encoding, or has an
            element larger than `limits.LARGEST_RECORD`. Elements before the error have been
            yielded.
        SourceError: The file cannot be read.
    """
    yield from _collected(path, _Collector(names))


def children(path: Path) -> Iterator[tuple[int, Element]]:
    """Yield each child of a file's root; see `elements`.

    Names of elements and attributes follow their namespace and a space, if they have one.

    Raises:
        RecordError: As for `elements`.
        SourceError: The file cannot be read.
    """
    yield from _collected(path, _Collector(None))


def _collected(path: Path, collector: _Collector) -> Iterator[tuple[int, Element]]:
    for chunk in _chunks(path):
        reason = collector.parse(chunk)
        yield from collector.done
        collector.done.clear()
        if reason:
            raise RecordError(reason, line=collector.line)


def _chunks(path: Path) -> Iterator[bytes]:
    """Yield a file's bytes, then `b""` at its end."""
    with opened(path) as file:
        while chunk := file.read(_CHUNK):
            yield chunk
    yield b""


class _EntityError(Exception):
    """A file declares or uses an entity, or another construct that expands without bound."""


class _Collector:
    """Builds the trees of the wanted elements only.

    Wanted are all elements with one of `names` or, if it is None, the children of the root.

    Attributes:
        done: Complete elements, each with the line of its start.
        line: Line number of the last error.
    """

    def __init__(self, names: Collection[str] | None) -> None:
        self.done: list[tuple[int, Element]] = []
        self.line = 1
        self._names = names
        self._is_below_root = False

        # The element being built, None between wanted elements; its line and offset.
        self._element: Element | None = None
        self._line = 0
        self._begin = 0

        self._size = 0  # bytes parsed

        # Known names are compared as written. Children of the root get their namespace.
        self._parser = expat.ParserCreate(namespace_separator=" " if names is None else None)
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._open
        self._parser.EntityDeclHandler = self._entity
        self._parser.SkippedEntityHandler = self._entity
        self._parser.AttlistDeclHandler = self._attribute

    def parse(self, chunk: bytes) -> str:
        """Parse the next bytes, `b""` at the end of the file.

        Returns:
            The error, "" if there is none.
        """
        try:
            self._parser.Parse(chunk, not chunk)
        except expat.ExpatError as error:
            self.line = error.lineno
            kind = expat.ErrorString(error.code)
            return f"expected well-formed XML, got '{kind}'; is the file whole?"
        except (LookupError, ValueError):
            # ValueError: a multi-byte encoding, or a codec that is not for text.
            self.line = self._parser.CurrentLineNumber
            return "expected an encoding such as UTF-8, got another"
        except _EntityError:
            self.line = self._parser.CurrentLineNumber
            return "expected no entities but XML's own five, got one; replace it by its characters"

        # Incomplete elements stay in memory, and so do incomplete comments and tags.
        self._size += len(chunk)
        begin = self._begin if self._element is not None else self._parser.CurrentByteIndex
        if self._size - begin > limits.LARGEST_RECORD:
            self.line = self._parser.CurrentLineNumber
            return limits.TOO_LARGE_RECORD
        return ""

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        """Begin to build an element, if it is wanted."""
        is_wanted = self._is_below_root if self._names is None else name in self._names
        self._is_below_root = True
        if not is_wanted:
            return

        # Up to its end, the parser calls the tree without this class: most calls are within.
        tree = TreeBuilder()
        self._element = tree.start(name, attributes)
        self._line = self._parser.CurrentLineNumber
        self._begin = self._parser.CurrentByteIndex
        self._parser.StartElementHandler = tree.start
        self._parser.CharacterDataHandler = tree.data
        self._parser.EndElementHandler = functools.partial(self._close, tree)

    def _close(self, tree: TreeBuilder, name: str) -> None:
        """End an element of the tree. The first one ends the tree."""
        element = tree.end(name)
        if element is not self._element:
            return
        self.done.append((self._line, element))
        self._element = None
        self._parser.StartElementHandler = self._open
        self._parser.CharacterDataHandler = None
        self._parser.EndElementHandler = None

    def _entity(self, *_: object) -> None:
        raise _EntityError

    def _attribute(self, _: str, __: str, ___: str, default: str | None, ____: bool) -> None:
        """Reject a long default, which every element of that name would repeat."""
        if len(default or "") > _LONGEST_DEFAULT:
            raise _EntityError
