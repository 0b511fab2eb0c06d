"""Reads PubTator: a title, an abstract and mentions per record, a blank line between records.

The lines of a record are `PMID|t|title`, `PMID|a|abstract`, and one line per mention. Offsets refer
to title + one character + abstract. Here that character is a line end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta

from mslm_data.data.document import Sentence
from mslm_data.source import Guess, Sample
from mslm_data.source.form import Blocks, Findings, FormSource, Record
from mslm_data.source.reading.files import NumberedLine, lines
from mslm_data.source.reading.records import RecordError, decode_utf8
from mslm_data.source.reading.standoff import Annotation, OffsetTextSource

_TITLE = re.compile(rb"([^|\t]+)\|t\|")
_ABSTRACT = re.compile(rb"([^|\t]+)\|a\|")
_NUMBER = re.compile(r"[0-9]{1,18}\Z")
_MENTION_ROW = re.compile(rb"[^\t]+\t[0-9]+\t[0-9]+\t")
_NO_CONCEPT = "-1"


class PubTator(FormSource, OffsetTextSource, frozen=True, kw_only=True):
    """PubTator files, such as NCBI-disease and BC5CDR in their original form.

    The document id is the PMID. Further documents with the same PMID, such as other passages of the
    article, are set aside as duplicates unless `ids` is "line". Title and abstract are the
    sentences. Relations are ignored. Mentions that differ from the text at their offsets count as
    unplaced.
    """

    suffixes = (".txt", ".pubtator", ".PubTator")
    by_content = True
    container = Blocks(_TITLE.match)

    ids: Annotated[
        Literal["pmid", "line"],
        Meta(
            description='Document id: the PMID, or the PMID and the line of the title ("line"), '
            "for files with several documents per PMID."
        ),
    ] = "pmid"

    def sniff(self, sample: Sample) -> Guess:
        """Recognise PubTator; see `Source.sniff`."""
        first = next((line.data for line in lines(sample.head) if line.data.strip()), b"")
        return Guess("its first line is PMID|t|title" if _TITLE.match(first) else "")

    def understand(self, record: Record, found: Findings) -> None:
        """Read title, abstract and mentions. Offsets count one character between the two."""
        found.lost = sum(_MENTION_ROW.match(line.data) is not None for line in record.content)
        first, *rest = record.content
        title = _TITLE.match(first.data)
        if title is None:
            found.id = ""
            raise RecordError("expected PMID|t|title as its first line, got another")
        pmid = title[1].decode(errors="replace")
        found.id = f"{pmid}:{first.number}" if self.ids == "line" else pmid

        head = _decode(first, title.end())
        tail = ""
        if rest and (abstract := _ABSTRACT.match(rest[0].data)):
            if abstract[1] != title[1]:
                raise RecordError(
                    "expected an abstract with the PMID of the title, got another PMID",
                    line=rest[0].number,
                )
            tail = _decode(rest.pop(0), abstract.end())

        found.mentions = [mention for row in rest if (mention := _mention(row, pmid))]
        # In the output of PubTator's service, a blank that ends the title is that character.
        found.text = f"{head}\n{tail}" if tail else head
        if tail and head.endswith(" "):
            shorter = f"{head[:-1]}\n{tail}"
            if _num_fitting(shorter, found.mentions) > _num_fitting(found.text, found.mentions):
                head = head[:-1]
                found.text = shorter
        bounds = (Sentence(0, len(head)), Sentence(len(head) + 1, len(found.text)))
        found.sentences = [sentence for sentence in bounds if sentence.start < sentence.end]


def _num_fitting(text: str, mentions: Iterable[Annotation]) -> int:
    """Return the number of mentions whose words are at their offsets."""
    return sum(
        mention.words == text[start:end] for mention in mentions for start, end in mention.fragments
    )


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
