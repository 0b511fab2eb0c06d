from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.annotate import ANNOTATORS
from mslm_data.annotate.terms import matcher, texts
from mslm_data.annotate.terms.annotator import LoadedTerms, Terms
from mslm_data.annotate.terms.term_table import Term
from mslm_data.data.document import Document, Placeholder, Sentence
from mslm_data.data.documents import Documents
from mslm_data.errors import AnnotateError
from mslm_data.kernels.hashing import find_slot
from tests import made
from tests.reference import terms as twin

PIECES = (
    *("a", "b", "ab", "A", "B-", "-", "e\u0301", "\u0301", "ß", "İ", "I", "\u0131", "é", "1"),
    *("腫", "\U0001d400", "\x00"),
)
GAPS = ("", "", " ", "  ", "\n", "\r\n", "\n\n", "\r\v", "\u2028", "\t", "\u00a0")

some_texts = st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(GAPS)), max_size=14).map(
    lambda pairs: "".join(map("".join, pairs))
)
some_names = some_texts.map(str.strip).filter(bool)
some_terms = st.lists(
    st.builds(Term, some_names, st.sampled_from("XY"), st.sampled_from(["", "C1"])),
    min_size=1,
    max_size=12,
    unique=True,
)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    text = draw(some_texts)
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)))
    placeholders = tuple(
        Placeholder(a, b) for a, b in list(pairwise(cuts))[::2] if draw(st.booleans())
    )
    bounds = sorted(draw(st.sets(st.integers(0, len(text)), max_size=3)))
    sentences = tuple(Sentence(a, b) for a, b in pairwise(bounds))
    return Document(
        id="d",
        text=text,
        placeholders=placeholders,
        sentences=draw(st.sampled_from([None, sentences])),
    )


def found(loaded: LoadedTerms, given: Sequence[Document]) -> list[list[tuple[int, int, str, str]]]:
    return [sorted(span[:4] for span in of_one.spans) for of_one in made.annotated(loaded, given)]


@given(st.lists(documents(), max_size=4), some_terms, st.data())
def test_annotate__equals_its_twin(
    given: list[Document], terms: list[Term], data: st.DataObject
) -> None:
    """Texts of removed documents stay on the line, and are ignored."""
    match_case = data.draw(st.lists(st.booleans(), min_size=len(terms), max_size=len(terms)))
    loaded = LoadedTerms(terms, match_case=match_case)
    kept = [number for number in range(len(given)) if data.draw(st.booleans())]
    some = Documents.from_documents(given).take(np.array(kept, np.int64))

    mentions = loaded.annotate(some).mentions

    expected = [twin.annotate(document, terms, match_case) for document in given]
    spans = [sorted(span[:4] for span in of_one) for of_one in mentions.spans(some.starts)]
    assert spans == [expected[number] for number in kept]
    assert found(loaded, given) == expected


def slots_of(chars, words, slots, known, bounds):
    """Return the slot of each word in a table where all hashes are 0."""
    for start, end, *_ in words:
        hashes = np.zeros(len(bounds), np.uint64)
        yield find_slot(
            slots, np.uint64(0), chars, start, end, known, bounds[:, 0], bounds[:, 1], hashes
        )


def enter_alike(chars, words, first, slots, hashes, out):
    for w, place in enumerate(slots_of(chars, words, slots, chars, words)):
        if slots[place] < 0:
            slots[place] = w
        out[w] = slots[place]


def look_up_alike(chars, words, slots, known, bounds, hashes, out):
    out[:] = [slots[place] for place in slots_of(chars, words, slots, known, bounds)]


@given(st.lists(documents(), max_size=2), some_terms)
def test_annotate__is_exact_when_all_hashes_collide(
    given: list[Document], terms: list[Term]
) -> None:
    match_case = [False] * len(terms)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matcher, "enter_words", enter_alike)
        patch.setattr(matcher, "look_up_words", look_up_alike)
        loaded = LoadedTerms(terms, match_case=match_case)
        got = found(loaded, given)

    assert got == [twin.annotate(document, terms, match_case) for document in given]


@given(st.lists(st.one_of(made.documents_of_text(), made.documents_of_words()), max_size=4))
def test_annotate__equals_its_twin_on_any_unicode(given: list[Document]) -> None:
    terms = [Term(word, "X", "") for word in made.ODD_WORDS if word.strip()]
    match_case = [i % 2 == 0 for i in range(len(terms))]

    assert found(LoadedTerms(terms, match_case=match_case), given) == [
        twin.annotate(document, terms, match_case) for document in given
    ]


