from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from mslm_data.data.document import Document, Part, SetAside, Span
from mslm_data.data.reason import Reason
from mslm_data.source import Sample
from mslm_data.source.formats.brat import Brat
from mslm_data.source.recognise import recognise


def read(folder: Path, source: Brat | None = None) -> list[Document | SetAside]:
    source = source or Brat()
    return [
        document
        for paths in source.find([folder]).values()
        for path in paths
        for part in source.cut(Part(str(path)), target_bytes=1)
        for document in source.read(part)
    ]


def written(
    folder: Path, text: bytes, annotations: str, source: Brat | None = None
) -> Document | SetAside:
    (folder / "n.txt").write_bytes(text)
    (folder / "n.ann").write_text(annotations, encoding="utf-8")
    (document,) = read(folder, source)
    return document


def test_read__keeps_line_ends_as_offsets_count_them(tmp_path: Path) -> None:
    document = written(tmp_path, b"A.\r\nGout\r\n", "T1\tDisease 4 8\tGout\n")

    assert isinstance(document, Document)
    assert (document.text, document.spans) == ("A.\r\nGout\r\n", (Span(4, 8, "Disease"),))
    assert document.sentences is None


@pytest.mark.parametrize("start", [3, 4])
def test_read__removes_the_byte_order_mark_counted_or_not(tmp_path: Path, start: int) -> None:
    document = written(tmp_path, b"\xef\xbb\xbfHe gout", f"T1\tDisease {start} {start + 4}\tgout\n")

    assert isinstance(document, Document)
    assert (document.text, document.spans) == ("He gout", (Span(3, 7, "Disease"),))


def test_read__counts_characters_beyond_the_basic_plane_as_one(tmp_path: Path) -> None:
    document = written(tmp_path, "\U0001d6fc gout".encode(), "T1\tDisease 2 6\tgout\n")

    assert isinstance(document, Document)
    assert document.spans == (Span(2, 6, "Disease"),)


@pytest.mark.parametrize(
    ("source", "spans", "unplaced"),
    [
        (Brat(), (Span(0, 13, "Sign"),), {}),
        (Brat(discontinuous="set_aside"), (), {Reason("discontinuous"): 1}),
    ],
)
def test_read__treats_discontinuous_mentions_by_option(
    tmp_path: Path, source: Brat, spans: tuple[Span, ...], unplaced: dict[Reason, int]
) -> None:
    document = written(tmp_path, b"Red sore skin", "T1\tSign 0 3;9 13\tRed skin\n", source)

    assert isinstance(document, Document)
    assert (document.spans, document.unplaced) == (spans, unplaced)


def test_read__takes_a_mention_across_a_line_end_as_one(tmp_path: Path) -> None:
    annotations = "T1\tSign 0 8\tred skin\nT2\tSign 0 3;4 8\tred skin\n"

    document = written(tmp_path, b"red\nskin", annotations, Brat(discontinuous="set_aside"))

    assert isinstance(document, Document)
    assert document.spans == (Span(0, 8, "Sign"), Span(0, 8, "Sign"))


@pytest.mark.parametrize(
    ("text", "annotations", "place", "reason"),
    [
        (b"", b"", "n.txt:1", "expected text"),
        (b"Gou\xff", b"", "n.txt:1", "expected UTF-8"),
        (b"Gout", b"T1\tDisease 0 4\tGout\nT2\tDis\xff 0 4\tGout\n", "n.ann:2", "expected UTF-8"),
        (b"Gout", b"T1\tDisease 0\tGout\n", "n.ann:1", "expected ID, TAB, type"),
        (b"Gout", b"T1 Disease 0 4 Gout\n", "n.ann:1", "expected ID, TAB, type"),
    ],
)
def test_read__sets_a_broken_document_aside(
    tmp_path: Path, text: bytes, annotations: bytes, place: str, reason: str
) -> None:
    (tmp_path / "n.txt").write_bytes(text)
    (tmp_path / "n.ann").write_bytes(annotations)

    (found,) = read(tmp_path)

    assert isinstance(found, SetAside)
    assert (found.id, found.place) == ("n", place)
    assert found.reason.text.startswith(reason)
    assert "Gout" not in found.reason.text


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("n.txt", "expected a file of annotations (.ann) beside the text, found none"),
        ("n.ann", "expected a text (.txt) beside the file of annotations, found none"),
    ],
)
def test_read__sets_half_a_document_aside(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / name).write_text("Gout", encoding="utf-8")

    (found,) = read(tmp_path)

    assert found[:3] == ("n", f"{name}:1", Reason(reason))


