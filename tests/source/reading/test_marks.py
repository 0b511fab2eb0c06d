from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.source.reading.marks import BLANKS, MARK, MarkedDocument, divide

PIECES = (
    "-DOCSTART-", "-DOCSTART", "###MEDLINE:", "# newdoc", " id = 5", "#begin document", " (a/b); part 01", "(7)", " (a b)", "(\u00a0)", "(\x85)", " ", "\t", "\r", "\f",
    "\n", "\n", "\n\n", "\ufeff", "\u2028", "\u00a0", "\udcff", "x", "9", "é\tO", "🧬 B-X",
)  # fmt: skip
some_lines = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


def slow_divide(data: bytes, *, first: int) -> tuple[list[MarkedDocument], bytes]:
    """Find marks line by line, in text."""
    lines = data.decode("utf-8", "surrogatepass").split("\n")
    found: list[MarkedDocument] = []
    before = ""
    for number, line in enumerate(lines):
        mark = MARK.match(line)
        if mark is None:
            before += line
            continue

        if not found and before.strip(BLANKS):
            found.append(MarkedDocument("", first))
        name = mark[1] or mark[2] or mark[3] or mark[4] or ""
        name += f":{mark[5]}" if mark[5] else ""
        found.append(MarkedDocument(name if name.isprintable() else "", first + number + 1))
        lines[number] = ""
    return found, "\n".join(lines).encode("utf-8", "surrogatepass")


@given(some_lines, st.sampled_from([1, 10]))
def test_divide__equals_its_twin(text: str, first: int) -> None:
    data = text.encode("utf-8", "surrogatepass")

    assert divide(data, first=first) == slow_divide(data, first=first)


@pytest.mark.parametrize(
    ("data", "documents", "left"),
    [
        ("a\tO\n", [], "a\tO\n"),
        ("-DOCSTART- (7)\na\tO\n", [("7", 2)], "\na\tO\n"),
        ("\na\tO\n###MEDLINE:9 x\nb\tO", [("", 1), ("9", 4)], "\na\tO\n\nb\tO"),
        (" \n\n-DOCSTART-", [("", 4)], " \n\n"),
        ("\ufeff-DOCSTART-\n\ufeff-DOCSTART- (2)\n", [("", 2), ("2", 3)], "\n\n"),
        ("# newdoc\na\n# newdoc id = n 1\n#newdoc\n", [("", 2), ("n", 4)], "\na\n\n#newdoc\n"),
        ("#begin document (a/b); part 007\nx\n", [("a/b:007", 2)], "\nx\n"),
        ("#begin document (a)\n# newdocs\n", [("a", 2)], "\n# newdocs\n"),
        ("# newdoc\tO\n##begin document\n", [], "# newdoc\tO\n##begin document\n"),
        ("-DOCSTART-x\n a -DOCSTART-\n", [], "-DOCSTART-x\n a -DOCSTART-\n"),
        ("-DOCSTART-DOCSTART-\n", [], "-DOCSTART-DOCSTART-\n"),
        ("\ufeff\ufeff-DOCSTART-\n", [], "\ufeff\ufeff-DOCSTART-\n"),
    ],
)
def test_divide__follows_its_rule(data: str, documents: list[tuple[str, int]], left: str) -> None:
    assert divide(data.encode(), first=1) == (documents, left.encode())


def test_divide__of_an_empty_text() -> None:
    assert divide(b"", first=1) == ([], b"")
