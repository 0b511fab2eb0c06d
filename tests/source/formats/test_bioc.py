from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.registry import from_options
from mslm_data.source.formats.bioc import BioC
from mslm_data.source.reading.splits import check_one_form
from tests.source.formats.fixtures import fixture


def read(path: Path, **options: str) -> list[Document | SetAside]:
    source = from_options(BioC, options, where="test")
    return [
        document
        for part in source.cut(Part(str(path)), target_bytes=1)
        for document in source.read(part)
    ]


def document(*, text: str, annotation: str = "") -> str:
    passage = f"<offset>0</offset><text>{text}</text>"
    return f"<document><id>d</id><passage>{passage}<annotation>{annotation}</annotation></passage></document>"


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


def test_read__json_agrees_with_the_library_converting_xml(tmp_path: Path) -> None:
    from bioc import biocjson, biocxml

    fixture("bioc", tmp_path)
    xml = tmp_path / "train.xml"
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
