"""Tests of the driver of forms, with forms of a few lines."""

from __future__ import annotations

import functools
import types
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import PipelineError
from mslm_data.source import Source
from mslm_data.source.form import (
    NO_TEXT,
    Blocks,
    ByFile,
    FilledLines,
    Findings,
    FormSource,
    JsonWithin,
    Record,
    RowGroups,
    WholeFile,
    XmlElements,
)
from mslm_data.source.reading.cells import Row
from mslm_data.source.reading.encodings import TextSource
from mslm_data.source.reading.records import NO_TOKEN, RecordError, decode_utf8
from mslm_data.source.reading.standoff import (
    MISMATCH,
    NO_OFFSETS,
    OUTSIDE,
    Annotation,
    OffsetSource,
)
from mslm_data.source.reading.tables import LazyCells
from mslm_data.source.reading.tags import WordSpan
from mslm_data.source.reading.word_documents import LATE


class Words(FormSource, TextSource, frozen=True, kw_only=True):
    """A document per line: words and tags, such as `Rome/B-LOC falls/O`."""

    suffixes = (".words",)
    container = FilledLines()

    def understand(self, record: Record, found: Findings) -> None:
        words = [pair.split("/") for pair in decode_utf8(record.content.data).split(" ")]
        found.words = [[word for word, _ in words]]
        found.spans = found.decode([tag for _, tag in words], untyped="Entity")
        if "?" in found.words[0]:
            raise RecordError("expected words, got ?")


class Passages(FormSource, OffsetSource, frozen=True, kw_only=True):
    """A document per element, value or file, with a mention of its first four characters."""

    suffixes = (".xml", ".json", ".txt")
    containers: ClassVar[Mapping[str, Any]] = {
        ".xml": XmlElements("d"),
        ".json": JsonWithin(lambda data: msgspec.json.decode(data, type=list[msgspec.Raw])),
        ".txt": WholeFile(),
    }
    container = ByFile(lambda _, path: Passages.containers[path.suffix])

    def understand(self, record: Record, found: Findings) -> None:
        found.mentions = [Annotation([(0, 4)], "X", "gout")]
        if record.path.suffix == ".xml":
            found.pieces = [(4, "."), (0, record.content.text)]
        elif record.path.suffix == ".json":
            found.lost = 7
            found.text = record.content
        else:
            found.text = record.content.read_text(encoding="utf-8")
            found.is_file = True


def define(*bases: type, **attributes: Any) -> type:
    """Define a form as a `class` statement does."""
    return types.new_class("Mine", bases, {}, lambda body: body.update(attributes))


