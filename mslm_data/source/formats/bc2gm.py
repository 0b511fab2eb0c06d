"""Reads BC2GM as published by BioCreative II: sentences in one file, mentions in another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from msgspec import Meta

from mslm_data.data.document import Document, Part, Sentence, SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source.reading import standoff
from mslm_data.source.reading.encodings import TextSource
from mslm_data.source.reading.files import lines, stem
from mslm_data.source.reading.records import RecordError, cut_filled_lines, decode_utf8

_OFFSETS = re.compile(r"(\d{1,9}) (\d{1,9})", re.ASCII)


class _Listed(NamedTuple):
    """A line of a mention file.

    Attributes:
        start: Index of the first character, counted from 0 without white space.
        end: Index of the last character, inclusive.
        words: Text of the mention.
    """

    start: int
    end: int
    words: str


class Bc2gm(TextSource, frozen=True, kw_only=True):
    """Files with lines `ID sentence`, and files of mentions with lines `ID|start end|text`.

    Offsets count the characters of the sentence from 0, without white space; ends are inclusive.
    Mentions that differ from the text at their offsets count as unplaced (four lines of the
    original are wrong by some characters). Mentions of sentences outside the sentence file are
    ignored, because a part of the corpus may come with all mentions. `ALTGENE.eval`, with
    alternative boundaries of the same mentions, is not read.

    By default splits are found by name, as in `train/train.in` and `test/test.in`, or the
    `devel-split` of spyysalo/bc2gm-corpus.
    """

    suffixes = (".in",)

    mentions: Annotated[
        tuple[str, ...],
        Meta(
            description="Names of mention files in the folder of the sentence file. The first one "
            "that exists is used. `{stem}` stands for the sentence file's name without suffix."
        ),
    ] = ("GENE.eval", "{stem}.eval")
    label: Annotated[str, Meta(description="Label of all mentions.")] = "GENE"

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:
        """Return the evidence for BC2GM; see `Source.recognises`."""
        first = next((line.data for line in lines(head)), b"")
        try:
            _read_sentence(first)
            cls()._mention_file(path)
        except (RecordError, SourceError):
            return ""
        return "its lines are an ID and a sentence, and a file .eval of mentions lies beside it"

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        """Find the sentence files of each split; see `Source.find`.

        Raises:
            SourceError: There are no sentence files, or one has no file of mentions.
        """
        by_split = super().find(inputs)
        for paths in by_split.values():
            for path in paths:
                self._mention_file(path)
        return by_split

    def files(self, path: Path) -> list[Path]:
        """Return the file of sentences and the file of their mentions."""
        return [path, self._mention_file(path)]

    def _mention_file(self, path: Path) -> Path:
        """Return the file of mentions for a file of sentences.

        Raises:
            SourceError: The file does not exist.
        """
        names = [name.replace("{stem}", stem(path)) for name in self.mentions]
        for name in names:
            for candidate in (path.parent / name, path.parent / f"{name}.gz"):
                if candidate.is_file():
                    return candidate
        raise SourceError(
            f"{path}: expected {' or '.join(names)} beside it, found none; set [source] mentions"
        )

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file of sentences between lines; see `Source.cut`."""
        if not self.may_be_cut(part, target_bytes=target_bytes):
            return iter([part])
        return cut_filled_lines(part, target_bytes=target_bytes)

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Read each sentence as a document.

        A sentence is set aside if its line, or a line of its mentions, is malformed.

        Raises:
            SourceError: A line of the mention file names no sentence.
        """
        path = Path(part.path)
        mentions = _read_mentions(
            self.utf8(self._mention_file(path)), name=self._mention_file(path).name
        )
        for line in lines(self.utf8(path, part.start, part.stop), first=part.line):
            if not line.data.strip():
                continue
            place = f"{path.name}:{line.number}"

            try:
                doc_id, text = _read_sentence(line.data)
            except RecordError as error:
                yield SetAside("", place, error.reason)
                continue

            listed = mentions.get(doc_id, [])
            if isinstance(listed, SetAside):
                yield listed
            else:
                yield self._document(doc_id, text, listed, place)

    def _document(self, doc_id: str, text: str, listed: Sequence[_Listed], place: str) -> Document:
        # Index of a character without white space -> position in the text.
        characters = [i for i, character in enumerate(text) if not character.isspace()]
        inside = [mention for mention in listed if mention.end < len(characters)]
        placed = standoff.place(
            text,
            [
                standoff.Annotation(
                    [(characters[mention.start], characters[mention.end] + 1)],
                    self.label,
                    mention.words,
                )
                for mention in inside
            ],
        )

        return placed.leaving_out({standoff.MISMATCH: len(listed) - len(inside)}).document(
            doc_id, text, sentences=(Sentence(0, len(text)),), place=place
        )


def _read_sentence(data: bytes) -> tuple[str, str]:
    """Return id and text in a line of a sentence file."""
    doc_id, _, text = decode_utf8(data).partition(" ")
    if not doc_id or not text.strip():
        raise RecordError("expected an id, a space and a sentence, got 1 field")
    return doc_id, text


def _read_mentions(data: bytes, *, name: str) -> dict[str, list[_Listed] | SetAside]:
    """Read a file of mentions.

    Returns:
        Sentence -> its mentions, or its first malformed line as the reason to set it aside.

    Raises:
        SourceError: A line names no sentence.
    """
    by_sentence: dict[str, list[_Listed] | SetAside] = {}
    for line in lines(data):
        if not line.data.strip():
            continue
        place = f"{name}:{line.number}"
        # Invalid bytes in a mention do not match the text, so they count as unplaced.
        fields = line.data.decode("utf-8", errors="replace").split("|", 2)
        if len(fields) < 2:
            raise SourceError(
                f"{place}: expected ID|start end|text, got 1 field; is this the file of mentions?"
            )

        doc_id = fields[0]
        listed = by_sentence.setdefault(doc_id, [])
        if isinstance(listed, SetAside):
            continue
        offsets = _OFFSETS.fullmatch(fields[1].strip())
        if len(fields) < 3 or offsets is None or int(offsets[2]) < int(offsets[1]):
            by_sentence[doc_id] = SetAside(
                doc_id, place, Reason("expected ID|start end|text, got a line of another form")
            )
            continue
        listed.append(_Listed(int(offsets[1]), int(offsets[2]), fields[2]))
    return by_sentence
