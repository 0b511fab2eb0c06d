"""Pipeline files: valid and invalid content, and error messages."""

from __future__ import annotations

import copy
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data import pipeline
from mslm_data.errors import PipelineError
from mslm_data.io import resources
from mslm_data.pipeline import (
    EncodeOptions,
    Fetch,
    Pipeline,
    SegmentOptions,
    ShardOptions,
    SourceOptions,
)

SHA = "0123456789abcdef" * 4
SMALL: dict[str, Any] = {"source": {"use": "conll"}}


def made(**tables: Any) -> Pipeline:
    return pipeline.read({"name": "mine", **SMALL | tables})


def test_read__accepts_a_shipped_name() -> None:
    found = pipeline.read("blurb/ncbi-disease")

    assert found.source.use == "conll"
    assert found.segment == SegmentOptions(use="given")
    assert found.source.sample == "sample/ncbi-disease"
    assert found.annotate.rename["Modifier"] == "Disease"
    assert [entry.split for entry in found.source.fetch] == ["train", "validation", "test"]


def test_read__accepts_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        '[source]\nuse = "conll"\ntag_column = 2\n', encoding="utf-8"
    )

    found = pipeline.read(str(tmp_path / "mine.toml"))

    assert found == pipeline.read(tmp_path / "mine.toml")
    assert found.name == "mine"
    assert found.source == SourceOptions(use="conll", options={"tag_column": 2})
    assert found.source.fetch == ()


def test_read__suggests_similar_names() -> None:
    with pytest.raises(
        PipelineError, match=r"no shipped pipeline 'blurb/bc2g'; did you mean 'blurb/bc2gm'\?"
    ):
        pipeline.read("blurb/bc2g")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"a\.toml: expected a pipeline file, found none \(No such file .*; `mslm-data rec"),
        (b"[source\n", r"^pipeline 'a': not TOML: .*line 1"),
        (b'name = "\xff"', r"^pipeline 'a': not TOML: 'utf-8' .* position 8"),
    ],
)
def test_read__refuses_files(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "a.toml").write_bytes(content)

    with pytest.raises(PipelineError, match=message):
        pipeline.read(str(tmp_path / "a.toml"))


FETCH = {"url": "http://a", "sha256": SHA}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"anotate": {}}, ": unknown table [anotate]; did you mean 'annotate'?"),
    (
        {"zebra": {}},
        ": unknown table [zebra]; known: about, annotate, encode, name, segment, shard, source",
    ),
    ({"about": 3}, ", [about]: expected a table, got int"),
    ({"source": 3}, ", [source]: expected a table, got int"),
    ({"source": {}}, ", [source]: expected the option 'use', got none"),
    (
        {"source": {"use": 3}},
        ", [source]: expected `str`, got `int` for option 'use'; text is written in quotes, as in '\"0\"'",
    ),
    ({"about": {"license": "MIT"}}, ", [about]: unknown option 'license'; did you mean 'licence'?"),
    (
        {"about": {"language": ["english"]}},
        r", [about]: expected `str` matching regex '^[a-z]{2,3}\\Z' for option 'language[0]'",
    ),
    (
        {"annotate": {"labels": "Disease"}},
        ", [annotate]: expected `array`, got `str` for option 'labels'; a list of one is written "
        '["..."]',
    ),
    (
        {"annotate": {"labels": ["Gene", "Drug", "Drug"]}},
        ", [annotate]: labels: expected different labels, got 'Drug' more than once",
    ),
    (
        {"annotate": {"labels": ["Gene", ""]}},
        ", [annotate]: expected `str` of length >= 1 for option 'labels[1]'",
    ),
    (
        {"annotate": {"leave_out_context": ["negatd"]}},
        ", [annotate]: invalid value for option 'leave_out_context[0]'; did you mean 'negated'?",
    ),
    (
        {"encode": {"max_token": 8}},
        ", [encode]: unknown option 'max_token'; did you mean 'max_tokens'?",
    ),
    ({"encode": {"max_tokens": 7}}, ", [encode]: expected `int` >= 8 for option 'max_tokens'"),
    (
        {"source": {"use": "conll", "max_loss": 2}},
        ", [source]: expected `float` <= 1.0 for option 'max_loss'",
    ),
    (
        {"source": {"use": "conll", "duplicate_similarity": 0}},
        ", [source]: expected `float` > 0.0 for option 'duplicate_similarity'",
    ),
    (
        {"source": {"use": "conll", "decontaminate": [""]}},
        ", [source]: expected `str` of length >= 1 for option 'decontaminate[0]'",
    ),
    (
        {"source": {"use": "conll", "fetch": [{"url": "http://a"}]}},
        ", [source], fetch[0]: expected the option 'sha256', got none",
    ),
]


@pytest.mark.parametrize(("tables", "message"), REFUSED)
def test_read__refuses(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError) as refused:
        made(**tables)

    assert str(refused.value) == f"pipeline 'mine'{message}"


