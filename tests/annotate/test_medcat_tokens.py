"""Our tokenizer for MedCAT, compared with MedCAT's own tokenizer with spaCy.

MedCAT's `regex` tokenizer is no reference: it gives overlapping mentions although nested mentions
are off (2,473 mentions in 1,345 real notes; spaCy's and ours give 2,163), and looks up tokens
linearly.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.annotate.medcat import model as medcat_model
from mslm_data.annotate.medcat.library import import_module
from mslm_data.annotate.medcat.tokenizer import WORDS
from mslm_data.annotate.plurals import singular
from tests.annotate.medcat_made import make_cat, notes, table_of, train, write_table
from tests.support.cases import long

pytest.importorskip("medcat")
spacy = pytest.importorskip("spacy")

SINGULAR = "mslm_data_test_singular"


@spacy.language.Language.component(SINGULAR)
def _singular(document: Any) -> Any:
    for token in document:
        token.lemma_ = singular(token.lower_)
    return document


@functools.cache
def both(diacritics: bool) -> tuple[Any, Any]:
    """Our tokenizer, and MedCAT's with spaCy."""
    import_module()
    settings = import_module("medcat.config.config").Config()
    settings.general.diacritics = diacritics
    ours = import_module("medcat.tokenizing.tokenizers").create_tokenizer(WORDS, settings)
    split_all = import_module("medcat.tokenizing.spacy_impl.tokenizers").spacy_split_all
    return ours, split_all(spacy.blank("en"), diacritics)


@pytest.mark.parametrize("diacritics", [False, True])
@given(text=st.text(st.sampled_from("aITZ9@. \n\r\t\xa0\u2028é-'[*(\U0001f600İKß"), max_size=40))
def test_tokenizer__splits_like_spacy(diacritics: bool, text: str) -> None:
    ours, theirs = both(diacritics)

    for token, other in zip(ours(text), theirs(text), strict=True):
        assert (token.char_index, token.text_with_ws, token.index) == (
            other.idx,
            other.text_with_ws,
            other.i,
        )
        assert (token.lower, token.is_upper) == (other.lower_, other.is_upper)
        assert (token.is_stop, token.is_digit) == (other.is_stop, other.is_digit)


def model(folder: Path, *, with_lemmas: bool) -> Any:
    """Make a model with MedCAT's spaCy tokenizer, with our singulars as lemmas or without lemmas."""
    pipeline = spacy.blank("en")
    if with_lemmas:
        pipeline.add_pipe(SINGULAR)
    pipeline.to_disk(folder / "en_test")
    settings = {
        "general.nlp.modelname": str(folder / "en_test"),
        "general.spell_check": False,
        "cdb_maker.name_versions": ["LOWER", "CLEAN"] if with_lemmas else ["LOWER"],
    }
    table = write_table(folder / "concepts.csv", table_of(200, seed=2))
    return make_cat(table, provider="spacy", settings=settings)


def entities(cat: Any, text: str) -> list[tuple[int, int, str, str, float]]:
    """Return the mentions found by MedCAT, with their confidence."""
    found = cat.get_entities(text)["entities"].values()
    return sorted(
        (e["start"], e["end"], e["cui"], e["detected_name"], float(e["acc"])) for e in found
    )


@pytest.mark.parametrize(
    ("tokenizer", "is_trained"), [("words", False), *long(("words", True), ("lemmas", False))]
)
def test_tokenizer__finds_the_mentions_of_spacy(
    tokenizer: str, is_trained: bool, tmp_path: Path
) -> None:
    theirs = model(tmp_path, with_lemmas=tokenizer == "lemmas")
    if is_trained:
        train(theirs)
    texts = notes(30, seed=3)
    expected = [entities(theirs, text) for text in texts]

    # Ours, but with MedCAT's own removal of overlaps.
    medcat_model.settle(theirs.config, where="", tokenizer=tokenizer)
    theirs.config.general.show_nested_entities = False
    ours = import_module("medcat.cat").CAT(theirs.cdb, theirs.vocab, theirs.config)

    assert [entities(ours, text) for text in texts] == expected
    assert sum(map(len, expected)) > 100
    assert any(0 < score < 1 for found in expected for *_, score in found) == is_trained
