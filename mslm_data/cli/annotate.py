"""`mslm-data annotate`."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mslm_data.cli.options import FileOrFolder
from mslm_data.cli.output import echo, print_json

if TYPE_CHECKING:
    from mslm_data.builds.line_sink import LineCounts


@click.command("annotate", short_help="Find entities in texts with a trained model.")
@click.argument("model", metavar="MODEL")
@click.option(
    "--input",
    "given",
    multiple=True,
    required=True,
    metavar="FILE|FOLDER|-",
    help="Input file, folder or URL, or - for standard input. Can be repeated.",
)
@click.option(
    "--out",
    type=FileOrFolder(dir_okay=False),
    metavar="FILE.jsonl",
    help="New output file, written when complete. Until then, FILE.jsonl.parts has the unfinished "
    "work.  [default: standard output]",
)
@click.option(
    "--source",
    default="text",
    show_default=True,
    metavar="NAME|FILE.toml",
    help="Source or pipeline that reads the documents. `text` reads each .txt file as one "
    "document, and each row of tables, JSON lines, parquet and Arrow files.",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="source.OPTION=VALUE",
    help="Option of the source, such as source.documents=line or source.text_column=note. Can be "
    "repeated.",
)
@click.option(
    "--batch-size",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of tokens per batch, in rows of full length. A GPU is faster with 32 or more, a "
    "CPU is not. The entities do not depend on it.",
)
@click.option(
    "--show-text",
    is_flag=True,
    help="Add the text of each entity to the output, even if it is patients' text.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the counts as one JSON object. Without --out, it is the last line of stderr, "
    "because stdout has the entities.",
)
def command(
    model: str,
    given: tuple[str, ...],
    out: Path | None,
    source: str,
    sets: tuple[str, ...],
    batch_size: int,
    show_text: bool,
    as_json: bool,
) -> None:
    """Find entities in texts of any length, and write a line of JSON per document.

    MODEL is a folder saved by MslmModel, or a token-classification model of transformers: a folder
    or a hub id, with safetensors weights. Starts and ends are character offsets in the input text.
    Run the same command again to resume an interrupted one.

    \b
    Example:
        mslm-data annotate models/ncbi --input notes --out found.jsonl
        mslm-data annotate models/ncbi --input notes.jsonl --set source.text_column=note
    """  # noqa: D301 - click wants the character
    from mslm_data.api import annotating
    from mslm_data.api.building import read_named
    from mslm_data.cli.progress import showing
    from mslm_data.io.private import warn_readable

    annotating.check_sets(sets)
    pipeline = annotating.with_model(read_named(source, sets=sets), model, batch_size=batch_size)
    inputs = annotating.find_texts(pipeline, given)
    if out is not None and show_text and pipeline.about.protected:
        warn_readable([out.parent])

    with showing("annotate") if out is not None else nullcontext(lambda _: None) as progress:
        counts = annotating.annotate(
            inputs,
            out,
            lambda lines: echo(lines.decode(), nl=False),
            show_text=show_text,
            progress=progress,
        )
    _print_losses(counts)
    if as_json:
        # Without --out, stdout has the entities and nothing else.
        print_json(_report(counts, out), err=out is None)
    elif out is not None:
        echo(f"{out}: {counts.documents:,} documents; {counts.entities:,} entities found")


def _report(counts: LineCounts, out: Path | None) -> dict[str, Any]:
    return {
        "out": str(out) if out is not None else None,
        "documents": counts.documents,
        "entities": counts.entities,
        "left_out": dict(counts.left_out),
        "set_aside": sum(counts.set_aside.values()),
    }


def _print_losses(counts: LineCounts) -> None:
    """Print to stderr the entities left out and the documents set aside, by reason."""
    for reason, count in Counter(counts.left_out).most_common():
        echo(f"{count:,} found and left out: {reason}", err=True)
    for reason, count in Counter(counts.set_aside).most_common(3):
        echo(f"{count:,} set aside, the first at {counts.places[reason]}: {reason}", err=True)
