"""`mslm-data push`."""

from __future__ import annotations

from pathlib import Path

import click

from mslm_data.cli.options import folder_argument, json_option
from mslm_data.cli.output import echo, other_files, print_json


@click.command("push", short_help="Upload a built folder to the hub.")
@folder_argument
@click.argument("repo", metavar="REPO")
@click.option(
    "--public",
    is_flag=True,
    help="Upload to a repository that everybody can see.  [default: a private one]",
)
@click.option(
    "--share-protected",
    is_flag=True,
    help="Upload patients' text. Data use agreements, such as that of MIMIC, forbid it: with this "
    "option you say that yours does not, and answer for it.",
)
@json_option
def command(folder: Path, repo: str, public: bool, share_protected: bool, as_json: bool) -> None:
    """Verify DIR and upload it as the dataset REPO (OWNER/NAME) of the Hugging Face hub.

    The repository is private unless --public is given. Only what the build wrote is uploaded; other
    files in DIR stay here. Log in first, with `hf auth login`.

    A folder of patients' notes is refused, for a private repository too. Its token ids can be
    turned back into text, and those who gave you the notes forbid passing them on.

    \b
    Example:
        mslm-data push shards/ncbi me/ncbi-disease-mslm
        mslm-data push shards/ncbi me/ncbi-disease-mslm --public
    """  # noqa: D301 - click wants the character
    from mslm_data.shard.push import push

    pushed = push(folder, repo, public=public, share_protected=share_protected)

    if as_json:
        print_json(
            {
                "repo": pushed.repo,
                "url": pushed.url,
                "private": pushed.private,
                "files": pushed.files,
                "left_behind": list(pushed.left_behind),
            }
        )
    else:
        visibility = "private" if pushed.private else "public"
        echo(f"{pushed.url}: {pushed.files} files, {visibility}")
        if pushed.left_behind:
            echo(f"{folder}: left behind {other_files(pushed.left_behind)}")
