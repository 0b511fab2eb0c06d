"""Shapes of rows: JSON objects and Arrow rows with named columns, of tools and of corpora.

A `Shape` has a test of a row, and a function that fills a `Findings` from a row. `base.py` has the
options, and what a file's first rows decide for all its rows: the shape, the column of mentions and
the meaning of ends. A row that does not fit the file's shape has the shape that fits it.

To add a shape, write both functions beside a similar shape, and add the shape to `SHAPES`: that is
its only list. A shape says its columns itself. The source `jsonl` recognises it, unless it names
another one; `formats/row_sources.py` has the names of sources that users type.
"""

from __future__ import annotations

from mslm_data.source.reading.shapes import (
    argilla,
    chats,
    extractions,
    label_studio,
    medcattrainer,
    texts,
    words,
)
from mslm_data.source.reading.shapes.base import IDS, Shape

__all__ = ["COLUMNS", "SHAPES"]

SHAPES: tuple[Shape, ...] = (
    label_studio.TASK,
    label_studio.MIN,
    texts.PRODIGY,
    medcattrainer.MEDCATTRAINER,
    texts.BIOC,
    extractions.LANGEXTRACT,
    extractions.GLINER2,
    chats.CHAT,
    words.GLINER,
    texts.ARGILLA_1,
    argilla.ARGILLA_2,
    words.SCIERC,
    words.DOCRED,
    words.WORDS_WITH_SPANS,
    words.WORDS_WITH_TAGS,
    texts.BIGBIO,
    texts.DOCCANO,
    texts.SEGMENTS,
    texts.TEXT,
)
"""A row has the first shape that fits it."""

COLUMNS = frozenset(IDS).union(*(shape.read_columns for shape in SHAPES))
"""All columns that are read by name."""
