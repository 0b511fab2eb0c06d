"""The words that the clinical rules look up: `vocab/clinical-sentences.toml`, read once a process."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache

from mslm_data.io import resources


@dataclass(frozen=True, kw_only=True)
class WordLists:
    """Lower-case words, abbreviations without their last full stop; the file says what each list is for."""

    never: frozenset[str]
    sometimes: frozenset[str]
    rarely: frozenset[str]
    starters: frozenset[str]
    lettered: frozenset[str]
    joiners: frozenset[str]
    heads: frozenset[str]


@cache
def word_lists() -> WordLists:
    """Return the shipped lists."""
    text = resources.path("vocab", "clinical-sentences.toml").read_text(encoding="utf-8")
    return WordLists(**{name: frozenset(words) for name, words in tomllib.loads(text).items()})
