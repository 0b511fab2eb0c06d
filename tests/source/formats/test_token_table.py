from __future__ import annotations

import csv
import io
import random
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source import Sample
from mslm_data.source.formats.token_table import TokenTable
from mslm_data.source.reading.tagged_lines import not_a_tag
from mslm_data.source.reading.word_documents import LATE


def read(
    folder: Path,
    data: str | bytes,
    *,
    name: str = "f.csv",
    **options: Any,
) -> list[Document | SetAside]:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return list(TokenTable(**options).read(Part(str(path))))


def generated(seed: int, *, named: str) -> tuple[str, list[tuple[str, list[tuple[str, str]]]]]:
    """Write a table with Python's csv; return its sentences: text, and mentions as words and label.

    The sentence is identified in each row, or in its first row only.
    """
    draw = random.Random(seed)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["x", "Word", "Tag", "Sentence #"])
    expected = []
    for number in range(draw.randint(1, 9)):
        words: list[str] = []
        spans: list[list[Any]] = []
        inside = ""
        for place in range(draw.randint(1, 8)):
            word = draw.choice(["a", '"', ",", "naïve", "NA", "null", "c d", "#", 'x"y'])
            tag = draw.choice(["O", "B-X", "B-Y", f"I-{inside}" if inside else "O"])
            inside = tag[2:]
            name = f"S: {number}" if named == "all" or not place else ""
            writer.writerow(["z", word, tag, name])

            words.append(word)
            if tag[0] == "B":
                spans.append([place, place, tag[2:]])
            elif tag[0] == "I":
                spans[-1][1] = place
        found = [(" ".join(words[first : last + 1]), label) for first, last, label in spans]
        expected.append((" ".join(words), found))
    return out.getvalue(), expected


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("named", ["all", "first"])
def test_read__agrees_with_csv(tmp_path: Path, seed: int, named: str) -> None:
    data, expected = generated(seed, named=named)

    records = read(tmp_path, data)

    assert [
        (record.text, [(record.text[a:b], label) for a, b, label, *_ in record.spans])
        for record in records
        if isinstance(record, Document)
    ] == expected
    assert [record.id for record in records] == [f"f:{n}" for n in range(len(expected))]


def test_read__a_table_of_tabs_does_not_quote(tmp_path: Path) -> None:
    rows = [("1", '"', "O"), ("1", "a", "B-X"), ("2", '"b', "O")]
    data = "sentence\tword\ttag\n" + "".join("\t".join(row) + "\n" for row in rows)

    records = read(tmp_path, data, name="f.tsv")

    expected = [" ".join(row[1] for row in of) for _, of in groupby(rows, key=lambda row: row[0])]
    assert [record.text for record in records if isinstance(record, Document)] == expected


def test_read__groups_sentences_into_documents(tmp_path: Path) -> None:
    data = "doc,sent,word,tag\nd1,1,a,O\n,1,b,O\n,2,c,B-X\nd2,2,d,O\n,,,\n,2,e,O\n"

    found = read(tmp_path, data, document_column="Doc")

    assert [(r.id, r.text, r.place) for r in found if isinstance(r, Document)] == [
        ("f:0", "a b\nc", "f.csv:2"),
        ("f:1", "d\ne", "f.csv:5"),
    ]


def test_read__reads_labels_and_other_encodings(tmp_path: Path) -> None:
    data = "Sentence #,Word,Tag\n1,café,Drug\n1,b,Drug\n1,c,-\n".encode("windows-1252")

    (record,) = read(tmp_path, data, scheme="label", outside="-", encoding="windows-1252")

    assert isinstance(record, Document)
    assert [(record.text[a:b], label) for a, b, label, *_ in record.spans] == [("café b", "Drug")]


