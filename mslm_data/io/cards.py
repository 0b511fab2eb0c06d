"""Writes words that came from a corpus or a model into cards: README.md with YAML at its top."""

from __future__ import annotations

import html
import json
import re

from mslm_data.log import plain

_MARKUP = re.compile(r"[\\`*\[\]|]|(?<!\w)_|_(?!\w)")
"""Characters that begin markup where they stand."""
_PLAIN = re.compile(r"[A-Za-z][\w./*-]*", re.ASCII)
"""Words that are text in YAML without quotes, unless they are among these."""
_YAML_VALUES = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def markdown(words: str) -> str:
    """Return words as Markdown shows them: nothing in them is markup, HTML, or ends a line."""
    return _MARKUP.sub(r"\\\g<0>", html.escape(plain(words), quote=False))


def yaml(word: str) -> str:
    """Return a word as a value of YAML, in quotes unless it is plain."""
    is_text = _PLAIN.fullmatch(word) and word.lower() not in _YAML_VALUES
    return word if is_text else json.dumps(word)
