"""Detection of sources by `--source auto`."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import mimic_iv
from mslm_data.api.building import build
from mslm_data.api.loading import load
from mslm_data.errors import CallError, SourceError
from mslm_data.pipeline import read
from mslm_data.source import SOURCES, Sample, Source
from mslm_data.source.recognise import recognise
from tests import made
from tests.cli.running import run
from tests.source.formats import fixtures

NAMES = SOURCES.names()
VOCAB = made.SAMPLE / "vocab.txt"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("name", NAMES)
def test_recognise__confuses_no_formats(name: str, tmp_path: Path) -> None:
    fixture = fixtures.fixture(name, tmp_path)

    try:
        found = recognise(fixture.inputs).what
    except SourceError as error:
        found = str(error)

    ours = (name, {"notes": "mimic"}.get(name))
    assert found in ours or re.search("expected (a known format|files of one format)", found)


@pytest.mark.parametrize(
    "name", [name for name in NAMES if SOURCES.load(name).sniff is not Source.sniff]
)
def test_recognise__gives_evidence_without_quoting_the_file(name: str, tmp_path: Path) -> None:
    fixture = fixtures.fixture(name, tmp_path)
    source = SOURCES.load(name)
    files = [path for path in tmp_path.rglob("*") if path.name.endswith(source.suffixes)]

    reasons = [source().sniff(Sample(path, path.read_bytes()[: 64 << 10])).why for path in files]

    texts = [text for documents in fixture.expected.values() for _, text, _ in documents]
    words = {word for text in texts for word in text.split() if len(word) > 6}
    assert not any(word in reason for reason in reasons for word in words)


def test_recognise__gives_a_valid_pipeline_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mslm_data")
    folder = tmp_path / "My corpus_1"
    folder.mkdir()
    (folder / "train.jsonl").write_text(
        '{"text": "Aspirin helps.", "_input_hash": 1, "_task_hash": 2, "answer": "accept", '
        '"spans": [{"start": 0, "end": 7, "label": "Drug"}]}\n'
    )

    found = recognise([folder])

    assert found.what == "prodigy"
    assert found.why.startswith("train.jsonl: ")
    assert tomllib.loads(found.toml)["name"] == "prodigy"
    assert read({"name": "other", **found.tables}).source.use == "prodigy"
    done = run("build", "--source", "auto", "--input", folder, "--tokenizer", VOCAB, "--out",
               tmp_path / "out")  # fmt: skip
    assert done.code == 0
    assert "found 'prodigy', as train.jsonl: " in caplog.text
    assert load(tmp_path / "out").manifest.name == "prodigy"
    assert run("recipes", "auto", "--input", folder).out.endswith(found.toml)
    assert run("recipes", "auto", "--input", folder, "--json").json["name"] == "prodigy"


def test_build__reports_the_detected_source_as_lines_and_as_json(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(
        '{"text": "Aspirin helps.", "_input_hash": 1, "_task_hash": 2, "answer": "accept", '
        '"spans": [{"start": 0, "end": 7, "label": "Drug"}]}\n'
    )
    words = ["build", "--input", tmp_path / "train.jsonl", "--tokenizer", VOCAB, "--json"]

    planned = run(*words, "--source", "auto", "--out", tmp_path / "auto", "--dry-run")
    part = run(*words, "--source", "auto", "--out", tmp_path / "auto", "--part", "1/1")
    done = run(*words, "--source", "auto", "--out", tmp_path / "auto")
    (tmp_path / "mine.toml").write_text(recognise([tmp_path / "train.jsonl"]).toml)
    named = run(*words, "--source", tmp_path / "mine.toml", "--out", tmp_path / "named")

    for one in (planned, part, done):
        assert "source 'auto': found 'prodigy', as train.jsonl: " in one.err
        assert one.json["source"]["use"] == one.json["source"]["found"] == "prodigy"
        assert one.json["source"]["why"].startswith("train.jsonl: ")
    assert named.json["source"] == {"use": "prodigy"}
    assert "found" not in named.err
    # A folder built with `auto` equals one built with the same pipeline file.
    assert made.tree(tmp_path / "auto") == made.tree(tmp_path / "named")
    assert "with the pipeline" in ((tmp_path / "auto" / "README.md").read_text())


def test_recognise__knows_the_corpora_of_shipped_pipelines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"kinase\tB-GENE\n"
    (tmp_path / "train.tsv").write_bytes(data)
    digest = sha256(data)
    monkeypatch.setattr(
        "mslm_data.source.recognise._shipped_digests",
        lambda: {digest: "blurb/bc2gm", "0": "blurb/jnlpba"},
    )

    found = recognise([tmp_path])

    assert found.what == "blurb/bc2gm"
    assert read({"name": "x", **found.tables}).name == "blurb/bc2gm"


def test_recognise__knows_the_tables_of_mimic(tmp_path: Path) -> None:
    shutil.copytree(made.SAMPLE / "mimic", tmp_path / "mimic")
    mimic_iv.write(made.SAMPLE / "mimic" / "NOTEEVENTS.csv", tmp_path / "mimic-iv")

    assert recognise([tmp_path / "mimic"]).what == "mimic"
    assert recognise([tmp_path / "mimic-iv"]).what == "mimic-iv"
    with pytest.raises(SourceError, match=r"'mimic' \(NOTEEVENTS.* and 'mimic-iv' \(discharge"):
        recognise([tmp_path])


def test_recognise__refuses_several_corpora(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.tsv").write_text(name)
    digests = {sha256(name.encode()): f"blurb/{name}" for name in ("a", "b")}
    monkeypatch.setattr("mslm_data.source.recognise._shipped_digests", lambda: digests)

    with pytest.raises(SourceError, match=r"expected one corpus, got .*a\.tsv of 'blurb/a' and"):
        recognise([tmp_path])


def test_recognise__raises_if_two_formats_match(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<root><TEXT>x</TEXT><TAGS></TAGS></root>")
    (tmp_path / "b.jsonl").write_text(
        '{"text": "Aspirin", "_input_hash": 1, "_task_hash": 2, "answer": "accept", '
        '"spans": [{"start": 0, "end": 7, "label": "Drug"}]}\n'
    )

    with pytest.raises(SourceError) as caught:
        recognise([tmp_path])

    assert "'i2b2' (a.xml: it has the elements TEXT and TAGS)" in str(caught.value)
    assert "; name the source, such as --source " in str(caught.value)
    assert "'prodigy' (b.jsonl: " in str(caught.value)


def test_recognise__does_not_guess(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes")

    with pytest.raises(SourceError, match=r"got files ending with \.md that no source recognises"):
        recognise([tmp_path])
    (tmp_path / "bare").mkdir()
    with pytest.raises(SourceError, match="expected files, found none"):
        recognise([tmp_path / "bare"])


BARE = {"text": "Nothing hurts."}
FULL = {"text": "Gout hurts.", "entities": [{"start": 0, "end": 4, "label": "Disease"}]}
TAGGED = {"tokens": ["Gout", "hurts"], "ner_tags": ["B-Disease", "O"]}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([BARE, {**BARE, "entities": []}, FULL], "text with mentions"),
        ([{"tokens": ["Nothing"]}, TAGGED], "words with tags"),
    ],
)
@pytest.mark.parametrize("form", ["jsonl", "json", "parquet"])
def test_recognise__finds_mentions_after_documents_without_mentions(
    rows: list[dict[str, Any]], expected: str, form: str, tmp_path: Path
) -> None:
    path = tmp_path / f"train.{form}"
    if form == "parquet":
        columns = dict.fromkeys(rows[-1])
        pq.write_table(pa.Table.from_pylist([{**columns, **row} for row in rows]), path)
    else:
        texts = [*map(json.dumps, rows)]
        path.write_text("\n".join(texts) if form == "jsonl" else f"[{', '.join(texts)}]")

    found = recognise([path])

    assert found.what == ("hub" if form == "parquet" else "jsonl")
    assert found.why == f"{path.name}: its rows have {expected}"


def test_recognise__refuses_texts_without_mentions(tmp_path: Path) -> None:
    rows = [BARE, {**BARE, "entities": []}, {**BARE, "id": 3}]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))

    with pytest.raises(SourceError, match="that no source recognises") as refused:
        recognise([tmp_path])
    assert "name the source: --source text if they hold texts without mentions, else" in str(
        refused.value
    )


@pytest.mark.parametrize(
    ("name", "advice"),
    [("c.zip", "pass an archive itself, as in --input"), ("c.tar.xz", "unpack ")],
)
def test_recognise__advises_on_archives(name: str, advice: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"packed")

    with pytest.raises(SourceError, match=f"; {advice}.*{re.escape(name)}"):
        recognise([tmp_path])


def test_recognise__names_the_sources_that_may_read_unknown_files(tmp_path: Path) -> None:
    (tmp_path / "train.xml").write_text("<GateDocument/>")

    with pytest.raises(SourceError, match="that no source recognises") as refused:
        recognise([tmp_path])

    assert "; name the source: --source and one of bioc, i2b2; or " in str(refused.value)
    assert 'docs/forms.md has code for "Formats without a source"' in str(refused.value)


def test_recognise__lists_no_sources_if_none_reads_such_names(tmp_path: Path) -> None:
    (tmp_path / "annotation").write_text("a b c\n")

    with pytest.raises(SourceError, match="that no source recognises") as refused:
        recognise([tmp_path])

    assert "`mslm-data recipes --sources` lists" in str(refused.value)
    assert "webanno" not in str(refused.value)


def test_recognise__skips_plugins_that_need_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Needy(Source, frozen=True, kw_only=True):
        suffixes = (".tsv",)
        schema: str

    load = SOURCES.load
    monkeypatch.setattr(SOURCES, "names", lambda: ["conll", "needy"])
    monkeypatch.setattr(SOURCES, "load", lambda name: Needy if name == "needy" else load(name))
    write(tmp_path, {"train.tsv": COLUMNS})

    assert recognise([tmp_path]).what == "conll"


def test_build__auto_needs_files() -> None:
    with pytest.raises(CallError, match="source 'auto': expected files to recognise"):
        build("auto")
    assert run("recipes", "auto").code == 2
    assert run("recipes", "blurb/bc2gm", "--input", ".").code == 2


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write files below a folder, and return it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


COLUMNS = "Oslo B-Place\nwins O\n\nNobody O\nwins O\n"


@pytest.mark.parametrize(
    "names",
    [
        ["eng.train", "eng.testa", "eng.testb"],
        ["train.char.bmes", "dev.char.bmes", "test.char.bmes"],
        ["train.conllu", "dev.conllu", "test.conllu"],
        ["train", "dev", "test"],
    ],
)
def test_recognise__looks_into_files_and_not_at_their_endings(
    names: list[str], tmp_path: Path
) -> None:
    folder = write(tmp_path / "in", dict.fromkeys(names, COLUMNS))
    write(folder, {"docs/list.cfg": "Place\nPerson\n", "docs/entity-list.txt": "Place\n\nPerson\n"})

    found = recognise([folder])

    assert found.what == "conll"
    source = SOURCES.make("conll", {})
    assert {split: len(paths) for split, paths in source.find([folder]).items()} == dict.fromkeys(
        ("train", "validation", "test"), 1
    )


def test_find__reads_unusual_suffixes_of_splits_without_other_files(tmp_path: Path) -> None:
    names = ["train.tsv", "train.bmes", "train.old", "test.annotated"]
    folder = write(tmp_path, dict.fromkeys(names, COLUMNS))

    found = SOURCES.make("conll", {}).find([folder])

    assert found == {"train": [folder / "train.tsv"], "test": [folder / "test.annotated"]}


def test_recognise__joins_files_that_are_too_short_alone(tmp_path: Path) -> None:
    # A label must repeat: in a column of words, hardly any value does.
    rows = "Oslo\tPLACE\nwins\tO\nagain\tO\n\n"
    folder = write(tmp_path, dict.fromkeys(["a.tsv", "b.tsv"], rows))

    found = recognise([folder])

    assert (found.what, found.tables["source"]["scheme"]) == ("conll", "label")
    (folder / "b.tsv").unlink()
    with pytest.raises(SourceError, match="that no source recognises"):
        recognise([folder])


@pytest.mark.parametrize("annotations", [".ann", ".a1", ".a2"])
def test_recognise__reads_the_annotations_beside_a_text(annotations: str, tmp_path: Path) -> None:
    # Without its annotations, each text could be read as words and tags.
    folder = write(tmp_path, {f"{name}.txt": "Oslo I\nwins O\n" for name in "ab"})
    write(folder, {f"{name}{annotations}": "T1\tPlace 0 4\tOslo\n" for name in "ab"})

    assert recognise([folder]).what == "brat"


def test_recognise__finds_mentions_after_many_empty_files(tmp_path: Path) -> None:
    folder = write(tmp_path, {f"{n:02}.txt": "Oslo wins.\n" for n in range(40)})
    write(folder, {f"{n:02}.ann": "" for n in range(39)} | {"39.ann": "T1\tPlace 0 4\tOslo\n"})

    assert recognise([folder]).what == "brat"


def test_recognise__knows_labels_without_prefixes(tmp_path: Path) -> None:
    lines = (
        "Oslo PLACE\nwins 0\n\nAnna PERSON\nsings 0\nin 0\nOslo PLACE\nand 0\nAnna PERSON\n. 0\n"
    )
    folder = write(tmp_path / "in", {"train.txt": lines})

    found = recognise([folder])

    assert found.why == "train.txt: its lines hold a token and a label, 0 outside of mentions"
    assert read({"name": "x", **found.tables}).source.options == {"scheme": "label", "outside": "0"}


@pytest.mark.parametrize(
    "row",
    ["John Smith{n}\t{yes}\n", "Smith{n}\t{yes}\n", "2021-01-{n} station{n} {snow}\n"],
)
def test_recognise__takes_no_table_with_zeros_for_labels(row: str, tmp_path: Path) -> None:
    rows = [
        row.format(n=n % 28, yes="0" if n % 3 else "yes", snow="0" if n % 4 else "snow")
        for n in range(60)
    ]
    write(tmp_path, {"patients.tsv": "".join(rows)})

    with pytest.raises(SourceError, match="that no source recognises"):
        recognise([tmp_path])


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            {"a.tsv": "TOKEN\tNE-A\tNE-B\nOslo\tB-X\tB-Y\nwins\tO\tO\nthen\tO\tO\n"},
            "the closest is --source conll, which reports a.tsv: expected one column of tags, got "
            "columns 1 and 2 with tags (NE-A, NE-B); set [source] tag_column",
        ),
        (
            {"a.tsv": "O Oslo NN\nB-X won VB\nO it PR\n"},
            "conll, which reports a.tsv: expected one column of words behind the tags in column 0",
        ),
        (
            {"a.json": '[{"title": "Oslo", "score": 3}]'},
            "jsonl, which reports a.json: expected the columns tokens and ner_tags, or text and entities",
        ),
        ({"corpus.zip": "PK", "README": "It is in the archive."}, "as in --input "),
    ],
)
def test_recognise__reports_the_error_of_the_closest_source(
    files: dict[str, str], words: str, tmp_path: Path
) -> None:
    write(tmp_path, files)

    with pytest.raises(SourceError) as refused:
        recognise([tmp_path])

    assert words in str(refused.value)
    assert "Oslo" not in str(refused.value)


SIGNED = "Oslo\tB-Place\nis\tO\na\tO\ncity\tO\n\n"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("".join(f"w{n}\tB-X\tB-Y\nx\tI-X\tO\n\n" for n in range(9)), "tag_column=1"),
        ("".join(f"w{n}\tB-X\tB-Y\nx\tI-X\tO\n\n" for n in range(9)), "tag_column=[1, 2]"),
        ("".join(f"w{n}\tB-NP\nx\tI-NP\n\n" for n in range(9)), "tag_column=1"),
        ("".join(f"O\tw{n}\tNN\nB-X\tx\tNN\n\n" for n in range(9)), "word_column=1"),
        (f"## 1\tOslo is a city\n{SIGNED}" * 9, 'comments=["##"]'),
        (f"; 1\n{SIGNED}" * 9, 'comments=[";"]'),
        (f"$ Oslo is a city\n{SIGNED}" * 9, 'comments=["$"]'),
        (f"<HEADLINE>\t\t\n{SIGNED}" * 9, 'comments=["<"]'),
    ],
)
def test_build__takes_the_answer_of_a_question_under_auto(
    text: str, answer: str, tmp_path: Path
) -> None:
    folder = write(tmp_path / "in", {"train.tsv": text})
    words = ["build", "--source", "auto", "--input", folder, "--tokenizer", VOCAB]

    asked = run(*words, "--out", tmp_path / "asked")
    done = run(*words, "--out", tmp_path / "out", "--set", f"source.{answer}")

    assert asked.code == 1
    assert "the closest is --source conll, which reports train.tsv: " in asked.err
    option, _, value = answer.partition("=")
    assert option in asked.err
    assert value in asked.err.replace(" = ", "=")
    assert (done.code, done.err.count("expected")) == (0, 0)
    assert load(tmp_path / "out").manifest.splits["train"].written == 9


def test_recognise__takes_no_option_of_all_sources_for_an_answer(tmp_path: Path) -> None:
    folder = write(tmp_path, {"train.tsv": "w\tB-X\tB-Y\nx\tI-X\tO\n\n"})

    with pytest.raises(SourceError, match="the closest is --source conll"):
        recognise([folder], {"splits", "max_loss"})
    assert recognise([folder], {"tag_column"}).what == "conll"


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        (["train.tsv", "test.tsv", "test-unlabeled.tsv"], ["train.tsv", "test.tsv"]),
        (["train.tsv", "test-unlabeled.tsv"], ["train.tsv", "test-unlabeled.tsv"]),
        (["a.tsv", "b-unlabeled.tsv"], ["a.tsv"]),
        (["b-unlabeled.tsv"], ["b-unlabeled.tsv"]),
    ],
)
def test_find__ignores_files_without_tags_beside_tagged_files(
    names: list[str], kept: list[str], tmp_path: Path
) -> None:
    bare = "1\tOslo\n2\twins\n3\tagain\n"
    folder = write(tmp_path, {n: bare if "unlabeled" in n else COLUMNS for n in names})

    found = SOURCES.make("conll", {}).find([folder])

    assert sorted(path.name for paths in found.values() for path in paths) == sorted(kept)


def test_find__looks_into_files_in_the_encoding_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_bytes(COLUMNS.encode("utf-16-le"))
    (tmp_path / "dev.bmes").write_bytes(COLUMNS.encode("utf-16-le"))
    write(tmp_path, {"notes_train.txt": COLUMNS})

    found = SOURCES.make("conll", {"encoding": "utf-16-le"}).find([tmp_path])

    assert {split: [path.name for path in paths] for split, paths in found.items()} == {
        "train": ["train.tsv"],
        "validation": ["dev.bmes"],
    }


def test_find__skips_lists_of_names_beside_tagged_words(tmp_path: Path) -> None:
    words = "Budi\tPerson\nlives\tO\n" * 20
    names = "Budi Santoso\nRatu\nAnwar bin Sadat\n" * 20
    folder = write(tmp_path, {"gold.txt": words, "lists/person.txt": names})

    found = SOURCES.make("conll", {"scheme": "label"}).find([folder])

    assert [path.name for path in found["train"]] == ["gold.txt"]


def test_build__ignores_and_reports_a_stray_list(tmp_path: Path) -> None:
    folder = write(tmp_path / "in", {"words.txt": COLUMNS, "entity-list.txt": "Place\nPerson\n"})

    done = run("build", "--source", "conll", "--input", folder, "--tokenizer", VOCAB, "--out",
               tmp_path / "out")  # fmt: skip

    assert done.code == 0
    assert "train: read words.txt" in done.out
    assert "not read: entity-list.txt: its lines hold no token and tag" in done.out
    alone = run("build", "--source", "conll", "--input", folder / "entity-list.txt", "--tokenizer",
                VOCAB, "--out", tmp_path / "alone")  # fmt: skip
    assert "entity-list.txt:1: expected a token and a tag, got 1 field(s)" in alone.err


OF_OWN_NAMES = {"lang": "no", "sentence": "Ola saw Oslo .", "ners": [[0, 3, "P"], [8, 12, "L"]]}


def in_lines(*rows: object) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@pytest.mark.parametrize(
    ("row", "options"),
    [
        (OF_OWN_NAMES, {"text_column": "sentence", "mentions_column": "ners"}),
        ({**OF_OWN_NAMES, "relations": [[0, 3, "R"]]}, {"text_column": "sentence"}),
        ({"text": "Ola saw", "ners": [[0, 3, "P"]]}, {"text_column": "text"}),
        ({"data": {"text": "Ola saw"}, "label": [[0, 3, "P"]]}, {"text_column": "data.text"}),
        ({"text": "Ola saw", "entities": [{"offsets": [[0, 3]], "label": "P"}]}, {}),
        ({**OF_OWN_NAMES, "events": [], "other": [[0, 3, "P"]]}, None),  # which are the mentions?
        ({**OF_OWN_NAMES, "title": "Oslo and Ola saw"}, None),  # which is the text?
        ({**OF_OWN_NAMES, "ners": [[0, 99, "P"]]}, None),
    ],
)
def test_recognise__takes_the_only_columns_of_text_and_mentions(
    row: dict[str, object], options: dict[str, str] | None, tmp_path: Path
) -> None:
    write(tmp_path, {"train.jsonl": in_lines(row, row)})

    if options is None:
        with pytest.raises(SourceError):
            recognise([tmp_path])
    else:
        source = recognise([tmp_path]).tables["source"]
        assert source["use"] == "jsonl"
        assert options.items() <= source.items()


def test_build__raises_for_a_file_without_the_column_of_mentions(tmp_path: Path) -> None:
    unlabelled = {"sentence": "Ola saw Oslo ."}
    folder = write(tmp_path / "in", {"train.jsonl": in_lines(OF_OWN_NAMES),
                                     "test.jsonl": in_lines(unlabelled)})  # fmt: skip

    done = run("build", "--input", folder, "--source", "auto", "--tokenizer", VOCAB, "--out",
               tmp_path / "out")  # fmt: skip

    assert done.code == 1
    assert "test.jsonl: expected rows with column 'ners', as other files have" in done.err


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.pdf", b"%PDF-1.7"), ("a.docx", b"PK\x03\x04"), ("a.html", b"<p>A note.</p>")],
)
def test_recognise__says_how_documents_of_programs_are_converted(
    name: str, content: bytes, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(SourceError, match=rf"{name}: expected texts .*; convert it to text first"):
        recognise([tmp_path])
