from __future__ import annotations

import csv
import pickle
import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mslm_data.annotate import ANNOTATORS
from mslm_data.annotate.terms import matcher, texts
from mslm_data.annotate.terms.annotator import LoadedTerms, Terms
from mslm_data.annotate.terms.term_table import Term
from mslm_data.data.document import Document, Placeholder, Sentence
from mslm_data.data.documents import Documents
from mslm_data.errors import AnnotateError, PipelineError
from mslm_data.io import resources
from mslm_data.kernels.hashing import find_slot
from tests import made
from tests.reference import terms as twin

PIECES = (
    "a",
    "b",
    "ab",
    "A",
    "B-",
    "-",
    "e\u0301",
    "\u0301",
    "ß",
    "İ",
    "I",
    "\u0131",
    "é",
    "1",
    "腫",
    "\U0001d400",
    "\x00",
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


@given(st.lists(documents(), max_size=3), some_terms, st.data())
def test_annotate__equals_its_twin(
    given: list[Document], terms: list[Term], data: st.DataObject
) -> None:
    match_case = data.draw(st.lists(st.booleans(), min_size=len(terms), max_size=len(terms)))
    loaded = LoadedTerms(terms, match_case=match_case)

    assert found(loaded, given) == [
        twin.annotate(document, terms, match_case) for document in given
    ]


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


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("ignore", ["MS", "ms", "Asthma", "asthma"]),
        ("match", ["MS", "asthma"]),
        ("short", ["MS", "Asthma", "asthma"]),
    ],
)
def test_annotate__matches_case_as_configured(
    tmp_path: Path, case: str, expected: list[str]
) -> None:
    (tmp_path / "t.csv").write_text("name,label\nMS,X\nasthma,X\n")
    terms = ANNOTATORS.make("terms", {"table": str(tmp_path / "t.csv"), "case": case, "short": 2})
    text = "MS ms Asthma asthma"
    [annotated] = made.annotated(terms.start(), [Document(id="d", text=text)])

    assert [text[span.start : span.end] for span in annotated.spans] == expected


def test_annotate__prefers_the_longest_term_of_either_case() -> None:
    terms = [Term("MS", "A", ""), Term("ms exacerbation", "B", ""), Term("MS", "C", "")]
    loaded = LoadedTerms(terms, match_case=[True, False, False])

    assert found(loaded, [Document(id="d", text="MS, MS exacerbation ms")]) == [
        [(0, 2, "A", ""), (0, 2, "C", ""), (4, 19, "B", ""), (20, 22, "C", "")]
    ]


def test_annotate__does_not_depend_on_the_batch() -> None:
    loaded = LoadedTerms([Term("a b", "X", "C")], match_case=[False])
    given = [
        Document(id=str(i), text=text)
        for i, text in enumerate(["a", "b a b", "", "a b" * 9, "b", " a\nb ", ""])
    ]

    assert found(loaded, given) == [found(loaded, [document])[0] for document in given]
    assert found(loaded, []) == []


def table(folder: Path, content: str | bytes, name: str = "t.csv") -> Terms:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Terms(table=str(path))


def rows(terms: Terms, texts: Sequence[str]) -> list[list[tuple[int, int, str, str]]]:
    return found(terms.start(), [Document(id="d", text=text) for text in texts])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", "name,label,concept\na b,X,C1\n"),
        ("t.csv", "\ufeffConcept,Notes,Name,Label\r\nC1,,a b,X\r\n\r\n"),
        ("t.csv", 'name,label,concept\n"a b",X,C1\na b,X,C1\n'),
        ("t.tsv", "name\tlabel\tconcept\na b\tX\tC1\n"),
        ("t.txt", 'name\tlabel\tconcept\na b\tX\tC1\n"\tY\t\n'),
    ],
)
def test_start__reads_tables(tmp_path: Path, name: str, content: str) -> None:
    assert rows(table(tmp_path, content, name), ["A b"]) == [[(0, 3, "X", "C1")]]


def test_start__reads_concept_tables(tmp_path: Path) -> None:
    content = (
        "cui,name,ontologies,name_status,type_ids,description\n"
        "C1,heart attack|infarction,O,P,T047,\n"
        "C1,infarct,O,A,,\n"
        "C2,aspirin,O,P,t109|T121,\n"
        "C3,clinic,O,P,T093,\n"
        "C4,MI,O,N,T047,\n"
    )
    found = rows(
        table(tmp_path, content), ["Heart attack, infarct: aspirin", "clinic MI infarction"]
    )

    assert found == [
        [(0, 12, "Disease", "C1"), (14, 21, "Disease", "C1"), (23, 30, "Treatment", "C2")],
        [(10, 20, "Disease", "C1")],
    ]


