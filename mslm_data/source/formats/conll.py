"""Reads CoNLL files of any dialect: a token and its tag a line, blank lines between sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.data.documents import Documents
from mslm_data.errors import SourceError
from mslm_data.kernels.lines import MOST_FIELDS
from mslm_data.source import Source
from mslm_data.source.reading import marks, tagged_lines, tags
from mslm_data.source.reading.encodings import TextOptions
from mslm_data.source.reading.files import LinesOfFile, stem
from mslm_data.source.reading.tagged_lines import BrokenLine, TagColumns, TaggedSentences
from mslm_data.source.reading.word_documents import documents_of_lines

_SCHEME_BYTES = 1 << 20
"""How much of a file's beginning decides whether I opens mentions in it."""


@dataclass(frozen=True, kw_only=True)
class Conll(TextOptions, Source):
    """Files of one token a line.

    Columns are separated by a TAB, or by spaces in a line without one; there are 2 to 5. Nothing is
    quoted, and no word means "missing". `-DOCSTART-` and `###MEDLINE:` open a document, in every
    spelling, with the id they carry, or else `file:ordinal`. In a file without them each sentence
    is a document, `file:number`.

    A mention that begins with I instead of B is read, and counted in `Document.adjusted`, unless
    that is the file's scheme (IOB1, IO); see `tags.opens_with_i`.

    BC2GM, BC5CDR, NCBI-disease and JNLPBA as distributed with Crichton et al. 2017 all read to
    their published numbers of sentences and mentions.

    Attributes:
        word_column: Column of the word, from 0.
        tag_column: Column of the tag; None finds the last one that holds tags.
        untyped: Label of mentions whose tag is a bare B or I.
        scheme: "auto" for tags of IOB1, IOB2, IO, IOBES and BILOU; "label" where the tag is the
            label itself, so that equal neighbours are one mention.
        outside: The tag of words in no mention; for "label" only.
    """

    suffixes = (".tsv", ".txt", ".conll", ".iob", ".iob2", ".bio")

    word_column: int = 0
    tag_column: int | None = None
    untyped: str = "Entity"
    scheme: Literal["auto", "label"] = "auto"
    outside: str = "O"

    def __post_init__(self) -> None:
        for name, column in (("word_column", self.word_column), ("tag_column", self.tag_column)):
            if column is not None and not 0 <= column < MOST_FIELDS:
                raise ValueError(f"expected {name} from 0 to {MOST_FIELDS - 1}, got {column}")
        if self.word_column == self.tag_column:
            raise ValueError(
                f"expected word_column and tag_column to differ, got {self.word_column} for both"
            )

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file at document marks if it has any, else between sentences; see `Source.cut`."""
        if self.is_one_part(Path(part.path)):
            return iter([part])
        return marks.cut(part, target_bytes=target_bytes)

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Read the documents of a part, those that are set aside first; see `batches`."""
        for record in self.batches(part):
            if isinstance(record, SetAside):
                yield record
            else:
                yield from record

    def batches(self, part: Part) -> Iterator[Documents | SetAside]:
        """Read the documents of a part as one batch, without an object for each.

        A document with a broken line is set aside whole; all of these come before the batch.

        Raises:
            SourceError: Most lines of the file's beginning are not a token and a tag.
        """
        path = Path(part.path)
        of_file = stem(path)
        columns = self.columns(path)
        data = tagged_lines.clean(self.utf8(path, part.start, part.stop), first=part.line)
        documents, data = marks.divide(data, first=part.line)
        found = tagged_lines.scan(data, first=part.line, columns=columns)

        if documents:
            given = [document.id for document in documents]
            lines = np.array([max(document.line - 1, 1) for document in documents])
            firsts = np.searchsorted(found.lines, [document.line for document in documents])
            numbered = enumerate(given, start=part.first)
            ids = [doc_id or f"{of_file}:{number}" for number, doc_id in numbered]
        else:
            lines = found.lines
            firsts = np.arange(len(lines))
            ids = [f"{of_file}:{number}" for number in range(part.first, part.first + len(lines))]

        mentions = self._decode(found)
        if mentions.late.any() and self._opens_with_i(path, columns):
            mentions = self._decode(found, i_opens=True)
        yield from documents_of_lines(found, mentions, firsts, ids, LinesOfFile(path.name, lines))

    def columns(self, path: Path) -> TagColumns:
        """Find a file's columns from its beginning, so that all its parts are read alike.

        Raises:
            SourceError: Most lines there are not a token and a tag.
        """
        is_tag = tags.is_tag if self.scheme == "auto" else bool
        head = tagged_lines.head(self.beginning(path, tagged_lines.HEAD_BYTES))
        found = tagged_lines.find_columns(
            head, word=self.word_column, tag=self.tag_column, is_tag=is_tag
        )
        if isinstance(found, BrokenLine):
            raise SourceError(
                f"{path.name}:{found.line}: {found.reason}, as in most lines; "
                f"check [source] use, or name the columns with word_column and tag_column"
            )
        return found

    def _decode(self, found: TaggedSentences, *, i_opens: bool = False) -> tags.TaggedMentions:
        return tags.decode_sentences(
            found.tags, found.offsets, self._meanings(found.names, i_opens=i_opens)
        )

    def _meanings(self, names: Sequence[str], *, i_opens: bool) -> tags.TagMeanings:
        if self.scheme == "label":
            return tags.meanings_of_labels(names, outside=self.outside)
        return tags.meanings(tuple(names), untyped=self.untyped, i_opens=i_opens)

    def _opens_with_i(self, path: Path, columns: TagColumns) -> bool:
        """Return whether I opens mentions in a file.

        Its beginning decides, so that all its parts agree.
        """
        data = tagged_lines.clean(self.beginning(path, _SCHEME_BYTES))
        _, data = marks.divide(data, first=1)
        mentions = self._decode(tagged_lines.scan(data, first=1, columns=columns))
        return tags.opens_with_i(mentions=len(mentions.spans), late=int(mentions.late.sum()))
