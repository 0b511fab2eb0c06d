"""Render the options of anything that has some as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import to_builtins

from mslm_data.io.toml import inline
from mslm_data.registry import REQUIRED, Option


def option_table(options: Iterable[Option]) -> list[str]:
    """Return the lines of a table with the name, the default and the description of options."""
    rows = [
        f"| `{option.name}` | {_default(option)} | {_description(option)} |" for option in options
    ]
    if not rows:
        return ["It has no options.", ""]
    return ["| option | default | |", "|---|---|---|", *rows, ""]


def _default(option: Option) -> str:
    """Return the default in TOML."""
    if option.default is REQUIRED:
        return "required"
    if option.default is None:
        return "not set"
    if not isinstance(option.default, bool | int | float | str | tuple | Mapping):
        return "a table"
    return f"`{inline(to_builtins(option.default))}`"


def _description(option: Option) -> str:
    """Return the help of an option, its allowed words and its limits."""
    text = option.help
    if option.words:
        text += f" One of {', '.join(f'`{inline(word)}`' for word in option.words)}."
    if option.limits:
        text += f" Limits: {option.limits}."
    return " ".join(text.split()).replace("|", "\\|")
