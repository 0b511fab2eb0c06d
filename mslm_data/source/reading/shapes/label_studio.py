"""Shapes of Label Studio: tasks with their annotations (JSON), or rows (JSON-MIN)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from mslm_data.data.document import NotChosen
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source.form import Findings
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells, parse_json_text
from mslm_data.source.reading.records import NAME_THE_TEXT, RecordError
from mslm_data.source.reading.shapes.base import TEXTS, RowsFile, Shape
from mslm_data.source.reading.standoff import CANCELLED, OTHER_TEXT, VERSIONS, Annotation
from mslm_data.source.reading.versions import IGNORED, UNANNOTATED, Version

_ANNOTATIONS = ("annotations", "completions")
"""Column of a task's annotations; called completions before version 1.0."""
_PREDICTIONS = ("predictions",)
"""Column of the results of models."""


# Tasks --------------------------------------------------------------------------------------------


def _is_task(row: Cells) -> bool:
    return isinstance(row.get("data"), Mapping) and any(
        isinstance(row.get(name), list) for name in (*_ANNOTATIONS, *_PREDICTIONS)
    )


def _versions_in(row: Cells, columns: Sequence[str]) -> list[Any]:
    """Return a task's annotations, or its predictions."""
    return cells.objects(row.get(cells.first_filled(row, columns) or "", []))


def _read_task(row: Cells, file: RowsFile, found: Findings) -> None:
    """Read a task. Drafts, relations, choices and written texts are ignored.

    Predictions are read only if the options ask for them.
    """
    columns = _PREDICTIONS if file.options.reads_predictions else _ANNOTATIONS
    annotations = [cells.mapping(annotation) for annotation in _versions_in(row, columns)]
    if not annotations and not file.options.reads_predictions:
        _check_not_predictions(row, file)
    reasons = file.options.versions.chosen(map(_version_of_annotation, annotations))
    whys = [
        _why_left_out(annotation, reason)
        for annotation, reason in zip(annotations, reasons, strict=True)
    ]
    if all(whys):
        why_none = next(filter(None, reasons), IGNORED) if reasons else UNANNOTATED
        found.not_chosen = NotChosen(why_none)
        return

    # The field of the text depends on results that are read, so collect these first.
    results = [
        (result, why)
        for annotation, why in zip(annotations, whys, strict=True)
        for result in _results(annotation)
    ]
    data = row["data"]
    field = _find_text_field(data, [result for result, why in results if not why], file)
    found.text = data[field]
    found.unit = "utf-16"
    for result, why in results:
        mentions = _mentions(result)
        if why or not _is_about_field(result, field, data):
            found.left_out[why or OTHER_TEXT] += len(mentions)
        else:
            found.mentions += mentions


def _check_not_predictions(row: Cells, file: RowsFile) -> None:
    """Raise if a task has predictions, and the first tasks of the file have nothing else."""
    tasks = filter(_is_task, file.first)
    if _versions_in(row, _PREDICTIONS) and not any(
        _versions_in(task, _ANNOTATIONS) for task in tasks
    ):
        raise SourceError(
            "expected tasks with annotations, got predictions only, which are the results of a "
            "model; to read them, use --source label-studio with [source] predictions = true"
        )


