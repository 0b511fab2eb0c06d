"""Reads spaCy's DocBin files, `.spacy`: packed tokens with entities, sentences and span groups."""

from __future__ import annotations

import gc
import struct
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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

if TYPE_CHECKING:
    from spacy.tokens import Doc

ENTITIES = "ents"
"""The `spans_key` of the entities, which are not a group."""

_ATTRIBUTES = ("ORTH", "ENT_IOB", "ENT_TYPE", "ENT_KB_ID", "SENT_START")
"""The attributes of tokens that are read."""
_DAMAGED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""What spaCy raises at a damaged document."""
_MOST_UNPACKED = 2 << 30
"""Most bytes of an unpacked file, all of which is held at once."""


class _Packed(msgspec.Struct):
    """The fields of a DocBin that are read. Its user data and categories are never decoded."""

    attrs: list[int]
    tokens: bytes
    spaces: bytes
    lengths: bytes
    strings: list[str]
    span_groups: list[bytes] = []
    flags: list[dict[str, Any]] = []


_read_packed = msgspec.msgpack.Decoder(_Packed).decode


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
    document stores as user data is not decoded, and no code of the file is run. Only the entities
    are read, or only the group that `spans_key` names; a file with groups and without any entity is
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
        for number in range(file.num_documents):
            doc_id = f"{stem(path)}:{number}"
            place = f"{path.name}:{number + 1}"
            try:
                doc = file.doc(number, with_groups=self.spans_key != ENTITIES)
                document = self._document(doc, doc_id, place, counts)
            except RecordError as error:
                yield SetAside(doc_id, place, error.reason)
                continue
            counts.groups += file.has_groups(number)
            yield document
        self._check(path, counts)

    def _document(self, doc: Doc, doc_id: str, place: str, counts: _Counts) -> Document:
        """Make a document of one of spaCy's.

        Raises:
            RecordError: It has no text, or says what spaCy does not write.
        """
        text = doc.text
        if not text:
            raise RecordError("expected text, got a document without tokens")
        try:
            counts.documents += 1
            counts.entities += len(doc.ents)
            counts.chosen += self.spans_key in doc.spans
            spans = doc.ents if self.spans_key == ENTITIES else doc.spans.get(self.spans_key, ())
            mentions = [
                Annotation([(span.start_char, span.end_char)], span.label_, concept=span.kb_id_)
                for span in spans
            ]
            sentences = None
            if len(doc) > 1 and doc.has_annotation("SENT_START"):
                sentences = tuple(Sentence(one.start_char, one.end_char) for one in doc.sents)
        except _DAMAGED as error:
            raise _unreadable_reason(error) from None
        placed = standoff.place(text, mentions)
        return placed.document(doc_id, text, sentences=sentences, place=place)

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
    """A DocBin, unpacked within limits.

    Only the fields of `_Packed` are decoded, and spaCy makes documents of them.

    Attributes:
        num_documents: Number of documents.
    """

    def __init__(self, path: Path) -> None:
        data = read_bytes(path)
        self._name = path.name
        self._max_bytes = min(LIMITS.max_unpacked(len(data)), _MOST_UNPACKED)

        packed = self._unpacked(data)
        ids = _optional.load("spacy.attrs", wanted_by="source 'docbin'").IDS
        read = [ids[name] for name in _ATTRIBUTES if ids[name] in packed.attrs]
        try:
            lengths = np.frombuffer(packed.lengths, "<i4")
            values = np.frombuffer(packed.tokens, "<u8").reshape(-1, len(packed.attrs))
            spaces = np.frombuffer(packed.spaces, np.uint8) != 0
        except ValueError:
            raise self._refusal("arrays of another length") from None
        is_whole = (
            (lengths >= 0).all()
            and int(lengths.sum(dtype=np.int64)) == len(values) == len(spaces)
            and ids["ORTH"] in packed.attrs
        )
        if not is_whole:
            raise self._refusal("arrays of another length")

        # Only these columns are given to spaCy: it checks them, and others could say anything.
        values = values[:, [packed.attrs.index(number) for number in read]]
        self.num_documents = len(lengths)
        self._vocab = _optional.load("spacy.vocab", wanted_by="source 'docbin'").Vocab(
            strings=packed.strings
        )
        self._check_size(values)

        # A bin of one document each, so that a damaged one costs no other.
        self._bin = _optional.load("spacy.tokens", wanted_by="source 'docbin'").DocBin()
        self._bin.attrs = read
        ends = np.cumsum(lengths)[:-1]
        self._tokens = np.split(values, ends)
        self._spaces = np.split(spaces[:, None], ends)
        self._groups = packed.span_groups
        self._flags = packed.flags

    def _refusal(self, got: str) -> SourceError:
        return SourceError(
            f"{self._name}: expected a DocBin of spaCy, got {got}; is the file whole?"
        )

    def _unpacked(self, data: bytes) -> _Packed:
        packing = zlib.decompressobj()
        try:
            unpacked = packing.decompress(data, self._max_bytes)
            if packing.unconsumed_tail:
                raise SourceError(
                    f"{self._name}: expected a DocBin, got a file that unpacks to more than "
                    f"{self._max_bytes} bytes; if it is one, save its documents as several"
                )
            if not packing.eof:
                raise self._refusal("a file that ends early")
            return _read_packed(unpacked)
        except zlib.error:
            raise self._refusal("a file that is packed in another way") from None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise self._refusal("another form") from None

    def _check_size(self, values: npt.NDArray[np.uint64]) -> None:
        """Raise if all texts would not fit into memory: a short file may name a long word often."""
        strings = self._vocab.strings
        hashes, counts = np.unique(values[:, 0], return_counts=True)
        size = sum(
            len(strings[value]) * count
            for value, count in zip(hashes.tolist(), counts.tolist(), strict=True)
            if value in strings
        )
        if size > self._max_bytes:
            raise SourceError(
                f"{self._name}: expected texts of at most {self._max_bytes} "
                "characters in a DocBin, got more"
            )

    def has_groups(self, number: int) -> bool:
        """Return whether a document has span groups; where there is none, one byte says so."""
        return number < len(self._groups) and len(self._groups[number]) > 1

    def doc(self, number: int, *, with_groups: bool) -> Doc:
        """Return a document as spaCy has it, without its user data and categories.

        Args:
            number: Its number, from 0.
            with_groups: Whether its span groups are wanted, which take as long as all the rest.

        Raises:
            RecordError: It is damaged.
        """
        one = self._bin
        one.tokens = [self._tokens[number]]
        one.spaces = [self._spaces[number]]
        one.span_groups = [self._groups[number] if with_groups and self.has_groups(number) else b""]
        one.flags = [self._flags[number] if number < len(self._flags) else {}]
        one.cats = [{}]
        one.user_data = []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they may hold text
                doc: Doc = next(one.get_docs(self._vocab))
                return doc
        except _DAMAGED as error:
            raise _unreadable_reason(error) from None
        finally:
            gc.enable()  # srsly leaves it off where it cannot decode


def _unreadable_reason(error: Exception) -> RecordError:
    """Return what is wrong with a document; spaCy's own message may hold text."""
    return RecordError(
        f"expected a document as spaCy packs it, got {type(error).__name__}",
        code="documents as spaCy packs them",
    )
