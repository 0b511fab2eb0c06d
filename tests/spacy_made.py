"""spaCy pipelines for tests, made without downloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest


def ruler(folder: Path, patterns: Sequence[Mapping[str, Any]], *, sentences: bool = False) -> Path:
    """Save a blank English pipeline with an entity ruler, and optionally the sentencizer."""
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    if sentences:
        nlp.add_pipe("sentencizer")
    nlp.add_pipe("entity_ruler").add_patterns(list(patterns))
    nlp.to_disk(folder)
    return folder
