"""Seed files: the first sentences of the shipped sample in every format, with a canary that no message may contain."""

from __future__ import annotations

import functools
import gzip
import io
import json
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mslm_data.data.ragged import Ragged
from mslm_data.io import resources
from mslm_data.lexicon.score_columns import write_scores
from mslm_data.lexicon.store import Lexicon, write_lexicon
from tests import made
from tests.generate import IDS, fixed_examples
from tests.source.cases import CASES, content
from tests.source.formats import fixtures

CANARY = "Zqcan"
"""Word in the text of each corpus."""
LABELS = ("Disease",)
ROWS = 12
Tagged = list[tuple[str, str]]


@functools.cache
def corpus(name: str) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the files of a source's small corpus and its options, with the canary in place of a word.

    The longest word of the texts is replaced everywhere, so that offsets stay right.
    """
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        fixture = fixtures.fixture(name, folder)
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    texts = " ".join(text for of in fixture.expected.values() for _, text, _ in of)
    whole = b" ".join(files.values()).decode("utf-8", "replace")
    word = max((word for word in re.findall("[a-zA-Z]+", texts) if word in whole), key=len)
    assert len(word) >= len(CANARY), f"{name}: no word is as long as the canary"

    canary = CANARY.ljust(len(word), "z").encode()
    return {file: data.replace(word.encode(), canary) for file, data in files.items()}, dict(
        fixture.options
    )


def cases(name: str, options: Mapping[str, Any], suffix: str) -> list[bytes]:
    """Return the files of a source's cases that have these options, and a suffix."""
    found = []
    for path in sorted((CASES / name).glob("*.json")):
        group = json.loads(path.read_text(encoding="utf-8"))
        for case in ({**group, **case} for case in group["cases"]):
            is_alike = case.get("options", {}) == options and case.get("file", "").endswith(suffix)
            if "text" in case and is_alike:
                found.append(content(case["text"]))
    return found


@functools.cache
def sentences(number: int = 5) -> list[Tagged]:
    """Return the first sentences of the sample as tagged words, with the canary and an unusual character in each."""
    text = (made.SAMPLE / "ncbi-disease" / "test.tsv").read_text(encoding="utf-8")
    found = [
        [tuple(line.split("\t")) for line in block.splitlines()]
        for block in text.split("\n\n")
        if block
    ]
    return [
        [*sentence[:4], (CANARY, "O"), ("é", "O"), *sentence[4:]] for sentence in found[:number]
    ]  # type: ignore[misc]


@functools.cache
def documents() -> list[tuple[str, list[tuple[int, int]]]]:
    """Return the sentences as texts, with mentions in characters."""
    found = []
    for sentence in sentences():
        ends = list(accumulate(len(word) + 1 for word, _ in sentence))
        mentions: list[tuple[int, int]] = []
        for (word, tag), end in zip(sentence, ends, strict=True):
            if tag.startswith("B"):
                mentions.append((end - 1 - len(word), end - 1))
            elif tag.startswith("I"):
                mentions[-1] = (mentions[-1][0], end - 1)
        found.append((" ".join(word for word, _ in sentence), mentions))
    return found


def conll(*, mark: str = "", separator: str = "\t", columns: int = 2) -> bytes:
    """Return rows of words and tags, with a mark before every second sentence."""
    blocks = []
    for number, sentence in enumerate(sentences()):
        between = separator + "".join(f"_{separator}" for _ in range(columns - 2))
        begin = f"{mark.replace('#', str(number))}\n\n" if mark and number % 2 == 0 else ""
        blocks.append(begin + "".join(f"{word}{between}{tag}\n" for word, tag in sentence))
    return "\n".join(blocks).encode()


def pubtator() -> bytes:
    records = []
    for number, (text, mentions) in enumerate(documents(), start=100):
        title, _, rest = text.partition(f" {CANARY}")
        rows = [f"{number}\t{a}\t{b}\t{text[a:b]}\tDisease\tD00{number}" for a, b in mentions]
        records.append("\n".join([f"{number}|t|{title}", f"{number}|a|{CANARY}{rest}", *rows]))
    return "\n\n".join(records).encode() + b"\n"


@functools.cache
def docbin(*, level: int) -> bytes:
    """Return the first sentences of the sample as a DocBin, with entities also as a span group."""
    import zlib

    import spacy
    from spacy.tokens import Doc, DocBin

    vocab = spacy.blank("en").vocab
    docs = []
    for sentence in sentences():
        tags = [tag if tag == "O" else f"{tag[0]}-Disease" for _, tag in sentence]
        doc = Doc(vocab, words=[word for word, _ in sentence], ents=tags)
        doc.spans["sc"] = list(doc.ents)
        docs.append(doc)
    return zlib.compress(zlib.decompress(DocBin(docs=docs).to_bytes()), level)


