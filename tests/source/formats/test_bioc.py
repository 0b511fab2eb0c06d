from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, Part, Sentence, SetAside, Span
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.registry import from_options
from mslm_data.source import Sample
from mslm_data.source.formats.bioc import BioC
from mslm_data.source.reading.splits import check_one_form
from tests.source.formats.fixtures import bioc as fixture

GOUT = '<location offset="{}" length="4"/><text>gout</text>'


def read(path: Path, **options: str) -> list[Document | SetAside]:
    source = from_options(BioC, options, where="test")
    return [
        document
        for part in source.cut(Part(str(path)), target_bytes=1)
        for document in source.read(part)
    ]


def written(
    folder: Path, body: str, *, head: str = "", **options: str
) -> list[Document | SetAside]:
    path = folder / "own.xml"
    path.write_text(f"{head}<collection>{body}</collection>", encoding="utf-8")
    return read(path, **options)


def document(*, text: str, annotation: str = "") -> str:
    passage = f"<offset>0</offset><text>{text}</text>"
    return f"<document><id>d</id><passage>{passage}<annotation>{annotation}</annotation></passage></document>"


def test_read__takes_label_and_concept_from_the_named_infons(tmp_path: Path) -> None:
    infons = '<infon key="kind">Disease</infon><infon key="type">no</infon><infon key="MESH">D006073</infon>'
    body = document(text="Had gout.", annotation=infons + GOUT.format(4))

    (found,) = written(tmp_path, body, label="kind", concept="MESH")

    assert isinstance(found, Document)
    assert found.spans == (Span(4, 8, "Disease", "D006073"),)


def test_read__counts_annotations_without_label_or_location(tmp_path: Path) -> None:
    body = document(text="Had gout.", annotation=GOUT.format(4))
    nowhere = document(text="Had gout.", annotation='<infon key="type">Disease</infon>')

    first, second = written(tmp_path, body + nowhere)

    assert isinstance(first, Document)
    assert isinstance(second, Document)
    assert (first.unplaced, second.unplaced) == (
        {Reason("without a label"): 1},
        {Reason("without offsets"): 1},
    )


def test_read__ignores_an_empty_text_of_an_annotation(tmp_path: Path) -> None:
    annotation = '<infon key="type">Disease</infon>' + GOUT.format(4).replace(">gout<", "><")

    (found,) = written(tmp_path, document(text="Had gout.", annotation=annotation))

    assert isinstance(found, Document)
    assert found.spans == (Span(4, 8, "Disease"),)


@pytest.mark.parametrize(("unit", "offset"), [("characters", 6), ("bytes", 10), ("utf-16", 7)])
def test_read__understands_offsets_in_every_unit(tmp_path: Path, unit: str, offset: int) -> None:
    annotation = '<infon key="type">Disease</infon>' + GOUT.format(offset)

    (found,) = written(
        tmp_path, document(text="\U0001d6fcï is gout.", annotation=annotation), offsets=unit
    )

    assert isinstance(found, Document)
    assert found.spans == (Span(6, 10, "Disease"),)


def test_read__lays_passages_out_at_byte_offsets(tmp_path: Path) -> None:
    passages = (
        "<passage><offset>0</offset><text>Naïve.</text></passage>"
        "<passage><offset>8</offset><text>B.</text></passage>"
    )

    (found,) = written(tmp_path, f"<document><id>d</id>{passages}</document>", offsets="bytes")

    assert isinstance(found, Document)
    assert (found.text, found.sentences) == ("Naïve.\nB.", (Sentence(0, 6), Sentence(7, 9)))


@pytest.mark.parametrize(
    ("discontinuous", "spans", "unplaced"),
    [("hull", (Span(0, 13, "Sign"),), {}), ("set_aside", (), {Reason("discontinuous"): 1})],
)
def test_read__treats_several_locations_by_option(
    tmp_path: Path, discontinuous: str, spans: tuple[Span, ...], unplaced: dict[Reason, int]
) -> None:
    locations = '<location offset="0" length="3"/><location offset="9" length="4"/>'
    body = document(
        text="Red sore skin",
        annotation=f'<infon key="type">Sign</infon>{locations}<text>Red skin</text>',
    )

    (found,) = written(tmp_path, body, discontinuous=discontinuous)

    assert isinstance(found, Document)
    assert (found.spans, found.unplaced) == (spans, unplaced)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("<passage><offset>0</offset><text>Gout</text></passage>", "expected an id"),
        ("<id>d</id><passage><offset>0</offset></passage>", "expected text"),
        (
            "<id>d</id><passage><offset>-1</offset><text>Gout</text></passage>",
            "expected a whole number",
        ),
        ("<id>d</id><passage><text>Gout</text></passage>", "expected a whole number"),
        (
            "<id>d</id><passage><offset>0</offset><text>Gout</text></passage>"
            "<passage><offset>2</offset><text>Gout</text></passage>",
            "before the one before it ends",
        ),
    ],
)
def test_read__sets_a_broken_document_aside(tmp_path: Path, body: str, reason: str) -> None:
    broken, good = written(tmp_path, f"\n<document>{body}</document>" + document(text="Fine."))

    assert isinstance(broken, SetAside)
    assert broken.place == "own.xml:2"
    assert reason in broken.reason.text
    assert "Gout" not in broken.reason.text
    assert good.id == "d"


