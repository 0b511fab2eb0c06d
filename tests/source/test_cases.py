"""Cases of all forms: input files, options and the documents expected from them.

`tests/cases/FORM/WHAT_HOLDS.json` has the cases of a promise of source FORM; those of
`tests/cases/rows/` are single rows of tables, for `reading/shapes`. `tests/cases/FORM.json` is the
form's small corpus, see formats/fixtures. To add one, write its input,
run the test, and compare what is found with the form's description before you copy it.

A case is an object:

| key | meaning |
|---|---|
| `files` | name -> content: a text, a list of texts to join, `{"times": 3, "text": …}`, `{"latin-1": …}` |
| `file`, `text` | the same of a single file |
| `read` | the file to read, if there are several |
| `options` | options of the source |
| `records` | what is read: documents, `set_aside` and `not_chosen`; `{"times": 3, "records": […]}` repeats |
| `error` | instead of records: a pattern that the `SourceError` fits |
| `guess` | what `sniff` guesses; `why` and `problem` are words in the answer |
| `settle`, `settles`, `settle_error` | files given to `settle`, and the options or the pattern of the error |
| `row`, `first`, `names`, `written` | for `rows`: the row, the first rows of its file, names of tags, columns of written lists |

Keys beside `cases` hold for all cases of the file. A document has the fields of `Document`, of
which those without a value are left out; `spans` have start, words, label and concept. Its id is
`STEM:NUMBER` if none is given; places, words and sentences are compared where they are given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source import SOURCES, Sample, Source
from mslm_data.source.form import Record
from mslm_data.source.formats.row_sources import RowSource
from mslm_data.source.reading.cells import named_columns
from mslm_data.source.reading.files import stem
from mslm_data.source.reading.shapes import SHAPES
from mslm_data.source.reading.shapes.base import RowsFile
from tests.source.cases import CASES, write_files

ROWS = "rows"
WORDS = re.compile("secret|sesame|Smith|Gout")
"""Words of the files that no message may repeat."""


def list_cases() -> Iterator[Any]:
    """Yield form and case, with the file and the number of the case as id."""
    for path in sorted(CASES.glob("*/*.json")):
        group = json.loads(path.read_text(encoding="utf-8"))
        cases = group.pop("cases")
        for number, case in enumerate(cases):
            form = path.parent.name
            yield pytest.param(form, {**group, **case}, id=f"{form}-{path.stem}-{number}")


def expand(notes: list[Any]) -> list[Any]:
    """Repeat records."""
    found: list[Any] = []
    for note in notes:
        is_repeated = isinstance(note, dict) and note.keys() == {"times", "records"}
        found += expand(note["records"]) * note["times"] if is_repeated else [note]
    return found


def check_document(found: Document, expected: Mapping[str, Any], default_id: str) -> None:
    spans = [
        [span.start, found.text[span.start : span.end], span.label, span.concept, span.score]
        for span in found.spans
    ]
    filler = ["", "", "", "", 1.0]
    all_spans = [[*span, *filler[len(span) :]] for span in expected.get("spans", [])]
    for name in ("place", "sentences", "words"):
        if name in expected:
            value = getattr(found, name)
            plain = value.tolist() if name == "words" and value is not None else value
            assert json.loads(json.dumps(plain)) == expected[name], name

    assert found.id == expected.get("id", default_id)
    assert found.text == expected["text"]
    assert spans == all_spans
    assert {reason.text: count for reason, count in found.unplaced.items()} == expected.get(
        "unplaced", {}
    )
    assert dict(found.adjusted) == expected.get("adjusted", {})
    assert [list(mark) for mark in found.placeholders] == expected.get("placeholders", [])
    assert found.doc_label == expected.get("doc_label", "")


def check_records(found: list[Any], notes: list[Any], name: str) -> None:
    """Compare documents, documents set aside and not chosen, each in their order."""
    expected = expand(notes)
    documents = [record for record in found if isinstance(record, Document)]
    numbered = [(number, note) for number, note in enumerate(expected) if "text" in note]
    assert [record.text for record in documents] == [note["text"] for _, note in numbered]
    for record, (number, note) in zip(documents, numbered, strict=True):
        check_document(record, note, f"{name}:{number}")

    asides = [record for record in found if isinstance(record, SetAside)]
    expected_asides = [note for note in expected if "set_aside" in note]
    assert [(aside.id, aside.place) for aside in asides] == [
        (note["set_aside"], note["place"]) for note in expected_asides
    ]
    for aside, note in zip(asides, expected_asides, strict=True):
        assert note.get("reason", "") in aside.reason.text
        assert not WORDS.search(aside.reason.text)
        assert aside.mentions == note.get("mentions", -1)
        assert set(note.get("advice", ())) <= aside.reason.advice.keys()

    others = [record.reason for record in found if isinstance(record, NotChosen)]
    assert others == [note["not_chosen"] for note in expected if "not_chosen" in note]


def read(source: Source, path: Path, target_bytes: int) -> list[Any]:
    parts = source.cut(Part(str(path)), target_bytes=target_bytes)
    return [record for part in parts for record in source.read(part)]


def check_guess(source: Source, path: Path, expected: Mapping[str, Any]) -> None:
    guess = source.sniff(Sample(path, path.read_bytes()[: 64 << 10]))
    why = expected["why"]
    assert bool(guess.why) == bool(why)
    assert isinstance(why, bool) or why in guess.why
    assert json.loads(json.dumps(dict(guess.options))) == expected.get("options", {})
    assert expected.get("pipeline", "") == guess.pipeline
    problem = expected.get("problem", "")
    assert bool(guess.problem) == bool(problem)
    assert problem in guess.problem
    assert not WORDS.search(guess.problem)


def check_file(form: str, case: Mapping[str, Any], folder: Path) -> None:
    files = case.get("files") or {case["file"]: case["text"]}
    write_files(files, folder)
    source: Source = SOURCES.make(form, case.get("options", {}))
    main = folder / case.get("read", next(iter(files)))

    if "guess" in case:
        check_guess(source, main, case["guess"])
    if "settle_error" in case:
        with pytest.raises(SourceError, match=case["settle_error"]):
            source.settle([folder / name for name in case["settle"]])
    elif "settle" in case:
        settled = source.settle([folder / name for name in case["settle"]])
        assert json.loads(json.dumps(dict(settled))) == case["settles"]
    if "error" in case:
        for target_bytes in (1, 10**9):
            with pytest.raises(SourceError, match=case["error"]) as caught:
                read(source, main, target_bytes)
            assert not WORDS.search(str(caught.value))
    if "records" in case:
        for target_bytes in (1, 10**9):
            check_records(read(source, main, target_bytes), case["records"], stem(main))


def check_row(case: Mapping[str, Any]) -> None:
    """Read a row of a file with given first rows. By default the file has only this row."""
    row = case["row"]
    rows = [one for one in expand(case.get("first", [])) or [row] if isinstance(one, dict)]
    names = {column: tuple(of) for column, of in case.get("names", {}).items()}

    class Given(RowSource, frozen=True, kw_only=True):
        """Rows that are given."""

        def records(self, part: Part) -> Iterator[Record | SetAside | NotChosen]:
            return iter([Record("rows:0", "rows.jsonl:1", row, Path(part.path))])

        def file(self, path: Path) -> RowsFile:
            written = case.get("written", ())
            return RowsFile(options=self, shapes=SHAPES, first=rows, names=names, written=written)

    if "shape" in case:
        columns = named_columns(row)
        assert next(shape.name for shape in SHAPES if shape.fits(columns)) == case["shape"]
    source = msgspec.convert(case.get("options", {}), Given)
    if "error" in case:
        with pytest.raises(SourceError, match=case["error"]) as caught:
            list(source.read(Part("rows.jsonl")))
        assert not WORDS.search(str(caught.value))
    else:
        check_records(list(source.read(Part("rows.jsonl"))), case["records"], "rows")


def test_cases__include_each_shape_of_rows() -> None:
    group = json.loads((CASES / ROWS / "reads_each_shape.json").read_text(encoding="utf-8"))

    assert {case["shape"] for case in group["cases"]} == {shape.name for shape in SHAPES}


@pytest.mark.parametrize(("form", "case"), list(list_cases()))
def test_case(form: str, case: Mapping[str, Any], tmp_path: Path) -> None:
    if form == ROWS:
        check_row(case)
    else:
        check_file(form, case, tmp_path)
