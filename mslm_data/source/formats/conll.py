"""CoNLL files: a token and its tag a line, a blank line after each sentence, in any of their dialects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.kernels.lines import MOST_FIELDS
from mslm_data.source.reading import inputs as files
from mslm_data.source.reading import marks, records, rows, tags
from mslm_data.source.reading.tokens import documents_of_rows

SUFFIXES = (".tsv", ".txt", ".conll", ".iob", ".iob2", ".bio")


@dataclass(frozen=True, kw_only=True)
class Conll(files.SingleFile):
    """Reads token-per-line files.

    Columns are separated by a TAB, or by spaces in a line without one; there are 2 to 5. Nothing is quoted, no word
    means "missing". `-DOCSTART-` and `###MEDLINE:` open a document, in every spelling, with the id they carry, else
    `file:ordinal`. In a file without them each sentence is a document, `file:number`.

    All of BC2GM, BC5CDR, NCBI-disease and JNLPBA as distributed with Crichton et al. 2017 read to their published
    numbers of sentences and mentions.

    Attributes:
        word_column: Column of the word, from 0.
        tag_column: Column of the tag; None finds the last one that holds tags.
        untyped: Label of mentions whose tag is a bare B or I.
        scheme: "auto" for IOB1, IOB2, IO, IOBES and BILOU alike; "label" where the tag is the label itself and equal
            neighbours are one mention.
        outside: The tag of words in no mention, with "label" only.
        splits: Split -> patterns of files; empty goes by the files' names.
    """

    word_column: int = 0
    tag_column: int | None = None
    untyped: str = "Entity"
    scheme: Literal["auto", "label"] = "auto"
    outside: str = "O"
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, column in (("word_column", self.word_column), ("tag_column", self.tag_column)):
            if column is not None and not 0 <= column < MOST_FIELDS:
                raise ValueError(f"expected {name} from 0 to {MOST_FIELDS - 1}, got {column}")
        if self.word_column == self.tag_column:
            raise ValueError(
                f"expected word_column and tag_column to differ, got {self.word_column} for both"
            )

    def find(self, inputs: Sequence[Path]) -> dict[str, list[Path]]:
        """Return split -> files; see `inputs.by_split`."""
        return files.by_split(inputs, suffixes=SUFFIXES, splits=self.splits)

    def cut(self, path: Path, *, target_bytes: int) -> Iterator[Part]:
        """Cut at document marks if the file has any, else between sentences."""
        return marks.cut(path, target_bytes=target_bytes)

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Give the documents of a part; one with a broken line is set aside whole.

        Raises:
            SourceError: Most lines of the file's beginning are not a token and a tag.
        """
        path = Path(part.path)
        name, stem = path.name, records.stem(path)
        columns = self.columns(path)
        data = rows.clean(files.read_bytes(path, part.start, part.stop), first=part.line)
        pieces, data = marks.divide(data, first=part.line)
        found = rows.scan(data, first=part.line, columns=columns)
        ids = [
            piece.id or f"{stem}:{number}" for number, piece in enumerate(pieces, start=part.first)
        ]
        places = [f"{name}:{max(piece.line - 1, 1)}" for piece in pieces]
        firsts = np.searchsorted(found.lines, [piece.line for piece in pieces])
        if not pieces:
            ids = [
                f"{stem}:{number}" for number in range(part.first, part.first + len(found.lines))
            ]
            places = [f"{name}:{line}" for line in found.lines.tolist()]
            firsts = np.arange(len(found.lines))
        mentions = tags.find(found.tags, found.offsets, self._meanings(found.names))
        yield from documents_of_rows(found, mentions, firsts, zip(ids, places, strict=True))

    def columns(self, path: Path) -> rows.Columns:
        """Find the file's columns from its beginning, so that all its parts are read alike.

        Raises:
            SourceError: Most lines there are not a token and a tag.
        """
        is_tag = tags.is_tag if self.scheme == "auto" else bool
        found = rows.find_columns(
            rows.head(path), word=self.word_column, tag=self.tag_column, is_tag=is_tag
        )
        if isinstance(found, rows.Problem):
            raise SourceError(
                f"{path.name}:{found.line}: {found.reason}, as in most lines; "
                f"check [source] use, or name the columns with word_column and tag_column"
            )
        return found

    def _meanings(self, names: Sequence[str]) -> tags.Meanings:
        if self.scheme == "label":
            return tags.meanings_of_labels(names, outside=self.outside)
        return tags.meanings(tuple(names), untyped=self.untyped)
