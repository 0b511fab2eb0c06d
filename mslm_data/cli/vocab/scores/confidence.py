"""`mslm-data vocab scores confidence`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from mslm_data.cli.options import folder_argument, json_option, splits_option
from mslm_data.cli.vocab.options import out_option
from mslm_data.cli.vocab.scores import print_report, run_column


@click.command("confidence", short_help="Tokens by their effect on a task model.")
@folder_argument
@splits_option("to score", default="all splits")
@click.option(
    "--callable",
    "name",
    required=True,
    metavar="MODULE:FUNCTION",
    help="Python function that calls the task model. It is imported and run: pass only code that "
    "you trust.",
)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    default=0.01,
    show_default=True,
    help="Maximum drop of the probability for an important token.",
)
@out_option("DIR/vocab/confidence", "folder for the score column")
@json_option
def command(
    folder: Path,
    splits: tuple[str, ...],
    name: str,
    threshold: float,
    out: Path | None,
    as_json: bool,
) -> None:
    """Score each token by its effect on a task model, as in Selective Masking.

    Writes a score column. The model is your Python function p_true(rows, keys). It takes lists of
    token ids with special tokens, and the key of the row of each. It returns the probability of the
    row's true label for each list, or NaN to skip the row. Use a separate column (--out) per model.

    A row is scanned from left to right with a buffer. If P(row) - P(buffer + token) is below the
    threshold, the token is important and is removed from the buffer. The score is the threshold
    minus this drop, so important tokens have a score above 0. Special tokens and skipped rows have
    score 0. Each call of the function has one step of many rows; a row of n tokens needs n + 1
    sequences.

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
    print_report(as_json, out, {**asdict(report), **counts})
