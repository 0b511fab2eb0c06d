"""Reads spaCy's DocBin files (`.spacy`): tokens with entities, sentences and span groups."""

from __future__ import annotations

import gc
import struct
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from mslm_data import _optional
from mslm_data.data.document import Part, Sentence
from mslm_data.errors import SourceError
from mslm_data.source import Guess, Sample, Source
from mslm_data.source.form import Container, Findings, FormSource, Record
from mslm_data.source.reading.files import read_bytes, stem
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.standoff import Annotation

if TYPE_CHECKING:
    from spacy.tokens import Doc

ENTITIES = "ents"
"""Value of `spans_key` for entities, which are not a span group."""

_ATTRIBUTES = ("ORTH", "ENT_IOB", "ENT_TYPE", "ENT_KB_ID", "SENT_START")
"""Attributes of tokens that are read."""
_DAMAGED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""Errors that spaCy raises for a damaged document."""
_MOST_UNPACKED = 2 << 30
"""Maximum size in bytes of an unpacked file, which is in memory as a whole."""


class _Packed(msgspec.Struct):
    """The fields of a DocBin that are read. User data and categories are never decoded."""

    attrs: list[int]
    tokens: bytes
    spaces: bytes
    lengths: bytes
    strings: list[str]
    span_groups: list[bytes] = []
    flags: list[dict[str, Any]] = []


_read_packed = msgspec.msgpack.Decoder(_Packed).decode


class _PackedDoc(NamedTuple):
    """A document of a file, by its index."""

    file: _File
    number: int


class _Documents(Container["DocBin"]):
    """A record for each document of a DocBin: a `_PackedDoc`."""

    def records(self, options: DocBin, part: Part, /) -> Iterator[Record]:
        path = Path(part.path)
        file = _File(path)
        for number in range(file.num_documents):
            place = f"{path.name}:{number + 1}"
            yield Record(f"{stem(path)}:{number}", place, _PackedDoc(file, number), path)
        file.check(options.spans_key)


class DocBin(FormSource, Source, frozen=True, kw_only=True):
    """Files written by spaCy's `DocBin.to_disk`, such as its training data.

    Mentions are stored as characters of the text. Sentences are spaCy's, if the file has any.
    Documents are numbered, `file:number`. User data are not decoded, and no code of the file is
    run.

    By default the entities are read, or the span group named by `spans_key`. A file with span
    groups but no entities, or without the named group, is an error. Overlapping spans of a group
    are all read. Tokens marked as "no entity possible" are not mentions.
    """

    suffixes = (".spacy",)
    container = _Documents()

    spans_key: Annotated[
        str, Meta(description='"ents" for entities, or the key of a span group in `doc.spans`.')
    ] = ENTITIES

    def sniff(self, sample: Sample) -> Guess:
        """Recognise a DocBin; see `Source.sniff`."""
        try:
            beginning = zlib.decompressobj().decompress(sample.head, 1 << 12)
        except zlib.error:
            return Guess()
        return Guess("it is a packed DocBin" if b"\xa5attrs" in beginning else "")

    def understand(self, record: Record, found: Findings) -> None:
        """Read a document, and count what the file has under `spans_key`."""
        packed: _PackedDoc = record.content
        has_entities = self.spans_key == ENTITIES
        doc = packed.file.doc(packed.number, with_groups=not has_entities)
        found.text = doc.text
        if not found.text:
            return
        try:
            spans = doc.ents if has_entities else doc.spans.get(self.spans_key, ())
            packed.file.num_read += 1
            packed.file.num_entities += len(doc.ents)
            packed.file.num_chosen += self.spans_key in doc.spans
            found.mentions = [
                Annotation([(span.start_char, span.end_char)], span.label_, concept=span.kb_id_)
                for span in spans
            ]
            # A document of one token is one sentence anyway.
            if len(doc) > 1 and doc.has_annotation("SENT_START"):
                found.sentences = [Sentence(sent.start_char, sent.end_char) for sent in doc.sents]
        except _DAMAGED as error:
            raise _unreadable_reason(error) from None
        packed.file.num_groups += packed.file.has_groups(packed.number)


class _File:
    """A DocBin, unpacked up to a maximum size.

    Only the fields of `_Packed` are decoded. spaCy makes documents from them.

    Attributes:
        num_documents: Number of documents.
        num_read: Number of documents that have been read.
        num_entities: Number of their entities.
        num_groups: Number of them with span groups.
        num_chosen: Number of them with a span group under the option `spans_key`.
    """

    def __init__(self, path: Path) -> None:
        data = read_bytes(path)
        self._name = path.name

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

        # Pass only these columns to spaCy. It validates them; others could hold anything.
        values = values[:, [packed.attrs.index(number) for number in read]]
        self.num_documents = len(lengths)
        self.num_read = 0
        self.num_entities = 0
        self.num_groups = 0
        self.num_chosen = 0
        self._vocab = _optional.load("spacy.vocab", wanted_by="source 'docbin'").Vocab(
            strings=packed.strings
        )
        self._check_size(values)

        # spaCy gets a bin with one document at a time, so that a damaged one does not affect
        # others.
        self._bin = _optional.load("spacy.tokens", wanted_by="source 'docbin'").DocBin()
        self._bin.attrs = read
        ends = np.cumsum(lengths)[:-1]
        self._tokens = np.split(values, ends)
        self._spaces = np.split(spaces[:, None], ends)
        self._groups = packed.span_groups
        self._flags = packed.flags

    def check(self, spans_key: str) -> None:
        """Raise if the documents have mentions, but none under `spans_key`."""
        if spans_key == ENTITIES:
            if self.num_groups and not self.num_entities:
                raise SourceError(
                    f"{self._name}: expected entities, got only span groups; set [source] "
                    f"spans_key to a group's key"
                )
        elif self.num_read and not self.num_chosen:
            raise SourceError(
                f"{self._name}: expected span groups '{spans_key}', found none; set [source] "
                f"spans_key to another group's key, or to 'ents' for the entities"
            )

    def _refusal(self, got: str) -> SourceError:
        return SourceError(
            f"{self._name}: expected a DocBin of spaCy, got {got}; is the file whole?"
        )

    def _unpacked(self, data: bytes) -> _Packed:
        packing = zlib.decompressobj()
        try:
            unpacked = packing.decompress(data, _MOST_UNPACKED)
            if packing.unconsumed_tail:
                raise SourceError(
                    f"{self._name}: expected a DocBin, got a file that unpacks to more than "
                    f"{_MOST_UNPACKED} bytes; if it is one, save its documents as several"
                )
            if not packing.eof:
                raise self._refusal("a file that ends early")
            return _read_packed(unpacked)
        except zlib.error:
            raise self._refusal("a file that is packed in another way") from None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise self._refusal("another form") from None

    def _check_size(self, values: npt.NDArray[np.uint64]) -> None:
        """Raise if texts exceed the limit: a small file may repeat a long word many times."""
        strings = self._vocab.strings
        hashes, counts = np.unique(values[:, 0], return_counts=True)
        size = sum(
            len(strings[value]) * count
            for value, count in zip(hashes.tolist(), counts.tolist(), strict=True)
            if value in strings
        )
        if size > _MOST_UNPACKED:
            raise SourceError(
                f"{self._name}: expected texts of at most {_MOST_UNPACKED} "
                "characters in a DocBin, got more"
            )

    def has_groups(self, number: int) -> bool:
        """Return whether a document has span groups. An empty list of groups has one byte."""
        return number < len(self._groups) and len(self._groups[number]) > 1

    def doc(self, number: int, *, with_groups: bool) -> Doc:
        """Return a document as spaCy's `Doc`, without user data and categories.

        Args:
            number: Index of the document.
            with_groups: Whether to read its span groups, which takes as long as everything else.

        Raises:
            RecordError: The document is damaged.
        """
        bin_of_one = self._bin
        bin_of_one.tokens = [self._tokens[number]]
        bin_of_one.spaces = [self._spaces[number]]
        groups = self._groups[number] if with_groups and self.has_groups(number) else b""
        bin_of_one.span_groups = [groups]
        bin_of_one.flags = [self._flags[number] if number < len(self._flags) else {}]
        bin_of_one.cats = [{}]
        bin_of_one.user_data = []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warnings may quote the text
                doc: Doc = next(bin_of_one.get_docs(self._vocab))
                return doc
        except _DAMAGED as error:
            raise _unreadable_reason(error) from None
        finally:
            gc.enable()  # srsly disables it, and forgets to enable it after an error


def _unreadable_reason(error: Exception) -> RecordError:
    """Make the error for a damaged document. spaCy's own message may quote the text."""
    return RecordError(
        f"expected a document as spaCy packs it, got {type(error).__name__}",
        code="documents as spaCy packs them",
    )
