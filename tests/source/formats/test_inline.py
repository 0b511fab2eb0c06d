"""Texts with mentions marked inline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, Part, Sentence, SetAside, Span
from mslm_data.errors import SourceError
from mslm_data.source import SOURCES, Guess, Sample
from mslm_data.source.formats.inline import Inline
from mslm_data.source.recognise import recognise
from tests import made
from tests.cli.running import run

OPENNLP = "<START:drug> Zorvane <END> helps .\n"
BRACKETS = "Give [DRUG]zorvane[/DRUG] to [AGE]old[/AGE] rats.\n"
ELEMENTS = "Give <DRUG>zorvane</DRUG> to <AGE>old</AGE> rats.\n"


def read(folder: Path, text: str, *, name: str = "own.txt", **options: Any) -> list[Any]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    source = Inline(**options)
    return [
        record
        for part in source.cut(Part(str(path)), target_bytes=1 << 19)
        for record in source.read(part)
    ]


def words(document: Document) -> list[tuple[str, str]]:
    return [(span.label, document.text[span.start : span.end]) for span in document.spans]


@pytest.mark.parametrize(
    ("syntax", "line", "text", "mentions"),
    [
        ("opennlp", "<START:a> x <END> <START:b> y <END>", "x y", [("a", "x"), ("b", "y")]),
        ("opennlp", "(<START:>x<END>)<START> y <END>!", "(x)y!", [("Other", "x"), ("Other", "y")]),
        ("brackets", "[NM]x [DR]y[/DR][/NM] [b]z[/b]", "x y [b]z[/b]", [("DR", "y"), ("NM", "x y")]),
        ("brackets", "[NM]x[/NM][NM]y[/NM] [1] [A", "xy [1] [A", [("NM", "x"), ("NM", "y")]),
        ("brackets", "[**Name**] [B-X]y[/B-X]", "[**Name**] y", [("B-X", "y")]),
        ("brackets", "[NM]x [sic] y[/NM] [CLS]", "x [sic] y [CLS]", [("NM", "x [sic] y")]),
        ("brackets", "[NM]x[/NM] <DR>y</DR>", "x <DR>y</DR>", [("NM", "x")]),
        ("elements", "<Ärzte>x</Ärzte> <w:p>y</w:p>", "x <w:p>y</w:p>", [("Ärzte", "x")]),
        ("elements", "<NM>x</NM> <DR/> <LB > [AA]", "x <DR/> <LB > [AA]", [("NM", "x")]),
        ("elements", '<NM n="1">x</NM > <P>y</P>', "x <P>y</P>", [("NM", "x")]),
        ("elements", "<NM N='1' Type = 'Old Rat'>x</NM> 3 <A 4", "x 3 <A 4", [("Old Rat", "x")]),
        ("yedda", "[@x y#NM*], [@z] [#]", "x y, [@z] [#]", [("NM", "x y")]),
        ("links", "[x y](NM) [z](a.md) [1] (2)", "x y [z](a.md) [1] (2)", [("NM", "x y")]),
        ("labels", "[NM x y] [sic] [No z] [1]", "x y [sic] [No z] [1]", [("NM", "x y")]),
        ("elements", "<NM subtype=no>x</NM> <DR TYPE=yes>y</DR>", "x y", [("NM", "x"), ("yes", "y")]),
    ],
)  # fmt: skip
def test_read__removes_pairs_of_marks(
    syntax: str, line: str, text: str, mentions: list[tuple[str, str]], tmp_path: Path
) -> None:
    (found,) = read(tmp_path, line, syntax=syntax, untyped="Other")

    assert isinstance(found, Document)
    assert found.text == text
    assert words(found) == mentions


@pytest.mark.parametrize(
    ("line", "mentions"),
    [
        ("Give <START:drug> Zorvane again .", 1),
        ("Give Zorvane <END> and <START:drug> Zorvane <END> .", 2),
        ("<START:drug> Zorvane <END> <START:drug> <START:drug> Zorvane <END> .", 3),
    ],
)
def test_read__sets_unpaired_marks_of_opennlp_aside(
    line: str, mentions: int, tmp_path: Path
) -> None:
    before, aside, after = read(tmp_path, f"{OPENNLP}{line}\n{OPENNLP}")

    assert isinstance(before, Document)
    assert isinstance(after, Document)
    assert (aside.id, aside.place, aside.mentions) == ("own:1", "own.txt:2", mentions)
    assert "Zorvane" not in aside.reason.text


@pytest.mark.parametrize(
    ("line", "mentions"),
    [
        ("Give [DRUG]zorvane", 1),
        ("Give zorvane[/DRUG]", 1),
        ("Give [DRUG]zorvane[/DRUGS]", 2),
        ("Give [DRUG]zorvane[/drug]", 2),
        ("Give [DRUG]zor[AGE]vane[/DRUG] to[/AGE] [AGE]old[/AGE]", 4),
        ("Give [NEW]zorvane[/OLD]", 1),
    ],
)
@pytest.mark.parametrize("syntax", ["brackets", "elements"])
def test_read__sets_unpaired_marks_aside(
    line: str, mentions: int, syntax: str, tmp_path: Path
) -> None:
    text = f"{BRACKETS}{line}\n{BRACKETS}"
    if syntax == "elements":
        text = text.replace("[", "<").replace("]", ">")

    _, aside, _ = read(tmp_path, text)

    assert (aside.id, aside.place, aside.mentions) == ("own:1", "own.txt:2", mentions)


def test_read__keeps_unpaired_names_without_a_pair_in_the_file(tmp_path: Path) -> None:
    _, found = read(tmp_path, f"{BRACKETS}[CLS] give [MASK] <DRUG> [/] [sic] [[AGED]] [b][/i]\n")

    assert found.text == "[CLS] give [MASK] <DRUG> [/] [sic] [[AGED]] [b][/i]"
    assert found.spans == ()


def test_read__a_block_is_a_document_with_a_sentence_per_line(tmp_path: Path) -> None:
    text = f"\nNothing .\n{OPENNLP}\n \n{OPENNLP}"

    first, second = read(tmp_path, text, documents="block")

    assert (first.id, first.place) == ("own:0", "own.txt:2")
    assert first.text == "Nothing .\nZorvane helps ."
    assert first.sentences == (Sentence(0, 9), Sentence(10, 25))
    assert first.spans == (Span(10, 17, "drug"),)
    assert second.text == "Zorvane helps ."


def test_read__names_the_line_of_a_block(tmp_path: Path) -> None:
    (aside,) = read(tmp_path, f"{OPENNLP}Give <START:a>\n{OPENNLP}", documents="block")

    assert (aside.id, aside.place, aside.mentions) == ("own:0", "own.txt:2", 3)


def test_read__sets_a_line_without_words_aside(tmp_path: Path) -> None:
    _, aside = read(tmp_path, f"{BRACKETS}[AGE][/AGE]\n")

    assert isinstance(aside, SetAside)
    assert (aside.reason.text, aside.mentions) == ("expected text, got none", 1)


def test_read__decides_the_syntax_by_file(tmp_path: Path) -> None:
    for text in (OPENNLP, BRACKETS, ELEMENTS):
        (found,) = read(tmp_path, text)
        assert len(found.spans) == text.count("/") or found.spans == (Span(0, 7, "drug"),)
    (found,) = read(tmp_path, "Nothing is [MARKED] here.\n")
    assert (found.text, found.spans) == ("Nothing is [MARKED] here.", ())


@pytest.mark.parametrize(
    ("text", "got"),
    [
        (BRACKETS + ELEMENTS, "brackets and elements"),
        ("Nothing is marked here.\n" * 50_000 + BRACKETS, "none"),
    ],
)
def test_read__asks_for_the_syntax(text: str, got: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=rf"own\.txt: .* got {got}; set \[source\] syntax"):
        read(tmp_path, text)

    assert words(read(tmp_path, text, syntax="brackets")[-1 if got == "none" else 0])


@pytest.mark.parametrize("name", ["own.txt", "own.TXT", "own.txt.gz", "eng.train", "own"])
@pytest.mark.parametrize("text", [OPENNLP, BRACKETS, ELEMENTS])
def test_sniff__recognises_text_with_marks(name: str, text: str) -> None:
    assert Inline().sniff(Sample(Path(name), (text * 3).encode())).why


NOT_MARKED = {
    "html": "<p>Take <b>two</b> of <DRUG>these</DRUG> and <DRUG>those</DRUG>.</p>\n",
    "upper-case html": "Take <B>two</B> <FONT SIZE=2>of</FONT> <I>these</I> now.\n",
    "markdown": "See [the page](/page), **bold** `<T>x</T>`[^1] and [x][y].\n",
    "wiki": "'''Gout'''<ref name=\"x\">Smith</ref> is a [[disease]] {{x}} <nowiki>y</nowiki>.\n",
    "bbcode": "He wrote [quote=Ann]so [b]what[/b][/quote] at [URL]http://x[/URL] and [I]left[/I].\n",
    "bbcode links": "See [URL]http://a.b[/URL] or mail [EMAIL]a@b.c[/EMAIL] if you can.\n",
    "latex": "\\begin{figure}[H] See \\cite[p.~3]{x} and $a[I]$ \\end{figure}\n",
    "code": "List<String> a = new List<String>(); a[N] = b[N]; return <Button>Click</Button>;\n",
    "mimic": "Pt [**Last Name (un) 12**] was seen on [**2101-3-4**] by [**Hospital1**].\n",
    "citations": "As shown [1], [2] and by [CLS] tokens [SEP] of [MASK] <unk> <s>models</s>.\n",
    "prompts": "<s>[INST] Name a drug [/INST] Zorvane is one, and an old one too.</s>\n",
    "prompts alone": "[INST] Name a drug [/INST] Zorvane is one, and an old one too.\n",
    "relations": "The <e1>rats</e1> ate all of the <e2>zorvane</e2> in the house.\n",
    "relations in capitals": "The [E1]rats[/E1] ate all of the [E2]zorvane[/E2] in it.\n",
    "xml leaves": "<NAME>Zorvane Sodium</NAME><DOSE>5 milligrams a day</DOSE>\n",
    "xml lines": "<S_UNIT>He took <DRUG>zorvane</DRUG> again and again.</S_UNIT>\n",
    "sgml": "<TEXT>\nHe took <DRUG>zorvane</DRUG> again and again.\n</TEXT>\n",
    "xml": "<?xml version='1.0'?>He took <DRUG>zorvane</DRUG> again and again.\n",
    "json": '{"text": "He took <START:drug> zorvane <END> again and again."}\n',
    "unpaired": "He took <DRUG>zorvane</DRUG> again and <DRUG>again. And </AGE> again.\n",
    "two syntaxes": "He took <DRUG>zorvane</DRUG> again and [DRUG]again[/DRUG], and so on.\n",
    "transcript": "so <laugh>he came</laugh> [NOISE] and uh <breath> went <laugh>away</laugh> again\n",
}


@pytest.mark.parametrize("text", NOT_MARKED.values(), ids=NOT_MARKED)
@pytest.mark.parametrize("name", ["own.txt", "own"])
def test_sniff__claims_nothing_else(text: str, name: str) -> None:
    assert not Inline().sniff(Sample(Path(name), (text * 20).encode())).why


@pytest.mark.parametrize("suffix", ["xml", "html", "md", "tsv", "csv", "jsonl", "json", "ann"])
def test_sniff__looks_at_text_files_alone(suffix: str) -> None:
    assert not Inline().sniff(Sample(Path(f"a.{suffix}"), (ELEMENTS * 9).encode())).why


def test_sniff__wants_a_label_that_repeats() -> None:
    text = b"Give <DRUG>zorvane</DRUG> to <AGE>old</AGE> or <SEX>male</SEX> rats.\n"

    assert not Inline().sniff(Sample(Path("a.txt"), text)).why
    assert Inline().sniff(Sample(Path("a.txt"), text * 2)).why


def test_build__asks_about_labels_that_are_not_in_capitals(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Give <drug>zorvane</drug> to old rats.\n" * 3)
    words = ["build", "--source", "auto", "--input", tmp_path / "a.txt", "--tokenizer",
             made.SAMPLE / "vocab.txt", "--out", tmp_path / "out"]  # fmt: skip

    asked = run(*words)
    done = run(*words, "--set", "source.syntax=elements")

    assert asked.code == 1
    assert "the closest is --source inline, which reports a.txt: pairs of marks may" in asked.err
    assert 'set [source] syntax = "elements"' in asked.err
    assert "zorvane" not in asked.err
    assert done.code == 0
    assert "labels drug" in done.out


def test_build__reads_a_folder_recognised_by_its_marks(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "train.txt").write_text(OPENNLP * 5)
    (folder / "test.txt").write_text("Nothing is marked .\n")

    found = recognise([folder])
    done = run("build", "--source", "auto", "--input", folder, "--tokenizer",
               made.SAMPLE / "vocab.txt", "--out", tmp_path / "out")  # fmt: skip

    assert found.what == "inline"
    assert found.why == "train.txt: its lines have pairs of marks (opennlp)"
    assert done.code == 0
    assert "labels drug" in done.out
    assert set(SOURCES.make("inline", {}).find([folder])) == {"train", "test"}


WORDS = "Give/O zorvane/B-DRUG or/O not/O zor/B-DRUG vane/I-DRUG to/O old/B-AGE rats/O ./O\n"


@pytest.mark.parametrize("separator", ["/", "|", ":", "_", "###"])
@pytest.mark.parametrize("middle", ["", "NN"])
@pytest.mark.parametrize("end", ["", " <=> intent"])
def test_read__splits_words_from_tags(
    separator: str, middle: str, end: str, tmp_path: Path
) -> None:
    joined = separator + middle + separator if middle else separator
    line = WORDS.strip().replace("/", joined) + end
    sample = Sample(Path("own.txt"), f"{line}\n".encode())

    (found,) = read(tmp_path, line)

    assert Inline().sniff(sample).why == "its lines have words that are joined with tags"
    assert found.text == "Give zorvane or not zor vane to old rats ."
    assert words(found) == [("DRUG", "zorvane"), ("DRUG", "zor vane"), ("AGE", "old")]


def test_read__splits_words_from_labels(tmp_path: Path) -> None:
    line = "He/O is/O in/O Port/PLACE Hope/PLACE ,/O or/O in/O 1/2/O of/O Marble/PLACE ./O\n"

    first, _ = read(tmp_path, line * 2)

    assert first.text == "He is in Port Hope , or in 1/2 of Marble ."
    assert words(first) == [("PLACE", "Port Hope"), ("PLACE", "Marble")]


def test_read__sets_a_line_with_a_word_without_tag_aside(tmp_path: Path) -> None:
    before, aside, _ = read(tmp_path, WORDS * 3 + "Give zorvane/B-DRUG\n" + WORDS)[2:]

    assert isinstance(before, Document)
    assert (aside.place, aside.mentions) == ("own.txt:4", 1)
    assert "zorvane" not in aside.reason.text


def test_read__a_block_of_lines_of_words_is_a_document(tmp_path: Path) -> None:
    (found,) = read(tmp_path, WORDS * 2, documents="block")

    assert len(found.sentences) == 2
    assert len(found.spans) == 6


@pytest.mark.parametrize(
    "line",
    [
        "He/PRP gave/VBD Bo/NNP a/DT pill/NN on/IN the/DT third/JJ day/NN ./.",
        "See http://a.b/O or and/or x/y 1/2 a/b c/d e/f g/h i/j k/l",
        "O/O O/O O/O O/O O/O O/O O/O O/O O/O O/O O/O",
    ],
)
def test_sniff__takes_other_words_for_text(line: str) -> None:
    assert Inline().sniff(Sample(Path("own.txt"), f"{line}\n{line}".encode())) == Guess()


@pytest.mark.parametrize("line", ["See [MUSIC PLAYING] now.", "See [this](LICENSE) now."])
def test_sniff__asks_about_links_and_words_in_brackets(line: str) -> None:
    guess = Inline().sniff(Sample(Path("own.txt"), f"{line}\n".encode() * 3))

    assert not guess.why
    assert "set [source] syntax = " in guess.problem


@pytest.mark.parametrize(
    ("name", "beside"),
    [("seq.in", "seq.out"), ("a.words.txt", "a.tags.txt"), ("sentences.txt", "labels.txt")],
)
def test_read__takes_tags_from_a_file_beside_the_words(
    name: str, beside: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text("Give zorvane\n\n" * 15 + "He left\nOld rats\n")
    (tmp_path / beside).write_text("O B-DRUG\n\n" * 15 + "O\nB-AGE O\n")
    (tmp_path / "label").write_text("an_intent\n\n" * 15 + "another\na_third\n")

    assert recognise([tmp_path]).what == "inline"
    assert Inline().find([tmp_path]) == {"train": [tmp_path / name]}
    assert Inline().files(tmp_path / name) == [tmp_path / name, tmp_path / beside]
    *_, first, aside, last = Inline().read(Part(str(tmp_path / name)))
    assert [words(one) for one in (first, last) if isinstance(one, Document)] == [
        [("DRUG", "zorvane")],
        [("AGE", "Old")],
    ]
    assert isinstance(aside, SetAside)
    assert "2 word(s) and 1 tag(s)" in aside.reason.text
