"""`mslm-data inspect`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mslm_data.cli.agreement import agreement_record, print_agreement
from mslm_data.cli.options import (
    epoch_option,
    folder_or_url_argument,
    json_option,
    show_text_option,
    split_option,
    strategy_options,
)
from mslm_data.cli.output import echo, print_json, table
from mslm_data.data.context import decode_flags
from mslm_data.log import plain

if TYPE_CHECKING:
    from rich.text import Text
    from tokenizers import Tokenizer

    from mslm_data.data.examples import Examples
    from mslm_data.draw.marked_rows import Group

_MARKS = {"": ("", ""), "b": ("<", ">"), "e": ("[[", "]]")}
"""Kind of mask -> marks before and after masked tokens without colours."""

_STYLES = {"": "", "mention": "bold cyan", "e": "black on red", "b": "black on yellow"}


@click.command("inspect", short_help="Show rows with mentions and masks.")
@folder_or_url_argument
@split_option("to show")
@click.option(
    "--rows",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    metavar="N",
    help="Maximum number of rows.",
)
@click.option(
    "--start",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="ROW",
    help="First row to show, counted from 0.",
)
@strategy_options()
@epoch_option
@show_text_option
@json_option
def command(
    folder: Path | str,
    split: str,
    rows: int,
    start: int,
    names: tuple[str, ...],
    elm: float | None,
    blm: float | None,
    sets: tuple[str, ...],
    seed: int,
    epoch: int,
    show_text: bool,
    as_json: bool,
) -> None:
    """Show rows with their mentions, and the tokens that each strategy masks.

    A mention is shown as {mention}Label, coloured on a terminal. Tokens masked as terms (ELM) are
    red, or [[marked]] without colours. Tokens masked as other words (BLM) are yellow, or <marked>.

    Several strategies are shown below each other. Lexicons and score columns are searched in
    DIR/vocab first. A table below compares the masked share of these rows with each rate. If the
    folder has several annotators, another table shows their agreement.

    \b
    Example:
        mslm-data inspect shards/ncbi --rows 3
        mslm-data inspect shards/ncbi --start 40 --strategy joint --strategy span \\
            --set span.rate=0.2
    """  # noqa: D301 - click wants the character
    from mslm_data.api.loading import load
    from mslm_data.cli.strategy import make_strategies
    from mslm_data.encode.tokenizer import open_tokenizer
    from mslm_data.errors import ShardError
    from mslm_data.stats import effective_rates
    from mslm_data.stats.counts import ALL_MASKED
    from mslm_data.stats.tally import Tally

    shards = load(folder)
    if shards.manifest.protected and not show_text:
        raise ShardError(f"{shards.folder}: holds patients' text; pass --show-text to see it here")

    rows_of_split = shards[split]
    if start and start >= len(rows_of_split):
        raise click.UsageError(
            f"--start: expected a row below {len(rows_of_split)}, the number of rows of '{split}', "
            f"got {start}"
        )
    stop = min(start + rows, len(rows_of_split))
    examples = rows_of_split.examples(start, stop)

    strategies = make_strategies(shards, names, elm=elm, blm=blm, sets=sets)
    # Plan the masks, and measure their rates in these rows.
    plans = {
        name: strategy.plan(examples, seed=seed, epoch=epoch)
        for name, strategy in strategies.items()
    }
    rates = {}
    for name, plan in plans.items():
        counted = Tally(shards.labels, epochs=1)
        counted.add(examples, [plan])
        stats = counted.stats()
        rates[name] = [rate._asdict() for rate in effective_rates(strategies[name], stats)]
        if stats.all_masked:
            echo(f"warning: {name}: {ALL_MASKED}; lower the rates", err=True)

    tokenizer = open_tokenizer(shards.tokenizer)
    shown_rows = [
        {
            "row": start + i,
            "doc_id": rows_of_split[start + i]["doc_id"],
            "tokens": [tokenizer.id_to_token(token) for token in examples.input_ids[i].tolist()],
            "mentions": _mentions(examples, i, shards.labels, rows_of_split[start + i]),
            "masks": {name: plan.kinds[i].tolist() for name, plan in plans.items()},
        }
        for i in range(len(examples))
    ]

    agreement = agreement_record(shards.manifest)
    if as_json:
        print_json({"split": split, "rows": shown_rows, "rates": rates, **agreement})
    else:
        _print(split, shown_rows, examples, tokenizer, shards.labels)
        _print_rates(rates)
        if agreement:
            echo()
            print_agreement(agreement["agreement"])


def _print(
    split: str,
    shown_rows: Sequence[Mapping[str, Any]],
    examples: Examples,
    tokenizer: Tokenizer,
    labels: Sequence[str],
) -> None:
    """Print the rows: a line per strategy below the row's number and document."""
    import numpy as np
    from rich.console import Console

    from mslm_data.draw.marked_rows import Pieces, draw_line

    # Wrap lines on a terminal only, so that programs read one line per row and strategy.
    console = Console(highlight=False, emoji=False)
    console.soft_wrap = not console.is_terminal
    colour = console.is_terminal and not console.no_color

    pieces = Pieces(tokenizer)
    flags = [
        ", ".join(mention.get("context", ())) for row in shown_rows for mention in row["mentions"]
    ]
    for i, row in enumerate(shown_rows):
        name = plain(f"{split} {row['row']}  {row['doc_id']}")
        console.print(name, style="dim", markup=False)
        for name, kinds in row["masks"].items():
            groups = draw_line(examples, i, np.array(kinds), None, pieces, labels, flags)
            console.print(f"  {name}: ", _line(groups, colour=colour), sep="", markup=False)
    console.print(_legend(colour=colour))


