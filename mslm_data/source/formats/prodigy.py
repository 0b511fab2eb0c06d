"""Reads what Prodigy's `db-out` writes: JSON lines of texts with spans and an answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mslm_data.data.document import Part
from mslm_data.source.reading.json_sources import JsonRows, JsonVersions
from mslm_data.source.reading.versions import Version

_OWN_KEY = re.compile(rb'(?<!\\)"_(?:input|task)_hash"\s*:')
_SPANS = re.compile(rb'(?<!\\)"(?:spans|tokens)"\s*:')


@dataclass(frozen=True, kw_only=True)
class Prodigy(JsonVersions):
    """Files of Prodigy's annotations (`ner.manual`, `ner.correct`, `spans.manual` …).

    Only rows whose `answer` is "accept" are documents; rejected and skipped ones are counted. Rows
    without an answer, such as those made by programs, are documents too. Where `spans` is missing,
    a document has no mentions. Tokens and relations are left out.

    Several accepted rows of one input (`_input_hash`, or else the same text with a session each)
    are annotations of one document, by several sessions or later ones: `of_several` says which is
    read. `annotator` is a session or an annotator, as `_session_id` or `_annotator_id` name it.
    """

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file between lines where each row is read by itself; see `Source.cut`."""
        if self.of_several == "all":
            return JsonRows.cut(self, part, target_bytes=target_bytes)
        return super().cut(part, target_bytes=target_bytes)

    def version_of(self, row: object, number: int) -> Version | None:
        """Return which annotation of which input a row is, None for one that is not accepted."""
        if not isinstance(row, Mapping) or row.get("answer") in ("reject", "ignore"):
            return None

        given = (row.get("_session_id"), row.get("_annotator_id"))
        names = frozenset(name for name in given if isinstance(name, str))
        input_hash = row.get("_input_hash")
        if type(input_hash) is int:
            return Version(("hash", input_hash), names)
        # Rows that no session made are documents of their own: the same sentence may stand in many.
        return Version(("text", str(row.get("text"))) if names else ("row", number), names)

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:  # noqa: ARG003 - the bytes tell
        """Return what speaks for Prodigy; see `Source.recognises`."""
        is_own = _OWN_KEY.search(head) and _SPANS.search(head)
        return "its rows have Prodigy's hashes beside spans or tokens" if is_own else ""
