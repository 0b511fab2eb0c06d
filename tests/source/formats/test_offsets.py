from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source.formats.offsets import Offsets

HEADER = "filename\tmark\tlabel\toff0\toff1\tspan\n"


def read(folder: Path, source: Offsets) -> list[Document | SetAside | NotChosen]:
    return [
        record
        for paths in source.find([folder]).values()
        for path in paths
        for record in source.read(Part(str(path)))
    ]


# Formats of corpora --------------------------------------------------------------------------


class Article(NamedTuple):
    """An article of PubTator: mentions are start, end, words, type and concept."""

    pmid: str
    title: str
    abstract: str
    mentions: list[tuple[int, int, str, str, str]]


def articles(path: Path) -> list[Article]:
    """Read PubTator, simply."""
    found = []
    for block in re.split(r"\n\s*\n", path.read_text(encoding="utf-8").strip()):
        title, abstract, *rows = block.split("\n")
        fields = [row.split("\t") for row in rows]
        mentions = [(int(f[1]), int(f[2]), f[3], f[4], f[5]) for f in fields if len(f) >= 6]
        found.append(
            Article(
                title.split("|")[0], title.split("|", 2)[2], abstract.split("|", 2)[2], mentions
            )
        )
    return found


@pytest.fixture
def corpus(real: Path) -> list[Article]:
    (path,) = (real / "pubtator/bc5cdr").glob("*[dD]evelop*")
    return articles(path)


def same(records: list[Document | SetAside | NotChosen], corpus: list[Article]) -> int:
    """Check that documents equal the articles, and return the number of their mentions."""
    documents = {record.id: record for record in records if isinstance(record, Document)}
    assert len(documents) == len(corpus) == len(records)
    for article in corpus:
        document = documents[article.pmid]
        assert document.text == f"{article.title}\n{article.abstract}".rstrip("\n")
        assert not document.unplaced
        assert sorted(
            (s.start, s.end, document.text[s.start : s.end], s.label) for s in document.spans
        ) == sorted(mention[:4] for mention in article.mentions)
    return sum(len(document.spans) for document in documents.values())


def drugprot(corpus: list[Article], folder: Path) -> dict[str, Any]:
    texts = "".join(f"{a.pmid}\t{a.title}\t{a.abstract}\n" for a in corpus)
    rows = [
        f"{a.pmid}\tT{n}\t{label}\t{start}\t{end}\t{words}\n"
        for a in corpus
        for n, (start, end, words, label, _) in enumerate(a.mentions)
    ]
    (folder / "x_development_abstracs.tsv").write_text(texts, encoding="utf-8", newline="")
    (folder / "x_development_entities.tsv").write_text("".join(rows), encoding="utf-8", newline="")
    (folder / "x_development_relations.tsv").write_text("1\tA\tArg1:T1\n", encoding="utf-8")
    numbers = {
        "id_column": 0,
        "label_column": 2,
        "start_column": 3,
        "end_column": 4,
        "words_column": 5,
    }
    return {"pattern": "*entities*", "texts": "*abstra*", **numbers}


def distemist(corpus: list[Article], folder: Path) -> dict[str, Any]:
    rows = [
        f"{a.pmid}\tT{n}\t{label}\t{start}\t{end}\t{words}\t{code}\n"
        for a in corpus
        for n, (start, end, words, label, code) in enumerate(a.mentions)
    ]
    (folder / "text_files").mkdir()
    (folder / "entities").mkdir()
    for a in corpus:
        path = folder / "text_files" / f"{a.pmid}.txt"
        path.write_text(f"{a.title}\n{a.abstract}", encoding="utf-8", newline="")
    table = f"{HEADER.rstrip()}\tcode\n{''.join(rows)}"
    (folder / "entities" / "all.tsv").write_text(table, encoding="utf-8", newline="")
    return {"texts": "../text_files"}


def codiesp(corpus: list[Article], folder: Path) -> dict[str, Any]:
    rows = [
        f"{a.pmid}\t{label}\t{code}\t{words}\t{start} {end}\n"
        for a in corpus
        for start, end, words, label, code in a.mentions
    ]
    distemist(corpus, folder)
    (folder / "entities" / "all.tsv").unlink()
    (folder / "trainX.tsv").write_text("".join(rows), encoding="utf-8", newline="")
    numbers = {
        "id_column": 0,
        "label_column": 1,
        "concept_column": 2,
        "words_column": 3,
        "start_column": 4,
    }
    return {"texts": "text_files", "end_column": "", **numbers}


def quoted(corpus: list[Article], folder: Path) -> dict[str, Any]:
    """Write tables like a spreadsheet: commas, all cells quoted, inclusive ends."""
    import csv

    with (folder / "m.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, quoting=csv.QUOTE_ALL)
        rows.writerow(["Doc", "type", "begin", "end", "words"])
        for a in corpus:
            rows.writerows((a.pmid, m[3], m[0], m[1] - 1, m[2]) for m in a.mentions)
    with (folder / "texts.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["Title", "Key", "Body"])
        # Both tables may have file names instead of ids.
        rows.writerows((a.title, f"{a.pmid}.txt", a.abstract) for a in corpus)
    of_texts = {"texts": "texts.csv", "text_id_column": "key", "text_columns": ("title", "body")}
    return {"id_column": "doc", "pattern": "m.csv", **of_texts}


@pytest.mark.parametrize("write", [drugprot, distemist, codiesp, quoted])
def test_read__every_shape_has_the_mentions_of_the_same_corpus(
    corpus: list[Article], tmp_path: Path, write
) -> None:
    options = write(corpus, tmp_path)

    count = same(read(tmp_path, Offsets(**options)), corpus)

    assert count == sum(len(article.mentions) for article in corpus) > 9_000


# Documents and mentions -------------------------------------------------------------------------


# Errors --------------------------------------------------------------------------------


def test_find__applies_the_pattern_to_a_file_given_directly(tmp_path: Path) -> None:
    (tmp_path / "m.tsv").write_text("pmid\ttype\tstart\tend\n")

    with pytest.raises(SourceError, match=r"expected tables of mentions named '\*\.csv'"):
        Offsets(pattern="*.csv").find([tmp_path / "m.tsv"])


@pytest.mark.parametrize("options", [{"texts": "txt", "documents": "mentioned"}, {}])
def test_find__lists_a_folder_of_texts_once(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as many tables take twice as long."""
    options = options or {"texts": "{stem}.txt", "id_column": ""}
    (tmp_path / "txt").mkdir()
    resolved = []
    monkeypatch.setattr(
        Path, "resolve", lambda self, resolve=Path.resolve: resolved.append(self) or resolve(self)
    )
    counts = []
    for first, last in ((0, 20), (20, 40)):
        for number in range(first, last):
            (tmp_path / f"d{number}.tsv").write_text("start\tend\tlabel\n0\t7\tDrug\n")
            folder = tmp_path / "txt" if options["texts"] == "txt" else tmp_path
            (folder / f"d{number}.txt").write_text("Aspirin helps.")
        resolved.clear()
        Offsets(**options).find([tmp_path])
        counts.append(len(resolved))

    assert counts[1] <= 2 * counts[0]
