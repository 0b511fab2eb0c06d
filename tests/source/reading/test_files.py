from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from mslm_data.data.document import Part
from mslm_data.errors import SourceError
from mslm_data.source.reading.files import LinesOfFile, document_id, lines, read_bytes
from mslm_data.source.table import SOURCES


def test_read_bytes__reads_ranges_of_plain_and_packed_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"0123456789", mtime=0))

    for path in (tmp_path / "a", tmp_path / "a.gz"):
        assert read_bytes(path) == b"0123456789"
        assert read_bytes(path, 2, 5) == b"234"
        assert read_bytes(path, 8) == b"89"
        assert read_bytes(path, 3, 3) == b""


@pytest.mark.parametrize("data", [b"no gzip", gzip.compress(b"0123456789" * 100, mtime=0)[:-12]])
def test_read_bytes__refuses_a_damaged_archive(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.gz").write_bytes(data)

    with pytest.raises(SourceError, match=r"^a.gz: cannot be read \(\w+\); is the file whole\?$"):
        read_bytes(tmp_path / "a.gz")


def test_lines__end_with_lf_or_crlf_only() -> None:
    data = "\ufeffa\u2028b\x85c\x0bd\r\n\r\ne\rf".encode()

    assert [(line.number, line.data.decode()) for line in lines(data)] == [
        (1, "a\u2028b\x85c\x0bd"),
        (2, ""),
        (3, "e\rf"),
    ]
    assert next(lines(data, first=5)) == (5, "\ufeffa\u2028b\x85c\x0bd".encode()), (
        "a mark only at a file's start"
    )
    assert list(lines(b"")) == []
    assert [line.data for line in lines(b"\n\n")] == [b"", b""]


def test_lines_of_file__are_named_when_they_are_asked_for() -> None:
    places = LinesOfFile("train.tsv", np.array([1, 4, 9]))

    assert list(places) == ["train.tsv:1", "train.tsv:4", "train.tsv:9"]
    assert len(places) == 3
    assert places[-1] == "train.tsv:9"
    assert list(places[1:]) == ["train.tsv:4", "train.tsv:9"]
    assert "train.tsv:4" in places
    with pytest.raises(IndexError):
        places[3]


def test_document_id__is_the_name_of_a_folder_also_for_a_path_with_dots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "note1.txt" / "here"
    here.mkdir(parents=True)
    (tmp_path / "link").symlink_to(here.parent)
    monkeypatch.chdir(here)

    assert document_id(Path("a.tsv"), "folder") == "here"
    assert document_id(Path("..", "a.tsv"), "folder") == "note1.txt"
    assert document_id(tmp_path / "link" / "a.tsv", "folder") == "link"


@pytest.mark.parametrize(
    ("head", "program"),
    [
        (b"%PDF-1.7\n%\xe2\xe3", "pdftotext"),
        (b"%PDF-1.4\nall in ASCII", "pdftotext"),
        (b"PK\x03\x04\x14\x00", "pandoc"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "libreoffice"),
        (b"{\\rtf1\\ansi", "pandoc"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_read_bytes__refuses_documents_of_other_programs(
    encoding: str, head: bytes, program: str, tmp_path: Path
) -> None:
    """Their bytes are no text in any encoding."""
    path = tmp_path / "note.txt"
    path.write_bytes(head + b" and more")
    source = SOURCES.load("text")(encoding=encoding)

    with pytest.raises(SourceError, match=rf"note\.txt: expected text, got an? .*`{program}"):
        [*source.read(Part(str(path)))]
