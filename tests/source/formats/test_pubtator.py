from __future__ import annotations

import collections
from pathlib import Path

import pytest

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.source.formats.pubtator import PubTator
from tests.reference import pubtator as reference


def read(path: Path, *, target_bytes: int = 1 << 30) -> list[Document | SetAside]:
    source = PubTator()
    return [
        document
        for part in source.cut(Part(str(path)), target_bytes=target_bytes)
        for document in source.read(part)
    ]


REAL = [
    ("ncbi/NCBItrainset_corpus.txt", 593, 592, {"all": 5145}),
    ("ncbi/NCBIdevelopset_corpus.txt", 100, 100, {"all": 787}),
    ("ncbi/NCBItestset_corpus.txt", 100, 100, {"all": 960}),
    ("bc5cdr/CDR_TrainingSet.PubTator.txt", 500, 500, {"Chemical": 5203, "Disease": 4182}),
    ("bc5cdr/CDR_DevelopmentSet.PubTator.txt", 500, 500, {"Chemical": 5347, "Disease": 4244}),
]


@pytest.mark.parametrize(("name", "rows", "ids", "mentions"), REAL)
def test_read__gives_the_true_numbers(
    real: Path, name: str, rows: int, ids: int, mentions: dict[str, int]
) -> None:
    path = real / "pubtator" / name

    found = [
        document for document in read(path, target_bytes=50_000) if isinstance(document, Document)
    ]

    labels = collections.Counter(span.label for document in found for span in document.spans)
    assert (len(found), len({document.id for document in found})) == (rows, ids)
    assert (mentions == {"all": labels.total()}) or mentions == labels
    assert not any(document.unplaced for document in found)


@pytest.mark.parametrize("name", [name for name, *_ in REAL])
def test_read__agrees_with_its_twin(real: Path, name: str) -> None:
    path = real / "pubtator" / name

    found = [document for document in read(path) if isinstance(document, Document)]

    assert [(d.id, d.text, [(s.start, s.end, s.label) for s in d.spans]) for d in found] == [
        (doc_id, text, [(start, end, label) for start, end, _, label in mentions])
        for doc_id, text, mentions in reference.read(path)
    ]


def test_read__gives_the_duplicate_record_of_ncbi_twice(real: Path) -> None:
    found = read(real / "pubtator/ncbi/NCBItrainset_corpus.txt")

    twice = [
        document
        for document in found
        if isinstance(document, Document) and document.id == "8528200"
    ]
    assert len(twice) == 2
    assert (twice[0].text, twice[0].spans) == (twice[1].text, twice[1].spans)
    assert len(twice[0].spans) == 11
