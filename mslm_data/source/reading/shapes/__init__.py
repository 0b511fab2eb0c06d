"""Shapes of rows: JSON objects and Arrow rows with named columns, of tools and of corpora.

A `Shape` has a test of a row, and a function that fills a `Findings` from a row. `base.py` has the
options, and what a file's first rows decide for all its rows: the shape, the column of mentions and
the meaning of ends. A row that does not fit the file's shape has the shape that fits it.

To add a shape, write both functions beside a similar shape, and add the shape to `SHAPES`: that is
its only list. A shape says its columns itself. The source `jsonl` recognises it, unless it names
another one; `formats/row_sources.py` has the names of sources that users type. What `read` uses:

| for | use |
|---|---|
| the text | `read_text` of `texts.py` |
| mentions in a usual form | `read_mentions` of `mention_forms.py` |
| a mention at offsets | `found.mentions`, an `Annotation` of `reading/standoff.py` |
| keys, lists and numbers of a row | `reading/cells.py`, whose errors need no place |
| a mention that is left out | `found.left_out[Reason("…")] += 1` |
| a row without annotation | `found.not_chosen = NotChosen(…)`, reasons in `reading/versions.py` |
| several annotations of a document | a `version` of the `Shape`; in one row, as in `argilla.py` |
| another id than that of `id_column` | `found.id` |
| a row that cannot be used | `raise RecordError`, without a place |
| a file that needs an option | `raise SourceError`, without a place |
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
