from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import conllu
import pytest

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.io import limits
from mslm_data.source.formats.conllu import Conllu

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


def misc(*values: str) -> str:
    rows = (f"{n}\tw{n}\t_\t_\t_\t_\t_\t_\t_\t{value}" for n, value in enumerate(values, start=1))
    return "\n".join(rows) + "\n\n"
