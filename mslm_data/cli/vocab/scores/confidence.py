"""`mslm-data vocab scores confidence`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from mslm_data.cli.command import make_command, option
from mslm_data.cli.options import Rate
from mslm_data.cli.own import import_own
from mslm_data.cli.vocab.options import FolderOptions, WrittenOutput, output, splits
from mslm_data.cli.vocab.scores import make_column


class ConfidenceScores(FolderOptions, frozen=True, kw_only=True):
    """Options of `mslm-data vocab scores confidence`."""

    split: Annotated[tuple[str, ...], splits("to score", default="all splits")] = ()
    callable: Annotated[
        str,
        option(
            "Python function that calls the task model. It is imported and run: pass only code "
            "that you trust.",
            metavar="MODULE:FUNCTION",
        ),
    ]
    threshold: Annotated[
        Rate,
        option("Maximum drop of the probability for an important token.", metavar="DROP"),
    ] = 0.01
    out: Annotated[Path | None, output("DIR/vocab/confidence", "folder for the score column")] = (
        None
    )


@make_command("confidence", ConfidenceScores)
def command(options: ConfidenceScores) -> WrittenOutput:
    r"""Score each token by its effect on a task model, as in Selective Masking.

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
    """
    from mslm_data.api.loading import load
    from mslm_data.lexicon.scores.selective import Confidence

    shards = load(options.folder)
    name = options.callable
    score = Confidence(import_own(name, where=f"--callable {name}"), options.threshold)

    out = options.out or options.folder / "vocab" / "confidence"
    made = {"of": "confidence", "callable": name, "threshold": options.threshold}
    column = make_column(shards, options.split, out, made, score)
    scanned = {
        "scanned_rows": score.rows,
        "left_out_rows": score.left_out,
        "scanned_tokens": score.scanned,
        "important": score.important,
    }
    return replace(column, counts={**column.counts, **scanned})
