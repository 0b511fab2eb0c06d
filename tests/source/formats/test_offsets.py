from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mslm_data.data.document import Document, NotChosen, Part, SetAside, Span
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source import Sample
from mslm_data.source.formats.offsets import Offsets
from mslm_data.source.reading.standoff import MISMATCH, NO_OFFSETS, OUTSIDE

HEADER = "filename\tmark\tlabel\toff0\toff1\tspan\n"


def read(folder: Path, source: Offsets) -> list[Document | SetAside | NotChosen]:
    return [
        record
        for paths in source.find([folder]).values()
        for path in paths
        for record in source.read(Part(str(path)))
    ]


def written(
    folder: Path, files: Mapping[str, str], **options: Any
) -> list[Document | SetAside | NotChosen]:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    return read(folder, Offsets(**options))


def spans(record: object) -> tuple[Span, ...]:
    assert isinstance(record, Document), record
    return record.spans


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


def test_read__a_text_without_mentions_is_a_document(tmp_path: Path) -> None:
    found = written(
        tmp_path, {"m.tsv": f"{HEADER}a\tT1\tX\t0\t3\tRed\n", "a.txt": "Red", "b.txt": "Blue"}
    )

    assert [spans(record) for record in found] == [(Span(0, 3, "X"),), ()]


def test_read__mentions_without_a_text_are_set_aside_by_document(tmp_path: Path) -> None:
    rows = "a\tT1\tX\t0\t3\tRed\nlost\tT1\tX\t0\t3\tRed\nlost\tT2\tX\t5\t6\tR\n"

    found = written(tmp_path, {"m.tsv": HEADER + rows, "a.txt": "Red"})

    assert spans(found[0]) == (Span(0, 3, "X"),)
    (lost,) = found[1:]
    assert isinstance(lost, SetAside)
    assert (lost.id, lost.place) == ("lost", "m.tsv:3")
    assert lost.reason.text.startswith("expected a text for each document of the table, found none")


def test_read__reads_one_table_per_document_without_an_id_column(tmp_path: Path) -> None:
    table = "type\tbegin\tend\nX\t0\t3\n"
    files = {"a.tsv": table, "a.txt": "Red", "b [1].tsv": table, "b [1].txt": "Sea"}

    found = written(tmp_path, files, texts="{stem}.txt", id_column="")

    assert [record.id for record in found if isinstance(record, Document)] == ["a", "b [1]"]
    assert all(spans(record) == (Span(0, 3, "X"),) for record in found)


def test_read__a_table_of_several_texts_needs_a_column_for_the_document(tmp_path: Path) -> None:
    table = "type\tbegin\tend\nX\t0\t3\n"

    with pytest.raises(SourceError, match="no column names the document"):
        written(tmp_path, {"a.tsv": table, "a.txt": "Red", "b.txt": "Sea"}, id_column="")


def test_read__a_row_without_a_document_is_set_aside(tmp_path: Path) -> None:
    found = written(tmp_path, {"m.tsv": f"{HEADER}\tT1\tX\t0\t3\tRed\n", "a.txt": "Red"})

    assert found[0] == SetAside(
        "", "m.tsv:2", Reason("expected a row that names its document, got none")
    )
    assert spans(found[1]) == ()


def test_read__a_tab_within_a_text_sets_it_aside(tmp_path: Path) -> None:
    files = {
        "ents.tsv": "1\tT1\tDrug\t4\t11\tAspirin\n2\tT1\tDisease\t4\t10\tasthma\n",
        "abstracts.tsv": "1\tOne\tAspirin helps.\n2\tTwo\tasthma\tis not helped.\n",
    }
    options = {"start_column": 3, "end_column": 4, "label_column": 2, "words_column": 5}

    good, aside = written(
        tmp_path, files, pattern="ents*", texts="abs*", header=False, id_column=0, **options
    )

    assert spans(good) == (Span(4, 11, "Drug"),)
    assert aside == SetAside("2", "abstracts.tsv:2", Reason("expected at most 3 columns, got 4"))


def test_read__a_number_is_no_name_in_the_first_row_of_texts(tmp_path: Path) -> None:
    files = {"m.tsv": "pmid\ttype\tstart\tend\n1\tDrug\t0\t7\n", "t.tsv": "1\tAspirin helps.\n"}

    (found,) = written(tmp_path, files, pattern="m*", texts="t*", text_columns=(1,))

    assert spans(found) == (Span(0, 7, "Drug"),)


def test_read__a_tab_within_a_mention_is_not_taken_for_its_label(tmp_path: Path) -> None:
    files = {
        "m.tsv": "file\tstart\tend\tphrase\tlabel\na\t0\t8\tred\tsore\tSign\n",
        "a.txt": "red\tsore skin",
    }

    (aside,) = written(tmp_path, files)

    assert aside == SetAside(
        "a", "m.tsv:2", Reason("expected at most 5 columns, got 6"), mentions=1
    )


