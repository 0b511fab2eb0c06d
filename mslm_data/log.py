"""Holds the package's logger, and cleans whatever is said to people.

The logger, `mslm_data`, is silent until a program asks, as by `basicConfig`. Only why somebody
waits at a terminal or a notebook is said without being asked.
"""

from __future__ import annotations

import logging
import sys
import unicodedata
from collections.abc import Sequence

LOGGER = logging.getLogger("mslm_data")
LOGGER.addHandler(logging.NullHandler())

TO_KEEP = {"is_to_keep": True}
"""Passed as `extra` with a note that the log of a job without a terminal should have too."""

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that steer a terminal, turn the direction of text, or cannot be seen."""


def note_to_who_waits(message: str) -> None:
    """Log a note; where no program listens, print it for somebody at a terminal or a notebook.

    Processes that others lead say nothing: their leader does.
    """
    LOGGER.info(message)
    # A process that multiprocessing started has loaded it; in others it need not be.
    processes = sys.modules.get("multiprocessing")
    is_led = processes is not None and processes.parent_process() is not None
    if LOGGER.disabled or is_led or _is_heard() or sys.stderr is None:
        return
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        print(f"mslm-data: {message}", file=sys.stderr, flush=True)  # noqa: T201


def _is_heard() -> bool:
    """Return whether the logger, or one above it, has a handler that keeps anything."""
    logger: logging.Logger | None = LOGGER
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def plain(text: str, *, keep: str = "") -> str:
    r"""Return a text that can be shown: what came from a corpus may steer no terminal or page.

    Control characters, those that turn the direction of text, those without a width and ends of
    lines become escapes as JSON has them, such as `\u001b`. So JSON stays JSON, with equal values.
    Letters and marks of any script stay.

    Args:
        text: Any text.
        keep: Characters that stay all the same, such as a newline of our own.
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
