from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pytest

from mslm_data import pipeline
from mslm_data.data.document import Document, Part, Sentence, SetAside, Span
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source import Sample
from mslm_data.source.formats.i2b2 import I2b2
from mslm_data.source.reading.standoff import MISMATCH, NO_LABEL, NO_WIDTH, OUTSIDE
from tests.source.formats.test_offsets import Article, articles

LINE = re.compile(r'^c="(.*)" (\d+):(\d+) (\d+):(\d+)\|\|t="(.*)"$', re.MULTILINE)


def written(folder: Path, files: Mapping[str, str], **options: Any) -> list[Document | SetAside]:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    source = I2b2(**options)
    return [
        record
        for paths in source.find([folder]).values()
        for path in paths
        for record in source.read(Part(str(path)))
    ]


def found(record: Document | SetAside) -> list[tuple[str, str]]:
    assert isinstance(record, Document), record
    return [(record.text[span.start : span.end], span.label) for span in record.spans]


# 2010 -------------------------------------------------------------------------------------------


def test_read__concepts_agree_with_a_plain_reader_on_a_whole_corpus(
    real: Path, tmp_path: Path
) -> None:
    blocks = (
        (real / "blurb/NCBI-disease-IOB/devel.tsv")
        .read_text(encoding="utf-8")
        .strip()
        .split("\n\n")
    )
    sentences = [[row.split("\t") for row in block.split("\n")] for block in blocks]
    concepts = []
    for number, sentence in enumerate(sentences, start=1):
        tags = "".join(tag[0] for _, tag in sentence)
        for match in re.finditer("BI*", tags):
            words = " ".join(word for word, _ in sentence[match.start() : match.end()]).lower()
            concepts.append(
                f'c="{words}" {number}:{match.start()} {number}:{match.end() - 1}||t="problem"'
            )
    text = "".join(" ".join(word for word, _ in sentence) + "\n" for sentence in sentences)

    (document,) = written(tmp_path, {"txt/a.txt": text, "concept/a.con": "\n".join(concepts)})

    # A simple reader: words of lines, by number.
    rows = [line.split() for line in text.split("\n")]
    expected = [
        (" ".join(rows[int(m[2]) - 1][int(m[3]) : int(m[5]) + 1]), m[6])
        for m in LINE.finditer("\n".join(concepts))
    ]
    assert found(document) == expected
    assert isinstance(document, Document)
    assert (len(expected), document.unplaced) == (787, {})
    assert document.sentences is not None
    assert len(document.sentences) == len(sentences)


def test_read__lines_are_sentences_and_tokens_are_parted_by_any_white_space(tmp_path: Path) -> None:
    (document,) = written(
        tmp_path,
        {"a.txt": "A  red\tfox .\r\n\r\nIt ran\n", "a.con": 'c="red fox" 1:1 1:2||t="X"\r\n'},
    )

    assert found(document) == [("red\tfox", "X")]
    assert isinstance(document, Document)
    assert document.sentences == (Sentence(0, 12), Sentence(16, 22))


@pytest.mark.parametrize(
    ("concept", "reason"),
    [
        ('"fox" 1:0 1:0', MISMATCH),
        ('"red" 1:9 1:9', OUTSIDE),
        ('"red" 7:0 7:0', OUTSIDE),
        ('"red" 0:0 0:0', OUTSIDE),
        ('"red" 1:1 1:0', NO_WIDTH),
    ],
)
def test_read__counts_concepts_that_do_not_match(
    tmp_path: Path, concept: str, reason: Reason
) -> None:
    (document,) = written(tmp_path, {"a.txt": "Red fox\n", "a.con": f'c={concept}||t="X"\n'})

    assert isinstance(document, Document)
    assert (document.spans, document.unplaced) == ((), {reason: 1})


def test_read__takes_quotes_and_bars_in_the_words(tmp_path: Path) -> None:
    (document,) = written(
        tmp_path,
        {"a.txt": 'the " 1:2 || pain "\n', "a.con": 'c="" 1:2 || pain "" 1:1 1:5||t="X"\n'},
    )

    assert found(document) == [('" 1:2 || pain "', "X")]


@pytest.mark.parametrize(
    ("text", "concepts"),
    [
        ("beth/txt/a.txt", "beth/concept/a.con"),
        ("test_data/a.txt", "reference_standard_for_test_data/concepts/a.con"),
        ("a.txt", "a.con"),
    ],
)
def test_read__finds_concepts_in_distributed_folders(
    tmp_path: Path, text: str, concepts: str
) -> None:
    records = written(tmp_path, {text: "Red fox\n", concepts: 'c="fox" 1:1 1:1||t="X"\n'})

    assert [found(record) for record in records] == [[("fox", "X")]]


