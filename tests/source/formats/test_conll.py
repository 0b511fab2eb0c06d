from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source import Guess, Sample
from mslm_data.source.formats.conll import Conll
from mslm_data.source.reading.records import NOT_UTF8
from mslm_data.source.reading.tagged_lines import not_a_tag
from mslm_data.source.reading.tags import decode
from tests.reference import conll as reference
from tests.support.properties import with_fixtures

in_folder = with_fixtures()


def read(
    folder: Path, data: str | bytes, *, target_bytes: int = 10**9, **options: Any
) -> list[Document | SetAside]:
    path = folder / "f.tsv"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    conll = Conll(**options)
    return [
        record
        for part in conll.cut(Part(str(path)), target_bytes=target_bytes)
        for record in conll.read(part)
    ]


def ids_of(records: list[Document | SetAside], kind: type[Document | SetAside]) -> list[str]:
    """Return the ids of documents and of records set aside."""
    return [record.id for record in records if isinstance(record, kind)]


def mentions(records: list[Document | SetAside]) -> list[list[tuple[str, str]]]:
    found = []
    for record in records:
        assert isinstance(record, Document)
        found.append([(record.text[span.start : span.end], span.label) for span in record.spans])
    return found


@pytest.mark.parametrize(
    "data",
    [
        "a\tO\nb\tB-X\nc\tI-X\n",
        "a O\nb B-X\nc I-X\n",
        "a  O\nb   B-X \nc I-X\n",
        "a\tNN\tO\nb\tNN\tB-X\nc\tNN\tI-X\n",
        "a NN O O\nb NN B-NP B-X\nc NN I-NP I-X\n",
        "a\tO\t[]\nb\tB-X\t['D003000']\nc\tI-X\t['D003000', 'D1']\n",
        "a\tO\nb\tB-X\t['D003000']\nc\tI-X\t['D003000']\n",
        "a\tO\t\nb\tB-X\t\nc\tI-X\t\n",
        "a d1 0 1 O\nb d1 2 3 B-X\nc d1 4 5 I-X\n",
        "a\tO\nb B-X\nc\tI-X\n",
        "a\tO\nb\tS-X\nc\tO\n",
        "a\tO\nb\tI-X\nc\tI-X\n",
        "\n \n\t\na\tO\nb\tB-X\nc\tI-X\n\n\n",
    ],
)
def test_read__finds_columns_in_any_dialect(tmp_path: Path, data: str) -> None:
    (record,) = read(tmp_path, data)

    assert isinstance(record, Document)
    assert record.text == "a b c"
    assert [(span.start, span.label) for span in record.spans] == [(2, "X")]


@pytest.mark.parametrize(
    "rows",
    [
        ["1\ta\tO", "2\tb\tB-X", "3\tc\tI-X"],
        ["0 a O", "1 b B-X", "2 c I-X"],
        ["41 a O", "42 b B-X", "43 c I-X"],
        ["1\tO\ta\tNN", "2\tB-X\tb\tNN", "3\tI-X\tc\tNN"],
        ["d/1 0 0 a NN O", "d/1 0 1 b NN B-X", "d/1 0 2 c NN I-X"],
        ["1 a _ _ _ _ _ _ _ _ O", "2 b _ _ _ _ _ _ _ _ B-X", "3 c _ _ _ _ _ _ _ _ I-X"],
    ],
)
def test_read__does_not_read_row_numbers_as_words(tmp_path: Path, rows: list[str]) -> None:
    data = "".join("\n".join(rows) + "\n\n" for _ in range(3))

    records = read(tmp_path, data)

    assert mentions(records) == [[("b c", "X")]] * 3


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["1\tO", "2\tB-X", "3\tO"], "1 2 3"),  # nothing else could be the word
        (["7 x O", "9 x B-X", "8 x O"], "7 9 8"),
        (["1 x O", "2 y B-X"], "1 2"),  # two consecutive numbers may be chance
    ],
)
def test_read__reads_numbers_as_words(tmp_path: Path, rows: list[str], words: str) -> None:
    (record,) = read(tmp_path, "\n".join(rows) + "\n")

    assert isinstance(record, Document)
    assert record.text == words


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["1\tb\tb\tNN\tB-X\t_", "2\tc\tc\tNN\tI-X\t_"], "b c"),
        (["1\tb\tb\tNN\tB-X\t_"], "b"),
        (["1 CD B-NP B-X"], "1"),  # CoNLL-2003
        (["1967 b b NN B-X _"], "1967"),
    ],
)
def test_read__knows_numbers_of_rows_in_short_files_by_their_columns(
    tmp_path: Path, rows: list[str], words: str
) -> None:
    assert mentions(read(tmp_path, "\n".join(rows) + "\n")) == [[(words, "X")]]


def test_read__refuses_a_file_of_numbers_and_tags(tmp_path: Path) -> None:
    data = "".join(f"1\t{row}\t{10 * row}\t{10 * row + 4}\tB-X\n" for row in range(20))

    with pytest.raises(SourceError, match="if the file has words"):
        read(tmp_path, data)


@pytest.mark.parametrize(
    ("tags_of_rows", "label"),
    [
        (["B-NP O", "I-NP B-X", "B-VP O"], "X"),
        (["O B-NP", "B-X I-NP", "O B-VP"], "X"),
        (["O O", "O B-X", "O O"], "X"),
        (["B-NC B-X", "B-VC I-X", "B-PC O"], "X"),
        (["O B-NP", "O I-NP", "O B-VP"], ""),  # no mention, but chunks behind
    ],
)
def test_read__tells_chunks_from_entities(
    tmp_path: Path, tags_of_rows: list[str], label: str
) -> None:
    data = "".join(f"w{number} NN {rest}\n" for number, rest in enumerate(tags_of_rows))

    (record,) = read(tmp_path, data)

    assert isinstance(record, Document)
    assert {span.label for span in record.spans} == ({label} if label else set())


@pytest.mark.parametrize("rest", [["B-NP", "I-NP", "B-VP"], ["X B-NP", "X I-NP", "NN B-VP"]])
def test_read__reads_chunks_in_tag_column(tmp_path: Path, rest: list[str]) -> None:
    data = "".join(f"w{number} NN {tags}\n" for number, tags in enumerate(rest))
    column = data.partition("\n")[0].count(" ")

    with pytest.raises(SourceError, match=f"got only chunks such as NP in column {column}; set"):
        read(tmp_path, data)
    assert mentions(read(tmp_path, data, tag_column=column)) == [[("w0 w1", "NP"), ("w2", "VP")]]


@pytest.mark.parametrize(
    "rows",
    [
        ["O\ta", "B-X\tbc", "I-X\td"],
        ["O a _", "B-X bc _", "I-X d _"],
        ["O 7 a", "B-X 3 bc", "I-X 8 d"],
        ["O\t0\t1\ta\t1", "B-X\t2\t4\tbc\t2", "I-X\t5\t6\td\t3"],
        ["d1\tO\ta", "d1\tB-X\tbc", "d1\tI-X\td"],
        ["1\tO\ta", "2\tB-X\tbc", "3\tI-X\td"],
    ],
)
def test_read__takes_no_tags_for_words(tmp_path: Path, rows: list[str]) -> None:
    (record,) = read(tmp_path, "\n".join(rows) + "\n")

    assert isinstance(record, Document)
    assert record.text == "a bc d"
    assert mentions([record]) == [[("bc d", "X")]]


