"""Opens what turns ids into words, for drawings that can do without."""

from __future__ import annotations

from pathlib import Path

import tokenizers


def words_of(file: Path) -> tokenizers.Tokenizer | None:
    """Return a tokenizer; None where the file is missing, or is not one of the library.

    Errors do not belong into what a notebook shows of an object: commands and calls raise them.
    """
    try:
        return tokenizers.Tokenizer.from_file(str(file))
    except Exception:  # noqa: BLE001 - the library has no class of its own
        return None
