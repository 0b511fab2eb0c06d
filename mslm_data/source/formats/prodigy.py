"""Reads what Prodigy's `db-out` writes: JSON lines of texts with spans and an answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.source import Source
from mslm_data.source.reading import json_rows
from mslm_data.source.reading.encodings import TextOptions
from mslm_data.source.reading.json_rows import JsonRow
from mslm_data.source.reading.shapes import RowFile, RowOptions, RowReader
from mslm_data.source.reading.versions import Version, VersionOptions

_OWN_KEY = re.compile(rb'(?<!\\)"_(?:input|task)_hash"\s*:')
_SPANS = re.compile(rb'(?<!\\)"(?:spans|tokens)"\s*:')


@dataclass(frozen=True, kw_only=True)
class Prodigy(VersionOptions, RowOptions, TextOptions, Source):
    """Files of Prodigy's annotations (`ner.manual`, `ner.correct`, `spans.manual` …).

    Only rows whose `answer` is "accept" are documents; rejected and skipped ones are counted. Rows
    without an answer, such as those made by programs, are documents too. Where `spans` is missing,
    a document has no mentions. Tokens and relations are left out.

    Several accepted rows of one input (`_input_hash`, or else the same text with a session each)
    are annotations of one document, by several sessions or later ones: `of_several` says which is
    read. `annotator` is a session or an annotator, as `_session_id` or `_annotator_id` name it.
    """

    suffixes = json_rows.SUFFIXES

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file between lines where each row is read by itself; see `Source.cut`."""
        if self.of_several == "all":
            yield from json_rows.cut(part, self, target_bytes=target_bytes)
        else:
            yield part

    def read(self, part: Part) -> Iterator[Document | SetAside | NotChosen]:
        """Read each row; see `Source.read`."""
        reader = RowReader(RowFile(options=self, versions=self))
        # The file is read twice, so that only what tells its rows apart is held.
        given = enumerate(json_rows.rows(part, self))
        reasons = self.chosen(_version(row, number) for number, row in given)
        for row, reason in zip(json_rows.rows(part, self), reasons, strict=True):
            if isinstance(row, SetAside):
                yield row
            elif reason:
                yield NotChosen(reason)
            else:
                yield reader.document(row.value, numbered=row.numbered, place=row.place)

    def columns_of(self, path: Path) -> list[str]:
        """Return the columns of a file's first row; see `Source.columns_of`."""
        return json_rows.columns_of(path)

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:  # noqa: ARG003 - the bytes tell
        """Return what speaks for Prodigy; see `Source.recognises`."""
        is_own = _OWN_KEY.search(head) and _SPANS.search(head)
        return "its rows have Prodigy's hashes beside spans or tokens" if is_own else ""


def _version(row: JsonRow | SetAside, number: int) -> Version | None:
    """Return which annotation of which input a row is, None for one that is not accepted."""
    of = None if isinstance(row, SetAside) else row.value
    if not isinstance(of, Mapping) or of.get("answer") in ("reject", "ignore"):
        return None
    given = (of.get("_session_id"), of.get("_annotator_id"))
    names = frozenset(name for name in given if isinstance(name, str))
    input_hash = of.get("_input_hash")
    if type(input_hash) is int:
        return Version(("hash", input_hash), names)
    # Rows that no session made are documents of their own: the same sentence may stand in many.
    return Version(("text", str(of.get("text"))) if names else ("row", number), names)