@pytest.mark.parametrize("damage", ["<document><id>e</id>", "</wrong>", "\x00", "&undeclared;"])
def test_read__gives_documents_before_damage_and_its_line(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "own.xml"
    path.write_text(f"<collection>{document(text='Fine.')}\n{damage}", encoding="utf-8")
    found = BioC().read(next(BioC().cut(Part(str(path)), target_bytes=1)))

    assert next(found).id == "d"
    with pytest.raises(SourceError, match=r"own\.xml:2: expected well-formed XML") as error:
        next(found)
    assert "Fine" not in str(error.value)


@pytest.mark.parametrize("text", ["&bomb;", "harmless"])
def test_read__rejects_declared_entities(tmp_path: Path, text: str) -> None:
    head = '<!DOCTYPE collection [<!ENTITY a "gout"><!ENTITY bomb "&a;&a;&a;&a;">]>'

    with pytest.raises(SourceError, match=r"own\.xml:1: expected no entities"):
        written(tmp_path, document(text=text), head=head)


@pytest.mark.parametrize("entity", ['SYSTEM "file:///etc/passwd"', 'SYSTEM "http://localhost/x"'])
def test_read__refuses_external_entities(tmp_path: Path, entity: str) -> None:
    with pytest.raises(SourceError, match="expected no entities"):
        written(
            tmp_path, document(text="&x;"), head=f"<!DOCTYPE collection [<!ENTITY x {entity}>]>"
        )


def test_read__rejects_entities_of_an_external_document_type(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="expected no entities"):
        written(
            tmp_path, document(text="&alpha;-gout"), head='<!DOCTYPE collection SYSTEM "BioC.dtd">'
        )


def test_read__reports_a_truncated_compressed_file(tmp_path: Path) -> None:
    path = tmp_path / "own.xml.gz"
    path.write_bytes(
        gzip.compress(f"<collection>{document(text='Fine.')}</collection>".encode())[:-12]
    )

    with pytest.raises(SourceError, match=r"own\.xml\.gz: cannot be read \(EOFError\)"):
        read(path)


def test_read__does_not_hold_the_file(tmp_path: Path) -> None:
    path = tmp_path / "own.xml"
    path.write_text(
        f"<collection>{document(text='Fine. ' * 1000) * 1000}</collection>", encoding="utf-8"
    )
    source = BioC()
    tracemalloc.start()

    num_documents = sum(
        1 for part in source.cut(Part(str(path)), target_bytes=1) for _ in source.read(part)
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert num_documents == 1000
    assert peak < path.stat().st_size / 4


# JSON ---------------------------------------------------------------------------------------------


def in_json(text: str = "Had gout.", **annotation: Any) -> dict[str, Any]:
    """Return a document of one passage with one annotation."""
    of_gout = {
        "infons": {"type": "Disease"},
        "text": "gout",
        "locations": [{"offset": 4, "length": 4}],
    }
    passage = {"offset": 0, "infons": {}, "text": text, "annotations": [{**of_gout, **annotation}]}
    return {"id": "d", "infons": {}, "passages": [passage], "relations": []}


def written_json(folder: Path, value: Any) -> list[Document | SetAside]:
    path = folder / "own.json"
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
    return read(path)


def test_read__json_agrees_with_the_library_converting_xml(tmp_path: Path) -> None:
    from bioc import biocjson, biocxml

    xml = tmp_path / "own.xml"
    xml.write_text(fixture.BIOC, encoding="utf-8")
    with xml.open(encoding="utf-8") as file:
        collection = biocxml.load(file)
    path = tmp_path / "own.json"
    with path.open("w", encoding="utf-8") as file:
        biocjson.dump(collection, file, indent=1)

    found = read(path)

    assert [(one.id, one.text, one.spans, one.sentences, one.unplaced) for one in found] == [  # type: ignore[union-attr]
        (one.id, one.text, one.spans, one.sentences, one.unplaced)  # type: ignore[union-attr]
        for one in read(xml)
    ]
    data = path.read_text(encoding="utf-8")
    begins = [data.rindex("{", 0, data.index(f'"id": "{one.id}"')) for one in found]
    places = [data.count("\n", 0, begin) + 1 for begin in begins]
    assert [one.place for one in found] == [f"own.json:{place}" for place in places]


def test_read__json_agrees_with_the_library_on_mentions(real: Path, tmp_path: Path) -> None:
    from bioc import BioCCollection, BioCPassage, biocjson, pubtator
    from bioc.tools.pubtator2bioc import pubtator2bioc

    (given,) = (real / "pubtator/bc5cdr").glob("*[dD]evelop*")
    collection = BioCCollection()
    with given.open(encoding="utf-8") as file:
        for article in pubtator.load(file):
            document = pubtator2bioc(article)
            passage = BioCPassage()
            passage.offset = 0
            passage.text = article.text
            document.add_passage(passage)
            collection.add_document(document)
    path = tmp_path / "own.json"
    path.write_text(biocjson.dumps(collection), encoding="utf-8")

    found = {one.id: one for one in read(path) if isinstance(one, Document)}

    number = 0
    for theirs in collection.documents:
        ours = found[theirs.id]
        expected = [
            (place.offset, place.end, annotation.text, annotation.infons["type"])
            for passage in theirs.passages
            for annotation in [*passage.annotations, *theirs.annotations]
            for place in annotation.locations
        ]
        got = [(s.start, s.end, ours.text[s.start : s.end], s.label) for s in ours.spans]
        assert sorted(got) == sorted(set(expected))
        assert not ours.unplaced
        number += len(got)
    assert number == 9591


@pytest.mark.parametrize("shape", ["object", "list", "PubTator3"])
def test_read__json_is_a_collection_or_a_list_of_collections(tmp_path: Path, shape: str) -> None:
    value: Any = {"source": "own", "documents": [in_json()]}
    if shape == "list":
        value = [value, {"documents": []}]
    elif shape == "PubTator3":
        value = {"PubTator3": [in_json()]}

    (found,) = written_json(tmp_path, value)

    assert isinstance(found, Document)
    assert (found.id, found.spans) == ("d", (Span(4, 8, "Disease"),))


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (7, "expected a list of objects, got another value"),
        ({**in_json(), "id": ""}, "expected an id, got none"),
        ({**in_json(), "passages": []}, "expected text, got none"),
        (in_json(locations=[{"offset": -4, "length": 4}]), "expected a whole number as offset"),
        (in_json(locations=[{"offset": 4.0, "length": 4}]), "expected a whole number as offset"),
    ],
)
def test_read__json_sets_a_broken_document_aside(
    tmp_path: Path, document: Any, reason: str
) -> None:
    broken, good = written_json(tmp_path, {"documents": [document, in_json()]})

    assert isinstance(broken, SetAside)
    assert broken.reason.text.startswith(reason)
    assert isinstance(good, Document)


