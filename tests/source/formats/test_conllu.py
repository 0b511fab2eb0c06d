from __future__ import annotations

import gzip
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import conllu
import pytest

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.io import limits
from mslm_data.source import Sample
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
    """Write sentences with multi-word tokens, empty nodes, missing spaces and tags."""
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


@pytest.mark.parametrize(
    ("scheme", "values", "expected"),
    [
        ("auto", "S-P O O", [("a-b", "P")]),
        ("auto", "U-P O O", [("a-b", "P")]),
        ("auto", "B-P B-P I-P", [("a-b", "P"), ("c d-e-f", "P")]),
        ("auto", "B-P I-P E-P", [("a-b c d-e-f", "P")]),
        ("auto", "B-P L-P B-P", [("a-b c", "P"), ("d-e-f", "P")]),
        ("auto", "O B-P L-P", [("c d-e-f", "P")]),
        ("label", "P P Q", [("a-b c", "P"), ("d-e-f", "Q")]),
        ("auto", "(P) (Q Q)", [("a-b", "Entity"), ("c d-e-f", "Entity")]),
        ("auto", "(1-P(2-Q) 3) 1)", [("a-b", "Q"), ("a-b c d-e-f", "P")]),
    ],
)
def test_read__takes_the_value_of_a_range_of_words_without_values(
    tmp_path: Path, scheme: str, values: str, expected: list[tuple[str, str]]
) -> None:
    first, second, third = (f"ner={value}" for value in values.split())
    with_ranges = (
        row("1-2", "a-b", first)
        + row(1, "a")
        + row(2, "b", "ner=O")
        + row(3, "c", second)
        + row("4-6", "d-e-f", third)
        + row(4, "d")
        + row(5, "e")
        + row(6, "f")
    )
    as_words = row(1, "a-b", first) + row(2, "c", second) + row(3, "d-e-f", third)

    (record,) = read(tmp_path, with_ranges, scheme=scheme)
    (oracle,) = read(tmp_path, as_words, scheme=scheme)

    assert isinstance(record, Document)
    assert isinstance(oracle, Document)
    assert sorted(mentions(record)) == sorted(expected)
    assert (record.text, record.spans, record.unplaced, record.adjusted) == (
        oracle.text,
        oracle.spans,
        oracle.unplaced,
        oracle.adjusted,
    )
    assert record.words is not None
    assert oracle.words is not None
    assert record.words.tolist() == oracle.words.tolist()


def test_read__prefers_values_of_words_to_their_range(tmp_path: Path) -> None:
    data = row("1-2", "del", "NER=S-X") + row(1, "de", "NER=O") + row(2, "el", "NER=B-LOC")

    (record,) = read(tmp_path, data)

    assert mentions(record) == [("del", "LOC")]


def test_read__an_empty_node_within_a_range_comes_after_its_word(tmp_path: Path) -> None:
    data = (
        "# global.Entity = eid-etype\n"
        + row("1-3", "a-b-c", "Entity=(e1-x)")
        + row(1, "a")
        + row(2, "b")
        + row("2.1", "zero", "Entity=(e2-y")
        + row(3, "c")
        + row(4, "d")
        + row(5, "e", "Entity=e2)")
    )

    (record,) = read(tmp_path, data)

    assert mentions(record) == [("a-b-c", "x"), ("d e", "y")]


@pytest.mark.parametrize(
    ("empty", "word", "expected", "unplaced"),
    [
        ("B-X", "_", [], {standoff.NO_OFFSETS: 1}),
        ("B-X", "I-X", [("a", "X")], {}),
        ("B-X", "B-Y", [("a", "Y")], {standoff.NO_OFFSETS: 1}),
        ("O", "B-Y", [("a", "Y")], {}),
    ],
)
def test_read__tags_of_empty_nodes_are_not_lost(
    tmp_path: Path,
    empty: str,
    word: str,
    expected: list[tuple[str, str]],
    unplaced: dict[Reason, int],
) -> None:
    data = row("0.1", "zero", f"NER={empty}") + row(1, "a", f"NER={word}") + row(2, "b", "NER=O")

    (record,) = read(tmp_path, data)

    assert mentions(record) == expected
    assert isinstance(record, Document)
    assert (record.unplaced, record.adjusted) == (unplaced, {})


