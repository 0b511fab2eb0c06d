"""The shape of chats about mentions: a text and answers in JSON, as language models learn them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from mslm_data.data.reason import Reason
from mslm_data.source.form import Findings
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes.base import RowsFile, Shape
from mslm_data.source.reading.shapes.mention_forms import read_mentions

_COLUMNS = ("messages", "conversations")
_ROLES = {"human": "user", "gpt": "assistant", "model": "assistant"}
"""Role in chats of ShareGPT or Gemma -> the usual one."""

_QUESTION = re.compile(r"\s*What describes (.+) in the text\?\s*", re.DOTALL)
_BEFORE_TEXT = "Text:"
"""A question with its label, and what stands before the text, in UniversalNER."""
_FENCED = re.compile(r"\s*```\w*\n(.*)```\s*", re.DOTALL)

_NO_JSON = Reason("expected mentions as a list or an object of JSON in an answer, got other text")
_NO_PAIR = Reason(
    "expected a text and its answer, or a text and questions as of UniversalNER with their "
    "answers, got other messages"
)
_NO_END = Reason(
    "expected the words of source.text_after before the text, got a message without them",
    advice={"text_after": "leave out source.text_after if messages have the text alone"},
)


class _Message(NamedTuple):
    role: str
    content: str


def _column(row: Cells) -> str:
    return cells.first_filled(row, _COLUMNS) or ""


def _messages(row: Cells) -> list[_Message]:
    """Return the messages of a chat without those of the system."""
    messages = []
    for one in map(cells.mapping, cells.column_list(row, _column(row))):
        role = str(one.get("role", one.get("from")))
        content = one.get("content", one.get("value"))
        if not isinstance(content, str):
            raise RecordError("expected messages of text, got another content")
        messages.append(_Message(_ROLES.get(role, role), content))
    return [message for message in messages if message.role != "system"]


def _decode(answer: _Message) -> Any:
    """Return the list or object in an answer, which may be fenced as in Markdown.

    Raises:
        RecordError: There is none.
    """
    fenced = _FENCED.fullmatch(answer.content)
    value = cells.parse_json_text(fenced[1] if fenced else answer.content)
    if not isinstance(value, list | Mapping):
        raise RecordError(_NO_JSON)
    return value


def _is_chat(row: Cells) -> bool:
    turns = row.get(_column(row))
    return isinstance(turns, list) and all(
        isinstance(turn, Mapping) and ("role" in turn or "from" in turn) for turn in turns
    )


def _has_mentions(row: Cells) -> bool:
    """Return whether the last answer is in JSON."""
    with suppress(RecordError):
        messages = _messages(row)
        return bool(messages) and _decode(messages[-1]) is not None
    return False


def _read_chat(row: Cells, file: RowsFile, found: Findings) -> None:
    """Read the text in the first message, and its mentions in the answer to it.

    UniversalNER's chats have a question for each label, whose answer lists words.
    """
    messages = _messages(row)
    questions = messages[::2]
    answers = messages[1::2]
    roles = [message.role for message in messages]
    if not answers or roles != ["user", "assistant"] * len(answers):
        raise RecordError(_NO_PAIR)

    text = questions[0].content
    if len(answers) == 1:
        mentions = _decode(answers[0])
    else:
        asked = [_QUESTION.fullmatch(question.content) for question in questions[1:]]
        labels = [match[1] for match in asked if match]
        if len(labels) < len(asked):
            raise RecordError(_NO_PAIR)
        mentions = [
            {"text": words, "label": label}
            for label, answer in zip(labels, answers[1:], strict=True)
            for words in cells.objects(_decode(answer))
        ]
        text = text.removeprefix(_BEFORE_TEXT)

    if file.options.text_after:
        _, before, text = text.partition(file.options.text_after)
        if not before:
            raise RecordError(_NO_END)
    found.text = text.strip()
    found.mentions = read_mentions(mentions, _column(row), file, found)


CHAT = Shape(  # messages [{role, content: text}, {role, content: {label: [words]}}]
    name="chats about mentions",
    fits=_is_chat,
    read=_read_chat,
    texts=frozenset(_COLUMNS),
    columns=frozenset(),
    why="its rows are chats whose answers are lists or objects of JSON",
    shows=_has_mentions,
)
