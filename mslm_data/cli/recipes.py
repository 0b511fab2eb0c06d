"""`mslm-data recipes`."""

from __future__ import annotations

from typing import Any

import click

from mslm_data.cli.output import print_json, table
from mslm_data.io import resources


@click.command("recipes", short_help="List the shipped pipelines and strategies, or print one.")
@click.argument("name", required=False)
@click.option(
    "--strategies",
    is_flag=True,
    help="List the masking strategies instead of the pipelines. With NAME, print that strategy's TOML.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(name: str | None, strategies: bool, as_json: bool) -> None:
    """List the shipped pipelines, or print one to copy and change.

    With --strategies it lists the masking strategies: what each hides, whether it follows a paper or
    released code, and which. A name prints the TOML file to copy, with all options of its picks.

    \b
    mslm-data recipes blurb/ncbi-disease > mine.toml
    mslm-data build --source mine.toml --input my/files --tokenizer vocab.txt --out shards/mine
    mslm-data recipes --strategies whole-word > mask.toml
    mslm-data mask-stats shards/mine --strategy mask.toml
    """  # noqa: D301 - click wants the character
    if strategies:
        _strategies(name, as_json)
    elif name:
        text = resources.pipeline_text(name)
        if as_json:
            print_json({"name": name, "text": text})
        else:
            click.echo(text, nl=False)
    elif as_json:
        print_json({"recipes": resources.pipeline_names()})
    else:
        for known in resources.pipeline_names():
            click.echo(known)


def _strategies(name: str | None, as_json: bool) -> None:
    """Print which strategies there are, or one of them."""
    from mslm_data.mask import strategies

    if name:
        _strategy(name, as_json)
    elif as_json:
        listing = {known: summary._asdict() for known, summary in strategies().items()}
        print_json({"strategies": listing})
    else:
        rows = [
            (known, summary.hides, summary.status, summary.source)
            for known, summary in strategies().items()
        ]
        click.echo(table(("strategy", "hides", "status", "source"), rows))


def _strategy(name: str, as_json: bool) -> None:
    """Print the TOML of one strategy below its documentation, which stands in comments."""
    import inspect

    from mslm_data.mask import NO_MASKS, STRATEGIES, make, options_of
    from mslm_data.mask.table import SHIPPED

    if name in NO_MASKS:
        make(name, {})  # raises, and says what comes nearest

    full = STRATEGIES.resolve(name)
    text = inspect.getdoc(STRATEGIES.load(full)) or ""
    shipped = SHIPPED[full]
    defaults = {
        option: value
        for option, value in options_of(full).items()
        if value is not inspect.Parameter.empty
    }
    required = [option for option in options_of(full) if option not in defaults]
    toml = "" if required else str(make(full, {}))

    if as_json:
        print_json(
            {
                "strategy": full,
                "status": shipped.status,
                "source": shipped.source,
                "text": text,
                "defaults": {option: _written(value) for option, value in defaults.items()},
                "toml": toml,
            }
        )
        return

    comments = [
        f"{full}: {shipped.status}, {shipped.source}",
        "",
        *text.splitlines(),
        "",
        "In one line, with its options and their defaults:",
        f"use = {full!r}".replace("'", '"'),
        *[f"{option} = {_written(value)}" for option, value in defaults.items()],
    ]
    for line in comments:
        click.echo(f"# {line}".rstrip())
    click.echo()
    if required:
        click.echo(f"# Needs {', '.join(required)}: see above.")
    else:
        click.echo(toml, nl=False)


def _written(value: Any) -> str:
    """Return a default as TOML writes it; TOML has no word for None, which is no limit."""
    from mslm_data.mask.toml import inline, plain

    return "(no limit)" if value is None else inline(plain(value))
