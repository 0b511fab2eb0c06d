"""Draws rows with the masks of strategies, as `look` does: `md.show`.

md.show(shards["train"], "joint", "span")
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers

from mslm_data.batches.masked import check_split, strategy_for
from mslm_data.draw import macros, notebook_html
from mslm_data.draw.id_words import try_open_tokenizer
from mslm_data.draw.sentences import Sentences, choose_rows
from mslm_data.errors import ShardError
from mslm_data.mask.strategy import Strategy
from mslm_data.shard.row_numbers import check_rows, is_integer
from mslm_data.shard.split import Rows, Split


@dataclass(frozen=True, slots=True, repr=False)
class Drawing:
    """Rows drawn for a notebook, once per strategy.

    Attributes:
        rows: Numbers of the rows; a mix has the rows of its splits, one after the other.
        strategies: Names of the strategies; empty for rows with mentions only.
        html: The drawing, as HTML with its own style sheet.
    """

    rows: tuple[int, ...]
    strategies: tuple[str, ...]
    html: str

    def __repr__(self) -> str:
        rows = ", ".join(map(str, self.rows))
        under = f" under {', '.join(self.strategies)}" if self.strategies else ""

        return f"Drawing(rows {rows}{under}; a notebook shows it, .html has it)"

    def _repr_html_(self) -> str:
        return self.html


def show(
    split: Rows,
    *strategies: Strategy | str | Path,
    rows: int | Sequence[int] = 3,
    seed: int = 0,
    epoch: int = 0,
    show_text: bool = False,
) -> Drawing:
    """Draw rows with their mentions, and with the masks of strategies.

    Notebooks save their output, so patients' text is drawn only with `show_text`.

    Args:
        split: A split of a folder, or a mix.
        *strategies: Strategies or their names. Default: none, which draws mentions only.
        rows: Number of rows, spread over the split, or a list of row numbers. Default: 3.
        seed: Seed of the masks, as in training. Default: 0.
        epoch: Epoch of the masks. Default: 0.
        show_text: Whether patients' text may be drawn. Default: False.

    Raises:
        TypeError: `split` is not a split, a strategy has another type, or `rows` are not integers.
        ValueError: A strategy is unknown or depends on the training step, a seed or epoch is out of
            range, or `rows` is below 1.
        IndexError: A row does not exist.
        ShardError: The split has patients' text and `show_text` is False, or the folder has no
            tokenizer.
        VocabularyError: A strategy needs a lexicon that the folder does not have.
    """
    check_split(split)
    splits = [part.source for part in split.splits]
    for part in splits:
        if part.protected and not show_text:
            raise ShardError(
                f"{part.folder}: holds patients' text, which a notebook would keep; pass "
                "show_text=True to show it"
            )

    chosen = _chosen(split, rows)
    examples = split.take(chosen)

    sentences = Sentences(
        examples=examples,
        tokenizer=_words_of(splits[0]),
        labels=split.labels,
    )
    named = _named([strategy_for(split, strategy) for strategy in strategies])
    if named:
        legend = macros("rows.html").legend(len(named))
        drawn = legend + sentences.side_by_side(named, seed=seed, epoch=epoch)
    else:
        drawn = sentences.mentions()
    return Drawing(rows=tuple(chosen.tolist()), strategies=tuple(named), html=notebook_html(drawn))


def _chosen(split: Rows, rows: Any) -> npt.NDArray[np.int64]:
    """Return the row numbers, int64, for a number of rows or a list."""
    if not is_integer(rows):
        return check_rows(rows, split.stored)
    if rows < 1:
        raise ValueError(f"rows: expected at least 1, or the numbers of rows, got {rows}")
    return choose_rows(split, int(rows))


def _words_of(split: Split) -> tokenizers.Tokenizer:
    """Return the tokenizer of a split's folder, downloading it if needed."""
    file = split.tokenizer
    words = try_open_tokenizer(file)
    if words is None:
        raise ShardError(
            f"{file}: expected a tokenizer of the tokenizers library, got none; build the folder "
            "again"
        )
    return words


def _named(strategies: Sequence[Strategy]) -> dict[str, Strategy]:
    """Return name -> strategy, numbering equal names."""
    named: dict[str, Strategy] = {}
    for strategy in strategies:
        name = "own" if strategy.origin is None else strategy.origin.name.rpartition(".v")[0]
        count = sum(known.partition(" ")[0] == name for known in named)
        named[f"{name} {count + 1}" if count else name] = strategy
    return named
