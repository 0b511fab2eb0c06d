"""Readers of text on other encodings and line ends, compared with Python's codecs."""

from __future__ import annotations

import codecs
import typing
from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source import SOURCES
from mslm_data.source.reading.encodings import (
    Encoding,
    TextSource,
    detect_encoding,
    opened_utf8,
    to_utf8,
)
from mslm_data.source.reading.records import NOT_UTF8, RecordError, decode_utf8

WORDS = "na\u00efve \u00a7 \u00fc"
ENCODINGS = typing.get_args(Encoding)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_to_utf8__agrees_with_the_codec(encoding: Encoding) -> None:
    text = "".join(
        character
        for character in "az\u00e9\u0439\u4e2d\u05d0\u0e01\n"
        if character.encode(encoding, "ignore")
    )

    assert codecs.lookup(encoding)._is_text_encoding  # type: ignore[attr-defined]
    assert to_utf8(text.encode(encoding), encoding).decode() == text


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"a\x81b", "windows-1252"),
        (b"a\x00\x00\xd8b\x00", "utf-16-le"),
        (b"a\x00b", "utf-16-le"),
        (b"a\xff", "ascii"),
        (b"\xff\xff\xff\xff", "utf-32"),
        (b"\x8f\xff", "euc-jp"),
    ],
)
def test_to_utf8__makes_invalid_bytes_invalid_utf8(data: bytes, encoding: Encoding) -> None:
    with pytest.raises(RecordError, match="expected UTF-8"):
        decode_utf8(to_utf8(data, encoding))


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [("utf-16", "utf-16"), ("utf-32", "utf-32"), ("utf-8-sig", "utf-8"), ("latin-1", "utf-8")],
)
def test_encoding_of__knows_byte_order_marks(tmp_path: Path, encoding: str, expected: str) -> None:
    (tmp_path / "f").write_bytes("abc".encode(encoding))

    assert detect_encoding(tmp_path / "f", "utf-8") == expected
    assert detect_encoding(tmp_path / "f", "koi8-r") == "koi8-r", "what the pipeline says counts"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be", "gbk", "latin-1"])
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_opened_utf8__reads_and_seeks(tmp_path: Path, encoding: Encoding, end: str) -> None:
    text = f"line{end}" * 300_000
    (tmp_path / "f").write_bytes(text.encode(encoding))
    expected = text.replace("\r", "\n").encode() if end == "\r" else text.encode()

    with opened_utf8(tmp_path / "f", encoding) as file:
        assert file.read(7) == expected[:7]
        file.seek(1_000_000)
        assert file.read(9) == expected[1_000_000:1_000_009]
        file.seek(3)
        assert file.read() == expected[3:]
        assert file.read(1) == b""


@pytest.mark.parametrize(
    ("size", "expected"),
    [(1, b""), (4, b""), (5, b"a\tO\r\n"), (9, b"a\tO\r\n"), (10, b"a\tO\r\nb\tO\r\n"), (99, None)],
)
def test_beginning__ends_with_a_line(tmp_path: Path, size: int, expected: bytes | None) -> None:
    path = tmp_path / "f.tsv"
    path.write_bytes(b"a\tO\r\nb\tO\r\nc\tO")

    assert TextSource().beginning(path, size) == (
        path.read_bytes() if expected is None else expected
    )


def test_beginning__of_other_files(tmp_path: Path) -> None:
    (tmp_path / "cr").write_bytes(b"a\rb\rc")
    (tmp_path / "wide").write_bytes("a\nb\nc".encode("utf-16"))

    assert TextSource().beginning(tmp_path / "cr", 5) == b"a\rb\r"
    assert TextSource().beginning(tmp_path / "wide", 12)[-4:] == b"a\nb\n"
    assert TextSource().beginning(tmp_path / "wide", 99)[-5:] == b"a\nb\nc"


