"""What `--source auto` makes of files."""

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

from mslm_data.building import build
from mslm_data.errors import CallError, SourceError
from mslm_data.loading import load
from mslm_data.pipeline import of_tables
from mslm_data.source import SOURCES
from mslm_data.source.recognise import recognise
from tests import made
from tests.cli.running import run
from tests.source.formats import fixtures

NAMES = SOURCES.names()
VOCAB = made.SAMPLE / "vocab.txt"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("name", NAMES)
def test_recognise__takes_no_format_for_another(name: str, tmp_path: Path) -> None:
    fixture = fixtures.fixture(name, tmp_path)

    try:
        found = recognise(fixture.inputs).what
    except SourceError as error:
        found = str(error)

    ours = (name, {"notes": "mimic"}.get(name))
    assert found in ours or re.search("expected (a form that is rec|files of one form)", found)


@pytest.mark.parametrize(
    "name", [name for name in NAMES if "recognises" in vars(SOURCES.load(name))]
)
def test_recognise__says_what_speaks_for_a_format__without_its_text(
    name: str, tmp_path: Path
) -> None:
    fixture = fixtures.fixture(name, tmp_path)
    source = SOURCES.load(name)
    files = [path for path in tmp_path.rglob("*") if path.name.endswith(source.suffixes)]

    reasons = [source.recognises(path, path.read_bytes()[: 64 << 10]) for path in files]

    texts = [text for documents in fixture.expected.values() for _, text, _ in documents]
    words = {word for text in texts for word in text.split() if len(word) > 6}
    assert not any(word in reason for reason in reasons for word in words)


def test_recognise__gives_a_pipeline_file_that_can_be_built(
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
    assert tomllib.loads(found.toml)["name"] == "my-corpus-1"
    assert of_tables(found.tables, name="other").source.use == "prodigy"
    done = run("build", "--source", "auto", "--input", folder, "--tokenizer", VOCAB, "--out",
               tmp_path / "out")  # fmt: skip
    assert done.code == 0
    assert "found 'prodigy', as train.jsonl: " in caplog.text
    assert load(tmp_path / "out").manifest.name == "my-corpus-1"
    assert run("recipes", "auto", "--input", folder).out.endswith(found.toml)
    assert run("recipes", "auto", "--input", folder, "--json").json["name"] == "prodigy"


def test_build__says_what_auto_found_without_a_terminal_and_as_json(tmp_path: Path) -> None:
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
    # How the source was found is no part of the folder, which a pipeline file makes too.
    assert made.tree(tmp_path / "auto") == made.tree(tmp_path / "named")
    assert "with the pipeline train,\nwhose source is prodigy;" in (
        (tmp_path / "auto" / "README.md").read_text()
    )


def test_recognise__knows_the_corpora_of_shipped_pipelines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"kinase\tB-GENE\n"
    (tmp_path / "train.tsv").write_bytes(data)
    digest = sha256(data)
    monkeypatch.setattr(
        "mslm_data.source.recognise._digests", lambda: {digest: "blurb/bc2gm", "0": "blurb/jnlpba"}
    )

    found = recognise([tmp_path])

    assert found.what == "blurb/bc2gm"
    assert of_tables(found.tables, name="x").name == "blurb/bc2gm"


def test_recognise__knows_the_tables_of_mimic(tmp_path: Path) -> None:
    for name in ("mimic", "mimic-iv"):
        shutil.copytree(made.SAMPLE / name, tmp_path / name)

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
    monkeypatch.setattr("mslm_data.source.recognise._digests", lambda: digests)

    with pytest.raises(SourceError, match=r"expected one corpus, got .*a\.tsv of 'blurb/a' and"):
        recognise([tmp_path])


def test_recognise__asks_where_two_forms_fit(tmp_path: Path) -> None:
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

    with pytest.raises(SourceError, match=r"got files ending with \.md that none of the sources"):
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
def test_recognise__finds_mentions_behind_documents_without(
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


def test_recognise__takes_no_texts_without_mentions_for_a_corpus(tmp_path: Path) -> None:
    rows = [BARE, {**BARE, "entities": []}, {**BARE, "id": 3}]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))

    with pytest.raises(SourceError, match="that none of the sources is sure of") as refused:
        recognise([tmp_path])
    assert "name the source: --source text if they hold texts without mentions, else" in str(
        refused.value
    )


def test_recognise__names_all_sources_for_files_that_are_no_texts(tmp_path: Path) -> None:
    (tmp_path / "train.xyz").write_text("?")

    with pytest.raises(SourceError, match="name the source: --source and one of bc2gm, bioc, "):
        recognise([tmp_path])


def test_build__auto_needs_files() -> None:
    with pytest.raises(CallError, match="source 'auto': expected files to look at"):
        build("auto")
    assert run("recipes", "auto").code == 2
    assert run("recipes", "blurb/bc2gm", "--input", ".").code == 2