def _version_of_annotation(annotation: Cells) -> Version | None:
    """Return the annotator or model and the time of an annotation, None if it was cancelled."""
    if _is_cancelled(annotation):
        return None
    return Version(
        document="",
        annotators=_names(annotation.get("completed_by", annotation.get("model_version"))),
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


def _results(annotation: Cells) -> list[Cells]:
    """Return the results of an annotation."""
    results = annotation.get("result")
    if results is None or results == {}:
        return []
    return [cells.mapping(result) for result in cells.objects(results)]


def _find_text_field(data: Cells, results: Sequence[Cells], file: RowsFile) -> str:
    """Return the field with the text in a task's data.

    It is the one named by `text_column`, or else `text`, the field that results refer to, or the
    only one.

    Raises:
        RecordError: The field has no text.
        SourceError: Several fields have a text, and none is selected.
    """
    texts = [name for name, value in data.items() if isinstance(value, str) and value]
    option = file.options.text_column
    wanted = ["text", *(str(result.get("to_name")) for result in results)]
    if option != "auto":
        wanted = [option, option.removeprefix("data.")]
    elif len(texts) == 1:
        wanted += texts

    for name in wanted:
        if name in texts:
            return name
    if texts and option == "auto":
        fitting = _fields_that_fit(texts, file)
        if not fitting:
            raise SourceError(
                "expected the text that was annotated in the data of a task, got "
                f"{file.show_keys(texts, 'data', noun='field')}, whose texts the mentions do not "
                "fit; if the project's template joins several fields, add the joined text to each "
                "task as the field text of its data"
            )
        shown = [name for name in fitting if file.may_show(name, "data")]
        example = f" = '{shown[0]}'" if shown else ""
        raise SourceError(
            "expected one text in the data of a task, got "
            f"{file.show_keys(texts, 'data', noun='field')}; "
            f"name it as [source] text_column{example}"
        )
    raise RecordError(
        Reason("expected a task whose data have a text, got none", advice=NAME_THE_TEXT)
    )


def _fields_that_fit(fields: Sequence[str], file: RowsFile) -> list[str]:
    """Return the fields whose texts fit most mentions of the first tasks."""
    num_mentions = 0
    fits: Counter[str] = Counter()
    for task in filter(_is_task, file.first):
        # A malformed task is set aside where it is read.
        with suppress(RecordError):
            for mention in _all_mentions(task):
                num_mentions += 1
                fits.update(name for name in fields if _may_be_in(mention, task["data"].get(name)))
    return [name for name in fields if 2 * fits[name] >= num_mentions]


def _all_mentions(task: Cells) -> Iterator[Annotation]:
    """Yield the mentions of all annotations and predictions of a task."""
    for column in (*_ANNOTATIONS, *_PREDICTIONS):
        for annotation in _versions_in(task, [column]):
            for result in _results(cells.mapping(annotation)):
                yield from _mentions(result)


def _may_be_in(mention: Annotation, text: object) -> bool:
    """Return whether a text is long enough for a mention, and has its words somewhere."""
    if not isinstance(text, str):
        return False
    num_units = len(text.encode("utf-16-le", "surrogatepass")) // 2
    words = " ".join((mention.words or "").split())
    are_within = all(end <= num_units for _, end in mention.fragments)
    return are_within and words in " ".join(text.split())


def _is_about_field(result: Cells, field: str, data: Cells) -> bool:
    """Return whether a result refers to the text in a field.

    `to_name` is the name of a tag in the project, usually the same as the field.
    """
    to_name = result.get("to_name")
    return to_name == field or not isinstance(to_name, str) or to_name not in data


def _mentions(result: Cells) -> list[Annotation]:
    """Return the mentions of a result, one for each label; empty for results of other types."""
    value = result.get("value")
    kind = result.get("type")
    if not isinstance(value, dict):
        return []
    labels = _labels(value)
    if labels is None or (isinstance(kind, str) and not kind.endswith("labels")):
        return []
    return _region(value, labels)


def _region(value: Cells, labels: object) -> list[Annotation]:
    """Return the mentions of a region of text, one for each label.

    Regions in HTML or paragraphs have their offsets in the whole text in `globalOffsets`, if at
    all.
    """
    fragments = _offsets(value) or _offsets(value.get("globalOffsets"))
    names = labels if isinstance(labels, list) else [labels]
    words = cells.joined(value.get("text"))
    return [
        Annotation(fragments, label=name if isinstance(name, str) else "", words=words)
        for name in names or [""]
    ]


def _offsets(value: object) -> tuple[tuple[int, int], ...]:
    if isinstance(value, dict):
        start = value.get("start")
        end = value.get("end")
        # `type` instead of `isinstance`, because True is an int.
        if type(start) is int and type(end) is int:
            return ((start, end),)
    return ()


def _labels(value: Cells) -> object:
    """Return the labels of a region, in a key such as `labels` or `hypertextlabels`."""
    labels = value.get("labels")
    if labels is not None:
        return labels
    return next((labels for name, labels in value.items() if name.endswith("labels")), None)


def _has_labels(row: Cells) -> bool:
    """Return whether a task has a region with labels, in an annotation or a prediction."""
    return any(
        "to_name" in result and _mentions(result)
        for column in (*_ANNOTATIONS, *_PREDICTIONS)
        for annotation in row.get(column) or ()
        if isinstance(annotation, Mapping)
        for result in annotation.get("result") or ()
        if isinstance(result, Mapping)
    )


TASK = Shape(  # data, annotations[].result[].value
    name="Label Studio",
    fits=_is_task,
    read=_read_task,
    texts=frozenset({"data"}),
    columns=frozenset((*_ANNOTATIONS, *_PREDICTIONS)),
    source="label-studio",
    why="its tasks have data, results and to_name",
    shows=_has_labels,
)


# JSON-MIN -----------------------------------------------------------------------------------------


def _regions(row: Cells) -> Iterator[Cells]:
    """Yield the regions with labels in all columns, also from JSON in texts.

    Columns of labels are named by the project.
    """
    for value in row.values():
        if isinstance(value, str):
            value = parse_json_text(value)  # noqa: PLW2901 - the decoded value
        if isinstance(value, list) and value and all(map(_is_region, value)):
            yield from value


def _is_region(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and "start" in value
        and "end" in value
        and isinstance(_labels(value), list)
    )


def _is_min(row: Cells) -> bool:
    is_export = row.get("annotation_id") is not None and "lead_time" in row
    return is_export or any(True for _ in _regions(row))


def _read_min(row: Cells, file: RowsFile, found: Findings) -> None:
    """Read a row, which is one annotation: a task's data with its labels in other columns."""
    column = file.options.text_column
    if column == "auto":
        column = cells.first_filled(row, TEXTS) or "text"
    text = cells.lookup(row, column)
    if not isinstance(text, str) or not text:
        raise RecordError(
            Reason("expected a text in column 'text', got none", advice=NAME_THE_TEXT)
        )
    found.text = text
    found.unit = "utf-16"
    found.mentions = [
        mention for value in _regions(row) for mention in _region(value, _labels(value))
    ]


def _version_of_row(row: Cells, _: int) -> Version | None:
    """Return the task and annotator of a row, None for a row without a task id."""
    if row.get("annotation_id") is None or row.get("id") is None:
        return None
    return Version(
        document=str(row.get("id")),
        annotators=_names(row.get("annotator")),
        time=str(row.get("created_at") or ""),
    )


MIN = Shape(  # text, label [{start, end, text, labels}]
    name="Label Studio, JSON-MIN",
    fits=_is_min,
    read=_read_min,
    texts=frozenset(TEXTS),
    columns=frozenset({"annotation_id", "annotator", "created_at", "lead_time"}),
    is_complete=False,
    source="label-studio",
    why="its rows have lists of regions with labels",
    shows=lambda row: any(True for _ in _regions(row)),
    version=_version_of_row,
)
