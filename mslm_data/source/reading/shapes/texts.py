"""Shapes with running text: mentions at offsets in characters, and passages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mslm_data.data.document import NotChosen
from mslm_data.data.reason import Reason
from mslm_data.source.form import Findings
from mslm_data.source.formats import bioc
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.records import NAME_THE_TEXT, NO_TOKEN, RecordError
from mslm_data.source.reading.shapes.base import MENTIONS, TEXTS, RowsFile, Shape
from mslm_data.source.reading.shapes.mention_forms import look_like_mentions, read_mentions
from mslm_data.source.reading.standoff import Annotation
from mslm_data.source.reading.versions import IGNORED, REJECTED, UNANNOTATED, Version

_ANSWERS = {"reject": REJECTED, "ignore": IGNORED}
"""Prodigy's answers other than "accept"."""
_COMMENTS = ("Comments", "comments", "annotation_approver")
PREDICTIONS = frozenset({"predictions", "prediction"})
_NO_MENTIONS = PREDICTIONS | {
    *("relations", "events", "coreferences", "tokens", "words", "noun_chunks", "Comments"),
}
"""Columns of tools and programs that may look like mentions, but are not."""


# A text and a column of mentions: spaCy's JSON, and output of most programs ----------------------


def read_text(row: Cells, file: RowsFile) -> str:
    """Return the text of a row: of the column named by `text_column`, or of `text` or `data`."""
    column = file.options.text_column
    if column != "auto":
        text = cells.lookup(row, column)
        if not (isinstance(text, str) and text):
            raise RecordError(
                Reason(f"expected a text in column '{column}', got none", advice=NAME_THE_TEXT)
            )
        return text

    text = row.get("text")
    if text is None:
        text = row.get(cells.first_filled(row, TEXTS) or "")
    # The column exists, so the row has this shape, and only lacks a text.
    if text == "" or (text is None and "text" in row):
        raise RecordError(NO_TOKEN)
    if not isinstance(text, str):
        got = f", but {file.show_keys(row, noun='column')}" if row else ""
        raise RecordError(
            Reason(
                "expected the columns tokens and ner_tags, or text and entities, or passages and "
                f"entities, got none of them{got}",
                code="columns of rows",
                advice=NAME_THE_TEXT,
            )
        )
    return text


def _find_column(row: Cells, file: RowsFile) -> str:
    """Return the column of a row's mentions, "" if it has none."""
    option = file.options.mentions_column
    if option != "auto":
        return option
    if row.get(file.mentions_column) is not None:
        return file.mentions_column
    filled = (name for name in MENTIONS if look_like_mentions(row.get(name)))
    return next(filled, "") or cells.first_filled(row, MENTIONS) or ""


def _read(row: Cells, file: RowsFile, found: Findings, column: str) -> None:
    """Read the text, the mentions in a column, and the sentences."""
    text = read_text(row, file)
    found.text = text
    value = cells.lookup(row, column)
    if value is not None:
        found.mentions = read_mentions(value, column, file, found)

    for name in ("sentences", "sents"):
        sentences = row.get(name)
        if sentences is not None and name != file.options.text_column:
            found.sentences = cells.sentences(cells.objects(sentences), text)
            return


def _read_text_with_mentions(row: Cells, file: RowsFile, found: Findings) -> None:
    _read(row, file, found, _find_column(row, file))


def _has_text_and_mentions(row: Cells) -> bool:
    has_text = any(isinstance(row.get(name), str) for name in TEXTS)
    return has_text and any(look_like_mentions(row.get(column)) for column in MENTIONS)


_COLUMNS = frozenset({"sentences", "sents", *MENTIONS})

TEXT = Shape(  # text, entities [[start, end, label]]
    name="text with mentions",
    fits=lambda _: True,
    read=_read_text_with_mentions,
    texts=frozenset(TEXTS),
    columns=_COLUMNS,
    ignored=_NO_MENTIONS,
    is_complete=False,
    why="its rows have text with mentions",
    shows=_has_text_and_mentions,
)