def test_read__files_may_have_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Très malade\n".encode("latin-1"))
    (tmp_path / "a.con").write_bytes('c="très malade" 1:0 1:1||t="X"\n'.encode("latin-1"))

    (record,) = written(tmp_path, {}, encoding="latin-1")

    assert found(record) == [("Très malade", "X")]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a.txt", "expected a file of concepts (.con) for the text, found none; check [source]"),
        ("a.con", "expected a text (.txt) for the file of concepts, found none; check [source]"),
    ],
)
def test_read__sets_half_a_document_aside(tmp_path: Path, name: str, reason: str) -> None:
    (record,) = written(tmp_path, {name: ""})

    assert isinstance(record, SetAside)
    assert (record.id, record.place) == ("a", f"{name}:1")
    assert record.reason.text.startswith(reason)


# XML --------------------------------------------------------------------------------------------


@pytest.fixture
def corpus(real: Path) -> list[Article]:
    (path,) = (real / "pubtator/bc5cdr").glob("*[dD]evelop*")
    return articles(path)


def test_read__tags_agree_with_another_parser(corpus: list[Article], tmp_path: Path) -> None:
    files = {}
    for a in corpus:
        tags = "".join(
            f'<{m[3].upper()} id="P{n}" start="{m[0] + 1}" end="{m[1] + 1}" text={quoteattr(m[2])} TYPE="{m[3]}" />\n'
            for n, m in enumerate(a.mentions)
        )
        # Texts of 2014 begin with a line end, which offsets count.
        text = f"<TEXT><![CDATA[\n{a.title}\n{a.abstract}]]></TEXT>"
        files[f"{a.pmid}.xml"] = (
            f'<?xml version="1.0"?>\n<deIdi2b2>\n{text}\n<TAGS>\n{tags}</TAGS></deIdi2b2>'
        )

    records = written(tmp_path, files)

    assert len(records) == len(corpus)
    count = 0
    for record in records:
        assert isinstance(record, Document)
        root = ET.fromstring(files[f"{record.id}.xml"])  # noqa: S314 - it is our own
        assert record.text == root.findtext("TEXT")
        expected = sorted(
            (int(t.get("start") or ""), int(t.get("end") or ""), t.get("TYPE") or "")
            for t in root[1]
        )
        assert sorted(span[:3] for span in record.spans) == expected
        assert not record.unplaced
        count += len(expected)
    assert count == sum(len(a.mentions) for a in corpus)


def test_read__records_agree_with_another_parser(corpus: list[Article], tmp_path: Path) -> None:
    records = []
    for a in corpus:
        text = f"{a.title}\n{a.abstract}"
        pieces, last = [], 0
        for start, end, *_ in sorted(a.mentions):
            if start >= last:
                pieces += [
                    escape(text[last:start]),
                    f'<PHI TYPE="ID">{escape(text[start:end])}</PHI>',
                ]
                last = end
        records.append(
            f'<RECORD ID="{a.pmid}"><TEXT>{"".join(pieces)}{escape(text[last:])}</TEXT></RECORD>'
        )
    whole = f"<ROOT>{''.join(records)}</ROOT>"

    documents = written(tmp_path, {"all.xml": whole})

    count = 0
    root = ET.fromstring(whole)  # noqa: S314 - it is our own
    for document, record in zip(documents, root, strict=True):
        assert isinstance(document, Document)
        assert document.id == record.get("ID")
        assert document.text == "".join(record[0].itertext())
        expected = [("".join(phi.itertext()), "ID") for phi in record.iter("PHI")]
        assert found(document) == expected
        count += len(expected)
    assert count > 9_000


@pytest.mark.parametrize(
    ("label", "expected"),
    [("type", ["DATE", "OCCURRENCE", "NAME"]), ("tag", ["TIMEX3", "EVENT", "NAME"])],
)
def test_read__labels_are_types_or_elements(
    tmp_path: Path, label: str, expected: list[str]
) -> None:
    tags = (
        '<TIMEX3 start="0" end="3" text="May" TYPE="DATE"/><EVENT start="4" end="8" text="came" type="OCCURRENCE"/>'
        '<NAME start="9" end="11" text="Al"/><DIABETES indicator="mention"/><SECTIME id="1" type="X"/>'
        '<SMOKER start="-1" end="-1" text="" status="past"/>'
    )
    (document,) = written(
        tmp_path, {"a.xml": f"<X><TEXT>May came Al</TEXT><TAGS>{tags}</TAGS></X>"}, label=label
    )

    assert [label for _, label in found(document)] == expected


