from __future__ import annotations

from pathlib import Path

import pytest

from mslm_data.data.reason import Reason
from mslm_data.source.reading import tagged_lines
from mslm_data.source.reading.tagged_lines import (
    BrokenLine,
    TagColumns,
    clean,
    head,
    not_a_tag,
    scan,
)
from mslm_data.source.reading.tags import is_tag

COLUMNS = TagColumns(0, 1, is_tag)


def test_scan__gives_words_and_tags_in_arrays() -> None:
    found = scan("\nna\u00efve\tO\n\U0001f9ec\tB-X\n\n\nx\tO".encode(), first=7, columns=COLUMNS)

    assert found.text.rstrip(" ") == "na\u00efve \U0001f9ec\nx"
    assert [found.text[start:end] for start, end in found.bounds] == [
        "na\u00efve",
        "\U0001f9ec",
        "x",
    ]
    assert [found.names[tag] for tag in found.tags] == ["O", "B-X", "O"]
    assert (found.offsets.tolist(), found.lines.tolist(), found.broken) == (
        [0, 2, 3],
        [8, 12],
        {},
    )


def test_scan__reports_the_first_error_of_each_sentence() -> None:
    found = scan(b"a\tO\nsecret\nb\tNN\n\nc\tO\n\nd\tsecret\n", first=1, columns=COLUMNS)

    assert found.broken == {
        0: BrokenLine(2, Reason("expected a token and a tag, got 1 field(s)")),
        2: BrokenLine(7, not_a_tag(1)),
    }
    assert list(found.broken) == [0, 2], "in the order of sentences"


@pytest.mark.parametrize("count", [511, 512, 5000])
def test_scan__grows_for_any_number_of_tags(count: int) -> None:
    text = "\n".join(f"w{number}\tB-T{number}" for number in [*range(count), 0])

    found = scan(text.encode(), first=1, columns=COLUMNS)

    assert found.names == [f"B-T{number}" for number in range(count)]
    assert found.tags.tolist() == [*range(count), 0]
    assert not found.broken


@pytest.mark.parametrize("text", ["", "\n", " \n\t\n"])
def test_scan__finds_nothing_in_blank_lines(text: str) -> None:
    found = scan(text.encode(), first=1, columns=COLUMNS)

    assert (found.text, found.bounds.shape) == ("", (0, 2))
    assert (found.offsets.tolist(), found.lines.tolist(), found.broken) == ([0], [], {})


@pytest.mark.parametrize(
    ("data", "first", "lines"),
    [
        (b"\xef\xbb\xbfa\r\nb\r\n", 1, "a\nb\n"),
        (b"\xef\xbb\xbfa", 2, "\ufeffa"),
        (b"a\rb\r", 1, "a\nb\n"),
        (b"a\rb\r", 2, "a\rb"),
        (b"a\rb\n", 1, "a\rb\n"),
        ("\u00e9\n".encode(), 1, "\u00e9\n"),
        (b"a\n\xff\tO\r\n-DOCSTART- (\xff)", 1, "a\n\udcff\n-DOCSTART- (\udcff)"),
        (b"\xef\xbb\xbf\xff", 1, "\udcff"),
    ],
)
def test_clean__normalises_lines_for_parse(data: bytes, first: int, lines: str) -> None:
    assert clean(data, first=first).decode("utf-8", "surrogatepass") == lines


def test_head__returns_only_the_deciding_lines(tmp_path: Path) -> None:
    path = tmp_path / "f.tsv"
    path.write_text("a\tO\n" * 2000)

    assert head(path.read_bytes())[-1] == (tagged_lines.HEAD_LINES, "a\tO")