def test_read__json_counts_annotations_that_do_not_match(tmp_path: Path) -> None:
    documents = [
        in_json(text="Has gout!"),
        in_json(locations=[]),
        in_json(infons={}),
        in_json("gout"),
    ]

    found = written_json(tmp_path, {"documents": documents})

    assert [one.unplaced for one in found if isinstance(one, Document)] == [
        {},
        {Reason("without offsets"): 1},
        {Reason("without a label"): 1},
        {Reason("offsets outside the text"): 1},
    ]


@pytest.mark.parametrize("value", [[], {}, {"documents": 1}, [{"a": 1}], "a"])
def test_read__json_rejects_other_values(tmp_path: Path, value: Any) -> None:
    if value == []:
        assert written_json(tmp_path, value) == []
        return
    with pytest.raises(SourceError, match=r"own\.json:1: expected one JSON array or object, got '"):
        written_json(tmp_path, value)


def test_find__reads_splits_in_different_formats(tmp_path: Path) -> None:
    for name in ("train.json", "test.xml"):
        (tmp_path / name).touch()

    found = BioC().find([tmp_path])

    assert found == {"train": [tmp_path / "train.json"], "test": [tmp_path / "test.xml"]}
    check_one_form([tmp_path], found, suffixes=BioC.suffixes)


def test_find__asks_for_a_split_in_both_formats(tmp_path: Path) -> None:
    for name in ("train.json", "train.xml"):
        (tmp_path / name).touch()

    with pytest.raises(SourceError, match=r"expected files of one form, got .*train\.json and"):
        check_one_form([tmp_path], BioC().find([tmp_path]), suffixes=BioC.suffixes)


def test_recognises__collections() -> None:
    xml = fixture.BIOC.encode()

    assert BioC().sniff(Sample(Path("x.xml"), xml)).why
    assert not BioC().sniff(Sample(Path("x.xml"), b"<passage>")).why
    assert (
        BioC().sniff(Sample(Path("x.json.gz"), json.dumps({"documents": [in_json()]}).encode())).why
    )
    assert not BioC().sniff(Sample(Path("x.json"), b'{"documents": [{"text": "infons"}]}')).why
