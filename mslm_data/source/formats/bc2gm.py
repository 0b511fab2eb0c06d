"""BC2GM as BioCreative II published it: a file of sentences, and beside it one of mentions, counted without spaces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mslm_data.data.document import Document, Part, Sentence, SetAside
from mslm_data.errors import SourceError
from mslm_data.source.reading import inputs as files
from mslm_data.source.reading import records, standoff


class Listed(NamedTuple):
    """A line of a mention file: characters that are not spaces, from `start` to `end` inclusive, and their text."""

    start: int
    end: int
    words: str


@dataclass(frozen=True, kw_only=True)
class Bc2gm:
    """Reads `ID sentence` files with `ID|start end|text` files of mentions.

    Offsets count the sentence's characters without white space, from 0, the end inclusive. A mention whose text is not
    what stands there is counted as unplaced (four lines of the original are wrong by some characters). Mentions of
    sentences that are not in the sentence file are not looked at, as a part of the corpus may come with all mentions.
    ALTGENE.eval, other ways to bound the same mentions, is not read.

    Attributes:
        suffixes: What names of sentence files end with.
        mentions: Mention files, from the sentence file's folder, `{stem}` being that file's; the first there counts.
        label: Label of all mentions.
        splits: Split -> patterns of sentence files; empty goes by the names of files and folders, as in
            `train/train.in`, `test/test.in`, or the `devel-split` of spyysalo/bc2gm-corpus.
    """

    suffixes: tuple[str, ...] = (".in",)
    mentions: tuple[str, ...] = ("GENE.eval", "{stem}.eval")
    label: str = "GENE"
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def find(self, inputs: Sequence[Path]) -> dict[str, list[Path]]:
        """Return split -> sentence files.

        Raises:
            SourceError: There are none, or one has no file of mentions.
        """
        found = files.by_split(inputs, suffixes=self.suffixes, splits=self.splits)
        for path in (path for paths in found.values() for path in paths):
            self.mention_file(path)
        return found

    def mention_file(self, path: Path) -> Path:
        """Return the file of mentions that belongs to a file of sentences.

        Raises:
            SourceError: There is none.
        """
        names = [name.replace("{stem}", records.stem(path)) for name in self.mentions]
        for name in names:
            for beside in (path.parent / name, path.parent / f"{name}.gz"):
                if beside.is_file():
                    return beside
        raise SourceError(
            f"{path.name}: expected {' or '.join(names)} beside it, found none; set [source] mentions"
        )

    def files(self, path: Path) -> list[Path]:
        """Return the sentences and their mentions."""
        return [path, self.mention_file(path)]

    def cut(self, path: Path, *, target_bytes: int) -> Iterator[Part]:
        """Cut between lines."""
        return records.at_lines(path, target_bytes=target_bytes, begins=lambda _, line: bool(line))

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Give each sentence as a document; one whose own line or a mention's line is broken is set aside.

        Raises:
            SourceError: A line of the mention file does not name a sentence.
        """
        path = Path(part.path)
        mention_file = self.mention_file(path)
        mentions = _mentions(mention_file)
        for line in files.lines(files.read_bytes(path, part.start, part.stop), first=part.line):
            if not line.data.strip():
                continue
            place = f"{path.name}:{line.number}"
            try:
                doc_id, _, text = line.data.decode("utf-8").partition(" ")
            except UnicodeDecodeError:
                yield SetAside("", place, "expected UTF-8, got other bytes")
                continue
            if not doc_id or not text.strip():
                yield SetAside("", place, "expected an id, a space and a sentence, got 1 field")
                continue
            own = mentions.get(doc_id, [])
            broken = next((one for one in own if isinstance(one, SetAside)), None)
            yield broken or self._document(
                doc_id, text, [one for one in own if isinstance(one, Listed)], place
            )

    def _document(self, doc_id: str, text: str, listed: Sequence[Listed], place: str) -> Document:
        characters = [i for i, character in enumerate(text) if not character.isspace()]
        inside = [one for one in listed if one.end < len(characters)]
        mentions = [
            standoff.Mention(
                [(characters[one.start], characters[one.end] + 1)], self.label, one.words
            )
            for one in inside
        ]
        placed = standoff.place(text, mentions)
        unplaced = Counter(placed.unplaced)
        unplaced[standoff.MISMATCH] += len(listed) - len(inside)
        return Document(
            id=doc_id,
            text=text,
            spans=placed.spans,
            sentences=(Sentence(0, len(text)),),
            unplaced=dict(+unplaced),
            adjusted=placed.adjusted,
            place=place,
        )


def _mentions(path: Path) -> dict[str, list[Listed | SetAside]]:
    """Read a file of mentions: sentence -> its mentions; a line that names a sentence but is broken sets it aside."""
    found: dict[str, list[Listed | SetAside]] = {}
    for line in files.lines(files.read_bytes(path)):
        place = f"{path.name}:{line.number}"
        if not line.data.strip():
            continue
        fields = line.data.decode("utf-8", errors="replace").split("|", 2)
        if len(fields) < 2:
            raise SourceError(
                f"{place}: expected ID|start end|text, got 1 field; is this the file of mentions?"
            )
        offsets = re.fullmatch(r"(\d{1,9}) (\d{1,9})", fields[1].strip(), re.ASCII)
        if len(fields) < 3 or offsets is None or int(offsets[2]) < int(offsets[1]):
            broken = SetAside(
                fields[0], place, "expected ID|start end|text, got a line of another form"
            )
            found.setdefault(fields[0], []).append(broken)
            continue
        found.setdefault(fields[0], []).append(Listed(int(offsets[1]), int(offsets[2]), fields[2]))
    return found
