"""Reads elements of XML files one after the other, without holding the file.

The parser is expat, with all entities but XML's own five refused: entities of a file can grow
without bound, fetch other files, or leave holes in the text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.io import limits
from mslm_data.source.reading.files import opened

_CHUNK = 1 << 18
_LONGEST_DEFAULT = 100


class MalformedError(SourceError):
    """A file is not XML that can be read safely.

    Attributes:
        line: Number of the line at fault.
        reason: What was expected and what came, without the file's words.
    """

    def __init__(self, message: str, *, line: int = 1, reason: str = "") -> None:
        # The message alone makes an error, as errors travel between processes.
        super().__init__(message)
        self.line = line
        self.reason = Reason(reason)


def elements(path: Path, *names: str) -> Iterator[tuple[int, Element]]:
    """Read each element of some names, with the line that it begins at, once it is complete.

    An element within another one of these names comes with that. A document type is accepted and
    never fetched.

    Raises:
        MalformedError: The file is not well-formed, uses entities, has an unknown encoding, or an
            element is larger than `limits.LARGEST_RECORD`. The elements before that place have been
            given.
        SourceError: The file cannot be read.
    """
    yield from _collected(path, _Collector(names))


def children(path: Path) -> Iterator[tuple[int, Element]]:
    """Read each child of a file's root, as `elements` does.

    Names of namespaces stand before names of elements and attributes, as in `{namespace}name`.

    Raises:
        MalformedError: As from `elements`.
        SourceError: The file cannot be read.
    """
    yield from _collected(path, _Collector(None))


def _collected(path: Path, collector: _Collector) -> Iterator[tuple[int, Element]]:
    for chunk in _chunks(path):
        reason = collector.parse(chunk)
        yield from collector.done
        collector.done.clear()
        if reason:
            line = collector.line
            raise MalformedError(f"{path.name}:{line}: {reason}", line=line, reason=reason)


def _chunks(path: Path) -> Iterator[bytes]:
    """Give a file's bytes, and an empty piece at its end."""
    with opened(path) as file:
        while chunk := file.read(_CHUNK):
            yield chunk
    yield b""


class _EntityError(Exception):
    """A file declares or uses an entity, or something else that grows without bound."""


class _Collector:
    """Builds the trees of the wanted elements only.

    Wanted are elements of some names, or else, with their namespaces, the children of the root.

    Attributes:
        done: The elements that are complete, with the lines they begin at.
        line: Number of the line that the last problem stands in.
    """

    def __init__(self, names: Collection[str] | None) -> None:
        self.done: list[tuple[int, Element]] = []
        self.line = 1
        self._names = names

        # The element under way: its tree, how deep its innermost open element is, and its line.
        self._tree: TreeBuilder | None = None
        self._depth = 0
        self._line = 0
        self._begin = 0

        # Bytes that have been parsed.
        self._size = 0
        self._is_below_root = False

        self._parser = expat.ParserCreate(namespace_separator=None if names is not None else "}")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.EntityDeclHandler = self._entity
        self._parser.SkippedEntityHandler = self._entity
        self._parser.AttlistDeclHandler = self._attribute

    def parse(self, chunk: bytes) -> str:
        """Parse the next bytes, none for the file's end.

        Returns:
            A problem, "" where there is none.
        """
        try:
            self._parser.Parse(chunk, not chunk)
        except expat.ExpatError as error:
            self.line = error.lineno
            kind = expat.ErrorString(error.code)
            return f"expected well-formed XML, got '{kind}'; is the file whole?"
        except (LookupError, ValueError):
            # ValueError: an encoding of several bytes a character, or one that is not of text.
            self.line = self._parser.CurrentLineNumber
            return "expected an encoding such as UTF-8, got another"
        except _EntityError:
            self.line = self._parser.CurrentLineNumber
            return (
                "expected no entities but XML's own five, got one; put the characters in their "
                "place"
            )

        # An element is held until its end has come, and so is a comment, a tag or the like.
        self._size += len(chunk)
        begin = self._begin if self._tree is not None else self._parser.CurrentByteIndex
        if self._size - begin > limits.LARGEST_RECORD:
            self.line = self._parser.CurrentLineNumber
            return limits.TOO_LARGE_RECORD
        return ""

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if self._tree is None and self._is_wanted(name):
            self._tree = TreeBuilder()
            self._depth = 0
            self._line = self._parser.CurrentLineNumber
            self._begin = self._parser.CurrentByteIndex
        self._is_below_root = True
        if self._tree is not None:
            if self._names is None:
                name = _braced(name)
                attributes = {_braced(key): value for key, value in attributes.items()}
            self._tree.start(name, attributes)
            self._depth += 1

    def _is_wanted(self, name: str) -> bool:
        return self._is_below_root if self._names is None else name in self._names

    def _end(self, name: str) -> None:
        if self._tree is None:
            return
        self._tree.end(name if self._names is not None else _braced(name))
        self._depth -= 1
        if self._depth == 0:
            self.done.append((self._line, self._tree.close()))
            self._tree = None

    def _text(self, data: str) -> None:
        if self._tree is not None:
            self._tree.data(data)

    def _entity(self, *_: object) -> None:
        raise _EntityError

    def _attribute(self, _: str, __: str, ___: str, default: str | None, ____: bool) -> None:
        """Refuse a long default, as every element of a name would have it."""
        if len(default or "") > _LONGEST_DEFAULT:
            raise _EntityError


def _braced(name: str) -> str:
    """Return a name of the parser, `namespace}name` or `name`, as ElementTree writes it."""
    return f"{{{name}" if "}" in name else name
