"""Reads the corpora of i2b2 and n2c2: concepts in files beside texts, and XML with PHI or tags."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal
from xml.etree.ElementTree import Element

from msgspec import Meta

from mslm_data.data.document import Sentence
from mslm_data.data.reason import Reason
from mslm_data.source import Guess, Sample
from mslm_data.source.form import (
    ByFile,
    Container,
    Findings,
    FormSource,
    Record,
    WholeFile,
    XmlElements,
)
from mslm_data.source.reading.elements import elements
from mslm_data.source.reading.files import ends_with, lines, opened, packed_or_plain, stem
from mslm_data.source.reading.records import RecordError, decode_utf8
from mslm_data.source.reading.standoff import Annotation, OffsetTextSource

_CONCEPT = re.compile(
    r'c="(.*)" ([0-9]{1,9}):([0-9]{1,9}) ([0-9]{1,9}):([0-9]{1,9})\|\|t="(.*)"\s*\Z', re.DOTALL
)
_CONCEPT_LINE = re.compile(rb'(?:\xef\xbb\xbf)?c=".*" \d+:\d+ \d+:\d+\|\|t="')
_TOKEN = re.compile(r"[^ \t\r\f\v]+")
_OFFSET = re.compile(r"[0-9]{1,18}")
_SPAN = re.compile(r"([0-9]{1,18})~([0-9]{1,18})")
_SPANS = re.compile(rf"{_SPAN.pattern}(?:,{_SPAN.pattern})*")
"""Fragments of a mention in MedTator's form: `8~13,20~25`."""
_HEAD = 1 << 16
_BOM = "\ufeff"
_NOWHERE = (-1, -1)
"""Range of a mention whose line or token does not exist."""
_OF_DOCUMENT = ("-1", "-1")
"""Start and end of a tag for the whole document."""
_TEXT_ALONE = Reason(
    "expected a file of concepts (.con) for the text, found none; check [source] concepts"
)
_CONCEPTS_ALONE = Reason(
    "expected a text (.txt) for the file of concepts, found none; check [source] concepts"
)
"""Reasons for a text without concepts, and for concepts without a text."""


def _has_records(path: Path) -> bool:
    with opened(path) as file:
        return b"<RECORD" in file.read(_HEAD)


def _choose(_: object, path: Path) -> Container[object]:
    """Return the container of a file."""
    is_of_records = ends_with(path, ".xml") and _has_records(path)
    return XmlElements("RECORD") if is_of_records else WholeFile()


class I2b2(FormSource, OffsetTextSource, frozen=True, kw_only=True):
    """The corpora of i2b2 and n2c2 in their own formats. For 2018, which is BRAT, see `brat`.

    | year | format |
    |---|---|
    | 2010 | `NAME.txt`, and `NAME.con` with lines of `c="words" line:token line:token||t="type"` |
    | 2006 | XML: a `RECORD` per document, with `PHI` elements in its `TEXT` |
    | 2012, 2014 | XML: a file per document, with `TEXT` and `TAGS`, whose children have offsets |

    The last is MAE's format. MedTator's `spans="8~13,20~25"` are read too.

    2010: lines of the text are sentences. Lines are numbered from 1, tokens (separated by white
    space) from 0, and the last token is inclusive. Concepts are in lower case, so their words are
    compared without case. Texts without concepts are set aside, because lost annotations look the
    same, and so are concepts without a text.

    `TAGS`: elements without `start`, or from -1 to -1 as in MAE, are no mentions; they describe the
    document or relate other elements. The document id is the name of the file, or the `ID` of the
    `RECORD`. A malformed file of records is an error, because the number of its records is unknown.
    Any other malformed file is set aside.

    The text is patients': a built folder is protected unless the pipeline sets `about.protected =
    false`.
    """

    suffixes = (".txt", ".con", ".xml")
    segmenter = "clinical"
    one_form = False
    container = ByFile(_choose)

    concepts: Annotated[
        tuple[str, ...],
        Meta(
            description="Folders of `NAME.con`, relative to that of the text. The first with the "
            "file is used. As distributed in 2010, concepts are in a folder beside that of the "
            "texts."
        ),
    ] = (
        ".",
        "../concept",
        "../concepts",
        "../reference_standard_for_test_data/concepts",
    )
    label: Annotated[
        Literal["type", "tag"],
        Meta(
            description="Label of mentions in `TAGS`: the TYPE, or else the name of the element "
            '("type"), or always the name of the element ("tag").'
        ),
    ] = "type"

    def sniff(self, sample: Sample) -> Guess:
        """Recognise i2b2; see `Source.sniff`."""
        if ends_with(sample.path, ".txt"):
            return Guess("a file .con has its name" if self._concept_file(sample.path) else "")
        if ends_with(sample.path, ".con"):
            is_concept = _CONCEPT_LINE.match(sample.head)
            return Guess('its first line is c="…" line:token …' if is_concept else "")
        if b"<TAGS>" in sample.head and b"<TEXT>" in sample.head:
            return Guess("it has the elements TEXT and TAGS")
        if b"<RECORD " in sample.head and b"<PHI " in sample.head:
            return Guess("it has the elements RECORD and PHI")
        return Guess()

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        """Find texts, XML, and concepts without a text; see `Source.find`."""
        by_split = super().find(inputs)

        # Concepts that belong to a text are read with it, not as a document of their own.
        used = {
            concepts.resolve()
            for paths in by_split.values()
            for path in paths
            if ends_with(path, ".txt") and (concepts := self._concept_file(path)) is not None
        }
        return {
            split: [
                path for path in paths if not ends_with(path, ".con") or path.resolve() not in used
            ]
            for split, paths in by_split.items()
        }

    def files(self, path: Path) -> list[Path]:
        """Return a file, and the concepts of a text."""
        concepts = self._concept_file(path) if ends_with(path, ".txt") else None
        return [path, concepts] if concepts else [path]

    def understand(self, record: Record, found: Findings) -> None:
        """Read a text with its file of concepts, a `RECORD`, or a file with `TAGS`."""
        if isinstance(record.content, Element):
            _read_record(record.content, found)
        elif ends_with(record.path, ".xml"):
            self._read_tags(record.path, found)
        else:
            self._read_lines(record.path, found)

    # Concepts beside a text --------------------------------------------------------------------

    def _concept_file(self, path: Path) -> Path | None:
        """Return the file with a text's concepts, plain or `.gz`, None if there is none."""
        for folder in self.concepts:
            file = packed_or_plain(path.parent / folder / f"{stem(path)}.con")
            if file is not None:
                return file
        return None

    def _read_lines(self, path: Path, found: Findings) -> None:
        if ends_with(path, ".con"):
            raise RecordError(_CONCEPTS_ALONE)
        concepts = self._concept_file(path)
        if concepts is None:
            raise RecordError(_TEXT_ALONE)

        found.text = decode_utf8(self.utf8(path)).removeprefix(_BOM)
        tokens = _tokens(found.text)
        found.sentences = [Sentence(line[0][0], line[-1][1]) for line in tokens if line]

        # `_concept` gives offsets in characters, so there is no convention to detect.
        found.is_exact = True
        found.file = concepts.name
        found.mentions = [
            _concept(line.data, line.number, found.text, tokens)
            for line in lines(self.utf8(concepts))
            if line.data.strip()
        ]

    # XML ---------------------------------------------------------------------------------------

    def _read_tags(self, path: Path, found: Findings) -> None:
        for line, element in elements(path, "TEXT", "TAGS"):
            if element.tag == "TAGS":
                found.mentions += self._mentions(element, line)
            elif found.text:
                raise RecordError("expected one TEXT in the file, got several", line=line)
            else:
                found.place = f"{path.name}:{line}"
                found.text = "".join(element.itertext())

    def _mentions(self, tags: Element, line: int) -> Iterator[Annotation]:
        for tag in tags.iter():
            spans = tag.get("spans")
            start = tag.get("start")
            end = tag.get("end") or ""
            if spans is not None and _SPANS.fullmatch(spans):
                fragments = [(int(a), int(b)) for a, b in _SPAN.findall(spans)]
            # A tag for the document, or a relation.
            elif start is None or (start, end) == _OF_DOCUMENT:
                continue
            elif _OFFSET.fullmatch(start) and _OFFSET.fullmatch(end):
                fragments = [(int(start), int(end))]
            else:
                raise RecordError(
                    "expected whole numbers as start and end of tags, got other values", line=line
                )
            label = tag.get("TYPE") or tag.get("type") or ""
            if self.label == "tag" or not label:
                label = tag.tag
            yield Annotation(fragments, label, words=tag.get("text"))


