"""The package's logger, and functions that make text safe to print.

The logger, `mslm_data`, is silent until a program configures logging, for example with
`basicConfig`. Only reasons for waiting are printed without it, at a terminal or in a notebook.
"""

from __future__ import annotations

import logging
import sys
import unicodedata
from collections.abc import Sequence

LOGGER = logging.getLogger("mslm_data")
LOGGER.addHandler(logging.NullHandler())

TO_KEEP = {"is_to_keep": True}
"""Passed as `extra` with messages that belong into the log of a job without a terminal too."""

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of control characters, direction marks and invisible characters."""


def note_to_who_waits(message: str) -> None:
    """Log a message. If logging is not configured, print it at a terminal or in a notebook.

    Worker processes print nothing; their parent does.
    """
    LOGGER.info(message)
    # A process that multiprocessing has started has imported it.
    processes = sys.modules.get("multiprocessing")
    is_led = processes is not None and processes.parent_process() is not None
    if LOGGER.disabled or is_led or _is_heard() or sys.stderr is None:
        return
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        print(f"mslm-data: {message}", file=sys.stderr, flush=True)  # noqa: T201


def _is_heard() -> bool:
    """Return whether the logger or one of its parents has a handler that writes."""
    logger: logging.Logger | None = LOGGER
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def plain(text: str, *, keep: str = "") -> str:
    r"""Escape characters with which text of a corpus could control a terminal or a page.

    Control characters, direction marks, characters without a width and line ends become JSON
    escapes, such as `\u001b`. JSON text stays valid JSON with equal values. Letters and marks of
    all scripts are kept.

    Args:
        text: Any text.
        keep: Characters that are not escaped, such as a newline of our own.
    """
    if text.isascii() and text.isprintable():
        return text
    escapes = _KEEPING.get(keep)
    if escapes is None:
        escapes = _KEEPING[keep] = _Escapes((ord(letter), letter) for letter in keep)
    return text.translate(escapes)


def few(names: Sequence[str], most: int) -> str:
    """Return the first of some names, and how many others there are."""
    others = len(names) - most
    if others <= 1:  # one more name is as short as saying that there is one
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {others:,} others"


class _Escapes(dict[int, str]):
    """Maps each character to what is shown of it, found out when it first comes."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        shown = letter
        if unicodedata.category(letter) in _UNSEEN or code & 0xFFFE == 0xFFFE:
            units = letter.encode("utf-16-be", "surrogatepass")
            shown = "".join(
                f"\\u{int.from_bytes(units[i : i + 2], 'big'):04x}" for i in range(0, len(units), 2)
            )
        self[code] = shown
        return shown


_KEEPING: dict[str, _Escapes] = {}
"""Characters that stay -> what is shown of each character."""
