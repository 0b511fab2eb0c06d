from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, Part, Sentence, SetAside
from mslm_data.errors import SourceError
from mslm_data.source.formats.webanno import WebAnno
from tests.source.formats.test_offsets import Article, articles

NAMED = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"


def read(path: Path, **options: Any) -> Document | SetAside:
    (record,) = WebAnno(**options).read(Part(str(path)))
    return record


def written(
    folder: Path,
    lines: str,
    *,
    header: str = f"#T_SP={NAMED}|value",
    version: str = "3.3",
    **options: Any,
) -> Document | SetAside:
    """Read a file; `lines` has spaces for TABs, and `~` for a space."""
    body = "\n".join(
        line if line.startswith("#") else line.replace(" ", "\t") for line in lines.split("\n")
    )
    path = folder / "a.tsv"
    text = f"#FORMAT=WebAnno TSV {version}\n{header}\n\n\n{body}\n"
    path.write_text(text.replace("~", " "), encoding="utf-8", newline="")
    return read(path, **options)


def found(record: Document | SetAside) -> list[tuple[str, str]]:
    assert isinstance(record, Document), record
    return [(record.text[span.start : span.end], span.label) for span in record.spans]


# Against a simple reader -------------------------------------------------------------------------


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def as_tsv(
    text: str, sentences: list[tuple[int, int]], mentions: list[tuple[int, int, str]]
) -> str:
    """Write a document as INCEpTION does: tokens, and sub-tokens for mentions that begin or end inside a token."""
    out = f"#FORMAT=WebAnno TSV 3.3\n#T_SP={NAMED}|identifier|value\n\n"
    for number, (begin, end) in enumerate(sentences, start=1):
        out += f"\n#Text={text[begin:end]}\n"
        for token, match in enumerate(re.finditer(r"\w+|[^\w\s]", text[begin:end]), start=1):
            start, stop = begin + match.start(), begin + match.end()
            parts: dict[tuple[int, int], list[tuple[int, str]]] = {(start, stop): []}
            for n, (a, b, label) in enumerate(mentions):
                part = max(a, start), min(b, stop)
                if part[0] < part[1]:
                    parts.setdefault(part, []).append((n, label))
            for n, ((a, b), of) in enumerate(parts.items()):
                name = f"{number}-{token}" + (f".{n}" if n else "")
                place = f"{utf16(text[:a])}-{utf16(text[:b])}"
                concepts = "|".join(f"*[{i + 1}]" for i, _ in of) or "_"
                labels = "|".join(f"{label}[{i + 1}]" for i, label in of) or "_"
                out += f"{name}\t{place}\t{text[a:b]}\t{concepts}\t{labels}\t\n"
    return out


def plainly(tsv: str, text: str) -> list[tuple[str, str]]:
    """Read the mentions simply: first and last position of each number."""
    places: dict[str, list[int]] = {}
    labels: dict[str, str] = {}
    for line in tsv.split("\n"):
        fields = line.split("\t")
        if len(fields) > 4 and fields[4] != "_":
            for label, number in re.findall(r"(\w+)\[(\d+)\]", fields[4]):
                labels[number] = label
                places.setdefault(number, []).extend(map(int, fields[1].split("-")))
    units = text.encode("utf-16-le")
    return [
        (units[2 * min(of) : 2 * max(of)].decode("utf-16-le"), labels[number])
        for number, of in places.items()
    ]


@pytest.mark.long
def test_read__agrees_with_a_plain_reader_on_a_whole_corpus(real: Path, tmp_path: Path) -> None:
    (path,) = (real / "pubtator/bc5cdr").glob("*[dD]evelop*")
    corpus: list[Article] = articles(path)
    count = 0
    for a in corpus:
        title = f"\U0001f600 {a.title.strip()}"
        shift = len(title) - len(a.title)
        text = f"{title}\n{a.abstract.strip()}"
        sentences = [(0, len(title))]
        if a.abstract.strip():
            sentences.append((len(title) + 1, len(text)))
        mentions = [(m[0] + shift, m[1] + shift, m[3]) for m in a.mentions]
        tsv = as_tsv(text, sentences, mentions)
        (tmp_path / f"{a.pmid}.tsv").write_text(tsv, encoding="utf-8", newline="")

        document = read(tmp_path / f"{a.pmid}.tsv")

        assert isinstance(document, Document)
        assert (document.id, document.text) == (a.pmid, text)
        assert not document.unplaced
        assert sorted(span[:3] for span in document.spans) == sorted(mentions)
        assert sorted(found(document)) == sorted(plainly(tsv, text))
        assert document.sentences == tuple(Sentence(*sentence) for sentence in sentences)
        count += len(mentions)
    assert count == sum(len(a.mentions) for a in corpus) > 9_000


# Lines ------------------------------------------------------------------------------------------


# Layers -----------------------------------------------------------------------------------------


def test_settle__takes_the_only_layer_and_its_only_feature(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mslm_data")
    pos = "#T_SP=de.tudarmstadt.ukp.dkpro.core.api.lexmorph.type.pos.POS|PosValue"
    options = {"layer": "webanno.custom.Symptom", "label_feature": "Kind"}
    lines = "#Text=Red\n1-1 0-3 Red N X "
    header = f"{pos}\n#T_SP=webanno.custom.Symptom|Kind"
    record = written(tmp_path, lines, header=header, **options)
    path = tmp_path / "a.tsv"

    assert found(record) == [("Red", "X")]
    assert WebAnno().settle([path]) == options
    assert WebAnno().list_columns(path) == []
    assert WebAnno(layer="Symptom").list_columns(path) == ["Kind"]
    assert "took layer = 'webanno.custom.Symptom', label_feature = 'Kind', as the" in caplog.text
    with pytest.raises(SourceError, match=r"got the layers webanno\.custom\.Symptom \(Kind\); set"):
        WebAnno(layer="Finding").settle([path])


# Errors ------------------------------------------------------------------------------
