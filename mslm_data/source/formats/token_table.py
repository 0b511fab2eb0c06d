"""Reads tables with a header and one token per row, with a column that identifies the sentence."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from mslm_data.data.document import Part
from mslm_data.errors import SourceError
from mslm_data.source import Guess, Sample
from mslm_data.source.form import Findings, FormSource, Record, RowGroups
from mslm_data.source.reading import csv_records, tags
from mslm_data.source.reading.encodings import TextSource, marked, to_utf8
from mslm_data.source.reading.files import ends_with
from mslm_data.source.reading.plain_tables import open_table
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.tables import TableReader, TableRow
from mslm_data.source.reading.tagged_lines import not_a_tag

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


def _separator(path: Path) -> str:
    return "\t" if ends_with(path, ".tsv") else ","


def _rows(options: TokenTable, part: Part) -> Iterator[TableRow]:
    """Read the rows of a part of a table.

    Raises:
        SourceError: The file is not a table with the columns.
    """
    path = Path(part.path)
    separator = _separator(path)
    if separator == ",":
        reader = TableReader(columns={}, keys=(), separator=separator, text=options)
        columns = options.find_columns(reader.names(path), path.name)
        yield from dataclasses.replace(reader, columns=columns).rows(part)
        return

    table = open_table(path, options, separator=separator, header=True)
    columns = options.find_columns(table.names, path.name)
    numbers = {role: table.names.index(name) for role, name in columns.items()}
    for number, row in enumerate(table.rows(numbers, part, with_blank=True)):
        yield TableRow(number, f"{path.name}:{row.line}", columns, row.cell)


class TokenTable(FormSource, TextSource, frozen=True, kw_only=True):
    """Tables of one token per row, such as `Sentence #,Word,POS,Tag`.

    A sentence continues while its column has the same value, or none. A row without word, tag and
    value ends it. Each sentence is a document, `file:number`, unless `document_column` identifies
    documents in the same way. A document with a malformed row is set aside.

    `.csv` tables support quoting. In `.tsv` a quote is an ordinary character, because tokens may be
    quotes. A table is read in one part. Words such as `NA` are words.
    """

    suffixes = (".csv", ".tsv")
    container = RowGroups(_rows, group="document", subgroup="sentence")

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

    def sniff(self, sample: Sample) -> Guess:
        """Recognise a table of tokens; see `Source.sniff`."""
        head = to_utf8(sample.head, marked(sample.head, "utf-8"))
        names = csv_records.header_names(head, separator=_separator(sample.path), encoding="utf-8")
        has_all = all(any(name in names for name in role_names) for role_names in NAMES.values())
        return Guess("its header names a sentence, a word and a tag" if has_all else "")

    def understand(self, record: Record, found: Findings) -> None:
        """Read the sentences of a document."""
        sentences = [[self._read_token(row, found) for row in rows] for rows in record.content]

        found.place = record.place
        found.words = []
        num_words = 0
        for tokens in sentences:
            values = [tag for _, tag in tokens]
            if self.scheme == "label":
                spans = tags.runs(values, outside=self.outside)
            else:
                spans = found.decode(values, untyped=self.untyped)
            found.spans += [span.shifted(num_words) for span in spans]
            found.words.append([word for word, _ in tokens])
            num_words += len(tokens)

    def _read_token(self, row: TableRow, found: Findings) -> tuple[str, str]:
        """Return the word and the tag of a row, which is the place of the error if it has none.

        Raises:
            RecordError: The row is malformed.
        """
        found.place = row.place
        word = row.value("word") or ""
        tag = (row.value("tag") or "").strip()
        if not word.strip():
            raise RecordError("expected a word and a tag in each row, got no word")
        if self.scheme == "label":
            # An empty cell means outside.
            return word, tag or self.outside
        if not tags.is_tag(tag):
            raise RecordError(not_a_tag(self.tag_column or "tag"))
        return word, tag

    def find_columns(self, names: Sequence[str], file: str) -> dict[str, str]:
        """Return role -> column name.

        Args:
            names: Columns of the table, in lower case.
            file: Name of the file, for messages.

        Raises:
            SourceError: The column of a role is missing, or occurs twice.
        """
        options = {
            "sentence": self.sentence_column,
            "word": self.word_column,
            "tag": self.tag_column,
        }
        if self.document_column:
            options["document"] = self.document_column
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
        return columns
