"""The shape of Argilla 2: records with responses of users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mslm_data.data.document import NotChosen
from mslm_data.source.form import Findings
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes.base import RowsFile, Shape
from mslm_data.source.reading.shapes.mention_forms import read_mentions
from mslm_data.source.reading.shapes.texts import read_text
from mslm_data.source.reading.standoff import VERSIONS
from mslm_data.source.reading.versions import IGNORED, UNANNOTATED, Version

_RESPONSES = ".responses"


class _Response(NamedTuple):
    """A user's answer to a question."""

    question: str
    user: str
    status: str
    value: list[Any]


def _is_record(row: Cells) -> bool:
    is_nested = isinstance(row.get("fields"), Mapping) and "responses" in row
    return is_nested or any(name.endswith(_RESPONSES) for name in row)


def _read_record(row: Cells, file: RowsFile, found: Findings) -> None:
    """Read a record, nested (`to_json`) or flat (`to_datasets`).

    Suggestions are ignored, and so are questions without spans. If several users submitted a
    record, the responses of one are read. Discarded responses and drafts are not.
    """
    fields = row.get("fields")
    if isinstance(fields, Mapping):
        found.text = read_text(fields, file)
        responses = _nested(row)
    else:
        found.text = read_text(row, file)
        responses = _flat(row)
    submitted = [response for response in responses if response.status in ("", "submitted")]
    if not submitted:
        found.not_chosen = NotChosen(IGNORED if responses else UNANNOTATED)
        return

    # A user answers each question. The answers of one user form one annotation.
    users = list(dict.fromkeys(response.user for response in submitted))
    versions = [Version("", frozenset({user})) for user in users]
    reasons = dict(zip(users, file.options.versions.chosen(versions), strict=True))
    if all(reasons.values()):
        found.not_chosen = NotChosen(reasons[users[0]])
        return

    for response in submitted:
        mentions = read_mentions(response.value, response.question, file, found)
        if reasons[response.user]:
            found.left_out[VERSIONS] += len(mentions)
        else:
            found.mentions += mentions


def _nested(row: Cells) -> list[_Response]:
    """Return the responses with spans of a nested record."""
    return [
        _Response(
            question,
            str(response.get("user_id")),
            str(response.get("status") or ""),
            response["value"],
        )
        for question, responses in cells.mapping(row.get("responses") or {}).items()
        for response in map(cells.mapping, cells.objects(responses))
        if _are_spans(response.get("value"))
    ]


def _flat(row: Cells) -> list[_Response]:
    """Return the responses with spans of a flat record, whose keys are joined by dots."""
    responses = []
    for name, values in row.items():
        if not name.endswith(_RESPONSES) or not isinstance(values, list):
            continue
        users = _beside(row, f"{name}.users", len(values))
        statuses = _beside(row, f"{name}.status", len(values))
        question = name.removesuffix(_RESPONSES)
        responses += [
            _Response(question, str(user), str(status or ""), value)
            for value, user, status in zip(values, users, statuses, strict=True)
            if _are_spans(value)
        ]
    return responses


def _beside(row: Cells, name: str, number: int) -> list[Any]:
    """Return the list in a column parallel to the responses."""
    values = row.get(name)
    if values is None:
        return [""] * number
    if not isinstance(values, list) or len(values) != number:
        raise RecordError(f"expected {number} value(s) in column '{name}', got another number")
    return values


def _are_spans(value: object) -> bool:
    """Return whether the value of a response is a list of spans, possibly empty."""
    return isinstance(value, list) and all(
        isinstance(item, Mapping) and "start" in item for item in value
    )


ARGILLA_2 = Shape(  # fields, responses; or text, question.responses
    name="Argilla 2",
    fits=_is_record,
    read=_read_record,
    texts=frozenset({"fields", "text"}),
    columns=frozenset({"responses"}),
)