def test_read__takes_no_column_of_o_for_a_document_id(tmp_path: Path) -> None:
    (record,) = read(tmp_path, "O\ta\nO\tbc\n")

    assert isinstance(record, Document)
    assert record.text == "a bc"


def test_read__raises_if_words_after_tags_are_ambiguous(tmp_path: Path) -> None:
    data = "O a NN B-NP\nB-X bc NN I-NP\nI-X d NN I-NP\n"

    with pytest.raises(
        SourceError,
        match=r"words behind the tags in column 0, got columns 1 and 2; name it with .* word_c",
    ):
        read(tmp_path, data)
    assert mentions(read(tmp_path, data, word_column=1)) == [[("bc d", "X")]]


@pytest.mark.parametrize(
    "text",
    [
        "Yesterday I saw the patient again.",
        "I saw him.\nI left again.\nI do not know.\n",
        "Here I am.\nThere I was.\n",
        "Vitamin B helps.\nHepatitis B hurts.\n",
    ],
)
def test_read__takes_no_sentences_for_columns(tmp_path: Path, text: str) -> None:
    assert not Conll().sniff(Sample(Path("f.txt"), text.encode())).why
    with pytest.raises(SourceError, match="got no column of tags"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        "Class I\nSaid O\nThe rest of it is a text of many lines.\n",
        "Vitamin B-12\n",
        "a O x\nb B-X\nc O\nd O y z\n",
    ],
)
def test_recognises__wants_equal_numbers_of_columns(text: str) -> None:
    assert not Conll().sniff(Sample(Path("f.txt"), text.encode())).why


@pytest.mark.parametrize(
    "rows",
    [
        ["1\ta\tB-X\tO", "2\tb\tI-X\tB-Y", "3\tc\tO\tO"],
        ["1\ta\tB-X\tO", "2\tb\tI-X\tO", "3\tc\tO\tO"],
    ],
)
def test_read__refuses_two_layers_of_entities(tmp_path: Path, rows: list[str]) -> None:
    data = "\n".join(rows) + "\n"

    with pytest.raises(SourceError, match=r"f.tsv:1: .* columns 2 and 3 .* set .* tag_column"):
        read(tmp_path, data)
    assert mentions(read(tmp_path, data, tag_column=2)) == [[("a b", "X")]]


NESTED = (
    "The\tO\tO\nUniversity\tB-ORG\tO\nof\tI-ORG\tO\nOslo\tI-ORG\tB-LOC\n\n"
    "Oslo\tB-LOC\tO\nwins\tO\tO\n\n"
)


@pytest.mark.parametrize("target_bytes", [1, 10**9])
def test_read__reads_layers_together(tmp_path: Path, target_bytes: int) -> None:
    data = NESTED * 2 + "\tO\tO\nx\tO\tbroken\n\n" + NESTED

    records = read(tmp_path, data, tag_column=(1, 2), target_bytes=target_bytes)

    found = [one for one in records if isinstance(one, Document)]
    assert [sorted(one) for one in mentions(found)] == [  # type: ignore[arg-type]
        [("Oslo", "LOC"), ("University of Oslo", "ORG")],
        [("Oslo", "LOC")],
    ] * 3
    (aside,) = [one for one in records if isinstance(one, SetAside)]
    assert (aside.id, aside.place) == ("f:4", "f.tsv:17")
    assert found[-1].id == "f:6"


SEVERAL = """
In O
New B-LOC B-ORG
York I-LOC I-ORG B-X
Times I-ORG
today O

He O
left O

Rome B-LOC
fell O
"""


@pytest.mark.parametrize("separator", [" ", "\t"])
@pytest.mark.parametrize("copies", [1, 30])
@pytest.mark.parametrize("target_bytes", [1, 10**9])
def test_read__reads_any_number_of_tags(
    tmp_path: Path, separator: str, copies: int, target_bytes: int
) -> None:
    data = copies * SEVERAL.replace(" ", separator)
    guess = Conll().sniff(Sample(tmp_path / "f.tsv", data.encode()))

    records = read(tmp_path, data, target_bytes=target_bytes)

    assert guess.why
    found = mentions(records)
    assert [sorted(sentence) for sentence in found] == copies * [
        [("New York", "LOC"), ("New York Times", "ORG"), ("York", "X")],
        [],
        [("Rome", "LOC")],
    ]


@pytest.mark.parametrize("tags", ["B-LOC I-LOC", "B-LOC word", "B-LOC B", "B-LOC B-a|b"])
def test_read__sets_tags_aside_that_cannot_be_told_apart(tmp_path: Path, tags: str) -> None:
    records = read(tmp_path, f"{20 * SEVERAL}\nx {tags}\n")

    (aside,) = [record for record in records if isinstance(record, SetAside)]
    assert aside.id == "f:60"


@pytest.mark.parametrize("gap", ["\n", "  \n"])
@pytest.mark.parametrize("target_bytes", [1, 10**9])
def test_read__skips_the_text_of_a_sentence_above_its_words(
    tmp_path: Path, gap: str, target_bytes: int
) -> None:
    block = "In New York.\nIn\tNN\tO\nNew\tNN\tB-LOC\nYork\tNN\tI-LOC\n.\tNN\tO\n"
    other = block.replace("In New York.", "In Ola's York.")
    data = gap.join([*(20 * [block]), other, block])

    guess = Conll().sniff(Sample(tmp_path / "f.tsv", data.encode()))
    records = read(tmp_path, data, target_bytes=target_bytes)

    assert guess.why
    (aside,) = [record for record in records if isinstance(record, SetAside)]
    assert (aside.id, aside.place) == ("f:20", "f.tsv:121")
    read_ones = [record for record in records if isinstance(record, Document)]
    assert mentions(read_ones) == 21 * [[("New York", "LOC")]]
    assert {record.text for record in read_ones} == {"In New York ."}
    assert read_ones[0].place == "f.tsv:2"


