"""Findings of fuzzing and review, each with a minimal file: crashes, hangs, other errors than ours, silent mistakes."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mslm_data import pipeline
from mslm_data.annotate import semantic_types
from mslm_data.data.document import Document, Part, SetAside
from mslm_data.data.reason import Reason
from mslm_data.encode import tokenizer
from mslm_data.errors import (
    AnnotateError,
    MslmDataError,
    PipelineError,
    SourceError,
    TokenizerError,
    VocabularyError,
)
from mslm_data.lexicon.anchors import general_text
from mslm_data.lexicon.score_columns import open_scores
from mslm_data.lexicon.scores import tables
from mslm_data.mask.table import make
from mslm_data.source import SOURCES
from mslm_data.source.formats.notes import Notes
from mslm_data.source.reading import arrow_rows
from mslm_data.source.reading.records import NOT_UTF8
from tests import made
from tests.fuzz import artifacts, seeds
from tests.fuzz.checks import outcome

DEEP = b"[" * 5000
ENDLESS = b"9" * 5000
"""More digits than Python converts to an integer."""


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def read(name: str, path: Path, **options: object) -> list[Document | SetAside]:
    source = SOURCES.make(name, options)
    found = source.find([path])
    every = [one for paths in found.values() for one in paths]
    return [
        record
        for one in every
        for part in source.cut(Part(str(one)), target_bytes=1 << 40)
        for record in source.read(part)
    ]  # type: ignore[misc]


def streamed(column: pa.Array, name: str = "tokens") -> bytes:
    return seeds.arrow(pa.table({name: column}), stream=True)


def test_arrow__offsets_outside_the_file(tmp_path: Path) -> None:
    """The process crashed."""
    column = pa.array([["a", "b"], ["c"]])
    offsets = column.offsets.buffers()[1].to_pybytes()[:12]
    data = streamed(column)
    assert offsets in data
    path = written(
        tmp_path, "train.arrow", data.replace(offsets, offsets[:4] + b"\0\0\0\x70" + offsets[8:])
    )

    with pytest.raises(SourceError, match=r"train\.arrow: cannot be read as Arrow"):
        read("hub", path)


def test_arrow__a_text_that_is_not_utf8(tmp_path: Path) -> None:
    words = pa.array([["good"], ["baad"]])
    tags = pa.array([["O"], ["O"]])
    table = pa.table({"tokens": words, "tags": tags})
    path = written(
        tmp_path, "train.arrow", seeds.arrow(table, stream=True).replace(b"baad", b"b\xff\xffd")
    )

    with pytest.raises(SourceError, match=r"train\.arrow: cannot be read as Arrow .* UTF-8"):
        read("hub", path)


def test_arrow__a_column_name_that_is_not_utf8(tmp_path: Path) -> None:
    data = streamed(pa.array(["x"]), name="abcdefgh").replace(b"abcdefgh", b"abc\xff\xfffgh")
    with pytest.raises(SourceError, match=r"\(UnicodeDecodeError\)"):
        read("hub", written(tmp_path, "train.arrow", data))


def test_arrow__two_columns_of_one_name(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    for name, data in (
        ("a.arrow", seeds.arrow(table, stream=True)),
        ("b.parquet", seeds.parquet(table)),
    ):
        with pytest.raises(SourceError, match="cannot be read as "):
            read("hub", written(tmp_path / name, name, data))


def test_arrow__rows_without_bytes(tmp_path: Path) -> None:
    """A few hundred bytes, a table of nulls, would take hours to read."""
    batch = pa.record_batch({"x": pa.nulls(1 << 20)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)

    with pytest.raises(
        SourceError, match=r"expected as many rows as its \d+ bytes can hold, got 1048576; is"
    ):
        read("hub", written(tmp_path, "a.arrow", sink.getvalue().to_pybytes()))


LAYOUTS = {
    "dictionary": pa.array(["a b", "c"]).dictionary_encode(),
    "large string": pa.array(["a b", "c"], pa.large_string()),
    "string view": pa.array(["a b", "c"], pa.string_view()),
    "run ends": pa.RunEndEncodedArray.from_arrays(
        pa.array([1, 2], pa.int32()), pa.array(["a b", "c"])
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrow__texts_in_every_layout(tmp_path: Path, layout: str) -> None:
    table = pa.table(
        {
            "text": LAYOUTS[layout],
            "entities": pa.array([[{"start": 0, "end": 1, "label": "X"}], None]),
        }
    )
    path = written(tmp_path, "train.arrow", seeds.arrow(table, stream=True))

    assert [record.text for record in read("hub", path) if isinstance(record, Document)] == [
        "a b",
        "c",
    ]


def test_rows__one_long_text_for_every_row(tmp_path: Path) -> None:
    """100 KB of parquet became 1 GB of texts in memory."""
    table = pa.table({"text": pa.array(["x" * (1 << 20)]).take(pa.array([0] * 150, pa.int8()))})
    path = written(tmp_path, "train.parquet", b"")
    pq.write_table(table, path, compression="zstd")
    assert path.stat().st_size < 1 << 20

    tracemalloc.start()
    count = sum(1 for _ in arrow_rows.read_range(path, 0, 150, columns=["text"]))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert count == 150
    assert most < 100 << 20


def test_rows__a_file_with_fewer_rows_than_declared(tmp_path: Path) -> None:
    path = written(tmp_path, "train.parquet", seeds.parquet(pa.table({"text": ["a", "b"]})))

    with pytest.raises(SourceError, match="expected 5 rows, got 2"):
        list(arrow_rows.read_range(path, 0, 5, columns=["text"]))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("dataset_dict.json", b'{"splits": ["../train"]}'),
        ("dataset_dict.json", b'{"splits": ["/etc"]}'),
        ("dataset_dict.json", b'{"splits": [7]}'),
        ("dataset_dict.json", b'{"splits": ["\xff"]}'),
        ("dataset_dict.json", DEEP),
        ("train/state.json", b'{"_data_files": [{"filename": "../../secret.arrow"}]}'),
        ("train/state.json", b'{"_data_files": [{"filename": "/etc/passwd"}]}'),
        ("train/state.json", b'{"_data_files": [{"filename": "absent.arrow"}]}'),
        ("train/state.json", b'{"_data_files": [{"filename": "' + ENDLESS + b'"}]}'),
        ("train/state.json", b'{"_data_files": [{}]}'),
        ("train/state.json", b'{"_data_files": 3}'),
        ("train/state.json", b'{"_split": 3}'),
    ],
)
def test_hub__a_saved_folder_with_wrong_names(tmp_path: Path, name: str, data: bytes) -> None:
    for file, of in seeds.saved(streamed(pa.array([["a"]]))).items():
        written(tmp_path / "set", file, of)
    written(tmp_path / "set", name, data)

    with pytest.raises(SourceError, match=r"expected"):
        read("hub", tmp_path / "set")


def test_ebm__a_label_file_outside_the_corpus(tmp_path: Path) -> None:
    """The search for the corpus in the parent folders did not end."""
    with pytest.raises(SourceError, match=r"annotations/aggregated/starting_spans/ELEMENT/SPLIT/"):
        read("ebm", written(tmp_path, "11.AGGREGATED.ann", b"0\n1\n"))


def test_bioc__passages_far_apart_again_and_again(tmp_path: Path) -> None:
    """Each gap was filled with a megabyte of spaces."""
    passages = "".join(
        f"<passage><offset>{n << 19}</offset><text>x</text></passage>" for n in range(4)
    )
    data = f"<collection><document><id>d</id>{passages}</document></collection>"

    (aside,) = read("bioc", written(tmp_path, "train.xml", data.encode()))

    assert isinstance(aside, SetAside)
    assert "far beyond the text" in aside.reason.text


@pytest.mark.parametrize("encoding", ["UTF0", "hex", "gb18030", "idna", "undefined"])
def test_bioc__an_unknown_encoding(tmp_path: Path, encoding: str) -> None:
    data = f'<?xml version="1.0" encoding="{encoding}"?><collection/>'.encode()

    with pytest.raises(
        SourceError, match=r"train\.xml:1: expected an encoding such as UTF-8, got another"
    ):
        read("bioc", written(tmp_path, "train.xml", data))


def test_bioc__a_default_attribute_of_every_element(tmp_path: Path) -> None:
    """A default value of 1 MB in the document type took 1 MB of memory for every element."""
    head = f'<!DOCTYPE collection [<!ATTLIST passage a CDATA "{"x" * 1000}">]>'
    with pytest.raises(SourceError, match=r"train\.xml:1: expected no entities but XML's own five"):
        read("bioc", written(tmp_path, "train.xml", f"{head}<collection/>".encode()))


def test_brat__a_mention_that_repeats_the_text(tmp_path: Path) -> None:
    """A file of some kilobytes made a copy of the text for each of its fragments."""
    written(tmp_path, "a.txt", b"one two")
    written(tmp_path, "a.ann", b"T1\tX 0 7;0 7;0 7\tone two one two one two\n")

    (document,) = read("brat", tmp_path)

    assert isinstance(document, Document)
    assert document.spans == ()
    assert document.unplaced == {Reason("offsets do not match the text"): 1}


@pytest.mark.parametrize(
    "header", [b"ROW_ID,SUBJECT_ID,A\rB,TEXT\n", b"ROW_ID,SUBJECT_ID,AB,TEXT\n1,2,a\rb,c\n"]
)
def test_notes__a_carriage_return_in_a_field(tmp_path: Path, header: bytes) -> None:
    """`csv` refused such a field. Other readers accept it."""
    path = written(tmp_path, "train.csv", header + b"7,8,x,some text\n")

    last = read("notes", path, category_column="", error_column="")[-1]

    assert isinstance(last, Document)
    assert (last.id, last.text) == ("7", "some text")


def test_notes__too_many_columns(tmp_path: Path) -> None:
    header = b"ROW_ID,SUBJECT_ID,CATEGORY,ISERROR,TEXT" + b",x" * 5000
    with pytest.raises(SourceError, match=r"train\.csv:1: expected at most 1000 columns, got 5005"):
        read("notes", written(tmp_path, "train.csv", header + b"\n"))


def test_notes__bytes_and_lists_in_a_typed_table(tmp_path: Path) -> None:
    """They became the texts `b'...'` and `['...']`."""
    table = pa.table(
        {"SUBJECT_ID": [1, 2], "TEXT": pa.array([b"caf\xc3\xa9", b"\xff"], pa.binary())}
    )
    options = {"id_column": "", "category_column": "", "error_column": ""}

    first, second = read("notes", written(tmp_path, "a.parquet", seeds.parquet(table)), **options)
    lists = pa.table({"SUBJECT_ID": [1], "TEXT": [["a", "b"]]})
    (third,) = read("notes", written(tmp_path, "b.parquet", seeds.parquet(lists)), **options)

    assert isinstance(first, Document)
    assert first.text == "café"
    assert isinstance(second, SetAside)
    assert second.reason == NOT_UTF8
    assert isinstance(third, SetAside)
    assert third.reason.text == "expected one value in each column, got several"


@pytest.mark.parametrize("pattern", ["a{99999999999}", "(" * 5000, "("])
def test_notes__an_invalid_pattern(pattern: str) -> None:
    with pytest.raises(ValueError, match="expected patient_pattern to be a regular expression"):
        Notes(patient_pattern=pattern)


def test_conll__a_broken_mark_that_is_not_utf8(tmp_path: Path) -> None:
    """Its bytes became lone surrogates, which cannot be encoded."""
    path = written(tmp_path, "train.tsv", b"good\tO\nword\tO\n\n-DOCSTART-x\xff\tO\n")

    bad, good = read("conll", path)

    assert isinstance(good, Document)
    assert bad == SetAside(
        "train:1",
        "train.tsv:4",
        NOT_UTF8,
        mentions=0,
    )


@pytest.mark.parametrize(
    ("name", "file", "record"),
    [
        ("conll", "train.tsv", b"a\tO\n\n"),
        ("jsonl", "train.jsonl", b'{"text": "a"}\n'),
        ("bc2gm", "train.in", b"S1 a\n"),
        ("pubtator", "train.txt", b"1|t|a\n\n"),
    ],
)
def test_cut__before_a_byte_order_mark(tmp_path: Path, name: str, file: str, record: bytes) -> None:
    """A byte order mark within a file was text if read whole, and skipped if read in two parts."""
    written(tmp_path, "GENE.eval", b"")
    path = written(tmp_path, file, record + b"\xef\xbb\xbf" + record + record)
    source = SOURCES.make(name, {})

    assert outcome(source, path, 1) == outcome(source, path, 1 << 40)


def test_open_scores__a_link_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "x" / "train").mkdir(parents=True)
    (tmp_path / "x" / "train" / "s.arrow").symlink_to(tmp_path / "nowhere")

    with pytest.raises(VocabularyError, match="expected a score column, found none"):
        open_scores(tmp_path / "x")


@pytest.mark.parametrize("data", [b"x = " + ENDLESS, b"x = " + DEEP, b"x = \xff"])
@pytest.mark.parametrize(
    ("read", "error"),
    [
        (lambda path: pipeline.read(str(path)), PipelineError),
        (lambda path: make(str(path), {}), PipelineError),
        (lambda path: semantic_types.read(str(path)), AnnotateError),
    ],
    ids=["pipeline", "strategy", "types"],
)
def test_toml__values_that_python_cannot_read(
    tmp_path: Path, data: bytes, read: Callable[[Path], object], error: type[MslmDataError]
) -> None:
    with pytest.raises(error, match=r"expected|not TOML"):
        read(written(tmp_path, "x.toml", data))


def test_read__a_set_option_that_python_cannot_read() -> None:
    read = pipeline.read("blurb/bc2gm", sets=["about.title=" + ENDLESS.decode()])

    assert read.about.title == ENDLESS.decode()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("x.csv", b"\xff", "not valid UTF-8"),
        ("x.csv", b"cui,name\n" + b"C1,a\n" * 9000 + b"\xff", "not valid UTF-8"),
        ("x.obo", b"[Term]\nid: X:1\nname: a\xff\n", "not valid UTF-8"),
        ("x.obo.gz", gzip.compress(seeds.OBO, mtime=0)[:-9], "cannot be read"),
        ("x.obo.gz", seeds.OBO, "cannot be read"),
        ("MRCONSO.RRF", b"\xff", "not valid UTF-8"),
        (
            "MRSTY.RRF",
            b"C9000001\n",
            r"MRSTY\.RRF:1: expected a concept, its type and more between '|', got 1 field",
        ),
    ],
)
def test_concepts__damaged_files(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    written(tmp_path, "MRCONSO.RRF", seeds.MRCONSO)
    written(tmp_path, "MRSTY.RRF", seeds.MRSTY)
    written(tmp_path, name, data)

    with pytest.raises(AnnotateError, match=message):
        artifacts.concepts("MRCONSO.RRF" if name == "MRSTY.RRF" else name)(tmp_path)


def test_concepts__a_cross_reference_to_nothing(tmp_path: Path) -> None:
    written(tmp_path, "x.obo", b"[Term]\nid: X:1\nname: fever\nxref: UMLS_CUI:\n")

    artifacts.concepts("x.obo")(tmp_path)


def test_tables__numbers_that_python_cannot_read(tmp_path: Path) -> None:
    path = written(tmp_path, "x.tsv", ENDLESS + b"\t1\n7\t1\n")
    counts = written(tmp_path, "y.tsv", b"word\t" + ENDLESS + b"\n")

    lexicon, skipped = tables.read_table(
        path, made.word_piece(), by="ids", given_words=True, about=dict(artifacts.ABOUT)
    )
    with pytest.raises(
        VocabularyError, match=r"y\.tsv:1: expected a word, a tab and a whole number"
    ):
        general_text.from_file(counts)

    assert (len(lexicon), skipped) == (1, {"unknown": 1})


def core(**parts: object) -> bytes:
    model = {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"}
    return json.dumps({"version": "1.0", "added_tokens": [], "model": model, **parts}).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            core(model={"type": "BPE", "vocab": {"a": 0}, "merges": ["a a"]}),
            "not a tokenizer of the tokenizers library",
        ),
        (
            core(
                post_processor={
                    "type": "TemplateProcessing",
                    "single": [{"SpecialToken": {"id": "q", "type_id": 0}}],
                    "pair": [],
                    "special_tokens": {},
                }
            ),
            "cannot encode text",
        ),
        (
            core(model={"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "?"}),
            "cannot encode text",
        ),
        (DEEP, "not a BERT vocabulary"),
    ],
)
def test_tokenizer__files_on_which_the_library_panics(
    tmp_path: Path, data: bytes, message: str
) -> None:
    with pytest.raises(TokenizerError, match=message):
        tokenizer.load_tokenizer(str(written(tmp_path, "tokenizer.json", data)))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("vocab.json", b"{", "cannot read vocab.json and merges.txt as byte-level BPE"),
        ("merges.txt", b"a b c\n", "cannot read vocab.json and merges.txt as byte-level BPE"),
    ],
)
def test_tokenizer__a_folder_with_a_damaged_file(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    written(tmp_path, "vocab.json", artifacts.BPE_VOCAB)
    written(tmp_path, "merges.txt", artifacts.MERGES)
    written(tmp_path, name, data)

    with pytest.raises(TokenizerError, match=message):
        tokenizer.load_tokenizer(str(tmp_path))


def test_marks__a_missing_part(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"gone\.tsv: cannot be read"):
        list(SOURCES.make("conll", {}).read(Part(str(tmp_path / "gone.tsv"))))
