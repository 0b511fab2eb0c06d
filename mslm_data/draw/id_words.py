"""Open the tokenizer of a folder for a drawing, if possible."""

from __future__ import annotations

from pathlib import Path

import tokenizers


def try_open_tokenizer(file: Path) -> tokenizers.Tokenizer | None:
    """Open a tokenizer; None if the file is missing or is not of the `tokenizers` library.

    There is no error, because an error would hide the notebook's object. Commands and calls raise
    it.
    """
    try:
        return tokenizers.Tokenizer.from_file(str(file))
    except Exception:  # noqa: BLE001 - the library raises plain exceptions
        return None
