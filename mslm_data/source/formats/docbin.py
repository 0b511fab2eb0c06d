"""Reads spaCy's DocBin files, `.spacy`: packed tokens with entities, sentences and span groups."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from mslm_data import _optional
from mslm_data.data.document import Document, Part, Sentence, SetAside
from mslm_data.errors import SourceError
from mslm_data.io.limits import LIMITS
from mslm_data.registry import Help
from mslm_data.source import Source
from mslm_data.source.reading import standoff
from mslm_data.source.reading.files import read_bytes, stem
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.standoff import Annotation

ENTITIES = "ents"
"""The `spans_key` of the entities, which are not a group."""

_INSIDE = 1
_BEGINS = 3
"""Values of ENT_IOB; 0 is missing and 2 is outside."""
_SENTENCE = 1
"""Value of SENT_START at a sentence's first token."""
_SPAN = struct.Struct(">QQQllll")
"""A span of a group: id, knowledge base's id, label, tokens from and to, characters from and to."""
_MOST_UNPACKED = 2 << 30
"""Most bytes of an unpacked file, all of which is held at once."""


class _Packed(msgspec.Struct):
    """The fields of a DocBin that are read; those of its user data are never decoded."""

    attrs: list[int]
    tokens: bytes
    spaces: bytes
    lengths: bytes
    strings: list[str]
    span_groups: list[bytes] = []
    flags: list[dict[str, Any]] = []


class _Group(msgspec.Struct):
    """The fields of a span group that are read."""

    name: str
    spans: list[bytes]


_read_packed = msgspec.msgpack.Decoder(_Packed).decode
_read_groups = msgspec.msgpack.Decoder(dict[bytes, list[str]] | list[bytes]).decode
_read_group = msgspec.msgpack.Decoder(_Group).decode


class _Tokens(NamedTuple):
    """The tokens of a document.

    Attributes:
        text: All of them, with their spaces.
        starts: Their first characters.
        ends: The characters after their last.
        attributes: Name of an attribute -> its value of each token, int64 `[T]`.
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]
    attributes: Mapping[str, npt.NDArray[np.int64]]


@dataclass
class _Counts:
    """Count what a file has, to see whether `spans_key` names any of it."""

    entities: int = 0
    groups: int = 0
    chosen: int = 0
    documents: int = 0


@dataclass(frozen=True, kw_only=True)
class DocBin(Source):
    """Files that spaCy's `DocBin.to_disk` writes, such as those that its training takes.

    A document is a text whose mentions are characters: spaCy's tokens only say where. Its
    sentences are spaCy's, where the file has some. Documents are numbered, `file:number`. What a
    document stores as user data is not read, and no code of the file is run. Only the entities are
    read, or only the group that `spans_key` names; a file with groups and without any entity is
    refused, and so is one without a group of that name. Overlapping spans of a group are all
    mentions. Tokens that are marked as "no entity can be here" are not.
    """

    suffixes = (".spacy",)

    spans_key: Annotated[
        str, Help('"ents" for the entities, else the key of a span group in `doc.spans`.')
    ] = ENTITIES

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:  # noqa: ARG003 - the bytes say it
        """Return what speaks for a DocBin; see `Source.recognises`."""
        try:
            beginning = zlib.decompressobj().decompress(head, 1 << 12)
        except zlib.error:
            return ""
        return "it is a packed DocBin" if b"\xa5attrs" in beginning else ""

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Read the documents of a file; see `Source.read`.

        Raises:
            MissingExtraError: spaCy, which knows its strings' hashes, is not installed.
            SourceError: It is not a DocBin, unpacks without end, or has nothing by `spans_key`.
        """
        path = Path(part.path)
        file = _File(path)
        counts = _Counts()
        for number in range(len(file.lengths)):
            doc_id = f"{stem(path)}:{number}"
            place = f"{path.name}:{number + 1}"
            try:
                tokens = file.tokens(number)
                mentions = self._mentions(file, number, tokens, counts)
                if not tokens.text:
                    raise RecordError("expected text, got a document without tokens")
            except RecordError as error:
                yield SetAside(doc_id, place, error.reason)
                continue
            yield standoff.place(tokens.text, mentions).document(
                doc_id, tokens.text, sentences=_sentences(tokens), place=place
            )
        self._check(path, counts)

    def _mentions(
        self, file: _File, number: int, tokens: _Tokens, counts: _Counts
    ) -> list[Annotation]:
        entities = _entities(tokens, file.string)
        groups = file.groups(number)
        counts.documents += 1
        counts.entities += len(entities)
        counts.groups += len(groups)
        if self.spans_key == ENTITIES:
            return entities

        counts.chosen += self.spans_key in groups
        return [_grouped(span, file.string) for span in groups.get(self.spans_key, ())]

    def _check(self, path: Path, counts: _Counts) -> None:
        """Raise if a file has mentions, but none that `spans_key` names."""
        if self.spans_key == ENTITIES:
            if counts.groups and not counts.entities:
                raise SourceError(
                    f"{path.name}: expected entities, got span groups alone; set [source] "
                    f"spans_key to a group's key"
                )
        elif counts.documents and not counts.chosen:
            raise SourceError(
                f"{path.name}: expected span groups '{self.spans_key}', found none; set [source] "
                f"spans_key to another group's key, or to 'ents' for the entities"
            )