def test_settle__asks_about_a_prefix_of_words(tmp_path: Path) -> None:
    data = "en:Oslo\tB-X\nen:wins\tO\nen::\tO\nen:en:x\tO\nother\tO\n\n" * 5
    (tmp_path / "f.tsv").write_text(data.replace("other", "en:other"))

    with pytest.raises(SourceError, match=r"word_prefix = 'en:' to remove it, or word_prefix = ''"):
        Conll().settle([tmp_path / "f.tsv"])
    assert Conll(word_prefix="").settle([tmp_path / "f.tsv"]) == {}

    (first, *_) = read(tmp_path, data, word_prefix="en:")
    assert isinstance(first, Document)
    assert first.text == "Oslo wins : en:x other"
    assert mentions([first]) == [[("Oslo", "X")]]
    assert Conll().settle([tmp_path / "f.tsv"]) == {}, "not all words have it"


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (["a P", "b O", "c P", "d O", "e O"], {"scheme": "label", "outside": "O"}),
        (["a P", "b 0", "c P", "d 0", "e 0"], {"scheme": "label", "outside": "0"}),
        (["a\tO", "b\tPer", "c d\tPer", "e\tO"] * 2, {}),  # names in a table
        (["1 a P", "2 b O", "3 c P", "4 d O", "5 e O"], {"scheme": "label", "outside": "O"}),
        (["a P", "b O", "c Q", "d O", "e O"], {}),  # each label once
        (["a N", "b V", "c N", "d V", "e N"], {}),  # nothing is outside
        (
            ["a\tHeart Rate", "b\tO", "c\tHeart Rate", "d\tO", "e\tO"],
            {"scheme": "label", "outside": "O"},
        ),
        (["a\tHEART RATE", "b\t0", "c\tHEART RATE", "d\t0", "e\t0"], {}),
        (["a 1", "b 0", "c 1", "d 0", "e 0"], {}),
        (["a P Q", "b O O", "c P Q", "d O O", "e O O"], {}),
        (["a B-P", "b O", "c B-P", "d O", "e O"], {}),
    ],
)
def test_options_of__labels_alone(rows: list[str], options: dict[str, str]) -> None:
    data = "\n".join(rows).encode() + b"\n"

    assert Conll().sniff(Sample(Path("f.tsv"), data)).options == options


def test_read__reads_any_number_of_columns(tmp_path: Path) -> None:
    more = "\t_" * 300
    data = f"a{more}\tO{more}\nb{more}\tB-X{more}\nb _ O\n"

    (aside,) = read(tmp_path, data)

    assert aside == SetAside(
        "f:0", "f.tsv:3", Reason("expected a token and a tag, got 3 field(s)"), 1
    )
    assert mentions(read(tmp_path, data[: data.rindex("b")])) == [[("b", "X")]]


@pytest.mark.parametrize("share", [1, 2, 3])
def test_read__names_the_scheme_of_labels(tmp_path: Path, share: int) -> None:
    """With O in most lines, the column is found but its labels cannot be read."""
    data = ("a\tO\n" * share + "b\tDisease\n\n") * 12

    with pytest.raises(SourceError, match=r'labels.*scheme = "label"'):
        read(tmp_path, data)
    assert mentions(read(tmp_path, data, scheme="label")) == [[("b", "Disease")]] * 12


def test_read__names_the_scheme_of_few_labels(tmp_path: Path) -> None:
    (aside,) = read(tmp_path, "a\tO\na\tO\nb\tDisease\n")

    assert isinstance(aside, SetAside)
    assert 'scheme = "label"' in aside.reason.text


NEW_YORK = "{n}\tO\nwas\tO\nin\tO\nthe\tO\nhouse\tO\nof\tO\nNew\t{new}\nYork\t{york}\n\n"


def new_york(new: str, york: str) -> str:
    return "".join(NEW_YORK.format(n=n, new=new, york=york) for n in range(99))


@pytest.mark.parametrize(
    ("new", "york", "labels"),
    [
        ("B-loc,B-org", "I-loc,I-org", {"loc", "org"}),
        ("B-loc|B-org", "I-loc|I-org", {"loc", "org"}),
        ("B-LOC", "I", {"LOC"}),
    ],
)
def test_read__reads_several_and_bare_tags(
    tmp_path: Path, new: str, york: str, labels: set[str]
) -> None:
    records = read(tmp_path, new_york(new, york))

    assert mentions(records) == [[("New York", label) for label in sorted(labels)]] * 99


@pytest.mark.parametrize("outside", ["O", "-", "0"])
@pytest.mark.parametrize(("new", "york"), [("LOC-B", "LOC-I"), ("LOC_B", "LOC_I")])
def test_read__reads_tags_with_the_prefix_at_the_end(
    tmp_path: Path, outside: str, new: str, york: str
) -> None:
    data = new_york(new, york).replace("\tO\n", f"\t{outside}\n")

    with pytest.raises(SourceError, match='"suffix"'):
        read(tmp_path, data)
    options = Conll().sniff(Sample(tmp_path / "f.tsv", data.encode())).options
    assert options == {"scheme": "suffix"}
    assert Conll().sniff(Sample(tmp_path / "f.tsv", data.encode())).why
    assert mentions(read(tmp_path, data, **options)) == [[("New York", "LOC")]] * 99


def test_read__refuses_other_tags_than_those_with_the_prefix_at_the_end(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="build the files of each scheme by themselves, with"):
        read(tmp_path, new_york("B-LOC", "I-LOC"), scheme="suffix")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            {"dev.tsv": ("LOC", "LOC"), "train.tsv": ("B-LOC", "I-LOC")},
            'train.tsv: .*got tags such as B-X and I-X; .*train.tsv with scheme = "auto", dev.tsv with',
        ),
        ({"train.tsv": ("B-LOC", "I-LOC")}, 'set .source. scheme = "auto"$'),
        ({"train.tsv": ("LOC-B", "LOC-I")}, 'X-B and X-I; set .source. scheme = "suffix"$'),
        ({"dev.tsv": ("LOC", "LOC"), "train.tsv": ("B-cell", "T-cell")}, ""),
        ({"train.tsv": ("O", "O")}, ""),
    ],
)
def test_settle__asks_if_labels_are_tags(
    tmp_path: Path, files: dict[str, tuple[str, str]], words: str
) -> None:
    for name, (new, york) in files.items():
        (tmp_path / name).write_text(new_york(new, york))
    paths = [tmp_path / name for name in files]

    if words:
        with pytest.raises(SourceError, match=words):
            Conll(scheme="label").settle(paths)
    else:
        assert Conll(scheme="label").settle(paths) == {}


COMMENTED = """\
# global.columns = FORM NER
# a licence

#begin document (nw/wsj_1); part 000
# sent_id = 1
a\tO
# text = Vitamin B
#\tB-X
# id 77\tdomain=en
#tag\tI-X

#doc_id = 5
b O
# O
# B-X
broken

c\tO
#end document
# newdoc id = two
# sent_id = 2
#=\tB-X
"""


def test_read__skips_comments(tmp_path: Path) -> None:
    whole = read(tmp_path, COMMENTED)

    aside, second = whole
    assert aside == SetAside(
        "nw/wsj_1:000", "f.tsv:16", Reason("expected a token and a tag, got 1 field(s)"), mentions=2
    )
    assert isinstance(second, Document)
    assert (second.id, second.text, second.place) == ("two", "#=", "f.tsv:20")
    (first, _) = read(tmp_path, COMMENTED.replace("broken\n", ""))
    assert isinstance(first, Document)
    assert first.text == "a # #tag\nb # #\nc"
    assert mentions([first]) == [[("# #tag", "X"), ("#", "X")]]