def test_read__the_concept_of_a_row_may_be_left_out(tmp_path: Path) -> None:
    files = {
        "m.tsv": "file\tstart\tend\tlabel\tcode\na\t0\t4\tSign\nb\t0\t4\tSign\tC1\n",
        "a.txt": "sore skin",
        "b.txt": "sore skin",
    }

    one, other = written(tmp_path, files)

    assert spans(one) == (Span(0, 4, "Sign"),)
    assert spans(other) == (Span(0, 4, "Sign", "C1"),)


def test_read__reads_linnaeus_with_a_label_of_its_own(tmp_path: Path) -> None:
    table = "species id\tdocument\tstart\tend\ttext\tcode\nspecies:ncbi:9606\tpmc1\t4\t7\tman\t\n"

    found = written(
        tmp_path,
        {"tags.tsv": table, "txt/pmc1.txt": "One man."},
        texts="txt",
        label="Species",
        concept_column="species id",
    )

    assert [spans(record) for record in found] == [(Span(4, 7, "Species", "species:ncbi:9606"),)]


def test_read__counts_mentions_without_matching_offsets(tmp_path: Path) -> None:
    rows = "a\tT1\tX\t0\t3\tBlue\na\tT2\tX\t0\t99\tRed\na\tT3\tX\t\t\tRed\na\tT4\tX\t0\t3\t\n"

    (found,) = written(tmp_path, {"m.tsv": HEADER + rows, "a.txt": "Red"})

    assert isinstance(found, Document)
    assert found.spans == (Span(0, 3, "X"),)
    assert found.unplaced == {MISMATCH: 1, OUTSIDE: 1, NO_OFFSETS: 1}


@pytest.mark.parametrize(
    ("discontinuous", "expected"), [("hull", (Span(0, 13, "X"),)), ("set_aside", ())]
)
def test_read__treats_discontinuous_mentions_by_option(
    tmp_path: Path, discontinuous: str, expected: tuple[Span, ...]
) -> None:
    (found,) = written(
        tmp_path,
        {
            "m.tsv": "doc_id\tlabel\tstart\ttext\na\tX\t0 3;9 13\tRed skin\n",
            "a.txt": "Red sore skin",
        },
        end_column="",
        discontinuous=discontinuous,
    )

    assert spans(found) == expected


def test_read__inclusive_ends_are_found_by_the_words(tmp_path: Path) -> None:
    (found,) = written(tmp_path, {"m.tsv": f"{HEADER}a\tT1\tX\t0\t2\tRed\n", "a.txt": "Red"})

    assert spans(found) == (Span(0, 3, "X"),)


def test_read__takes_inclusive_ends_from_the_options_without_words(tmp_path: Path) -> None:
    (found,) = written(
        tmp_path,
        {"m.tsv": "pmid\ttype\tstart\tend\na\tX\t0\t2\n", "a.txt": "Red"},
        ends="inclusive",
    )

    assert spans(found) == (Span(0, 3, "X"),)


def test_read__quotes_are_characters_but_in_csv(tmp_path: Path) -> None:
    (plain,) = written(
        tmp_path / "1", {"m.tsv": f'{HEADER}a\tT1\tX\t0\t3\t"R"\n', "a.txt": '"R" is'}
    )
    (quoted,) = written(
        tmp_path / "2", {"m.csv": 'pmid,type,start,end,text\na,X,0,3,"""R"""\n', "a.txt": '"R" is'}
    )

    assert spans(plain) == spans(quoted) == (Span(0, 3, "X"),)


@pytest.mark.parametrize("name", ["m.tsv", "m.csv"])
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_read__files_may_have_another_encoding(tmp_path: Path, encoding: str, name: str) -> None:
    separator = "," if name.endswith("csv") else "\t"
    table = "pmid,type,start,end,text\na,X,5,9,fièvre\n".replace(",", separator)
    (tmp_path / name).write_text(table.replace("9", "11"), encoding=encoding)
    (tmp_path / "a.txt").write_text("très fièvre", encoding=encoding)

    (found,) = read(tmp_path, Offsets(encoding=encoding))

    assert spans(found) == (Span(5, 11, "X"),)


def test_read__mentioned_reads_each_text_with_its_table(tmp_path: Path) -> None:
    files = {
        "train.tsv": f"{HEADER}a\tT1\tX\t0\t3\tRed\n",
        "test.tsv": f"{HEADER}b\tT1\tX\t0\t4\tBlue\n",
        "a.txt": "Red",
        "b.txt": "Blue",
    }
    with pytest.raises(SourceError, match="set documents = 'mentioned'"):
        written(tmp_path, files)

    found = read(tmp_path, Offsets(documents="mentioned"))

    assert [record.id for record in found if isinstance(record, Document)] == ["a", "b"]
    assert found.count(NotChosen("without mentions in this table")) == 2


