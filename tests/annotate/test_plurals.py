"""Plurals and singulars of English nouns."""

from __future__ import annotations

import pytest

from mslm_data.annotate.plurals import plural, singular


@pytest.mark.parametrize(
    ("plural", "expected"),
    [
        ("headaches", "headache"), ("biopsies", "biopsy"), ("rashes", "rash"), ("abscesses", "abscess"),
        ("viruses", "virus"), ("metastases", "metastasis"), ("diagnoses", "diagnosis"), ("tumors", "tumor"),
        ("sepsis", "sepsis"), ("edematous", "edematous"), ("illness", "illness"), ("fever", "fever"),
    ],
)  # fmt: skip
def test_singular__is_of_a_noun(plural: str, expected: str) -> None:
    assert singular(plural) == expected


@pytest.mark.parametrize(
    "word",
    ["headache", "biopsy", "rash", "abscess", "virus", "metastasis", "diagnosis", "tumor", "assay", "reflex"],
)  # fmt: skip
def test_plural__is_undone_by_singular(word: str) -> None:
    assert plural(word) != word
    assert singular(plural(word)) == word
