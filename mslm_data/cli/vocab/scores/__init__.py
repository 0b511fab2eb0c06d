"""`mslm-data vocab scores`: words or tokens of a built folder with a number each, one module for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mslm_data.cli import output  # by its name: `table` here becomes the module of that subcommand
from mslm_data.cli.lazy import LazyGroup

if TYPE_CHECKING:
    from mslm_data.lexicon.scores.making import ColumnReport, Score
    from mslm_data.loading import Shards
    from mslm_data.shard.split import Split

COMMANDS = {
    "anchors": "Words by their likeness to anchor words (Difference-Masking).",
    "attention": "Tokens by the attention that [CLS] pays them (AttnMask, MST).",
    "logits": "Tokens by a token classifier's logit (Selective Masking, in-domain).",
    "confidence": "Tokens that a task model does not need (Selective Masking, task data).",
    "table": "Words, pieces or ids by a table of yours (InforMask and others).",
    "frequency": "Token ids by how often they occur.",
}
F = TypeVar("F", bound=Callable[..., Any])


@click.group("scores", cls=LazyGroup, package="mslm_data.cli.vocab.scores", commands=COMMANDS)
def command() -> None:
    """Score words or tokens of a built folder, for strategies that hide some rather than others.

    Words and token ids make a lexicon, one file; tokens where they stand make a score column, a folder with a file
    for each shard. A column that was interrupted goes on where it stopped. Both are as private as the rows.
    """


def common(*, out: str, splits: str = "every one") -> Callable[[F], F]:
    """Add the argument and options that all kinds have.

    Args:
        out: The default of `--out`, for people.
        splits: That of `--split`, likewise.
    """
    options = (
        click.argument("folder", type=click.Path(path_type=Path), metavar="DIR"),
        click.option(
            "--split",
            "names",
            multiple=True,
            metavar="NAME",
            help=f"May repeat.  [default: {splits}]",
        ),
        click.option(
            "--out", type=click.Path(path_type=Path), metavar="PATH", help=f"[default: {out}]"
        ),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    )

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def chosen(shards: Shards, names: Sequence[str]) -> dict[str, Split]:
    """Return the splits that `--split` names, all where it names none."""
    return {name: shards[name] for name in names or shards.splits}


def run_column(
    shards: Shards, names: Sequence[str], out: Path, made: Mapping[str, Any], score: Score
) -> ColumnReport:
    """Make a score column with progress on stderr.

    Args:
        shards: The folder.
        names: See `chosen`.
        out: The column's folder.
        made: What its `about` says of how it is made.
        score: See `write_column`.
    """
    from mslm_data.cli.private import warn_of_readers
    from mslm_data.cli.progress import counting
    from mslm_data.lexicon.scores.making import about, write_column

    if shards.manifest.protected:
        warn_of_readers([out, out.parent])
    with counting("scores", "tokens") as progress:
        return write_column(
            out, chosen(shards, names), about(shards.manifest, **made), score, progress=progress
        )


def say(as_json: bool, out: Path, report: Mapping[str, Any]) -> None:
    """Print what was made: one JSON object, or a table of numbers for people; mappings are flattened into it."""
    if as_json:
        output.print_json({"out": str(out), **report})
        return
    rows: list[tuple[str, Any]] = []
    for name, value in report.items():
        if isinstance(value, Mapping):
            rows += [(f"{name.replace('_', ' ')}: {key}", number) for key, number in value.items()]
        else:
            rows.append((name.replace("_", " "), value))
    click.echo(output.table(("", ""), rows).removeprefix("\n"))
    click.echo(str(out))