class _File:
    """A DocBin, unpacked.

    Attributes:
        lengths: Number of tokens of each document.
    """

    def __init__(self, path: Path) -> None:
        data = read_bytes(path)
        self._name = path.name
        self._most = min(LIMITS.most(len(data)), _MOST_UNPACKED)
        self._characters = 0

        packed = self._unpacked(data)
        self._attributes = _attribute_names(packed.attrs)
        self._groups = packed.span_groups
        self._flags = packed.flags
        self._strings = _store(packed.strings)
        try:
            lengths = np.frombuffer(packed.lengths, "<i4")
            values = np.frombuffer(packed.tokens, "<u8").reshape(-1, len(packed.attrs))
            spaces = np.frombuffer(packed.spaces, np.uint8) != 0
        except ValueError:
            raise self._refusal("arrays of another length") from None
        is_whole = (
            (lengths >= 0).all()
            and int(lengths.sum(dtype=np.int64)) == len(values) == len(spaces)
            and "ORTH" in self._attributes
        )
        if not is_whole:
            raise self._refusal("arrays of another length")
        self.lengths = lengths.tolist()
        self._starts = [0, *itertools.accumulate(self.lengths)]
        self._values = values
        self._spaces = spaces

    def _refusal(self, got: str) -> SourceError:
        return SourceError(
            f"{self._name}: expected a DocBin of spaCy, got {got}; is the file whole?"
        )

    def _unpacked(self, data: bytes) -> _Packed:
        packing = zlib.decompressobj()
        try:
            unpacked = packing.decompress(data, self._most)
            if packing.unconsumed_tail:
                raise SourceError(
                    f"{self._name}: expected a DocBin, got a file that unpacks to more than "
                    f"{self._most} bytes; if it is one, save its documents as several"
                )
            if not packing.eof:
                raise self._refusal("a file that ends early")
            return _read_packed(unpacked)
        except zlib.error:
            raise self._refusal("a file that is packed in another way") from None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise self._refusal("another form") from None

    def string(self, value: int) -> str:
        """Return what a hash stands for.

        Raises:
            RecordError: The file does not have it.
        """
        try:
            return str(self._strings[value])
        except KeyError:
            raise RecordError(
                "expected words and labels that stand in the file, got a hash of another"
            ) from None

    def tokens(self, number: int) -> _Tokens:
        """Return the tokens of a document.

        Raises:
            RecordError: A word is not in the file.
            SourceError: The words are so long that all texts would not fit into memory.
        """
        rows = slice(self._starts[number], self._starts[number + 1])
        values = self._values[rows]
        words = [self.string(value) for value in values[:, self._attributes["ORTH"]].tolist()]
        spaces = self._spaces[rows].tolist()
        if number < len(self._flags) and self._flags[number].get("has_unknown_spaces"):
            spaces = [True] * len(words)

        # A short file may name a long word often.
        self._characters += sum(map(len, words))
        if self._characters > self._most:
            raise SourceError(
                f"{self._name}: expected a DocBin, got texts of more than {self._most} characters"
            )
        past = list(
            itertools.accumulate(
                len(word) + space for word, space in zip(words, spaces, strict=True)
            )
        )
        starts = [0, *past][: len(words)]
        ends = [start + len(word) for start, word in zip(starts, words, strict=True)]
        text = "".join(
            f"{word} " if space else word for word, space in zip(words, spaces, strict=True)
        )
        signed = values.view(np.int64)
        attributes = {name: signed[:, column] for name, column in self._attributes.items()}
        return _Tokens(text, starts, ends, attributes)

    def groups(self, number: int) -> dict[str, list[bytes]]:
        """Return the span groups of a document: key -> spans.

        Raises:
            RecordError: They cannot be read.
        """
        data = self._groups[number] if number < len(self._groups) else b""
        if not data:
            return {}
        try:
            packed = _read_groups(data)
            if isinstance(packed, dict):
                return {
                    key: _read_group(group).spans for group, keys in packed.items() for key in keys
                }
            return {group.name: group.spans for group in map(_read_group, packed)}
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise RecordError(
                f"expected span groups as spaCy packs them, got {type(error).__name__}"
            ) from None