# Errors --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ("a\tX\t0\t3\n", {}, "expected a column for the mentions' id, found none"),
        ("pmid\tstart\tend\n", {}, "expected a column for the mentions' label, found none"),
        ("pmid\ttype\tstart\tend\n", {"words_column": "wrds"}, "the mentions' words, found none"),
        ("pmid\ttype\tstart\tend\n", {"texts": "nowhere"}, "expected its texts at 'nowhere'"),
        ("pmid\ttype\tstart\tend\n", {"pattern": "*.csv"}, "that fit [source] pattern '*.csv'"),
    ],
)
def test_read__rejects_unreadable_tables(
    tmp_path: Path, table: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SourceError, match=re.escape(message)):
        written(tmp_path, {"m.tsv": table, "a.txt": "Red"}, **options)


def test_find__applies_the_pattern_to_a_file_given_directly(tmp_path: Path) -> None:
    (tmp_path / "m.tsv").write_text("pmid\ttype\tstart\tend\n")

    with pytest.raises(SourceError, match=r"expected tables of mentions named '\*\.csv'"):
        Offsets(pattern="*.csv").find([tmp_path / "m.tsv"])


def test_read__refuses_csv_without_a_header(tmp_path: Path) -> None:
    columns = {"id_column": 0, "label_column": 1, "start_column": 2, "end_column": 3}

    with pytest.raises(SourceError, match=r"as \.csv tables have one"):
        written(tmp_path, {"m.csv": "a,X,0,3\n", "a.txt": "Red"}, **columns)


def test_read__refuses_texts_without_columns(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"set \[source\] text_id_column and text_columns"):
        written(
            tmp_path,
            {"m.tsv": f"{HEADER}a\tT1\tX\t0\t3\tRed\n", "t.tsv": "pmid\ttitle\n"},
            pattern="m.tsv",
            texts="t.tsv",
            text_columns=("body",),
        )


def test_recognises__a_complete_header_with_texts_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "m.tsv"
    path.write_text(HEADER, encoding="utf-8")

    assert Offsets().sniff(Sample(path, HEADER.encode())).why == ""
    (tmp_path / "a.txt").write_text("Red", encoding="utf-8")
    assert "its header names a document" in Offsets().sniff(Sample(path, HEADER.encode())).why
    path.write_text("Red\tB-X\n", encoding="utf-8")
    assert Offsets().sniff(Sample(path, b"Red\tB-X\n")).why == ""


def test_recognises__a_table_for_a_text(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text("Red")
    (tmp_path / "m.csv").write_text("start,end,label\n0,3,Sign\n")
    guess = Offsets().sniff(Sample(tmp_path / "m.csv", b"start,end,label\n0,3,Sign\n"))

    (found,) = Offsets(**guess.options).read(Part(str(tmp_path / "m.csv")))

    assert spans(found) == (Span(0, 3, "Sign"),)


@pytest.mark.parametrize("folder", ["texts", "../txt"])
def test_recognises__texts_in_a_folder_nearby(tmp_path: Path, folder: str) -> None:
    path = tmp_path / "tables" / "m.tsv"
    (path.parent / folder).mkdir(parents=True)
    (path.parent / folder / "a.txt").write_text("Red", encoding="utf-8")
    (tmp_path / "tables" / "others").mkdir()
    (tmp_path / "tables" / "others" / "unknown.txt").write_text("Red", encoding="utf-8")

    assert Offsets().sniff(Sample(path, f"{HEADER}a\t0\t3\tSign\n".encode())).options == {
        "texts": folder
    }


@pytest.mark.parametrize("cell", ["0 3;9 13", "0-3, 9-13", "0,3;9,13", "0:3,9:13"])
def test_read__ranges_are_parted_by_semicolons_or_commas(tmp_path: Path, cell: str) -> None:
    files = {"m.tsv": f"file\tstart\tlabel\na\t{cell}\tSign\n", "a.txt": "red sore skin"}

    (found,) = written(tmp_path, files, end_column="")

    assert spans(found) == (Span(0, 13, "Sign"),)


def test_read__asks_for_the_columns_of_texts_with_a_broken_header(tmp_path: Path) -> None:
    (tmp_path / "ann.tsv").write_text("doc_id\tstart\tend\tlabel\n1\t0\t7\tDrug\n")
    (tmp_path / "texts.csv").write_text('"doc_id,text\n1,Aspirin\n')

    with pytest.raises(
        SourceError, match=r"texts\.csv:1: expected columns for documents and their"
    ):
        [*Offsets(texts="texts.csv").read(Part(str(tmp_path / "ann.tsv")))]


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