@pytest.mark.parametrize(
    ("bases", "attributes", "problem"),
    [
        ((TextSource, FormSource), {"suffixes": (".a",), "container": WholeFile()}, "FormSource b"),
        ((FormSource, TextSource), {"container": WholeFile()}, "`suffixes`"),
        ((FormSource, TextSource), {"suffixes": (".a",)}, "`container`"),
        ((FormSource, TextSource), {"suffixes": (".a",), "container": WholeFile()}, "`understand`"),
    ],
)
def test_form__names_what_its_class_lacks(
    bases: tuple[type, ...], attributes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(PipelineError, match=f"^class Mine: .*{problem}"):
        define(*bases, **attributes)


def read(source: Source, path: Path, data: str, *, target_bytes: int = 10**9) -> list[Any]:
    path.write_text(data, encoding="utf-8", newline="")
    return [
        record
        for part in source.cut(Part(str(path)), target_bytes=target_bytes)
        for record in source.read(part)
    ]


@pytest.mark.parametrize("target_bytes", [1, 10**9])
def test_read__numbers_records_over_parts(tmp_path: Path, target_bytes: int) -> None:
    found = read(Words(), tmp_path / "a.words", "a/O\n\nb/O\r\nc/O", target_bytes=target_bytes)

    assert [(one.id, one.place) for one in found[:2]] == [
        ("a:0", "a.words:1"),
        ("a:1", "a.words:3"),
    ]


def test_read__knows_iob1_in_several_tags_of_a_word(tmp_path: Path) -> None:
    *_, last = read(Words(), tmp_path / "a.words", "a/I-X\nb/B-X,I-Y\nc/B-X,E-Y\n")
    _, several, _ = read(Words(), tmp_path / "a.words", "a/I-X\nb/B-X,I-Y\nc/I-X\n")

    assert several.adjusted == {}
    assert last.adjusted == {LATE: 1}


@pytest.mark.parametrize("target_bytes", [1, 10**9])
@pytest.mark.parametrize(
    ("first", "late"), [("b/I-X", {}), ("b/B-X\nc/B-X", {LATE: 1}), ("?/I-X", {})]
)
def test_read__decides_by_the_beginning_whether_i_begins_mentions(
    tmp_path: Path, first: str, late: Mapping[str, int], target_bytes: int
) -> None:
    *_, iob, other = read(
        Words(), tmp_path / "a.words", f"{first}\nd/I-X\nd/E-X\n", target_bytes=target_bytes
    )

    assert iob.adjusted == late
    assert other.adjusted == {LATE: 1}
    assert [span[:3] for span in iob.spans] == [(0, 1, "X")]


def test_read__places_mentions_in_passages(tmp_path: Path) -> None:
    (found,) = read(Passages(), tmp_path / "a.xml", "<c>\n<d>gout</d></c>")

    assert (found.text, found.sentences) == ("gout.", ((0, 4), (4, 5)))
    assert (found.place, [span[:3] for span in found.spans]) == ("a.xml:2", [(0, 4, "X")])


def test_read__places_mentions_by_the_options_of_the_form(tmp_path: Path) -> None:
    (fits,) = read(Passages(), tmp_path / "a.xml", "<c><d>gout</d></c>")
    (misses,) = read(Passages(ends="inclusive"), tmp_path / "a.xml", "<c><d>gout</d></c>")

    assert fits.unplaced == {}
    assert misses.unplaced == {MISMATCH: 1}


def test_read__removes_the_byte_order_mark_of_a_file(tmp_path: Path) -> None:
    (found,) = read(Passages(), tmp_path / "a.txt", "\ufeffgout")

    assert (found.id, found.text, len(found.spans)) == ("a", "gout", 1)


def test_read__sets_records_without_text_aside(tmp_path: Path) -> None:
    first, empty = read(Passages(), tmp_path / "a.json", '["gout",\n""]')

    assert isinstance(first, Document)
    assert empty == SetAside("a:1", "a.json:2", NO_TEXT, 7)


class Errors(FormSource, TextSource, frozen=True, kw_only=True):
    """A record per block, of which all are set aside."""

    suffixes = (".txt",)
    container = Blocks(lambda line: line.startswith(b"#"))

    def understand(self, record: Record, found: Findings) -> None:
        found.id = str(len(record.content))
        if record.content[0].data == b"# other":
            found.file = "other.ann"
        raise RecordError(NO_TOKEN, line=3 if record.content[0].data != b"first" else 0)


def test_read__names_the_file_and_line_of_an_error(tmp_path: Path) -> None:
    found = read(Errors(), tmp_path / "a.txt", "first\n# next\nx\n\n# other\n")

    assert [(one.id, one.place, one.mentions) for one in found] == [
        ("1", "a.txt:1", -1),
        ("2", "a.txt:3", -1),
        ("1", "other.ann:3", -1),
    ]


def test_document__joins_glued_words_and_counts_what_is_left_out() -> None:
    found = Findings("d", "f:1", words=[["do", "n't", "x"], ["y"]], glued={0, 2})
    found.spans = [WordSpan(0, 2, "A"), WordSpan(3, 4, "B"), WordSpan(3, 9, "B")]
    found.left_out = Counter({NO_OFFSETS: 1, MISMATCH: 1, Reason("none"): 0})
    found.adjusted = Counter({"widened": 1, "none": 0})

    document = found.document(OffsetSource())

    assert document.text == "don't x\ny"
    assert document.words is not None
    assert document.words.tolist() == [[0, 2], [2, 5], [6, 7], [8, 9]]
    assert [span[:3] for span in document.spans] == [(0, 5, "A"), (8, 9, "B")]
    assert document.unplaced == {NO_OFFSETS: 1, MISMATCH: 1, OUTSIDE: 1}
    assert document.adjusted == {"widened": 1}


@pytest.mark.parametrize(
    ("rows", "groups"),
    [
        ([], []),
        (["a1x", "a1y", "--z", "-2u", "b2v"], [[["x", "y", "z"], ["u"]], [["v"]]]),
        (["---", "a1x", "---", "a1y"], [[["x"], ["y"]]]),
        (["--x", "a-y"], [[["x"]], [["y"]]]),
        (["a1x", "??y", "a1z", "--?"], [[["x", "y", "z", "?"]]]),
        (["a1x", "??-", "a1y"], [[["x"], ["y"]]]),
    ],
)
def test_row_groups__groups_rows_by_two_columns(rows: list[str], groups: list[Any]) -> None:
    """`-` is an empty cell, and `?` one that cannot be read."""
    found = grouped(rows, ("group", "subgroup", "word"))

    assert found == groups


def test_row_groups__makes_a_record_of_each_subgroup_without_groups() -> None:
    found = grouped(["1x", "-y", "2z", "--", "2u"], ("subgroup", "word"))

    assert found == [[["x", "y"]], [["z"]], [["u"]]]


def grouped(rows: list[str], roles: Sequence[str]) -> list[list[list[str]]]:
    """Return the words of each subgroup of each group."""

    def value(cells: str, role: str) -> str:
        cell = cells[roles.index(role)]
        if cell == "?":
            raise RecordError(NO_TOKEN)
        return cell.replace("-", "")

    def read_rows(_: object, __: Part) -> Iterator[Row]:
        for number, cells in enumerate(rows):
            yield Row(LazyCells(roles, functools.partial(value, cells)), str(number), f"a:{number}")

    container = RowGroups(read_rows, group="group", subgroup="subgroup")
    records = [one for one in container.records(None, Part("a")) if isinstance(one, Record)]

    assert [one.id for one in records] == [f"a:{number}" for number in range(len(records))]
    return [
        [[rows[int(row.numbered)][-1] for row in subgroup] for subgroup in one.content]
        for one in records
    ]