def test_read__skips_comments_if_any_word_is_a_valid_tag(tmp_path: Path) -> None:
    lines = "# abstract 12\nWarfarin\tDrug\n#\tO\n# O\nwas\tO\n"

    (tabbed,) = read(tmp_path, lines, scheme="label")
    (spaced,) = read(tmp_path, lines.replace("\t", " "), scheme="label")

    assert isinstance(tabbed, Document)
    assert (tabbed.text, mentions([tabbed])) == ("Warfarin # was", [[("Warfarin", "Drug")]])
    # Without TABs, a comment of two words looks like a row.
    assert isinstance(spaced, Document)
    assert spaced.text == "# Warfarin # # was"


@pytest.mark.parametrize("target_bytes", [1, 10**9])
def test_read__skips_lines_with_a_beginning_of_the_user(tmp_path: Path, target_bytes: int) -> None:
    data = "; a\tO\n\n## b\tI-X\na\tO\n;\tO\n\n##\n\n#\tB-X\n##c\nb\tI-X\n"

    records = read(tmp_path, data, comments=("##", ";"), target_bytes=target_bytes)

    assert mentions(records) == [[], [("# b", "X")]]
    assert ids_of(records, Document) == ["f:0", "f:1"]
    assert [record.place for record in records] == ["f.tsv:4", "f.tsv:9"]


def test_read__names_the_option_for_lines_with_a_sign(tmp_path: Path) -> None:
    *_, aside = reversed(read(tmp_path, GOOD + "## 7\tdomain en\nc\tO\n"))

    assert isinstance(aside, SetAside)
    assert aside.reason.text.endswith("got a line that begins with '##'")
    assert aside.reason.advice["comments"].endswith("{set} 'source.comments=[\"##\"]'")


@pytest.mark.parametrize("target_bytes", [1, 10**9])
def test_read__skips_comments_of_germeval(tmp_path: Path, target_bytes: int) -> None:
    sentence = "#\thttp://a.example/1.html\t[2011-02-03]\t\n1\tOslo\tB-X\tO\n2\twins\tO\tO\n"
    data = "\n".join([sentence] * 4 + ["#\tAnother 1.\n#block 7\n1\t#\tB-X\tO\n"])

    records = read(tmp_path, data, tag_column=2, target_bytes=target_bytes)

    assert mentions(records) == [[("Oslo", "X")]] * 4 + [[("#", "X")]]
    assert ids_of(records, Document) == [f"f:{number}" for number in range(5)]


@pytest.mark.parametrize("target_bytes", [1, 10**9])
@pytest.mark.parametrize(
    "header",
    [
        "TOKEN\tNE-COARSE\tMISC\n",
        "Word\tTag\tMISC\n\n",
        "# id = 1\n\nTOKEN\tNE\tMISC\n# lang = fi\n",
        "\ufeffform\tner\t\n\n# a\n",
    ],
)
@pytest.mark.parametrize("mark", ["", "-DOCSTART-\n"])
def test_read__knows_a_row_of_names(
    tmp_path: Path, header: str, mark: str, target_bytes: int
) -> None:
    data = header + mark + "a\tB-X\t_\nb\tO\t_\n\n" + mark + "c\tO\t_\nd\tB-X\t_\n"

    records = read(tmp_path, data, target_bytes=target_bytes)

    assert mentions(records) == [[("a", "X")], [("d", "X")]]
    assert ids_of(records, Document) == ["f:0", "f:1"]
    last = records[1]
    assert isinstance(last, Document)
    assert last.place == f"f.tsv:{data.count(chr(10)) - 1 - bool(mark)}"
    assert Conll().sniff(Sample(Path("f.tsv"), data.encode())).why


@pytest.mark.parametrize("target_bytes", [1, 10**9])
def test_read__knows_the_row_of_names_of_joined_files(tmp_path: Path, target_bytes: int) -> None:
    data = "TOKEN\tNE\na\tB-X\n\n" + "TOKEN\tNE\n\nb\tB-X\n\n" * 2

    records = read(tmp_path, data, target_bytes=target_bytes)

    assert mentions(records) == [[("a", "X")], [("b", "X")], [("b", "X")]]
    assert ids_of(records, Document) == ["f:0", "f:1", "f:2"]


@pytest.mark.parametrize("first", ["Form\tO\n", "Word\tB-X\n", "and\tner\n"])
def test_read__loses_no_row_to_names(tmp_path: Path, first: str) -> None:
    (record,) = read(tmp_path, first + "b\tB-X\nc\tO\n")

    assert isinstance(record, SetAside) or record.text == f"{first.split(maxsplit=1)[0]} b c"


COMMENT_LINES = [
    "a\tO", "#\tO", "# O", "#x\tB-X", "# sent_id = 1", "# text = I B-X O", "# id 5", "#end document", "", "", " ",
    "# newdoc id = d", "# newdoc", "#begin document (e); part 001", "broken", "# newdocs\tO", "#x=y\tO", "#x = y\tO",
]  # fmt: skip


def plain_reading(data: str) -> list[tuple[str, list[list[tuple[str, str]]] | None]]:
    """Read COMMENT_LINES by the documented rules: id and sentences, None for a broken sentence."""
    documents: list[list[Any]] = []
    marked = "# newdoc\n" in data + "\n" or "# newdoc id" in data or "#begin" in data
    is_inside = False
    for line in data.split("\n"):
        if line in ("# newdoc", "# newdoc id = d", "#begin document (e); part 001"):
            name = {"# newdoc": "", "# newdoc id = d": "d"}.get(line, "e:001")
            documents.append([name, [], False])
            is_inside = False
        elif line in ("# sent_id = 1", "# text = I B-X O", "# id 5", "#end document", "#x = y\tO"):
            continue
        elif not line.strip():
            is_inside = False
        else:
            if not documents or not (is_inside or marked):
                documents.append(["", [], False])
            if not is_inside:
                documents[-1][1].append([])
            is_inside = True
            documents[-1][2] |= line == "broken"
            documents[-1][1][-1].append(tuple(line.replace("\t", " ").rsplit(" ", 1)))
    return [
        (name or f"f:{number}", None if broken else sentences)
        for number, (name, sentences, broken) in enumerate(documents)
    ]


@in_folder
@given(st.lists(st.sampled_from(COMMENT_LINES), max_size=25), st.sampled_from([1, 400, 10**9]))
def test_read__agrees_about_comments(tmp_path: Path, lines: list[str], target_bytes: int) -> None:
    data = "g\tO\nh\tB-X\n" * 30 + "\n".join(lines)

    records = read(tmp_path, data, target_bytes=target_bytes)

    expected = plain_reading(data)
    assert ids_of(records, SetAside) == [name for name, sentences in expected if sentences is None]
    documents = [record for record in records if isinstance(record, Document)]
    assert [(record.id, record.text) for record in documents] == [
        (name, "\n".join(" ".join(word for word, _ in one) for one in sentences))
        for name, sentences in expected
        if sentences is not None
    ]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("a\tO\nb\tB-X\n", True),
        ("# id = 1\n1 a O\n2 b B-X\n3 c O\n", True),
        ("a\tO\nb\tO\n", False),
        ("Sentence\tWord\tTag\n1\ta\tO\n\tb\tB-X\n\tc\tI-X\n", False),
        ("1|t|Title\n1|a|Text\n", False),
        ("secret words\n", False),
        ("", False),
    ],
)
def test_recognises__gives_evidence(head: str, expected: bool) -> None:
    assert bool(Conll().sniff(Sample(Path("f.tsv"), head.encode())).why) == expected


