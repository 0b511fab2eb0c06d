from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import conllu
import pytest

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source.formats.conllu import WIDENED, Conllu
from mslm_data.source.reading import standoff
from mslm_data.source.reading.word_documents import LATE

REST = "\t_" * 7


def row(number: object, form: str, misc: str = "_") -> str:
    return f"{number}\t{form}{REST}\t{misc}\n"


def read(
    folder: Path, data: str, *, target_bytes: int = 10**9, name: str = "f.conllu", **options: Any
) -> list[Document | SetAside]:
    path = folder / name
    path.write_text(data, encoding="utf-8", newline="")
    source = Conllu(**options)
    return [
        record
        for part in source.cut(Part(str(path)), target_bytes=target_bytes)
        for record in source.read(part)
    ]


def mentions(record: Document | SetAside) -> list[tuple[str, str]]:
    assert isinstance(record, Document), record
    return [(record.text[span.start : span.end], span.label) for span in sorted(record.spans)]


def generated(seed: int) -> str:
    """Write sentences with words in several, empty nodes, spaces or none, and tags."""
    draw = random.Random(seed)
    lines = []
    for sentence in range(draw.randint(2, 9)):
        if draw.random() < 0.4:
            lines.append(f"# newdoc id = d{seed}-{sentence}\n")
        lines.append(f"# sent_id = s{sentence}\n# text = {draw.choice(['B O', 'x'])}\n")
        number, inside = 1, ""
        while number < draw.randint(3, 12):
            size = draw.choice([1, 1, 1, 2, 3])
            space = draw.choice(["", "|SpaceAfter=No"])
            word = draw.choice(["a", "naïve", "#b", "🧬", "c d", "-", "'"])
            if size > 1:
                lines.append(row(f"{number}-{number + size - 1}", word, f"X=1{space}"))
            for _ in range(size):
                kind = draw.choice(["O", "B-X", "B-Y", f"I-{inside}" if inside else "O"])
                inside = kind[2:]
                lines.append(row(number, word, f"NER={kind}{space if size == 1 else ''}"))
                if draw.random() < 0.1:
                    lines.append(row(f"{number}.1", "zero"))
                number += 1
        lines.append("\n")
    return "".join(lines)


