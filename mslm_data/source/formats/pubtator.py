"""Reads PubTator: a title, an abstract and mentions per record, a blank line between records.

The lines of a record are `PMID|t|title`, `PMID|a|abstract`, and one line per mention. Offsets refer
to title + one character + abstract. Here that character is a line end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from mslm_data.data.document import Document, Part, Sentence, SetAside
from mslm_data.errors import SourceError
from mslm_data.source.reading import standoff
from mslm_data.source.reading.files import NumberedLine, lines
from mslm_data.source.reading.records import RecordError, cut_at_gaps, decode_utf8
from mslm_data.source.reading.standoff import Annotation, OffsetTextSource

_TITLE = re.compile(rb"([^|\t]+)\|t\|")
_ABSTRACT = re.compile(rb"([^|\t]+)\|a\|")
_NUMBER = re.compile(r"[0-9]{1,18}\Z")
_MENTION_ROW = re.compile(rb"[^\t]+\t[0-9]+\t[0-9]+\t")
_NO_CONCEPT = "-1"

# Documents of the first 256 KiB are placed before a file is cut. Ten mentions that all miss their
# offsets are enough to reject it.
_PROBE_BYTES = 1 << 18
_PROBE_MENTIONS = 10


class PubTator(OffsetTextSource, frozen=True, kw_only=True):
    """PubTator files, such as NCBI-disease and BC5CDR in their original form.

    The document id is the PMID. Further documents with the same PMID, such as other passages of the
    article, are set aside as duplicates unless `ids` is "line". Title and abstract are the
    sentences. Relations are ignored. Mentions that differ from the text at their offsets count as
    unplaced.
    """

    suffixes = (".txt", ".pubtator", ".PubTator")
    by_content = True

    ids: Annotated[
        Literal["pmid", "line"],
        Meta(
            description='Document id: the PMID, or the PMID and the line of the title ("line"), '
            "for files with several documents per PMID."
        ),
    ] = "pmid"

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:  # noqa: ARG003 - the bytes say it
        """Return the evidence for PubTator; see `Source.recognises`."""
        first = next((line.data for line in lines(head) if line.data.strip()), b"")
        return "its first line is PMID|t|title" if _TITLE.match(first) else ""

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file after blank lines; see `Source.cut`.

        Raises:
            SourceError: None of the first mentions is at its offsets, so offsets count something
                else.
        """
        beginning = self.read(Part(part.path, 0, _PROBE_BYTES)) if part.start == 0 else ()
        documents = [document for document in beginning if isinstance(document, Document)]
        misfits = sum(document.unplaced.get(standoff.MISMATCH, 0) for document in documents)
        if misfits >= _PROBE_MENTIONS and not any(document.spans for document in documents):
            raise SourceError(
                f"{Path(part.path).name}: expected offsets that count characters of title + 1 + "
                f"abstract from 0, got {misfits} mentions of which none is at its offsets; check "
                "that this is PubTator and that its texts were not altered"
            )
        if self.may_be_cut(part, target_bytes=target_bytes):
            yield from cut_at_gaps(part, target_bytes=target_bytes)
        else:
            yield part

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Read each record; see `Source.read`."""
        path = Path(part.path)
        data = self.utf8(path, part.start, part.stop)
        for record in _records(lines(data, first=part.line)):
            yield self._document(record, path.name)

    def _document(self, record: list[NumberedLine], name: str) -> Document | SetAside:
        """Make a document from the lines of a record, or set it aside."""
        title = _TITLE.match(record[0].data)
        pmid = title[1].decode(errors="replace") if title else ""
        doc_id = f"{pmid}:{record[0].number}" if pmid and self.ids == "line" else pmid
        try:
            if title is None:
                raise RecordError("expected PMID|t|title as its first line, got another")
            text, sentences, rows = _text(record, title)
            mentions = [mention for row in rows if (mention := _mention(row, pmid))]
        except RecordError as error:
            count = sum(_MENTION_ROW.match(line.data) is not None for line in record)
            return SetAside(doc_id, f"{name}:{error.line or record[0].number}", error.reason, count)

        placed = self.place(text, mentions)
        place = f"{name}:{record[0].number}"
        return placed.document(doc_id, text, sentences=sentences, place=place)


def _records(lines: Iterator[NumberedLine]) -> Iterator[list[NumberedLine]]:
    """Group lines into records.

    A record ends at a blank line, or before the next title if the blank line is missing.
    """
    record: list[NumberedLine] = []
    for line in lines:
        is_blank = not line.data.strip()
        if record and (is_blank or _TITLE.match(line.data)):
            yield record
            record = []
        if not is_blank:
            record.append(line)
    if record:
        yield record


def _text(
    record: list[NumberedLine], title: re.Match[bytes]
) -> tuple[str, tuple[Sentence, ...], list[NumberedLine]]:
    """Return the text of a record, its sentences, and the lines after them."""
    head = _decode(record[0], title.end())
    abstract = _ABSTRACT.match(record[1].data) if len(record) > 1 else None
    if abstract is None:
        tail = ""
        rows = record[1:]
    elif abstract[1] != title[1]:
        raise RecordError(
            "expected an abstract with the PMID of the title, got another PMID",
            line=record[1].number,
        )
    else:
        tail = _decode(record[1], abstract.end())
        rows = record[2:]

    # Offsets count one character between title and abstract.
    text = f"{head}\n{tail}" if tail else head
    if not text:
        raise RecordError("expected a title or an abstract, got no text")
    bounds = (Sentence(0, len(head)), Sentence(len(head) + 1, len(text)))
    return text, tuple(sentence for sentence in bounds if sentence.start < sentence.end), rows


def _mention(row: NumberedLine, pmid: str) -> Annotation | None:
    """Read a mention. Returns None for a relation, whose second column is not an offset."""
    fields = _decode(row).split("\t")
    if fields[0] != pmid:
        raise RecordError(
            "expected a mention with the PMID of the title, got another PMID", line=row.number
        )
    # A relation: PMID, type and two concepts.
    if len(fields) in (4, 5) and not _NUMBER.match(fields[1]):
        return None
    if len(fields) < 5 or not (_NUMBER.match(fields[1]) and _NUMBER.match(fields[2])):
        raise RecordError(
            f"expected PMID, start, end, text, type and concept between TABs, got {len(fields)} "
            "column(s)",
            code="columns of a row",
            line=row.number,
        )

    start, end, words, label, *more = fields[1:]
    concept = more[0] if more and more[0] != _NO_CONCEPT else ""
    return Annotation([(int(start), int(end))], label.strip(), words, concept)


def _decode(line: NumberedLine, start: int = 0) -> str:
    """Decode a line from byte `start`."""
    return decode_utf8(line.data[start:], line=line.number)