def test_read__labels_of_empty_nodes_are_not_lost(tmp_path: Path) -> None:
    data = row(1, "a", "NER=X") + row("1.1", "zero", "NER=Y") + row(2, "b", "NER=X")

    (record,) = read(tmp_path, data, scheme="label")

    assert mentions(record) == [("a", "X"), ("b", "X")]
    assert isinstance(record, Document)
    assert record.unplaced == {standoff.NO_OFFSETS: 1}


def test_read__labels_may_have_brackets(tmp_path: Path) -> None:
    data = row(1, "a", "NER=B-Drug(brand)") + row(2, "b", "NER=I-Drug(brand)") + row(3, "c")

    (record,) = read(tmp_path, data)

    assert mentions(record) == [("a b", "Drug(brand)")]


@pytest.mark.parametrize("target_bytes", [1, 10**9])
def test_read__reads_words_beginning_with_a_number_sign(tmp_path: Path, target_bytes: int) -> None:
    data = "# global.columns = FORM NER\n# text = #a b\n#a\tB-X\nb\tI-X\n# c\n\n#d\tO\n\ne\tO\n"

    records = read(tmp_path, data, target_bytes=target_bytes)

    assert [record.id for record in records] == ["f:0", "f:1", "f:2"]
    assert [record.text for record in records if isinstance(record, Document)] == [
        "#a b",
        "#d",
        "e",
    ]
    assert mentions(records[0]) == [("#a b", "X")]


def test_read__names_the_line_of_a_range_with_an_invalid_tag(tmp_path: Path) -> None:
    data = row(1, "x", "NER=B-X") + row("2-3", "del", "NER=secret") + row(2, "de") + row(3, "el")

    (record,) = read(tmp_path, data)

    assert isinstance(record, SetAside)
    assert record.place == "f.conllu:2"
    assert "secret" not in record.reason.text


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


def test_read__takes_the_column_from_the_options(tmp_path: Path) -> None:
    data = row(1, "a", "NER=O|Mine=Drug") + row(2, "b", "NER=B-X|Mine=Drug") + row(3, "c", "NER=O")

    (record,) = read(tmp_path, data, tag_column="Mine", scheme="label")
    (aside,) = read(tmp_path, data, tag_column="Mine")

    assert mentions(record) == [("a b", "Drug")]
    assert isinstance(aside, SetAside)
    assert aside.place == "f.conllu:1"
    assert 'scheme = "label"' in aside.reason.text


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
        (row("2-3", "secret"), "expected all words of a multi-word token, got fewer"),
        (row("2-3", "secret") + row(2, "b"), "expected all words of a multi-word token"),
        (row("2-1", "secret") + row(2, "b"), "expected all words of a multi-word token"),
    ],
)
def test_read__sets_documents_with_broken_rows_aside(
    tmp_path: Path, line: str, reason: str
) -> None:
    records = read(tmp_path, row(1, "a") + line + "\n" + row(1, "b"))

    aside, good = records
    assert isinstance(aside, SetAside)
    assert aside.reason.text.startswith(reason)
    assert isinstance(good, Document)


SENTENCE = row(1, "No") + row("2-3", "secret") + row(2, "x") + row(3, "y", "NER=B-X")


