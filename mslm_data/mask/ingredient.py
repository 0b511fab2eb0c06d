"""Ingredients of a recipe: options that know what they, and those within them, read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from mslm_data.registry import Options


class Reads(Protocol):
    """An ingredient, or a strategy."""

    @property
    def needs(self) -> frozenset[str]:
        """The columns that it reads; see `Strategy.needs`."""

    @property
    def follows_training(self) -> bool:
        """Whether a rate depends on the training step or the number of tokens seen."""


class Ingredient(Options, frozen=True):
    """Options of a pick, a budget and so on, with other ingredients in their fields."""

    @property
    def needs(self) -> frozenset[str]:
        """The columns that it reads, by default those of its fields; see `Strategy.needs`."""
        return combined_needs(self._ingredients())

    @property
    def follows_training(self) -> bool:
        """Whether a rate depends on the training step or the number of tokens seen."""
        return any(inner.follows_training for inner in self._ingredients())

    def _ingredients(self) -> Iterator[Ingredient]:
        values: Iterable[Any] = (getattr(self, name) for name in self.__struct_fields__)
        return (value for value in values if isinstance(value, Ingredient))


def combined_needs(parts: Iterable[Reads]) -> frozenset[str]:
    """Return the union of the columns that ingredients or strategies read."""
    return frozenset(need for part in parts for need in part.needs)
