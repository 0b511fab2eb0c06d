"""Writes documents in memory to JSON lines, for the source `jsonl`.

Documents from Python are then handled like files: cut into parts, counted, set aside with reasons,
and resumed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from mslm_data.data.document import SPLITS
from mslm_data.errors import CallError
from mslm_data.io.files import open_private

_FIELDS = ("id", "text", "entities", "split")
"""Attributes read from an object. A mapping may have any column that a row can have."""
_OF_ENTITY = ("start", "end", "label")


def spool(documents: Iterable[Any], folder: Path) -> None:
    """Write documents to `SPLIT.jsonl` in a folder, in order.

    Args:
        documents: Mappings, or objects with attributes; see `mslm_data.build`.
        folder: An empty folder that only its owner can read.

    Raises:
        CallError: There are no documents, or a document is not valid as JSON or for the source. The
            message has its index, and no text.
    """
    if isinstance(documents, str | bytes | Mapping) or not isinstance(documents, Iterable):
        raise CallError(
            "documents: expected an iterable of documents, such as a list of mappings, got "
            f"{type(documents).__name__}"
        )

    with ExitStack() as until_written:
        files: dict[str, BinaryIO] = {}
        for number, document in enumerate(documents):
            row = _row(document, f"documents[{number}]")
            split = _split(row.pop("split", None), f"documents[{number}]")
            try:
                line = json.dumps(row, ensure_ascii=False, allow_nan=False, default=_plain).encode()
            except (TypeError, ValueError, RecursionError) as error:
                raise CallError(
                    f"documents[{number}]: expected values that are valid in JSON and UTF-8, and "
                    "entities that are (start, end, label), mappings or objects with these, got "
                    f"others ({type(error).__name__})"
                ) from None

            if split not in files:
                file = open_private(folder / f"{split}.jsonl")
                files[split] = until_written.enter_context(file)
            files[split].write(line + b"\n")
    if not files:
        raise CallError("documents: expected at least one document, got none")


def _row(document: Any, place: str) -> dict[str, Any]:
    """Return a document as the columns of a row.

    Raises:
        CallError: The document is neither a mapping nor an object with a text, or a field has the
            wrong type.
    """
    if isinstance(document, Mapping):
        row = dict(document)
    else:
        row = {name: getattr(document, name) for name in _FIELDS if hasattr(document, name)}
        if "text" not in row:
            raise CallError(
                f"{place}: expected a mapping or an object with id, text and entities, got "
                f"{type(document).__name__}"
            )

    for name, types in (("id", str | int | np.integer), ("text", str)):
        value = row.get(name)
        if value is None:
            row.pop(name, None)
        elif not isinstance(value, types) or isinstance(value, bool):
            kinds = "text or a whole number" if name == "id" else "text"
            raise CallError(f"{place}.{name}: expected {kinds}, got {type(value).__name__}")

    entities = row.get("entities")
    if isinstance(entities, str | bytes) or not isinstance(entities, Iterable | None):
        got = type(entities).__name__
        raise CallError(f"{place}.entities: expected a list of mentions, got {got}")
    if entities is not None and not isinstance(entities, Mapping):
        row["entities"] = list(entities)
    return row


def _plain(value: Any) -> Any:
    """Return a value that JSON lacks in another form: numbers of NumPy, and mentions as objects."""
    if isinstance(value, np.generic):
        return value.item()
    if all(hasattr(value, name) for name in _OF_ENTITY):
        return [getattr(value, name) for name in _OF_ENTITY]
    raise TypeError


def _split(split: Any, place: str) -> str:
    """Return the name of a document's split. Default: the first split."""
    if split is None:
        return SPLITS[0]
    if split not in SPLITS:
        got = repr(split) if isinstance(split, str) and len(split) < 20 else type(split).__name__
        raise CallError(f"{place}.split: expected {', '.join(SPLITS)} or none, got {got}")
    return str(split)
