"""The command line: parse, call, print. One module per command; nothing heavy is imported before it is needed."""

from __future__ import annotations

import sys
from typing import Any

import click

from mslm_data._version import __version__
from mslm_data.cli import process
from mslm_data.cli.lazy import LazyGroup

COMMANDS = {
    "build": "Turn a corpus into Arrow shards with BIO tags and entity-span indices.",
    "mask-stats": "Count what a strategy masks, and the mask-specific weights that follow.",
    "inspect": "Show sequences with their mentions and masks, in colour.",
    "verify": "Check a built folder: checksums, counts, schema, offsets, tags against spans.",
    "vocab": "Make what strategies and annotators need: n-grams, anchors, scores, word pieces, concepts.",
    "audit": "Compare weak labels with gold mentions: precision, recall and F1.",
    "push": "Upload a built folder as a dataset of the Hugging Face hub; patients' text is refused.",
    "recipes": "List the shipped pipelines, or print one to copy.",
}
"""Command -> its line in `--help`; its module has the same name, and its function is `command`."""


@click.group(
    cls=LazyGroup,
    package="mslm_data.cli",
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="mslm-data")
@click.option(
    "--debug", is_flag=True, help="Show the traceback of an error; it may hold corpus text."
)
def cli(debug: bool) -> None:
    """Corpora to masked, weighted batches for Mask-Specific Language Modeling.

    Exit codes: 0 done; 1 the data, the pipeline or the machine is wrong; 2 wrong call; 130 interrupted and 143
    terminated, where the same command goes on.
    """


def main(args: list[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0 done, 1 wrong data or environment, 2 wrong call; 130 interrupted, 141 nobody reads the output, 143 terminated.
    What it writes is readable by its owner alone.
    """
    words = sys.argv[1:] if args is None else args
    try:
        with process.private_files(), process.ended_by_sigterm():
            result: Any = cli.main(args=words, prog_name="mslm-data", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except BaseException as error:  # libraries in Rust raise what is no Exception
        code, message = process.end_of(error)
        if code == 1 and "--debug" in words:
            raise
        process.say(message)
        if code == process.NOBODY_READS:
            process.let_go_of_stdout()
        return code
