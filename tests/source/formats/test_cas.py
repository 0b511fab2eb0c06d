from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import cassis
import pytest

from mslm_data.data.document import Document, Part, Sentence, SetAside, Span
from mslm_data.errors import SourceError
from mslm_data.source import Sample
from mslm_data.source.formats.cas import Cas
from mslm_data.source.reading.standoff import NO_LABEL, OUTSIDE
from tests.source.formats.fixtures.cas import ENTITY, SENTENCE, cas, types
from tests.source.formats.test_offsets import Article, articles


@pytest.fixture
def corpus(real: Path) -> list[Article]:
    (path,) = (real / "pubtator/bc5cdr").glob("*[dD]evelop*")
    return articles(path)[:120]


def read(path: Path, **options: Any) -> Document | SetAside:
    (record,) = Cas(**options).read(Part(str(path)))
    return record


def document(path: Path, **options: Any) -> Document:
    record = read(path, **options)
    assert isinstance(record, Document), record
    return record


def xmi(folder: Path, made: cassis.Cas, *, system: bool = True) -> Path:
    made.to_xmi(folder / "a.xmi")
    if system:
        made.typesystem.to_xml(folder / "TypeSystem.xml")
    return folder / "a.xmi"


def fields_of_json(made: cassis.Cas) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(made.to_json())
    return fields


# Against cassis ---------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("form", ["xmi", "json"])
def test_read__agrees_with_cassis_on_articles(
    corpus: list[Article], tmp_path: Path, form: str
) -> None:
    types().to_xml(tmp_path / "TypeSystem.xml")
    count = 0
    for a in corpus:
        # An emoji at the beginning, so that all offsets differ in UTF-16.
        text = f"\U0001f600{a.title}\n{a.abstract}"
        end = 1 + len(a.title)
        mentions = [(m[0] + 1, m[1] + 1, "NamedEntity", m[3], m[4]) for m in a.mentions]
        made = cas(text, [(0, end), (end + 1, len(text))], mentions)
        path = tmp_path / f"{a.pmid}.{form}"
        made.to_xmi(path) if form == "xmi" else made.to_json(path)

        found = document(path)

        if form == "xmi":
            given = cassis.load_cas_from_xmi(path, typesystem=types())
        else:
            given = cassis.load_cas_from_json(path.read_text(encoding="utf-8"))
        assert (found.id, found.text) == (a.pmid, given.sofa_string)
        expected = sorted(
            (e.begin, e.end, e.value, e.identifier, 1.0) for e in given.select(ENTITY)
        )
        assert sorted(map(tuple, found.spans)) == expected
        assert sorted(span[:3] for span in found.spans) == sorted(
            (m[0], m[1], m[3]) for m in mentions
        )
        assert found.sentences == tuple(Sentence(s.begin, s.end) for s in given.select(SENTENCE))
        count += len(expected)
    assert count == sum(len(a.mentions) for a in corpus) > 2_000


# Types and features -----------------------------------------------------------------------------


def custom() -> cassis.Cas:
    made = cas("Red sore skin", [], [(0, 3, "Person", "PER", "")])
    symptom = made.typesystem.get_type("webanno.custom.Symptom")
    made.add(symptom(begin=4, end=8, Kind="Pain"))
    made.add(symptom(begin=9, end=13))
    return made


@pytest.mark.parametrize("name", ["webanno.custom.Symptom", "Symptom"])
@pytest.mark.parametrize("form", ["xmi", "json"])
def test_read__reads_a_custom_layer(tmp_path: Path, name: str, form: str) -> None:
    if form == "xmi":
        path = xmi(tmp_path, custom())
    else:
        path = tmp_path / "a.json"
        custom().to_json(path)

    found = document(path, mention_type=name, label_feature="Kind", concept_feature="")

    assert found.spans == (Span(4, 8, "Pain"),)
    assert found.unplaced == {NO_LABEL: 1}
    assert found.sentences is None


def only_symptoms() -> cassis.Cas:
    made = cas("Red sore skin", [], [])
    symptom = made.typesystem.get_type("webanno.custom.Symptom")
    made.add(symptom(begin=4, end=8, Kind="Pain"))
    return made


