from __future__ import annotations

from pathlib import Path

import pytest

from mslm_data.source.reading.elements import children, elements
from mslm_data.source.reading.records import RecordError


def written(folder: Path, text: str) -> Path:
    path = folder / "a.xml"
    path.write_text(text, encoding="utf-8")
    return path


def test_elements__of_several_names_come_in_order_with_their_lines(tmp_path: Path) -> None:
    path = written(tmp_path, "<x>\n<a><b>1</b></a>\n<c/><b>2</b>\n</x>")

    found = [
        (line, element.tag, "".join(element.itertext()))
        for line, element in elements(path, "a", "b")
    ]

    assert found == [(2, "a", "1"), (3, "b", "2")]


def test_elements__of_the_same_name_within_one_are_part_of_it(tmp_path: Path) -> None:
    path = written(tmp_path, "<x>-<a>1<b><a>2</a>3</b>4</a>-<a/>-</x>")

    found = ["".join(element.itertext()) for _, element in elements(path, "a")]

    assert found == ["1234", ""]


def test_elements__cdata_is_text(tmp_path: Path) -> None:
    ((_, element),) = elements(written(tmp_path, "<x><a>1<![CDATA[<2>&]]>&lt;</a></x>"), "a")

    assert element.text == "1<2>&<"


def test_children__have_the_names_of_their_namespaces(tmp_path: Path) -> None:
    path = written(tmp_path, '<x xmlns="u" xmlns:v="w">\n<a v:k="1" l="2"><a>t</a></a><v:b/></x>')

    (line, one), (_, other) = children(path)

    assert (line, one.tag, one.attrib, one[0].tag) == (2, "u a", {"w k": "1", "l": "2"}, "u a")
    assert other.tag == "w b"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<x>\n<a>", "expected well-formed XML"),
        ('<!DOCTYPE x [\n<!ENTITY a "b">]><x/>', "expected no entities"),
    ],
)
def test_children__malformed_xml_has_a_line_and_a_reason(
    tmp_path: Path, text: str, reason: str
) -> None:
    with pytest.raises(RecordError, match=reason) as caught:
        list(children(written(tmp_path, text)))

    assert caught.value.line == 2
