"""PubTator: `PMID|t|title`, `PMID|a|abstract`, then one mention a line, a blank line between records.

Offsets run over title + one character + abstract; that one character is a line end here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mslm_data.data.document import Document, Part, Sentence, SetAside
from mslm_data.errors import SourceError
from mslm_data.source.reading import standoff
from mslm_data.source.reading.inputs import Line, SingleFile, by_split, lines, read_bytes
from mslm_data.source.reading.records import RecordError, at_lines
from mslm_data.source.reading.standoff import Mention

SUFFIXES = (".txt", ".pubtator", ".PubTator")
_TITLE = re.compile(rb"([^|\t]+)\|t\|")
_ABSTRACT = re.compile(rb"([^|\t]+)\|a\|")
_NUMBER = re.compile(r"[0-9]{1,18}\Z")
_PROBE_BYTES, _PROBE_MENTIONS = 1 << 18, 10


@dataclass(frozen=True, kw_only=True)
class PubTator(SingleFile):
    """PubTator files, such as NCBI-disease and BC5CDR in their original form.

    A document's id is its PMID; where one stands twice, both are given. Title and abstract are its sentences.
    Relations are left out. Mentions whose offsets do not match the words of their row are counted as unplaced.

    Attributes:
        splits: Split -> patterns of file names, see `inputs.by_split`.
    """

    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        """Return split -> files; see `Source.find`."""
        return by_split(inputs, suffixes=SUFFIXES, splits=self.splits)

    def cut(self, path: Path, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file after blank lines; see `Source.cut`.

        Raises:
            SourceError: None of the file's first mentions lies at its offsets, so that they must count otherwise.
        """
        head = self.read(Part(str(path), 0, _PROBE_BYTES))
        documents = [document for document in head if isinstance(document, Document)]
        misfits = sum(document.unplaced.get(standoff.MISMATCH, 0) for document in documents)
        if misfits >= _PROBE_MENTIONS and not any(document.spans for document in documents):
            raise SourceError(
                f"{path.name}: expected offsets that count characters of title + 1 + abstract from 0, got {misfits} "
                f"mentions of which none lies at its offsets; is this PubTator, and were its texts altered?"
            )
        yield from at_lines(path, target_bytes=target_bytes, begins=_begins)

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Give each record; see `Source.read`."""
        path = Path(part.path)
        data = read_bytes(path, part.start, part.stop)
        for record in _records(lines(data, first=part.line)):
            yield _document(record, path.name)


def _begins(before: bytes, line: bytes) -> bool:
    return bool(line) and not before


def _records(of: Iterator[Line]) -> Iterator[list[Line]]:
    """Give the lines of each record: up to a blank line, or to the next title where no blank line stands."""
    record: list[Line] = []
    for line in of:
        is_blank = not line.data.strip()
        if record and (is_blank or _TITLE.match(line.data)):
            yield record
            record = []
        if not is_blank:
            record.append(line)
    if record:
        yield record


def _document(record: list[Line], name: str) -> Document | SetAside:
    title = _TITLE.match(record[0].data)
    doc_id = title[1].decode(errors="replace") if title else ""
    try:
        if title is None:
            raise RecordError("expected PMID|t|title as its first line, got another")
        text, sentences, body = _text(record, title)
        mentions = [mention for line in body if (mention := _mention(line, doc_id))]
    except RecordError as error:
        return SetAside(doc_id, f"{name}:{error.line or record[0].number}", str(error))
    placed = standoff.place(text, mentions)
    place = f"{name}:{record[0].number}"
    return placed.document(doc_id, text, sentences=sentences, place=place)


def _text(
    record: list[Line], title: re.Match[bytes]
) -> tuple[str, tuple[Sentence, ...], list[Line]]:
    """Return the text, its sentences, and the lines that follow it."""
    head = _decode(record[0], title.end())
    abstract = _ABSTRACT.match(record[1].data) if len(record) > 1 else None
    if abstract is None:
        tail, body = "", record[1:]
    elif abstract[1] != title[1]:
        raise RecordError(
            "expected the abstract of the title's PMID, got another's", line=record[1].number
        )
    else:
        tail, body = _decode(record[1], abstract.end()), record[2:]
    text = f"{head}\n{tail}" if tail else head
    if not text:
        raise RecordError("expected a title or an abstract, got no text")
    bounds = (Sentence(0, len(head)), Sentence(len(head) + 1, len(text)))
    return text, tuple(sentence for sentence in bounds if sentence.start < sentence.end), body


def _mention(line: Line, doc_id: str) -> Mention | None:
    """Read a mention's row; None for a relation, whose second column is no offset."""
    fields = _decode(line).split("\t")
    if fields[0] != doc_id:
        raise RecordError("expected a row of the title's PMID, got another's", line=line.number)
    if len(fields) in (4, 5) and not _NUMBER.match(fields[1]):
        return None
    if len(fields) < 5 or not (_NUMBER.match(fields[1]) and _NUMBER.match(fields[2])):
        message = f"expected PMID, start, end, text, type and concept between TABs, got {len(fields)} column(s)"
        raise RecordError(message, line=line.number)
    concept = fields[5] if len(fields) > 5 and fields[5] != "-1" else ""
    return Mention([(int(fields[1]), int(fields[2]))], fields[4].strip(), fields[3], concept)


def _decode(line: Line, start: int = 0) -> str:
    try:
        return line.data[start:].decode()
    except UnicodeDecodeError:
        raise RecordError("expected UTF-8, got other bytes", line=line.number) from None
