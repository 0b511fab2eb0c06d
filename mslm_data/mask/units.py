"""Units: tokens that a pick masks together, as half-open ranges, ragged by row; and free tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged, count_up, make_offsets
from mslm_data.kernels.tokens import (
    find_open_units,
    find_units,
    open_pool,
    paint_units,
)
from mslm_data.mask.plan import PlanBuilder

UnitName = Literal["tokens", "words", "chunks", "mentions", "released pieces"]


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """U units in N rows. No unit is empty.

    Attributes:
        starts: int32, the first token of each unit, counted from the start of its row.
        ends: int32, the token after its last, with the offsets of `starts`.
    """

    starts: Ragged
    ends: Ragged

    def __len__(self) -> int:
        return len(self.starts.values)

    @property
    def lengths(self) -> Array:
        """Number of tokens in each unit, int32 `[U]`."""
        return self.ends.values - self.starts.values

    def within(self, offsets: Array, pool: Array) -> Array:
        """Return the units that lie entirely in a pool of tokens, uint8 `[U]`.

        Args:
            offsets: int64 `[N + 1]`, offsets of the tokens.
            pool: uint8 `[T]`, 0 or 1.
        """
        out = np.empty(len(self), np.uint8)
        starts = self.starts
        find_open_units(offsets, starts.offsets, starts.values, self.ends.values, pool, out)
        return out

    def paint(self, offsets: Array, taken: Array, mark: int, out: Array) -> None:
        """Write a value to the first tokens of units.

        Args:
            offsets: int64 `[N + 1]`, offsets of the tokens.
            taken: int32 `[U]`, the number of tokens to write in each unit.
            mark: The value to write.
            out: uint8 `[T]`, written.
        """
        paint_units(offsets, self.starts.offsets, self.starts.values, taken, mark, out)

    def take(self, offsets: Array, taken: Array, kind: int, builder: PlanBuilder) -> None:
        """Mask the first tokens of units, and mark the tokens that continue a unit.

        Args:
            offsets: int64 `[N + 1]`, offsets of the tokens.
            taken: int32 `[U]`, the number of tokens to mask in each unit.
            kind: A `MaskKind`.
            builder: Written: `kinds` and, if present, `continues_unit`.
        """
        self.paint(offsets, taken, kind, builder.kinds)

        if builder.continues_unit is not None:
            # All tokens of a unit except the first continue it.
            second_tokens = self.starts.values + 1
            counts = np.maximum(taken - 1, 0)
            paint_units(
                offsets, self.starts.offsets, second_tokens, counts, 1, builder.continues_unit
            )


def mentions(examples: Examples) -> Units:
    """Return each mention as a unit (Abaho et al. 2024, section 3)."""
    return Units(examples.span_starts, examples.span_ends)


def words(examples: Examples) -> Units:
    """Return each word as a unit: consecutive tokens with equal `word_ids`."""
    return runs(examples, examples.word_ids.values)


def chunks(examples: Examples) -> Units:
    """Return each stretch between white space as a unit, as in Hugging Face's whole-word collator.

    Since version 5, the collator joins a token to the previous one if it starts at the character at
    which the previous one ends. Here the token is also joined if it starts earlier: this keeps
    together the pieces of one character, and a piece that is only the mark of a space.

    Without character offsets (`encode.keep_text`), units are words. In a corpus of given words,
    this makes no difference.
    """
    if examples.token_starts is None or examples.token_ends is None:
        return words(examples)

    starts = examples.token_starts.values
    ends = examples.token_ends.values
    real = examples.word_ids.values >= 0

    # A chunk starts after a gap in the characters, or after a special token.
    opens = np.ones(len(starts), np.bool_)
    opens[1:] = (starts[1:] > ends[:-1]) | ~real[:-1]
    return runs(examples, np.where(real, np.cumsum(opens), -1))


def released_pieces(examples: Examples) -> Units:
    """Return the units of the paper's released code, whose labels `O B I` have no type.

    There, every sub-word of a mention's first word has the label `B` and starts a unit. Each unit
    has one token, except the last, which extends to the end of the mention: `hem ##och ##rom ##ato
    ##sis` has five units.
    """
    row_starts = np.repeat(examples.input_ids.offsets[:-1], examples.span_starts.lengths)
    starts = row_starts + examples.span_starts.values
    ends = row_starts + examples.span_ends.values
    lengths = ends - starts

    # List the tokens of all mentions, each with the index of its mention.
    mention = np.repeat(np.arange(len(lengths)), lengths)
    tokens = count_up(starts, lengths)

    # A unit starts at each token of the mention's first word, and has one token. The last unit
    # of a mention extends to its end.
    numbers = examples.word_ids.values
    opens = numbers[tokens] == numbers[starts[mention]]
    begin = tokens[opens]
    mention = mention[opens]
    last = np.append(mention[1:] != mention[:-1], True)[: len(mention)]
    end = np.where(last, ends[mention], begin + 1)

    # Count units per row.
    per_mention = np.bincount(mention, minlength=len(lengths))
    offsets = np.concatenate([[0], np.cumsum(per_mention)])[examples.span_starts.offsets]
    row = row_starts[mention]
    return Units(Ragged(begin - row, offsets), Ragged(end - row, offsets))


class UnitKind(NamedTuple):
    """A kind of unit in the table `UNITS`.

    Attributes:
        find: Function from examples to units, or None for single tokens, which need no ranges.
        needs: The columns it reads; see `Strategy.needs`.
    """

    find: Callable[[Examples], Units] | None
    needs: frozenset[str]


UNITS: dict[UnitName, UnitKind] = {
    "tokens": UnitKind(None, frozenset()),
    "words": UnitKind(words, frozenset({"word_ids"})),
    "chunks": UnitKind(chunks, frozenset({"word_ids"})),
    "mentions": UnitKind(mentions, frozenset({"mentions"})),
    "released pieces": UnitKind(released_pieces, frozenset({"word_ids", "mentions"})),
}
"""Value of `Pick.units` -> kind of unit."""


def runs(examples: Examples, numbers: Array) -> Units:
    """Return runs of equal, non-negative numbers as units.

    Args:
        examples: N rows of T tokens.
        numbers: int32 `[T]`, one number per token; negative outside units.
    """
    offsets = examples.input_ids.offsets
    starts = np.empty(len(numbers), np.int32)
    ends = np.empty(len(numbers), np.int32)
    unit_offsets = np.empty(len(offsets), np.int64)
    find_units(offsets, numbers, starts, ends, unit_offsets)

    count = unit_offsets[-1]
    return Units(Ragged(starts[:count], unit_offsets), Ragged(ends[:count], unit_offsets))


def free_tokens(
    examples: Examples, builder: PlanBuilder, *, unknown: bool = False
) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return the free tokens, uint8 `[T]`, and the number of non-special tokens per row, `[N]`.

    A token is free if it is neither special nor masked.

    Args:
        examples: N rows of T tokens.
        builder: The plan so far.
        unknown: Whether `[UNK]` can be free. Default: False.
    """
    ids = examples.input_ids
    pool = np.empty(len(ids.values), np.uint8)
    real = np.empty(len(examples), np.int64)
    unk = -1 if unknown else examples.ids.unk
    open_pool(ids.offsets, examples.word_ids.values, ids.values, unk, builder.kinds, pool, real)
    return pool, real


def count_masked(examples: Examples, builder: PlanBuilder) -> npt.NDArray[np.int64]:
    """Count the masked tokens of each row, `[N]`."""
    running_total = make_offsets(builder.kinds > 0)
    return np.diff(running_total[examples.input_ids.offsets])
