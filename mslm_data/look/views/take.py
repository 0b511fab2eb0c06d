"""The counts and the page as commands, to copy."""

from __future__ import annotations

import shlex
from typing import Any

from mslm_data.io.toml import inline
from mslm_data.look.corpus import Corpus
from mslm_data.look.state import Choice, State
from mslm_data.pipeline import parse_value

TITLE = "Take it with you"
TEMPLATE = "take.html"


def context(corpus: Corpus, state: State) -> dict[str, Any]:
    """Return the commands to copy."""
    folder = str(corpus.shards.folder)
    counts = {}
    for made in corpus.strategies(state.strategies):
        words = ["mslm-data", "mask-stats", folder, "--split", state.split]
        words += ["--strategy", made.choice.name, *_options(corpus, made.choice)]
        counts[made.name] = shlex.join([*words, "--seed", str(state.seed)])

    gold = [] if corpus.gold is None else [str(corpus.gold.shards.folder)]
    words = ["mslm-data", "look", folder, *gold]
    # The address names strategies of the command, so the command has to add them again.
    for choice in state.strategies:
        if choice.name in corpus.added:
            words += ["--strategy", choice.name]
            words += _options(corpus, choice, prefix=f"{choice.name}.")
    page = shlex.join([*words, "--at", f"rows?{state.address()}"])
    return {"counts": counts, "page": page}


def _options(corpus: Corpus, choice: Choice, prefix: str = "") -> list[str]:
    """Return `--set option=value` for each option of a strategy.

    Args:
        corpus: Has the options of the command, which the address does not have.
        choice: The strategy.
        prefix: What comes before each option. Default: nothing.
    """
    added = corpus.added.get(choice.name)
    options = choice.options if added is None else added.options
    words = []
    for option, text in options.items():
        words += ["--set", f"{prefix}{option}={inline(parse_value(text))}"]
    return words
