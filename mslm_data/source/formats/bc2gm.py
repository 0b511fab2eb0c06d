"""Reads BC2GM as published by BioCreative II: sentences in one file, mentions in another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from msgspec import Meta

from mslm_data.data.document import Sentence
from mslm_data.errors import SourceError
from mslm_data.source import Guess, Sample
from mslm_data.source.form import FilledLines, Findings, FormSource, Record
from mslm_data.source.reading.encodings import TextSource
from mslm_data.source.reading.files import NumberedLine, lines, packed_or_plain, stem
from mslm_data.source.reading.records import RecordError, decode_utf8
from mslm_data.source.reading.standoff import OUTSIDE, Annotation

_OFFSETS = re.compile(r"(\d{1,9}) (\d{1,9})", re.ASCII)


class _SentenceLine(NamedTuple):
    """A line of a sentence file, and the mention file that belongs to it.

    Attributes:
        data: The line.
        name: Name of the mention file.
        mentions: Sentence id -> the lines of its mentions.
    """

    data: bytes
    name: str
    mentions: Mapping[str, Sequence[NumberedLine]]


class _Sentences(FilledLines["Bc2gm"]):
    """A record for each line of a sentence file: a `_SentenceLine`."""

    def group(
        self, options: Bc2gm, path: Path, lines: Iterator[NumberedLine], /
    ) -> Iterator[tuple[int, _SentenceLine]]:
        file = options.mention_file(path)
        mentions = _group_mentions(options.utf8(file), name=file.name)
        for number, line in super().group(options, path, lines):
            yield number, _SentenceLine(line.data, file.name, mentions)


class Bc2gm(FormSource, TextSource, frozen=True, kw_only=True):
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
    container = _Sentences()

    mentions: Annotated[
        tuple[str, ...],
        Meta(
            description="Names of mention files in the folder of the sentence file. The first one "
            "that exists is used. `{stem}` stands for the sentence file's name without suffix."
        ),
    ] = ("GENE.eval", "{stem}.eval")
    label: Annotated[str, Meta(description="Label of all mentions.")] = "GENE"

    def sniff(self, sample: Sample) -> Guess:
        """Recognise BC2GM; see `Source.sniff`."""
        first = next((line.data for line in lines(sample.head)), b"")
        try:
            _read_sentence(first)
            self.mention_file(sample.path)
        except (RecordError, SourceError):
            return Guess()
        why = "its lines are an ID and a sentence, and a file .eval of mentions lies beside it"
        return Guess(why)

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        """Find the sentence files of each split; see `Source.find`.

        Raises:
            SourceError: There are no sentence files, or one has no file of mentions.
        """
        by_split = super().find(inputs)
        for paths in by_split.values():
            for path in paths:
                self.mention_file(path)
        return by_split

    def files(self, path: Path) -> list[Path]:
        """Return the file of sentences and the file of their mentions."""
        return [path, self.mention_file(path)]

    def mention_file(self, path: Path) -> Path:
        """Return the file of mentions for a file of sentences.

        Raises:
            SourceError: The file does not exist.
        """
        names = [name.replace("{stem}", stem(path)) for name in self.mentions]
        for name in names:
            if file := packed_or_plain(path.parent / name):
                return file
        raise SourceError(
            f"{path}: expected {' or '.join(names)} beside it, found none; set [source] mentions"
        )

    def understand(self, record: Record, found: Findings) -> None:
        """Read a sentence and its mentions. A malformed mention sets it aside."""
        line: _SentenceLine = record.content
        found.id = ""  # of a line without an id
        found.id, text = _read_sentence(line.data)
        found.text = text
        found.sentences = [Sentence(0, len(text))]

        # Index of a character without white space -> position in the text.
        characters = [i for i, character in enumerate(text) if not character.isspace()]
        found.file = line.name
        for mention in line.mentions.get(found.id, ()):
            first, last, words = _read_mention(mention)
            if last < len(characters):
                fragment = (characters[first], characters[last] + 1)
                found.mentions.append(Annotation([fragment], self.label, words))
            else:
                found.left_out[OUTSIDE] += 1


def _read_sentence(data: bytes) -> tuple[str, str]:
    """Return id and text in a line of a sentence file."""
    doc_id, _, text = decode_utf8(data).partition(" ")
    if not doc_id or not text.strip():
        raise RecordError("expected an id, a space and a sentence, got 1 field")
    return doc_id, text


def _group_mentions(data: bytes, *, name: str) -> dict[str, list[NumberedLine]]:
    """Group the lines of a mention file by sentence.

    Raises:
        SourceError: A line names no sentence.
    """
    by_sentence: dict[str, list[NumberedLine]] = {}
    for line in lines(data):
        if not line.data.strip():
            continue
        doc_id, bar, _ = line.data.decode("utf-8", errors="replace").partition("|")
        if not bar:
            raise SourceError(
                f"{name}:{line.number}: expected ID|start end|text, got 1 field; is this the file "
                "of mentions?"
            )
        by_sentence.setdefault(doc_id, []).append(line)
    return by_sentence


def _read_mention(line: NumberedLine) -> tuple[int, int, str]:
    """Return the first and last character of a mention, counted without white space, and its text.

    Raises:
        RecordError: The line is malformed.
    """
    # Invalid bytes in a mention do not match the text, so they count as unplaced.
    fields = line.data.decode("utf-8", errors="replace").split("|", 2)
    offsets = _OFFSETS.fullmatch(fields[1].strip())
    if len(fields) < 3 or offsets is None or int(offsets[2]) < int(offsets[1]):
        raise RecordError(
            "expected ID|start end|text, got a line of another form", line=line.number
        )
    return int(offsets[1]), int(offsets[2]), fields[2]