def test_recognises__every_real_corpus(real: Path) -> None:
    for path in sorted((real / "blurb").rglob("*.tsv")):
        assert Conll().sniff(Sample(path, path.read_bytes()[: 64 << 10])).why, path


def ontonotes(values: list[str]) -> str:
    rows = [
        f"nw/a 0 {number} w{number} NN (S* w - - - {value} (ARG0* -\n"
        for number, value in enumerate(values)
    ]
    return "#begin document (nw/a); part 000\n" + "".join(rows) + "\n#end document\n"


def test_read__reads_brackets_of_conll_2012(tmp_path: Path) -> None:
    data = ontonotes(["(ORG*", "*", "*)", "(GPE)", "*", "(DATE*)", "(A*", "*)"])

    (record,) = read(tmp_path, data, scheme="brackets", tag_column=10)

    expected = [("w0 w1 w2", "ORG"), ("w3", "GPE"), ("w5", "DATE"), ("w6 w7", "A")]
    assert mentions([record]) == [expected]
    assert ids_of([record], Document) == ["nw/a:000"]
    with pytest.raises(
        SourceError, match=r"columns .*10 and 11 with tags; set \[source\] tag_column"
    ):
        read(tmp_path, data, scheme="brackets")
    with pytest.raises(SourceError, match='"brackets"'):
        read(tmp_path, data)


@pytest.mark.parametrize(
    ("values", "line"),
    [(["*", "(X*", "*"], 3), (["*)", "*", "(X)"], 2), (["(X*", "(Y*", "*)"], 2)],
)
def test_read__sets_sentences_with_half_a_bracket_aside(
    tmp_path: Path, values: list[str], line: int
) -> None:
    (aside,) = read(tmp_path, ontonotes(values), scheme="brackets", tag_column=10)

    assert isinstance(aside, SetAside)
    assert aside.place == f"f.tsv:{line}"
    assert aside.reason.text.startswith("expected brackets to open and close within")


@in_folder
@given(
    st.lists(st.lists(st.sampled_from(["*", "(X*", "*)", "(Y)", "(Y*)"]), min_size=1), min_size=1)
)
def test_read__agrees_about_brackets(tmp_path: Path, sentences: list[list[str]]) -> None:
    data = "\n".join("".join(f"w {value}\n" for value in values) for values in sentences)

    records = read(tmp_path, "w *\n" * 200 + "\n" + data, scheme="brackets")[-len(sentences) :]

    found = {record.id: record for record in records}
    for number, values in enumerate(sentences, start=1):
        line = " ".join(values)
        balanced = re.sub(r"\(\w(?:\*?\)|\*(?: \*)*? \*\))|\*(?!\))", "", line)
        if balanced.strip():
            assert f"f:{number}" not in found or isinstance(found[f"f:{number}"], SetAside)
        else:
            record = found[f"f:{number}"]
            assert isinstance(record, Document)
            assert len(record.spans) == line.count("(")


def test_read__raises_if_the_first_column_has_no_letters(tmp_path: Path) -> None:
    data = "0 7 Aspirin B-D\n8 11 was O\n\n0 2 No O\n3 7 pain B-D\n\n" * 10

    assert mentions(read(tmp_path, data)) == [[("Aspirin", "D")], [("pain", "D")]] * 10

    data = data.replace("0 ", "0.0 ")
    with pytest.raises(SourceError, match=r"f.tsv:1: expected words in column 0, got values with"):
        read(tmp_path, data)

    found = read(tmp_path, data, word_column=2)
    assert mentions(found) == [[("Aspirin", "D")], [("pain", "D")]] * 10


def test_read__takes_columns_from_the_options(tmp_path: Path) -> None:
    data = "1 B-NP alpha B-X NN\n2 I-NP beta O NN\n"

    (record,) = read(tmp_path, data, word_column=2, tag_column=3)

    assert mentions([record]) == [[("alpha", "X")]]


def test_read__reads_labels_as_tags(tmp_path: Path) -> None:
    data = "-DOCSTART- -X- N\n\na DT N\nb NN P\nc NN P\nd NN O\n. . N\n\ne NN P\n"

    (record,) = read(tmp_path, data, scheme="label", outside="N")

    assert mentions([record]) == [[("b c", "P"), ("d", "O"), ("e", "P")]]


def test_read__names_bare_tags(tmp_path: Path) -> None:
    assert mentions(read(tmp_path, "a\tB\nb\tI\nc\tO\n", untyped="Thing")) == [[("a b", "Thing")]]


@pytest.mark.parametrize(
    "word",
    ['"', "NA", "null", "None", "#", "#1", "[", "'", "\\", "\u00a0", "\u2028", "\x85", "-DOC"],
)
def test_read__takes_any_word(tmp_path: Path, word: str) -> None:
    records = read(tmp_path, f"a\tO\n{word}\tB-X\n\n{word}\tO\n")

    assert [record.text for record in records if isinstance(record, Document)] == [
        f"a {word}",
        word,
    ]
    assert mentions(records) == [[(word, "X")], []]


@pytest.mark.parametrize(
    ("mark", "name"),
    [
        ("-DOCSTART-", ""),
        ("-DOCSTART-\tO", ""),
        ("-DOCSTART- -X- N", ""),
        ("-DOCSTART- -X- O O", ""),
        ("-DOCSTART- (10070173)", "10070173"),
        ("-DOCSTART-\t(PMC-1.2)\tO", "PMC-1.2"),
        ("-DOCSTART- (two words)", ""),
        ("###MEDLINE:97138389", "97138389"),
        ("###MEDLINE:97138389\tO", "97138389"),
    ],
)
@pytest.mark.parametrize("gap", ["\n", "\n\n"])
def test_read__opens_a_document_at_each_mark(
    tmp_path: Path, mark: str, name: str, gap: str
) -> None:
    again = mark.replace("9", "8").replace("PMC", "pmc").replace("1007", "1006")
    data = f"{mark}{gap}a\tB-X\n\nb\tO\n\n\n{again}{gap}c\tO\n"

    records = read(tmp_path, data)

    assert [(record.text, record.id) for record in records if isinstance(record, Document)] == [
        ("a\nb", name or "f:0"),
        ("c", name.replace("9", "8").replace("PMC", "pmc").replace("1007", "1006") or "f:1"),
    ]
    second = records[1]
    assert isinstance(second, Document)
    assert second.place == f"f.tsv:{data[: data.rindex(again)].count(chr(10)) + 1}"


