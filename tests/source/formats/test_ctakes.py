"""Files of cTAKES, with cassis as an independent reader and writer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cassis
import pytest

from mslm_data.data.document import Document, Part, Span
from mslm_data.source import Sample
from mslm_data.source.formats.cas import Cas
from mslm_data.source.formats.ctakes import Ctakes
from mslm_data.source.recognise import recognise

TYPES = "org.apache.ctakes.typesystem.type"
TEXT = "\U0001f600 She took aspirin for gout, no fever."
CONCEPTS = "ontologyConceptArr"


def types(*, shared: bool) -> cassis.TypeSystem:
    """Return the part of cTAKES' type system that is read, with a type of a user.

    `shared` arrays are elements of their own, others are lists of ids.
    """
    made = cassis.TypeSystem()
    concept = made.create_type(f"{TYPES}.refsem.OntologyConcept", "uima.cas.TOP")
    for name in ("codingScheme", "code"):
        made.create_feature(concept, name, "uima.cas.String")
    umls = made.create_type(f"{TYPES}.refsem.UmlsConcept", concept.name)
    for name in ("cui", "tui", "preferredText"):
        made.create_feature(umls, name, "uima.cas.String")
    mention = made.create_type(f"{TYPES}.textsem.IdentifiedAnnotation", "uima.tcas.Annotation")
    made.create_feature(
        mention,
        CONCEPTS,
        "uima.cas.FSArray",
        elementType=concept.name,
        multipleReferencesAllowed=shared,
    )
    made.create_feature(mention, "polarity", "uima.cas.Integer")
    for name in ("MedicationMention", "DiseaseDisorderMention", "SignSymptomMention", "Modifier"):
        made.create_type(f"{TYPES}.textsem.{name}", mention.name)
    made.create_type("ward.JointDisorderMention", f"{TYPES}.textsem.DiseaseDisorderMention")
    made.create_type(f"{TYPES}.textspan.Sentence", "uima.tcas.Annotation")
    return made


def cas(*, shared: bool) -> cassis.Cas:
    system = types(shared=shared)
    made = cassis.Cas(typesystem=system)
    made.sofa_string = TEXT
    array = system.get_type("uima.cas.FSArray")
    umls = system.get_type(f"{TYPES}.refsem.UmlsConcept")
    for name, words, polarity, cuis in (
        (f"{TYPES}.textsem.MedicationMention", "aspirin", 1, ["C1", "C2", "C1"]),
        ("ward.JointDisorderMention", "gout", 1, ["C3"]),
        (f"{TYPES}.textsem.SignSymptomMention", "fever", -1, []),
        (f"{TYPES}.textsem.Modifier", "took", 1, []),
    ):
        begin = TEXT.index(words)
        mention = system.get_type(name)(begin=begin, end=begin + len(words), polarity=polarity)
        if cuis:
            mention[CONCEPTS] = array(elements=[umls(cui=cui, code="7") for cui in cuis])
        made.add(mention)
    made.add(system.get_type(f"{TYPES}.textspan.Sentence")(begin=0, end=len(TEXT)))
    return made


def write(folder: Path, form: str, *, shared: bool) -> Path:
    made = cas(shared=shared)
    path = folder / f"note.txt.{form}"
    if form == "json":
        made.to_json(path)
    else:
        made.to_xmi(path)
        made.typesystem.to_xml(folder / "TypeSystem.xml")
    return path


def document(path: Path, **options: Any) -> Document:
    (record,) = Ctakes(**options).read(Part(str(path)))
    assert isinstance(record, Document), record
    return record


@pytest.mark.parametrize("form", ["xmi", "json"])
@pytest.mark.parametrize("shared", [False, True])
def test_read__agrees_with_cassis(tmp_path: Path, form: str, *, shared: bool) -> None:
    path = write(tmp_path, form, shared=shared)

    found = document(path, mention_types=("MedicationMention", "DiseaseDisorderMention"))

    if form == "json":
        given = cassis.load_cas_from_json(path.read_text(encoding="utf-8"))
    else:
        given = cassis.load_cas_from_xmi(path, typesystem=types(shared=shared))
    expected = [
        (
            one.begin,
            one.end,
            one.type.name.rpartition(".")[2].removesuffix("Mention"),
            "|".join(dict.fromkeys(concept.cui for concept in one[CONCEPTS].elements)),
        )
        for name in ("MedicationMention", "DiseaseDisorderMention")
        for one in given.select(f"{TYPES}.textsem.{name}")
    ]
    assert [tuple(span[:4]) for span in found.spans] == expected
    assert [span.concept for span in found.spans] == ["C1|C2", "C3"]
    assert found.text == given.sofa_string
    assert found.sentences is not None
    assert [span.label for span in found.spans] == ["Medication", "JointDisorder"]


@pytest.mark.parametrize("form", ["xmi", "json"])
def test_read__keeps_or_leaves_out_negated_mentions(tmp_path: Path, form: str) -> None:
    path = write(tmp_path, form, shared=False)

    kept = document(path)
    without = document(path, negated="leave_out")

    begin = TEXT.index("fever")
    fever = Span(begin, begin + 5, "SignSymptom")
    assert set(kept.spans) - set(without.spans) == {fever}
    assert {reason.text: count for reason, count in without.unplaced.items()} == {
        "context is negated": 1
    }
    assert all(reason.is_rule for reason in without.unplaced)


@pytest.mark.parametrize("form", ["xmi", "json"])
def test_recognise__takes_the_types_of_ctakes_for_its_own(tmp_path: Path, form: str) -> None:
    path = write(tmp_path, form, shared=False)

    assert recognise([tmp_path]).what == "ctakes"
    assert not Cas().sniff(Sample(path, path.read_bytes())).why


def test_read__needs_no_type_system_for_the_types_of_ctakes(tmp_path: Path) -> None:
    path = write(tmp_path, "xmi", shared=False)
    (tmp_path / "TypeSystem.xml").unlink()

    found = document(path)

    # A user's subtype is unknown, but it has concepts.
    assert [span.label for span in found.spans] == ["Medication", "SignSymptom"]
    assert {reason.text: count for reason, count in found.unplaced.items()} == {
        "of a type that is not read": 1
    }
