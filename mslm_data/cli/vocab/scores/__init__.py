"""`mslm-data vocab scores`: scores each word or token of a built folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mslm_data.cli.lazy import LazyGroup
from mslm_data.cli.vocab.options import WrittenOutput

if TYPE_CHECKING:
    from mslm_data.api.loading import Shards
    from mslm_data.lexicon.scores.making import Score
    from mslm_data.shard.split import Split

COMMANDS = {
    "anchors": "Words by their similarity to anchor words (Difference-Masking).",
    "attention": "Tokens by the attention from [CLS] (AttnMask, MST).",
    "logits": "Tokens by a token classifier's logit (Selective Masking, in-domain).",
    "confidence": "Tokens by their effect on a task model (Selective Masking, task data).",
    "table": "Words, pieces or ids by your own table (InforMask and others).",
    "frequency": "Token ids by their number of occurrences.",
}


@click.group("scores", cls=LazyGroup, package="mslm_data.cli.vocab.scores", commands=COMMANDS)
def command() -> None:
    """Score words or tokens of a built folder, for strategies that mask by score.

    Scores of words and of token ids are written as a lexicon, a single file. Scores of tokens in
    context are written as a score column, a folder with a file per shard; run the same command
    again to resume an interrupted one. Both are as private as the rows.

    \b
    Example:
        mslm-data vocab scores attention shards/bc2gm --encoder my-bert/
        mslm-data mask-stats shards/bc2gm --strategy attention-high
    """  # noqa: D301 - click wants the character


def chosen(shards: Shards, names: Sequence[str]) -> dict[str, Split]:
    """Return the splits of these names, or all splits without names."""
    return {name: shards[name] for name in names or shards.splits}


def make_column(
    shards: Shards, names: Sequence[str], out: Path, made: Mapping[str, Any], score: Score
) -> WrittenOutput:
    """Make a score column, with progress on stderr.

    Args:
        shards: The folder.
        names: Names of its splits; empty for all.
        out: Output folder for the column.
        made: How the column is made, for its `about`.
        score: Scores the rows of a shard.
    """
    from dataclasses import asdict

    from mslm_data.cli.progress import counting
    from mslm_data.io.private import warn_readable
    from mslm_data.lexicon.scores.making import about, write_column

    if shards.manifest.protected:
        warn_readable([out, out.parent])

    splits = chosen(shards, names)
    with counting("scores", "tokens") as progress:
        report = write_column(out, splits, about(shards.manifest, **made), score, progress=progress)
    return WrittenOutput(out=out, counts=asdict(report))
