"""Reads results of Amazon Comprehend and Comprehend Medical: a JSON object beside its text.

`NAME.json`, or `NAME.txt.out` of a batch, has the entities of the text NAME.txt: `BeginOffset`,
`EndOffset`, `Text` and `Type`, in Comprehend Medical also `Category`. Results within rows that have
their text are read by `jsonl`.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mslm_data.data.reason import Reason
from mslm_data.io.files import JSON_ERRORS
from mslm_data.source import Guess, Sample
from mslm_data.source.form import Findings, FormSource, Record, WholeFile
from mslm_data.source.reading import cells
from mslm_data.source.reading.files import packed_or_plain, stem
from mslm_data.source.reading.records import RecordError, decode_utf8
from mslm_data.source.reading.standoff import Annotation, OffsetTextSource

_BEGINS = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:Entities|UnmappedAttributes|ModelVersion|ResponseMetadata)"'
)
_TEXT_BESIDE = Reason("expected a text (.txt) with the name of the result beside it, found none")


class Comprehend(FormSource, OffsetTextSource, frozen=True, kw_only=True):
    """Results of Amazon Comprehend's entities, medical or not, each beside its text.

    The document id is the name of the text without suffix. Results without a text are set aside.
    Attributes of an entity, such as the dosage of a medication, and traits, such as a negation, are
    ignored. Offsets count characters. Line ends of the text are unchanged, because offsets count
    them.
    """

    suffixes = (".json", ".out")
    segmenter = "clinical"
    container = WholeFile()

    label: Annotated[
        Literal["Type", "Category"],
        Meta(
            description='Key of the label. In Comprehend Medical, "Type" is such as GENERIC_NAME, '
            '"Category" such as MEDICATION.'
        ),
    ] = "Type"

    def sniff(self, sample: Sample) -> Guess:
        """Recognise a result beside a text; see `Source.sniff`."""
        if not _BEGINS.match(sample.head) or b'"BeginOffset"' not in sample.head:
            return Guess()
        if find_text(sample.path) is None:
            return Guess(problem=_TEXT_BESIDE.text)
        return Guess("it has Entities with BeginOffset, and a text has its name")

    def disowns(self, path: Path) -> str:
        """Return why a file certainly holds no result; see `Source.disowns`."""
        with path.open("rb") as file:
            is_result = path.suffix == ".gz" or _BEGINS.match(file.read(1000))
        return "" if is_result else "it does not begin as a result of Comprehend"

    def files(self, path: Path) -> Sequence[Path]:
        """Return a result, and its text if it exists."""
        return [path, *filter(None, [find_text(path)])]

    def understand(self, record: Record, found: Findings) -> None:
        """Read the text of a result, and its entities."""
        path: Path = record.content
        found.id = found.id.removesuffix(".txt")
        entities = _entities(self.utf8(path))
        found.lost = len(entities)
        text = find_text(path)
        if text is None:
            raise RecordError(_TEXT_BESIDE)
        found.text = decode_utf8(self.utf8(text))
        found.is_file = True
        for entity in map(cells.mapping, entities):
            fragment = cells.pair([entity.get("BeginOffset"), entity.get("EndOffset")])
            label = cells.joined(entity.get(self.label)) or ""
            found.mentions.append(Annotation([fragment], label, cells.joined(entity.get("Text"))))


def _entities(data: bytes) -> list[Any]:
    try:
        result = msgspec.json.decode(data.removeprefix(BOM_UTF8))
    except JSON_ERRORS:
        raise RecordError("expected one JSON object, got damaged JSON") from None
    if not isinstance(result, dict):
        raise RecordError("expected one JSON object, got another value")
    return cells.column_list(result, "Entities")


def find_text(path: Path) -> Path | None:
    """Return the text of a result: `NAME.txt` beside `NAME.json`, `NAME.txt.json` or `.txt.out`."""
    return packed_or_plain(path.with_name(f"{stem(path).removesuffix('.txt')}.txt"))
