"""Escapes text of a corpus or a model for dataset and model cards (README.md with YAML)."""

from __future__ import annotations

import html
import json
import re

from mslm_data.log import plain

_MARKUP = re.compile(r"[\\`*\[\]|]|(?<!\w)_|_(?!\w)")
"""Characters that start Markdown markup. `_` does not within a word."""
_PLAIN = re.compile(r"[A-Za-z][\w./*-]*", re.ASCII)
"""Strings that need no quotes in YAML, except `_YAML_VALUES`."""
_YAML_VALUES = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def markdown(words: str) -> str:
    """Escape text for Markdown: the result has no markup, no HTML and no line ends."""
    return _MARKUP.sub(r"\\\g<0>", html.escape(plain(words), quote=False))


def yaml(word: str) -> str:
    """Return a YAML scalar for a string, in quotes if necessary."""
    is_text = _PLAIN.fullmatch(word) and word.lower() not in _YAML_VALUES
    return word if is_text else json.dumps(word)
