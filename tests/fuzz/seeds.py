"""Seed files: the first sentences of the shipped sample in every format, with a canary that no message may contain."""

from __future__ import annotations

import functools
import gzip
import io
import json
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mslm_data.data.ragged import Ragged
from mslm_data.io import resources
from mslm_data.lexicon.score_columns import write_scores
from mslm_data.lexicon.store import Lexicon, write_lexicon
from tests import made
from tests.generate import IDS, fixed_examples

CANARY = "Zqcanary"
"""Word in the text of each corpus."""
LABELS = ("Disease",)
ROWS = 12
Tagged = list[tuple[str, str]]


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


def pico() -> bytes:
    """Return rows in the format of EBM-NLP's scripts."""
    rows = "\n".join(
        "".join(f"{word}\t{'N' if tag == 'O' else 'P'}\n" for word, tag in s) for s in sentences()
    )
    return f"-DOCSTART- (11)\n\n{rows}".encode()


REST = "\t_" * 7


def conllu(*, mark: bool = False) -> bytes:
    """Return rows of ten columns, with tags and brackets in the last."""
    blocks = []
    for number, sentence in enumerate(sentences()):
        rows = [
            f"{place}\t{word}{REST}\tNER={tag}|Entity=(e{place}-x)\n"
            for place, (word, tag) in enumerate(sentence, start=1)
        ]
        blocks.append(f"# newdoc id = d{number}\n" * mark + f"# sent_id = {number}\n")
        blocks += [f"1-2\t{CANARY}{REST}\tSpaceAfter=No\n", *rows, "\n"]
    return "".join(blocks).encode()


def token_table(separator: str) -> bytes:
    """Return a row per token, with the number of the sentence in its first row."""
    rows = [
        separator.join([str(number) if not place else "", word.replace(",", ";"), tag])
        for number, sentence in enumerate(sentences())
        for place, (word, tag) in enumerate(sentence)
    ]
    return "\n".join([separator.join(["Sentence #", "Word", "Tag"]), *rows, ""]).encode()


def brackets() -> bytes:
    """Return rows with the brackets of CoNLL-2012, and comments."""
    rows = conll().decode().replace("\tO\n", "\t*\n").replace("\tB-Disease\n", "\t(Disease)\n")
    return ("# sent_id = 1\n" + rows.replace("\tI-Disease\n", "\t*\n")).encode()


def plain() -> bytes:
    """Return lines of text, with a blank line after every second line."""
    return "".join(
        f"{text}\n" + "\n" * (number % 2) for number, (text, _) in enumerate(documents())
    ).encode()


def inline(start: str, end: str) -> bytes:
    """Return lines of text in which mentions are between a start and an end."""
    lines = []
    for text, mentions in documents():
        line = text
        for a, b in reversed(mentions):
            line = f"{line[:a]}{start}{line[a:b]}{end}{line[b:]}"
        lines.append(f"{line}\n")
    return "\n".join(lines).encode()


def pubtator() -> bytes:
    records = []
    for number, (text, mentions) in enumerate(documents(), start=100):
        title, _, rest = text.partition(f" {CANARY}")
        rows = [f"{number}\t{a}\t{b}\t{text[a:b]}\tDisease\tD00{number}" for a, b in mentions]
        records.append("\n".join([f"{number}|t|{title}", f"{number}|a|{CANARY}{rest}", *rows]))
    return "\n\n".join(records).encode() + b"\n"


def bioc() -> bytes:
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n<collection>'
    ]
    for number, (text, mentions) in enumerate(documents()):
        notes = "".join(
            f'\n  <annotation id="{i}"><infon key="type">Disease</infon><infon key="identifier">D{i}</infon>'
            f'<location offset="{a}" length="{b - a}"/><text>{escape(text[a:b])}</text></annotation>'
            for i, (a, b) in enumerate(mentions)
        )
        after = len(text) + 1
        parts.append(
            f"<document><id>d{number}</id>\n <passage><offset>0</offset><text>{escape(text)}</text>{notes}\n </passage>"
            f"<passage><offset>{after}</offset><sentence><offset>{after}</offset><text>{CANARY} more.</text></sentence>"
            f"</passage></document>"
        )
    return "\n".join([*parts, "</collection>\n"]).encode()


def brat() -> tuple[bytes, bytes]:
    """Return a text and its annotations."""
    text = "\n".join(text for text, _ in documents())
    begin, rows = 0, []
    for of, mentions in documents():
        rows += [(begin + a, begin + b) for a, b in mentions]
        begin += len(of) + 1
    lines = [f"T{i}\tDisease {a} {b}\t{text[a:b]}" for i, (a, b) in enumerate(rows, start=1)]
    lines += [
        f"T90\tDisease 0 3;6 9\t{text[0:3]} {text[6:9]}",
        "R1\tOf Arg1:T1 Arg2:T2",
        f"#1\tNote T1\t{CANARY}",
    ]
    return text.encode(), "\n".join(lines).encode() + b"\n"