BETWEEN = "\t_" * 7
FILES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "conll": ({}, {"train.tsv": "na\u00efve\tB-X\n\u00a7\tO\n\u00fc\tO\n"}),
    "jsonl": (
        {},
        {"train.jsonl": '{"text": "na\u00efve \u00a7 \u00fc", "entities": [[0, 5, "X"]]}\n'},
    ),
    "pubtator": ({}, {"train.txt": "1|t|na\u00efve \u00a7 \u00fc\n1\t0\t5\tna\u00efve\tX\tC\n"}),
    "brat": ({}, {"train/a.txt": WORDS, "train/a.ann": "T1\tX 0 5\tna\u00efve\n"}),
    "bc2gm": (
        {"label": "X"},
        {"train/a.in": f"1 {WORDS}\n", "train/GENE.eval": "1|0 4|na\u00efve\n"},
    ),
    "ebm": ({}, {"train.tsv": "na\u00efve\tI-PAR\n\u00a7\tO\n\u00fc\tO\n"}),
    "conllu": (
        {},
        {
            "train.conllu": "".join(
                f"{place}\t{word}{BETWEEN}\tNER={'O' if place > 1 else 'B-X'}\n"
                for place, word in enumerate(WORDS.split(), start=1)
            )
        },
    ),
    "token-table": (
        {},
        {"train.csv": "sent,word,tag\n1,na\u00efve,B-X\n1,\u00a7,O\n1,\u00fc,O\n"},
    ),
    "text": ({}, {"train.txt": f"{WORDS}\n"}),
    "notes": ({}, {"train.csv": f'ROW_ID,SUBJECT_ID,CATEGORY,ISERROR,TEXT\n1,2,c,,"{WORDS}"\n'}),
}
"""Source -> its options, and files that hold one document of WORDS."""


def read(
    folder: Path, name: str, written: str, *, end: str = "\n", **options: Any
) -> list[Document | SetAside]:
    given, files = FILES[name]
    for file, text in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.replace("\n", end).encode(written))
    source = SOURCES.make(name, {**given, **options})
    (path,) = source.find([folder])["train"]
    parts = source.cut(Part(str(path)), target_bytes=1)
    return [record for part in parts for record in source.read(part)]  # type: ignore[misc]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("encoding", "options"),
    [
        ("latin-1", {"encoding": "latin-1"}),
        ("cp1252", {"encoding": "windows-1252"}),
        ("utf-16", {}),
        ("utf-32", {}),
        ("utf-16-be", {"encoding": "utf-16-be"}),
        ("gb18030", {"encoding": "gb18030"}),
        ("utf-8-sig", {}),
    ],
)
def test_read__the_same_of_every_encoding(
    tmp_path: Path, name: str, encoding: str, options: dict[str, Any]
) -> None:
    (record,) = read(tmp_path, name, encoding, **options)

    assert isinstance(record, Document), record
    assert record.text.split() == WORDS.split()
    if name not in ("notes", "text"):
        (span,) = record.spans
        assert record.text[span.start : span.end] == "na\u00efve"


@pytest.mark.parametrize("name", FILES)
def test_read__reads_lines_ending_in_cr(tmp_path: Path, name: str) -> None:
    (record,) = read(tmp_path, name, "utf-8", end="\r")

    assert isinstance(record, Document), record
    assert record.text.split() == WORDS.split()
    assert len(record.spans) == int(name not in ("notes", "text"))


@pytest.mark.parametrize("name", ["jsonl", "pubtator", "brat", "bc2gm", "notes"])
def test_read__leads_to_the_option(tmp_path: Path, name: str) -> None:
    (record,) = read(tmp_path, name, "latin-1")

    assert isinstance(record, SetAside)
    assert record.reason == NOT_UTF8


@pytest.mark.parametrize("name", ["bc2gm", "conll", "conllu", "jsonl", "notes", "pubtator", "text"])
def test_cut__leaves_a_missing_file_to_read(name: str, tmp_path: Path) -> None:
    source = SOURCES.make(name, {})
    part = Part(str(tmp_path / "a.txt"))

    with pytest.raises(SourceError, match=r"a\.txt"):
        [list(source.read(each)) for each in source.cut(part, target_bytes=10)]
