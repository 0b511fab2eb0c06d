"""Generate the gallery: a sentence of the sample with the masks of each strategy."""

from __future__ import annotations

import tempfile
from pathlib import Path

import mslm_data as md
from _site import stand_ins
from _site.options import option_table
from mslm_data.api.loading import Shards
from mslm_data.cli.recipes import EXAMPLES, prose
from mslm_data.draw import macros
from mslm_data.draw.sentences import EPOCHS, Sentences, choose_rows
from mslm_data.encode.tokenizer import open_tokenizer
from mslm_data.mask.strategy import Strategy
from mslm_data.mask.table import STRATEGIES, strategies, summary
from mslm_data.registry import list_options

_SEED = 0
_STAND_IN = (
    "The drawing uses stand-ins: rarity of tokens in the sample as scores, words of nine or more "
    "letters as key words, mentions as concepts, and n-grams of the sample for PMI."
)
_STATUS = {
    "paper": "follows the paper",
    "released": "follows the released code",
    "adapted": "adapted to rows of text",
    "recalled": "follows the paper, which was not re-read",
    "own": "a strategy of this package",
}
_INTRODUCTION = """\
# Strategies

Each strategy chooses which tokens of a row are masked. This page shows one sentence under each
strategy, with default options, drawn as on the page of `look` and in notebooks. The upper line is
one draw. The lower line is shaded by the number of masks of each token in a hundred epochs.

A strategy gives the same masks for the same seed in all releases: different masks would get a new
version of its name. [Masking](../masking.md) explains how to use strategies, how to combine them,
and how to make one from picks.
"""


def page() -> str:
    """Build the shipped sample and render the page."""
    with tempfile.TemporaryDirectory() as folder:
        shards = md.build("blurb/ncbi-disease", sample=True, out=Path(folder) / "sample", workers=1)
        return "\n".join(_lines(shards))


def _lines(shards: Shards) -> list[str]:
    train = shards["train"]
    sentence = Sentences(
        examples=train.take(choose_rows(train, 1)),
        tokenizer=open_tokenizer(shards.tokenizer),
        labels=shards.labels,
    )
    rows = macros("rows.html")
    lines = [_INTRODUCTION, f'<div class="mslm">{rows.legend()}{rows.ramp()}</div>', ""]

    lines += ["| strategy | masks | source |", "|---|---|---|"]
    lines += [
        f"| [{_short(name)}](#strategy-{_short(name)}) | {about.masks} | {about.source} |"
        for name, about in strategies().items()
    ]
    lines.append("")

    needs = {name: _needs(name, sentence) for name in STRATEGIES.names()}
    stand_ins.write(shards)
    for name, error in needs.items():
        strategy = shards.strategy(name, **EXAMPLES.get(name, {}))
        # Shorten paths of lexicons and scores in the temporary folder.
        recipe = repr(strategy).replace(f"{shards.folder}/vocab/", "").rstrip()
        lines += _section(name, strategy, sentence, needs=error, recipe=recipe)
    return lines


def _needs(name: str, sentence: Sentences) -> str:
    """Return the error message of a strategy without options and folder, "" if there is none."""
    try:
        strategy = md.strategy(name)
        for epoch in (0, EPOCHS - 1):
            strategy.plan(sentence.examples, epoch=epoch)
    except (ValueError, md.MslmDataError) as error:
        return str(error)
    return ""


def _section(
    name: str, strategy: Strategy, sentence: Sentences, *, needs: str, recipe: str
) -> list[str]:
    """Return the section of a strategy."""
    short = _short(name)
    about = summary(name)
    first, _, others = prose(STRATEGIES.load(name)).partition("\n\n")

    drawn = sentence.side_by_side({short: strategy}, seed=_SEED)
    lines = [
        f"(strategy-{short})=",
        f"## {short}",
        "",
        first,
        "",
        f"*{about.source}; {_STATUS[about.status]}.*",
        "",
        '<div class="mslm drawn">',
        drawn + sentence.heat(strategy, seed=_SEED),
        "</div>",
        "",
    ]
    if needs and name not in EXAMPLES:
        message = needs.replace("<", "&lt;")
        lines += [f"It needs more than its name: {message}. {_STAND_IN}", ""]
    lines += [others, "", *option_table(list_options(STRATEGIES.load(name)))]

    lines += ["<details><summary>As a file, to change</summary>", ""]
    return [*lines, "```toml", recipe, "```", "", "</details>", ""]


def _short(name: str) -> str:
    """Return the name of a strategy without its version."""
    return name.rsplit(".v", 1)[0]