@pytest.mark.parametrize(
    "wrong",
    [
        *({"sha256": sha256} for sha256 in ("", "0" * 63, "0" * 65, "A" * 64, "g" * 64)),
        *({"split": split} for split in ("../../evil", "/etc", "..", "a/b", "a\\b", "a\n")),
    ],
)
def test_read__refuses_digests_and_names_of_fetched_files(wrong: dict[str, str]) -> None:
    with pytest.raises(
        PipelineError, match=r"\[source\]: expected `str` matching regex .*fetch\[0\]"
    ):
        made(source={"use": "conll", "fetch": [FETCH | wrong]})


def test_read__takes_paths_wherever_a_table_has_text() -> None:
    paths = {"decontaminate": [Path("shards/a"), "shards/b"]}
    tables = {"name": "mine", "encode": {"tokenizer": Path("vocab.txt")}}

    given = pipeline.read({**tables, "source": {"use": "conll", **paths}})
    assigned = pipeline.read(
        {**tables, "source": {"use": "conll"}},
        options={f"source.{name}": value for name, value in paths.items()},
    )

    assert given == assigned
    assert given.source.decontaminate == ("shards/a", "shards/b")
    assert given.encode.tokenizer == "vocab.txt"


def test_read__fills_in_defaults_and_does_not_change_its_input() -> None:
    fetched = {"url": "http://a", "sha256": SHA, "unpack": True}
    tables = {"name": "mine", "source": {"use": "conll", "sample": "s", "fetch": [fetched]}}
    before = copy.deepcopy(tables)

    found = pipeline.read(tables)

    assert found.source.fetch == (Fetch(url="http://a", sha256=SHA, unpack=True),)
    assert (found.segment, found.encode, found.shard) == (
        SegmentOptions(use="given"),
        EncodeOptions(),
        ShardOptions(),
    )
    assert found.annotate.labels == ()
    assert tables == before


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


def test_sampled__replaces_an_annotator_without_options() -> None:
    sample = pipeline.read("mimic").sampled().annotate
    own = pipeline.read("mimic", sets=["annotate.model_pack=mine"]).sampled().annotate

    assert (sample.use, sorted(sample.options)) == ("terms", ["case", "plurals", "table"])
    assert Path(sample.options["table"]).is_file()
    assert (own.use, own.options) == ("medcat", {"model_pack": "mine"})


@pytest.mark.parametrize("folder", ["../etc", "sample/../..", "/etc", "sample//x", ".."])
def test_read__refuses_a_sample_outside_of_the_shipped_files(folder: str) -> None:
    with pytest.raises(PipelineError, match="for option 'sample'"):
        pipeline.read({"name": "x", "source": {"use": "conll", "sample": folder}})


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

    assert pipeline.read(tables, sets=["segment.use=clinical"]).segment == SegmentOptions(
        use="clinical"
    )
    assert tables["segment"] == {"use": "spacy", "model": "en"}


def test_read__sets_a_source_and_its_options() -> None:
    found = pipeline.read(
        "blurb/bc2gm", sets=["source.use=pubtator", "source.a.b=1", "source.a.c=x"]
    )

    assert (found.source.use, found.source.options) == ("pubtator", {"a": {"b": 1, "c": "x"}})


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("max_tokens=128", r"--set max_tokens: expected stage\.option, got 'max_tokens'"),
        ("encode.max_tokens", r"--set: expected stage\.option=value, got 'encode\.max_tokens'"),
        (".a=1", r"--set \.a: expected stage\.option"),
        ("encode.=1", r"--set encode\.: expected stage\.option"),
        ("name.x=1", r"--set name\.x: unknown stage 'name'"),
        ("name=3", r"^pipeline 'blurb/bc2gm': expected `str`, got `int` for option 'name'"),
        (
            "encod.max_tokens=1",
            r"--set encod\.max_tokens: unknown stage 'encod'; did you mean 'encode'\?",
        ),
        ("encode.split.x=1", r"--set encode\.split\.x: 'split' is a value, not a table"),
        (
            "encode.max_tokens=many",
            r"\[encode\]: expected `int`, got `str` for option 'max_tokens'",
        ),
    ],
)
def test_read__rejects_invalid_set_options(assignment: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        pipeline.read("blurb/bc2gm", sets=[assignment])


def test_read__accepts_options_as_values() -> None:
    tables = {"name": "deals", "source": {"use": "jsonl"}, "annotate": {"labels": ["Party"]}}
    before = copy.deepcopy(tables)

    found = pipeline.read(
        tables,
        options={
            "encode.keep_text": True,
            "annotate.rename.Gene": "GENE",
            "annotate.labels": ("A", "B"),
            "encode.tokenizer": Path("vocab.txt"),
            "source.a": "1",
        },
    )

    assert found.encode.keep_text is True
    assert found.encode.tokenizer == "vocab.txt"
    assert found.annotate.rename == {"Gene": "GENE"}
    assert found.annotate.labels == ("A", "B")
    assert found.source == SourceOptions(use="jsonl", options={"a": "1"})  # Text stays text.
    assert tables == before


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("encod.split", r"option 'encod\.split': unknown stage 'encod'; did you mean 'encode'\?"),
        ("encode", r"option 'encode': expected stage\.option, got 'encode'"),
        ("encode.split.x", r"option 'encode\.split\.x': 'split' is a value, not a table"),
        (
            "encode.max_tokens",
            r"\[encode\]: expected `int`, got `str` for option 'max_tokens'",
        ),
    ],
)
def test_read__rejects_invalid_options(option: str, message: str) -> None:
    tables = {"name": "x", "source": {"use": "conll"}, "encode": {"split": "paper"}}

    with pytest.raises(PipelineError, match=message):
        pipeline.read(tables, options={option: "many"})


