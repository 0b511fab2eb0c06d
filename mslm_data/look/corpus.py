"""The folder that the page shows, with what is kept between two requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers

from mslm_data.api.loading import Shards
from mslm_data.data.context import decode_flags
from mslm_data.draw.marked_rows import Pieces
from mslm_data.encode.tokenizer import library_errors
from mslm_data.look.jobs import Jobs
from mslm_data.look.options import text_of
from mslm_data.look.state import Choice
from mslm_data.mask.strategy import Strategy
from mslm_data.mask.table import STRATEGIES, default_options
from mslm_data.pipeline import parse_value
from mslm_data.shard.split import Split


class Corpus:
    """A built folder, its tokenizer and the strategies that were made for it.

    Attributes:
        shards: The folder.
        jobs: Counts of whole splits.
        added: Strategies that no options can say, by name.
        shows_text: Whether rows may be shown: the folder is not protected, or `--show-text` asks.
    """

    def __init__(
        self,
        shards: Shards,
        *,
        show_text: bool = False,
        live: bool = False,
        added: Mapping[str, Strategy] | None = None,
    ) -> None:
        """Keep the folder; nothing is read yet.

        Args:
            shards: The folder.
            show_text: Whether rows of a protected folder may be shown.
            added: Strategies that another one has; see `add`.
            live: Whether a page may be drawn before all counts are there.
        """
        self.shards = shards
        self.jobs = Jobs(in_background=live)
        self.shows_text = show_text or not shards.manifest.protected
        self.added: dict[str, Strategy] = dict(added or {})
        self.strategy = lru_cache(64)(self._strategy)

    @property
    def protected(self) -> bool:
        """Whether the folder holds patients' text."""
        return self.shards.manifest.protected

    @cached_property
    def tokenizer(self) -> tokenizers.Tokenizer:
        """The tokenizer of the folder.

        Raises:
            ShardError: There is none.
            TokenizerError: It is damaged.
        """
        path = self.shards.tokenizer
        with library_errors(f"{path}: expected a tokenizer of the tokenizers library: "):
            return tokenizers.Tokenizer.from_buffer(path.read_bytes())

    @cached_property
    def pieces(self) -> Pieces:
        """The text of each token."""
        return Pieces(self.tokenizer)

    def strategies(self, choices: Sequence[Choice]) -> dict[str, Strategy]:
        """Return the strategies of a state by their names; a number tells equal ones."""
        named: dict[str, Strategy] = {}
        for choice in choices:
            count = sum(name.partition(" ")[0] == choice.name for name in named)
            name = f"{choice.name} {count + 1}" if count else choice.name
            named[name] = self.strategy(choice.name, tuple(choice.options.items()))
        return named

    def add(self, name: str, strategy: Strategy) -> Choice:
        """Return the choice that stands for a strategy, which is kept if no options can say it.

        An address may name registered strategies, and those that were added here: it can neither
        have a file read nor a module imported.
        """
        if strategy.origin is not None and name in _names():
            defaults = default_options(name)
            options = {
                option: value
                for option, value in strategy.origin.options.items()
                if value != defaults.get(option)
            }
            if options.keys() <= defaults.keys() - {"parts", "picks"}:
                return Choice(name, {option: text_of(value) for option, value in options.items()})
        self.added[name] = strategy
        return Choice(name)

    def _strategy(self, name: str, options: tuple[tuple[str, str], ...]) -> Strategy:
        if name in self.added:
            return self.added[name]
        STRATEGIES.resolve(name)
        return self.shards.strategy(name, **{option: parse_value(text) for option, text in options})


def _names() -> set[str]:
    """Return the names of strategies, with and without their versions."""
    return {name.rpartition(".v")[0] for name in STRATEGIES.names()} | set(STRATEGIES.names())


def read_column(split: Split, name: str, rows: npt.NDArray[np.int64]) -> list[Any]:
    """Return one column of some rows as plain values; None for each row of a shard without it."""
    values: list[Any] = [None] * len(rows)
    for shard, places, own in split.picks(rows):
        if not shard.has(name):
            continue
        where = np.arange(len(rows))[places]
        column = shard.batch.column(name)
        if np.array_equal(own, np.arange(own[0], own[0] + len(own))):
            column = column.slice(own[0], len(own)).to_pylist()
        else:
            column = [column[row].as_py() for row in own.tolist()]
        for place, value in zip(where.tolist(), column, strict=True):
            values[place] = value
    return values


def read_flags(split: Split, rows: npt.NDArray[np.int64]) -> list[str]:
    """Return the context of each mention of some rows in words; empty where none is known."""
    contexts = read_column(split, "span_contexts", rows)
    if any(row is None for row in contexts):
        return []
    return [", ".join(decode_flags(bits)) for row in contexts for bits in row]