def _legend(*, colour: bool) -> Text:
    """Return the line that explains colours or marks."""
    from rich.text import Text

    marks = {kind: ("", "") if colour else _MARKS[kind] for kind in ("e", "b")}
    line = Text("\n")
    line.append("{mention}label", _STYLES["mention"])
    for kind, words in (("e", "masked as a term (ELM)"), ("b", "masked as another word (BLM)")):
        before, after = marks[kind]
        line.append("   ")
        line.append(f"{before}{words}{after}", _STYLES[kind])
    return line


def _print_rates(rates: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Print a table of rates, each with the masked share of the shown rows."""
    from mslm_data.cli.mask_tables import rate_cells

    rows = [
        (name, *rate_cells(rate))
        for name, strategy_rates in rates.items()
        for rate in strategy_rates
    ]
    if rows:
        echo()
        echo(table(("in these rows", "", "rate", "masked", ""), rows))


def _mentions(
    examples: Examples, row: int, labels: tuple[str, ...], columns: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the mentions of a row, with their flags if the folder has contexts."""
    spans = zip(
        examples.span_starts[row], examples.span_ends[row], examples.span_labels[row], strict=True
    )
    mentions: list[dict[str, Any]] = [
        {"start": int(start), "end": int(end), "label": labels[label]}
        for start, end, label in spans
    ]
    for mention, bits in zip(mentions, columns.get("span_contexts", ()), strict=False):
        mention["context"] = decode_flags(bits)
    return mentions


def _line(groups: Sequence[Group], *, colour: bool) -> Text:
    """Return a row as one line, with marks around mentions and masked tokens.

    Args:
        groups: The row, from `draw.marked_rows`.
        colour: Whether colours replace the marks of masked tokens.
    """
    from rich.text import Text

    line = Text()
    for group in groups:
        is_mention = group.label is not None
        line.append(group.before)
        if is_mention:
            line.append("{", _STYLES["mention"])

        # Adjacent tokens with the same mask form a run, marked once.
        for run in group.runs:
            usual = "mention" if is_mention else ""
            before, after = ("", "") if colour else _MARKS[run.kind]
            style = _STYLES[run.kind or usual]
            line.append(f"{before}{plain(run.text)}{after}", style)

        if group.label is not None:
            line.append(f"}}{plain(group.label)}", _STYLES["mention"])
            if group.flags:
                line.append(f" ({group.flags})", _STYLES["mention"])

    return line
