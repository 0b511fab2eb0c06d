"""`mslm-data push`."""

from __future__ import annotations

from pathlib import Path

import click

from mslm_data.cli.options import folder_argument, json_option
from mslm_data.cli.output import counted, echo, other_files, print_json


@click.command("push", short_help="Upload a built folder to the hub.")
@folder_argument
@click.argument("repo", metavar="REPO")
@click.option(
    "--public",
    is_flag=True,
    help="Upload to a public repository instead of a private one.",
)
@click.option(
    "--share-protected",
    is_flag=True,
    help="Upload patients' text. Data use agreements such as MIMIC's forbid this. With this "
    "option, you confirm that yours allows it, and take responsibility.",
)
@json_option
def command(folder: Path, repo: str, public: bool, share_protected: bool, as_json: bool) -> None:
    """Verify DIR and upload it as the dataset REPO (OWNER/NAME) to the Hugging Face hub.

    The repository is private unless --public is given. Only files written by the build are
    uploaded. Log in first, with `hf auth login`.

    A folder of patients' notes is an error, even for a private repository. Its token ids can be
    turned back into text, and data use agreements forbid passing it on.

    \b
    Example:
        mslm-data push shards/ncbi me/ncbi-disease-mslm
        mslm-data push shards/ncbi me/ncbi-disease-mslm --public
    """  # noqa: D301 - click wants the character
    from mslm_data.builds.push import push

    pushed = push(folder, repo, public=public, share_protected=share_protected)

    if as_json:
        print_json(pushed._asdict())
    else:
        visibility = "private" if pushed.private else "public"
        echo(f"{pushed.url}: {counted(pushed.files, 'file')}, {visibility}")
        if pushed.left_behind:
            echo(f"{folder}: did not upload {other_files(pushed.left_behind)}")