def test_read__rejects_tables_without_a_name() -> None:
    with pytest.raises(PipelineError, match=r'^pipeline: the tables have no name; add "na'):
        pipeline.read({"source": {"use": "jsonl"}})
    with pytest.raises(
        PipelineError,
        match=r"^pipeline: expected `str`, got `int` for option 'name'; text is written",
    ):
        pipeline.read({"name": 3, "source": {"use": "jsonl"}})


def test_effective__contains_only_options_that_change_bytes() -> None:
    effective = made(about={"title": "x"}, encode={"tokenizer": "somewhere/vocab.txt"}).effective()

    assert list(effective) == ["source", "annotate", "segment", "encode", "shard"]
    assert "tokenizer" not in effective["encode"]
    assert "somewhere" not in json.dumps(effective)
    assert effective == made().effective()
    assert effective != made(encode={"max_tokens": 128}).effective()


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
def test_read__notes_are_patients_text_by_default(tables: dict[str, Any], protected: bool) -> None:
    assert pipeline.read({"name": "x", **tables}).about.protected is protected


@pytest.mark.parametrize("name", resources.pipeline_names())
def test_to_toml__reads_to_the_same_pipeline(name: str) -> None:
    shipped = pipeline.read(name)

    assert pipeline.read(tomllib.loads(shipped.to_toml())) == shipped


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(
    own=st.dictionaries(TEXTS.map("own {}".format), VALUES, max_size=4),
    title=TEXTS,
    labels=st.lists(TEXTS, unique=True, max_size=3),
    rename=st.dictionaries(TEXTS, TEXTS, max_size=3),
    lowercase=st.none() | st.booleans(),
    fetch=st.lists(st.just(FETCH), max_size=2),
)
def test_to_toml__reads_to_the_same_options(
    own: dict[str, Any],
    title: str,
    labels: list[str],
    rename: dict[str, str],
    lowercase: bool | None,
    fetch: list[dict[str, str]],
) -> None:
    written = made(
        about={"title": title},
        source={"use": "conll", "fetch": fetch, **own},
        annotate={"use": "terms", "labels": labels, "rename": rename, **own},
        encode={"lowercase": lowercase},
    )

    assert pipeline.read(tomllib.loads(written.to_toml())) == written


@pytest.mark.parametrize(
    "given",
    [{"sets": ["name=ward-7"]}, {"sets": ['name="ward-7"']}, {"options": {"name": "ward-7"}}],
)
def test_read__takes_another_name(given: dict[str, Any]) -> None:
    assert pipeline.read("blurb/bc2gm", **given).name == "ward-7"


@pytest.mark.parametrize(
    "table",
    [
        '[annotate]\nuse = "medcat"\nmodel_pack = "pack"\nsha256 = "DIGEST"\n',
        '[annotate]\nuse = "ensemble"\n[annotate.annotators.a]\nuse = "medcat"\nsha256 = "DIGEST"\n',
        '[annotate]\nsample = {use = "medcat", model_pack = "pack", sha256 = "DIGEST"}\n',
    ],
)
def test_read__takes_no_consent_from_a_file(table: str, tmp_path: Path) -> None:
    path = tmp_path / "strangers.toml"
    path.write_text('[source]\nuse = "jsonl"\n' + table.replace("DIGEST", SHA))

    with pytest.raises(PipelineError, match=r"strangers\.toml, \[annotate\]: expected no sha256"):
        pipeline.read(path)
    path.write_text('[source]\nuse = "jsonl"\n' + table.replace("DIGEST", ""))
    by_set = pipeline.read(path, sets=[f"annotate.sha256={SHA}"])
    by_option = pipeline.read(path, options={"annotate.sha256": SHA})

    assert by_set.annotate.options["sha256"] == SHA
    assert by_set == by_option
    assert SHA not in str(by_set.effective())
