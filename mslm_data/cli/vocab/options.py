"""Shared by the commands of `mslm-data vocab`: options, and what they write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import click
import msgspec
from msgspec import Meta

from mslm_data.cli.command import option
from mslm_data.cli.options import FileOrFolder, LocalFolder
from mslm_data.cli.output_files import OutputFile
from mslm_data.errors import CallError, PipelineError
from mslm_data.registry import Options, from_options, list_options
from mslm_data.results import Result, Table, plain_values

if TYPE_CHECKING:
    from mslm_data.lexicon.store import Lexicon

OptionsT = TypeVar("OptionsT", bound=Options)


class FolderOptions(Options, frozen=True, kw_only=True):
    """Options of a command on a built folder."""

    folder: LocalFolder


class NameOrPath(click.ParamType[str]):
    """A name or a path. An empty text would mean the current folder."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text, or fail if it is empty."""
        if not value:
            problem = "expected a name or a path, got an empty one; is a shell variable unset?"
            self.fail(problem, param, ctx)
        return str(value)


Encoder = Annotated[
    str,
    option(
        "Hugging Face model: a folder or a hub id, with safetensors weights.",
        metavar="DIR|ID",
        type=NameOrPath(),
    ),
]

StopWords = Annotated[
    str | None,
    option(
        "Stop words to leave out: a file with a word per line, the shipped English ones, or none.",
        metavar="FILE|english|none",
    ),
]


def splits(purpose: str, *, default: str) -> Meta:
    """Describe `--split`, which can be repeated.

    Args:
        purpose: Ends the help text, such as "to count".
        default: Default splits, for the help text.
    """
    text = f"Name of a split {purpose}. Can be repeated."
    return option(text, metavar="NAME", default=default)


def output(default: str, noun: str) -> Meta:
    """Describe `--out`: an existing path must be a lexicon or a folder, as the command writes.

    Args:
        default: Default path, for the help text. A file has a suffix.
        noun: Ends the help text, such as "file for the lexicon".
    """
    is_file = bool(PurePath(default).suffix)
    kind = OutputFile(is_lexicon=True) if is_file else FileOrFolder(file_okay=False)
    return option(f"Output {noun}.", metavar="PATH", type=kind, default=default)


def with_fields(base: type[OptionsT], kind: type[Options], *, default: str = "") -> type[OptionsT]:
    """Return options with those of a tool of `lexicon` too, as its struct declares them.

    Args:
        base: The options of the command. One with the name of an option replaces it.
        kind: The struct.
        default: What holds for an option that is left out, for the help text; it is None then.
            Default: its own default.
    """
    fields: list[tuple[str, Any, Any]] = []
    for declared in list_options(kind):
        if declared.name in base.__struct_fields__:
            continue
        if not default:
            fields.append((declared.name, declared.type, declared.default))
            continue

        extra: dict[str, Any] = {}
        for mark in declared.type.__metadata__:
            extra |= mark.extra or {}
        extra["default"] = default
        if declared.words:
            extra["type"] = click.Choice(declared.words)
        about = Meta(description=declared.help, extra=extra)
        fields.append((declared.name, Annotated[declared.type | None, about], None))
    made = msgspec.defstruct(base.__name__, fields, bases=(base,), frozen=True, kw_only=True)
    return cast("type[OptionsT]", made)


def values_of(options: Options, kind: type[Options]) -> dict[str, Any]:
    """Return the values of the options of a struct that were not left out."""
    values = {name: getattr(options, name) for name in kind.__struct_fields__}
    return {name: value for name, value in values.items() if value is not None}


def convert(kind: type[OptionsT], values: Mapping[str, Any], *, where: str) -> OptionsT:
    """Make the options of a tool.

    Raises:
        CallError: They contradict each other.
    """
    try:
        return from_options(kind, values, where=where)
    except PipelineError as error:
        raise CallError(str(error)) from None


@dataclass(frozen=True, kw_only=True)
class WrittenOutput(Result):
    """A file or a folder that a command wrote.

    Attributes:
        out: Its path.
        counts: What the command counted, by name: other keys of `--json`.
    """

    out: Path
    counts: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the path and the counts as one object."""
        counts: dict[str, Any] = plain_values(self.counts)
        return {"out": str(self.out), **counts}

    def tables(self) -> Iterator[str | Table]:
        """Yield a row for each count and each key of a nested mapping, and the path."""
        rows: list[tuple[str, Any]] = []
        for name, value in self.counts.items():
            words = name.replace("_", " ")
            if isinstance(value, Mapping):
                rows += [(f"{words}: {key}", number) for key, number in value.items()]
            else:
                rows.append((words, value))

        yield Table(rows)
        yield str(self.out)


def save_lexicon(out: Path, lexicon: Lexicon, *, protected: bool) -> None:
    """Write a lexicon. Warn if patients' words are written to a folder that others can read."""
    from mslm_data.io.private import warn_readable
    from mslm_data.lexicon.store import write_lexicon

    if protected:
        warn_readable([out.parent])
    write_lexicon(out, lexicon)
