"""Options that several `mslm-data vocab` commands share, and how they save a lexicon.

Those that commands outside `vocab` have too are in `cli.options`.
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
    """Return the value of an option that may be a path, and refuse an empty one.

    Raises:
        BadParameter: As a path it would be the current folder.
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
    help="Use this Hugging Face model, a folder or a hub id. Weights must be safetensors files.",
)


def out_option(default: str, what: str) -> Callable[[F], F]:
    """Add `--out`.

    What is there already must be of the kind that the command writes: a lexicon or a folder.

    Args:
        default: Where the command writes without it, for people; a file has a suffix.
        what: What the command writes there, such as "the lexicon to this file".
    """
    is_file = bool(PurePath(default).suffix)
    return click.option(
        "--out",
        type=LexiconFile() if is_file else FileOrFolder(file_okay=False),
        metavar="PATH",
        help=f"Write {what}.  [default: {default}]",
    )


def split_option(default: str, verb: str) -> Callable[[F], F]:
    """Add `--split`, which may be given several times.

    Args:
        default: The splits without it, for people.
        verb: What the command does in a split, such as "Count".
    """
    return click.option(
        "--split",
        "splits",
        multiple=True,
        metavar="NAME",
        help=f"{verb} in this split. Repeat it for further splits.  [default: {default}]",
    )


stop_words_option = click.option(
    "--stop-words",
    metavar="FILE|english|none",
    help="Leave out stop words: those of a file, one a line, the shipped English ones, or none.",
)


def save_lexicon(out: Path, lexicon: Lexicon, *, protected: bool) -> None:
    """Write a lexicon; warn first if patients' words go where others can enter."""
    from mslm_data.io.private import warn_readable
    from mslm_data.lexicon.store import write_lexicon

    if protected:
        warn_readable([out.parent])
    write_lexicon(out, lexicon)
