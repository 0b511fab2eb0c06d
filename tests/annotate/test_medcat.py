"""Annotation with MedCAT: mentions and their options."""

from __future__ import annotations

import csv
import gzip
import io
import re
from pathlib import Path
from typing import Any

import pytest

from mslm_data.annotate.medcat.annotator import LoadedMedCat, MedCat
from mslm_data.annotate.medcat.pack import digest
from mslm_data.annotate.plurals import singular
from mslm_data.data.document import Document, Placeholder
from mslm_data.data.reason import Reason
from mslm_data.lexicon.concepts import concept_tables, obo
from mslm_data.lexicon.concepts.names import NameChoice, NameTally, clean
from tests import made
from tests.annotate.medcat_made import annotated, found, load, make_pack, notes, write_table

pytest.importorskip("medcat")


def test_annotate__returns_concepts_labels_and_scores(running: LoadedMedCat) -> None:
    text = "Pt with CHF, low back pain.\r\nOn Aspirin\xa0daily."

    spans = annotated(running, text).spans

    assert spans == sorted(spans)
    assert [(text[s.start : s.end], s.label, s.concept, s.score) for s in made.flat(spans)[0]] == [
        ("CHF", "Disease", "C9900001", 1.0), ("low back pain", "Symptom", "C9900003", 1.0),
        ("Aspirin", "Treatment", "C9900006", 1.0),
    ]  # fmt: skip


def test_annotate__returns_nested_mentions_for_flatten(running: LoadedMedCat) -> None:
    text = "low back pain"

    assert [text[s.start : s.end] for s in annotated(running, text).spans] == [
        "low back pain",
        "back pain",
        "pain",
    ]


def test_annotate__finds_mentions_beside_concepts_of_other_types(running: LoadedMedCat) -> None:
    assert found(running, "history of stroke") == [("stroke", "Disease")]


def test_annotate__uses_the_first_of_two_labels(running: LoadedMedCat) -> None:
    assert found(running, "methadone dependence") == [("methadone dependence", "Treatment")]


@pytest.mark.parametrize(
    ("text", "expected", "reason"),
    [
        ("Heart; failure", ["Heart"], "reaches across punctuation"),
        ("heart (failure)", ["heart"], "reaches across punctuation"),
        ("congestive heart\nfailure", ["congestive heart\nfailure"], None),
        ("congestive heart\r\nfailure", ["congestive heart\r\nfailure"], None),
        ("lung\n\ncancer", [], "reaches across a blank line"),
        ("heart\n\n failure", ["heart"], None),  # Three skipped tokens; MedCAT's own limit is two.
        ("lung\n-cancer", [], "reaches across a list mark"),
        ("heart\n- failure", ["heart"], None),  # The same.
        ("lung cancer.", ["lung cancer"], None),
    ],
)
def test_annotate__does_not_cross_sentences(
    running: LoadedMedCat, text: str, expected: list[str], reason: str | None
) -> None:
    result = annotated(running, text)

    assert [text for text, _ in found(running, text)] == expected
    assert reason is None or result.left_out[Reason(reason)] >= 1


def test_annotate__avoids_and_does_not_cross_placeholders(running: LoadedMedCat) -> None:
    text = "[**Last Name (un) pain 4**] lung [**x**]cancer, pain[**.**] pain"
    places = _places(text, "[**Last Name (un) pain 4**]", "[**x**]", "[**.**]")

    assert found(running, text, *places) == [("pain", "Symptom"), ("pain", "Symptom")]
    assert len(found(running, text)) > 2


def _places(text: str, *pieces: str) -> list[Placeholder]:
    return [Placeholder(text.index(piece), text.index(piece) + len(piece)) for piece in pieces]


def test_annotate__excludes_low_scores(pack: Path) -> None:
    running = load(pack, min_score=0.5)
    running._cat, running._finder = _Unsure(running._cat), None

    result = annotated(running, "pain")

    assert (result.spans, result.left_out) == ([], {Reason("score below min_score"): 1})


class _Unsure:
    """MedCAT with low scores."""

    def __init__(self, cat: Any) -> None:
        self._cat = cat

    def __call__(self, text: str) -> Any:
        document = self._cat(text)
        for entity in document.linked_ents:
            entity.context_similarity = 0.4
        return document


def test_annotate__does_not_depend_on_other_documents(running: LoadedMedCat) -> None:
    documents = [Document(id=str(n), text=text) for n, text in enumerate(notes(30, seed=0))]

    together = running.find(documents)

    assert together == [running.find([document])[0] for document in documents]


@pytest.mark.parametrize(
    ("tokenizer", "expected"),
    [("lemmas", ["headache", "headaches"]), ("words", ["headache"])],
)
def test_load__looks_up_singulars_or_words(
    tokenizer: str, expected: list[str], tmp_path: Path
) -> None:
    table = write_table(tmp_path / "c.csv", "cui,name,type_ids\nC1,headache,T184\n")
    pack = make_pack(table, tmp_path / "pack")

    loaded = load(pack, tokenizer=tokenizer)

    assert [text for text, _ in found(loaded, "headache or headaches")] == expected


def test_annotate__finds_mentions_in_real_notes(real: Path, tmp_path: Path) -> None:
    with gzip.open(
        real / "clinical" / "notes" / "NOTEEVENTS.csv.gz", "rt", encoding="utf-8", newline=""
    ) as file:
        texts = [row["TEXT"] for row in csv.DictReader(file) if row["ISERROR"] != "1"]
    documents = [
        Document(id=str(number), text=text, placeholders=places_in(text))
        for number, text in enumerate(texts)
    ]
    table = write_table(tmp_path / "concepts.csv", real_concepts(real / "concepts", texts))

    pack = make_pack(table, tmp_path / "pack")
    annotator = MedCat(model_pack=str(pack), sha256=digest(pack))

    results = made.annotated(annotator.start(), documents)

    mentions = 0
    for document, result in zip(documents, results, strict=True):
        spans, _ = made.flat(result.spans)
        mentions += len(spans)
        for span in spans:
            name = document.text[span.start : span.end]
            assert name == name.strip()
            assert name
            assert not any(
                place.start < span.end and span.start < place.end for place in document.placeholders
            )
    assert len(documents) == 1324
    assert mentions == 2254


def places_in(text: str) -> tuple[Placeholder, ...]:
    marks = re.finditer(r"\[\*\*.*?\*\*\]", text, re.DOTALL)
    return tuple(Placeholder(*mark.span()) for mark in marks)


def real_concepts(folder: Path, texts: list[str]) -> str:
    """Make a table of the real names with all words in these texts.

    MedCAT needs ten seconds for the other nine tenths of the names.
    """
    choice = NameChoice(xref="UMLS_CUI")
    ontology = folder / "disease_ontology/doid_2016-03-04.obo"
    drugs = folder / "drugbank_open/drugbank_vocabulary.csv"
    read = (
        obo.read(ontology, ("T047",), choice, NameTally()),
        concept_tables.read(drugs, ("T121",), choice, NameTally()),
    )
    names = [name._replace(name=clean(name.name)) for of_file in read for name in of_file]
    words = {singular(word) for text in texts for word in words_of(text)}
    rows = [
        (name.concept, name.name, name.source, name.status, "|".join(name.types), "")
        for name in names
        if all(singular(word) in words for word in words_of(name.name))
    ]
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["cui", "name", "ontologies", "name_status", "type_ids", "description"])
    writer.writerows(rows)
    return out.getvalue()


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())
