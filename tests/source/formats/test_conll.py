from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source import Sample
from mslm_data.source.formats.conll import Conll
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


def test_recognises__every_real_corpus(real: Path) -> None:
    paths = sorted((real / "blurb").rglob("*.tsv"))

    assert len(paths) > 10
    for path in paths:
        assert Conll().sniff(Sample(path, path.read_bytes()[: 64 << 10])).why, path


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


def adjusted(records: list[Document | SetAside]) -> list[dict[str, int]]:
    return [dict(record.adjusted) for record in records if isinstance(record, Document)]


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
