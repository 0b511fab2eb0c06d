"""`mslm-data inspect`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mslm_data.cli.folder import FolderOrUrl
from mslm_data.cli.output import print_json

if TYPE_CHECKING:
    from rich.text import Text
    from tokenizers import Tokenizer

    from mslm_data.data.examples import Examples
    from mslm_data.data.ragged import Array

_KINDS = ("", "blm", "elm")
"""Names of `MaskKind`."""
_MARKS = {"": ("", ""), "blm": ("<", ">"), "elm": ("[[", "]]")}
_STYLES = {"mention": "bold cyan", "elm": "black on red", "blm": "black on yellow"}


@click.command("inspect", short_help="Show sequences with mentions and masks.")
@click.argument("folder", type=FolderOrUrl(), metavar="DIR")
@click.option("--split", default="train", show_default=True)
@click.option(
    "--rows", type=click.IntRange(1), default=5, show_default=True, help="How many sequences."
)
@click.option(
    "--start", type=click.IntRange(0), default=0, show_default=True, help="The first of them."
)
@click.option(
    "--strategy", "names", multiple=True, help="What masks; several are shown one under the other."
)
@click.option("--elm", type=float, help="Share of mentions hidden whole.")
@click.option("--blm", type=float, help="Share of tokens hidden besides.")
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="[NAME.]OPTION=VALUE",
    help="Another option of the strategy; NAME.OPTION for one of several.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--epoch", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--show-text", is_flag=True, help="Show patients' text, which is not shown without this."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    folder: Path | str, split: str, rows: int, start: int, names: tuple[str, ...], **options: Any
) -> None:
    """Show real sequences: mentions as {mention}Label, tokens masked as terms (ELM) and as other words (BLM).

    On a terminal mentions are cyan, ELM masks red, BLM masks yellow; without colour, ELM is [[so]] and BLM <so>.

    --strategy takes a name (`mslm-data recipes --strategies` lists them) or a TOML file with a table [mask]. Of
    several, --set NAME.option=value is for one alone. Lexicons and score columns are looked for in DIR/vocab.
    """
    import tokenizers

    from mslm_data.cli.strategy import of_options
    from mslm_data.errors import ShardError
    from mslm_data.loading import load

    shards = load(folder)
    if shards.manifest.protected and not options["show_text"]:
        raise ShardError(f"{shards.folder}: holds patients' text; pass --show-text to see it here")
    of_split = shards[split]
    stop = min(start + rows, len(of_split))
    examples = of_split.examples(min(start, stop), stop)
    core = tokenizers.Tokenizer.from_file(str(shards.tokenizer))
    plans = {}
    for name in names or ("joint",):
        rates = {"elm": options["elm"], "blm": options["blm"]}
        strategy = of_options(name, rates, options["sets"], shards=shards, several=len(names) > 1)
        plans[name] = strategy.plan(examples, seed=options["seed"], epoch=options["epoch"]).kinds
    shown = [
        {
            "row": start + i,
            "doc_id": of_split[start + i]["doc_id"],
            "tokens": [core.id_to_token(token) for token in examples.input_ids[i].tolist()],
            "mentions": _mentions(examples, i, shards.labels),
            "masks": {name: kinds[i].tolist() for name, kinds in plans.items()},
        }
        for i in range(len(examples))
    ]
    if options["as_json"]:
        print_json({"split": split, "rows": shown})
        return
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    for i, row in enumerate(shown):
        console.print(f"{split} {row['row']}  {row['doc_id']}", style="dim", markup=False)
        for name, kinds in plans.items():
            pieces = [_people(core, token) for token in examples.input_ids[i].tolist()]
            colour = console.is_terminal and not console.no_color
            line = _line(pieces, row["mentions"], examples.word_ids[i], kinds[i], colour=colour)
            console.print(f"  {name}: ", line, sep="", markup=False)


def _mentions(examples: Examples, row: int, labels: tuple[str, ...]) -> list[dict[str, Any]]:
    spans = zip(
        examples.span_starts[row], examples.span_ends[row], examples.span_labels[row], strict=True
    )
    return [
        {"start": int(start), "end": int(end), "label": labels[label]}
        for start, end, label in spans
    ]


def _people(core: Tokenizer, token: int) -> str:
    """Return a piece as people read it: without the marks of its tokenizer, bytes as characters."""
    text: str = core.decode([token], skip_special_tokens=False).strip().removeprefix("##")
    return text or str(core.id_to_token(token))


def _line(
    pieces: Sequence[str],
    mentions: Sequence[Mapping[str, Any]],
    words: Array,
    kinds: Array,
    *,
    colour: bool,
) -> Text:
    """Put a row's pieces together: a space before each word, marks around mentions and runs of masked tokens."""
    from rich.text import Text

    labels = {mention["end"] - 1: mention["label"] for mention in mentions}
    starts = {mention["start"] for mention in mentions}
    inside = {t for mention in mentions for t in range(mention["start"], mention["end"])}
    tokens = [t for t in range(len(words)) if words[t] >= 0]
    line = Text()
    for t in tokens:
        kind = _KINDS[kinds[t]]
        goes_on = (
            t - 1 in tokens and kinds[t - 1] == kinds[t] and t not in starts and t - 1 not in labels
        )
        stays_on = (
            t + 1 in tokens and kinds[t + 1] == kinds[t] and t + 1 not in starts and t not in labels
        )
        style = _STYLES[kind] if kind else _STYLES["mention"] if t in inside else ""
        if line and words[t] != words[t - 1]:
            line.append(" ", style if goes_on else "")
        if t in starts:
            line.append("{", _STYLES["mention"])
        before, after = ("", "") if colour else _MARKS[kind]
        line.append(f"{'' if goes_on else before}{pieces[t]}{'' if stays_on else after}", style)
        if t in labels:
            line.append(f"}}{labels[t]}", _STYLES["mention"])
    return line
