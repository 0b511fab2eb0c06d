"""The package's logger, and functions that make text safe to print.

The logger `mslm_data` is silent until a program configures logging, for example with `basicConfig`.
Without this, only reasons for waiting are printed, on a terminal or in a notebook.
"""

from __future__ import annotations

import functools
import logging
import sys
import unicodedata
from collections.abc import Sequence

LOGGER = logging.getLogger("mslm_data")
LOGGER.addHandler(logging.NullHandler())

TO_KEEP = {"is_to_keep": True}
"""The argument `extra` of messages for logs of jobs without a terminal."""

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of control characters, direction marks and invisible characters."""


def note_to_who_waits(message: str) -> None:
    """Log a message. Without configured logging, print it on a terminal or in a notebook.

    Worker processes print nothing; their parent does.
    """
    LOGGER.info(message)
    # Worker processes have imported multiprocessing, so do not import it here.
    processes = sys.modules.get("multiprocessing")
    is_worker = processes is not None and processes.parent_process() is not None
    if LOGGER.disabled or is_worker or _is_heard() or sys.stderr is None:
        return
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        print(f"mslm-data: {message}", file=sys.stderr, flush=True)  # noqa: T201


def _is_heard() -> bool:
    """Return whether the logger or its parent, the root logger, has a handler with output."""
    handlers = [*LOGGER.handlers, *(LOGGER.root.handlers if LOGGER.propagate else ())]
    return any(not isinstance(handler, logging.NullHandler) for handler in handlers)


def plain(text: str, *, keep: str = "") -> str:
    r"""Escape characters that could control a terminal or a page.

    Control characters, direction marks, characters without a width and line ends become JSON
    escapes, such as `\u001b`. JSON stays valid JSON with equal values. Letters and marks of all
    scripts are kept.

    Args:
        text: Any text.
        keep: Characters to keep, such as our own newlines. Default: none.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join([letter if letter in keep else _escape(letter) for letter in text])


def few(names: Sequence[str], max_names: int) -> str:
    """Return at most `max_names` names, and the number of others."""
    others = len(names) - max_names
    if others <= 1:  # a single other name is as short as "1 other"
        return ", ".join(names)
    return f"{', '.join(names[:max_names])} and {others:,} others"


@functools.lru_cache(maxsize=1 << 12)
def _escape(letter: str) -> str:
    """Return the JSON escape of a character that is not seen, else the character itself."""
    is_no_character = ord(letter) & 0xFFFE == 0xFFFE
    if not is_no_character and unicodedata.category(letter) not in _UNSEEN:
        return letter
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
