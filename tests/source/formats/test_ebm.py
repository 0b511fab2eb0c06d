from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source import Sample
from mslm_data.source.formats.ebm import EbmNlp


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_labels(root: Path, labels: Mapping[str, str], *, phase: str = "starting_spans") -> None:
    for name, text in labels.items():
        element, _, below = name.partition("/")
        write(root, f"annotations/aggregated/{phase}/{element}/{below}", text)


def read(folder: Path, **options: Any) -> dict[str, list[Document | SetAside]]:
    source = EbmNlp(**options)
    return {
        split: [
            record
            for path in paths
            for part in source.cut(Part(str(path)), target_bytes=1)
            for record in source.read(part)
        ]
        for split, paths in source.find([folder]).items()
    }


def mentions(record: Document | SetAside) -> list[tuple[str, str]]:
    assert isinstance(record, Document), record.reason.text
    return [(record.text[span.start : span.end], span.label) for span in sorted(record.spans)]


def test_read__takes_both_releases(tmp_path: Path) -> None:
    write(tmp_path, "new/documents/1.tokens", "old\nmen\nsang\n.\n")
    write_labels(tmp_path / "new", {"participants/train/1.AGGREGATED.ann": "1\n1\n0\n0\n"})
    write(tmp_path, "old/documents/1.tokens", "old men sang .")
    write_labels(tmp_path / "old", {"participants/train/1_AGGREGATED.ann": "1,1,0,00"})

    (new,) = read(tmp_path / "new")["train"]
    (old,) = read(tmp_path / "old")["train"]

    assert isinstance(new, Document)
    assert isinstance(old, Document)
    assert (new.id, new.text, new.spans) == (old.id, old.text, old.spans)
    assert mentions(new) == [("old men", "Participant")]


def test_read__keeps_mentions_of_all_elements(tmp_path: Path) -> None:
    write(tmp_path, "documents/1.tokens", "a\nb\nc\n")
    write_labels(
        tmp_path,
        {
            "participants/train/1.AGGREGATED.ann": "1\n1\n0\n",
            "interventions/train/1.AGGREGATED.ann": "0\n1\n1\n",
            "outcomes/train/1.AGGREGATED.ann": "0\n1\n0\n",
        },
    )

    (document,) = read(tmp_path)["train"]

    assert mentions(document) == [("a b", "Participant"), ("b", "Outcome"), ("b c", "Intervention")]


def test_read__ends_sentences_as_the_corpus_does(tmp_path: Path) -> None:
    write(tmp_path, "documents/1.tokens", "a\n.\nb\n;\nc\n.\n")
    write_labels(tmp_path, {"outcomes/train/1.AGGREGATED.ann": "1\n1\n1\n0\n0\n1\n"})

    (document,) = read(tmp_path)["train"]
    (whole,) = read(tmp_path, sentence_end="")["train"]

    assert isinstance(document, Document)
    assert isinstance(whole, Document)
    assert document.text == "a .\nb ; c ."
    assert mentions(document) == [("a .", "Outcome"), ("b", "Outcome"), (".", "Outcome")]
    assert whole.sentences == ((0, 11),)
    assert mentions(whole) == [("a . b", "Outcome"), (".", "Outcome")]


def test_read__names_hierarchical_labels(tmp_path: Path) -> None:
    write(tmp_path, "documents/1.tokens", "a\nb\nc\n")
    labels = {
        "participants/test/gold/1.AGGREGATED.ann": "1\n2\n0\n",
        "interventions/test/gold/1.AGGREGATED.ann": "0\n0\n7\n",
    }
    write_labels(tmp_path, labels, phase="hierarchical_labels")

    (document,) = read(tmp_path, phase="hierarchical_labels")["test"]

    assert mentions(document) == [
        ("a", "Participant-Age"),
        ("b", "Participant-Sex"),
        ("c", "Intervention-Control"),
    ]


def test_find__gives_each_document_once_and_test_first(tmp_path: Path) -> None:
    write_labels(
        tmp_path,
        {
            "participants/train/1.AGGREGATED.ann": "0\n",
            "outcomes/train/1.AGGREGATED.ann": "0\n",
            "outcomes/train/2.AGGREGATED.ann": "0\n",
            "participants/train/3.AGGREGATED.ann": "0\n",
            "participants/test/gold/3.AGGREGATED.ann": "0\n",
            "participants/test/crowd/4.AGGREGATED.ann": "0\n",
        },
    )

    found = EbmNlp().find([tmp_path])
    chosen = EbmNlp(splits={"validation": ("train/2",), "train": ("train/[!2]",)}).find([tmp_path])

    def ids(paths: list[Path]) -> list[str]:
        return sorted(path.name[0] for path in paths)

    assert {split: ids(paths) for split, paths in found.items()} == {
        "train": ["1", "2"],
        "test": ["3"],
    }
    assert {split: ids(paths) for split, paths in chosen.items()} == {
        "train": ["1"],
        "validation": ["2"],
    }


