"""The fast concept finder, compared with MedCAT's own components."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import pytest

from mslm_data.annotate.medcat import model as medcat_model
from mslm_data.annotate.medcat import names
from mslm_data.annotate.medcat.library import import_module
from mslm_data.annotate.medcat.names import FoundConcept, make_finder, read_concepts
from mslm_data.errors import AnnotateError
from mslm_data.io import resources
from tests.annotate.medcat_made import (
    load,
    make_cat,
    make_pack,
    notes,
    table_of,
    train,
    write_table,
)

pytest.importorskip("medcat")
pytestmark = pytest.mark.usefixtures("private_cache")

SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "short names": {"components.ner.min_name_len": 1, "components.ner.upper_case_limit_len": 2},
    "long names": {"components.ner.min_name_len": 5, "components.ner.upper_case_limit_len": 9},
    "nothing skipped": {"components.ner.max_skip_tokens": 0},
    "much skipped": {
        "components.ner.max_skip_tokens": 5,
        "preprocessing.skip_stopwords": True,
        "preprocessing.keep_punct": {":"},
    },
    "all by context": {"components.linking.disamb_length_limit": 99},
    "some left out": {"components.linking.filters.cuis_exclude": {"C9900001"}},
}


Place = tuple[int, int, str, float]


def plain(found: list[FoundConcept]) -> list[Place]:
    """Return mentions without MedCAT's objects."""
    return sorted((one.start, one.end, one.concept, one.similarity) for one in found)


def agreed(cat: Any, texts: list[str]) -> list[Place]:
    """Find concepts in both ways, assert that they agree, and return them."""
    finder = make_finder(cat)
    assert finder is not None

    every = []
    for text in texts:
        expected = plain(read_concepts(cat(text)))
        assert plain(finder.find(text)) == expected
        every += expected
    return every


@pytest.mark.parametrize(
    ("tokenizer", "what"), [("words", "defaults"), *(("lemmas", what) for what in SETTINGS)]
)
def test_find__equals_medcat(tokenizer: str, what: str, tmp_path: Path) -> None:
    table = write_table(tmp_path / "concepts.csv", table_of(300, seed=1))
    running = load(make_pack(table, tmp_path / "pack", SETTINGS[what]), tokenizer=tokenizer)

    every = agreed(running._cat, ["", " ", *notes(40, seed=2)])

    assert (len(every) > 100) == (what != "all by context")


def test_find__equals_medcat_when_contexts_decide(tmp_path: Path) -> None:
    cat = make_cat(write_table(tmp_path / "concepts.csv", table_of(200, seed=2)))
    train(cat)
    medcat_model.settle(cat.config, where="", tokenizer="lemmas")

    every = agreed(
        import_module("medcat.cat").CAT(cat.cdb, cat.vocab, cat.config), notes(20, seed=3)
    )

    assert {0 < score < 1 for *_, score in every} == {True, False}


@pytest.mark.long
def test_find__equals_medcat_in_real_notes(real: Path, tmp_path: Path) -> None:
    path = real / "clinical" / "notes" / "NOTEEVENTS.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        texts = [row["TEXT"] for row in csv.DictReader(file)]
    running = load(make_pack(resources.path("vocab", "sample/concepts.csv"), tmp_path / "pack"))

    assert len(agreed(running._cat, texts)) > 1000


def test_find__results_do_not_depend_on_the_cache(
    pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "_MAX_KNOWN", 5)
    running = load(pack)

    agreed(running._cat, notes(20, seed=4))


@pytest.mark.parametrize(
    "settings",
    [
        {"components.ner.check_upper_case_names": True},
        {"components.ner.try_reverse_word_order": True},
        {"components.linking.always_calculate_similarity": True},
        {"components.linking.similarity_threshold_type": "dynamic"},
        {"components.linking.similarity_threshold": 1.5},
    ],
)
def test_make_finder__uses_medcat_for_rare_settings(
    settings: dict[str, Any], table: Path, tmp_path: Path
) -> None:
    running = load(make_pack(table, tmp_path / "pack", settings))

    assert make_finder(running._cat) is None
    assert plain(running._concepts("low back pain")) == plain(
        read_concepts(running._cat("low back pain"))
    )


def test_load__rejects_components_that_it_would_replace(table: Path) -> None:
    cat = make_cat(table)
    cat.config.components.tagging.comp_name = "mine"

    with pytest.raises(AnnotateError, match="own component tagging, got 'mine'"):
        medcat_model.settle(cat.config, where="pack", tokenizer="words")