def test_read__without_annotations_reads_texts_as_empty(tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("Gout", encoding="utf-8")
    (tmp_path / "m.ann").write_text("T1\tDisease 0 4\tGout\n", encoding="utf-8")

    lost, found = read(tmp_path, Brat(without_annotations="empty"))

    assert isinstance(lost, SetAside)
    assert lost.place == "m.ann:1"
    assert isinstance(found, Document)
    assert (found.text, found.spans) == ("Gout", ())


def test_read__finds_annotations_in_a_folder_beside_the_texts(tmp_path: Path) -> None:
    for folder, name in (("texts", "n.txt"), ("texts", "o.txt"), ("ann", "n.ann"), ("x", "o.md")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text("gout" if name[2:] != "ann" else "T1\tD 0 4\tgout\n")

    found, aside = read(tmp_path)

    assert recognise([tmp_path]).what == "brat"
    assert isinstance(found, Document)
    assert found.spans == (Span(0, 4, "D"),)
    assert isinstance(aside, SetAside)


def test_read__takes_no_annotations_of_other_texts(tmp_path: Path) -> None:
    for folder, name in (("test", "n.txt"), ("train", "n.txt"), ("train", "n.ann")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text("gout" if name[2:] != "ann" else "T1\tD 0 4\tgout\n")

    (aside,) = read(tmp_path / "test")

    assert isinstance(aside, SetAside)


def test_recognises__annotations_beside_a_text(tmp_path: Path) -> None:
    head = b"R1\tOf Arg1:T1 Arg2:T2\nT1\tDisease 0 4\tGout\n"

    assert Brat().sniff(Sample(tmp_path / "n.ann", head)).why == ""
    (tmp_path / "n.txt").write_text("Gout", encoding="utf-8")
    assert Brat().sniff(Sample(tmp_path / "n.ann", head)).why != ""
    assert Brat().sniff(Sample(tmp_path / "n.ann", b"0\n1\n")).why == ""
    assert Brat().sniff(Sample(tmp_path / "n.txt", b"Gout")).why == ""


@pytest.mark.long
def test_read__gives_the_true_numbers_of_jnlpba(real: Path, tmp_path: Path) -> None:
    with tarfile.open(real / "brat/jnlpba/standoff_all.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")

    splits = Brat().find([tmp_path])
    found = read(tmp_path)

    documents = [document for document in found if isinstance(document, Document)]
    assert {split: len(paths) for split, paths in splits.items()} == {"train": 2000, "test": 404}
    assert (len(found), len(documents)) == (2404, 2404)
    assert sum(len(document.spans) for document in documents) == 59_963
    assert not any(document.unplaced for document in documents)


def test_read__takes_the_annotations_of_shared_tasks(tmp_path: Path) -> None:
    files = {
        "1.txt": "BRCA1 binds RAD51.",
        "1.a1": "T1\tProtein 0 5\tBRCA1\nT2\tProtein 12 17\tRAD51\n",
        "1.a2": "T3\tBinding 6 11\tbinds\nE1\tBinding:T3 Theme:T1 Theme2:T2\n*\tEquiv T1 T2\n",
        "2.txt": "RAD51 waits.",
        "2.a1": "T1\tProtein 0 5\tRAD51\n",
        "3.txt": "RAD51 waits.",
        "3.ann": "T1\tGene 0 5\tRAD51\n",
        "3.a1": "T1\tProtein 0 5\tRAD51\n",
        "4.a1": "T1\tProtein 0 5\tRAD51\n",
        "4.a2": "T2\tBinding 6 11\twaits\n",
        "5.txt": "RAD51 waits.",
        "5.a1": "T1\tProtein 0 5\tRAD51\n",
        "5.a2": "T2\tBinding six 11\twaits\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    found = read(tmp_path)

    documents = [one for one in found if isinstance(one, Document)]
    assert [(one.id, [span.label for span in one.spans]) for one in documents] == [
        ("1", ["Protein", "Protein", "Binding"]),
        ("2", ["Protein"]),
        ("3", ["Gene"]),
    ]
    assert [one[:2] for one in found if isinstance(one, SetAside)] == [
        ("4", "4.a1:1"),
        ("5", "5.a2:1"),
    ]
    assert [one.mentions for one in found if isinstance(one, SetAside)] == [2, 1]
    assert [path.name for path in Brat().files(tmp_path / "1.txt")] == ["1.txt", "1.a1", "1.a2"]


@pytest.mark.parametrize(
    ("lines", "concept"),
    [
        ("N1\tReference T1 MESH:D006073\tGout\n", "MESH:D006073"),
        ("N1\tReference T1 MESH:D006073\n", "MESH:D006073"),
        ("N1\tMeSH Annotation:T1 Referent:D006073\n", "D006073"),
        ("N1\tReference T1 X:1\tGout\nN2\tReference T1 Y:2\tGout\n", "X:1|Y:2"),
        ("N1\tReference T2 X:1\tGout\nN2\tT1\n", ""),
    ],
)
def test_read__keeps_the_concepts_of_a_mention(tmp_path: Path, lines: str, concept: str) -> None:
    mention = "T1\tDisease 0 4\tGout\n"

    for content in (mention + lines, lines + mention):
        document = written(tmp_path, b"Gout", content)

        assert isinstance(document, Document)
        assert document.spans == (Span(0, 4, "Disease", concept),)


def test_read__finds_the_concepts_of_a_mention_in_the_other_file(tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_bytes(b"Gout")
    (tmp_path / "n.a1").write_text("T1\tDisease 0 4\tGout\n", encoding="utf-8")
    (tmp_path / "n.a2").write_text("N1\tMeSH Annotation:T1 Referent:D006073\n", encoding="utf-8")

    (document,) = read(tmp_path)

    assert isinstance(document, Document)
    assert document.spans == (Span(0, 4, "Disease", "D006073"),)
