"""`mslm-data vocab scores confidence`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from mslm_data.cli.vocab.scores import common, run_column, say


@click.command("confidence", short_help="Tokens that a task model does not need.")
@common(out="DIR/vocab/confidence")
@click.option(
    "--callable",
    "name",
    required=True,
    metavar="MODULE:FUNCTION",
    help="The task model; see above.",
)
@click.option("--threshold", type=click.FloatRange(0, 1), default=0.01, show_default=True,
              help="Drops of probability below this make a token important.")  # fmt: skip
def command(
    folder: Path,
    names: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    name: str,
    threshold: float,
) -> None:
    """Score each token by whether a task model needs it, a score column: Selective Masking's rule (Gu et al. 2020).

    The model is a Python function of yours, p_true(rows, keys): for lists of token ids, special tokens among them,
    the probability of the true label of each, whose row has the key at the same place; NaN where a row is not to be
    used. It is imported, so pass only code that you trust, and run; --out tells one model's scores from another's.

    A row is scanned from left to right with a buffer: where P(row) - P(buffer + token) is below the threshold the
    token is important, and leaves the buffer. The score is the threshold less that drop: above 0 just where the token
    is important. Special tokens and rows not used have 0. One call of the function holds a step of many rows; a row of
    n tokens takes n + 1 sequences.
    """
    from mslm_data.lexicon.scores.selective import Confidence, load_callable
    from mslm_data.loading import load

    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    shards = load(folder)
    out = out or folder / "vocab" / "confidence"
    score = Confidence(load_callable(name), threshold)
    made = {"of": "confidence", "callable": name, "threshold": threshold}
    report = run_column(shards, names, out, made, score)
    counts = {"scanned_rows": score.rows, "left_out_rows": score.left_out}
    say(
        as_json,
        out,
        {**asdict(report), **counts, "scanned_tokens": score.scanned, "important": score.important},
    )
