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
    from mslm_data.builds.entity_lines import LineCounts


@click.command("annotate", short_help="Find entities in texts with a trained model.")
@click.argument("model", metavar="MODEL")
@click.option(
    "--input",
    "given",
    multiple=True,
    required=True,
    metavar="FILE|FOLDER|-",
    help="Read texts from this file, folder or URL, or from standard input (-). Repeat it for "
    "further ones.",
)
@click.option(
    "--out",
    type=FileOrFolder(dir_okay=False),
    metavar="FILE.jsonl",
    help="Write the lines into this file when all are there, and what made them into "
    "FILE.jsonl.made.json. Until then FILE.jsonl.parts has the work that is done.  "
    "[default: standard output]",
)
@click.option(
    "--source",
    default="text",
    show_default=True,
    metavar="NAME|FILE.toml",
    help="Read documents as this source or pipeline does. `text` takes each .txt file as one "
    "document, and each row of tables, JSON lines, parquet and Arrow.",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="source.OPTION=VALUE",
    help="Change an option of the source, such as source.documents=line or "
    "source.text_column=note. Options of builds are refused. Repeat it for further options.",
)
@click.option(
    "--batch-size",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Give the model as many tokens at once as N rows of full length have. A GPU is faster "
    "with 32 and more, a CPU is not. What is found does not depend on it.",
)
@click.option(
    "--show-text",
    is_flag=True,
    help="Show patients' text: add the characters of each entity. Without this option no text is "
    "written.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the counts as one JSON object, instead of text for people. Without --out, where "
    "stdout has the lines, it is the last line of stderr.",
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
    """Find the entities of texts of any length, one JSON object a document.

    MODEL is a folder that MslmModel saved, or a token-classification model of transformers: its
    folder or hub name, with weights as safetensors. Places are characters of each text as it was
    given. Run the same command again to resume an interrupted one.

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
            lambda lines: echo(lines, nl=False),
            show_text=show_text,
            progress=progress,
        )
    _print_losses(counts)
    if as_json:
        # Where the lines are on stdout, nothing else may be.
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
    """Print on stderr which entities are left out, and which documents could not be read."""
    for reason, count in Counter(counts.left_out).most_common():
        echo(f"{count:,} found and left out: {reason}", err=True)
    for reason, count in Counter(counts.set_aside).most_common(3):
        echo(f"{count:,} set aside, the first at {counts.places[reason]}: {reason}", err=True)