def test_read__a_word_without_a_label_is_in_no_mention(tmp_path: Path) -> None:
    data = b"Sentence #,Word,Tag\n1,Warfarin,Drug\n1,was,\n1,stopped,\n"

    (record,) = read(tmp_path, data, scheme="label")

    assert isinstance(record, Document)
    assert [(record.text[a:b], label) for a, b, label, *_ in record.spans] == [("Warfarin", "Drug")]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("1,secret,sesame", str(not_a_tag("tag"))),
        ("1,,O", "expected a word and a tag in each row, got no word"),
        ("1,secret", "expected a record with as many columns as the header"),
    ],
)
def test_read__sets_a_sentence_with_a_broken_row_aside(
    tmp_path: Path, row: str, reason: str
) -> None:
    found = read(tmp_path, f"sent,word,tag\n0,a,O\n1,b,O\n{row}\n2,c,O\n")

    (aside,) = [record for record in found if isinstance(record, SetAside)]
    assert (aside.id, aside.place) == ("f:1", "f.csv:4")
    assert aside.reason.text.startswith(reason)
    assert [record.text for record in found if isinstance(record, Document)] == ["a", "c"]


def test_read__knows_iob1(tmp_path: Path) -> None:
    iob1 = "sent,word,tag\n0,a,I-X\n1,b,I-X\n"

    assert all(r.adjusted == {} for r in read(tmp_path, iob1) if isinstance(r, Document))
    (*_, last) = read(tmp_path, "sent,word,tag\n0,a,B-X\n1,b,B-X\n2,c,I-X\n")
    assert isinstance(last, Document)
    assert last.adjusted == {LATE: 1}


@pytest.mark.parametrize("name", ["f.csv", "f.tsv"])
def test_read__refuses_a_table_without_the_columns(tmp_path: Path, name: str) -> None:
    separator = "\t" if name == "f.tsv" else ","

    with pytest.raises(SourceError, match=f"{name}:1: .* word_column"):
        read(tmp_path, "sent,tag\na,O\n".replace(",", separator), name=name)
    with pytest.raises(SourceError, match="document_column"):
        read(
            tmp_path,
            "sent,word,tag\na,b,O\n".replace(",", separator),
            name=name,
            document_column="d",
        )


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_read__ends_sentences_at_blank_rows_without_their_column(
    tmp_path: Path, separator: str
) -> None:
    table = "word,pos,label\na,X,O\nb,X,B-X\n,,\nc,X,I-X\nd,X,B-Y\n".replace(",", separator)
    sample = Sample(tmp_path / "f.csv", table.encode())

    records = read(tmp_path, table)

    # `conll` reads tables with TABs.
    assert bool(TokenTable().sniff(sample).why) == (separator != "\t")
    assert [record.text for record in records if isinstance(record, Document)] == ["a b", "c d"]


def test_recognises__its_header(tmp_path: Path) -> None:
    assert (
        TokenTable().sniff(Sample(tmp_path / "f.csv", b'"Sentence #",Word,POS,Tag\n1,a,NN,O\n')).why
    )
    assert TokenTable().sniff(Sample(tmp_path / "f.tsv", b"sent_id\ttoken\tner\n1\ta\tO\n")).why
    assert not TokenTable().sniff(Sample(tmp_path / "f.csv", b"word,tag\na,O\n")).why
    assert not TokenTable().sniff(Sample(tmp_path / "f.csv", b"word,tag\na,NN\nb,B-X\n" * 3)).why
    assert not TokenTable().sniff(Sample(tmp_path / "f.tsv", b"a\tO\nb\tB-X\n")).why


def test_read__counts_a_real_corpus_written_as_a_table(tmp_path: Path, real: Path) -> None:
    text = (real / "blurb" / "NCBI-disease-IOB" / "devel.tsv").read_text(encoding="utf-8")
    sentences = [block.splitlines() for block in text.split("\n\n") if block.strip()]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["Sentence #", "Word", "Tag"])
    for number, lines in enumerate(sentences):
        for place, line in enumerate(lines):
            writer.writerow([f"Sentence: {number}" if not place else "", *line.split("\t")])

    records = read(tmp_path, out.getvalue())

    documents = [record for record in records if isinstance(record, Document)]
    assert (len(records), len(documents)) == (923, 923)
    assert sum(len(document.spans) for document in documents) == 787
    assert [document.text for document in documents] == [
        " ".join(line.split("\t")[0] for line in lines) for lines in sentences
    ]
