"""`mslm-data verify`."""

from __future__ import annotations

from pathlib import Path

import click

from mslm_data.cli.options import folder_or_url_argument, json_option
from mslm_data.cli.output import counted, echo, other_files, print_json
from mslm_data.io.remote import redact_url


@click.command("verify", short_help="Check a built folder.")
@folder_or_url_argument
@json_option
def command(folder: Path | str, as_json: bool) -> int:
    """Check a built folder: checksums, counts, schema, offsets, tags and spans.

    The exit code is 1 if there is a problem. Files that no build writes, such as those of
    `datasets` and `mslm-data vocab`, are ignored. A folder at a URL is copied to the cache folder
    first, so the URL must support listing.

    \b
    Example:
        mslm-data verify shards/ncbi
        mslm-data verify s3://bucket/shards/ncbi --json
    """  # noqa: D301 - click wants the character
    from mslm_data.builds.verify import find_other_files, verify
    from mslm_data.shard.remote import RemoteFolder

    local_folder = RemoteFolder(folder).copy() if isinstance(folder, str) else folder
    manifest, problems = verify(local_folder)
    others = find_other_files(local_folder, manifest)
    shards = sum(len(split.shards) for split in manifest.splits.values())
    rows = sum(split.sequences for split in manifest.splits.values())

    if as_json:
        print_json(
            {
                "ok": not problems,
                "shards": shards,
                "sequences": rows,
                "problems": [
                    {"place": problem.place, "what": problem.what} for problem in problems
                ],
                "passed_over": others,
            }
        )
    else:
        for problem in problems:
            echo(f"{problem.place}: {problem.what}")
        verdict = counted(len(problems), "problem") if problems else "no problems"
        place = redact_url(folder) if isinstance(folder, str) else folder
        echo(f"{place}: {counted(shards, 'shard')}, {counted(rows, 'row')}: {verdict}")
        if others:
            echo(f"{place}: ignored {other_files(others)}")

    return 1 if problems else 0
