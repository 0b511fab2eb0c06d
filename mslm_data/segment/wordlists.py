"""Word lists of the clinical rules, in `vocab/clinical-sentences.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache, cached_property

from mslm_data.io import resources


@dataclass(frozen=True, kw_only=True)
class WordLists:
    """Lists of lower-case words, and of abbreviations without the final full stop.

    The file explains each list.
    """

    never: frozenset[str]
    sometimes: frozenset[str]
    rarely: frozenset[str]
    starters: frozenset[str]
    lettered: frozenset[str]
    joiners: frozenset[str]
    heads: frozenset[str]

    @cached_property
    def abbreviations(self) -> frozenset[str]:
        """All abbreviations: a full stop after these may not end a sentence."""
        return self.never | self.sometimes | self.rarely

    @cached_property
    def longest_head(self) -> int:
        """Length of the longest heading, in characters."""
        return max(map(len, self.heads))


@cache
def word_lists() -> WordLists:
    """Load the shipped lists, once per process."""
    text = resources.path("vocab", "clinical-sentences.toml").read_text(encoding="utf-8")
    return WordLists(**{name: frozenset(words) for name, words in tomllib.loads(text).items()})