def test_kind__is_other_outside_the_ranges_of_the_table() -> None:
    """These characters have no case either."""
    listed = {code for codes in texts._ASSIGNED for code in codes}
    others = [chr(code) for code in range(sys.maxunicode + 1) if code not in listed]

    assert {texts._kind(character) for character in others} == {0}
    assert all(character.lower() == character == character.casefold() for character in others)


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("painless pain, Pain.", ["pain"], ["pain", "Pain"]),
        ("chest pain and chest", ["chest", "chest pain"], ["chest pain", "chest"]),
        ("acute renal failure", ["acute renal", "renal failure"], ["acute renal"]),
        (
            "heart\nfailure, heart\r\n failure",
            ["heart failure"],
            ["heart\nfailure", "heart\r\n failure"],
        ),
        ("heart\n\nfailure, heart; failure", ["heart failure"], []),
        ("vitamin B-12, vitamin B 12, B -12", ["vitamin b-12", "B - 12"], ["vitamin B-12"]),
        ("IL-2 and il 2", ["IL-2"], ["IL-2"]),
        ("IL-2, IL-", ["IL-"], ["IL-", "IL-"]),
        ("ΣΊΣΥΦΟΣ", ["σίσυφοσ"], ["ΣΊΣΥΦΟΣ"]),
        ("naïve nai\u0308ve", ["nai"], []),
        ("(+) and +", ["+"], ["+", "+"]),
    ],
)
def test_annotate__worked_examples(text: str, names: list[str], expected: list[str]) -> None:
    loaded = LoadedTerms([Term(name, "X", "") for name in names], match_case=[False] * len(names))
    [annotated] = made.annotated(loaded, [Document(id="d", text=text)])

    assert [text[span.start : span.end] for span in annotated.spans] == expected


def test_annotate__prefers_the_longest_term_of_either_case() -> None:
    terms = [Term("MS", "A", ""), Term("ms exacerbation", "B", ""), Term("MS", "C", "")]
    loaded = LoadedTerms(terms, match_case=[True, False, False])

    assert found(loaded, [Document(id="d", text="MS, MS exacerbation ms")]) == [
        [(0, 2, "A", ""), (0, 2, "C", ""), (4, 19, "B", ""), (20, 22, "C", "")]
    ]


def test_annotate__no_term_reaches_into_a_removed_document() -> None:
    loaded = LoadedTerms(
        [Term("breast", "X", ""), Term("breast cancer", "X", "")], match_case=[False, False]
    )
    texts = ["cancer breast", "cancer breast", "cancer"]
    given = Documents.from_documents([Document(id=text, text=text) for text in texts])
    first_and_last = given.take(np.array([0, 2]))

    mentions = loaded.annotate(first_and_last).mentions

    assert mentions.spans(first_and_last.starts) == [[(7, 13, "X", "", 1.0)], []]


# Tables -------------------------------------------------------------------------------------------


def table(folder: Path, content: str | bytes, name: str = "t.csv", **options: Any) -> Terms:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    terms: Terms = ANNOTATORS.make("terms", {"table": str(path), **options})
    return terms


CASED = "name,label\nMS,X\nasthma,X\n"
OF_CASES = "MS ms Asthma asthma"
NUMBERED = (
    "name,label,cui,type_ids\nbiopsy,Proc,C1,T060\nheadaches,Sign,C2,T184\n"
    "cold,Sign,C3,T184\ncolds,Sign,C4,T184\nMRI,Proc,C5,T060\nlens,Proc,C6,T060\n"
)
CONCEPTS = (
    "cui,name,ontologies,name_status,type_ids,description\n"
    "C1,heart attack|infarction,O,P,T047,\nC1,infarct,O,A,,\nC2,aspirin,O,P,t109|T121,\n"
    "C3,clinic,O,P,T093,\nC4,MI,O,N,T047,\n"
)


