"""BRAT stand-off: NAME.txt is the text, NAME.ann its mentions (`T1<TAB>Type start end[;start end]<TAB>words`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.source.reading import standoff
from mslm_data.source.reading.inputs import by_split, lines, read_bytes
from mslm_data.source.reading.records import RecordError, stem
from mslm_data.source.reading.standoff import Discontinuous, Mention, Placed

_MENTION = re.compile(
    r"T[^\t]*\t(\S+) ([0-9]{1,18} [0-9]{1,18}(?:;[0-9]{1,18} [0-9]{1,18})*)(?:\t(.*))?\Z", re.DOTALL
)
_BOM = "\ufeff"


@dataclass(frozen=True, kw_only=True)
class Brat:
    """Folders of BRAT stand-off, one document a pair of files, its id the files' name.

    Only text-bound annotations (`T`) are read. Line ends of the text stay as they are, as offsets count them. A text
    without annotations file is set aside, as no annotations and annotations lost look the same; so is the reverse.

    Attributes:
        discontinuous: What becomes of a mention in several pieces; pieces with only white space between are one.
        splits: Split -> patterns of file names, see `inputs.by_split`.
    """

    discontinuous: Discontinuous = "hull"
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        """Return split -> texts, and the annotation files that have none; see `Source.find`."""
        found = by_split(inputs, suffixes=(".txt", ".ann"), splits=self.splits)
        return {
            split: [
                path
                for path in paths
                if not _is_annotations(path) or _sibling(path, ".txt") is None
            ]
            for split, paths in found.items()
        }

    def cut(self, path: Path, *, target_bytes: int) -> Iterator[Part]:  # noqa: ARG002 -- a document is a file
        """Give the document as one part; see `Source.cut`."""
        yield Part(str(path))

    def files(self, path: Path) -> list[Path]:
        """Return the text and its annotations, as far as they are there."""
        annotations = None if _is_annotations(path) else _sibling(path, ".ann")
        return [path, annotations] if annotations else [path]

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Give the one document; see `Source.read`."""
        path = Path(part.path)
        doc_id = stem(path)
        place = f"{path.name}:1"
        annotations = _sibling(path, ".ann")
        if _is_annotations(path) or annotations is None:
            reason = f"expected {doc_id}.txt and {doc_id}.ann side by side, found only one of them"
            yield SetAside(doc_id, place, reason)
            return
        try:
            text = _decode(read_bytes(path))
        except RecordError as error:
            yield SetAside(doc_id, place, str(error))
            return
        try:
            mentions = _mentions(read_bytes(annotations))
        except RecordError as error:
            yield SetAside(doc_id, f"{annotations.name}:{error.line}", str(error))
            return
        text, placed = self._place(text, mentions)
        if text:
            yield placed.document(doc_id, text, sentences=None, place=place)
        else:
            yield SetAside(doc_id, place, "expected text, got an empty file")

    def _place(self, text: str, mentions: list[Mention]) -> tuple[str, Placed]:
        """Place mentions in the text without its byte order mark, which offsets count as a character or do not."""
        placed = standoff.place(text.removeprefix(_BOM), mentions, discontinuous=self.discontinuous)
        if text.startswith(_BOM):
            text = text.removeprefix(_BOM)
            back = [
                m._replace(fragments=[(start - 1, end - 1) for start, end in m.fragments])
                for m in mentions
            ]
            placed = max(
                placed,
                standoff.place(text, back, discontinuous=self.discontinuous),
                key=lambda placed: len(placed.spans),
            )
        return text, placed


def _mentions(data: bytes) -> list[Mention]:
    mentions = []
    for line in lines(data):
        if not line.data.startswith(b"T"):
            continue
        match = _MENTION.match(_decode(line.data, line.number))
        if match is None:
            raise RecordError(
                "expected ID, TAB, type, start and end, TAB, text, got a line of another form",
                line=line.number,
            )
        pairs = (pair.split(" ") for pair in match[2].split(";"))
        mentions.append(
            Mention([(int(start), int(end)) for start, end in pairs], match[1], match[3])
        )
    return mentions


def _decode(data: bytes, line: int = 1) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise RecordError("expected UTF-8, got other bytes", line=line) from None


def _is_annotations(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith(".ann")


def _sibling(path: Path, suffix: str) -> Path | None:
    """Return the document's other file, plain or packed, None where there is none."""
    plain = path.with_name(stem(path) + suffix)
    candidates = (plain, plain.with_name(plain.name + ".gz"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)
