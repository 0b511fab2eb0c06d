from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source import Sample
from mslm_data.source.formats.medcattrainer import MedcatTrainer
from tests.source.formats.fixtures.medcattrainer import annotation, document, export

OTHER = NotChosen("another annotation of a document that is read")


def read(path: Path, value: Any, **options: Any) -> list[Any]:
    """Return the concepts of each document, and the reasons for other records."""
    path.write_text(json.dumps(value), encoding="utf-8")
    records: list[Document | SetAside | NotChosen] = list(
        MedcatTrainer(**options).read(Part(str(path)))
    )
    return [
        [one.concept for one in record.spans] if isinstance(record, Document) else record
        for record in records
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [OTHER, ["C2"], ["C3"]]),
        ({"of_several": "first"}, [["C1"], OTHER, ["C3"]]),
        ({"of_several": "all"}, [["C1"], ["C2"], ["C3"]]),
        ({"annotator": "p0"}, [["C1"], *[NotChosen("of another annotator")] * 2]),
    ],
)
def test_read__chooses_among_projects(
    tmp_path: Path, options: dict[str, Any], expected: list[Any]
) -> None:
    def note(number: int, concept: str) -> dict[str, Any]:
        return document(number, "Gout.", annotation(0, 4, "Gout", concept))

    given = export([note(1, "C1")], [note(1, "C2"), note(2, "C3")])

    assert read(tmp_path / "x.json", given, **options) == expected


def test_read__labels_mentions_by_option(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(export([document(1, "Gout.", annotation(0, 4, "Gout", "C1"))])))

    for label, expected in (("Concept", "Concept"), ("Sign", "Sign"), ("cui", "C1")):
        (found,) = MedcatTrainer(label=label).read(Part(str(path)))
        assert isinstance(found, Document)
        assert [span.label for span in found.spans] == [expected]


@pytest.mark.parametrize("value", [[], {}, {"projects": 1}, {"projects": [{"name": "a"}]}])
def test_read__rejects_other_files(tmp_path: Path, value: Any) -> None:
    with pytest.raises(SourceError, match=r"x\.json:1: expected one JSON .*, got '.*'; is the"):
        read(tmp_path / "x.json", value)


def test_read__sets_an_export_without_texts_aside(tmp_path: Path) -> None:
    given = document(1, "Gout.")
    del given["text"]

    (found,) = read(tmp_path / "x.json", export([given]))

    assert isinstance(found, SetAside)
    assert found.id == "1"
    assert found.reason.text == "expected the text of a document, got none; export it with the text"


def test_recognises__an_object_of_projects() -> None:
    path = Path("x.json")

    assert (
        MedcatTrainer().sniff(Sample(path, json.dumps(export([document(1, "Gout.")])).encode())).why
    )
    assert not MedcatTrainer().sniff(Sample(path, b'[{"projects": "documents"}]')).why


@pytest.mark.parametrize(
    ("concepts", "options"),
    [(["NAME", "DATE_OF_BIRTH"], {"label": "cui"}), (["C0018099"], {}), ([], {})],
)
def test_options_of__takes_words_for_labels(concepts: list[str], options: dict[str, str]) -> None:
    annotations = ", ".join(f'{{"cui": "{concept}"}}' for concept in concepts)
    head = f'{{"projects": [{{"documents": [{{"annotations": [{annotations}]}}]}}]}}'

    assert MedcatTrainer().sniff(Sample(Path("f.json"), head.encode())).options == options
