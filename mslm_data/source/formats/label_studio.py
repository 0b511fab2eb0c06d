"""Reads exports of Label Studio: tasks with their annotations (JSON), or rows (JSON-MIN)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from mslm_data.data.document import Document, NotChosen
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source import Guess, Sample
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.json_sources import JsonVersions
from mslm_data.source.reading.records import NAME_THE_TEXT, RecordError
from mslm_data.source.reading.shapes import PLAIN_SHAPES
from mslm_data.source.reading.shapes.mention_forms import parse_json_text
from mslm_data.source.reading.shapes.options import RowSource, Shape
from mslm_data.source.reading.standoff import CANCELLED, OTHER_TEXT, VERSIONS, Annotation, Placed
from mslm_data.source.reading.versions import IGNORED, UNANNOTATED, Version

_TASK_KEYS = [
    re.compile(rb'(?<!\\)"%s"\s*:' % key) for key in (rb"data", rb"result", rb"to_name", rb"labels")
]
_MIN_KEYS = [re.compile(rb'(?<!\\)"%s"\s*:' % key) for key in (rb"annotation_id", rb"labels")]
_OF_TASK = ("annotations", "completions")
"""Column of a task's annotations; called completions before version 1.0."""


class LabelStudioTask(Shape):
    """A task: `data` with the text, and `annotations` with `result`s.

    Predictions, drafts, relations, choices and texts written by annotators are ignored.
    """

    columns = frozenset({"data", *_OF_TASK})
    says_none = True

    @classmethod
    def fits(cls, row: Cells) -> bool:
        has_annotations = any(isinstance(row.get(name), list) for name in _OF_TASK)
        return isinstance(row.get("data"), Mapping) and has_annotations

    def read(self, row: Cells, doc_id: str, place: str) -> Document | NotChosen:
        annotations = [
            cells.mapping(annotation) for annotation in row[cells.first_filled(row, _OF_TASK) or ""]
        ]
        reasons = self.file.versions.chosen(map(_version, annotations))
        whys = [
            _why_left_out(annotation, reason)
            for annotation, reason in zip(annotations, reasons, strict=True)
        ]
        if all(whys):
            return NotChosen(_why_none(reasons))

        # The field of the text depends on results that are read, so collect these first.
        results = [
            (result, why)
            for annotation, why in zip(annotations, whys, strict=True)
            for result in _results(annotation)
        ]
        data = row["data"]
        field = self._field(data, [result for result, why in results if not why])
        text = data[field]

        mentions: list[Annotation] = []
        left_out: Counter[Reason] = Counter()
        for result, why in results:
            result_mentions = _mentions(result)
            if why or not _is_about_field(result, field, data):
                left_out[why or OTHER_TEXT] += len(result_mentions)
            else:
                mentions += result_mentions

        placed = _place(self.file.options, text, mentions).leaving_out(left_out)
        return placed.document(doc_id, text, sentences=None, place=place)

    def _field(self, data: Cells, results: list[Cells]) -> str:
        """Return the field with the text in a task's data.

        Raises:
            RecordError: The field has no text.
            SourceError: Several fields have a text, and none is selected.
        """
        texts = [name for name, value in data.items() if isinstance(value, str) and value]
        field = self.file.options.text_column
        if field == "auto":
            field = _find_text_field(texts, results)
            if not field and texts:
                raise _several_texts_error(texts)
        if field not in texts:
            raise RecordError(
                Reason("expected a task whose data have a text, got none", advice=NAME_THE_TEXT)
            )
        return field


class LabelStudioMin(Shape):
    """A task's data with its labels in separate columns: `[{start, end, text, labels}]`.

    A row is one annotation. Label columns are named by the project, so all columns of this form are
    read.
    """

    columns = frozenset({"text"})

    @classmethod
    def fits(cls, row: Cells) -> bool:
        is_export = "annotation_id" in row and "lead_time" in row
        return is_export or any(True for _ in _regions(row))

    def read(self, row: Cells, doc_id: str, place: str) -> Document | NotChosen:
        column = self.file.options.text_column
        text = row.get("text" if column == "auto" else column)
        if not isinstance(text, str) or not text:
            raise RecordError(
                Reason(
                    "expected a text in column 'text', got none; name its column with [source] "
                    "text_column",
                    advice=NAME_THE_TEXT,
                )
            )
        mentions = [
            mention for value in _regions(row) for mention in _region(value, _labels(value))
        ]
        placed = _place(self.file.options, text, mentions)
        return placed.document(doc_id, text, sentences=None, place=place)


def _place(options: RowSource, text: str, mentions: list[Annotation]) -> Placed:
    """Place mentions in a text. Without words to compare, offsets count UTF-16 code units."""
    if options.offsets == "auto" and all(mention.words is None for mention in mentions):
        options = replace(options, offsets="utf-16")
    return options.place(text, mentions)


LABEL_STUDIO_SHAPES: Mapping[str, type[Shape]] = {
    "Label Studio": LabelStudioTask,  # data, annotations[].result[].value
    "Label Studio, JSON-MIN": LabelStudioMin,  # text, label [{start, end, text, labels}]
}
"""Shapes by name."""


