"""Annotation with MedCAT: mentions, and packs that are loaded."""

from __future__ import annotations

import csv
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mslm_data.annotate.cached import LOW_SCORE
from mslm_data.annotate.medcat.annotator import LoadedMedCat, MedCat
from mslm_data.annotate.medcat.names import FoundConcept
from mslm_data.annotate.terms.annotator import Terms
from mslm_data.data.document import Document, Placeholder
from mslm_data.data.reason import Reason
from mslm_data.errors import AnnotateError
from mslm_data.io import resources
from tests import made
from tests.annotate.medcat_made import load, make_pack, without_snapshot, write_table
from tests.cli.running import run

pytest.importorskip("medcat")
pytestmark = pytest.mark.usefixtures("private_cache")


@pytest.fixture(scope="module")
def running(pack: Path) -> LoadedMedCat:
    """The loaded pack."""
    return load(pack)


def annotate(
    running: LoadedMedCat, text: str, *placeholders: Placeholder
) -> tuple[list[str], dict[Reason, int]]:
    """Return text and label of each flat mention, and the mentions left out."""
    (found,) = running.find([Document(id="1", text=text, placeholders=placeholders)])
    spans, _ = made.flat(found.spans)
    return [f"{text[s.start : s.end]}:{s.label}" for s in spans], dict(found.left_out)


# Mentions -----------------------------------------------------------------------------------------


def test_find__returns_nested_mentions_with_labels_concepts_and_scores(
    running: LoadedMedCat,
) -> None:
    text = "Pt with CHF, low back pain.\r\nOn Aspirin\xa0daily."

    (found,) = running.find([Document(id="1", text=text)])

    assert [(text[s.start : s.end], s.label, s.concept, s.score) for s in found.spans] == [
        ("CHF", "Disease", "C9900001", 1.0),
        ("low back pain", "Symptom", "C9900003", 1.0),
        ("back pain", "Symptom", "C9900004", 1.0),
        ("pain", "Symptom", "C9900005", 1.0),
        ("Aspirin", "Treatment", "C9900006", 1.0),
    ]


@pytest.mark.parametrize(
    ("text", "expected", "reason"),
    [
        ("history of stroke", ["stroke:Disease"], None),  # The longer concept has no label.
        ("methadone dependence", ["methadone dependence:Treatment"], None),  # First of two labels.
        ("Heart; failure", ["Heart:Symptom"], "reaches across punctuation"),
        ("heart (failure)", ["heart:Symptom"], "reaches across punctuation"),
        ("congestive heart\nfailure", ["congestive heart\nfailure:Disease"], None),
        ("congestive heart\r\nfailure", ["congestive heart\r\nfailure:Disease"], None),
        ("lung\n\ncancer", [], "reaches across a blank line"),
        (
            "heart\n\n failure",
            ["heart:Symptom"],
            None,
        ),  # Three skipped tokens; MedCAT's limit is 2.
        ("lung\n-cancer", [], "reaches across a list mark"),
        ("lung cancer.", ["lung cancer:Disease"], None),
    ],
)
def test_find__worked_examples(
    running: LoadedMedCat, text: str, expected: list[str], reason: str | None
) -> None:
    mentions, left_out = annotate(running, text)

    assert mentions == expected
    assert reason is None or left_out[Reason(reason)] >= 1


def test_find__avoids_and_does_not_cross_placeholders(running: LoadedMedCat) -> None:
    text = "[**Last Name (un) pain 4**] lung [**x**]cancer, pain[**.**] pain"
    pieces = ("[**Last Name (un) pain 4**]", "[**x**]", "[**.**]")
    places = [Placeholder(text.index(piece), text.index(piece) + len(piece)) for piece in pieces]

    assert annotate(running, text, *places)[0] == ["pain:Symptom", "pain:Symptom"]
    assert len(annotate(running, text)[0]) > 2


def test_find__excludes_low_scores(pack: Path) -> None:
    running = load(pack, min_score=0.5)
    unsure: Any = SimpleNamespace(find=lambda _: [FoundConcept(0, 4, "C9900005", 0.4)])
    running._finder = unsure

    assert annotate(running, "pain") == ([], {LOW_SCORE: 1})