def by_package(data: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Read documents with the conllu package: text, and mentions as words and label."""
    documents: list[list[Any]] = []
    sentences = conllu.parse(data)
    has_marks = any("newdoc id" in sentence.metadata for sentence in sentences)
    for sentence in sentences:
        if not has_marks or not documents or "newdoc id" in sentence.metadata:
            documents.append([])
        text, spans = "", []
        places = {}
        for token in sentence:
            if isinstance(token["id"], tuple) and token["id"][1] == ".":
                continue
            ids = [token["id"]]
            if isinstance(token["id"], tuple):
                ids = list(range(token["id"][0], token["id"][2] + 1))
            if ids[0] not in places:
                places |= dict.fromkeys(ids, (len(text), len(text) + len(token["form"])))
                text += token["form"]
                text += "" if (token["misc"] or {}).get("SpaceAfter") == "No" else " "
        for token in sentence:
            if not isinstance(token["id"], int):
                continue
            tag = token["misc"]["NER"]
            if tag[0] == "B":
                spans.append([*places[token["id"]], tag[2:]])
            elif tag[0] == "I":
                spans[-1][1] = places[token["id"]][1]
        documents[-1].append((text.removesuffix(" "), spans))
    return [
        (
            "\n".join(text for text, _ in of),
            sorted((text[start:end], label) for text, spans in of for start, end, label in spans),
        )
        for of in documents
    ]


@pytest.mark.parametrize("seed", range(40))
def test_read__agrees_with_the_conllu_package(tmp_path: Path, seed: int) -> None:
    data = generated(seed)

    for target_bytes in (1, 300, 10**9):
        records = read(tmp_path, data, target_bytes=target_bytes)

        found = [
            (record.text, sorted(mentions(record)))
            for record in records
            if isinstance(record, Document)
        ]
        assert found == by_package(data)


def test_read__widens_mentions_of_a_part_of_a_word(tmp_path: Path) -> None:
    data = row("1-2", "del") + row(1, "de") + row(2, "el", "NER=B-LOC") + row(3, "Río", "NER=I-LOC")

    (record,) = read(tmp_path, data)

    assert mentions(record) == [("del Río", "LOC")]
    assert isinstance(record, Document)
    assert record.adjusted == {WIDENED: 1}
    assert record.words is not None
    assert record.words.tolist() == [[0, 3], [4, 7]]


def test_read__reads_brackets(tmp_path: Path) -> None:
    data = (
        "# global.Entity = eid-head-etype\n"
        + row(1, "The", "Entity=(e1-2-person(e2-1-place)")
        + row(2, "man", "Entity=e1)")
        + row(3, "ran", "Entity=(e3--event)|SpaceAfter=No")
        + row(4, ".", "Entity=e9)")
        + row("4.1", "zero", "Entity=(e4-1-person)")
        + row(5, "!", "Entity=(e5-1-x")
    )

    (record,) = read(tmp_path, data)

    assert mentions(record) == [("The", "place"), ("The man", "person"), ("ran", "event")]
    assert isinstance(record, Document)
    assert record.unplaced == {standoff.ONE_END: 2, standoff.NO_OFFSETS: 1}


def test_read__takes_the_column_it_is_told(tmp_path: Path) -> None:
    data = row(1, "a", "NER=O|Mine=Drug") + row(2, "b", "NER=B-X|Mine=Drug") + row(3, "c", "NER=O")

    (record,) = read(tmp_path, data, tag_column="Mine", scheme="label")
    (aside,) = read(tmp_path, data, tag_column="Mine")

    assert mentions(record) == [("a b", "Drug")]
    assert isinstance(aside, SetAside)
    assert aside.place == "f.conllu:1"
    assert 'scheme = "label"' in aside.reason


def test_read__reads_conllu_plus(tmp_path: Path) -> None:
    data = "# global.columns = FORM PARSEME:MWE BIO\nA\t*\tB-X\nB\t1\tI-X\n\nC\t*\tO\n"

    first, second = read(tmp_path, data, name="f.conllup")

    assert mentions(first) == [("A B", "X")]
    assert mentions(second) == []
    with pytest.raises(SourceError, match=r"f.conllu:1: expected the column FORM"):
        read(tmp_path, "# global.columns = ID LEMMA\n1\ta\n")


def test_read__knows_iob1(tmp_path: Path) -> None:
    iob1 = "\n".join(row(1, "a", "NER=I-X") for _ in range(3))
    mixed = iob1.replace("I-X", "B-X") + "\n" + row(1, "b", "NER=I-X")

    assert all(
        record.adjusted == {} for record in read(tmp_path, iob1) if isinstance(record, Document)
    )
    last = read(tmp_path, mixed)[-1]
    assert isinstance(last, Document)
    assert last.adjusted == {LATE: 1}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("2\tsecret\n", "expected 10 columns between TABs, got 2"),
        (row("x", "secret"), "expected a row's number and a word"),
        (row(2, " "), "expected a row's number and a word"),
        (row("3-4", "secret"), "expected the words of each word in several"),
    ],
)
def test_read__sets_documents_with_broken_rows_aside(
    tmp_path: Path, line: str, reason: str
) -> None:
    records = read(tmp_path, row(1, "a") + line + "\n" + row(1, "b"))

    aside, good = records
    assert isinstance(aside, SetAside)
    assert aside.reason.startswith(reason)
    assert isinstance(good, Document)


def test_words__lie_one_after_the_other(tmp_path: Path) -> None:
    for record in read(tmp_path, generated(3)):
        assert isinstance(record, Document)
        assert record.words is not None
        assert all(left[1] <= right[0] for left, right in pairwise(record.words.tolist()))


def test_recognises__ten_columns(tmp_path: Path) -> None:
    path = tmp_path / "f.conllu"

    assert Conllu.recognises(path, b"# text = x\n" + row(1, "a").encode())
    assert Conllu.recognises(path, b"# global.columns = FORM\na\n")
    assert not Conllu.recognises(path, b"a\tO\nb\tB-X\n")