def test_find__names_the_missing_folder(tmp_path: Path) -> None:
    write_labels(tmp_path, {"participants/train/1.AGGREGATED.ann": "0\n"})

    with pytest.raises(
        SourceError,
        match=r"expected annotations/aggregated/hierarchical_labels/.*found none; check",
    ):
        EbmNlp(phase="hierarchical_labels").find([tmp_path])


@pytest.mark.parametrize(
    ("tokens", "labels", "place", "reason"),
    [
        (
            "a\nb\n",
            "0\n",
            "1.AGGREGATED.ann:1",
            "expected 2 labels in participants, one per token, got 1",
        ),
        (
            "a\nb\n",
            "0\n2\n",
            "1.AGGREGATED.ann:2",
            "expected a number from 0 to 1 in participants, got another word",
        ),
        (
            "a\nb\n",
            "0\n-1\n",
            "1.AGGREGATED.ann:2",
            "expected a number from 0 to 1 in participants, got another word",
        ),
        (
            "a\nb\n",
            "0\n10001\n",
            "1.AGGREGATED.ann:2",
            "expected a number from 0 to 1 in participants, got another word",
        ),
        ("a\n\nb\n", "0\n0\n0\n", "1.tokens:2", "expected a token, got an empty line"),
        ("", "0\n", "1.tokens:1", "expected tokens, got an empty file"),
        (
            None,
            "0\n",
            "1.AGGREGATED.ann:1",
            "expected a file of tokens in documents/ for the file of labels, found none",
        ),
    ],
)
def test_read__sets_a_document_aside(
    tmp_path: Path, tokens: str | None, labels: str, place: str, reason: str
) -> None:
    if tokens is not None:
        write(tmp_path, "documents/1.tokens", tokens)
    write_labels(tmp_path, {"participants/train/1.AGGREGATED.ann": labels})

    assert read(tmp_path)["train"] == [SetAside("1", place, Reason(reason))]


@pytest.mark.parametrize(
    "rows",
    [
        "-DOCSTART- -X- N\n\na DT N\nb NN P\nc NN P\nd NN O\n. . N\n\ne NN I\n",
        "-DOCSTART- -X- O O\n\na DT N\nb NN 1_p\nc NN 1_p\nd NN 1_o\n. . N\n\ne NN 1_i\n",
        "-DOCSTART- (0)\n\na NN O O\nb NN O I-PAR\nc NN O I-PAR\nd NN O I-OUT\n. NN O O\n\ne NN O I-INT\n",
    ],
)
def test_read__knows_row_files(tmp_path: Path, rows: str) -> None:
    write(tmp_path, "train.txt", rows)

    (document,) = read(tmp_path)["train"]

    assert mentions(document) == [("b c", "Participant"), ("d", "Outcome"), ("e", "Intervention")]


def test_read__names_hierarchical_labels_of_rows(tmp_path: Path) -> None:
    write(tmp_path, "train.txt", "-DOCSTART- -X- O O\n\na DT N\nb NN 1_p\nc NN 4_p\n")

    (document,) = read(tmp_path, phase="hierarchical_labels")["train"]

    assert mentions(document) == [("b", "Participant-Age"), ("c", "Participant-Condition")]


def test_read__sets_rows_of_other_labels_aside(tmp_path: Path) -> None:
    write(tmp_path, "train.txt", "-DOCSTART- (1)\n\na DT N\nb NN Q\n\n-DOCSTART- (2)\nc NN P\n")

    aside, document = read(tmp_path)["train"]

    assert aside == SetAside(
        "1",
        "train.txt:1",
        Reason("expected tags P, I, O and N, or I-PAR, I-INT, I-OUT and O, got 1 other label(s)"),
    )
    assert mentions(document) == [("c", "Participant")]


def test_recognises__rows_with_n_for_outside() -> None:
    path = Path("train.txt")

    assert EbmNlp().sniff(Sample(path, b"-DOCSTART- (11)\n\na DT N\nb NN P\nc NN O\n")).why
    assert not EbmNlp().sniff(Sample(path, b"a\tO\nb\tB-X\n")).why
    assert not EbmNlp().sniff(Sample(path, b"a DT N\nb NN N\n")).why
    assert not EbmNlp().sniff(Sample(path, b"")).why
