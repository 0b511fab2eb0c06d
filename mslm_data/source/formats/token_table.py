"""Reads tables with a header and one token per row, with a column that identifies the sentence."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source.reading import csv_records, tags
from mslm_data.source.reading.encodings import TextSource, marked, to_utf8
from mslm_data.source.reading.files import ends_with, stem
from mslm_data.source.reading.plain_tables import open_table
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.tables import TableReader, TableRow
from mslm_data.source.reading.tagged_lines import not_a_tag
from mslm_data.source.reading.word_documents import make_word_document

NAMES: Mapping[str, Sequence[str]] = {
    "sentence": (
        "sentence #",
        "sentence",
        "sentence_id",
        "sentence id",
        "sentence_idx",
        "sentence_num",
        "sentence number",
        "sent_id",
        "sent",
    ),
    "word": ("word", "token", "form", "words", "tokens"),
    "tag": ("ner_tag", "ner", "bio", "iob", "ner_tags", "tag", "tags", "label", "labels", "entity"),
}
"""Role -> known names of its column, in order of preference, in any case."""

_SCHEME_BYTES = 1 << 20


class TokenTable(TextSource, frozen=True, kw_only=True):
    """Tables of one token per row, such as `Sentence #,Word,POS,Tag`.

    A sentence continues while its column has the same value, or none. A row without word, tag and
    value ends it. Each sentence is a document, `file:number`, unless `document_column` identifies
    documents in the same way. A document with a malformed row is set aside.

    `.csv` tables support quoting. In `.tsv` a quote is an ordinary character, because tokens may be
    quotes; such a file is read in one part. Words such as `NA` are words.
    """

    suffixes = (".csv", ".tsv")

    sentence_column: Annotated[
        str,
        Meta(
            description="Column that identifies the sentence. By default the first of `sentence "
            "#`, `sentence`, `sentence_id` and similar names, in any case."
        ),
    ] = ""
    word_column: Annotated[
        str,
        Meta(
            description="Column of the word. By default the first of `word`, `token`, `form`, "
            "`words` and `tokens`."
        ),
    ] = ""
    tag_column: Annotated[
        str,
        Meta(
            description="Column of the tag. By default the first of `ner_tag`, `ner`, `bio`, "
            "`iob`, `tag`, `label`, `entity` and their plurals."
        ),
    ] = ""
    document_column: Annotated[
        str, Meta(description='Column that identifies the document. Default: "", none.')
    ] = ""
    untyped: Annotated[str, Meta(description="Label of mentions with bare tags B and I.")] = (
        "Entity"
    )
    scheme: Annotated[
        Literal["auto", "label"],
        Meta(
            description='"auto" for tags of IOB1, IOB2, IO, IOBES and BILOU; "label" for labels '
            "without prefixes, of which equal neighbours form one mention."
        ),
    ] = "auto"
    outside: Annotated[
        str, Meta(description='Label of words outside mentions, for scheme "label".')
    ] = "O"

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:
        """Return the evidence for a table of tokens; see `Source.recognises`."""
        head = to_utf8(head, marked(head, "utf-8"))
        names = csv_records.header_names(head, separator=_separator(path), encoding="utf-8")
        has_all = all(any(name in names for name in role_names) for role_names in NAMES.values())
        return "its header names a sentence, a word and a tag" if has_all else ""

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a `.csv` table between documents; see `Source.cut`.

        Raises:
            SourceError: The file is not a table with these columns.
        """
        path = Path(part.path)
        if _separator(path) == "\t":
            return iter([part])
        groups = _Groups(self.document_column != "")
        return self._table(path).cut_before(
            part, target_bytes=target_bytes, begins=groups.begins_document
        )

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Read each document; see `Source.read`.

        Raises:
            SourceError: The file is not a table with these columns.
        """
        path = Path(part.path)
        opens_with_i = functools.cache(lambda: self._opens_with_i(path))
        for number, document in enumerate(self._documents(part), start=part.first):
            doc_id = f"{stem(path)}:{number}"
            if document.problem:
                place = document.problem_place or document.place
                yield SetAside(doc_id, place, document.problem)
                continue

            mentions = self._decoded(document, i_opens=False)
            if isinstance(mentions, _Mentions) and mentions.late and opens_with_i():
                mentions = self._decoded(document, i_opens=True)
            if isinstance(mentions, SetAside):
                yield mentions._replace(id=doc_id)
            else:
                yield make_word_document(
                    doc_id,
                    document.words,
                    mentions.spans,
                    place=document.place,
                    late=mentions.late,
                )

    def _decoded(self, document: _Tokens, *, i_opens: bool) -> _Mentions | SetAside:
        """Find the mentions of a document, or the tag that cannot be read."""
        document_spans: list[tags.WordSpan] = []
        num_words = num_late = 0
        for number, sentence_tags in enumerate(document.tags):
            if self.scheme == "label":
                # An empty cell means outside.
                labels = [tag or self.outside for tag in sentence_tags]
                spans, late = tags.runs(labels, outside=self.outside), 0
            else:
                try:
                    spans, late = tags.decode(sentence_tags, untyped=self.untyped, i_opens=i_opens)
                except ValueError:
                    bad = next(at for at, tag in enumerate(sentence_tags) if not tags.is_tag(tag))
                    place = document.places[number][bad]
                    return SetAside("", place, not_a_tag(self.tag_column or "tag"))
            document_spans += [span.shifted(num_words) for span in spans]
            num_words += len(sentence_tags)
            num_late += late
        return _Mentions(document_spans, num_late)

    def _opens_with_i(self, path: Path) -> bool:
        """Return whether I opens mentions in a file, judged by its beginning."""
        num_mentions = num_late = 0
        for document in self._documents(Part(str(path), 0, _SCHEME_BYTES)):
            mentions = self._decoded(document, i_opens=False)
            if not document.problem and isinstance(mentions, _Mentions):
                num_mentions += len(mentions.spans)
                num_late += mentions.late
        return tags.opens_with_i(mentions=num_mentions, late=num_late)

    def _documents(self, part: Part) -> Iterator[_Tokens]:
        """Group the rows of a part into documents."""
        groups = _Groups(self.document_column != "")
        document = _Tokens()
        for row in self._rows(part):
            if groups.begins_document(row) and document.place:
                yield document
                document = _Tokens()
            if groups.is_blank:
                continue
            document.add(row, begins_sentence=groups.is_new_sentence)
        if document.place:
            yield document

    def _rows(self, part: Part) -> Iterator[TableRow]:
        path = Path(part.path)
        if _separator(path) != "\t":
            return self._table(path).rows(part)
        return self._tsv_rows(part)

    def _tsv_rows(self, part: Part) -> Iterator[TableRow]:
        path = Path(part.path)
        table = open_table(path, self, separator="\t", header=True)
        columns = self._columns(table.names, path.name)
        numbers = {role: table.names.index(name) for role, name in columns.items()}
        for number, row in enumerate(table.rows(numbers, part, with_blank=True)):
            yield TableRow(number, f"{path.name}:{row.line}", columns, row.cell)

    def _table(self, path: Path) -> TableReader:
        """Open a `.csv` table.

        Raises:
            SourceError: The table has no header with the required columns.
        """
        table = TableReader(columns={}, keys=(), separator=",", text=self)
        columns = self._columns(table.names(path), path.name)
        return dataclasses.replace(table, columns=columns)

    def _columns(self, names: Sequence[str], file: str) -> dict[str, str]:
        """Return role -> column name.

        Raises:
            SourceError: The column of a role is missing, or occurs twice.
        """
        options = {
            "sentence": self.sentence_column,
            "word": self.word_column,
            "tag": self.tag_column,
        }
        columns = {}
        for role, option in options.items():
            known = [option.casefold()] if option else NAMES[role]
            column = next((name for name in known if names.count(name) == 1), None)
            if column is None:
                raise SourceError(
                    f"{file}:1: expected a header with one column {' or '.join(known)}, found "
                    f"none or several; name the column with [source] {role}_column"
                )
            columns[role] = column
        if self.document_column:
            if names.count(self.document_column.casefold()) != 1:
                raise SourceError(
                    f"{file}:1: expected a header with one column {self.document_column}, found "
                    "none or several; check [source] document_column"
                )
            columns["document"] = self.document_column.casefold()
        return columns


class _Mentions(NamedTuple):
    """The mentions of a document, and the number of late ones; see `tags.decode`."""

    spans: list[tags.WordSpan]
    late: int


class _Tokens:
    """The words and tags of a document, by sentence.

    Attributes:
        words: Words of each sentence.
        tags: Tags of each sentence, one per word.
        places: Places of each sentence's words.
        place: Place of the first row, "" if there are no rows.
        problem: Reason of the first malformed row, None if there is none.
        problem_place: Place of this row.
    """

    def __init__(self) -> None:
        self.words: list[list[str]] = []
        self.tags: list[list[str]] = []
        self.places: list[list[str]] = []
        self.place = ""
        self.problem: Reason | None = None
        self.problem_place = ""

    def add(self, row: TableRow, *, begins_sentence: bool) -> None:
        """Add a row."""
        self.place = self.place or row.place
        if begins_sentence or not self.words:
            for sentence_lists in (self.words, self.tags, self.places):
                sentence_lists.append([])
        try:
            word = row.value("word") or ""
            tag = (row.value("tag") or "").strip()
            if not word.strip():
                raise RecordError("expected a word and a tag in each row, got no word")
        except RecordError as error:
            # Report the first malformed row, and skip the others.
            if not self.problem:
                self.problem = error.reason
                self.problem_place = row.place
            return
        self.words[-1].append(word)
        self.tags[-1].append(tag)
        self.places[-1].append(row.place)


class _Groups:
    """Finds the beginnings of sentences and documents in consecutive rows.

    Attributes:
        is_blank: Whether the last row was blank.
        is_new_sentence: Whether the last row began a sentence.
    """

    def __init__(self, has_documents: bool) -> None:
        self.is_blank = False
        self.is_new_sentence = False
        self._has_documents = has_documents
        self._sentence: str | None = None
        self._document: str | None = None

    def begins_document(self, row: TableRow) -> bool:
        """Return whether a row begins a document, and update the attributes."""
        sentence = _value(row, "sentence")
        document = _value(row, "document") if self._has_documents else ""
        self.is_blank = sentence == document == _value(row, "word") == _value(row, "tag") == ""
        if self.is_blank:
            self.is_new_sentence = False
            self._sentence = None
            return False

        is_new_document = _differs(self._document, document)
        self.is_new_sentence = is_new_document or _differs(self._sentence, sentence)
        if self.is_new_sentence:
            self._sentence = sentence
            self._document = document or self._document or ""
        elif sentence:
            self._sentence = sentence
        return is_new_document if self._has_documents else self.is_new_sentence


def _differs(before: str | None, value: str) -> bool:
    """Return whether a value begins a new group. An empty value continues the current one."""
    return before is None or value not in ("", before)


def _value(row: TableRow, role: str) -> str:
    """Return a stripped value. In a damaged row, word and tag count as filled."""
    try:
        return (row.value(role) or "").strip()
    except RecordError:
        return "" if role in ("sentence", "document") else "?"


def _separator(path: Path) -> str:
    return "\t" if ends_with(path, ".tsv") else ","
