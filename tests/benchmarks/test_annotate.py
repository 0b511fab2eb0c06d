"""Generated notes with concepts, and builds of them."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from benchmarks import annotate, concepts, inputs, notes
from benchmarks.annotate import Corpus
from tests.annotate.medcat_made import make_pack

SAMPLE = inputs.ROOT / "vocab" / "sample"
ONTOLOGY = r"""format-version: 1.2

[Term]
id: DOID:1
name: angiosarcoma
synonym: "so-called \"sarcoma\"" EXACT []
synonym: "tumour" BROAD []
synonym: "angiosarcoma" EXACT []

[Term]
id: DOID:2
name: obsolete gout
is_obsolete: true
"""


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_write__takes_exact_names_of_terms_in_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MSLM_DATA_REAL", str(tmp_path))
    (tmp_path / "concepts" / "disease_ontology").mkdir(parents=True)
    (tmp_path / "concepts" / "disease_ontology" / "doid_2016-03-04.obo").write_text(ONTOLOGY)
    (tmp_path / "concepts" / "drugbank_open").mkdir()
    (tmp_path / "concepts" / "drugbank_open" / "drugbank_vocabulary.csv").write_text(
        "DrugBank ID,Common name,Synonyms\nDB1,Aspirin,Acetylsalicylate | Aspirin\n"
    )

    says = concepts.write(tmp_path / "table.csv")

    rows = {
        (row["cui"], row["name_status"], row["name"]) for row in rows_of(tmp_path / "table.csv")
    }
    assert rows == {
        ("DOID1", "P", "angiosarcoma"),
        ("DOID1", "A", 'so-called "sarcoma"'),
        ("DB1", "P", "Aspirin"),
        ("DB1", "A", "Acetylsalicylate"),
    }
    assert says == "4 names of 2 concepts of the Disease Ontology and DrugBank"


def test_write__invents_the_requested_number_of_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MSLM_DATA_REAL", str(tmp_path / "nowhere"))

    concepts.write(tmp_path / "a.csv", names=2000)
    concepts.write(tmp_path / "b.csv", names=2000)

    names = [row["name"] for row in rows_of(tmp_path / "a.csv")]
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert 2000 <= len(names) < 2010
    assert len(set(names)) > 1950
    assert "hypertension" in names
    assert not any("|" in name for name in names)


def test_terms__are_single_names() -> None:
    known = notes.terms(SAMPLE / "concepts.csv")

    assert "high blood pressure" in known["d"]
    assert not any("|" in name for names in known.values() for name in names)


def test_terms__need_the_table(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"concept\.csv"):
        notes.terms(tmp_path / "concept.csv")


@pytest.mark.long
@pytest.mark.timeout(900)  # compiles kernels if none are cached
def test_measure__makes_rows_of_equal_builds(tmp_path: Path) -> None:
    pytest.importorskip("medcat")
    table = SAMPLE / "concepts.csv"
    notes.write(tmp_path / "NOTEEVENTS.csv", notes=60)
    pack = make_pack(table, tmp_path / "pack")
    corpus = Corpus(tmp_path / "NOTEEVENTS.csv", table, pack)
    found = inputs.Inputs(tmp_path / "unread", SAMPLE / "vocab.txt", "the sample's vocabulary")

    rows = annotate.measure(corpus, found, tmp_path, rounds=1)

    assert [row.name for row in rows] == [
        "build notes with `terms`, one worker",
        "build notes with `terms`, a second of a core",
        "build notes with `medcat`, one worker",
        "build notes with `medcat`, a second of a core",
        "build notes with `medcat`, two workers",
    ]
    assert all(row.ours for row in rows)
    assert "from 60 notes to shards with " in rows[0].what


@pytest.mark.long
def test_phrases__finds_the_same_phrases_as_spacy(tmp_path: Path) -> None:
    pytest.importorskip("spacy")
    notes.write(tmp_path / "NOTEEVENTS.csv", notes=12)

    (row,) = annotate._phrases(SAMPLE / "concepts.csv", tmp_path / "NOTEEVENTS.csv")

    found = re.search(r"; ([\d,]+) of its ([\d,]+) mentions are among our ([\d,]+);", row.what)
    assert found
    shared, theirs, ours = (int(number.replace(",", "")) for number in found.groups())
    assert 0 < 0.95 * theirs <= shared <= ours
    assert row.ours
    assert row.peer
