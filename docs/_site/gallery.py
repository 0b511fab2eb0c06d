"""Writes the gallery: one real sentence under each strategy, with what it hides."""

from __future__ import annotations

import html
import inspect
import json
import tempfile
from pathlib import Path
from typing import Any

import docstring_parser

import mslm_data as md
from _site.links import ROOT
from mslm_data.cli.tokenizer import open_tokenizer
from mslm_data.loading import Shards
from mslm_data.mask.strategy import Strategy
from mslm_data.mask.table import SHIPPED, STRATEGIES, options_of
from mslm_data.stats import mask_stats
from mslm_data.stats.report import Sentences, choose_rows
from mslm_data.stats.report.sentences import EPOCHS

_SEED = 0
_STATUS = {
    "paper": "follows the paper",
    "released": "follows the released code",
    "adapted": "adapted to rows of text",
    "recalled": "follows the paper, as it is recalled elsewhere",
    "own": "of this package",
}


def page() -> str:
    """Return the page, drawn on a sentence of the shipped sample."""
    with tempfile.TemporaryDirectory() as folder:
        shards = md.build("blurb/ncbi-disease", sample=True, out=Path(folder) / "sample", workers=1)
        return "\n".join(_lines(shards))


def _lines(shards: Shards) -> list[str]:
    train = shards["train"]
    rows = choose_rows(train, 1)
    sentence = Sentences(
        rows=rows.tolist(),
        examples=train.take(rows),
        tokenizer=open_tokenizer(shards),
        labels=shards.labels,
    )
    speeds = _speeds()

    made: dict[str, Strategy | str] = {}
    for name in STRATEGIES.names():
        try:
            strategy = md.strategy(name)
            for epoch in (0, EPOCHS - 1):
                strategy.plan(sentence.examples, epoch=epoch)
        except (ValueError, md.MslmDataError) as error:
            made[name] = str(error)
        else:
            made[name] = strategy

    lines = [
        "# Strategies",
        "",
        "Each strategy says which tokens of a row are hidden. Here is one sentence under each,",
        'with options at their defaults: <span class="e">whole mentions (ELM)</span> and',
        '<span class="b">other tokens (BLM)</span>, mentions underlined. The upper line is one',
        "draw; the lower is shaded by how often each token is hidden in a hundred epochs.",
        "",
        "Names stand for their numbers: another mask for the same seed would be a new version.",
        "[masking](../masking.md) says how strategies are used, combined and made of picks.",
        "",
        "## All at a glance",
        "",
        '<table class="sortable"><thead><tr><th>strategy</th><th>hides</th><th>source</th>',
        "<th>tokens hidden</th><th>million tokens a second</th></tr></thead><tbody>",
    ]
    for name, strategy in made.items():
        share = "" if isinstance(strategy, str) else f"{_hidden(strategy, shards):.1%}"
        short = name.rsplit(".v", 1)[0]
        speed = speeds.get(short)
        cells = [
            f'<a href="#{_anchor(name)}">{short}</a>',
            html.escape(_parsed(name).short_description or ""),
            html.escape(SHIPPED[name].source),
            share,
            f"{speed / 1e6:.1f}" if speed else "",
        ]
        lines.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    lines += ["</tbody></table>", ""]
    lines += [
        "Shares are of all tokens of the shipped sample but special ones. Rates are those of",
        "[the benchmarks](benchmarks.md), on one core. Neither is known here of strategies that",
        "need a lexicon or scores of a corpus.",
        "",
    ]
    for name, strategy in made.items():
        lines += _section(name, strategy, sentence)
    return lines


def _section(name: str, strategy: Strategy | str, sentence: Sentences) -> list[str]:
    """Return the section of a strategy."""
    shipped = SHIPPED[name]
    parsed = _parsed(name)
    short = name.rsplit(".v", 1)[0]
    lines = [
        f"({_anchor(name)})=",
        f"## {short}",
        "",
        parsed.short_description or "",
        "",
        f"*{shipped.source}; {_STATUS[shipped.status]}.*",
        "",
    ]
    if isinstance(strategy, str):
        lines += [f"It needs more than its name: {_literal(strategy)}", ""]
    else:
        drawn = sentence.side_by_side({short: strategy}, seed=_SEED)
        lines += [
            '<div class="drawn">',
            drawn + sentence.heat(strategy, seed=_SEED),
            "</div>",
            "",
        ]
    if parsed.long_description:
        lines += [parsed.long_description, ""]

    says = {parameter.arg_name: parameter.description or "" for parameter in parsed.params}
    options = options_of(name)
    if options:
        lines += ["| option | default | |", "|---|---|---|"]
        lines += [
            f"| `{option}` | `{_default(value)}` | {_cell(says.get(option, ''))} |"
            for option, value in options.items()
        ]
        lines.append("")
    return [*lines, "```python", f"{_call(short, options)}", "```", ""]


def _call(name: str, options: dict[str, Any]) -> str:
    """Return the call that makes a strategy, with its main options to change."""
    shown = {
        option: value
        for option, value in options.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    given = "".join(f", {option}={value!r}" for option, value in list(shown.items())[:3])
    return f'strategy = md.strategy("{name}"{given})'


def _hidden(strategy: Strategy, shards: Shards) -> float:
    stats = mask_stats(shards["train"].chunks, strategy, seed=_SEED, labels=shards.labels)
    return stats.realised_rate


def _speeds() -> dict[str, float]:
    """Return tokens a second by strategy, from the committed results of the benchmarks."""
    path = ROOT / "benchmarks" / "results" / "strategies.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {
        row["name"].removeprefix("strategy "): row["ours"]
        for row in rows
        if row["name"].startswith("strategy ") and row["unit"] == "tokens" and row["ours"]
    }


def _parsed(name: str) -> docstring_parser.Docstring:
    documentation = inspect.getdoc(STRATEGIES.load(name)) or ""
    return docstring_parser.parse(documentation, docstring_parser.DocstringStyle.GOOGLE)


def _anchor(name: str) -> str:
    return "strategy-" + name.rsplit(".v", 1)[0]


def _default(value: Any) -> str:
    return "required" if value is inspect.Parameter.empty else _cell(repr(value))


def _literal(message: str) -> str:
    return message.replace("<", "&lt;")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