def test_read__keeps_lines_before_the_first_mark(tmp_path: Path) -> None:
    for target_bytes in (1, 10**9):
        records = read(
            tmp_path, "\n\na\tO\n\n-DOCSTART-\n\n-DOCSTART-\nb\tO\n", target_bytes=target_bytes
        )

        texts = [(record.id, record.text) for record in records if isinstance(record, Document)]
        assert texts == [("f:0", "a"), ("f:1", ""), ("f:2", "b")]


def adjusted(records: list[Document | SetAside]) -> list[dict[str, int]]:
    return [dict(record.adjusted) for record in records if isinstance(record, Document)]


def test_read__counts_stray_i_tags(tmp_path: Path) -> None:
    data = (
        "-DOCSTART- (1)\na\tI-X\nb\tO\n\nc\tI-X\n"
        "-DOCSTART- (2)\nd\tB-X\ne\tI-X\nf\tB-X\n\ng\tB-Y\n"
        "-DOCSTART- (3)\nh\tI-Y\ni\tO\nj\tB-Y\n"
    )

    for target_bytes in (1, 10**9):
        found = adjusted(read(tmp_path, data, target_bytes=target_bytes))

        assert found == [{"begins with I": 2}, {}, {"begins with I": 1}]


@pytest.mark.parametrize(
    ("scheme", "second"), [("IOB1", "c\tI-X\nd\tB-X\n"), ("IO", "c\tI-X\nd\tI-Y\n")]
)
def test_read__knows_files_whose_mentions_begin_with_i(
    tmp_path: Path, scheme: str, second: str
) -> None:
    data = f"a\tI-X\nb\tO\n\n{second}\ne\tO\n\nf\tI-X\n"

    for target_bytes in (1, 10**9):
        records = read(tmp_path, data, target_bytes=target_bytes)

        assert adjusted(records) == [{}, {}, {}, {}], scheme
        assert list(map(len, mentions(records))) == [1, 2, 0, 1]


def test_read__counts_only_other_prefixes_in_iob1(tmp_path: Path) -> None:
    data = "a\tI-X\n\nb\tI-X\n\nc\tE-X\n\nd\tO\n"

    assert adjusted(read(tmp_path, data)) == [{}, {}, {"begins with I": 1}, {}]


@pytest.mark.long
def test_read__lets_the_beginning_of_a_file_say_whether_i_opens_mentions(tmp_path: Path) -> None:
    """All parts of a file must use the same rule, and a part in the middle does not show it."""
    data = "a\tB-X\n\n" * 200_000 + "b\tI-X\n\n" * 3

    last = read(tmp_path, data, target_bytes=len(data) - 20)[-3:]

    assert adjusted(last) == [{"begins with I": 1}] * 3


def test_read__finds_iob1_in_a_real_corpus(real: Path) -> None:
    path = real / "other" / "sec_filings" / "FIN5.txt"

    documents = [record for record in Conll().read(Part(str(path))) if isinstance(record, Document)]

    assert sum(len(document.spans) for document in documents) > 1000
    assert not any(document.adjusted for document in documents)


def test_read__counts_characters_from_each_document(tmp_path: Path) -> None:
    data = "-DOCSTART-\n-DOCSTART-\nna\u00efve\tO\n\U0001f9ec\tB-X\n\nb\tO\n-DOCSTART-\nc\tB-X\n-DOCSTART-\n"

    records = [record for record in read(tmp_path, data) if isinstance(record, Document)]

    assert [(record.text, record.sentences, record.spans) for record in records] == [
        ("", None, ()),
        ("na\u00efve \U0001f9ec\nb", ((0, 7), (8, 9)), ((6, 7, "X", "", 1.0),)),
        ("c", ((0, 1),), ((0, 1, "X", "", 1.0),)),
        ("", None, ()),
    ]
    assert [[] if record.words is None else record.words.tolist() for record in records] == [
        [],
        [[0, 5], [6, 7], [8, 9]],
        [[0, 1]],
        [],
    ]


GOOD = "a\tO\nb\tB-X\n\n" * 3


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("secret", "expected a token and a tag, got 1 field(s)"),
        ("secret\t1\t2\t3\t4\tO", str(not_a_tag(1))),
        ("secret\tsesame", str(not_a_tag(1))),
        ("secret\t", str(not_a_tag(1))),
        ("\tB-X", "expected a token in column 0, got an empty field"),
        (" \tB-X", "expected a token in column 0, got an empty field"),
        (" secret O", "expected a token in column 0, got an empty field"),
        ("the secret O", str(not_a_tag(1))),
        ("secret\u00a0O", "expected a token and a tag, got 1 field(s)"),
    ],
)
def test_read__sets_a_sentence_with_a_broken_line_aside(
    tmp_path: Path, line: str, reason: str
) -> None:
    records = read(tmp_path, f"{GOOD}c\tO\n{line}\nd\tO\n\ne\tO\n")

    assert ids_of(records, Document) == ["f:0", "f:1", "f:2", "f:4"]
    assert [record for record in records if isinstance(record, SetAside)] == [
        SetAside("f:3", "f.tsv:11", Reason(reason), mentions=0)
    ]


def test_read__reads_characters_with_rows_of_spaces(tmp_path: Path) -> None:
    data = "H\tO\n \tO\nO\tB-X\n \tI-X\nz\tI-X\n\n" * 9

    assert Conll().sniff(Sample(tmp_path / "f.tsv", data.encode())).why
    records = read(tmp_path, data)
    assert [record.text[span.start : span.end] for record in records if isinstance(record, Document)
            for span in record.spans] == ["O  z"] * 9  # fmt: skip


def test_read__skips_rows_without_a_word(tmp_path: Path) -> None:
    data = GOOD + "c\tO\n\tO\nd\tB-X\n \tI-X\n\n\tO\n\ne\tB-X\n"

    records = read(tmp_path, data)

    aside, *_, fourth, last = records
    assert isinstance(aside, SetAside)
    assert (aside.id, aside.place) == ("f:4", "f.tsv:15")
    assert isinstance(fourth, Document)
    assert fourth.words is not None
    assert fourth.words.tolist() == [[0, 1], [3, 4]]
    assert mentions([fourth, last]) == [[("d", "X")], [("e", "X")]]


def test_read__sets_a_document_with_a_broken_line_aside(tmp_path: Path) -> None:
    data = "-DOCSTART- (1)\na\tO\n\nsecret\n\nsecret\tx\n-DOCSTART- (2)\nb\tO\n\nc\tO\nd\tO\n"

    first, second = read(tmp_path, data)

    assert first == SetAside(
        "1", "f.tsv:4", Reason("expected a token and a tag, got 1 field(s)"), 0
    )
    assert isinstance(second, Document)
    assert second.id == "2"


def test_read__sets_invalid_utf8_aside(tmp_path: Path) -> None:
    data = GOOD.encode() + b"c\xff\tO\n\n-\tO\n"

    records = read(tmp_path, data)

    asides = [record for record in records if isinstance(record, SetAside)]
    assert asides == [
        SetAside(
            "f:3",
            "f.tsv:10",
            NOT_UTF8,
            mentions=0,
        )
    ]
    assert len(records) == 5