def offsets() -> tuple[bytes, bytes]:
    """Return a table of mentions and a table of the texts."""
    rows = ["pmid\tlabel\tstart\tend\ttext\tcode"]
    texts = ["pmid\ttitle\tabstract"]
    for number, (text, mentions) in enumerate(documents()):
        title, _, rest = text.partition(f" {CANARY}")
        texts.append(f"{number}\t{title}\t{CANARY}{rest}")
        rows += [f"{number}\tDisease\t{a}\t{b}\t{text[a:b]}\tC{a}" for a, b in mentions]
    return "\n".join(rows).encode() + b"\n", "\n".join(texts).encode() + b"\n"


def i2b2() -> tuple[bytes, bytes]:
    """Return a text with a sentence per line, and its concepts."""
    lines, rows = [], []
    for number, sentence in enumerate(sentences(), start=1):
        lines.append(" ".join(word for word, _ in sentence))
        rows += [
            f'c="{word.lower()}" {number}:{i} {number}:{i}||t="problem"'
            for i, (word, tag) in enumerate(sentence)
            if tag != "O"
        ]
    return "\n".join(lines).encode() + b"\n", "\n".join(rows).encode() + b"\n"


def i2b2_tags() -> bytes:
    """Return a text with offset tags."""
    text, mentions = documents()[0]
    tags = "".join(
        f'<DISEASE id="P{a}" start="{a}" end="{b}" text="{escape(text[a:b])}" TYPE="Disease" />\n'
        for a, b in mentions
    )
    return f"<i2b2>\n<TEXT><![CDATA[{text}]]></TEXT>\n<TAGS>\n{tags}</TAGS>\n</i2b2>\n".encode()


def i2b2_records() -> bytes:
    """Return records with inline elements."""
    records = []
    for number, sentence in enumerate(sentences()):
        words = (escape(w) if t == "O" else f'<PHI TYPE="X">{escape(w)}</PHI>' for w, t in sentence)
        records.append(f'<RECORD ID="{number}">\n<TEXT>{" ".join(words)}</TEXT>\n</RECORD>\n')
    return f"<ROOT>\n{''.join(records)}</ROOT>\n".encode()


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


@functools.cache
def cas(form: str) -> tuple[bytes, bytes]:
    """Return a text with its mentions as XMI or JSON, and the type system."""
    from tests.source.formats.fixtures.cas import cas as made_of

    text, mentions = documents()[0]
    text = f"{text} \U0001f600\n"
    named = [(a, b, "Person", "Disease", f"C{a}") for a, b in mentions]
    made = made_of(text, [(0, len(text) - 1)], named)
    data = made.to_xmi() if form == "xmi" else made.to_json()
    assert isinstance(data, str)
    return data.encode(), made.typesystem.to_xml().encode()


def webanno() -> bytes:
    """Return sentences in INCEpTION's export, with a second layer and mentions of several tokens."""
    out = (
        "#FORMAT=WebAnno TSV 3.3\n#T_SP=webanno.custom.Other|ROLE_a:b_c|d\n"
        "#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|identifier|value\n\n"
    )
    place = 0
    for number, sentence in enumerate(sentences(), start=1):
        out += f"\n#Text={' '.join(word for word, _ in sentence)}\n"
        for token, (word, tag) in enumerate(sentence, start=1):
            cells = "_\t_" if tag == "O" else f"*[{number}]\tDis\\_ease[{number}]"
            out += f"{number}-{token}\t{place}-{place + len(word)}\t{word}\t_\t_\t{cells}\t\n"
            place += len(word) + 1
    return out.encode()


def bc2gm() -> tuple[bytes, bytes]:
    """Return sentences and their mentions."""
    lines, rows = [], []
    for number, (text, mentions) in enumerate(documents()):
        lines.append(f"S{number} {text}")
        for a, b in mentions:
            start = len(text[:a].replace(" ", ""))
            end = start + len(text[a:b].replace(" ", "")) - 1
            rows.append(f"S{number}|{start} {end}|{text[a:b]}")
    return "\n".join(lines).encode() + b"\n", "\n".join(rows).encode() + b"\n"


def ebm() -> tuple[bytes, bytes]:
    """Return tokens and the labels of one element."""
    words = [pair for sentence in sentences() for pair in sentence]
    tokens = "".join(f"{word}\n" for word, _ in words)
    return tokens.encode(), "".join(f"{int(tag != 'O')}\n" for _, tag in words).encode()


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


def prodigy() -> bytes:
    """Return answers of two sessions. Some accept."""
    lines = []
    for number, (text, mentions) in enumerate(documents()):
        spans = [
            {"start": a, "end": b, "token_start": 0, "token_end": 1, "label": "Disease"}
            for a, b in mentions
        ]
        row = {"text": text, "_input_hash": number % 3, "_task_hash": number, "spans": spans}
        answer = ("accept", "accept", "reject", "accept", "ignore")[number % 5]
        lines.append(json.dumps({**row, "answer": answer, "_session_id": f"s-{number % 2}"}) + "\n")
    return "".join(lines).encode()


