"""Shapes of programs that extract mentions with language models: LangExtract and GLiNER2."""

from __future__ import annotations

from collections.abc import Mapping

from mslm_data.data.document import NotChosen
from mslm_data.data.reason import Reason
from mslm_data.source.form import Findings
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes.base import RowsFile, Shape
from mslm_data.source.reading.shapes.mention_forms import find_places, read_mentions
from mslm_data.source.reading.shapes.texts import read_text
from mslm_data.source.reading.standoff import Annotation
from mslm_data.source.reading.versions import UNANNOTATED

_EXACT = "match_exact"
INEXACT = Reason(
    "where LangExtract found other words than its own",
    advice={"alignment": 'set source.alignment to "any" to take the words at that place'},
)
"""Reason for mentions with another alignment than exact, which option `alignment` excludes."""


# LangExtract --------------------------------------------------------------------------------------


def _has_extractions(row: Cells) -> bool:
    extractions = row.get("extractions")
    return (
        "text" in row
        and isinstance(extractions, list)
        and all(isinstance(one, Mapping) and "extraction_class" in one for one in extractions)
    )


def _read_extractions(row: Cells, file: RowsFile, found: Findings) -> None:
    """Read extractions.

    `match_exact` means the words of the extraction, without regard to case and white space.
    `match_lesser` means its first words, of which there may be only one, `match_fuzzy` three
    quarters of them and others between. An extraction that was not found has no interval.
    """
    found.text = read_text(row, file)
    annotations = []
    for extraction in row["extractions"]:
        words = cells.joined(extraction.get("extraction_text")) or ""
        annotation = Annotation((), cells.joined(extraction.get("extraction_class")) or "", words)
        interval = extraction.get("char_interval")
        if interval is None:
            annotations.append(annotation)
            continue
        if not isinstance(interval, Mapping):
            raise RecordError("expected start_pos and end_pos in char_interval, got neither")
        start, end = cells.pair([interval.get("start_pos"), interval.get("end_pos")])
        there = found.text[max(start, 0) : end]
        is_there = _without_case(there) == _without_case(words)
        is_inexact = not is_there and extraction.get("alignment_status") not in (None, _EXACT)
        if is_inexact and file.options.alignment == "exact":
            found.left_out[INEXACT] += 1
            continue
        # Other words than those of an exact alignment show that the text is another.
        words = there if is_there or is_inexact else words
        annotations.append(annotation._replace(fragments=((start, end),), words=words))
    found.mentions = find_places(annotations, file, found)


def _without_case(text: str) -> str:
    return "".join(text.split()).lower()


LANGEXTRACT = Shape(  # text, extractions [{extraction_class, extraction_text, char_interval}]
    name="LangExtract",
    fits=_has_extractions,
    read=_read_extractions,
    texts=frozenset({"text"}),
    columns=frozenset({"extractions"}),
)


# GLiNER2's training data --------------------------------------------------------------------------

_TASKS = frozenset({"entities", "classifications", "json_structures", "relations"})


def _is_gliner2(row: Cells) -> bool:
    output = row.get("output")
    return (
        isinstance(row.get("input"), str)
        and isinstance(output, Mapping)
        and not _TASKS.isdisjoint(output)
    )


def _read_gliner2(row: Cells, file: RowsFile, found: Findings) -> None:
    """Read the words of each label in `output.entities`. Examples of other tasks are not chosen."""
    if row["output"].get("entities") is None:
        found.not_chosen = NotChosen(UNANNOTATED)
        return
    found.text = row["input"]
    found.mentions = read_mentions(row["output"], "output", file, found)


GLINER2 = Shape(  # input, output {entities: {label: [words]}}
    name="GLiNER2's training data",
    fits=_is_gliner2,
    read=_read_gliner2,
    texts=frozenset({"input"}),
    columns=frozenset({"output"}),
    # Its trainer finds all occurrences.
    needs={"occurrences": "all"},
)
