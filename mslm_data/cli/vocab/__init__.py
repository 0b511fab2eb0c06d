"""`mslm-data vocab`: makes lexicons, scores and tables of terms."""

from __future__ import annotations

import click

from mslm_data.cli.lazy import LazyGroup

COMMANDS = {
    "pmi": "Rank the n-grams of a built folder by pointwise mutual information.",
    "anchors": "Find the words that distinguish a built folder from general text (TF-ICF).",
    "scores": "Score words or tokens of a built folder with an encoder or a table.",
    "concepts": "Make a table of terms from concepts.",
}


@click.group("vocab", cls=LazyGroup, package="mslm_data.cli.vocab", commands=COMMANDS)
def command() -> None:
    """Make lexicons, scores and tables of terms for strategies and annotators.

    Lexicons and score columns are written to `vocab/` of the folder, where strategies find them.

    \b
    Example:
        mslm-data vocab pmi shards/bc2gm
        mslm-data mask-stats shards/bc2gm --strategy pmi
    """  # noqa: D301 - click wants the character
