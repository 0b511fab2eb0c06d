"""`mslm-data export`."""

from __future__ import annotations

from pathlib import Path

import click

from mslm_data.cli.options import FileOrFolder, folder_or_url_argument, json_option, splits_option
from mslm_data.cli.output import counted, echo, print_json


@click.command("export", short_help="Write rows for other trainers and tools.")
@folder_or_url_argument
@click.option(
    "--to",
    required=True,
    type=click.Choice(["parquet", "jsonl", "gliner", "docbin", "conll"]),
    help="Output format, a file per shard. With all columns: parquet; jsonl, an object per row, "
    "with keys as strings. With words and mentions: gliner, spaCy's docbin, or conll.",
)
@click.option(
    "--out",
    required=True,
    type=FileOrFolder(),
    metavar="DIR2",
    help="New output folder, with a subfolder per split.",
)
@splits_option("to write", default="all")
@json_option
def command(folder: Path | str, to: str, out: Path, splits: tuple[str, ...], as_json: bool) -> None:
    """Write the rows of DIR for trainers and tools that do not read Arrow.

    parquet and jsonl have all columns of DIR, under the same names. gliner, docbin and conll
    have the words of each row with its mentions, and need a folder built with --set
    encode.keep_text=true. DIR2 has a copy of the tokenizer. It is created complete or not at all:
    after an interruption, run the same command again. Token ids can be turned back into text, so an
    export of patients' notes is patients' text too.

    \b
    Example:
        mslm-data export shards/ncbi --to parquet --out parquet/ncbi
        mslm-data export shards/ncbi --to jsonl --split train --out jsonl/ncbi
        mslm-data export shards/ncbi --to gliner --out gliner/ncbi
    """  # noqa: D301 - click wants the character
    from mslm_data.api.loading import load
    from mslm_data.cli.progress import counting
    from mslm_data.shard.export import FORMATS

    shards = load(folder)
    with counting("export", "rows") as count:
        exported = shards.export(to=to, out=out, splits=splits or None, progress=count)

    protected = shards.manifest.protected
    if as_json:
        written = {name: size._asdict() for name, size in exported.items()}
        print_json({"out": str(out), "to": to, "protected": protected, "splits": written})
        return

    for name, size in exported.items():
        echo(f"{out / name}: {counted(size.rows, 'row')} in {counted(size.files, 'file')}")
    if protected:
        from_ids = "" if FORMATS[to].has_words else ", as token ids can be turned back into it"
        echo(f"{out}: patients' text{from_ids}")