class LabelStudio(JsonVersions, frozen=True, kw_only=True):
    """Exports of Label Studio, as JSON or JSON-MIN.

    If a task has several annotations, the one marked as ground truth is read, or else the one
    selected by `of_several`, by creation time. "all" joins their mentions; in JSON-MIN it reads the
    first row of each id and sets the others aside. Cancelled annotations, predictions, drafts,
    relations and choices are ignored. Tasks without annotations are counted and not read.
    `annotator` is the number, name or address in `completed_by`.

    A region with several labels becomes several mentions. Label Studio's offsets count UTF-16 code
    units, as in JavaScript; `offsets = "auto"` detects this from the words in each region.
    """

    shapes: ClassVar[Mapping[str, type[Shape]]] = {**LABEL_STUDIO_SHAPES, **PLAIN_SHAPES}

    def read_version(self, row: object, number: int) -> Version | None:  # noqa: ARG002 - unused
        """Return the task and annotator of a row of JSON-MIN, None for other rows."""
        return _row_version(row) if isinstance(row, Mapping) else None

    def sniff(self, sample: Sample) -> Guess:
        """Recognise Label Studio; see `Source.sniff`."""
        if all(key.search(sample.head) for key in _TASK_KEYS):
            return Guess("its tasks have data, results and to_name")
        if all(key.search(sample.head) for key in _MIN_KEYS):
            return Guess("its rows have an annotation_id beside lists of labels")
        return Guess()


def _find_text_field(texts: list[str], results: list[Cells]) -> str:
    """Return the field `text`, the field that results refer to, or the only field; else ""."""
    for name in ("text", *(str(result.get("to_name")) for result in results)):
        if name in texts:
            return name
    return texts[0] if len(texts) == 1 else ""


def _several_texts_error(texts: list[str]) -> SourceError:
    """Make the error for a task with several texts and no selected field."""
    plain = [name for name in texts if cells.can_be_shown(name)]
    unusual = len(texts) - len(plain)
    fields = [*plain, *([f"{unusual} of unusual names"] if unusual else [])]
    example = f" = '{plain[0]}'" if plain else ""
    return SourceError(
        f"expected one text in the data of a task, got the fields {', '.join(fields)}; "
        f"name it as [source] text_column{example}"
    )


def _row_version(row: Cells) -> Version | None:
    """Return the annotation of a row of JSON-MIN, None for other rows or without a task id."""
    if "annotation_id" not in row or row.get("id") is None:
        return None
    return Version(
        document=str(row.get("id")),
        annotators=_names(row.get("annotator")),
        time=str(row.get("created_at") or ""),
    )


def _region(value: Cells, labels: object) -> list[Annotation]:
    """Return the mentions of a region of text, one for each label.

    Regions in HTML or paragraphs have their offsets in the whole text in `globalOffsets`, if at
    all.
    """
    fragments: list[tuple[int, int]] = []
    for offsets in (value, value.get("globalOffsets")):
        if not isinstance(offsets, Mapping):
            continue
        if type(offsets.get("start")) is type(offsets.get("end")) is int:
            fragments = fragments or cells.pairs([[offsets["start"], offsets["end"]]])
    names = labels if isinstance(labels, list) else [labels]
    words = cells.joined(value.get("text"))
    return [
        Annotation(fragments, label=name if isinstance(name, str) else "", words=words)
        for name in names or [""]
    ]


def _regions(row: Cells) -> Iterator[Cells]:
    """Yield the regions with labels in all columns, also from JSON in texts."""
    for value in map(parse_json_text, row.values()):
        if isinstance(value, list) and value and all(map(_is_region, value)):
            yield from value


def _is_region(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and isinstance(_labels(value), list)
        and "start" in value
        and "end" in value
    )


def _labels(value: Cells) -> object:
    """Return the labels of a region, in a key such as `labels` or `hypertextlabels`."""
    return next((labels for name, labels in value.items() if name.endswith("labels")), None)


def _mentions(result: Cells) -> list[Annotation]:
    """Return the mentions of a result, one for each label; empty for results of other types."""
    value = result.get("value")
    kind = result.get("type")
    if not isinstance(value, Mapping):
        return []
    labels = _labels(value)
    if labels is None or (isinstance(kind, str) and not kind.endswith("labels")):
        return []
    return _region(value, labels)


def _results(annotation: Cells) -> list[Cells]:
    """Return the results of an annotation."""
    results = annotation.get("result")
    if results is None or results == {}:
        return []
    return [cells.mapping(result) for result in cells.objects(results)]


def _is_about_field(result: Cells, field: str, data: Cells) -> bool:
    """Return whether a result refers to the text in a field.

    `to_name` is the name of a tag in the project, usually the same as the field.
    """
    to_name = result.get("to_name")
    return to_name == field or not isinstance(to_name, str) or to_name not in data


def _version(annotation: Cells) -> Version | None:
    """Return the annotator and time of a task's annotation, None if it was cancelled."""
    if _is_cancelled(annotation):
        return None
    return Version(
        document="",
        annotators=_names(annotation.get("completed_by")),
        time=str(annotation.get("created_at") or ""),
        is_preferred=annotation.get("ground_truth") is True,
    )


def _why_left_out(annotation: Cells, reason: str) -> Reason | None:
    """Return why the mentions of an annotation are not read, None if they are."""
    if _is_cancelled(annotation):
        return CANCELLED
    return VERSIONS if reason else None


def _is_cancelled(annotation: Cells) -> bool:
    return annotation.get("was_cancelled") is True or annotation.get("skipped") is True


def _names(annotator: object) -> frozenset[str]:
    """Return the names of an annotator, given as a number, a name, or an object with both."""
    names: list[Any] = list(annotator.values()) if isinstance(annotator, Mapping) else [annotator]
    return frozenset(str(name) for name in names if isinstance(name, str | int))


def _why_none(reasons: list[str]) -> str:
    """Return why no annotation of a task is read."""
    if not reasons:
        return UNANNOTATED
    return next((reason for reason in reasons if reason), IGNORED)
