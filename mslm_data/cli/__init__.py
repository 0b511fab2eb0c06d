"""The command line: each command parses, calls and prints.

There is one module for each command. Nothing heavy is imported before it is needed, so that
`--help` of anything is instant.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import click

from mslm_data._version import __version__
from mslm_data.cli import process
from mslm_data.cli.lazy import LazyGroup
from mslm_data.errors import CallError

COMMANDS = {
    "build": "Turn a corpus into Arrow shards with BIO tags and entity-span indices.",
    "mask-stats": "Count what a strategy masks, and the loss weights that follow.",
    "look": "See a corpus and its masks as a page, live or as one file.",
    "inspect": "Show rows with their mentions and masks, in colour.",
    "verify": "Check a built folder: checksums, counts, schema, offsets, tags against spans.",
    "vocab": "Make what strategies need: n-grams, anchors, scores, concepts.",
    "annotate": "Find entities in texts with a trained model, one JSON object a document.",
    "audit": "Compare weak labels with gold mentions: precision, recall and F1.",
    "overlap": "Find sentences that stand in two splits, exactly or nearly.",
    "subset": "Write a few documents as a folder of their own, for few-shot experiments.",
    "export": "Write rows as parquet, MDS or JSON lines, for tools that do not read Arrow.",
    "push": "Upload a built folder to the Hugging Face hub; patients' text is refused.",
    "doctor": "List what is installed, and try a masked batch.",
    "recipes": "List the shipped pipelines and strategies, or print one to copy.",
}
"""Command -> its line in `--help`; its module has the same name, and its function is `command`."""

_COMPLETION = "_MSLM_DATA_COMPLETE"
"""The variable by which a shell asks click to complete words."""


@click.group(
    cls=LazyGroup,
    package="mslm_data.cli",
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="mslm-data")
@click.option(
    "--debug",
    is_flag=True,
    help="Show the traceback of an error. It may hold corpus text.",
)
def cli(debug: bool) -> None:
    """Turn corpora into masked, weighted batches for Mask-Specific Language Modeling.

    Exit codes: 0 done; 1 the data, the pipeline or the machine is wrong; 2 wrong call; 130
    interrupted; 143 terminated. Run the same command again to resume an interrupted one.

    \b
    Example:
        mslm-data build --source blurb/ncbi-disease --sample --out shards/ncbi
        mslm-data inspect shards/ncbi
        mslm-data mask-stats shards/ncbi --elm 0.5 --blm 0.15
    """  # noqa: D301 - click wants the character


def main(args: list[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0 done, 1 wrong data or environment, 2 wrong call; 130 interrupted, 141 nobody reads the output,
    143 terminated. What it writes is readable by its owner alone.

    Args:
        args: The words after `mslm-data`; by default those of the process.
    """
    words = sys.argv[1:] if args is None else args
    try:
        with (
            process.private_files(),
            process.every_character(),
            process.ended_by_signals(),
            process.log_on_stderr(),
            process.rare_collections(),
        ):
            result: Any = cli.main(args=words, prog_name="mslm-data", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        _show(error)
        return 2
    except CallError as error:
        _show(click.UsageError(str(error)))
        return 2
    except BaseException as error:  # libraries in Rust raise what is not an Exception
        if isinstance(error, SystemExit) and _COMPLETION in os.environ:
            return int(bool(error.code))  # click has answered a shell that completes words

        code, message = process.end_of(error)
        if code == 1 and "--debug" in words:
            raise
        process.say(message)
        if code == process.NOBODY_READS:
            process.detach_stdout()
        return code


def _show(error: click.ClickException) -> None:
    """Print what click says of a wrong call, with the user's own words cleaned."""
    page = io.StringIO()
    error.show(file=page)
    process.say(page.getvalue().rstrip("\n"))