def rows() -> list[dict[str, Any]]:
    """Return documents as rows of tables, one for each known shape."""
    found: list[dict[str, Any]] = []
    for number, (sentence, (text, mentions)) in enumerate(
        zip(sentences(), documents(), strict=True)
    ):
        spans = [{"start": a, "end": b, "label": "Disease", "concept": "C1"} for a, b in mentions]
        passages = {
            "passages": [{"text": [text], "offsets": [[0, len(text)]]}],
            "entities": [
                {"type": "Disease", "text": [text[a:b]], "offsets": [[a, b]]} for a, b in mentions
            ],
        }
        words = {"tokens": [word for word, _ in sentence], "ner_tags": [tag for _, tag in sentence]}
        shapes = [words, {"text": text, "entities": spans, "sentences": [[0, len(text)]]}, passages]
        found.append({"id": f"r{number}", **shapes[number % 3]})
    return found


def json_lines() -> bytes:
    return "".join(
        json.dumps(row, ensure_ascii=number % 2 == 0) + "\n" for number, row in enumerate(rows())
    ).encode()


def table() -> pa.Table:
    """Return words with integer tags in the format of `datasets`."""
    feature = {
        "feature": {"names": ["O", "B-Disease", "I-Disease"], "_type": "ClassLabel"},
        "_type": "List",
    }
    names = [{"O": 0, "B": 1, "I": 2}[tag[0]] for sentence in sentences() for _, tag in sentence]
    lengths = np.cumsum([0, *map(len, sentences())])
    tags = pa.ListArray.from_arrays(pa.array(lengths, pa.int32()), pa.array(names, pa.int64()))
    words = pa.array([[word for word, _ in sentence] for sentence in sentences()])
    metadata = {"huggingface": json.dumps({"info": {"features": {"ner_tags": feature}}})}
    schema = pa.schema(
        [("id", pa.string()), ("tokens", words.type), ("ner_tags", tags.type)], metadata=metadata
    )
    return pa.table([pa.array([f"r{i}" for i in range(len(words))]), words, tags], schema=schema)


def arrow(table: pa.Table, *, stream: bool, compression: str | None = None) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=3)
    return sink.getvalue()


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=3, **options)
    return sink.getvalue()


def notes() -> bytes:
    """Return a few rows of the shipped synthetic notes."""
    text = (made.SAMPLE / "mimic" / "NOTEEVENTS.csv").read_text(encoding="utf-8")
    rows = text.split('"\n')[:4]
    return ('"\n'.join(row[:700] for row in rows) + f' {CANARY} ""said"" [**Name 7**]"\n').encode()


def notes_table() -> pa.Table:
    return pa.table(
        {
            "ROW_ID": [1, 2, 3, 4],
            "SUBJECT_ID": [10.0, 11.0, None, 12.0],
            "CATEGORY": ["Nursing", "Nursing", "ECG", "Nursing"],
            "ISERROR": [None, None, None, 1.0],
            "TEXT": [f"{text} {CANARY}" for text, _ in documents()[:4]],
        }
    )


def saved(data: bytes) -> dict[str, bytes]:
    """Return the files that `save_to_disk` writes for an Arrow stream."""
    state = {
        "_data_files": [{"filename": "data-00000-of-00001.arrow"}],
        "_split": "train",
        "_indices_data_files": None,
    }
    return {
        "dataset_dict.json": json.dumps({"splits": ["train"]}).encode(),
        "train/state.json": json.dumps(state).encode(),
        "train/data-00000-of-00001.arrow": data,
    }