# A text in segments -------------------------------------------------------------------------------

_SEGMENTS = ("segments", "data")
_SEGMENT_TEXTS = ("text", "t", "value", "content", "words", "word")


def _find_segments(row: Cells) -> str:
    """Return the column with the segments of a text, "" if there is none."""
    if any(isinstance(row.get(name), str) for name in TEXTS):
        return ""
    found = [name for name, value in row.items() if _are_segments(value, name)]
    return found[0] if len(found) == 1 else ""


def _are_segments(values: object, column: str) -> bool:
    """Return whether values are texts and objects with a text, some with a label and some not.

    In a column of a known name they may lack labels.
    """
    if not isinstance(values, list) or not values:
        return False
    segments = [*map(_read_segment, values)]
    have_label = {bool(segment[1]) for segment in segments if segment}
    are_both = have_label == {True, False} or column in _SEGMENTS
    return all(segments) and are_both


def _read_segment(value: object) -> tuple[str, str] | None:
    """Return the text and the label of a segment, None for another value."""
    if isinstance(value, str):
        return value, ""
    if not isinstance(value, Mapping) or look_like_mentions([value]):
        return None
    text = value.get(cells.first_filled(value, _SEGMENT_TEXTS) or "")
    label = value.get(cells.first_filled(value, cells.LABELS) or "", "")
    return (text, label) if isinstance(text, str) and isinstance(label, str) else None


def _read_segments(row: Cells, _: RowsFile, found: Findings) -> None:
    """Read the segments of a text. Those with a label are mentions."""
    pieces: list[str] = []
    place = 0
    for value in row[_find_segments(row)]:
        text, label = _read_segment(value) or ("", "")
        if label:
            found.mentions.append(Annotation([(place, place + len(text))], label))
        pieces.append(text)
        place += len(text)
    found.text = "".join(pieces)
    found.is_exact = True


SEGMENTS = Shape(  # segments ["Had ", {text: "gout", label: "X"}]
    name="texts in segments",
    fits=lambda row: bool(_find_segments(row)),
    read=_read_segments,
    texts=frozenset(TEXTS),
    columns=frozenset(_SEGMENTS),
    shows=lambda row: any(
        (segment := _read_segment(value)) and segment[1] for value in row[_find_segments(row)]
    ),
)


# doccano ------------------------------------------------------------------------------------------


def _is_doccano(row: Cells) -> bool:
    has_labels = any(name in row for name in ("label", "labels", "entities", "annotations"))
    return has_labels and any(name in row for name in _COMMENTS)


DOCCANO = Shape(  # text, label [[start, end, label]], Comments
    name="doccano",
    fits=_is_doccano,
    read=_read_text_with_mentions,
    texts=frozenset(TEXTS),
    columns=_COLUMNS | {*_COMMENTS},
    ignored=_NO_MENTIONS,
    is_complete=False,
    source="doccano",
    why="its rows have doccano's comments or approver beside labels",
)


# Prodigy ------------------------------------------------------------------------------------------


def _is_prodigy(row: Cells) -> bool:
    is_answered = row.get("answer") in ("accept", *_ANSWERS)
    return is_answered or row.get("_input_hash") is not None or row.get("_task_hash") is not None


def _read_prodigy(row: Cells, file: RowsFile, found: Findings) -> None:
    """Read an accepted row. Tokens and relations are ignored."""
    answer = str(row.get("answer"))
    if answer in _ANSWERS:
        found.not_chosen = NotChosen(_ANSWERS[answer])
        return
    # Other columns may hold what else Prodigy annotates, such as `label` in textcat.
    option = file.options.mentions_column
    _read(row, file, found, "spans" if option == "auto" else option)


def _sessions(row: Cells) -> frozenset[str]:
    session_ids = (row.get("_session_id"), row.get("_annotator_id"))
    return frozenset(name for name in session_ids if isinstance(name, str))


