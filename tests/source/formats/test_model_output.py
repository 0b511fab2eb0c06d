"""Files of programs that find mentions with models, compared with a parser of a few lines each.

The files are those of `tests/cases/jsonl/`, as their programs wrote them.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mslm_data.data.document import Document, Part
from mslm_data.source import SOURCES
from mslm_data.source.recognise import recognise
from tests.source.cases import CASES, write_files

Mention = tuple[str, str]
"""Label and words, in small letters."""
Parser = Callable[[Any], tuple[str, list[Mention]]]
"""Function that returns the text and the mentions of a row."""


def objects(column: str, label: str, words: str, text: str = "text") -> Parser:
    """Make a parser of rows with a list of objects, which may be in Python's notation."""

    def parse(row: Any) -> tuple[str, list[Mention]]:
        listed = row[column] if isinstance(row[column], list) else ast.literal_eval(row[column])
        return row[text], [(one[label], one[words]) for one in listed]

    return parse


def by_label(row: Any) -> tuple[str, list[Mention]]:
    """Parse GLiNER2's rows: the words of each label, or objects with them."""
    found = row.get("output") or row.get("result") or row
    return row.get("text") or row["input"], [
        (label, one["text"] if isinstance(one, dict) else one)
        for label, listed in found["entities"].items()
        for one in listed
    ]


def tokens(row: Any) -> tuple[str, list[Mention]]:
    """Parse tagged words. A word that does not begin a mention follows the one before it."""
    found: list[Mention] = []
    for one in row["entities"]:
        prefix, _, label = one["entity"].partition("-")
        found.append((label, one["word"]) if prefix == "B" else
                     (label, f"{found.pop()[1]} {one['word']}"))  # fmt: skip
    return row["text"], found


PARSERS: dict[tuple[str, int], Parser] = {
    ("reads_langextract", 0): objects("extractions", "extraction_class", "extraction_text"),
    ("reads_gliner2_training_data", 0): by_label,
    ("reads_gliner2_results", 0): by_label,
    ("reads_gliner2_results", 1): by_label,
    ("reads_gliner2_results", 2): by_label,
    ("reads_pipelines_of_transformers", 0): objects("entities", "entity_group", "word"),
    ("reads_pipelines_of_transformers", 1): tokens,
    ("reads_presidio_research", 0): objects("spans", "entity_type", "entity_value", "full_text"),
    ("reads_edsnlp", 0): objects(
        "entities", "note_nlp_source_value", "lexical_variant", "note_text"
    ),
    ("reads_lists_in_the_notation_of_python", 0): objects("spans", "label", "text"),
    ("reads_results_of_comprehend_medical", 0): objects("Entities", "Type", "Text"),
}
"""File of cases and number of the case -> parser of a row."""


def rows_of(path: Path) -> Iterator[Any]:
    text = path.read_text(encoding="utf-8")
    return iter(json.loads(text)) if text.startswith("[") else map(json.loads, text.splitlines())


def write(name: str, number: int, folder: Path) -> Path:
    """Write the file of a case."""
    group = json.loads((CASES / f"jsonl/{name}.json").read_text(encoding="utf-8"))
    case = {**group, **group["cases"][number]}
    write_files({case["file"]: case["text"]}, folder)
    return folder / str(case["file"])


def read(path: Path) -> list[Any]:
    """Read a file as `auto` does."""
    source = recognise([path]).tables["source"]
    return [*SOURCES.make(source.pop("use"), source).read(Part(str(path)))]


@pytest.mark.parametrize(("name", "number"), list(PARSERS))
def test_read__finds_the_mentions_of_the_file_or_counts_them(
    name: str, number: int, tmp_path: Path
) -> None:
    path = write(name, number, tmp_path)

    source = recognise([path]).tables["source"]
    finds_all = source.get("occurrences") == "all"
    documents = read(path)

    parsed = [*map(PARSERS[name, number], rows_of(path))]
    assert len(documents) == len(parsed) > 1
    for document, (text, mentions) in zip(documents, parsed, strict=True):
        assert isinstance(document, Document)
        assert document.text == text
        found = [(span.label, text[span.start : span.end].lower()) for span in document.spans]
        listed = [(label, words.lower()) for label, words in mentions]
        num_left_out = sum(document.unplaced.values())
        if finds_all:
            found = [*set(found)]
        assert len(found) + num_left_out == len(listed)
        assert all(found.count(one) <= listed.count(one) for one in found)


@pytest.mark.parametrize(("name", "number"), list(PARSERS))
def test_read__finds_the_same_in_parquet(name: str, number: int, tmp_path: Path) -> None:
    path = write(name, number, tmp_path)
    parquet = tmp_path / "parquet/a.parquet"
    parquet.parent.mkdir()
    pq.write_table(pa.Table.from_pylist([*rows_of(path)]), parquet)

    found, expected = read(parquet), read(path)

    assert [replace(document, place="") for document in found] == [
        replace(document, place="") for document in expected
    ]
