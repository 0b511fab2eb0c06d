"""Annotation with MedCAT: mentions and their options."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mslm_data.annotate.medcat.annotator import LoadedMedCat, MedCat
from mslm_data.annotate.plurals import singular
from mslm_data.data.document import Document, Placeholder
from mslm_data.data.reason import Reason
from mslm_data.errors import AnnotateError
from mslm_data.lexicon.concepts import concept_tables, obo
from mslm_data.lexicon.concepts.names import NameChoice, clean
from tests import made
from tests.annotate.medcat_made import annotated, found, notes, write_table

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


def test_annotate__assigns_an_ambiguous_name_to_its_primary_concept(running: LoadedMedCat) -> None:
    assert [span.concept for span in annotated(running, "a cold").spans] == ["C9900013"]


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


def test_annotate__excludes_low_scores(table: Path) -> None:
    running = MedCat(model_pack=str(table), min_score=0.5).load()
    running._cat, running._finder = _Stub(running._cat, score=0.4), None

    result = annotated(running, "pain")

    assert (result.spans, result.left_out) == ([], {Reason("score below min_score"): 1})


def test_annotate__filters_by_meta_annotations(table: Path) -> None:
    running = MedCat(model_pack=str(table)).load()
    running._options = MedCat(model_pack=str(table), keep_meta={"Status": ("Affirmed",)})
    running._finder = None
    text = "pain and stroke"

    running._cat = _Stub(running._cat, meta={"pain": "Negated", "stroke": "Affirmed"})

    assert found(running, text) == [("stroke", "Disease")]
    assert annotated(running, text).left_out == {Reason("meta-annotation Status"): 1}
    running._options = MedCat(model_pack=str(table), keep_meta={"Statsu": ("Affirmed",)})
    with pytest.raises(
        AnnotateError, match=r"expected a meta-annotation of the pack \(Status\), got 'Statsu'"
    ):
        annotated(running, text)


class _Stub:
    """MedCAT with other scores and with meta-annotations."""

    def __init__(self, cat: Any, *, score: float = 1.0, meta: dict[str, str] | None = None) -> None:
        self._cat, self._score, self._meta = cat, score, meta or {}

    def __call__(self, text: str) -> Any:
        document = self._cat(text)
        for entity in document.linked_ents:
            entity.context_similarity = self._score
        return document

    def get_addon_output(self, entity: Any) -> dict[str, Any]:
        return {
            "meta_anns": {
                "Status": {
                    "value": self._meta[entity.base.text],
                    "confidence": 1.0,
                    "name": "Status",
                }
            }
        }


def test_annotate__does_not_depend_on_other_documents(running: LoadedMedCat) -> None:
    documents = [Document(id=str(n), text=text) for n, text in enumerate(notes(30, seed=0))]

    together = running.find(documents)

    assert together == [running.find([document])[0] for document in documents]


def test_load__passes_settings_to_medcat(table: Path) -> None:
    running = MedCat(
        model_pack=str(table), settings={"components": {"ner": {"upper_case_limit_len": 3}}}
    ).load()

    assert found(running, "chf") == [("chf", "Disease")]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["headache", "headaches"]),
        ({"tokenizer": "words"}, ["headaches"]),
        ({"settings": {"cdb_maker": {"name_versions": ["LOWER"]}}}, ["headaches"]),
    ],
)
def test_load__reads_the_names_of_a_table_with_its_options(
    options: dict[str, Any], expected: list[str], tmp_path: Path
) -> None:
    (tmp_path / "c.csv").write_text("cui,name,type_ids\nC1,headaches,T184\n", encoding="utf-8")
    running = MedCat(model_pack=str(tmp_path / "c.csv"), **options).load()

    assert [text for text, _ in found(running, "headache or headaches")] == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"components": {"nre": {}}},
            "annotate.settings.components: MedCAT has no setting 'nre'; did you mean 'ner'",
        ),
        (
            {"general": {"separator": ["~"]}},
            "annotate.settings.general.separator: expected a value like '~'",
        ),
    ],
)
def test_start__rejects_unknown_settings(
    settings: dict[str, Any], message: str, table: Path
) -> None:
    with pytest.raises(AnnotateError, match=message):
        MedCat(model_pack=str(table), settings=settings).start()


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

    results = made.annotated(MedCat(model_pack=str(table)).start(), documents)

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
    assert mentions == 2302


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
        obo.read(ontology, ("T047",), choice, Counter()),
        concept_tables.read(drugs, ("T121",), choice, Counter()),
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