def _version_of_prodigy(row: Cells, number: int) -> Version | None:
    """Return the input and annotator of a row, None if the row is not accepted."""
    if str(row.get("answer")) in _ANSWERS:
        return None
    names = _sessions(row)
    input_hash = row.get("_input_hash")
    if type(input_hash) is int:
        return Version(("hash", input_hash), names)
    # Without a session, equal texts are separate documents: a sentence may occur repeatedly.
    return Version(("text", str(row.get("text"))) if names else ("row", number), names)


def _piece_of_prodigy(row: Cells) -> tuple[int, frozenset[str]] | None:
    """Return the input and annotator of a row that accepts a single mention, as in `ner.teach`."""
    input_hash = row.get("_input_hash")
    if type(input_hash) is not int or row.get("answer", "accept") != "accept":
        return None
    is_binary = row.get("_is_binary") is True or row.get("_view_id") == "ner"
    return (input_hash, _sessions(row)) if is_binary else None


PRODIGY = Shape(  # text, spans [{start, end, label}], answer
    name="Prodigy",
    fits=_is_prodigy,
    read=_read_prodigy,
    texts=frozenset(TEXTS),
    columns=_COLUMNS
    | {"answer", "_input_hash", "_task_hash", "_session_id", "_annotator_id"}
    | {"_is_binary", "_view_id"},
    source="prodigy",
    why="its rows have Prodigy's hashes beside spans or tokens",
    shows=lambda row: (
        ("_input_hash" in row or "_task_hash" in row) and ("spans" in row or "tokens" in row)
    ),
    version=_version_of_prodigy,
    piece=_piece_of_prodigy,
)


# Argilla 1 ----------------------------------------------------------------------------------------


def _read_argilla_record(row: Cells, file: RowsFile, found: Findings) -> None:
    """Read `annotation` with `[label, start, end]`. Predictions are ignored."""
    if row.get("status") == "Discarded":
        found.not_chosen = NotChosen(IGNORED)
    elif row.get("annotation") is None:
        found.not_chosen = NotChosen(UNANNOTATED)
    else:
        _read(row, file, found, "annotation")


ARGILLA_1 = Shape(  # text, annotation [[label, start, end]], prediction
    name="Argilla 1",
    fits=lambda row: (
        "annotation" in row
        and ("prediction" in row or "annotation_agent" in row)
        and isinstance(row.get("text"), str)
    ),
    read=_read_argilla_record,
    texts=frozenset({"text"}),
    columns=frozenset({"annotation", "annotation_agent", "prediction", "status"}),
)


# Passages -----------------------------------------------------------------------------------------


def _read_passages(row: Cells, file: RowsFile, found: Findings) -> None:
    """Read passages at offsets, and entities."""
    for passage in map(cells.mapping, cells.objects(row["passages"])):
        start, _ = cells.pairs(passage.get("offsets"))[0]
        found.pieces.append((start, cells.joined(passage.get("text")) or ""))
    if not any(text for _, text in found.pieces):
        raise RecordError("expected passages with text, got none")
    entities = row.get("entities")
    if entities is not None:
        found.mentions = read_mentions(entities, "entities", file, found)


BIGBIO = Shape(  # passages [{offsets, text}], entities [{offsets, text, type}]
    name="BigBio",
    fits=lambda row: row.get("passages") is not None,
    read=_read_passages,
    texts=frozenset({"passages"}),
    columns=frozenset({"entities"}),
    ignored=_NO_MENTIONS,
    is_complete=False,
)


def _is_bioc(row: Cells) -> bool:
    passages: Any = row.get("passages")
    return isinstance(passages, list) and any(
        isinstance(passage, Mapping) and "offset" in passage for passage in passages
    )


BIOC = Shape(  # passages [{offset, text, annotations}]
    name="BioC JSON",
    fits=_is_bioc,
    read=lambda row, _, found: bioc.read_document(row, found, label="type", concept="identifier"),
    texts=frozenset({"passages"}),
    columns=frozenset({"annotations"}),
    in_file=("documents", "bioc"),
)
