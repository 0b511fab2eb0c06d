"""Reads tables with a header and one token per row, with a column that identifies the sentence."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from mslm_data.data.document import Part
from mslm_data.errors import SourceError
from mslm_data.source import Guess, Sample
from mslm_data.source.form import Findings, FormSource, Record, RowGroups
from mslm_data.source.reading import tags
from mslm_data.source.reading.cells import Row
from mslm_data.source.reading.encodings import TextSource
from mslm_data.source.reading.files import ends_with
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.tables import TableLayout, find_layout, read_layout
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


_FEWEST_TAGS = 3
_MOST_OF = 0.9
"""Minimum number and share of tags in the rows of a table without sentences."""


def _separator(path: Path) -> str:
    return "\t" if ends_with(path, ".tsv") else ""


def _rows(options: TokenTable, part: Part) -> Iterator[Row]:
    """Read the rows of a part of a table.

    Raises:
        SourceError: The file is not a table with the columns.
    """
    path = Path(part.path)
    layout = read_layout(path, options, separator=_separator(path), header=True)
    return layout.rows(options.find_columns(layout), part)


class TokenTable(FormSource, TextSource, frozen=True, kw_only=True):
    """Tables of one token per row, such as `Sentence #,Word,POS,Tag`.

    A sentence continues while its column has the same value, or none. A row without word, tag and
    value ends it, also in a table without such a column. Each sentence is a document,
    `file:number`, unless `document_column` identifies documents in the same way. A document with a
    malformed row is set aside.

    `.csv` tables support quoting, and their header shows whether columns are separated by `,`, `;`,
    TAB or `|`. In `.tsv` a quote is an ordinary character, because tokens may be
    quotes. A table is read in one part. Words such as `NA` are words.
    """

    suffixes = (".csv", ".tsv")
    container = RowGroups(_rows, group="document", subgroup="sentence")

    sentence_column: Annotated[
        str,
        Meta(
            description="Column that identifies the sentence. By default the first of `sentence "
            "#`, `sentence`, `sentence_id` and similar names, in any case; without any, blank rows "
            "end sentences."
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
        separator = _separator(sample.path)
        layout = find_layout(sample.head, sample.path, self, separator=separator, header=True)
        found = {role: layout.find(*names) for role, names in NAMES.items()}
        if found["word"] is None or found["tag"] is None:
            return Guess()
        if found["sentence"] is not None:
            return Guess("its header names a sentence, a word and a tag")
        if layout.separator == "\t":  # source `conll` reads it, with its header
            return Guess()
        values = _column(sample.head, layout, found["tag"])
        num_tags = sum(map(tags.is_tag, values))
        has_labels = any(len(value) > 1 for value in values if tags.is_tag(value))
        are_tags = num_tags >= max(_FEWEST_TAGS, _MOST_OF * len(values)) and has_labels
        return Guess("its header names a word and a tag" if are_tags else "")

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

    def _read_token(self, row: Row, found: Findings) -> tuple[str, str]:
        """Return the word and the tag of a row, which is the place of the error if it has none.

        Raises:
            RecordError: The row is malformed.
        """
        found.place = row.place
        word = row.value["word"] or ""
        tag = (row.value["tag"] or "").strip()
        if not word.strip():
            raise RecordError("expected a word and a tag in each row, got no word")
        if self.scheme == "label":
            # An empty cell means outside.
            return word, tag or self.outside
        if not tags.is_tag(tag):
            raise RecordError(not_a_tag(self.tag_column or "tag"))
        return word, tag

    def find_columns(self, layout: TableLayout) -> dict[str, int]:
        """Return role -> column number.

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
        numbers = {}
        for role, option in options.items():
            known = [option.casefold()] if option else NAMES[role]
            number = layout.find(*known)
            if number is None and role == "sentence" and not option:
                continue
            if number is None:
                raise SourceError(
                    f"{layout.path.name}:1: expected a header with one column "
                    f"{' or '.join(known)}, found none or several; name the column with [source] "
                    f"{role}_column"
                )
            numbers[role] = number
        return numbers


def _column(head: bytes, layout: TableLayout, number: int) -> list[str]:
    """Return the values of a column in the first rows of a table, without empty ones."""
    lines = head[: head.rfind(b"\n")].decode(errors="replace").splitlines()[1:]
    rows = csv.reader(lines, delimiter=layout.separator)
    return [row[number] for row in rows if len(row) > number and row[number]]