@pytest.mark.parametrize(
    ("name", "content", "options", "text", "expected"),
    [
        ("t.csv", "name,label,concept\na b,X,C1\n", {}, "A b", "A b:X:C1"),
        (
            "t.csv",
            "\ufeffConcept,Notes,Name,Label\r\nC1,,a b,X\r\n\r\n",
            {},
            "A b",
            "A b:X:C1",
        ),
        ("t.csv", 'name,label,concept\n"a b",X,C1\na b,X,C1\n', {}, "A b", "A b:X:C1"),
        ("t.tsv", "name\tlabel\tconcept\na b\tX\tC1\n", {}, "A b", "A b:X:C1"),
        ("t.txt", 'name\tlabel\tconcept\na b\tX\tC1\n"\tY\t\n', {}, "A b", "A b:X:C1"),
        (
            "t.csv",
            CONCEPTS,
            {},
            "Heart attack, infarct: aspirin",
            "Heart attack:Disease:C1 infarct:Disease:C1 aspirin:Treatment:C2",
        ),
        ("t.csv", CONCEPTS, {}, "clinic MI infarction", "infarction:Disease:C1"),
        ("t.csv", CASED, {"case": "ignore"}, OF_CASES, "MS:X: ms:X: Asthma:X: asthma:X:"),
        ("t.csv", CASED, {"case": "match"}, OF_CASES, "MS:X: asthma:X:"),
        ("t.csv", CASED, {"case": "short", "short": 2}, OF_CASES, "MS:X: Asthma:X: asthma:X:"),
        (
            "t.csv",
            NUMBERED,
            {"plurals": True},
            "Biopsies and a headache.",
            "Biopsies:Proc:C1 headache:Sign:C2",
        ),
        ("t.csv", NUMBERED, {"plurals": True}, "colds, a cold", "colds:Sign:C4 cold:Sign:C3"),
        ("t.csv", NUMBERED, {"plurals": True}, "MRIs of the len", ""),
        ("t.csv", NUMBERED, {}, "two biopsies", ""),
    ],
)
def test_start__reads_tables(
    name: str, content: str, options: dict[str, Any], text: str, expected: str, tmp_path: Path
) -> None:
    loaded: Any = table(tmp_path, content, name, **options).start()

    (spans,) = found(loaded, [Document(id="d", text=text)])

    mentions = [f"{text[start:end]}:{label}:{concept}" for start, end, label, concept in spans]
    assert " ".join(mentions) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "",
            r"t\.csv:1: expected the columns name and label, or .*, got 0 column\(s\) that lack them; .*TABs",
        ),
        ("nom,label\nsecret,X\n", r"t\.csv:1: expected the columns"),
        ("name,label\n", r"t\.csv: expected a term, or a concept"),
        ("name,label\na,X\nsecret\n", r"t\.csv:3: expected 2 fields as in the first row, got 1;"),
        ("name,label\na,X\n ,X\n", r"t\.csv:3: expected a name, got an empty field$"),
        ("name,label\nsecret,\n", r"t\.csv:2: expected a label, got an empty field$"),
        ('name,label\na,X\n"secret"x,Y\n', r"t\.csv:3: expected a row of a table, got one"),
        (
            b"name,label\nsecret\xff,X\n",
            r"t\.csv: expected a term table in UTF-8, got UnicodeDecodeError$",
        ),
        ("cui,name,type_ids\n,secret,T047\n", r"t\.csv:2: expected a cui, got an empty field$"),
        (
            "cui,name,type_ids\nC1,secret,T999\n",
            r"t\.csv: expected a term, or a concept with a type of ",
        ),
    ],
)
def test_start__reports_the_line_of_a_broken_table(
    tmp_path: Path, content: str | bytes, message: str
) -> None:
    with pytest.raises(AnnotateError, match=message) as error:
        table(tmp_path, content).start()

    assert "secret" not in str(error.value)


@pytest.mark.parametrize("method", ["start", "digest"])
def test_start__reports_a_missing_table(tmp_path: Path, method: str) -> None:
    with pytest.raises(
        AnnotateError,
        match=r"annotator 'terms': no table given; pass --set annotate\.table",
    ):
        getattr(Terms(), method)()
    with pytest.raises(AnnotateError, match=re.escape(f"no table '{tmp_path / 'x.csv'}'")):
        getattr(Terms(table=str(tmp_path / "x.csv")), method)()


def test_digest__depends_on_the_content_of_the_table_only(tmp_path: Path) -> None:
    first = table(tmp_path, "name,label\na,X\n")
    same = table(tmp_path, "name,label\na,X\n", "other.csv")
    other = table(tmp_path, "name,label\na,Y\n", "u.csv")

    assert first.digest() == same.digest() != other.digest()
