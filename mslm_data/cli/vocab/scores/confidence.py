"""`mslm-data vocab scores confidence`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from mslm_data.cli.options import folder_argument, json_option
from mslm_data.cli.vocab.options import out_option, split_option
from mslm_data.cli.vocab.scores import run_column, say


@click.command("confidence", short_help="Tokens that a task model does not need.")
@folder_argument
@split_option("every split", "Score the rows")
@click.option(
    "--callable",
    "name",
    required=True,
    metavar="MODULE:FUNCTION",
    help="Ask this Python function for the task model's answers. It is imported and run: pass only "
    "code that you trust.",
)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    default=0.01,
    show_default=True,
    help="Take a token for important if it lowers the probability by less than this.",
)
@out_option("DIR/vocab/confidence", "the score column to this folder")
@json_option
def command(
    folder: Path,
    splits: tuple[str, ...],
    name: str,
    threshold: float,
    out: Path | None,
    as_json: bool,
) -> None:
    """Score each token by whether a task model needs it: Selective Masking's rule.

    Writes a score column. The model is a Python function of yours, p_true(rows, keys). For lists of
    token ids, special tokens among them, it returns the probability of the true label of each. That
    label is the one of the row with the key at the same place; NaN says that the row is not to be
    used. Give each model a column of its own with --out.

    A row is scanned from left to right with a buffer. Where P(row) - P(buffer + token) is below the
    threshold the token is important, and leaves the buffer. The score is the threshold less that
    drop, so it is above 0 just where the token is important. Special tokens and rows not used have
    0. One call of the function holds a step of many rows; a row of n tokens takes n + 1 sequences.

    \b
    Example:
        mslm-data vocab scores confidence shards/bc2gm --callable my_model:p_true
    """  # noqa: D301 - click wants the character
    from mslm_data.api.loading import load
    from mslm_data.lexicon.scores.selective import Confidence, load_callable

    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))

    shards = load(folder)
    score = Confidence(load_callable(name), threshold)

    out = out or folder / "vocab" / "confidence"
    made = {"of": "confidence", "callable": name, "threshold": threshold}
    report = run_column(shards, splits, out, made, score)
    counts = {
        "scanned_rows": score.rows,
        "left_out_rows": score.left_out,
        "scanned_tokens": score.scanned,
        "important": score.important,
    }
    say(as_json, out, {**asdict(report), **counts})