def _attribute_names(numbers: Sequence[int]) -> dict[str, int]:
    """Return the column of each attribute that is read."""
    ids = _optional.load("spacy.attrs", wanted_by="source 'docbin'").IDS
    names = ("ORTH", "ENT_IOB", "ENT_TYPE", "ENT_KB_ID", "SENT_START")
    return {name: numbers.index(ids[name]) for name in names if ids[name] in numbers}


def _store(strings: Sequence[str]) -> Any:
    """Return spaCy's table from hashes to strings."""
    return _optional.load("spacy.strings", wanted_by="source 'docbin'").StringStore(strings)


def _entities(tokens: _Tokens, string: Callable[[int], str]) -> list[Annotation]:
    """Return the entities of a document, as `doc.ents` has them."""
    tags = tokens.attributes.get("ENT_IOB")
    labels = tokens.attributes.get("ENT_TYPE")
    if tags is None or labels is None:
        return []
    concepts = tokens.attributes.get("ENT_KB_ID")

    entities: list[Annotation] = []
    is_open = False  # whether the last entity reaches up to the token
    for number, tag in enumerate(tags.tolist()):
        end = tokens.ends[number]
        if tag == _INSIDE:
            if not is_open:
                raise RecordError("expected entities that begin with B, got one that does not")
            begun = entities[-1]
            entities[-1] = begun._replace(fragments=[(begun.fragments[0][0], end)])
            continue

        # A token that begins something without a label is one that no entity may have.
        is_open = tag == _BEGINS and bool(labels[number])
        if is_open:
            label = string(_unsigned(labels[number]))
            concept = "" if concepts is None else string(_unsigned(concepts[number]))
            fragment = (tokens.starts[number], end)
            entities.append(Annotation([fragment], label, concept=concept))
    return entities


def _grouped(span: bytes, string: Callable[[int], str]) -> Annotation:
    """Return a span of a group."""
    if len(span) != _SPAN.size:
        raise RecordError(
            f"expected spans of {_SPAN.size} bytes, as spaCy packs them, got one of {len(span)}",
            code="bytes of a span",
        )
    _, concept, label, _, _, start, end = _SPAN.unpack(span)
    return Annotation([(start, end)], string(label), concept=string(concept))


def _sentences(tokens: _Tokens) -> tuple[Sentence, ...] | None:
    """Return the sentences of a document as `doc.sents` has them, None where it has none."""
    given = tokens.attributes.get("SENT_START")
    if given is None or not given[1:].any():
        return None
    firsts = [0, *(np.flatnonzero(given[1:] == _SENTENCE) + 1).tolist()]
    lasts = [*(first - 1 for first in firsts[1:]), len(given) - 1]
    return tuple(
        Sentence(tokens.starts[first], tokens.ends[last])
        for first, last in zip(firsts, lasts, strict=True)
    )


def _unsigned(value: np.int64) -> int:
    return int(value) & 0xFFFF_FFFF_FFFF_FFFF
