from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source import Sample
from mslm_data.source.formats.bc2gm import Bc2gm
from mslm_data.source.reading.standoff import MISMATCH, OUTSIDE


def read(folder: Path, sentences: str, mentions: str, **options: Any) -> list[Document | SetAside]:
    (folder / "train.in").write_text(sentences, encoding="utf-8")
    (folder / "GENE.eval").write_text(mentions, encoding="utf-8")
    source = Bc2gm(**options)
    ((path,),) = source.find([folder]).values()
    return [
        record
        for part in source.cut(Part(str(path)), target_bytes=1)
        for record in source.read(part)
    ]


@pytest.mark.parametrize(
    ("text", "start", "end", "words"),
    [
        ("abc defg.", 0, 2, "abc"),
        ("abc defg.", 3, 6, "defg"),
        ("abc defg.", 2, 3, "c d"),
        ("  abc   defg.", 3, 6, "defg"),
        ("abc  defg .", 0, 7, "abc defg ."),
        ("na\u00efve \U0001f9ec rat", 6, 8, "rat"),
        ("a", 0, 0, "a"),
    ],
)
def test_read__counts_characters_without_spaces(
    tmp_path: Path, text: str, start: int, end: int, words: str
) -> None:
    (document,) = read(tmp_path, f"S1 {text}\n", f"S1|{start} {end}|{words}\n")

    assert isinstance(document, Document)
    assert document.text == text
    ((first, stop, label, *_),) = document.spans
    assert "".join(text[first:stop].split()) == "".join(words.split())
    assert text[first:stop] == text[first:stop].strip()
    assert label == "GENE"
    assert document.sentences == ((0, len(text)),)
    assert document.words is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("S1|1 3|abc", MISMATCH),
        ("S1|0 3|abc", MISMATCH),
        ("S1|7 9|abc", OUTSIDE),
        ("S1|90 99|abc", OUTSIDE),
        ("S1|0 2|abcdef", MISMATCH),
    ],
)
def test_read__counts_mentions_that_do_not_match(tmp_path: Path, line: str, reason: Reason) -> None:
    (document,) = read(tmp_path, "S1 abc defg.\n", f"{line}\nS1|0 2|abc\n")

    assert isinstance(document, Document)
    assert [(span.start, span.end) for span in document.spans] == [(0, 3)]
    assert document.unplaced == {reason: 1}


def test_read__takes_mentions_in_any_order_and_of_other_files(tmp_path: Path) -> None:
    records = read(
        tmp_path, "S1 abc\nS2 de\n", "S9|0 1|zz\nS2|0 1|de\n\nS1|0 0|a\nS1|1 2|bc\n", label="Gene"
    )

    spans = [
        [tuple(span[:3]) for span in record.spans]
        for record in records
        if isinstance(record, Document)
    ]
    assert spans == [[(0, 1, "Gene"), (1, 3, "Gene")], [(0, 2, "Gene")]]


@pytest.mark.parametrize(
    "line", ["S2|0|de", "S2|0 1", "S2|0-1|de", "S2|1 0|de", "S2|\u0661 2|de", "S2| |de"]
)
def test_read__sets_the_sentence_of_a_broken_mention_aside(tmp_path: Path, line: str) -> None:
    records = read(tmp_path, "S1 abc\nS2 de\nS3 f\n", f"S1|0 2|abc\n{line}\n")

    assert [record.id for record in records] == ["S1", "S2", "S3"]
    assert records[1] == SetAside(
        "S2", "GENE.eval:2", Reason("expected ID|start end|text, got a line of another form")
    )


@pytest.mark.parametrize("line", ["secret", " secret", "secret "])
def test_read__sets_a_line_without_a_sentence_aside(tmp_path: Path, line: str) -> None:
    records = read(tmp_path, f"S1 abc\n\n{line}\nS3 f\n", "")

    assert records[1] == SetAside(
        "", "train.in:3", Reason("expected an id, a space and a sentence, got 1 field")
    )


def test_read__refuses_another_file_of_mentions(tmp_path: Path) -> None:
    with pytest.raises(
        SourceError, match=r"^GENE.eval:2: expected ID\|start end\|text, got 1 field"
    ) as caught:
        read(tmp_path, "S1 abc\n", "S1|0 1|ab\nsecret words\n")

    assert "secret" not in str(caught.value)


def test_find__pairs_by_folder_and_name(tmp_path: Path) -> None:
    for name in ("devel-split/train/train.in", "devel-split/devel/devel.in", "flat/my_test.in"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("S1 a\n")
    for name in ("devel-split/train/GENE.eval", "devel-split/devel/GENE.eval", "flat/my_test.eval"):
        (tmp_path / name).write_text("")

    found = Bc2gm().find([tmp_path])

    assert {split: [path.name for path in paths] for split, paths in found.items()} == {
        "train": ["train.in"],
        "validation": ["devel.in"],
        "test": ["my_test.in"],
    }
    assert Bc2gm().files(found["test"][0])[1].name == "my_test.eval"
    elsewhere = Bc2gm(mentions=("../devel-split/train/GENE.eval",))
    assert elsewhere.files(tmp_path / "flat" / "x.in")[1].is_file()


def test_find__names_the_missing_file_of_mentions(tmp_path: Path) -> None:
    (tmp_path / "train.in").write_text("S1 a\n")

    with pytest.raises(
        SourceError,
        match=r"^/.*/train.in: expected GENE.eval or train.eval beside it, found none; set",
    ):
        Bc2gm().find([tmp_path])


def test_recognises__sentences_with_a_file_of_mentions(tmp_path: Path) -> None:
    assert Bc2gm().sniff(Sample(tmp_path / "train.in", b"S1 Gout hurts .\n")).why == ""
    (tmp_path / "GENE.eval").write_bytes(b"")
    assert Bc2gm().sniff(Sample(tmp_path / "train.in", b"S1 Gout hurts .\n")).why != ""
    assert Bc2gm().sniff(Sample(tmp_path / "train.in", b"alone\n")).why == ""