def label_studio() -> list[bytes]:
    """Return tasks with several annotations, as JSON and as JSON-MIN."""
    tasks, least = [], []
    for number, (text, mentions) in enumerate(documents()):
        values = [
            {"start": a, "end": b, "text": text[a:b], "labels": ["Disease"]} for a, b in mentions
        ]
        results = [
            {"value": value, "from_name": "label", "to_name": "text", "type": "labels"}
            for value in values
        ]
        annotations = [
            {"completed_by": i, "result": results, "was_cancelled": i == 2, "created_at": str(i)}
            for i in range(number)
        ]
        tasks.append({"id": number, "data": {"text": text}, "annotations": annotations})
        least.append({"id": number // 2, "text": text, "label": values, "annotation_id": number})
    return [json.dumps(rows, indent=1).encode() for rows in (tasks, least)]


def doccano() -> bytes:
    lines = []
    for number, (text, mentions) in enumerate(documents()):
        labels = [[a, b, "Disease"] for a, b in mentions]
        entities = [
            {"id": a, "label": "Disease", "start_offset": a, "end_offset": b} for a, b in mentions
        ]
        forms: list[dict[str, Any]] = [{"label": labels}, {"entities": entities, "relations": []}]
        lines.append(json.dumps({"id": number, "text": text, **forms[number % 2]}) + "\n")
    return "".join(lines).encode()


def medcattrainer() -> bytes:
    """Return an export of two projects with a common document."""
    found = []
    for number, (text, mentions) in enumerate(documents()):
        annotations = [
            {
                "start": a,
                "end": b,
                "cui": f"C{a}",
                "value": text[a:b],
                "correct": True,
                "killed": False,
            }
            for a, b in mentions
        ]
        found.append({"id": number % 4, "name": "n", "text": text, "annotations": annotations})
    projects = [{"name": str(i), "documents": found[i::2]} for i in range(2)]
    return json.dumps({"projects": projects}, indent=1).encode()


def tool_rows() -> bytes:
    """Return a row for each other shape of tools' exports."""
    text, (a, b) = next((text, mentions[0]) for text, mentions in documents() if mentions)
    span = {"start": a, "end": b, "label": "Disease"}
    found: list[Any] = [
        {"text": text, "annotation": [["Disease", a, b]], "prediction": None},
        {"fields": {"text": text}, "responses": {"q": [{"value": [span], "user_id": "u"}]}},
        {"text": text, "q.responses": [[span]], "q.responses.status": ["submitted"]},
        {"text": text, "ents": [span], "spans": {"sc": [span]}},
        [text, {"entities": [[a, b, "Disease"]]}],
        {"tokenized_text": text.split(" "), "ner": [[0, 1, "Disease"]]},
        {"text": text, "annotations": [{**span, "cui": "C1"}]},
        json.loads(bioc_json())["documents"][0],
    ]
    return "".join(json.dumps(row) + "\n" for row in found).encode()


def grouped_rows() -> bytes:
    """Return rows whose mentions are in groups, in lists or without offsets."""
    text, (a, b) = next((text, mentions[0]) for text, mentions in documents() if mentions)
    name = text[a:b]
    tokens = text.split()
    found: list[Any] = [
        {"text": text, "entities": [{"type": "D", "mentions": [{"start": a, "end": b}]}]},
        {"text": text, "entities": {"D": {name: [[a, b - 1]]}}},
        {"text": text, "entities": [{"label": ["D"], "fragments": [[a, b]]}]},
        {"text": text, "entities": [[a, b, name, "D"]]},
        {"text": text, "entities": [{"offset": a, "length": b - a, "category": "D"}]},
        {"text": text, "entities": [{"text": name, "label": "D"}]},
        {"segments": [text[:a], {"t": name, "label": "D"}, text[b:]]},
        {"sentence": tokens, "ner": [{"index": [0], "type": "D"}]},
        {"tokens": str(tokens), "ner_tag": ["0"] * len(tokens)},
    ]
    return "".join(json.dumps(row) + "\n" for row in found).encode()


def joined_words() -> bytes:
    """Return lines of words that are joined with their tags."""
    line = "Had/O gout/B-D and/O kidney/B-D stones/I-D in/O 1/2/O of/O May/O ./O <=> intent\n"
    return (line * 4).encode()


def bioc_json() -> bytes:
    found = []
    for number, (text, mentions) in enumerate(documents()):
        notes = [
            {
                "id": str(a),
                "infons": {"type": "Disease", "identifier": "D1"},
                "text": text[a:b],
                "locations": [{"offset": a, "length": b - a}],
            }
            for a, b in mentions
        ]
        after = len(text) + 1
        passages = [
            {"offset": 0, "infons": {}, "text": text, "sentences": [], "annotations": notes},
            {"offset": after, "sentences": [{"offset": after, "text": f"{CANARY} more."}]},
        ]
        found.append({"id": f"d{number}", "infons": {}, "passages": passages})
    return json.dumps({"source": "own", "documents": found}, indent=1).encode()


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
