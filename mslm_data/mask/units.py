"""What can be hidden whole: half-open ranges of tokens, ragged by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged
from mslm_data.kernels.tokens import find_open_units, find_units, paint_units
from mslm_data.mask.plan import Draft


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """U units in N rows, none empty.

    Attributes:
        starts: int32, a unit's first token, counted within its row.
        ends: int32, same offsets; half open.
    """

    starts: Ragged
    ends: Ragged

    def __len__(self) -> int:
        return len(self.starts.values)

    @property
    def lengths(self) -> Array:
        """Tokens of each unit, int64 `[U]`."""
        return (self.ends.values - self.starts.values).astype(np.int64)

    def within(self, offsets: Array, pool: Array) -> Array:
        """Return which units have no token outside of a pool, uint8 `[U]`.

        Args:
            offsets: int64 `[N + 1]` of the tokens.
            pool: uint8 `[T]`, 0 or 1.
        """
        out = np.empty(len(self), np.uint8)
        find_open_units(
            offsets, self.starts.offsets, self.starts.values, self.ends.values, pool, out
        )
        return out

    def paint(self, offsets: Array, taken: Array, mark: int, out: Array) -> None:
        """Write `mark` to the first tokens of units.

        Args:
            offsets: int64 `[N + 1]` of the tokens.
            taken: int64 `[U]`: how many tokens of each; 0 for none.
            mark: What to write.
            out: uint8 `[T]`.
        """
        paint_units(offsets, self.starts.offsets, self.starts.values, taken, mark, out)

    def take(self, offsets: Array, taken: Array, kind: int, draft: Draft) -> None:
        """Hide the first tokens of units: write their kind, and what is joined to what if that is wanted.

        Args:
            offsets: int64 `[N + 1]` of the tokens.
            taken: int64 `[U]`: how many tokens of each; 0 for none.
            kind: A `MaskKind`.
            draft: Written.
        """
        self.paint(offsets, taken, kind, draft.kinds)
        if draft.joined is not None:
            starts = self.starts.values + 1
            paint_units(
                offsets, self.starts.offsets, starts, np.maximum(taken - 1, 0), 1, draft.joined
            )


def mentions(examples: Examples) -> Units:
    """Return each mention as one unit (Abaho et al. 2024, section 3)."""
    return Units(examples.span_starts, examples.span_ends)


def words(examples: Examples) -> Units:
    """Return each word as one unit: the tokens of equal `word_ids`."""
    return runs(examples, examples.word_ids.values)


def chunks(examples: Examples) -> Units:
    """Return what stands between white space as one unit, as Hugging Face's whole-word collator does since version 5.

    There a token goes with the one before it if it begins at the character where that one ends; here also if it begins
    before, as do the pieces of one character, and a piece that is only the mark of a space.

    Where the shards have no character offsets (`encode.keep_text`), words: for corpora of given words the two are the
    same.
    """
    if examples.token_starts is None or examples.token_ends is None:
        return words(examples)
    starts, ends, real = (
        examples.token_starts.values,
        examples.token_ends.values,
        examples.word_ids.values >= 0,
    )
    apart = np.ones(len(starts), np.bool_)
    apart[1:] = (starts[1:] > ends[:-1]) | ~real[:-1]
    return runs(examples, np.where(real, np.cumsum(apart), -1))


def released_pieces(examples: Examples) -> Units:
    """Return the units of the released code, whose labels `O B I` have no type.

    Every sub-word of a mention's first word carries `B` there and opens a unit: all of them but the last stand
    alone, the last goes on to the mention's end. `hem ##och ##rom ##ato ##sis` is five units.
    """
    rows = np.repeat(examples.input_ids.offsets[:-1], examples.span_starts.lengths)
    starts, ends = rows + examples.span_starts.values, rows + examples.span_ends.values
    lengths = ends - starts
    of = np.repeat(np.arange(len(lengths)), lengths)  # mention of each token of a mention
    tokens = np.arange(len(of)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + starts[of]
    numbers = examples.word_ids.values
    opens = numbers[tokens] == numbers[starts[of]]
    begin, of = tokens[opens], of[opens]
    last = np.append(of[1:] != of[:-1], True)[: len(of)]
    end = np.where(last, ends[of], begin + 1)
    per_mention = np.bincount(of, minlength=len(lengths))
    offsets = np.concatenate([[0], np.cumsum(per_mention)])[examples.span_starts.offsets]
    return Units(Ragged(begin - rows[of], offsets), Ragged(end - rows[of], offsets))


UNITS: dict[str, Callable[[Examples], Units]] = {
    "words": words,
    "chunks": chunks,
    "mentions": mentions,
    "released pieces": released_pieces,
}
"""What a stage can hide whole, besides single tokens."""


def runs(examples: Examples, numbers: Array) -> Units:
    """Return runs of equal numbers that are not negative."""
    offsets = examples.input_ids.offsets
    starts, ends = np.empty(len(numbers), np.int32), np.empty(len(numbers), np.int32)
    of_rows = np.empty(len(offsets), np.int64)
    find_units(offsets, numbers, starts, ends, of_rows)
    return Units(Ragged(starts[: of_rows[-1]], of_rows), Ragged(ends[: of_rows[-1]], of_rows))
