"""`mslm-data vocab`: make what strategies and annotators need besides a corpus."""

from __future__ import annotations

import click

from mslm_data.cli.lazy import LazyGroup

COMMANDS = {
    "pmi": "Rank the n-grams of a built folder by pointwise mutual information.",
    "anchors": "Find the words that set a built folder apart from general text (TF-ICF).",
    "scores": "Score words or tokens of a built folder, by an encoder or a table.",
    "concepts": "Make a MedCAT model pack of concepts.",
}


@click.group("vocab", cls=LazyGroup, package="mslm_data.cli.vocab", commands=COMMANDS)
def command() -> None:
    """Make what strategies and annotators need besides a corpus.

    Lexicons and score columns go to the folder's `vocab/`, where strategies look for them.

    \b
    Example:
        mslm-data vocab pmi shards/bc2gm
        mslm-data mask-stats shards/bc2gm --strategy pmi
    """  # noqa: D301 - click wants the character