def test_read__takes_the_spans_of_medtator(tmp_path: Path) -> None:
    tags = (
        '<DRUG spans="0~7" text="Aspirin" id="D0"/><SIGN spans="9~12,18~22" text="Red ... skin"/>'
        '<META spans="" text=""/>'
    )
    (document,) = written(
        tmp_path, {"a.xml": f"<X><TEXT>Aspirin. Red sore skin</TEXT><TAGS>{tags}</TAGS></X>"}
    )

    assert found(document) == [("Aspirin", "DRUG"), ("Red sore skin", "SIGN")]


def test_read__reads_nested_phi_and_counts_untyped_phi(tmp_path: Path) -> None:
    text = '<TEXT>To <PHI TYPE="A">St <PHI TYPE="B">Ann</PHI>e</PHI> <PHI>x</PHI></TEXT>'

    (document,) = written(tmp_path, {"a.xml": f'<ROOT><RECORD ID="1">{text}</RECORD></ROOT>'})

    assert found(document) == [("Ann", "B"), ("St Anne", "A")]
    assert isinstance(document, Document)
    assert document.unplaced == {NO_LABEL: 1}


@pytest.mark.parametrize(
    ("xml", "line", "reason"),
    [
        ("<X><TEXT>a</TEXT>\n<TAGS>", 2, "expected well-formed XML"),
        ('<!DOCTYPE X [<!ENTITY a "b">]>\n<X><TEXT>&a;</TEXT></X>', 1, "expected no entities"),
        ("<X>\n<TEXT>a</TEXT><TEXT>b</TEXT></X>", 2, "expected one TEXT in the file, got several"),
        (
            '<X><TEXT>a</TEXT>\n<TAGS><A start="x" end="1"/></TAGS></X>',
            2,
            "expected whole numbers as start",
        ),
        (
            '<X><TEXT>a</TEXT>\n<TAGS><A start="-1" end="1"/></TAGS></X>',
            2,
            "expected whole numbers as start",
        ),
        ("<X></X>", 1, "expected text, got none"),
    ],
)
def test_read__sets_a_broken_file_aside(tmp_path: Path, xml: str, line: int, reason: str) -> None:
    (record,) = written(tmp_path, {"a.xml": xml})

    assert isinstance(record, SetAside)
    assert (record.id, record.place) == ("a", f"a.xml:{line}")
    assert record.reason.text.startswith(reason)


def test_read__refuses_a_broken_file_of_records(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"a\.xml:1: expected well-formed XML"):
        written(tmp_path, {"a.xml": '<ROOT><RECORD ID="1"><TEXT>a</TEXT></RECORD>'})


def test_read__a_record_without_a_text_is_set_aside(tmp_path: Path) -> None:
    (record,) = written(tmp_path, {"a.xml": '<ROOT>\n<RECORD ID="1"></RECORD></ROOT>'})

    assert record == SetAside(
        "1", "a.xml:2", Reason("expected a record with an ID and a TEXT, got another")
    )


def test_read__spans_of_2014_are_half_open(tmp_path: Path) -> None:
    xml = '<X><TEXT><![CDATA[\n\nRecord date: 2067-05-03]]></TEXT><TAGS><DATE start="15" end="25" text="2067-05-03" TYPE="DATE"/></TAGS></X>'

    (document,) = written(tmp_path, {"a.xml": xml})

    assert isinstance(document, Document)
    assert document.spans == (Span(15, 25, "DATE"),)


# Other promises --------------------------------------------------------------------------


def test_pipeline__is_protected_unless_it_says_otherwise() -> None:
    tables: dict[str, Any] = {"source": {"use": "i2b2"}}

    assert pipeline.read({"name": "x", **tables}).about.protected
    unprotected = {"name": "x", **tables, "about": {"protected": False}}
    assert not pipeline.read(unprotected).about.protected


@pytest.mark.parametrize(
    ("name", "head", "expected"),
    [
        ("a.con", b'c="x y" 1:0 1:1||t="problem"\n', True),
        ("a.con", b"anything", False),
        ("a.xml", b"<deIdi2b2>\n<TEXT><![CDATA[x]]></TEXT><TAGS>", True),
        ("a.xml", b'<ROOT><RECORD ID="1"><TEXT><PHI TYPE="A">', True),
        ("a.xml", b"<collection><document>", False),
        ("a.txt", b"anything", False),
    ],
)
def test_recognises__its_forms(tmp_path: Path, name: str, head: bytes, expected: bool) -> None:
    assert bool(I2b2().sniff(Sample(tmp_path / name, head)).why) is expected
