from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source.form import Record
from mslm_data.source.formats.row_sources import RowSource
from mslm_data.source.reading.shapes import SHAPES
from mslm_data.source.reading.shapes.base import RowsFile


def read(
    row: object,
    *,
    first: Sequence[object] = (),
    names: Any = None,
    written: Collection[str] = (),
    **options: Any,
) -> Document | SetAside | NotChosen:
    """Read a row of a file with given first rows. By default the file has only this row."""
    rows = [one for one in first or [row] if isinstance(one, dict)]

    class Given(RowSource, frozen=True, kw_only=True):
        def records(self, part: Part) -> Iterator[Record | SetAside | NotChosen]:
            return iter([Record("rows:0", "rows.jsonl:1", row, Path(part.path))])

        def file(self, path: Path) -> RowsFile:
            return RowsFile(
                options=self, shapes=SHAPES, first=rows, names=names or {}, written=written
            )

    return next(Given(**options).read(Part("rows.jsonl")))


def document(row: object, **options: Any) -> Document:
    found = read(row, **options)
    assert isinstance(found, Document), found
    return found


TEXT = "Had gout in 1990."


@pytest.mark.parametrize("number", [1, 20])
@pytest.mark.parametrize(
    "make",
    [
        lambda word: {word: "NAME"},
        lambda word: {word: "NAME", "title": "a"},
        lambda word: {"text": "A.", "entities": [{word: "NAME"}]},
        lambda word: {"text": "A.", "entities": {word: "NAME"}},
        lambda word: {"data": {word: "He came."}, "annotations": [{"result": []}]},
        lambda word: {"data": {word: "He came.", "b": "A."}, "annotations": [{"result": []}]},
        lambda word: {"fields": {word: "A."}, "responses": {}},
        lambda word: {"tokens": ["A"], word: "NAME"},
        lambda word: {"text": "A.", "label": {word: [0, 1]}},
    ],
)
def test_document__never_shows_a_word_as_key(make: Any, number: int) -> None:
    """Models write `{word: label}`, and a patient's word is no key to print."""
    rows = [make(f"Smith{letter}") for letter in "abcdefghijklmnopqrst"[:number]]

    try:
        found: object = read(rows[0], first=rows)
    except SourceError as error:
        found = error

    if not isinstance(found, Document):
        assert "Smith" not in str(found)


def test_document__takes_whole_floats_for_ids() -> None:
    assert document({"id": 7.0, "text": TEXT}).id == "7"
    assert document({"note": 7.0, "text": TEXT}, id_column="note").id == "7"
    for value in (7.5, float("nan"), [7], True):
        assert document({"id": value, "text": TEXT}).id == "rows:0"
        found = read({"note": value, "text": TEXT}, id_column="note")
        assert isinstance(found, SetAside)
        assert found.reason.text.endswith("text or a whole number, got another value")
