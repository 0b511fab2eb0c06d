"""Ensembles of annotators; test_contract.py tests the common contract."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.annotate import ANNOTATORS, FoundBy, overlaps, relabel
from mslm_data.annotate.ensemble import EARLIER, OUTVOTED, Ensemble
from mslm_data.annotate.terms.term_table import read_terms
from mslm_data.builds.plan import find
from mslm_data.builds.verify import verify
from mslm_data.data.document import Document, Span
from mslm_data.data.documents import Documents
from mslm_data.errors import PipelineError
from mslm_data.shard.agreement import FoundByRecord, pairs
from mslm_data.shard.manifest import read_manifest
from tests import made
from tests.annotate.fixtures import labels
from tests.cli.running import run
from tests.made import build
from tests.support.properties import fewer


def table(path: Path, *rows: str) -> dict[str, Any]:
    """Write the table of a term annotator from `name:label` entries, and return its options."""
    lines = [row.replace(":", ",") for row in rows]
    path.write_text("name,label\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return {"use": "terms", "table": str(path)}


def ensemble(**options: Any) -> Ensemble:
    made_of: Ensemble = ANNOTATORS.make("ensemble", options)
    return made_of


def found(annotator: Ensemble, text: str) -> tuple[list[tuple[str, str, float]], dict[str, int]]:
    [of_text] = made.annotated(annotator.start(), [Document(id="d", text=text)])
    return (
        [(text[s.start : s.end], s.label, pytest.approx(s.score)) for s in of_text.spans],
        dict(of_text.left_out),
    )


def test_start__makes_members_and_reads_tables_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []

    def count(*arguments: Any) -> Any:
        reads.append(arguments)
        return read_terms(*arguments)

    monkeypatch.setattr("mslm_data.annotate.terms.annotator.read_terms", count)
    annotators = {"terms": table(tmp_path / "a.csv", "pain:X"), "gold": {"use": "gold"}}
    options = ensemble(annotators=annotators, combine="majority")

    options.labels()
    options.start()

    assert len(reads) == 1


# Union --------------------------------------------------------------------------------------------


def test_annotate__union_prefers_the_first_annotator_for_overlaps(tmp_path: Path) -> None:
    annotators = {
        "short": table(tmp_path / "a.csv", "heart:Organ", "asthma:Disease"),
        "long": table(
            tmp_path / "b.csv", "heart failure:Disease", "asthma:Disease", "pain:Symptom"
        ),
    }
    text = "heart failure, asthma, pain"

    first_short = found(ensemble(annotators=annotators, priority=["short", "long"]), text)
    first_long = found(ensemble(annotators=annotators, priority=["long", "short"]), text)

    rest = [("asthma", "Disease", 1.0), ("pain", "Symptom", 1.0)]
    assert first_short == ([("heart", "Organ", 1.0), *rest], {EARLIER: 1})
    assert first_long == ([("heart failure", "Disease", 1.0), *rest], {EARLIER: 1})


def test_annotate__union_includes_the_mentions_of_the_source(tmp_path: Path) -> None:
    annotators = {"gold": {"use": "gold"}, "terms": table(tmp_path / "a.csv", "pain:X", "heart:Y")}
    document = Document(id="d", text="heart pain", spans=(Span(0, 5, "X", "C1"),))

    [of_text] = made.annotated(
        ensemble(annotators=annotators, priority=["gold", "terms"]).start(), [document]
    )

    assert of_text.spans == (Span(0, 5, "X", "C1"), Span(6, 10, "X"))
    assert of_text.left_out == {EARLIER: 1}


# Majority -----------------------------------------------------------------------------------------


def three(tmp_path: Path, **of_a: Any) -> dict[str, Any]:
    return {
        "a": {**table(tmp_path / "a.csv", "asthma:X", "pain:X", "heart:X", "liver:Y"), **of_a},
        "b": table(tmp_path / "b.csv", "asthma:X", "pain:X", "liver:X"),
        "c": table(tmp_path / "c.csv", "asthma:X", "heart failure:X"),
    }


def test_annotate__majority_keeps_mentions_with_more_than_half_of_the_votes(tmp_path: Path) -> None:
    mentions, left_out = found(
        ensemble(annotators=three(tmp_path), combine="majority"),
        "asthma, pain, heart failure, liver",
    )

    # Only the first annotator has the label Y, so one vote is the maximum.
    assert mentions == [
        ("asthma", "X", 1.0),
        ("pain", "X", 2 / 3),
        ("liver", "Y", 1.0),
    ]
    assert left_out == {OUTVOTED: 3}


def test_annotate__majority_of_two_requires_both(tmp_path: Path) -> None:
    annotators = {name: labels(tmp_path / f"{name}.csv", NAMES) for name, NAMES in
          [("a", ("asthma", "pain")), ("b", ("asthma",))]}  # fmt: skip
    members = {name: {"use": "terms", "table": path} for name, path in annotators.items()}

    mentions, left_out = found(ensemble(annotators=members, combine="majority"), "asthma, pain")

    assert mentions == [("asthma", "X", 1.0)]
    assert left_out == {OUTVOTED: 1}


# Union and majority, compared with a slow twin ----------------------------------------------------

WORDS = ("heart", "failure", "pain", "acute", "liver")


@given(
    st.lists(st.sampled_from(WORDS), max_size=12),
    st.lists(
        st.dictionaries(
            st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join),
            st.sampled_from("XY"),
            min_size=1,
            max_size=4,
        ),
        min_size=3,
        max_size=3,
    ),
    st.permutations(["a", "b", "c"]),
)
@fewer(0.5)
def test_annotate__equals_a_slow_twin(
    words: list[str], tables: list[dict[str, str]], priority: list[str]
) -> None:
    document = Document(id="d", text=" ".join(words))
    with TemporaryDirectory() as folder:
        annotators = {
            name: table(Path(folder) / name, *(f"{term}:{label}" for term, label in terms.items()))
            for name, terms in zip("abc", tables, strict=True)
        }
        alone = {
            name: made.annotated(
                ANNOTATORS.make("terms", {"table": member["table"]}).start(), [document]
            )[0].spans
            for name, member in annotators.items()
        }
        union = ensemble(annotators=annotators, priority=priority).start()
        majority = ensemble(annotators=annotators, combine="majority").start()

    kept: list[Span] = []
    for span in itertools.chain.from_iterable(alone[name] for name in priority):
        if all(span.end <= other.start or other.end <= span.start for other in kept):
            kept.append(span)
    assert [*made.annotated(union, [document])[0].spans] == sorted(kept)

    votes = Counter(itertools.chain.from_iterable(alone.values()))
    could = {label: sum(label in terms.values() for terms in tables) for label in "XY"}
    elected = [span[:3] for span, count in votes.items() if 2 * count > could[span.label]]
    assert [s[:3] for s in made.annotated(majority, [document])[0].spans] == sorted(elected)


# Labels -------------------------------------------------------------------------------------------


def test_members__have_their_labels_renamed_and_selected(tmp_path: Path) -> None:
    annotators = {
        "a": table(tmp_path / "a.csv", "asthma:DISEASE", "liver:ORGAN")
        | {"rename": {"DISEASE": "X"}, "labels": ["X"]},
        "b": table(tmp_path / "b.csv", "asthma:X"),
    }
    options = ensemble(annotators=annotators, combine="majority")

    assert options.labels() == ("X",)
    assert found(options, "asthma liver") == ([("asthma", "X", 1.0)], {relabel.UNWANTED: 1})


def test_build__asks_for_labels_if_those_of_a_member_are_unknown(tmp_path: Path) -> None:
    terms = table(tmp_path / "a.csv", "asthma:Disease")
    annotators = {"ours": {"use": "gold"}, "terms": terms}
    options = {"annotators": annotators, "combine": "majority"}

    assert ensemble(**options).labels() == ()
    with pytest.raises(PipelineError, match=r"annotate.labels=\[\"LABEL\", …\]' among those"):
        find(
            made.pipeline_of(annotate={"use": "ensemble", **options}),
            [made.SAMPLE / "ncbi-disease"],
        )


def test_annotate__counts_mentions_by_annotators(tmp_path: Path) -> None:
    loaded = ensemble(annotators=three(tmp_path), combine="majority").start()
    documents = Documents.from_documents(
        [Document(id="d", text=text) for text in ("asthma pain", "", "asthma")]
    )

    assert loaded.annotate(documents).found_by == {
        FoundBy("X", ("a", "b", "c")): 2,
        FoundBy("X", ("a", "b")): 1,
    }


def test_annotate__keeps_the_longest_mention_of_each_annotator(tmp_path: Path) -> None:
    document = Document(id="d", text="heart failure", spans=(Span(0, 5, "X"), Span(0, 13, "X")))
    annotators = {"gold": {"use": "gold"}, "b": table(tmp_path / "b.csv", "heart failure:X")}

    [of_text] = made.annotated(
        ensemble(annotators=annotators, combine="majority").start(), [document]
    )

    assert of_text.spans == (Span(0, 13, "X"),)
    assert of_text.left_out == {overlaps.OVERLAPS: 1}


# Agreement ----------------------------------------------------------------------------------------


def test_pairs__have_symmetric_f1() -> None:
    rng = random.Random(0)
    places = [(number, number + 2) for number in range(0, 400, 2)]
    names = ("a", "b", "c")
    of_names = {
        name: set(rng.sample(places, k)) for name, k in zip(names, (150, 90, 30), strict=True)
    }
    by = Counter(
        tuple(name for name in names if place in of_names[name])
        for place in set().union(*of_names.values())
    )
    records = [FoundByRecord(label="X", by=key, mentions=number) for key, number in by.items()]

    found_pairs = {(pair.first, pair.second): pair for pair in pairs(records)}

    assert [*found_pairs] == [*itertools.combinations(names, 2)]
    for (first, second), pair in found_pairs.items():
        both = len(of_names[first] & of_names[second])
        precision, recall = both / len(of_names[first]), both / len(of_names[second])
        assert pair.f1 == pytest.approx(2 * precision * recall / (precision + recall))
        assert (pair.of_first, pair.of_second) == (len(of_names[first]), len(of_names[second]))


def test_pairs__have_no_agreement_without_mentions_of_a_label() -> None:
    records = [
        FoundByRecord(label="X", by=("a",), mentions=1),
        FoundByRecord(label="Y", by=("b",), mentions=1),
    ]

    assert [(pair.label, pair.f1) for pair in pairs(records)] == [("X", 0.0), ("Y", 0.0)]


# Builds -------------------------------------------------------------------------------------------


def corpus(folder: Path, copies: int) -> Path:
    path = folder / "notes.jsonl"
    texts = [f"Note {number}: asthma, pain and heart failure." for number in range(copies)]
    rows = ({"id": str(number), "text": text} for number, text in enumerate(texts))
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def pipeline_of(tmp_path: Path, **annotate: Any) -> Any:
    return made.pipeline_of(
        source={"use": "jsonl"},
        annotate={"use": "ensemble", "annotators": three(tmp_path), "labels": ["X"], **annotate},
        unit_bytes=700,
    )


def test_build__writes_the_agreement_to_the_manifest(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, combine="majority")
    trees = []
    for workers in (1, 2):
        out = tmp_path / f"out{workers}"
        build(pipeline, [corpus(tmp_path, 40)], made.word_piece(), out, workers=workers)
        trees.append(made.tree(out))

    manifest = read_manifest(out)
    assert trees[0] == trees[1]
    assert manifest.found_by == (
        FoundByRecord(label="X", by=("a",), mentions=40),
        FoundByRecord(label="X", by=("a", "b"), mentions=40),
        FoundByRecord(label="X", by=("a", "b", "c"), mentions=40),
        FoundByRecord(label="X", by=("c",), mentions=40),
    )
    split = manifest.splits["train"]
    assert (split.mentions, split.left_out[OUTVOTED.text]) == (80, 80)
    assert str(tmp_path) not in str(manifest.pipeline)
    verify(out)


def test_build__omits_the_agreement_of_a_single_annotator(tmp_path: Path) -> None:
    made.built(tmp_path / "out")

    assert "found_by" not in json.loads((tmp_path / "out" / "manifest.json").read_text())


def test_build__counts_labels_by_their_names_in_the_pipeline(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, combine="majority", rename={"X": "Z"}, labels=["Z"])

    build(pipeline, [corpus(tmp_path, 3)], made.word_piece(), tmp_path / "out", workers=1)

    records = read_manifest(tmp_path / "out").found_by
    assert records is not None
    assert {record.label for record in records} == {"Z"}


@pytest.mark.long
def test_build__commands_print_the_agreement(tmp_path: Path) -> None:
    three(tmp_path)
    file = tmp_path / "mine.toml"
    members = "\n".join(
        f'[annotate.annotators.{name}]\nuse = "terms"\ntable = "{tmp_path / name}.csv"\n'
        for name in "abc"
    )
    file.write_text(
        '[source]\nuse = "jsonl"\n[annotate]\nuse = "ensemble"\ncombine = "majority"\n'
        f'labels = ["X"]\n{members}'
    )
    given = (
        "--source",
        file,
        "--input",
        corpus(tmp_path, 4),
        "--tokenizer",
        made.SAMPLE / "vocab.txt",
    )

    said = run("build", *given, "--out", tmp_path / "out").out
    as_json = run("build", *given, "--out", tmp_path / "out", "--json").json
    inspected = run("inspect", tmp_path / "out").out
    inspected_json = run("inspect", tmp_path / "out", "--json").json

    for printed in (said, inspected):
        assert "agreement of the annotators, by equal mentions:" in printed
        assert "X      a      b             12          8     8  0.8000" in printed
    assert as_json["agreement"][0] == {
        "label": "X", "first": "a", "second": "b", "of_first": 12, "of_second": 8, "both": 8, "f1": 0.8,
    }  # fmt: skip
    assert inspected_json["agreement"] == as_json["agreement"]


def test_audit__loads_all_annotators_from_the_manifest(tmp_path: Path) -> None:
    annotators = {
        "z": table(tmp_path / "z.csv", "nausea:Disease", "acute:Disease"),
        "a": table(tmp_path / "a.csv", "nausea:Disease", "toxicity:Disease"),
    }
    pipeline = made.pipeline_of(
        annotate={
            "use": "ensemble",
            "annotators": annotators,
            "priority": ["z", "a"],
            "labels": ["Disease"],
        }
    )
    made.built(tmp_path / "out", pipeline=pipeline)
    given = ("--gold", made.SAMPLE / "ncbi-disease", "--gold-source", "blurb/ncbi-disease")
    sets = [
        f"annotate.annotators.{name}.table={member['table']}" for name, member in annotators.items()
    ]

    done = run("audit", tmp_path / "out", *given, "--set", sets[0], "--set", sets[1], "--json")
    without = run("audit", tmp_path / "out", *given, "--set", sets[0])

    assert done.code == 0, done.err
    assert done.json["labels"]["Disease"]["gold"] > 10
    assert without.code == 1
    assert "annotator 'terms': no table given" in without.err


# Options ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"annotators": {}}, r"annotators: expected two annotators or more, each in a table \[annotate.annotators.NAME\]"),
        ({"annotators": {"a": {"use": "none"}}}, "expected two annotators or more, .* got 1"),
        ({"priority": ["a"]}, "priority: expected each of a, b once, .* got a"),
        ({}, "priority: expected each of a, b once, .* got none"),
        ({"combine": "majority", "priority": ["a", "b"]}, "priority: expected none with combine"),
        ({"combine": "vote"}, "invalid value for option 'combine'; known: majority, union"),
        ({"annotators": {"a": {}, "b": {}}, "combine": "majority"}, r"\[annotate.annotators.a\]: expected the option 'use', got none"),
        ({"annotators": {"a": {"use": "terns"}, "b": {}}, "combine": "majority"}, r"unknown annotator 'terns'; did you mean 'terms'"),
        ({"annotators": {"a": {"use": "terms", "tabel": ""}, "b": {}}, "combine": "majority"}, r"unknown option 'tabel'; did you mean 'table'"),
        ({"annotators": {"a": {"use": "ensemble"}, "b": {}}, "combine": "majority"}, "expected a single annotator, got 'ensemble'"),
    ],
)  # fmt: skip
def test_options__are_checked_at_every_depth(options: dict[str, Any], message: str) -> None:
    two = {"a": {"use": "none"}, "b": {"use": "gold"}}

    with pytest.raises(PipelineError, match=message):
        ensemble(**{"annotators": two, **options})


@pytest.mark.parametrize(("uses", "slow"), [(("none", "gold"), False), (("none", "model"), True)])
def test_slow__is_true_if_one_member_is_slow(uses: tuple[str, str], slow: bool) -> None:
    options = ensemble(annotators={use: {"use": use} for use in uses}, combine="majority")

    assert options.slow == slow
