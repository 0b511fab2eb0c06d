from __future__ import annotations

import csv
import io
import random
from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.source.formats.token_table import TokenTable


def read(
    folder: Path,
    data: str | bytes,
    *,
    name: str = "f.csv",
    **options: Any,
) -> list[Document | SetAside]:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return list(TokenTable(**options).read(Part(str(path))))


def generated(seed: int, *, named: str) -> tuple[str, list[tuple[str, list[tuple[str, str]]]]]:
    """Write a table with Python's csv; return its sentences: text, and mentions as words and label.

    The sentence is identified in each row, or in its first row only.
    """
    draw = random.Random(seed)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["x", "Word", "Tag", "Sentence #"])
    expected = []
    for number in range(draw.randint(1, 9)):
        words: list[str] = []
        spans: list[list[Any]] = []
        inside = ""
        for place in range(draw.randint(1, 8)):
            word = draw.choice(["a", '"', ",", "naïve", "NA", "null", "c d", "#", 'x"y'])
            tag = draw.choice(["O", "B-X", "B-Y", f"I-{inside}" if inside else "O"])
            inside = tag[2:]
            name = f"S: {number}" if named == "all" or not place else ""
            writer.writerow(["z", word, tag, name])

            words.append(word)
            if tag[0] == "B":
                spans.append([place, place, tag[2:]])
            elif tag[0] == "I":
                spans[-1][1] = place
        found = [(" ".join(words[first : last + 1]), label) for first, last, label in spans]
        expected.append((" ".join(words), found))
    return out.getvalue(), expected


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("named", ["all", "first"])
def test_read__agrees_with_csv(tmp_path: Path, seed: int, named: str) -> None:
    data, expected = generated(seed, named=named)

    records = read(tmp_path, data)

    assert [
        (record.text, [(record.text[a:b], label) for a, b, label, *_ in record.spans])
        for record in records
        if isinstance(record, Document)
    ] == expected
    assert [record.id for record in records] == [f"f:{n}" for n in range(len(expected))]


def test_read__counts_a_real_corpus_written_as_a_table(tmp_path: Path, real: Path) -> None:
    text = (real / "blurb" / "NCBI-disease-IOB" / "devel.tsv").read_text(encoding="utf-8")
    sentences = [block.splitlines() for block in text.split("\n\n") if block.strip()]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["Sentence #", "Word", "Tag"])
    for number, lines in enumerate(sentences):
        for place, line in enumerate(lines):
            writer.writerow([f"Sentence: {number}" if not place else "", *line.split("\t")])

    records = read(tmp_path, out.getvalue())

    documents = [record for record in records if isinstance(record, Document)]
    assert (len(records), len(documents)) == (923, 923)
    assert sum(len(document.spans) for document in documents) == 787
    assert [document.text for document in documents] == [
        " ".join(line.split("\t")[0] for line in lines) for lines in sentences
    ]
