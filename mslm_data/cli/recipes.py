"""`mslm-data recipes`."""

from __future__ import annotations

import click

from mslm_data.cli.output import print_json, table
from mslm_data.io import resources


@click.command("recipes", short_help="List the shipped pipelines, or print one.")
@click.argument("name", required=False)
@click.option(
    "--strategies",
    is_flag=True,
    help="List the strategies of masking instead, or print what one does.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(name: str | None, strategies: bool, as_json: bool) -> None:
    """List the shipped pipelines, or print one to copy and change; with --strategies, the strategies and their options.

    \b
    mslm-data recipes blurb/ncbi-disease > mine.toml
    mslm-data build --source mine.toml --input my/files --tokenizer vocab.txt
    """  # noqa: D301 - click wants the character
    if strategies:
        _strategies(name, as_json)
    elif name:
        text = resources.pipeline_text(name)
        print_json({"name": name, "text": text}) if as_json else click.echo(text, nl=False)
    elif as_json:
        print_json({"recipes": resources.pipeline_names()})
    else:
        for known in resources.pipeline_names():
            click.echo(known)


def _strategies(name: str | None, as_json: bool) -> None:
    """Print what strategies there are, or what one does and its options."""
    import inspect

    from mslm_data.mask import STRATEGIES
    from mslm_data.mask import strategies as lines

    if name:
        text = inspect.getdoc(STRATEGIES.load(name)) or ""
        print_json({"strategy": STRATEGIES.resolve(name), "text": text}) if as_json else click.echo(
            text
        )
    elif as_json:
        print_json({"strategies": lines()})
    else:
        click.echo(table(("strategy", "hides"), list(lines().items())))
