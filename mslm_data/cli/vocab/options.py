"""Options of several `mslm-data vocab` commands, and saving of lexicons.

Options shared with other commands are in `cli.options`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mslm_data.cli.options import FileOrFolder
from mslm_data.cli.written import LexiconFile

if TYPE_CHECKING:
    from mslm_data.lexicon.store import Lexicon

F = TypeVar("F", bound=Callable[..., Any])


def given(
    context: click.Context,  # noqa: ARG001 - click's own signature
    option: click.Parameter,  # noqa: ARG001
    value: str,
) -> str:
    """Return the value of an option that may be a path; fail if it is empty.

    Raises:
        BadParameter: It is empty, which as a path would mean the current folder.
    """
    if not value:
        raise click.BadParameter(
            "expected a name or a path, got an empty one; is a shell variable unset?"
        )
    return value


encoder_option = click.option(
    "--encoder",
    "name",
    required=True,
    callback=given,
    metavar="DIR|ID",
    help="Hugging Face model: a folder or a hub id, with safetensors weights.",
)


def out_option(default: str, noun: str) -> Callable[[F], F]:
    """Add `--out`.

    An existing path must be a lexicon or a folder, as the command writes.

    Args:
        default: Default path, for the help text. A file has a suffix.
        noun: Ends the help text, such as "file for the lexicon".
    """
    is_file = bool(PurePath(default).suffix)
    return click.option(
        "--out",
        type=LexiconFile() if is_file else FileOrFolder(file_okay=False),
        metavar="PATH",
        help=f"Output {noun}.  [default: {default}]",
    )


stop_words_option = click.option(
    "--stop-words",
    metavar="FILE|english|none",
    help="Stop words to leave out: a file with a word per line, the shipped English ones, or none.",
)


def save_lexicon(out: Path, lexicon: Lexicon, *, protected: bool) -> None:
    """Write a lexicon. Warn if patients' words are written to a folder that others can read."""
    from mslm_data.io.private import warn_readable
    from mslm_data.lexicon.store import write_lexicon

    if protected:
        warn_readable([out.parent])
    write_lexicon(out, lexicon)
