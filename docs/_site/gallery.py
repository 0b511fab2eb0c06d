"""Generate the gallery: a sentence of the sample with the masks of each strategy."""

from __future__ import annotations

import html
import json
import pprint
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import mslm_data as md
from _site import stand_ins
from _site.links import ROOT
from mslm_data.api.loading import Shards
from mslm_data.cli.recipes import EXAMPLES, prose
from mslm_data.draw import macros
from mslm_data.draw.sentences import EPOCHS, Sentences, choose_rows
from mslm_data.encode.tokenizer import open_tokenizer
from mslm_data.mask.strategy import Strategy
from mslm_data.mask.table import SHIPPED, STRATEGIES, default_options
from mslm_data.registry import REQUIRED, list_options
from mslm_data.stats import mask_stats

_SEED = 0
_CODE_COLUMNS = 76
_BESIDE = ("joint", "token", "whole-word", "span", "pmi", "salient", "difference", "entitybert")
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


def page() -> str:
    """Build the shipped sample and render the page."""
    with tempfile.TemporaryDirectory() as folder:
        shards = md.build("blurb/ncbi-disease", sample=True, out=Path(folder) / "sample", workers=1)
        return "\n".join(_lines(shards))


def _lines(shards: Shards) -> list[str]:
    train = shards["train"]
    chosen = choose_rows(train, 1)
    sentence = Sentences(
        examples=train.take(chosen),
        tokenizer=open_tokenizer(shards.tokenizer),
        labels=shards.labels,
    )
    rows = macros("rows.html")
    speeds = _speeds()

    needs = {name: _needs(name, sentence) for name in STRATEGIES.names()}
    stand_ins.write(shards)
    strategies = {
        name: shards.strategy(name, **_example_options(name)) for name in STRATEGIES.names()
    }

    lines = [
        "# Strategies",
        "",
        "Each strategy chooses which tokens of a row are masked. This page shows one sentence",
        "under each strategy, with default options, drawn as on the page of `look` and in",
        "notebooks. The upper line is one draw. The lower line is shaded by the number of masks of",
        "each token in a hundred epochs.",
        "",
        f'<div class="mslm">{rows.legend()}{rows.ramp()}</div>',
        "",
        "A strategy gives the same masks for the same seed in all releases: different masks would",
        "get a new version of its name. [Masking](../masking.md) explains how to use strategies,",
        "how to combine them, and how to make one from picks.",
        "",
        "## All at a glance",
        "",
        '<table class="sortable"><thead><tr><th>strategy</th><th>masks</th><th>source</th>',
        "<th>tokens masked</th><th>M tokens/s</th></tr></thead><tbody>",
    ]
    for name, strategy in strategies.items():
        short = _short(name)
        speed = speeds.get(short)
        cells = [
            f'<a href="#{_anchor(name)}">{short}</a>',
            _code(_prose(name)[0]),
            html.escape(SHIPPED[name].source),
            f"{_masked_share(strategy, shards):.1%}",
            f"{speed / 1e6:.1f}" if speed else "",
        ]
        lines.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    lines += ["</tbody></table>", ""]
    lines += [
        "Shares are of the tokens of the shipped sample, without special tokens. Speeds are from",
        "[the benchmarks](../results/speed.md), on one core.",
        "",
        "## Side by side",
        "",
        "One draw each, with the same seed. `inspect` with several `--strategy NAME` shows your",
        "own sentences like this.",
        "",
        '<div class="mslm beside">',
        sentence.side_by_side(
            {_short(name): strategies[name] for name in strategies if _short(name) in _BESIDE},
            seed=_SEED,
        ),
        "</div>",
        "",
    ]
    for name, strategy in strategies.items():
        # Shorten paths of lexicons and scores in the temporary folder.
        recipe = repr(strategy).replace(f"{shards.folder}/vocab/", "").rstrip()
        lines += _section(name, strategy, sentence, needs=needs[name], recipe=recipe)
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


def _example_options(name: str) -> dict[str, Any]:
    """Return example options of a strategy without defaults, {} of others."""
    return EXAMPLES.get(name, {})


def _short(name: str) -> str:
    return name.rsplit(".v", 1)[0]


def _section(
    name: str, strategy: Strategy, sentence: Sentences, *, needs: str, recipe: str
) -> list[str]:
    """Return the section of a strategy."""
    shipped = SHIPPED[name]
    short_description, long_description = _prose(name)
    short = _short(name)
    lines = [
        f"({_anchor(name)})=",
        f"## {short}",
        "",
        short_description,
        "",
        f"*{shipped.source}; {_STATUS[shipped.status]}.*",
        "",
    ]
    drawn = sentence.side_by_side({short: strategy}, seed=_SEED)
    lines += [
        '<div class="mslm drawn">',
        drawn + sentence.heat(strategy, seed=_SEED),
        "</div>",
        "",
    ]
    if needs and not _example_options(name):
        lines += [f"It needs more than its name: {_literal(needs)}. {_STAND_IN}", ""]
    if long_description:
        lines += [long_description, ""]

    options = list_options(STRATEGIES.load(name))
    if options:
        lines += ["| option | default | |", "|---|---|---|"]
        lines += [
            f"| `{option.name}` | `{_default(option.default)}` | {_cell(option.help)} |"
            for option in options
        ]
        lines.append("")
    call = (
        _call(short, _example_options(name))
        if _example_options(name)
        else _call(short, _numbers(default_options(name)))
    )
    lines += ["```python", call, "```", ""]

    lines += ["<details><summary>As a file, to change</summary>", ""]
    return [*lines, "```toml", recipe, "```", "", "</details>", ""]


def _call(name: str, options: dict[str, Any]) -> str:
    """Return Python code that makes a strategy, wrapped at `_CODE_COLUMNS`."""
    arguments = [f'"{name}"', *(f"{option}={value!r}" for option, value in options.items())]
    call = f"strategy = md.strategy({', '.join(arguments)})"
    if len(call) <= _CODE_COLUMNS:
        return call

    arguments[1:] = [f"{option}={pprint.pformat(value, 64)}" for option, value in options.items()]
    lines = textwrap.indent(",\n".join(arguments), "    ")
    return f"strategy = md.strategy(\n{lines},\n)"


def _numbers(options: dict[str, Any]) -> dict[str, Any]:
    """Return the first three numeric options, the most likely ones to change."""
    shown = {
        option: value
        for option, value in options.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return dict(list(shown.items())[:3])


def _masked_share(strategy: Strategy, shards: Shards) -> float:
    stats = mask_stats(shards["train"].chunks, strategy, seed=_SEED, labels=shards.labels)
    return stats.realised_rate


def _speeds() -> dict[str, float]:
    """Return strategy -> tokens per second, from the committed results of the benchmarks."""
    path = ROOT / "benchmarks" / "results" / "strategies.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {
        row["name"].removeprefix("strategy "): row["ours"]
        for row in rows
        if row["name"].startswith("strategy ") and row["unit"] == "tokens" and row["ours"]
    }


def _prose(name: str) -> tuple[str, str]:
    """Return the first paragraph of a strategy's docstring, and the others."""
    first, _, others = prose(STRATEGIES.load(name)).partition("\n\n")
    return first, others


def _anchor(name: str) -> str:
    return f"strategy-{_short(name)}"


def _default(value: Any) -> str:
    return "required" if value is REQUIRED else _cell(repr(value))


def _literal(message: str) -> str:
    return message.replace("<", "&lt;")


def _code(text: str) -> str:
    """Return a line as HTML, with text in backticks as code."""
    parts = html.escape(text).split("`")
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
