"""Parts of a strategy: options that know what they, and the parts within them, read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from mslm_data.registry import Options


class Reads(Protocol):
    """A part of a strategy, or a strategy."""

    @property
    def needs(self) -> frozenset[str]:
        """The columns that it reads; see `Strategy.needs`."""

    @property
    def follows_training(self) -> bool:
        """Whether a rate depends on the training step or the number of tokens seen."""


class Part(Options, frozen=True):
    """Options of a part of a strategy, with other parts in its fields."""

    @property
    def needs(self) -> frozenset[str]:
        """The columns that the part reads, by default those of its parts; see `Strategy.needs`."""
        return combined_needs(self._parts())

    @property
    def follows_training(self) -> bool:
        """Whether a rate depends on the training step or the number of tokens seen."""
        return any(part.follows_training for part in self._parts())

    def _parts(self) -> Iterator[Part]:
        values: Iterable[Any] = (getattr(self, name) for name in self.__struct_fields__)
        return (value for value in values if isinstance(value, Part))


def combined_needs(parts: Iterable[Reads]) -> frozenset[str]:
    """Return the union of the columns that parts or strategies read."""
    return frozenset(need for part in parts for need in part.needs)