@pytest.mark.parametrize("form", ["xmi", "json"])
def test_settle__takes_the_only_type_and_its_only_feature(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a.json"
    if form == "xmi":
        path = xmi(tmp_path, only_symptoms())
    else:
        only_symptoms().to_json(path)

    options = Cas().settle([path])

    assert options == {"mention_type": "webanno.custom.Symptom", "label_feature": "Kind"}
    assert Cas().list_columns(path) == ["webanno.custom.Symptom"]
    assert document(path, **options).spans == (Span(4, 8, "Pain"),)
    assert document(path, **{**options, "label": "Sign"}).spans == (Span(4, 8, "Sign"),)


def test_settle__takes_the_only_type_if_the_type_system_lacks_the_default(tmp_path: Path) -> None:
    path = xmi(tmp_path, only_symptoms())
    system = (tmp_path / "TypeSystem.xml").read_text(encoding="utf-8")
    assert "NamedEntity" in system
    renamed = system.replace("NamedEntity", "Other")
    (tmp_path / "TypeSystem.xml").write_text(renamed, encoding="utf-8")

    options = Cas().settle([path])

    assert options == {"mention_type": "webanno.custom.Symptom", "label_feature": "Kind"}
    assert document(path, **options).spans == (Span(4, 8, "Pain"),)


def test_settle__keeps_the_default_type_if_a_file_has_it(tmp_path: Path) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    only_symptoms().to_json(paths[0])
    custom().to_json(paths[1])

    assert Cas().settle(paths) == {}
    assert Cas(mention_type="Symptom").settle(paths) == {}


def test_settle__rejects_a_type_that_no_file_has(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    paths = [xmi(tmp_path, custom()), xmi(tmp_path / "text", cas("No mention", [(0, 10)], []))]

    with pytest.raises(
        SourceError,
        match=r"'my\.Type' in one of the files, got the layers webanno\.custom\.Symptom",
    ):
        Cas(mention_type="my.Type").settle(paths)
    with pytest.raises(SourceError, match=r"got no layers of users; set \[source\] mention_type"):
        Cas(mention_type="my.Type").settle(paths[1:])
    assert Cas().settle(paths[1:]) == {}


def test_read__reads_subtypes_of_the_type_system(tmp_path: Path) -> None:
    assert document(xmi(tmp_path, custom())).spans == (Span(0, 3, "PER"),)

    (tmp_path / "TypeSystem.xml").unlink()
    assert document(tmp_path / "a.xmi").spans == ()


def test_read__names_of_features_are_never_run(tmp_path: Path) -> None:
    fields = fields_of_json(custom())
    fields["%TYPES"]["webanno.custom.Symptom"]["x=print(1), y"] = {"%RANGE": "uima.cas.String"}
    path = tmp_path / "a.json"
    path.write_text(json.dumps(fields), encoding="utf-8")

    # cassis generates Python code with these names, so it is not used to read files.
    with warnings.catch_warnings(), pytest.raises(SyntaxError):
        cassis.load_cas_from_json(path.read_text(encoding="utf-8"))
    assert document(path).spans == (Span(0, 3, "PER"),)


def test_read__ignores_annotations_outside_the_view(tmp_path: Path) -> None:
    fields = fields_of_json(custom())
    fields["%VIEWS"]["_InitialView"]["%MEMBERS"] = []
    (tmp_path / "a.json").write_text(json.dumps(fields), encoding="utf-8")

    assert document(tmp_path / "a.json").spans == ()


def test_read__reads_another_view(tmp_path: Path) -> None:
    made = custom()
    other = made.create_view("translation")
    other.sofa_string = "Rote Haut"
    other.add(made.typesystem.get_type(ENTITY)(begin=5, end=9, value="X"))

    found = document(xmi(tmp_path, made), view="translation")

    assert (found.text, found.spans) == ("Rote Haut", (Span(5, 9, "X"),))


def test_read__structures_may_be_an_object_by_number(tmp_path: Path) -> None:
    fields = fields_of_json(custom())
    fields["%FEATURE_STRUCTURES"] = {str(one["%ID"]): one for one in fields["%FEATURE_STRUCTURES"]}
    (tmp_path / "a.json").write_text(json.dumps(fields), encoding="utf-8")

    assert document(tmp_path / "a.json").spans == (Span(0, 3, "PER"),)


def test_read__counts_mentions_beyond_the_text_or_inside_a_character(tmp_path: Path) -> None:
    fields = fields_of_json(
        cas("\U0001f600 x", [], [(0, 1, "Person", "A", ""), (2, 3, "Person", "B", "")])
    )
    one, other = [s for s in fields["%FEATURE_STRUCTURES"] if s["%TYPE"].endswith("Person")]
    one["begin"], other["end"] = 1, 99
    (tmp_path / "a.json").write_text(json.dumps(fields), encoding="utf-8")

    found = document(tmp_path / "a.json")

    assert (found.spans, found.unplaced) == ((), {OUTSIDE: 2})


def test_read__id_from_folder_names_documents_after_folders(tmp_path: Path) -> None:
    (tmp_path / "note-7.txt").mkdir()
    path = tmp_path / "note-7.txt" / "CURATION_USER.json"
    custom().to_json(path)

    assert document(path).id == "CURATION_USER"
    assert document(path, id_from="folder").id == "note-7.txt"


# Errors -------------------------------------------------------------------


def test_read__rejects_a_missing_type_system(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"found none; check \[source\] typesystem"):
        read(xmi(tmp_path, custom()), typesystem="../types.xml")


def test_read__refuses_a_type_system_with_entities(tmp_path: Path) -> None:
    path = xmi(tmp_path, custom())
    system = (tmp_path / "TypeSystem.xml").read_text(encoding="utf-8")
    system = system.replace("<typeSystem", '<!DOCTYPE x [<!ENTITY a "b">]>\n<typeSystem', 1)
    (tmp_path / "TypeSystem.xml").write_text(system, encoding="utf-8")

    with pytest.raises(SourceError, match=r"TypeSystem\.xml:\d+: expected no entities"):
        read(path)


XMI = (
    '<xmi:XMI xmlns:xmi="http://www.omg.org/XMI" xmlns:cas="http:///uima/cas.ecore" '
    'xmlns:t="http:///de/tudarmstadt/ukp/dkpro/core/api/ner/type.ecore" xmi:version="2.0">\n{}</xmi:XMI>'
)


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (XMI.format(""), 1, "expected a text in the view '_InitialView', found none"),
        (XMI.format("")[:-5], 2, "expected well-formed XML"),
        (f'<!DOCTYPE x [<!ENTITY a "b">]>{XMI.format("&a;")}', 1, "expected no entities"),
        ("{}", 1, "expected a text in the view '_InitialView', found none"),
        ("{", 1, "expected JSON, got other bytes"),
        ("[" * 100_000, 1, "expected JSON, got other bytes"),
        ("[]", 1, "expected an object of JSON CAS"),
        ('{"%FEATURE_STRUCTURES": [1]}', 1, "expected an object of JSON CAS"),
        ('{"%VIEWS": {"_InitialView": {"%MEMBERS": 7}}}', 1, "expected a list of a view's members"),
    ],
)
def test_read__sets_a_broken_file_aside(tmp_path: Path, data: str, line: int, reason: str) -> None:
    (tmp_path / "a.xmi").write_text(data, encoding="utf-8")

    record = read(tmp_path / "a.xmi")

    assert isinstance(record, SetAside)
    assert (record.id, record.place) == ("a", f"a.xmi:{line}")
    assert record.reason.text.startswith(reason)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"begin": 1.5}, "expected whole numbers as begin and end"),
        ({"end": None}, "expected whole numbers as begin and end"),
        ({"begin": True}, "expected whole numbers as begin and end"),
        ({"value": 7}, "expected text as label and as concept"),
    ],
)
def test_read__sets_a_file_with_a_broken_mention_aside(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    fields = fields_of_json(custom())
    (one,) = [s for s in fields["%FEATURE_STRUCTURES"] if s["%TYPE"].endswith("Person")]
    one.update(change)
    (tmp_path / "a.json").write_text(json.dumps(fields), encoding="utf-8")

    record = read(tmp_path / "a.json")

    assert isinstance(record, SetAside)
    assert record.reason.text.startswith(reason)


def test_read__overlapping_sentences_set_their_file_aside(tmp_path: Path) -> None:
    record = read(xmi(tmp_path, cas("One two", [(0, 5), (4, 7)], [])))

    assert isinstance(record, SetAside)
    assert (
        "got 4 to 7 after 5 (-1 is past the text); check [source] sentence_type"
        in record.reason.text
    )


def test_recognises__both_forms(tmp_path: Path) -> None:
    head = xmi(tmp_path, custom()).read_bytes()

    assert (
        Cas().sniff(Sample(tmp_path / "a.xmi", head)).why == "its root is XMI with UIMA's namespace"
    )
    assert Cas().sniff(Sample(tmp_path / "a.json", custom().to_json().encode())).why != ""
    assert Cas().sniff(Sample(tmp_path / "a.json", b'{"text": "x"}')).why == ""