@pytest.mark.parametrize(
    ("tokenizer", "expected"), [("lemmas", ["headache", "headaches"]), ("words", ["headache"])]
)
def test_load__looks_up_singulars_or_words(
    tokenizer: str, expected: list[str], tmp_path: Path
) -> None:
    table = write_table(tmp_path / "c.csv", "cui,name,type_ids\nC1,headache,T184\n")
    running = load(make_pack(table, tmp_path / "pack"), tokenizer=tokenizer)

    mentions, _ = annotate(running, "headache or headaches")

    assert mentions == [f"{name}:Symptom" for name in expected]


_SEEDED = """
import json, sys
from pathlib import Path
from mslm_data.data.document import Document
from tests.annotate.medcat_made import load, notes

documents = [Document(id="", text=text) for text in notes(40, seed=1)]
print(json.dumps([one.spans for one in load(Path(sys.argv[1])).find(documents)]))
"""


@pytest.mark.long
def test_find__is_the_same_in_every_process(pack: Path) -> None:
    first, second = (
        subprocess.run(
            [sys.executable, "-c", _SEEDED, str(pack)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    )

    assert first == second
    assert first.count(b"Disease") > 20


# Packs --------------------------------------------------------------------------------------------


def test_load__finds_the_names_of_the_table_of_the_manual(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The annotator of terms finds them, too."""
    monkeypatch.chdir(tmp_path)
    without_snapshot()
    concepts = resources.path("vocab", "sample/concepts.csv")
    words = ("vocab", "concepts", "--from", concepts, "--common-words", "keep")
    assert run(*words, "--out", "terms.csv").code == 0
    page = (Path(__file__).parents[2] / "docs" / "annotators.md").read_text("utf-8")
    program = page.split("## MedCAT\n")[1].split("```python\n")[1].split("```")[0]
    with resources.path("vocab", "sample/mimic/NOTEEVENTS.csv").open(newline="") as file:
        texts = [row["TEXT"] for row in csv.DictReader(file)]
    documents = [Document(id=str(number), text=text) for number, text in enumerate(texts)]

    exec(program, {})  # noqa: S102
    by_medcat = [made.flat(one.spans)[0] for one in load(tmp_path / "pack").find(documents)]

    terms = Terms(table=str(tmp_path / "terms.csv"), plurals=True, case="short")
    by_terms = [made.flat(one.spans)[0] for one in made.annotated(terms.start(), documents)]
    assert by_medcat == by_terms
    assert sum(map(len, by_terms)) == 1168


def test_start__needs_a_pack() -> None:
    with pytest.raises(
        AnnotateError, match=r"no model_pack given; pass --set annotate\.model_pack="
    ):
        MedCat().start()


def pickled(name: str, value: object) -> Callable[[Path], object]:
    return lambda pack: (pack / name).write_bytes(pickle.dumps(value))


@pytest.mark.parametrize(
    "damage",
    [
        pickled("cdb/raw_dict.dat", 7),
        pickled("vocab/raw_dict.dat", ["not", "a", "vocabulary"]),
        lambda pack: (pack / "cdb/raw_dict.dat").write_bytes(b"x"),
        lambda pack: shutil.copy(pack / "vocab/.schema.json", pack / "cdb/.schema.json"),
        lambda pack: shutil.rmtree(pack / "cdb/config"),
        lambda pack: (pack / "model_card.json").write_text("["),
    ],
)
def test_load__names_a_pack_whose_parts_are_no_model(
    damage: Callable[[Path], object], pack: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "damaged"
    shutil.copytree(pack, copy)
    damage(copy)

    with pytest.raises(AnnotateError, match=r"damaged: expected a pack that MedCAT \S+ can load"):
        load(copy)


def test_load__needs_concepts_with_types_of_the_table(tmp_path: Path) -> None:
    snomed, untyped = (
        make_pack(write_table(tmp_path / f"{name}.csv", table), tmp_path / name)
        for name, table in [
            ("snomed", "cui,name,type_ids\n22298006,myocardial infarction,9090192\n"),
            ("untyped", "cui,name\n1,myocardial infarction\n"),
        ]
    )
    types = tmp_path / "snomed.toml"
    types.write_text('labels = ["Disorder"]\n[[type]]\ntui = "9090192"\nlabel = "Disorder"\n')

    with pytest.raises(
        AnnotateError, match="got 1 concepts with types such as 9090192; SNOMED packs have no UMLS"
    ):
        load(snomed)
    with pytest.raises(AnnotateError, match="got 1 concepts with no types"):
        load(untyped)
    running = load(snomed, types=str(types))
    assert annotate(running, "myocardial infarction")[0] == ["myocardial infarction:Disorder"]
