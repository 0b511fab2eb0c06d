from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, Part, Sentence, SetAside, Span
from mslm_data.source import Sample
from mslm_data.source.formats.pubtator import PubTator
from mslm_data.source.reading.records import NOT_UTF8
from mslm_data.source.reading.standoff import MISMATCH, OUTSIDE
from tests.reference import pubtator as reference


def read(path: Path, *, target_bytes: int = 1 << 30) -> list[Document | SetAside]:
    source = PubTator()
    return [
        document
        for part in source.cut(Part(str(path)), target_bytes=target_bytes)
        for document in source.read(part)
    ]


def written(folder: Path, text: str) -> list[Document | SetAside]:
    path = folder / "own.txt"
    path.write_bytes(text.encode())
    return read(path)


def test_read__keeps_the_text_exactly(tmp_path: Path) -> None:
    (document,) = written(tmp_path, "1|t|  A|b\u2028c \r\n1|a| d\t|t|e  \n")

    assert isinstance(document, Document)
    assert document.text == "  A|b\u2028c \n d\t|t|e  "
    assert document.sentences == (Sentence(0, 8), Sentence(9, 18))
    assert document.place == "own.txt:1"


def test_read__has_no_empty_sentence(tmp_path: Path) -> None:
    first, second = written(tmp_path, "1|t|\n1|a|Only this.\n\n2|t|Only that.\n")

    assert isinstance(first, Document)
    assert isinstance(second, Document)
    assert (first.text, first.sentences) == ("\nOnly this.", (Sentence(1, 11),))
    assert (second.text, second.sentences) == ("Only that.", (Sentence(0, 10),))


def test_read__skips_relations_of_four_and_five_columns(tmp_path: Path) -> None:
    rows = "1\t0\t4\tGout\tDisease\n1\tCID\tD1\tD2\n1\tAssociation\tD1\tD2\tNovel\n"

    (document,) = written(tmp_path, f"1|t|Gout.\n1|a|\n{rows}")

    assert isinstance(document, Document)
    assert document.spans == (Span(0, 4, "Disease"),)


def test_read__begins_a_record_at_a_title_without_a_blank_line(tmp_path: Path) -> None:
    found = written(tmp_path, "1|t|Gout.\n1|a|Pain.\n2|t|Cough.\n2|a|Fever.\n")

    assert [document.id for document in found] == ["1", "2"]


@pytest.mark.parametrize(
    ("record", "line", "reason"),
    [
        ("Gout and nothing else", 1, "PMID|t|title as its first line"),
        ("1|t|Gout.\n2|a|Pain.", 2, "an abstract with the PMID"),
        ("1|t|\n1|a|", 1, "expected text, got none"),
        ("1|t|Gout.\n1|a|\n2\t0\t4\tGout\tDisease\tD1", 3, "a mention with the PMID"),
        ("1|t|Gout.\n1|a|\n1\t0\tfour\tGout\tDisease\tD1", 3, "got 6 column"),
        ("1|t|Gout.\n1|a|\n1\t0\t4\tGout", 3, "got 4 column"),
    ],
)
def test_read__sets_a_broken_record_aside(
    tmp_path: Path, record: str, line: int, reason: str
) -> None:
    first, broken, last = written(tmp_path, f"8|t|A.\n\n{record}\n\n9|t|B.\n")

    assert isinstance(broken, SetAside)
    assert broken.place == f"own.txt:{line + 2}"
    assert reason in broken.reason.text
    assert "Gout" not in broken.reason.text
    assert (first.id, last.id) == ("8", "9")


def test_read__sets_other_bytes_than_utf8_aside(tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_bytes(b"1|t|Gout.\n1|a|Pa\xefn.\n\n2|t|Cough.\n")

    broken, document = read(path)

    assert broken == SetAside("1", "own.txt:2", NOT_UTF8, mentions=0)
    assert document.id == "2"


def test_read__counts_mentions_that_miss_their_offsets(tmp_path: Path) -> None:
    rows = "".join(f"1\t{i}\t{i + 4}\tgout\tDisease\tD1\n" for i in range(12))

    (document,) = written(tmp_path, f"1|t|Pain and gout.\n1|a|\n{rows}")

    assert isinstance(document, Document)
    assert document.spans == (Span(9, 13, "Disease", "D1"),)
    assert document.unplaced == {MISMATCH: 10, OUTSIDE: 1}


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


def test_recognises__a_title() -> None:
    assert (
        PubTator().sniff(Sample(Path("a.txt"), b"\xef\xbb\xbf\n12|t|Gout\n12|a|It hurts.\n")).why
        != ""
    )
    assert PubTator().sniff(Sample(Path("a.txt"), b"Gout hurts.\n")).why == ""
    assert PubTator().sniff(Sample(Path("a.txt"), b"")).why == ""


def test_read__separates_passages_of_an_article(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text(
        "7|t|Gout.\n7|a|\n7\t0\t4\tGout\tDisease\tD1\n\n7|t|Rash.\n7\t0\t4\tRash\tDisease\tD2\n"
    )

    def ids(**options: Any) -> list[str]:
        source = PubTator(**options)
        parts = source.cut(Part(str(tmp_path / "own.txt")), target_bytes=1)
        return [record.id for part in parts for record in source.read(part)]

    assert ids() == ["7", "7"]
    assert ids(ids="line") == ["7:1", "7:5"]


@pytest.mark.parametrize("start", [13, 14])
def test_read__counts_a_blank_after_the_title_as_its_mentions_do(
    tmp_path: Path, start: int
) -> None:
    # The title has 13 characters with the blank, which is counted once more only in some files.
    path = tmp_path / "f.txt"
    path.write_text(
        f"1|t|Gout hurts.  \n1|a|Aspirin helps.\n1\t{start}\t{start + 7}\tAspirin\tDrug\tD1\n"
    )

    (document,) = PubTator().read(Part(str(path)))

    assert isinstance(document, Document)
    (span,) = document.spans
    assert document.text[span.start : span.end] == "Aspirin"
    assert document.sentences is not None
    assert [document.text[first:last] for first, last in document.sentences][1] == "Aspirin helps."
