"""`mslm-data push`."""

from __future__ import annotations

from pathlib import Path

import click

from mslm_data.cli.output import print_json


@click.command("push", short_help="Upload a built folder to the hub.")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.argument("repo", metavar="REPO")
@click.option(
    "--public", is_flag=True, help="For everybody to see.  [default: a private repository]"
)
@click.option(
    "--share-protected", is_flag=True,
    help="Upload patients' text. Data use agreements, such as that of MIMIC, forbid it: you say that yours does not, "
    "and answer for it.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(folder: Path, repo: str, public: bool, share_protected: bool, as_json: bool) -> None:
    """Verify DIR and upload it as the dataset REPO (OWNER/NAME) of the Hugging Face hub, private unless --public.

    What the build wrote is uploaded, and nothing else that lies in DIR. A folder of patients' notes is refused, for a
    private repository too: its token ids can be turned back into text, and those who gave you the notes forbid to pass
    them on. Log in first, with `hf auth login`.

    \b
    mslm-data push shards/ncbi me/ncbi-disease-mslm
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
            }
        )
    else:
        click.echo(
            f"{pushed.url}: {pushed.files} files, {'private' if pushed.private else 'public'}"
        )