@pytest.mark.parametrize(
    ("rows", "line", "due", "got"),
    [
        (row(1, "a") + row(2, "b") + row(3, "c") + "# sent_id = 2\n" + SENTENCE, 5, 4, "1"),
        (SENTENCE + SENTENCE, 5, 4, "1"),
        (row("1-2", "ab") + row(1, "a") + row(2, "b") + row("1-2", "ab"), 4, 3, "1-2"),
        (row("1-2", "ab") + row(1, "a") + row("2-3", "bc") + row(2, "b"), 3, 2, "2-3"),
        (row("1-2", "ab") + row(1, "a") + row(1, "a") + row(2, "b"), 3, 2, "1"),
        (row(1, "a") + row(3, "c"), 2, 2, "3"),
        (row(1, "a") + row(1, "a"), 2, 2, "1"),
        (row(1, "a") + row("1.1", "zero") + row("3-4", "cd"), 3, 2, "3-4"),
        (row(0, "a") + row(0, "a"), 2, 1, "0"),
    ],
)
def test_read__sets_documents_with_misnumbered_rows_aside(
    tmp_path: Path, rows: str, line: int, due: int, got: str
) -> None:
    aside, good = read(tmp_path, rows + "\n" + row(1, "b"))

    assert aside == SetAside(
        "2" if "sent_id" in rows else "f:0",
        f"f.conllu:{line}",
        Reason(
            f"expected rows with consecutive numbers, the next {due}, got {got}; is a blank "
            "line missing?"
        ),
        mentions=0,
    )
    assert isinstance(good, Document)


def test_read__sets_a_sentence_of_empty_nodes_aside(tmp_path: Path) -> None:
    aside, good = read(tmp_path, row("0.1", "secret") + row("0.2", "x") + "\n" + row(1, "b"))

    reason = "expected words in each sentence, got only empty nodes"
    assert aside == SetAside("f:0", "f.conllu:1", Reason(reason), mentions=0)
    assert isinstance(good, Document)


@pytest.mark.parametrize("target_bytes", [1, 10**9])
def test_read__ignores_a_sentence_id_before_a_blank_line(tmp_path: Path, target_bytes: int) -> None:
    data = f"# sent_id = gone\n\n{row(1, 'a')}\n# sent_id = s2\n{row(1, 'b')}\n"

    records = read(tmp_path, data, target_bytes=target_bytes)

    assert [record.id for record in records] == ["f:0", "s2"]


def test_read__a_sentence_may_begin_with_any_number(tmp_path: Path) -> None:
    data = (
        "# newdoc\n"
        + row("0.1", "zero")
        + row(0, "a", "NER=B-X")
        + row(1, "b", "NER=I-X")
        + "\n"
        + row("2-3", "cd")
        + row(2, "c", "NER=B-Y")
        + row("2.1", "zero")
        + row(3, "d", "NER=I-Y")
        + row(4, "e")
        + "\n"
        + row(10, "f")
    )

    (record,) = read(tmp_path, data)

    assert isinstance(record, Document)
    assert record.text == "a b\ncd e\nf"
    assert mentions(record) == [("a b", "X"), ("cd", "Y")]


PLAIN = (row(1, "Plain", "Gloss=NER") + row(2, "Tone=1", "Cone=1|Entity") + "\n") * 1_100
"""More than the head, without a key of entities in MISC."""


@pytest.mark.long
@pytest.mark.parametrize("target_bytes", [1, 30_000, 10**9])
def test_read__finds_the_key_of_entities_behind_many_sentences_without(
    tmp_path: Path, target_bytes: int
) -> None:
    data = PLAIN + row(1, "a", "Entity=(e1-x)") + "\n" + row(1, "b", "GUM:Ner=B-Drug|Entity=(e2-y)")
    assert len(PLAIN) > 65 << 10

    records = read(tmp_path, data, target_bytes=target_bytes)

    assert len(records) == 1_102
    assert [found for record in records for found in mentions(record)] == [("b", "Drug")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("chunk", [7, 1 << 20])
def test_read__finds_a_late_key_in_any_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, chunk: int
) -> None:
    monkeypatch.setattr("mslm_data.source.formats.conllu._HEAD_BYTES", 100)
    monkeypatch.setattr("mslm_data.source.formats.conllu._CHUNK", chunk)
    lines = PLAIN[:3_000].rpartition("\n\n")[0] + "\n\n" + row(1, "naïve", "NER=B-Drug")
    data = lines.rstrip("\n").replace("\n", end)
    (tmp_path / "a.conllu").write_bytes(data.encode("utf-16"))
    (tmp_path / "b.conllu.gz").write_bytes(gzip.compress(data.encode()))
    (tmp_path / "c.conllu").write_bytes(data.encode())
    (tmp_path / "d.conllu").write_bytes(data.encode("latin-1"))

    for name, encoding in [
        ("a.conllu", "utf-8"),
        ("b.conllu.gz", "utf-8"),
        ("c.conllu", "utf-8"),
        ("d.conllu", "latin-1"),
    ]:
        source = Conllu(encoding=encoding)  # type: ignore[arg-type]
        *_, last = source.read(Part(str(tmp_path / name)))

        assert mentions(last) == [("naïve", "Drug")]


