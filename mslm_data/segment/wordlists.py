"""Word lists of the clinical rules, in `vocab/clinical-sentences.toml`, which explains each list.

Words are in lower case, and abbreviations without the final full stop.
"""

from __future__ import annotations

import tomllib

from mslm_data.io import resources

_TABLE = tomllib.loads(
    resources.path("vocab", "clinical-sentences.toml").read_text(encoding="utf-8")
)

NEVER = frozenset(_TABLE["never"])
SOMETIMES = frozenset(_TABLE["sometimes"])
RARELY = frozenset(_TABLE["rarely"])
STARTERS = frozenset(_TABLE["starters"])
LETTERED = frozenset(_TABLE["lettered"])
JOINERS = frozenset(_TABLE["joiners"])
HEADS = frozenset(_TABLE["heads"])

ABBREVIATIONS = NEVER | SOMETIMES | RARELY
"""A full stop after these may not end a sentence."""
LONGEST_HEAD = max(map(len, HEADS))
"""Length of the longest heading, in characters."""
