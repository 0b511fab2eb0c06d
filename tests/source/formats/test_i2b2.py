from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pytest

from mslm_data import pipeline
from mslm_data.data.document import Document, Part, SetAside
from mslm_data.source.formats.i2b2 import I2b2
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


# Other promises --------------------------------------------------------------------------


def test_pipeline__is_protected_unless_it_says_otherwise() -> None:
    tables: dict[str, Any] = {"source": {"use": "i2b2"}}

    assert pipeline.read({"name": "x", **tables}).about.protected
    unprotected = {"name": "x", **tables, "about": {"protected": False}}
    assert not pipeline.read(unprotected).about.protected