def test_read__searches_a_changed_file_again(tmp_path: Path) -> None:
    *_, before = read(tmp_path, PLAIN + row(1, "b", "X=B-Drug"))
    *_, after = read(tmp_path, PLAIN + row(1, "b", "NER=B-Drug"))

    assert mentions(before) == []
    assert mentions(after) == [("b", "Drug")]


def test_read__limits_the_length_of_lines_searched_for_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mslm_data.source.formats.conllu._HEAD_BYTES", 100)
    monkeypatch.setattr("mslm_data.source.formats.conllu._CHUNK", 100)
    monkeypatch.setattr(limits, "LARGEST", 1_000)
    path = tmp_path / "f.conllu"
    path.write_text(row(1, "a") + "\n" + row(1, "b" * 2_000), encoding="utf-8")

    with pytest.raises(SourceError, match=r"f.conllu: expected records, .* got a larger one"):
        [*Conllu().read(Part(str(path), 0, 22))]


def test_words__do_not_overlap(tmp_path: Path) -> None:
    for record in read(tmp_path, generated(3)):
        assert isinstance(record, Document)
        assert record.words is not None
        assert all(left[1] <= right[0] for left, right in pairwise(record.words.tolist()))


def test_recognises__ten_columns(tmp_path: Path) -> None:
    path = tmp_path / "f.conllu"

    assert Conllu().sniff(Sample(path, b"# text = x\n" + row(1, "a").encode())).why
    assert Conllu().sniff(Sample(path, b"# global.columns = FORM\na\n")).why
    assert not Conllu().sniff(Sample(path, b"a\tO\nb\tB-X\n")).why


def misc(*values: str) -> str:
    rows = (f"{n}\tw{n}\t_\t_\t_\t_\t_\t_\t_\t{value}" for n, value in enumerate(values, start=1))
    return "\n".join(rows) + "\n\n"


@pytest.mark.parametrize(
    ("files", "key"),
    [
        ([misc("name=B-PER|SpaceAfter=No", "name=O")], "name"),
        ([misc("_", "_"), misc("name=O", "name=O", "name=B-PER")], "name"),
        ([misc("name=B-PER", "_"), misc("NER=B-PER", "_")], ""),
        ([misc("name=B-PER|kind=B-PER", "_")], ""),
        ([misc("SpaceAfter=No", "Vowel=O")], ""),
    ],
)
def test_settle__takes_the_only_key_with_tags(tmp_path: Path, files: list[str], key: str) -> None:
    paths = [tmp_path / f"{number}.conllu" for number in range(len(files))]
    for path, text in zip(paths, files, strict=True):
        path.write_text(text, encoding="utf-8")

    assert Conllu().settle(paths) == ({"tag_column": key} if key else {})
    assert Conllu(tag_column="kind").settle(paths) == {}


def test_recognises__wants_entities_under_an_unusual_ending() -> None:
    head = misc("name=B-PER", "name=O").encode()

    assert Conllu().sniff(Sample(Path("a.conll"), head)).why != ""
    assert Conllu().sniff(Sample(Path("a.conll"), misc("_", "_").encode())).why == ""
    assert Conllu().sniff(Sample(Path("a.conllu"), misc("_", "_").encode())).why != ""
    assert Conllu().sniff(Sample(Path("a.conllu"), misc("B-X", "O").encode())).why == ""


def test_conllu__finds_the_scheme_of_a_file_with_an_empty_document(tmp_path: Path) -> None:
    data = f"# newdoc id = a\n\n# newdoc id = b\n{row(1, 'Rome', 'NER=I-LOC')}"
    empty, document = read(tmp_path, data)

    assert mentions(empty) == []
    assert mentions(document) == [("Rome", "LOC")]
    assert isinstance(document, Document)
    assert LATE not in document.adjusted
