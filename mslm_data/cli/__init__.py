"""The command line: each command parses its options, calls the library and prints the result.

Each command has a module. Modules import heavy packages late, so that `--help` is instant.
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
    "look": "Show a corpus and its masks as a page, live or as one file.",
    "inspect": "Show rows with their mentions and masks, in colour.",
    "verify": "Check a built folder: checksums, counts, schema, offsets, tags and spans.",
    "vocab": "Make lexicons, scores and tables of terms for strategies and annotators.",
    "annotate": "Find entities in texts with a trained model, as JSON lines.",
    "audit": "Compare weak labels with gold mentions: precision, recall and F1.",
    "overlap": "Find sentences that two splits share, exactly or nearly.",
    "subset": "Write some documents as a new folder, for few-shot experiments.",
    "export": "Write rows as parquet or JSON lines, for tools that do not read Arrow.",
    "push": "Upload a built folder to the Hugging Face hub, except patients' text.",
    "doctor": "List versions, extras, CPUs and the cache, and mask a test batch.",
    "recipes": "List the shipped pipelines and strategies, or print one to copy.",
}
"""Command -> its line in `--help`. Its function is `command` in the module of the same name."""

_COMPLETION = "_MSLM_DATA_COMPLETE"
"""Environment variable that a shell sets to ask click for completions."""


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
    help="Show the traceback of an error. It may contain corpus text.",
)
def cli(debug: bool) -> None:
    """Turn corpora into masked, weighted batches for Mask-Specific Language Modeling.

    Exit codes: 0 success; 1 error in the data, the pipeline or the environment; 2 wrong usage; 130
    interrupted; 143 terminated. Run the same command again to resume an interrupted one.

    \b
    Example:
        mslm-data build --source blurb/ncbi-disease --sample --out shards/ncbi
        mslm-data inspect shards/ncbi
        mslm-data mask-stats shards/ncbi --elm 0.5 --blm 0.15
    """  # noqa: D301 - click wants the character


def main(args: list[str] | None = None) -> int:
    """Run the command line, and return its exit code.

    0 success, 1 error in the data or environment, 2 wrong usage, 130 interrupted, 141 stdout or
    stderr was closed, 143 terminated. All written files are readable by their owner only.

    Args:
        args: The words after `mslm-data`. Default: those of the process.
    """
    words = sys.argv[1:] if args is None else args
    try:
        with (
            process.private_files(),
            process.escape_unencodable(),
            process.raise_on_signals(),
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
    except BaseException as error:  # also panics of Rust libraries
        if isinstance(error, SystemExit) and _COMPLETION in os.environ:
            return int(bool(error.code))  # click has printed completions

        code, message = process.explain_end(error)
        if code == 1 and "--debug" in words:
            raise
        process.print_message(message)
        if code == process.OUTPUT_CLOSED:
            process.detach_stdout()
        return code


def _show(error: click.ClickException) -> None:
    """Print click's message about a wrong call, with special characters escaped."""
    page = io.StringIO()
    error.show(file=page)
    process.print_message(page.getvalue().rstrip("\n"))
