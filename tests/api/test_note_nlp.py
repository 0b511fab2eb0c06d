"""NOTE_NLP of OMOP CDM, written by `annotate` and read back by the source."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from msgspec.structs import replace

from mslm_data import __version__
from mslm_data.api.annotating import annotate, finding_texts, make_form
from mslm_data.api.building import read_named
from mslm_data.builds.line_forms import NoteNlp
from mslm_data.builds.line_sink import LineCounts
from mslm_data.data.document import Document, Part
from mslm_data.errors import AnnotateError, CallError
from mslm_data.pipeline import AnnotateOptions
from mslm_data.source.formats.omop import Omop
from tests import made

COLUMNS = (
    "note_nlp_id,note_id,section_concept_id,snippet,offset,lexical_variant,note_nlp_concept_id,"
    "note_nlp_source_concept_id,nlp_system,nlp_date,nlp_datetime,term_exists,term_temporal,"
    "term_modifiers"
)
"""Columns in the order of the definition of the table."""
LABELS = ("Treatment", "Disease", "Symptom")
TERMS = AnnotateOptions(
    use="terms", options={"table": str(made.SAMPLE / "concepts.csv")}, labels=LABELS
)
DATE = "2026-01-31"
TEXTS = [
    'Naïve \U0001f600: "aspirin" for heart\nfailure.',
    "No heart failure. Mother had heart failure. Aspirin was given.",
    "Nothing was found.",
    "History of heart failure.",
]


@pytest.fixture
def note(tmp_path: Path) -> Path:
    path = tmp_path / "note.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["note_id", "person_id", "note_text"])
        writer.writerows((7 + number, number, text) for number, text in enumerate(TEXTS))
    return path


def annotated(note: Path, out: Path | None, form: NoteNlp, **options: object) -> LineCounts:
    """Annotate a table with terms, in units of a few notes."""
    pipeline = read_named("omop", sets=("shard.input_bytes=60",))
    pipeline = replace(pipeline, annotate=replace(TERMS, **options))
    with finding_texts(pipeline, [str(note)]) as found:
        return annotate(found, out, WRITTEN.append, form)


WRITTEN: list[bytes] = []


def rows_in(out: Path) -> list[dict[str, str]]:
    with out.open(newline="", encoding="utf-8") as file:
        return [*csv.DictReader(file)]


def spans_in(note: Path) -> list[tuple[str, int, int, str, str]]:
    found = [record for record in Omop().read(Part(str(note))) if isinstance(record, Document)]
    assert len(found) == len(TEXTS)
    assert not any(one.unplaced or one.adjusted for one in found)
    return [(one.id, *span[:4]) for one in found for span in one.spans]


def test_annotate__writes_rows_that_are_read_back(note: Path, tmp_path: Path) -> None:
    out = tmp_path / "note_nlp.csv"
    counts = annotated(note, out, NoteNlp(date=DATE))

    rows = rows_in(out)
    spans = spans_in(note)
    assert out.read_text(encoding="utf-8").splitlines()[0] == COLUMNS
    assert [row["note_nlp_id"] for row in rows] == [str(n + 1) for n in range(len(rows))]
    assert counts.entities == len(rows) == len(spans) == 6
    texts = dict(zip(["7", "8", "9", "10"], TEXTS, strict=True))
    assert [(row["note_id"], int(row["offset"]), row["lexical_variant"]) for row in rows] == [
        (doc_id, start, texts[doc_id][start:end].replace("\n", " "))
        for doc_id, start, end, *_ in spans
    ]
    assert {label for *_, label, _ in spans} == {"Treatment", "Disease"}
    assert all(concept.startswith("C") for *_, concept in spans)
    for row in rows:
        assert row["nlp_system"] == f"mslm-data {__version__}"
        assert (row["nlp_date"], row["note_nlp_concept_id"]) == (DATE, "0")
        assert row["term_exists"] == row["term_temporal"] == row["snippet"] == ""
    assert out.stat().st_mode & 0o777 == 0o600


def test_annotate__numbers_rows_alike_in_units_and_at_once(note: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "note_nlp.csv"
    WRITTEN.clear()
    annotated(note, out, NoteNlp(date=DATE))
    annotated(note, None, NoteNlp(date=DATE))

    assert b"".join(WRITTEN) == out.read_bytes()


def test_annotate__writes_only_a_header_if_nothing_is_found(tmp_path: Path) -> None:
    note = tmp_path / "note.csv"
    note.write_text("note_id,person_id,note_text\n1,2,Nothing.\n")

    counts = annotated(note, tmp_path / "out.csv", NoteNlp(date=DATE))

    assert (counts.documents, counts.entities) == (1, 0)
    assert (tmp_path / "out.csv").read_text() == COLUMNS + "\n"


def test_annotate__writes_the_context_of_terms(note: Path, tmp_path: Path) -> None:
    out = tmp_path / "note_nlp.csv"
    annotated(note, out, NoteNlp(date=DATE), context=True)

    found = {
        (row["note_id"], row["offset"]): (row["term_exists"], row["term_temporal"])
        for row in rows_in(out)
        if "heart" in row["lexical_variant"]
    }
    begins = [TEXTS[1].index("heart"), TEXTS[1].rindex("heart"), TEXTS[3].index("heart")]
    assert found["8", str(begins[0])] == ("N", "present")
    assert found["8", str(begins[1])] == ("N", "present")
    assert found["10", str(begins[2])] == ("Y", "past")
    (negated,) = [row for row in rows_in(out) if row["term_modifiers"].endswith("negated=true")]
    assert (negated["note_id"], negated["offset"]) == ("8", str(begins[0]))
    kept = list(Omop(negated="leave_out").read(Part(str(note))))
    assert sum(len(one.spans) for one in kept if isinstance(one, Document)) == 4


def test_annotate__looks_up_concepts_by_cui_or_label(note: Path, tmp_path: Path) -> None:
    plain = tmp_path / "a.csv"
    annotated(note, plain, NoteNlp(date=DATE))
    cui = rows_in(plain)[0]["term_modifiers"].partition("concept=")[2]
    table = tmp_path / "concepts.csv"
    table.write_text(f"CUI,concept_id,name\n{cui},1112807,x\n")
    form = make_form("note_nlp", show_text=True, date=DATE, concepts=table)
    assert isinstance(form, NoteNlp)

    out = tmp_path / "note_nlp.csv"
    annotated(note, out, form)

    for row in rows_in(out):
        is_known = f"concept={cui}" in row["term_modifiers"]
        assert row["note_nlp_concept_id"] == ("1112807" if is_known else "0")
    assert {concept for *_, concept in spans_in(note)} > {"1112807"}


def test_annotate__counts_terms_that_are_too_long(note: Path, tmp_path: Path) -> None:
    long = "aspirin " * 40
    table = tmp_path / "terms.csv"
    table.write_text(f"name,cui,label\n{long},C1,Treatment\nfailure,C2,Disease\n")
    note.write_text(f"note_id,person_id,note_text\n1,2,{long}and failure.\n")
    out = tmp_path / "out.csv"

    counts = annotated(note, out, NoteNlp(date=DATE), options={"table": str(table)})

    assert counts.entities == len(rows_in(out)) == 1
    (reason,) = counts.left_out
    assert "longer than 250 characters" in reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"date": DATE}, "add --show-text"),
        ({"show_text": True}, "got none; add --date"),
        ({"show_text": True, "date": "31.1.2026"}, "got another value; add --date"),
        ({"show_text": True, "date": "20260131"}, "got another value; add --date"),
        ({"to": "jsonl", "date": DATE}, "expected --to note_nlp"),
    ],
)
def test_make_form__names_the_missing_option(options: dict[str, object], message: str) -> None:
    with pytest.raises(CallError, match=message):
        make_form(**{"to": "note_nlp", **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cui,name\nC1,Gout\n", "expected a table with the columns cui and concept_id"),
        ("cui,concept_id\nC1,Gout\n", ":2: expected a whole number as concept_id"),
        (None, "expected a table with the columns cui and concept_id in UTF-8, found none"),
    ],
)
def test_make_form__rejects_a_wrong_table_of_concepts(
    text: str | None, message: str, tmp_path: Path
) -> None:
    table = tmp_path / "concepts.csv"
    if text is not None:
        table.write_text(text)

    with pytest.raises(AnnotateError, match=message) as caught:
        make_form("note_nlp", show_text=True, date=DATE, concepts=table)

    assert "Gout" not in str(caught.value)


def test_lines__keep_a_row_in_a_line_and_labels_as_they_are() -> None:
    form = NoteNlp(date=DATE)
    document = Document(id="1", text="heart\r\nfailure", place="a:1")
    span = (0, 14, "50 %; severe", "C1|C2", 0.5)
    from mslm_data.data.document import Span
    from mslm_data.data.documents import Documents

    lines = form.lines(Documents.from_documents([document.with_spans([Span(*span)])]))
    numbered = form.number(lines.text.encode(), 9).decode()

    (row,) = csv.reader(io.StringIO(numbered))
    assert lines.text.count("\n") == 1
    assert (row[0], row[5]) == ("9", "heart  failure")
    assert row[-1] == "label=50 %25%3B severe;score=0.5;concept=C1|C2"
