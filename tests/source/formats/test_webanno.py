from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, Part, Sentence, SetAside, Span
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source import Sample
from mslm_data.source.formats.webanno import WebAnno
from mslm_data.source.reading.standoff import MISMATCH, NO_LABEL, NO_WIDTH
from tests.source.formats.fixtures.webanno import NAMED
from tests.source.formats.test_offsets import Article, articles


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


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (r"B\_X", "B_X"),
        (r"\*", "*"),
        (r"\_", "_"),
        (r"NO\[1\]", "NO[1]"),
        (r"A\\|C", "A\\"),
        (r"a\->b", "a->b"),
        (r"a\;b\tc\nd", "a;b\tc\nd"),
        ("I-X", "I-X"),
    ],
)
def test_read__labels_are_unescaped(tmp_path: Path, value: str, label: str) -> None:
    document = written(tmp_path, f"#Text=Red\n1-1 0-3 Red {value} ")

    assert found(document)[0] == ("Red", label)


@pytest.mark.parametrize(
    ("version", "text", "expected"),
    [
        ("3.3", r"a\tb\\t\n", "a\tb\\t\n"),
        ("3.2", r"a\rb\fc\bd", "a\rb\fc\bd"),
        ("3.3", r"\"x\u0041", r"\"x\u0041"),
        ("3.1", r"\"x\u0041", '"xA'),
        ("3.0", r"a\tb", "a\tb"),
        ("3.1", r"a\uD83D\uDE42\ud83d\ude42", "a\U0001f642\U0001f642"),
        ("3.0", r"a\uD83D\uDE42", "a\U0001f642"),
        ("3.1", r"a\uFEFF\U0001f642", "a\ufeff\\U0001f642"),
        ("3.1", r"a\\uD83D", r"a\uD83D"),
    ],
)
def test_read__the_text_is_unescaped_as_its_version_says(
    tmp_path: Path, version: str, text: str, expected: str
) -> None:
    document = written(tmp_path, f"#Text={text}\n1-1 0-1 a _ ", version=version)

    assert isinstance(document, Document)
    assert document.text == expected


@pytest.mark.parametrize("version", ["3.0", "3.1"])
def test_read__offsets_behind_an_escaped_emoji_count_utf16(tmp_path: Path, version: str) -> None:
    lines = (
        "#Text=\\uD83D\\uDE42~Warfarin\n1-1 0-2 \U0001f642 Mood \n1-2 3-11 Warfarin Drug \n\n"
        "#Text=Gout\n2-1 12-16 Gout Sign "
    )

    document = written(tmp_path, lines, version=version)

    assert isinstance(document, Document)
    assert document.text == "\U0001f642 Warfarin\nGout"
    assert found(document) == [("\U0001f642", "Mood"), ("Warfarin", "Drug"), ("Gout", "Sign")]
    assert not document.unplaced


@pytest.mark.parametrize("text", [r"\uD83D", r"x\uDE42", r"\uDE42\uD83D", r"\uD83D\u0041\uDE42"])
def test_read__sets_a_file_with_half_a_surrogate_pair_aside(tmp_path: Path, text: str) -> None:
    record = written(tmp_path, f"#Text={text}~Red\n1-1 2-5 Red X ", version="3.1")

    assert record == SetAside(
        "a",
        "a.tsv:5",
        Reason(r"expected surrogates in pairs such as \uD83D\uDE42 in #Text, got half a pair"),
    )


def test_read__mentions_may_reach_into_the_next_sentence(tmp_path: Path) -> None:
    document = written(tmp_path, "#Text=Red\n1-1 0-3 Red X[1] \n\n#Text=fox\n2-1 4-7 fox X[1] ")

    assert found(document) == [("Red\nfox", "X")]


def test_read__sentences_may_follow_without_a_gap(tmp_path: Path) -> None:
    document = written(
        tmp_path, "#Text=Red.\n1-1 0-3 Red X \n1-2 3-4 . _ \n#Text=Fox\n2-1 4-7 Fox X "
    )

    assert isinstance(document, Document)
    assert document.text == "Red.Fox"
    assert document.sentences == (Sentence(0, 4), Sentence(4, 7))


def test_read__equal_labels_side_by_side_are_two_mentions(tmp_path: Path) -> None:
    document = written(tmp_path, "#Text=Red~fox\n1-1 0-3 Red X|X \n1-2 4-7 fox X ")

    assert found(document) == [("Red", "X"), ("Red", "X"), ("fox", "X")]


def test_read__counts_mentions_without_label_width_or_matching_words(tmp_path: Path) -> None:
    lines = "#Text=Red~fox\n1-1 0-3 Red * \n1-1.1 3-3  X \n1-2 4-7 fix X "

    document = written(tmp_path, lines)

    assert isinstance(document, Document)
    assert (document.spans, document.unplaced) == ((), {NO_LABEL: 1, NO_WIDTH: 1, MISMATCH: 1})


def test_read__offsets_may_count_characters(tmp_path: Path) -> None:
    lines = "#Text=\U0001f600~fox\n1-1 0-1 \U0001f600 _ \n1-2 2-5 fox X "

    assert found(written(tmp_path, lines, offsets="characters")) == [("fox", "X")]


# Layers -----------------------------------------------------------------------------------------

HEADER = (
    "#T_SP=webanno.custom.Host|ROLE_webanno.custom.Host:links_webanno.custom.Link|uima.tcas.Annotation|Kind\n"
    "#T_CH=webanno.custom.CorefLink|referenceType|referenceRelation\n#T_SP=webanno.custom.Bare|"
)


