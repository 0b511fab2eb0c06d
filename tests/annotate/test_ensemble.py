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
from tests.cli.running import run
from tests.support.properties import fewer


def table(path: Path, terms: str) -> dict[str, Any]:
    """Write the table of a term annotator from `name:label` entries, and return its options."""
    rows = [term.replace(":", ",") for term in terms.split(", ")]
    path.write_text("name,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return {"use": "terms", "table": str(path)}


def tables(folder: Path, members: dict[str, str]) -> dict[str, Any]:
    return {name: table(folder / f"{name}.csv", terms) for name, terms in members.items()}


def ensemble(**options: Any) -> Ensemble:
    made_of: Ensemble = ANNOTATORS.make("ensemble", options)
    return made_of


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


# Union and majority -------------------------------------------------------------------------------

THREE = {
    "a": "asthma:X, pain:X, heart:X, liver:Y",
    "b": "asthma:X, pain:X, liver:X",
    "c": "asthma:X, heart failure:X",
}
OVERLAPPING = {
    "short": "heart:Organ, asthma:Disease",
    "long": "heart failure:Disease, asthma:Disease, pain:Symptom",
}
VOCAB = made.SAMPLE / "vocab.txt"
MAJORITY = {"combine": "majority"}


@pytest.mark.parametrize(
    ("members", "options", "expected", "left_out"),
    [
        (
            OVERLAPPING,
            {"priority": ["short", "long"]},
            "heart:Organ:1.00, asthma:Disease:1.00, pain:Symptom:1.00",
            {EARLIER: 1},
        ),
        (
            OVERLAPPING,
            {"priority": ["long", "short"]},
            "heart failure:Disease:1.00, asthma:Disease:1.00, pain:Symptom:1.00",
            {EARLIER: 1},
        ),
        # Only the first annotator has the label Y, so one vote is the maximum.
        (THREE, MAJORITY, "asthma:X:1.00, pain:X:0.67, liver:Y:1.00", {OUTVOTED: 3}),
        ({"a": "asthma:X, pain:X", "b": "asthma:X"}, MAJORITY, "asthma:X:1.00", {OUTVOTED: 1}),
    ],
)
def test_annotate__combines_mentions(
    members: dict[str, str],
    options: dict[str, Any],
    expected: str,
    left_out: dict[str, int],
    tmp_path: Path,
) -> None:
    text = "heart failure, asthma, pain, liver"
    loaded = ensemble(annotators=tables(tmp_path, members), **options).start()

    [found] = made.annotated(loaded, [Document(id="d", text=text)])

    mentions = [f"{text[s.start : s.end]}:{s.label}:{s.score:.2f}" for s in found.spans]
    assert ", ".join(mentions) == expected
    assert found.left_out == left_out


def test_annotate__union_includes_the_mentions_of_the_source(tmp_path: Path) -> None:
    annotators = {"gold": {"use": "gold"}, "terms": table(tmp_path / "a.csv", "pain:X, heart:Y")}
    document = Document(id="d", text="heart pain", spans=(Span(0, 5, "X", "C1"),))

    [of_text] = made.annotated(
        ensemble(annotators=annotators, priority=["gold", "terms"]).start(), [document]
    )

    assert of_text.spans == (Span(0, 5, "X", "C1"), Span(6, 10, "X"))
    assert of_text.left_out == {EARLIER: 1}


def test_annotate__keeps_the_longest_mention_of_each_annotator(tmp_path: Path) -> None:
    document = Document(id="d", text="heart failure", spans=(Span(0, 5, "X"), Span(0, 13, "X")))
    annotators = {"gold": {"use": "gold"}, "b": table(tmp_path / "b.csv", "heart failure:X")}

    [of_text] = made.annotated(ensemble(annotators=annotators, **MAJORITY).start(), [document])

    assert of_text.spans == (Span(0, 13, "X"),)
    assert of_text.left_out == {overlaps.OVERLAPS: 1}


def test_annotate__renames_and_selects_labels_of_members(tmp_path: Path) -> None:
    annotators = tables(tmp_path, {"a": "asthma:DISEASE, liver:ORGAN", "b": "asthma:X"})
    annotators["a"] |= {"rename": {"DISEASE": "X"}, "labels": ["X"]}
    options = ensemble(annotators=annotators, **MAJORITY)

    [of_text] = made.annotated(options.start(), [Document(id="d", text="asthma liver")])

    assert options.labels() == ("X",)
    assert of_text.spans == (Span(0, 6, "X"),)
    assert of_text.left_out == {relabel.UNWANTED: 1}


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
    words: list[str], drawn: list[dict[str, str]], priority: list[str]
) -> None:
    document = Document(id="d", text=" ".join(words))
    with TemporaryDirectory() as folder:
        annotators = {
            name: table(Path(folder) / name, ", ".join(f"{term}:{terms[term]}" for term in terms))
            for name, terms in zip("abc", drawn, strict=True)
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
    could = {label: sum(label in terms.values() for terms in drawn) for label in "XY"}
    elected = [span[:3] for span, count in votes.items() if 2 * count > could[span.label]]
    assert [s[:3] for s in made.annotated(majority, [document])[0].spans] == sorted(elected)


# Agreement ---------------------------------------------------------------------------------------


def test_annotate__counts_mentions_by_annotators(tmp_path: Path) -> None:
    loaded = ensemble(annotators=tables(tmp_path, THREE), **MAJORITY).start()
    documents = Documents.from_documents(
        [Document(id="d", text=text) for text in ("asthma pain", "", "asthma")]
    )

    assert loaded.annotate(documents).found_by == {
        FoundBy("X", ("a", "b", "c")): 2,
        FoundBy("X", ("a", "b")): 1,
    }


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


def test_build__asks_for_labels_if_those_of_a_member_are_unknown(tmp_path: Path) -> None:
    terms = table(tmp_path / "a.csv", "asthma:Disease")
    options = {"annotators": {"ours": {"use": "gold"}, "terms": terms}, **MAJORITY}

    assert ensemble(**options).labels() == ()
    with pytest.raises(PipelineError, match=r"annotate.labels=\[\"LABEL\", …\]' among those"):
        find(
            made.pipeline_of(annotate={"use": "ensemble", **options}),
            [made.SAMPLE / "ncbi-disease"],
        )


def test_build__writes_and_prints_the_agreement(tmp_path: Path) -> None:
    """Under the names that the pipeline gives to labels, and also if there are several units."""
    members = "\n".join(
        f'[annotate.annotators.{name}]\nuse = "terms"\ntable = "{member["table"]}"'
        for name, member in tables(tmp_path, THREE).items()
    )
    (tmp_path / "mine.toml").write_text(
        '[source]\nuse = "jsonl"\n[shard]\ninput_bytes = 700\n[annotate]\nuse = "ensemble"\n'
        f'combine = "majority"\nrename = {{X = "Z"}}\nlabels = ["Z"]\n{members}\n'
    )
    texts = [f"Note {number}: asthma, pain and heart failure." for number in range(40)]
    rows = ({"id": str(number), "text": text} for number, text in enumerate(texts))
    path = tmp_path / "notes.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    words = ("--source", tmp_path / "mine.toml", "--input", path, "--tokenizer", VOCAB)

    done = run("build", *words, "--out", tmp_path / "out", "--workers", 1)

    assert done.code == 0, done.err
    manifest = read_manifest(tmp_path / "out")
    assert len(manifest.splits["train"].shards) > 1
    assert manifest.found_by == (
        FoundByRecord(label="Z", by=("a",), mentions=40),
        FoundByRecord(label="Z", by=("a", "b"), mentions=40),
        FoundByRecord(label="Z", by=("a", "b", "c"), mentions=40),
        FoundByRecord(label="Z", by=("c",), mentions=40),
    )
    split = manifest.splits["train"]
    assert (split.mentions, split.left_out[OUTVOTED.text]) == (80, 80)
    assert str(tmp_path) not in str(manifest.pipeline)
    verify(tmp_path / "out")
    for printed in (done.out, run("inspect", tmp_path / "out").out):
        assert "agreement of the annotators, by equal mentions:" in printed
        assert "Z      a      b            120         80    80  0.8000" in printed


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