@functools.cache
def folder(*, text: bool = True) -> Mapping[str, bytes]:
    """Return the files of a small built folder."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as temporary:
        source = Path(temporary) / "in"
        source.mkdir()
        for split in ("train", "test"):
            broken = b"\nbroken line\n" if split == "train" else b""
            (source / f"{split}.tsv").write_bytes(conll() + broken)
        made.built(
            Path(temporary) / "out",
            source,
            made.pipeline_of(labels=LABELS, encode={"keep_text": text}),
        )
        return made.tree(Path(temporary) / "out")


SHARD = "train/data-00000-of-00001.arrow"


def lexicon(compression: str | None = None) -> bytes:
    from tempfile import TemporaryDirectory

    entries = [[7, 8], [9], [10, 11, 12]]
    about = {"size": IDS.size, "tokenizer": "0" * 64, "made": {"command": "vocab pmi"}}
    with TemporaryDirectory() as temporary:
        path = Path(temporary) / "x.arrow"
        starts = [[0, 1], [0], [0, 2]]
        scores = np.array([3.5, 2.0, -1.25])
        write_lexicon(
            path,
            Lexicon(
                tokens=Ragged.from_rows(entries, np.int32),
                word_starts=Ragged.from_rows(starts, np.int32),
                scores=scores,
                about=about,
            ),
        )
        data = path.read_bytes()
    return (
        data
        if compression is None
        else arrow(pa.ipc.open_file(data).read_all(), stream=False, compression="zstd")
    )


def scores() -> bytes:
    """Return the scores of `fixed_examples(ROWS)`."""
    from tempfile import TemporaryDirectory

    examples = fixed_examples(ROWS)
    numbers = np.arange(len(examples.input_ids.values), dtype=np.float32) / 8
    with TemporaryDirectory() as temporary:
        path = Path(temporary) / "x" / "train" / "s.arrow"
        write_scores(
            path, examples.keys, Ragged(numbers, examples.input_ids.offsets), {"size": IDS.size}
        )
        return path.read_bytes()


def pipelines() -> list[bytes]:
    return [resources.pipeline_text(name).encode() for name in resources.pipeline_names()]


def packed(files: Sequence[bytes]) -> list[bytes]:
    return [gzip.compress(data, mtime=0) for data in files]


OBO = rb"""format-version: 1.2
[Term]
id: X:1
name: red fever {comment="trailing"} ! note
synonym: "fever\, red" EXACT []
synonym: "RF-1" RELATED [Y:2]
xref: UMLS_CUI:C9000001

[Typedef]
id: part_of

[Term]
id: X:2
name: blue fever
is_obsolete: true
"""
MRCONSO = b"""C9000001|ENG|P|L1|PF|S1|Y|A1||||MSH|PEP|D1|"Red" fever|0|N||
C9000001|GER|P|L3|PF|S3|Y|A3||||MSHGER|ET|D1|Rotes Fieber|0|N|256|
C9000002|ENG|P|L6|PF|S6|Y|A6||||MSH|MH|D2|blue molecule|0|N|256|
"""
MRSTY = (
    b"C9000001|T047|B2|Disease or Syndrome|AT1|256|\nC9000002|T109|A1|Organic Chemical|AT3|256|\n"
)
CONCEPTS = b"""cui,name,ontologies,name_status,type_ids
C1,high fever|HF,SAMPLE,P,T047
C1,"fever, high",SAMPLE,A,
C2,aspirin,SAMPLE,P,T121
"""
DRUGS = (
    b"DrugBank ID\tCommon name\tSynonyms\nD1\tAspirin\tASA | acetylsalicylic acid\nD2\tHeparin\t\n"
)
TERMS = b'name,label,concept\nhigh fever,Disease,C1\n"rash, red",Disease,C2\n'
TYPES = b"""labels = ["Disease", "Drug"]
[[type]]
tui = "T047"
label = "Disease"
name = "Disease or Syndrome"
[[type]]
tui = "T121"
label = "Drug"
"""
WEIGHTS = b"word\tscore\nkinase\t1.5\nbreast cancer\t-2e3\n7\t4\n##ing\t0.25\n"
COUNTS = b"the\t100\ncancer\t7\nThe\t3\n"
STRATEGIES = (
    b'[mask]\nuse = "joint"\nelm = 1.0\nblm = 0.075\n',
    b'[mask]\nuse = "whole-word"\n',
    b'[mask]\nuse = "span"\nrate = 0.15\n',
    b"""[mask]
corruption = "80-10-10"

[[mask.picks]]
units = "mentions"
budget = { rate = 0.4 }
kind = "entity"

[[mask.picks]]
units = "tokens"
budget = { rate = { shape = "linear", start = 0.3, stop = 0.1, over = 4 } }
order = { by = "bernoulli" }
""",
    b"""[mask]
use = "mixture"
chances = [0.4, 0.4]
parts = [{ use = "elm", elm = 0.5 }, { use = "blm", blm = 0.5, corruption = "80-10-10" }]
""",
    b"""[mask]
use = "curriculum"
epochs = [1]
parts = [{ use = "token" }, { use = "spanbert" }]
""",
)