def _tokens(text: str) -> list[list[tuple[int, int]]]:
    """Return the character range of each token of each line."""
    tokens = []
    start = 0
    for line in text.split("\n"):
        tokens.append(
            [(start + match.start(), start + match.end()) for match in _TOKEN.finditer(line)]
        )
        start += len(line) + 1
    return tokens


def _concept(
    data: bytes, number: int, text: str, tokens: Sequence[Sequence[tuple[int, int]]]
) -> Annotation:
    """Read a line of a file of concepts.

    Raises:
        RecordError: The line is malformed or not valid UTF-8.
    """
    match = _CONCEPT.match(decode_utf8(data, line=number))
    if match is None:
        raise RecordError(
            'expected c="words" line:token line:token||t="type", got a line of another form',
            line=number,
        )
    words = match[1]
    label = match[6]
    first_line, first, last_line, last = map(int, match.groups()[1:5])
    try:
        if not (first_line and last_line):  # index -1 would be the last line
            raise IndexError
        fragment = (tokens[first_line - 1][first][0], tokens[last_line - 1][last][1])
    except IndexError:
        return Annotation([_NOWHERE], label, words)

    # `place` compares words with case, so pass none if they are equal without case.
    text_words = text[fragment[0] : fragment[1]]
    is_same = text_words.lower().split() == words.lower().split()
    return Annotation([fragment], label, None if is_same else words)


def _read_record(record: Element, found: Findings) -> None:
    """Read a `RECORD`, whose text has mentions as elements."""
    found.id = record.get("ID") or ""
    element = record.find("TEXT")
    if element is not None:
        found.text, found.mentions = _inline(element)
    if not found.id or not found.text:
        raise RecordError("expected a record with an ID and a TEXT, got another")
    found.is_exact = True


def _inline(element: Element) -> tuple[str, list[Annotation]]:
    """Return the text of an element, and its `PHI` elements as mentions."""
    pieces: list[str] = []
    mentions: list[Annotation] = []
    position = 0

    # A stack of items to read, the next one last: text, an element to open, or an element to close
    # with its start. Not recursive, because elements may be nested deeper than Python's calls.
    to_do: list[str | Element | tuple[Element, int]] = [element]
    while to_do:
        item = to_do.pop()
        if isinstance(item, str):
            pieces.append(item)
            position += len(item)
        elif isinstance(item, tuple):
            ended, start = item
            if ended.tag == "PHI":
                mentions.append(Annotation([(start, position)], ended.get("TYPE") or ""))
        else:
            to_do.append((item, position))
            for child in reversed(item):
                to_do += [child.tail or "", child]
            to_do.append(item.text or "")
    return "".join(pieces), mentions