def test_read__keeps_a_mark_with_invalid_utf8(tmp_path: Path) -> None:
    data = b"-DOCSTART- (\xff)\na\tO\n-DOCSTART- (2)\nb\tO\n"

    assert [record.id for record in read(tmp_path, data)] == ["f:0", "2"]
    assert [record.id for record in read(tmp_path, data, target_bytes=1)] == ["f:0", "2"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            "A secret sentence .\nAnd one more .\n",
            r"^f.tsv:1: expected a token and a tag, got no column of tags in most",
        ),
        (
            "\n\nsecret\nwords\n",
            r"^f.tsv:3: expected a token and a tag, got 1 field\(s\), as in most lines; check",
        ),
        ("secret\tNN\nwords\tVB\n", r"^f.tsv:1: expected a token and a tag, got no column of tags"),
        ("a\tO\n".encode("utf-16-le"), r"^f.tsv:\d: expected a token and a tag, got"),
    ],
)
def test_read__refuses_a_file_of_another_format(
    tmp_path: Path, data: str | bytes, message: str
) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        read(tmp_path, data)

    assert "secret" not in str(caught.value)


def test_read__finds_the_same_columns_in_every_part(tmp_path: Path) -> None:
    data = "a B-NP O\nb I-NP O\n\n" * 3 + "c B-NP broken\n\n"

    in_parts = read(tmp_path, data, target_bytes=1)

    assert [isinstance(record, SetAside) for record in in_parts] == [False, False, False, True]
    assert mentions(in_parts[:3]) == [[], [], []]


WORDS = st.text(
    st.characters(exclude_characters=" \t\n\r\f\v", exclude_categories=["Cs", "Cc"]),
    min_size=1,
    max_size=6,
).filter(lambda word: not word.startswith(("-DOCSTART-", "###MEDLINE:", "\ufeff")))
SENTENCE = st.lists(
    st.tuples(WORDS, st.sampled_from(["", "", "X", "Y"]), st.booleans()), min_size=1, max_size=8
)


def tags_of(sentence: list[tuple[str, str, bool]], scheme: str) -> list[str]:
    """Write words, labels and the beginnings of mentions in a scheme."""
    labels = ["", *(label for _, label, _ in sentence), ""]
    opens = [
        False,
        *(
            bool(b) and (a != b or new)
            for (a, b), (_, _, new) in zip(pairwise(labels), sentence, strict=False)
        ),
    ]
    opens.append(False)
    tags = []
    for i in range(1, len(labels) - 1):
        label, first = labels[i], opens[i]
        last = labels[i + 1] != label or opens[i + 1]
        anew = first and labels[i - 1] == label
        prefix = {
            "IOB2": "B" if first else "I",
            "IOB1": "B" if anew else "I",
            "IOBES": ("S" if last else "B") if first else ("E" if last else "I"),
            "BILOU": ("U" if last else "B") if first else ("L" if last else "I"),
        }[scheme]
        tags.append(f"{prefix}-{label}" if label else "O")
    return tags


@in_folder
@given(
    st.lists(SENTENCE, min_size=1, max_size=5),
    st.sampled_from(["IOB1", "IOB2", "IOBES", "BILOU"]),
    st.sampled_from(["\t", " ", "  "]),
    st.integers(0, 3),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from([1, 40, 10**9]),
)
def test_read__round_trips_all_schemes(
    tmp_path: Path,
    sentences: list[list[tuple[str, str, bool]]],
    scheme: str,
    separator: str,
    columns: int,
    end: str,
    blank: int,
    is_terminated: bool,
    target_bytes: int,
) -> None:
    # A first column of tags alone is read as the tags.
    assume(any(word not in "OBILUES" for sentence in sentences for word, _, _ in sentence))
    text = (end * (1 + blank)).join(
        end.join(
            separator.join([word, *["NN"] * columns, tag])
            for (word, _, _), tag in zip(s, tags_of(s, scheme), strict=True)
        )
        for s in sentences
    )

    records = read(tmp_path, text + end * is_terminated, target_bytes=target_bytes)

    assert [record.text for record in records if isinstance(record, Document)] == [
        " ".join(word for word, _, _ in sentence) for sentence in sentences
    ]
    for sentence, record in zip(sentences, records, strict=True):
        assert isinstance(record, Document)
        assert record.words is not None
        starts, ends = record.words[:, 0].tolist(), record.words[:, 1].tolist()
        in_words = [
            (starts.index(span.start), ends.index(span.end) + 1, span.label)
            for span in record.spans
        ]
        assert in_words == reference.mentions(tags_of(sentence, "IOB2"), untyped="Entity")


LINES = [
    "a\tO", "b\tB-X", "c\tI-X\t['D1']", "d O", "e  B-Y ", "", "", " ", "\t", "\x0b", "f", "\tO", " \tO", " g O",
    "h\tNN", "-DOCSTART-\tO", "-DOCSTART- (12)", "-DOCSTART-", "-DOCSTART-x\tO", "###MEDLINE:7", "###MEDLINE:",
    "\u2028\tO", "\u00a0",
]  # fmt: skip


@in_folder
@given(
    st.lists(st.sampled_from(LINES), max_size=25),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(
        [
            "a\tO\nb\tB-X\n" * 30,
            "a O\nb I-X\n" * 30,
            "\n\na\tO\nb\tB-X\n" * 30,
            "-DOCSTART- (12)\n" + "a\tO\nb\tB-X\n" * 30,
        ]
    ),
)
def test_read__agrees_with_the_slow_twin(
    tmp_path: Path, noise: list[str], end: str, is_terminated: bool, has_bom: bool, good: str
) -> None:
    data = "\ufeff" * has_bom + (good + "\n".join(noise) + "\n" * is_terminated).replace("\n", end)
    expected = reference.documents(data.encode(), stem="f", tag_column=1)

    for target_bytes in (1, 50, 10**9):
        records = read(tmp_path, data, target_bytes=target_bytes)

        assert ids_of(records, SetAside) == [
            doc_id for doc_id, sentences in expected if sentences is None
        ]
        good = [(doc_id, sentences) for doc_id, sentences in expected if sentences is not None]
        documents = [record for record in records if isinstance(record, Document)]
        assert ids_of(records, Document) == [doc_id for doc_id, _ in good]
        for (_, sentences), document in zip(good, documents, strict=True):
            # A row without a word leaves an extra space.
            words = [[word for word, _ in sentence] for sentence in sentences]
            lines = document.text.split("\n")
            assert [[*filter(None, line.split(" "))] for line in lines] == (words or [[]])
            of_tags = [
                decode([tag for _, tag in sentence], untyped="Entity")[0] for sentence in sentences
            ]
            assert len(document.spans) == sum(map(len, of_tags))


COUNTS = {
    "BC2GM-IOB": ((12574, 15197), (2519, 3061), (5038, 6325)),
    "BC5CDR-chem-IOB": ((4560, 5203), (4581, 5347), (4797, 5385)),
    "BC5CDR-disease-IOB": ((4560, 4182), (4581, 4246), (4797, 4424)),
    "NCBI-disease-IOB": ((5424, 5134), (923, 787), (940, 960)),
}