def test_start__reads_the_shipped_sample() -> None:
    found = rows(Terms(table="sample/concepts.csv"), ["She has high blood\npressure."])

    assert [span[:3] for span in found[0]] == [(8, 27, "Disease")]


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


def test_start__asks_which_of_two_tables_of_one_name_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = resources.path("vocab", "semantic_types.toml").read_text(encoding="utf-8")
    own = tmp_path / "semantic_types.toml"
    monkeypatch.chdir(tmp_path)
    terms = table(tmp_path, "cui,name,type_ids\nC1,asthma,T047\n")

    own.write_text(shipped, encoding="utf-8")
    same = terms.labels()
    own.write_text(shipped.replace('"Disease"', '"Illness"'), encoding="utf-8")

    assert same == ("Disease",)
    assert replace(terms, types=str(own)).labels() == ("Illness",)
    for name in (own.name, f"./{own.name}"):
        with pytest.raises(AnnotateError, match=r"differs from the shipped table of the same name"):
            replace(terms, types=name).labels()


def test_build__lists_the_available_labels(tmp_path: Path) -> None:
    terms = table(tmp_path, "name,label\nasthma,Disease\naspirin,Drug\n")
    pipeline = made.pipeline_of(annotate={"use": "terms", "table": terms.table})

    with pytest.raises(PipelineError, match=r'expected labels, got none; .*\["Disease", "Drug"\]'):
        made.built(tmp_path / "out", pipeline=pipeline)


def test_digest__depends_on_the_content_of_the_table_only(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    first = table(tmp_path, "name,label\na,X\n")
    same = table(tmp_path / "b", "name,label\na,X\n", "other.csv")
    other = table(tmp_path, "name,label\na,Y\n", "u.csv")

    assert first.digest() == same.digest() != other.digest()


def test_options__survive_pickling(tmp_path: Path) -> None:
    options = table(tmp_path, "name,label\na,X\n")

    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301


def test_annotate__finds_names_of_diseases_in_real_abstracts(real: Path) -> None:
    with (real / "concepts/drugbank_open/drugbank_vocabulary.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        names = [row["Common name"].strip() for row in csv.DictReader(file)]
    loaded = LoadedTerms([Term(name, "X", name) for name in names], match_case=[False] * len(names))
    text = " \n".join(names)
    [annotated] = made.annotated(loaded, [Document(id="d", text=text)])

    assert len(annotated.spans) >= 0.95 * len(
        names
    )  # The others begin with another name, or continue in the next line.
    assert all(
        twin.fold(text[span.start : span.end]) == twin.fold(span.concept)
        for span in annotated.spans
    )


@given(st.lists(documents(), max_size=5), some_terms, st.data())
def test_annotate__annotates_some_documents_of_a_line_like_each_alone(
    given: list[Document], terms: list[Term], data: st.DataObject
) -> None:
    """Texts of removed documents stay on the line, and are ignored."""
    loaded = LoadedTerms(terms, match_case=[False] * len(terms))
    kept = [number for number in range(len(given)) if data.draw(st.booleans())]
    some = Documents.from_documents(given).take(np.array(kept, np.int64))

    mentions = loaded.annotate(some).mentions

    spans = [sorted(span[:4] for span in of_one) for of_one in mentions.spans(some.starts)]
    assert spans == [found(loaded, [given[number]])[0] for number in kept]


def test_annotate__no_term_reaches_into_a_removed_document() -> None:
    loaded = LoadedTerms(
        [Term("breast", "X", ""), Term("breast cancer", "X", "")], match_case=[False, False]
    )
    texts = ["cancer breast", "cancer breast", "cancer"]
    given = Documents.from_documents([Document(id=text, text=text) for text in texts])
    first_and_last = given.take(np.array([0, 2]))

    mentions = loaded.annotate(first_and_last).mentions

    assert mentions.spans(first_and_last.starts) == [[(7, 13, "X", "", 1.0)], []]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Biopsies and a headache.", ["Biopsies:Proc:C1", "headache:Sign:C2"]),
        ("colds, a cold", ["colds:Sign:C4", "cold:Sign:C3"]),
        ("MRIs of the len", []),
    ],
)
def test_annotate__finds_plurals_and_singulars(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    table = tmp_path / "t.csv"
    table.write_text(
        "name,label,cui,type_ids\nbiopsy,Proc,C1,T060\nheadaches,Sign,C2,T184\n"
        "cold,Sign,C3,T184\ncolds,Sign,C4,T184\nMRI,Proc,C5,T060\nlens,Proc,C6,T060\n"
    )

    (spans,) = found(Terms(table=str(table), plurals=True).start(), [Document(id="d", text=text)])

    assert [f"{text[start:end]}:{label}:{cui}" for start, end, label, cui in spans] == expected
    assert found(Terms(table=str(table)).start(), [Document(id="d", text="two biopsies")]) == [[]]