@pytest.mark.parametrize(
    ("layer", "expected", "unplaced"),
    [
        ("webanno.custom.Host", [("Red fox", "A"), ("fox", "B")], {}),
        ("Bare", [], {NO_LABEL: 1}),
        ("CorefLink", [], {}),
    ],
)
def test_read__chooses_a_layer_among_roles_and_chains(
    tmp_path: Path, layer: str, expected: list[tuple[str, str]], unplaced: dict[Reason, int]
) -> None:
    lines = (
        "#Text=Red~fox\n"
        "1-1 0-3 Red x;y[1] 1-2[7];1-1 A[1] _ _ * \n"
        "1-2 4-7 fox x;y[1]|_ 1-2[7];1-1|* A[1]|B *->1-1 x _ "
    )
    document = written(tmp_path, lines, header=HEADER, layer=layer, label_feature="Kind")

    assert found(document) == expected
    assert isinstance(document, Document)
    assert document.unplaced == unplaced


def test_settle__rejects_files_without_the_layer(tmp_path: Path) -> None:
    written(tmp_path, "#Text=Red\n1-1 0-3 Red X ")
    (tmp_path / "b.tsv").write_text(
        "#FORMAT=WebAnno TSV 3.3\n\n\n#Text=R\n1-1\t0-1\tR\t\n", encoding="utf-8"
    )
    paths = [tmp_path / "b.tsv", tmp_path / "a.tsv"]

    assert WebAnno().settle(paths) == {}
    assert WebAnno(layer="Symptom").settle(paths[:1]) == {}
    with pytest.raises(
        SourceError, match=r"in one of the files, got no layers of users; set \[source\] layer"
    ):
        WebAnno(layer="Symptom").settle(paths)


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


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (
            "#T_SP=a.B|value\n#T_SP=a.C|value",
            r"layers a\.B \(value\), a\.C \(value\); set \[source\] layer to one of them, and label_feature",
        ),
        ("#T_SP=a.B|kind|note", r"got the features kind, note; set \[source\] layer and label_f"),
    ],
)
def test_settle__raises_if_there_are_several_layers(
    tmp_path: Path, header: str, words: str
) -> None:
    written(tmp_path, "#Text=R\n1-1 0-1 R X Y ", header=header)

    with pytest.raises(SourceError, match=words):
        WebAnno().settle([tmp_path / "a.tsv"])


def test_read__rejects_an_ambiguous_layer_name(tmp_path: Path) -> None:
    record = written(
        tmp_path, "#Text=R\n1-1 0-1 R X Y ", header="#T_SP=a.B|value\n#T_SP=c.B|value", layer="B"
    )

    assert isinstance(record, SetAside)
    assert "got several; set [source] layer" in record.reason.text
    assert WebAnno(layer="B").settle([tmp_path / "a.tsv"]) == {}


def test_read__id_from_folder_names_documents_after_folders(tmp_path: Path) -> None:
    (tmp_path / "note-7.txt").mkdir()
    document = written(tmp_path / "note-7.txt", "#Text=Red\n1-1 0-3 Red X ", id_from="folder")

    assert isinstance(document, Document)
    assert (document.id, document.spans) == ("note-7.txt", (Span(0, 3, "X"),))


# Errors ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "place", "reason"),
    [
        (
            "#Text=Red\n1-1 0-3 Red",
            "a.tsv:6",
            "expected at least 4 columns, as the header says, got 3",
        ),
        (
            "#Text=Red\n1-1 0:3 Red X ",
            "a.tsv:6",
            "expected a range such as 0-5 in the second column",
        ),
        (
            "#Text=Red~fox\n1-1 0-3 Red _ \n\n#Text=fox\n2-1 4-7 fox _ ",
            "a.tsv:1",
            "expected passages one after",
        ),
        ("", "a.tsv:1", "expected sentences with tokens, found none"),
    ],
)
def test_read__sets_a_broken_file_aside(
    tmp_path: Path, lines: str, place: str, reason: str
) -> None:
    record = written(tmp_path, lines)

    assert isinstance(record, SetAside)
    assert (record.id, record.place) == ("a", place)
    assert record.reason.text.startswith(reason)


@pytest.mark.parametrize("header", ["#T_SP=", "#T_SP=|", f"#T_SP={NAMED}|value\n#T_RL= "])
def test_read__sets_a_file_with_a_layer_without_a_type_aside(tmp_path: Path, header: str) -> None:
    record = written(tmp_path, "#Text=Red\n1-1 0-3 Red X ", header=header)

    kind = header.rpartition("#")[2][:5]
    line = 2 + header.count("\n")
    reason = f"expected the type of a layer after #{kind}, got nothing"
    assert record == SetAside("a", f"a.tsv:{line}", Reason(reason))
    assert WebAnno().settle([tmp_path / "a.tsv"]) == {}


@pytest.mark.parametrize("first", ["", "#FORMAT=WebAnno TSV 2.0", "Red\tO"])
def test_read__sets_other_formats_aside(tmp_path: Path, first: str) -> None:
    (tmp_path / "a.tsv").write_text(f"{first}\n", encoding="utf-8")

    reason = "expected #FORMAT=WebAnno TSV 3.x as the first line, got another"
    assert read(tmp_path / "a.tsv") == SetAside("a", "a.tsv:1", Reason(reason))


def test_recognises__its_first_line() -> None:
    assert (
        WebAnno().sniff(Sample(Path("a.tsv"), b"\xef\xbb\xbf#FORMAT=WebAnno TSV 3.3\r\n#T_SP")).why
        != ""
    )
    assert WebAnno().sniff(Sample(Path("a.tsv"), b"#FORMAT=WebAnno TSV 2.0\n")).why == ""
    assert WebAnno().sniff(Sample(Path("a.tsv"), b"")).why == ""
