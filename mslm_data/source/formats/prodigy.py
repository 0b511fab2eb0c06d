"""Reads the output of Prodigy's `db-out`: JSON lines of texts with spans and an answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.source import Guess, Sample
from mslm_data.source.reading import json_rows
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.json_sources import JsonRows, JsonVersions
from mslm_data.source.reading.shapes import PLAIN_SHAPES
from mslm_data.source.reading.shapes.options import Shape
from mslm_data.source.reading.shapes.running_text import TextWithMentions
from mslm_data.source.reading.versions import IGNORED, REJECTED, Version

_OWN_KEY = re.compile(rb'(?<!\\)"_(?:input|task)_hash"\s*:')
_SPANS = re.compile(rb'(?<!\\)"(?:spans|tokens)"\s*:')
_MAY_BE_BINARY = re.compile(rb'"_is_binary"\s*:\s*true|"_view_id"\s*:\s*"ner"')
_ANSWERS = {"reject": REJECTED, "ignore": IGNORED}
"""Prodigy's answers other than "accept"."""


class ProdigyRow(TextWithMentions):
    """Prodigy's rows: a text, optional `spans`, and the `answer`.

    Only accepted rows are read. Tokens and relations are ignored.
    """

    columns = TextWithMentions.columns | {"answer"}
    says_none = True

    @classmethod
    def fits(cls, row: Cells) -> bool:
        is_answered = row.get("answer") in ("accept", *_ANSWERS)
        return is_answered or "_input_hash" in row or "_task_hash" in row

    def read(self, row: Cells, doc_id: str, place: str) -> Document | NotChosen:
        reason = _ANSWERS.get(str(row.get("answer")))
        if reason:
            return NotChosen(reason)
        return super().read(row, doc_id, place)

    def _column(self, row: Cells) -> str | None:
        # Other columns may hold what else Prodigy annotates, such as `label` in textcat.
        option = self.file.options.mentions_column
        column = "spans" if option == "auto" else option
        return column if row.get(column) is not None else None


class Prodigy(JsonVersions, frozen=True, kw_only=True):
    """Files of Prodigy's annotations (`ner.manual`, `ner.correct`, `spans.manual` …).

    Rows with the `answer` "accept" are documents, and so are rows without an answer, such as those
    of programs. Rejected and skipped rows are counted. A row without `spans` has no mentions.
    Tokens and relations are ignored.

    Accepted rows with the same input (`_input_hash`, or else the text of rows with a session) are
    annotations of one document; `of_several` selects the one to read. Accepted rows of `ner.teach`,
    each about a single mention, are joined into one annotation. `annotator` is a session or
    annotator, in `_session_id` or `_annotator_id`.
    """

    shapes: ClassVar[Mapping[str, type[Shape]]] = {"Prodigy": ProdigyRow, **PLAIN_SHAPES}

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file between lines if each row is read independently; see `Source.cut`."""
        if self.of_several == "all" and not self._may_be_binary(part):
            return JsonRows.cut(self, part, target_bytes=target_bytes)
        return super().cut(part, target_bytes=target_bytes)

    def _may_be_binary(self, part: Part) -> bool:
        data = self.utf8(Path(part.path), part.start, part.stop)
        return _MAY_BE_BINARY.search(data) is not None

    def read_version(self, row: object, number: int) -> Version | None:
        """Return the input and annotator of a row, None if the row is not accepted."""
        if not isinstance(row, Mapping) or row.get("answer") in ("reject", "ignore"):
            return None

        names = _names(row)
        input_hash = row.get("_input_hash")
        if type(input_hash) is int:
            return Version(("hash", input_hash), names)
        # Without a session, equal texts are separate documents: a sentence may occur repeatedly.
        return Version(("text", str(row.get("text"))) if names else ("row", number), names)

    def united(self, part: Part) -> Callable[[object], object]:
        """Return a function that merges the binary answers of an annotator to one input."""
        if not self._may_be_binary(part):
            return super().united(part)
        spans: dict[object, list[Any]] = {}
        for row in json_rows.rows(part, self):
            if not isinstance(row, SetAside) and _is_binary(row.value):
                merged = spans.setdefault(_annotation(row.value), [])
                merged += [span for span in row.value.get("spans") or () if span not in merged]

        def unite(row: object) -> object:
            if not isinstance(row, Mapping) or not _is_binary(row):
                return row
            merged = spans.pop(_annotation(row), None)
            return None if merged is None else {**row, "spans": merged}

        return unite

    def sniff(self, sample: Sample) -> Guess:
        """Recognise Prodigy; see `Source.sniff`."""
        is_own = _OWN_KEY.search(sample.head) and _SPANS.search(sample.head)
        return Guess("its rows have Prodigy's hashes beside spans or tokens" if is_own else "")


def _names(row: Mapping[str, Any]) -> frozenset[str]:
    session_ids = (row.get("_session_id"), row.get("_annotator_id"))
    return frozenset(name for name in session_ids if isinstance(name, str))


def _annotation(row: Mapping[str, Any]) -> tuple[int, frozenset[str]]:
    """Return the key that all binary answers of an annotator to one input share."""
    return row["_input_hash"], _names(row)


def _is_binary(row: object) -> bool:
    """Return whether a row accepts a single mention of its input, as in `ner.teach`."""
    if not isinstance(row, Mapping) or type(row.get("_input_hash")) is not int:
        return False
    is_accepted = row.get("answer", "accept") == "accept"
    return is_accepted and (row.get("_is_binary") is True or row.get("_view_id") == "ner")
