"""`mslm-data export`."""

from __future__ import annotations

from pathlib import Path

import click

from mslm_data.cli.options import FileOrFolder, folder_or_url_argument, json_option
from mslm_data.cli.output import echo, print_json


@click.command("export", short_help="Write rows for other trainers and tools.")
@folder_or_url_argument
@click.option(
    "--to",
    required=True,
    type=click.Choice(["parquet", "mds", "jsonl", "gliner", "docbin", "conll"]),
    help="Write parquet, one file a shard; MDS, which mosaicml-streaming reads, in files of at "
    "most 64 MiB; JSON lines, one object a row, with keys as strings of digits; or the words of "
    "the rows with their mentions, as GLiNER trains on them, as spaCy's DocBin, or as CoNLL lines.",
)
@click.option(
    "--out",
    required=True,
    type=FileOrFolder(),
    metavar="DIR2",
    help="Write into this new folder, with a folder for each split.",
)
@click.option(
    "--split",
    "names",
    multiple=True,
    metavar="NAME",
    help="Write this split only. Repeat it for further splits.  [default: all]",
)
@json_option
def command(folder: Path | str, to: str, out: Path, names: tuple[str, ...], as_json: bool) -> None:
    """Write the rows of DIR for trainers and tools that do not read Arrow.

    Parquet, MDS and JSON lines have all columns, under the names that they have in DIR. gliner,
    docbin and conll have the words of each row with its mentions, and want a folder built with
    --set encode.keep_text=true. A copy of the tokenizer is there too. DIR2 appears when it is
    whole: after an interruption, run the same command again. Token ids can be turned back into
    text, so an export of patients' notes is patients' text too.

    \b
    Example:
        mslm-data export shards/ncbi --to parquet --out parquet/ncbi
        mslm-data export shards/ncbi --to mds --split train --out mds/ncbi
        mslm-data export shards/ncbi --to gliner --out gliner/ncbi
    """  # noqa: D301 - click wants the character
    from mslm_data.api.loading import load
    from mslm_data.cli.progress import counting

    with counting("export", "rows") as count:
        made = load(folder).export(to=to, out=out, splits=names or None, progress=count)

    splits = {
        name: {
            "rows": sum(file.rows for file in files),
            "files": len(files),
            "bytes": sum(file.bytes for file in files),
        }
        for name, files in made.splits.items()
    }
    if as_json:
        print_json({"out": str(out), "to": made.to, "protected": made.protected, "splits": splits})
        return

    for name, counts in splits.items():
        echo(f"{out / name}: {counts['rows']:,} rows in {_files(counts['files'])}")
    if made.protected:
        echo(f"{out}: patients' text{'' if made.has_words else _FROM_IDS}")


_FROM_IDS = ", as token ids can be turned back into it"


def _files(number: int) -> str:
    return "1 file" if number == 1 else f"{number} files"