@pytest.mark.parametrize("corpus", COUNTS)
def test_read__counts_real_corpora(real: Path, corpus: str) -> None:
    conll = Conll()
    counts = []
    for paths in conll.find([real / "blurb" / corpus]).values():
        (path,) = paths
        records = [
            record
            for part in conll.cut(Part(str(path)), target_bytes=1 << 18)
            for record in conll.read(part)
        ]
        documents = [record for record in records if isinstance(record, Document)]
        assert len(documents) == len(records)
        counts.append((len(documents), sum(len(document.spans) for document in documents)))

    assert tuple(counts) == COUNTS[corpus]


def test_read__counts_the_documents_of_jnlpba(real: Path) -> None:
    conll = Conll()
    (path,) = conll.find([real / "blurb" / "JNLPBA"])["validation"]
    documents = [
        record
        for part in conll.cut(Part(str(path)), target_bytes=1 << 16)
        for record in conll.read(part)
    ]

    assert len(documents) == 200
    assert all(isinstance(document, Document) for document in documents)
    assert (
        sum(
            len(document.sentences or ())
            for document in documents
            if isinstance(document, Document)
        )
        == 1739
    )
    assert (
        sum(len(document.spans) for document in documents if isinstance(document, Document)) == 4551
    )
    assert len({document.id for document in documents}) == 200


def test_read__keeps_neighbouring_mentions_of_bc2gm_apart(real: Path) -> None:
    conll = Conll()
    (path,) = conll.find([real / "blurb" / "BC2GM-IOB"])["train"]
    touching = 0
    for part in conll.cut(Part(str(path)), target_bytes=10**9):
        for document in conll.read(part):
            assert isinstance(document, Document)
            touching += sum(left.end + 1 == right.start for left, right in pairwise(document.spans))

    assert touching == 149


@pytest.mark.parametrize("corpus", [*COUNTS, "JNLPBA"])
def test_read__agrees_with_the_slow_twin_on_real_corpora(real: Path, corpus: str) -> None:
    path = real / "blurb" / corpus / "devel.tsv"
    expected = reference.documents(path.read_bytes(), stem="devel", tag_column=1)
    conll = Conll()

    documents = [
        record
        for part in conll.cut(Part(str(path)), target_bytes=1 << 16)
        for record in conll.read(part)
    ]

    for (doc_id, sentences), document in zip(expected, documents, strict=True):
        assert isinstance(document, Document)
        assert sentences is not None
        assert (document.id, document.text) == (
            doc_id,
            "\n".join(" ".join(w for w, _ in s) for s in sentences),
        )
        of_words = [reference.mentions([tag for _, tag in s], untyped="Entity") for s in sentences]
        assert [span.label for span in document.spans] == [
            label for spans in of_words for _, _, label in spans
        ]


HEADED = "Sentence #\tWord\tTag\n" + "".join(
    f"Sentence: {number}\tOslo\tB-LOC\nSentence: {number}\twins\tO\n\n" for number in range(30)
)


@pytest.mark.parametrize("data", [HEADED, HEADED.partition("\n")[2]], ids=["header", "bare"])
def test_read__takes_no_sentence_number_for_words(tmp_path: Path, data: str) -> None:
    # A row that is cut leaves fewer columns than the words' number.
    data += "Sentence\n"

    sample = Sample(tmp_path / "f.txt", data.encode())
    documents = [record for record in read(tmp_path, data) if isinstance(record, Document)]

    assert Conll().sniff(sample).why
    assert {document.text for document in documents} == {"Oslo wins"}


def test_sniff__takes_no_table_that_numbers_its_sentences(tmp_path: Path) -> None:
    data = HEADED.replace("\n\n", "\n").encode()

    assert Conll().sniff(Sample(tmp_path / "f.txt", data)) == Guess()


UNEVEN = "Oslo\tN\tx\ty\tB-LOC\nwins\tV\tO\n\n" * 30


@pytest.mark.parametrize("options", [{}, {"tag_column": -1}])
def test_read__reads_tags_at_the_end_of_uneven_rows(
    tmp_path: Path, options: dict[str, int]
) -> None:
    documents = read(tmp_path, UNEVEN, **options)

    assert Conll().sniff(Sample(tmp_path / "f.tsv", UNEVEN.encode())).why
    assert mentions(documents) == [[("Oslo", "LOC")]] * 30


def test_read__reads_labels_before_words(tmp_path: Path) -> None:
    data = "LOC-B\tOslo\n0\twins\n0\tagain\n\n" * 30

    guess = Conll().sniff(Sample(tmp_path / "f.crf", data.encode()))

    assert guess.options == {"scheme": "suffix"}
    assert mentions(read(tmp_path, data, **guess.options)) == [[("Oslo", "LOC")]] * 30


def test_sniff__asks_about_a_word_for_outside() -> None:
    data = b"Oslo\tPlace\nwins\tother\nagain\tother\n\n" * 30

    guess = Conll().sniff(Sample(Path("f.txt"), data))

    assert not guess.why
    assert guess.problem.endswith("set [source] scheme = 'label' and outside = 'other'")
    table = "".join(f"{n} Smith\tother\n{n} Jones\tyes\n" for n in range(30)).encode()
    assert Conll().sniff(Sample(Path("f.tsv"), table * 2)) == Guess()


def test_settle__asks_about_a_file_without_tags(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("Oslo\tB-LOC\nwins\tO\n\n" * 9)
    (tmp_path / "test.txt").write_text("Oslo\nwins\n\n" * 9)
    (tmp_path / "dev.txt").write_text("\n")

    with pytest.raises(SourceError) as asked:
        Conll().settle([*tmp_path.iterdir()])

    assert str(asked.value) == (
        "test.txt: expected a token and a tag as in other files, got lines without tags; leave it "
        "out: assign files to splits with [source] splits, such as splits = { train = "
        "['*train.txt'], validation = ['*dev.txt'] }"
    )


@pytest.mark.parametrize("row", [" O", "  O", "\tO", " I-X", " o"])
def test_read__skips_rows_of_spaces_without_a_word(tmp_path: Path, row: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(f"Had O\n{row}\ngout B-X\n\n")

    (found,) = Conll().read(Part(str(path)))

    assert isinstance(found, Document)
    assert [found.text[span.start : span.end] for span in found.spans] == ["gout"]


def test_read__loses_only_the_broken_line_of_a_file_without_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("Had O\ngout B-X\n" * 600 + "old gout I-X\n" + "Had O\ngout B-X\n" * 600)

    aside, before, after = Conll().read(Part(str(path)))

    assert isinstance(aside, SetAside)
    assert aside.place == "a.txt:1201"
    assert isinstance(before, Document)
    assert isinstance(after, Document)
    assert (len(before.spans), len(after.spans)) == (600, 600)
    assert [before.id, aside.id, after.id] == ["a:0", "a:1", "a:2"]
