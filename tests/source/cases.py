"""Cases and corpora of forms as data: `tests/cases/`. `test_cases.py` describes cases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

CASES = Path(__file__).parents[1] / "cases"


def content(note: Any) -> bytes:
    """Return the bytes of a file."""
    if isinstance(note, list):
        return b"".join(map(content, note))
    if isinstance(note, str):
        return note.encode()
    if "latin-1" in note:
        return str(note["latin-1"]).encode("latin-1")
    return content(note["text"]) * int(note["times"])


def write_files(files: Mapping[str, Any], folder: Path) -> None:
    """Write files below a folder."""
    for name, note in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(note))
