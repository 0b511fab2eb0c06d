"""Plurals and singulars of English nouns, by rules."""

from __future__ import annotations

_NOT_PLURAL = ("ss", "us", "is", "ous")
_ENDINGS = (
    ("aches", "ache"), ("ches", "ch"), ("shes", "sh"), ("sses", "ss"), ("xes", "x"),
    ("ruses", "rus"), ("stases", "stasis"), ("noses", "nosis"), ("roses", "rosis"),
    ("moses", "mosis"), ("ies", "y"), ("s", ""),
)  # fmt: skip
"""Plural ending and its singular; the first match is used."""


def singular(word: str) -> str:
    """Return the singular of a lower-case English noun: `headaches` -> `headache`.

    The rules may change singulars too (`diabetes`). This is harmless, since names and texts change
    in the same way, and are also looked up as written. MedCAT does not normalise words of fewer
    than five letters.
    """
    if not word.endswith("s") or word.endswith(_NOT_PLURAL):
        return word
    for ending, replacement in _ENDINGS:
        if word.endswith(ending):
            return word[: -len(ending)] + replacement
    return word


def plural(word: str) -> str:
    """Return the plural of an English noun: `biopsy` -> `biopsies`."""
    if word.endswith("sis"):
        return word.removesuffix("is") + "es"
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and not word.endswith(("ay", "ey", "oy", "uy")):
        return word.removesuffix("y") + "ies"
    return word + "s"
