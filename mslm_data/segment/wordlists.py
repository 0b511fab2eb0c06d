"""The words that the clinical rules look up: `vocab/clinical-sentences.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache, cached_property

from mslm_data.io import resources


@dataclass(frozen=True, kw_only=True)
class WordLists:
    """Lower-case words, and abbreviations without their last full stop.

    The file says which words belong into each list.
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
        """Words whose full stop may end no sentence."""
        return self.never | self.sometimes | self.rarely

    @cached_property
    def longest_head(self) -> int:
        """Number of characters of the longest head."""
        return max(map(len, self.heads))


@cache
def word_lists() -> WordLists:
    """Return the shipped lists, read once a process."""
    text = resources.path("vocab", "clinical-sentences.toml").read_text(encoding="utf-8")
    return WordLists(**{name: frozenset(words) for name, words in tomllib.loads(text).items()})
