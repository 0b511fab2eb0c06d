"""Pipeline files: valid and invalid content, and error messages."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from mslm_data import pipeline
from mslm_data.errors import PipelineError
from mslm_data.pipeline import EncodeOptions, Fetch, Pipeline, ShardOptions, Stage

SHA = "0123456789abcdef" * 4
SMALL: dict[str, Any] = {"source": {"use": "conll"}}


def made(**tables: Any) -> Pipeline:
    return pipeline.from_tables(SMALL | tables, name="mine")


def test_read__accepts_a_shipped_name() -> None:
    found = pipeline.read("blurb/ncbi-disease")

    assert found.source == Stage(use="conll")
    assert found.segment == Stage(use="given")
    assert found.sample == "sample/ncbi-disease"
    assert found.annotate.rename["Modifier"] == "Disease"
    assert [entry.split for entry in found.fetch] == ["train", "validation", "test"]


def test_read__accepts_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        '[source]\nuse = "conll"\ntag_column = 2\n', encoding="utf-8"
    )

    found = pipeline.read(str(tmp_path / "mine.toml"))

    assert found.name == "mine"
    assert found.source == Stage(use="conll", options={"tag_column": 2})
    assert found.fetch == ()


def test_read__suggests_similar_names() -> None:
    with pytest.raises(
        PipelineError, match=r"no shipped pipeline 'blurb/bc2g'; did you mean 'blurb/bc2gm'\?"
    ):
        pipeline.read("blurb/bc2g")


def test_read__reports_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(
        PipelineError,
        match=r"none\.toml: expected a pipeline file, found none; `mslm-data recipes`",
    ):
        pipeline.read(str(tmp_path / "none.toml"))


def test_read__reports_the_place_of_a_toml_error(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[source\n", encoding="utf-8")

    with pytest.raises(PipelineError, match=r"pipeline 'a': not TOML: .*line 1"):
        pipeline.read(str(tmp_path / "a.toml"))


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"anotate": {}}, r"pipeline 'mine': unknown table \[anotate\]; did you mean 'annotate'\?"),
        (
            {"zebra": {}},
            r"unknown table \[zebra\]; known: about, annotate, encode, name, segment, shard, source",
        ),
        ({"source": {}}, r'pipeline \'mine\', \[source\]: expected use = "NAME", got none'),
        ({"source": {"use": 3}}, r'\[source\]: expected use = "NAME"'),
        (
            {"about": {"license": "MIT"}},
            r"\[about\]: unknown option 'license'; did you mean 'licence'\?",
        ),
        (
            {"annotate": {"labels": "Disease"}},
            r"\[annotate\]: expected a list for option 'labels', got text; a list of one is written \[\"\.\.\.\"\]$",
        ),
        (
            {"encode": {"max_token": 8}},
            r"\[encode\]: unknown option 'max_token'; did you mean 'max_tokens'\?",
        ),
        (
            {"encode": {"max_tokens": "8"}},
            r"\[encode\]: expected a whole number for option 'max_tokens', got text",
        ),
        (
            {"encode": {"max_tokens": 7}},
            r"\[encode\]: expected max_tokens between 8 and 1048576, got 7",
        ),
        (
            {"encode": {"split": "paragraph"}},
            r"\[encode\]: expected one of mention, paper for option 'split', got 'paragraph'",
        ),
        (
            {"annotate": {"labels": ["Gene", "Drug", "Drug"]}},
            r"\[annotate\]: labels: expected different labels, got 'Drug' more than once",
        ),
        (
            {"annotate": {"labels": ["Gene", ""]}},
            r"\[annotate\]: labels: expected names of labels, got an empty one",
        ),
        (
            {"annotate": {"rename": {"Gene": ""}}},
            r"\[annotate\]: rename: the new name of 'Gene' is empty",
        ),
        (
            {"encode": {"keep_text": 1}},
            r"\[encode\]: expected true or false for option 'keep_text', got a whole number",
        ),
        ({"shard": {"unit_bytes": 0}}, r"\[shard\]: expected unit_bytes of at least 1, got 0"),
        (
            {"source": {"use": "conll", "fetch": [{"url": "http://a", "sha256": "abc"}]}},
            r"\[source\]: expected sha256 as 64 lower-case hexadecimal digits for option 'fetch\[0\]'",
        ),
        (
            {"source": {"use": "conll", "fetch": [{"url": "http://a"}]}},
            r"\[source\]: expected 'sha256' in the table of option 'fetch\[0\]', got none",
        ),
    ],
)
def test_from_tables__rejects_invalid_tables(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        made(**tables)


@pytest.mark.parametrize(
    "tables",
    [
        {"about": 3},
        {"source": 3},
        {"segment": 3},
        {"name": 3},
        {"source": {"use": "conll", "sample": 3}},
        {"source": {"use": "conll", "fetch": 3}},
        {"source": {"use": "conll", "fetch": [3]}},
    ],
)
def test_from_tables__rejects_values_that_are_no_tables(tables: dict[str, Any]) -> None:
    with pytest.raises(PipelineError, match="pipeline 'mine'"):
        made(**tables)


def test_read__takes_paths_wherever_a_table_has_text() -> None:
    paths = {"decontaminate": [Path("shards/a"), "shards/b"]}
    tables = {"name": "mine", "encode": {"tokenizer": Path("vocab.txt")}}

    given = pipeline.read({**tables, "source": {"use": "conll", **paths}})
    assigned = pipeline.read(
        {**tables, "source": {"use": "conll"}},
        options={f"source.{name}": value for name, value in paths.items()},
    )

    assert given == assigned
    assert given.decontaminate == ("shards/a", "shards/b")
    assert given.encode.tokenizer == "vocab.txt"


def test_from_tables__fills_in_defaults() -> None:
    found = made()

    assert (found.segment, found.encode, found.shard) == (
        Stage(use="given"),
        EncodeOptions(),
        ShardOptions(),
    )
    assert (found.sample, found.annotate.labels) == ("", ())


def test_from_tables__does_not_change_its_input() -> None:
    source = {
        "use": "conll",
        "sample": "s",
        "fetch": [{"url": "http://a", "sha256": SHA, "unpack": True}],
    }
    found = made(source=source)

    assert found.fetch == (Fetch(url="http://a", sha256=SHA, unpack=True),)
    assert set(source) == {"use", "sample", "fetch"}


@pytest.mark.parametrize("sha256", ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64])
def test_fetch__requires_a_complete_digest(sha256: str) -> None:
    with pytest.raises(ValueError, match="64 lower-case hexadecimal digits"):
        Fetch(url="http://a", sha256=sha256)


@pytest.mark.parametrize("split", ["../../evil", "/etc", "..", "a/b", "a\\b"])
def test_fetch__rejects_splits_that_are_no_names(split: str) -> None:
    with pytest.raises(ValueError, match="expected split as a name of letters, digits"):
        Fetch(url="http://a", sha256="0" * 64, split=split)


@pytest.mark.parametrize(
    ("assignment", "stage", "option", "value"),
    [
        ("encode.max_tokens=128", "encode", "max_tokens", 128),
        ("encode.keep_text=true", "encode", "keep_text", True),
        ('encode.split="paper"', "encode", "split", "paper"),
        ("encode.split=paper", "encode", "split", "paper"),
        ("encode.tokenizer=my/vocab.txt", "encode", "tokenizer", "my/vocab.txt"),
        ("annotate.labels=['A', 'B']", "annotate", "labels", ("A", "B")),
        ("annotate.rename.Gene=GENE", "annotate", "rename", {"Gene": "GENE"}),
        ("about.title=a=b", "about", "title", "a=b"),
        ('about.title=1\nx="y"', "about", "title", '1\nx="y"'),
    ],
)
def test_read__applies_set_options(assignment: str, stage: str, option: str, value: object) -> None:
    found = pipeline.read("blurb/bc2gm", sets=[assignment])

    assert getattr(getattr(found, stage), option) == value


@pytest.mark.parametrize("name", ["model", "terms", "none", "ensemble"])
def test_read__drops_options_of_a_replaced_annotator(
    name: str,
) -> None:
    found = pipeline.read("mimic", sets=["annotate.table=mine.csv", f"annotate.use={name}"])

    annotate = found.sampled().annotate
    assert (annotate.use, annotate.options) == (name, {"table": "mine.csv"})
    assert annotate.labels == ("Treatment", "Disease", "Symptom")


def test_read__keeps_the_options_of_a_repeated_annotator() -> None:
    found = pipeline.read("mimic", options={"annotate.use": "medcat"})

    assert found == pipeline.read("mimic")
    assert set(found.sampled().annotate.options) == {"model_pack"}


@pytest.mark.parametrize("name", ["blurb/bc2gm", "blurb/ebm-nlp", "blurb/ncbi-disease", "mimic"])
def test_sampled__claims_nothing_about_the_corpus(name: str) -> None:
    corpus = pipeline.read(name).about
    sample = pipeline.read(name).sampled().about

    assert sample.title == f"Sample text in the form of: {corpus.title}"
    assert (sample.licence, sample.licence_id) == ("CC0 1.0", "cc0-1.0")
    assert (sample.homepage, sample.citation) == ("", "")
    assert sample.protected == corpus.protected


def test_read__drops_options_of_a_replaced_segmenter() -> None:
    tables = {"name": "mine", **SMALL, "segment": {"use": "spacy", "model": "en"}}

    assert pipeline.read(tables, sets=["segment.use=clinical"]).segment == Stage(use="clinical")
    assert tables["segment"] == {"use": "spacy", "model": "en"}


def test_read__sets_a_source_and_its_options() -> None:
    found = pipeline.read(
        "blurb/bc2gm", sets=["source.use=pubtator", "source.a.b=1", "source.a.c=x"]
    )

    assert found.source == Stage(use="pubtator", options={"a": {"b": 1, "c": "x"}})


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("max_tokens=128", r"--set: expected stage\.option=value, got 'max_tokens=128'"),
        ("encode.max_tokens", r"--set: expected stage\.option=value"),
        (".a=1", r"--set: expected stage\.option=value"),
        ("encode.=1", r"--set: expected stage\.option=value"),
        (
            "encod.max_tokens=1",
            r"--set encod\.max_tokens: unknown stage 'encod'; did you mean 'encode'\?",
        ),
        ("encode.split.x=1", r"--set encode\.split\.x: 'split' is a value, not a table"),
        (
            "encode.max_tokens=many",
            r"\[encode\]: expected a whole number for option 'max_tokens', got text",
        ),
    ],
)
def test_read__rejects_invalid_set_options(assignment: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        pipeline.read("blurb/bc2gm", sets=[assignment])


def test_read__accepts_options_as_values() -> None:
    found = pipeline.read(
        "blurb/bc2gm",
        options={
            "encode.keep_text": True,
            "annotate.rename.Gene": "GENE",
            "encode.tokenizer": Path("vocab.txt"),
            "source.a": "1",
        },
    )

    assert found.encode.keep_text is True
    assert found.encode.tokenizer == "vocab.txt"
    assert found.annotate.rename == {"Gene": "GENE"}
    assert found.source.options["a"] == "1"  # Text stays text.


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("encod.split", r"option 'encod\.split': unknown stage 'encod'; did you mean 'encode'\?"),
        ("encode", r"option 'encode': expected stage\.option, got a stage alone"),
        ("encode.split.x", r"option 'encode\.split\.x': 'split' is a value, not a table"),
        (
            "encode.max_tokens",
            r"\[encode\]: expected a whole number for option 'max_tokens', got text",
        ),
    ],
)
def test_read__rejects_invalid_options(option: str, message: str) -> None:
    tables = {"name": "x", "source": {"use": "conll"}, "encode": {"split": "paper"}}

    with pytest.raises(PipelineError, match=message):
        pipeline.read(tables, options={option: "many"})


def test_read__accepts_tables_without_changing_them() -> None:
    tables = {"name": "deals", "source": {"use": "jsonl"}, "annotate": {"labels": ["Party"]}}
    before = copy.deepcopy(tables)

    found = pipeline.read(tables, options={"source.text": "body", "annotate.labels": ("A", "B")})

    assert (found.name, found.annotate.labels) == ("deals", ("A", "B"))
    assert found.source == Stage(use="jsonl", options={"text": "body"})
    assert tables == before


def test_read__rejects_tables_without_a_name() -> None:
    with pytest.raises(PipelineError, match=r'^pipeline: the tables have no name; add "na'):
        pipeline.read({"source": {"use": "jsonl"}})
    with pytest.raises(PipelineError, match=r"^pipeline, name: expected text, got int$"):
        pipeline.read({"name": 3})


def test_read__accepts_a_path(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[source]\nuse = "jsonl"\n')

    assert pipeline.read(tmp_path / "mine.toml").name == "mine"


def test_effective__contains_only_options_that_change_bytes() -> None:
    effective = made(about={"title": "x"}, encode={"tokenizer": "somewhere/vocab.txt"}).effective()

    assert list(effective) == ["source", "annotate", "segment", "encode", "shard"]
    assert "tokenizer" not in effective["encode"]
    assert "somewhere" not in json.dumps(effective)


def test_effective__depends_on_each_option() -> None:
    assert made(encode={"max_tokens": 128}).effective() != made().effective()
    assert made(about={"title": "x"}).effective() == made().effective()


@pytest.mark.parametrize(
    ("tables", "protected"),
    [
        ({"source": {"use": "notes"}}, True),
        ({"source": {"use": "i2b2"}}, True),
        ({"source": {"use": "notes"}, "about": {"protected": False}}, False),
        ({"source": {"use": "conll"}}, False),
        ({"source": {"use": "conll"}, "about": {"protected": True}}, True),
    ],
)
def test_from_tables__notes_are_patients_text_by_default(
    tables: dict[str, Any], protected: bool
) -> None:
    assert pipeline.from_tables(tables, name="x").about.protected is protected
