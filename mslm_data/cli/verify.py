"""`mslm-data verify`."""

from __future__ import annotations

from pathlib import Path

import click

from mslm_data.cli.options import folder_or_url_argument, json_option
from mslm_data.cli.output import echo, other_files, print_json
from mslm_data.io.remote import redact_url


@click.command("verify", short_help="Check a built folder.")
@folder_or_url_argument
@json_option
def command(folder: Path | str, as_json: bool) -> int:
    """Check a built folder: checksums, counts, schema, offsets, tags against spans.

    The exit code is 1 if anything is wrong. Files that no build writes, such as what `datasets` and
    `mslm-data vocab` leave there, are passed over. A folder at a URL is first copied into the cache
    folder, so the URL must be one that can be listed.

    \b
    Example:
        mslm-data verify shards/ncbi
        mslm-data verify s3://bucket/shards/ncbi --json
    """  # noqa: D301 - click wants the character
    from mslm_data.shard.remote import RemoteFolder
    from mslm_data.shard.verify import find_other_files, verify

    here = RemoteFolder(folder).copy() if isinstance(folder, str) else folder
    manifest, problems = verify(here)
    others = find_other_files(here, manifest)
    shards = sum(len(split.shards) for split in manifest.splits.values())
    rows = sum(split.sequences for split in manifest.splits.values())

    if as_json:
        found = [{"place": problem.place, "what": problem.what} for problem in problems]
        print_json(
            {
                "ok": not problems,
                "shards": shards,
                "sequences": rows,
                "problems": found,
                "passed_over": others,
            }
        )
    else:
        for problem in problems:
            echo(f"{problem.place}: {problem.what}")
        verdict = f"{len(problems)} problems" if problems else "all as the manifest says"
        place = redact_url(folder) if isinstance(folder, str) else folder
        echo(f"{place}: {shards} shards, {rows:,} rows: {verdict}")
        if others:
            echo(f"{place}: passed over {other_files(others)}")

    return 1 if problems else 0
