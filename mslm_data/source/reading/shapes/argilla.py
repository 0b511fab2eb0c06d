"""Rows of Argilla: records of version 1 with one annotation, and of version 2 with responses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from mslm_data.data.document import Document, NotChosen
from mslm_data.data.reason import Reason
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes import mention_forms
from mslm_data.source.reading.shapes.options import Shape
from mslm_data.source.reading.shapes.running_text import TextWithMentions, read_text
from mslm_data.source.reading.standoff import VERSIONS, Annotation
from mslm_data.source.reading.versions import IGNORED, UNANNOTATED, Version

_RESPONSES = ".responses"


class ArgillaRecord(TextWithMentions):
    """Token classification of version 1: `annotation` with `[label, start, end]`.

    Predictions are ignored. Records without an annotation or with status "Discarded" are counted
    and not read.
    """

    columns = frozenset({"text", "annotation", "annotation_agent", "prediction", "status"})
    says_none = True

    @classmethod
    def fits(cls, row: Cells) -> bool:
        is_record = "prediction" in row or "annotation_agent" in row
        return "annotation" in row and is_record and isinstance(row.get("text"), str)

    def read(self, row: Cells, doc_id: str, place: str) -> Document | NotChosen:
        if row.get("status") == "Discarded":
            return NotChosen(IGNORED)
        if row.get("annotation") is None:
            return NotChosen(UNANNOTATED)
        return super().read(row, doc_id, place)

    def _column(self, row: Cells) -> str | None:  # noqa: ARG002 - the column is fixed
        return "annotation"


class _Response(NamedTuple):
    """A user's answer to a question."""

    question: str
    user: str
    status: str
    value: list[Any]


class ArgillaResponses(Shape):
    """Records of version 2, nested (`to_json`) or flat (`to_datasets`), with responses of users.

    Suggestions are ignored, and so are questions without spans. If several users submitted a
    record, the responses of one are read. Discarded responses and drafts are not.
    """

    columns = frozenset({"fields", "responses", "text"})
    says_none = True

    @classmethod
    def fits(cls, row: Cells) -> bool:
        is_nested = isinstance(row.get("fields"), Mapping) and "responses" in row
        return is_nested or any(name.endswith(_RESPONSES) for name in row)

    def read(self, row: Cells, doc_id: str, place: str) -> Document | NotChosen:
        fields = row.get("fields")
        text = read_text(
            fields if isinstance(fields, Mapping) else row, self.file.options.text_column
        )
        responses = _nested(row) if isinstance(fields, Mapping) else _flat(row)
        submitted = [response for response in responses if response.status in ("", "submitted")]
        if not submitted:
            return NotChosen(IGNORED if responses else UNANNOTATED)

        # A user answers each question. The answers of one user form one annotation.
        users = list(dict.fromkeys(response.user for response in submitted))
        reasons = dict(
            zip(
                users,
                self.file.versions.chosen(Version("", frozenset({user})) for user in users),
                strict=True,
            )
        )
        if all(reasons.values()):
            return NotChosen(next(iter(reasons.values())))

        mentions: list[Annotation] = []
        left_out: Counter[Reason] = Counter()
        for response in submitted:
            user_mentions = [
                annotation
                for item in response.value
                for annotation in mention_forms.read_mention(item, response.question, self.file)
            ]
            if reasons[response.user]:
                left_out[VERSIONS] += len(user_mentions)
            else:
                mentions += user_mentions

        placed = self.file.options.place(text, mentions).leaving_out(left_out)
        return placed.document(doc_id, text, sentences=None, place=place)


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
