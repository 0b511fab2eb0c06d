"""The folders on the page, with everything kept between two requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import tokenizers

from mslm_data.api.loading import Shards
from mslm_data.draw.marked_rows import Pieces
from mslm_data.encode.tokenizer import open_tokenizer
from mslm_data.errors import MslmDataError
from mslm_data.look.background import Background
from mslm_data.look.gold import Alignment, GoldFolder
from mslm_data.look.options import to_text
from mslm_data.look.state import Choice
from mslm_data.mask.strategy import Strategy
from mslm_data.mask.table import STRATEGIES, default_options
from mslm_data.pipeline import parse_value


class Added(NamedTuple):
    """A strategy of the command that the form and the address only name.

    Attributes:
        strategy: The strategy.
        options: The options that the command sets, as text.
    """

    strategy: Strategy
    options: Mapping[str, str]


class NamedStrategy(NamedTuple):
    """A strategy of the page that could be made.

    Attributes:
        name: Its name on the page; a repeated name has a number.
        place: Its place among the choices, from 0.
        choice: Its choice.
        strategy: The strategy.
    """

    name: str
    place: int
    choice: Choice
    strategy: Strategy


class Corpus:
    """A built folder, its tokenizer and cached strategies.

    Attributes:
        shards: The folder.
        gold: A second folder whose mentions are gold; None without one.
        background: Runs counts of whole splits.
        added: Name -> strategy of the command that a form cannot describe; see `add`.
        shows_text: Whether rows may be shown: no folder is protected, or `--show-text` was passed.
    """

    def __init__(
        self,
        shards: Shards,
        *,
        gold: Shards | None = None,
        show_text: bool = False,
        live: bool = False,
        added: Mapping[str, Added] | None = None,
    ) -> None:
        """Keep the folders; no row is read.

        Args:
            shards: The folder.
            gold: A folder with gold mentions of the same text, to compare with.
            show_text: Show rows of a protected folder.
            live: Draw views before all counts are ready. Default: wait for them.
            added: `added` of another corpus.

        Raises:
            ShardError: The folders cannot be compared.
        """
        self.shards = shards
        self.gold = None if gold is None else GoldFolder(gold, shards)
        self.background = Background(live=live)
        self.shows_text = show_text or not self.protected
        self.added: dict[str, Added] = dict(added or {})
        self._make = lru_cache(64)(self._make_uncached)

    @property
    def protected(self) -> bool:
        """Whether a folder holds patients' text."""
        folders = [self.shards, *([self.gold.shards] if self.gold else [])]
        return any(folder.manifest.protected for folder in folders)

    @cached_property
    def tokenizer(self) -> tokenizers.Tokenizer:
        """The folder's tokenizer.

        Raises:
            ShardError: The file is missing.
            TokenizerError: The file is damaged.
        """
        return open_tokenizer(self.shards.tokenizer)

    @cached_property
    def pieces(self) -> Pieces:
        """The text of each token."""
        return Pieces(self.tokenizer)

    def without_text(self) -> Corpus:
        """Return a corpus for a file, which waits for all counts and hides protected text."""
        gold = self.gold.shards if self.gold else None
        return Corpus(self.shards, gold=gold, added=self.added)

    def align_gold(self, split: str) -> Alignment | None:
        """Return the place of each row of a split in the gold folder.

        Returns:
            None without a gold folder, and while it is being read.

        Raises:
            ShardError: A shard is missing or damaged.
        """
        gold = self.gold
        if gold is None:
            return None
        job = self.background.get(
            "gold", split, lambda progress: gold.align(self.shards[split], progress)
        )
        alignment: Alignment | None = job.result
        return alignment

    def make(self, choice: Choice) -> Strategy:
        """Return the strategy of a choice.

        Raises:
            MslmDataError: The strategy or an option is unknown, or a file is missing.
            ValueError: A value is invalid.
        """
        return self._make(choice.name, tuple(choice.options.items()))

    def strategies(self, choices: Sequence[Choice]) -> list[NamedStrategy]:
        """Return the chosen strategies, without those that cannot be made."""
        made = []
        times: Counter[str] = Counter()
        for place, choice in enumerate(choices):
            try:
                strategy = self.make(choice)
            except (MslmDataError, ValueError):
                continue
            times[choice.name] += 1
            number = times[choice.name]
            name = choice.name if number == 1 else f"{choice.name} {number}"
            made.append(NamedStrategy(name, place, choice, strategy))
        return made

    def add(
        self, name: str, strategy: Strategy, given: Mapping[str, Any] = MappingProxyType({})
    ) -> Choice:
        """Return the choice for a strategy, and keep the strategy if options cannot describe it.

        Addresses can only name registered strategies and those added here. So no address makes the
        server read a file or import a module.

        Args:
            name: Its name, file or `module:name`.
            strategy: The strategy.
            given: The options that made it, besides those of its file.
        """
        if strategy.origin is not None and name in _registered_names():
            defaults = default_options(name)
            options = {
                option: value
                for option, value in strategy.origin.options.items()
                if value != defaults.get(option)
            }
            # Parts and picks are tables, which have no form.
            if options.keys() <= defaults.keys() - {"parts", "picks"}:
                return Choice(name, {option: to_text(value) for option, value in options.items()})
        texts = {option: to_text(value) for option, value in given.items()}
        self.added[name] = Added(strategy, texts)
        return Choice(name)

    def _make_uncached(self, name: str, options: tuple[tuple[str, str], ...]) -> Strategy:
        if name in self.added:
            return self.added[name].strategy
        STRATEGIES.resolve(name)
        return self.shards.strategy(name, **{option: parse_value(text) for option, text in options})


def _registered_names() -> set[str]:
    """Return the names of strategies, with and without versions."""
    return {name.rpartition(".v")[0] for name in STRATEGIES.names()} | set(STRATEGIES.names())
