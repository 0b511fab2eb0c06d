"""`mslm-data verify`."""

from __future__ import annotations

from pathlib import Path

import click

from mslm_data.cli.folder import FolderOrUrl
from mslm_data.cli.output import print_json
from mslm_data.io.remote import shown


@click.command("verify", short_help="Check a built folder.")
@click.argument("folder", type=FolderOrUrl(), metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(folder: Path | str, as_json: bool) -> int:
    """Check a built folder: checksums, counts, schema, offsets, tags against spans.

    Exit code 1 if anything is wrong. A folder at a URL that can be listed is copied into the cache folder first.
    """
    from mslm_data.shard.verify import verify

    manifest, problems = verify(_here(folder) if isinstance(folder, str) else folder)
    shards = sum(len(split.shards) for split in manifest.splits.values())
    sequences = sum(split.sequences for split in manifest.splits.values())
    if as_json:
        found = [{"place": problem.place, "what": problem.what} for problem in problems]
        print_json(
            {"ok": not problems, "shards": shards, "sequences": sequences, "problems": found}
        )
    else:
        for problem in problems:
            click.echo(f"{problem.place}: {problem.what}")
        verdict = f"{len(problems)} problems" if problems else "all as the manifest says"
        place = shown(folder) if isinstance(folder, str) else folder
        click.echo(f"{place}: {shards} shards, {sequences:,} sequences: {verdict}")
    return 1 if problems else 0


def _here(url: str) -> Path:
    """Copy a folder from a URL."""
    from mslm_data.errors import ShardError
    from mslm_data.source.inputs.localise import localise

    if url.startswith(("http://", "https://")):
        raise ShardError(
            f"{shown(url)}: expected a folder that can be listed, which http cannot; verify a copy of it"
        )
    return localise([url])[0]
