"""Cut rows into batches: by number of rows or of tokens, padded or packed.

| options | a batch |
|---|---|
| `batch_size=32` | 32 rows, each padded to the longest |
| `batch_tokens=16_384` | as many rows as fit, padding included |
| `batch_size=8, row_tokens=1_024` | 8 packed rows of up to 1,024 tokens |
| `batch_tokens=16_384, flat=True` | as many rows as fit, as one flat row |
| `batch_size=32, flat=True` | 32 rows, as one flat row |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mslm_data.kernels.packing import WORD, best_fit, cut_to_budget
from mslm_data.mask.rng import check_count
from mslm_data.shard.row_numbers import is_integer

RowNumbers: TypeAlias = npt.NDArray[np.int64]
"""int64 `[R]`, row numbers of a split."""

OPEN_SHARDS = 16
"""Default number of shards that `shuffle="shards"` shuffles together."""
_DEFAULT_SIZE = 32


class RowBatch(NamedTuple):
    """The rows of a batch.

    Attributes:
        rows: int64 `[R]`, row numbers in the order of the batch.
        packs: int64 `[P + 1]`, offsets of the packed rows into `rows`; None without packing.
    """

    rows: RowNumbers
    packs: npt.NDArray[np.int64] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """The options of batches, for `md.Batches` and `MaskedDataset.loader`, of NumPy and of torch.

    The table of this module shows the forms of a batch. With several ranks, sizes are per rank.

    Attributes:
        batch_size: Number of rows, or of packed rows with `row_tokens`. Default: 32, unless
            `batch_tokens` is given.
        batch_tokens: Maximum number of tokens of a batch, padding included.
        row_tokens: Maximum number of tokens of a packed row, which holds several rows. Packing does
            not change masks. Default: no packing.
        flat: Whether to concatenate all rows of a batch into one.
        multiple_of: Round the width of batches up to a multiple of this; 8 suits tensor cores. With
            `row_tokens`, the width is `row_tokens`.
        shuffle: Whether to shuffle rows, by seed and epoch. `"shards"` shuffles `open_shards`
            shards together, for splits that are remote or larger than memory.
        open_shards: Number of shards that are shuffled together when `shuffle="shards"`.
        bucketed: Whether to batch rows of similar length, within windows of 64 batches.
        drop_last: Whether to skip batches that are not full, and a last step that lacks a batch for
            some rank.
        seed: Seed of the order, in `[0, 2**63)`.

    Raises:
        ValueError: A value of the wrong type or out of range, or options that do not go together.
    """

    batch_size: int | None = None
    batch_tokens: int | None = None
    row_tokens: int | None = None
    flat: bool = False
    multiple_of: int = 1
    shuffle: bool | Literal["shards"] = True
    open_shards: int = OPEN_SHARDS
    bucketed: bool = False
    drop_last: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batch_size", "batch_tokens", "row_tokens"):
            if getattr(self, name) is not None:
                check_size(name, getattr(self, name))
        check_size("multiple_of", self.multiple_of)
        check_size("open_shards", self.open_shards)
        check_count("seed", self.seed)
        for name in ("flat", "bucketed", "drop_last"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ValueError(f"{name}: expected True or False, got {getattr(self, name)!r}")
        is_by_shards = isinstance(self.shuffle, str) and self.shuffle == "shards"
        if not is_by_shards and not isinstance(self.shuffle, bool | np.bool_):
            raise ValueError(f"shuffle: expected True, False or 'shards', got {self.shuffle!r}")

        if self.batch_tokens is not None:
            if self.batch_size is not None:
                raise ValueError(
                    "batch_size, batch_tokens: expected one of them, got both; with batch_tokens a "
                    "batch has as many rows as fit"
                )
            if self.row_tokens is not None:
                raise ValueError(
                    "batch_tokens: expected batch_size beside row_tokens, which is the number of "
                    f"packed rows; pass batch_size={max(1, self.batch_tokens // self.row_tokens)}"
                )
        elif self.batch_size is None:
            object.__setattr__(self, "batch_size", _DEFAULT_SIZE)

        if self.flat and self.row_tokens is not None:
            raise ValueError(
                "flat: expected False beside row_tokens; a flat row has the tokens of its batch: "
                "pass batch_tokens"
            )
        if self.bucketed and self.is_packed:
            raise ValueError(
                "bucketed: expected False for packed rows, which have next to no padding, got True"
            )

    @property
    def is_by_tokens(self) -> bool:
        """Whether batches have a maximum number of tokens, so their numbers of rows differ."""
        return self.batch_tokens is not None or self.row_tokens is not None

    @property
    def tokens(self) -> int | None:
        """Maximum number of tokens of a batch. None for batches by rows."""
        if self.row_tokens is not None and self.batch_size is not None:
            return self.batch_size * self.row_tokens
        return self.batch_tokens

    @property
    def is_packed(self) -> bool:
        """Whether a row of a batch holds several rows of the split."""
        return self.flat or self.row_tokens is not None

    def describe_size(self) -> str:
        """Return the size of a batch for humans, such as `32 rows`."""
        if self.row_tokens is not None:
            return f"{self.batch_size:,} packed rows of {self.row_tokens:,} tokens"
        size = (
            f"{self.batch_size:,} rows" if self.batch_tokens is None else f"{self.tokens:,} tokens"
        )
        return f"{size} in one flat row" if self.flat else size

    def width(self, longest: int) -> int:
        """Return the width of a batch, in tokens, from the length of its longest row."""
        return self.row_tokens or -(-longest // self.multiple_of) * self.multiple_of

    def row_batch(self, rows: RowNumbers) -> RowBatch:
        """Return rows as a batch by number of rows."""
        packs = np.array([0, len(rows)]) if self.flat else None
        return RowBatch(rows, packs)

    def cut(
        self,
        rows: RowNumbers,
        lengths: npt.NDArray[np.int64],
        shuffle: Callable[[int], npt.NDArray[np.int64]],
    ) -> list[RowBatch]:
        """Cut rows into batches by tokens.

        Args:
            rows: int64 `[R]`, row numbers.
            lengths: int64 `[R]`, number of tokens of each row.
            shuffle: Function from a count to a permutation; shuffles the packed rows.

        Returns:
            Batches. Without packing, the rows keep their order.

        Raises:
            ValueError: A row is longer than `row_tokens` or `batch_tokens`.
        """
        self.check_row_lengths(lengths)
        if not self.is_packed:
            firsts = np.empty(len(rows), np.int64)
            count = cut_to_budget(lengths, self.tokens or 0, self.multiple_of, firsts)
            return [RowBatch(part, None) for part in np.split(rows, firsts[1:count])]

        # `pack` puts the longest rows into the first packed rows, so shuffle these.
        packed = pack(lengths, self._capacity)
        packed = [packed[number] for number in shuffle(len(packed))]

        size = 1 if self.flat else (self.batch_size or 1)
        batches = []
        for first in range(0, len(packed), size):
            group = packed[first : first + size]
            packs = np.cumsum([0, *map(len, group)])
            batches.append(RowBatch(rows[np.concatenate(group)], packs))
        return batches

    @property
    def _capacity(self) -> int:
        """Maximum number of tokens of a row, and of a packed row, excluding padding."""
        if self.row_tokens is not None:
            return self.row_tokens
        tokens = self.batch_tokens or 0
        return tokens - tokens % self.multiple_of

    def check_row_lengths(self, lengths: npt.NDArray[np.int64]) -> None:
        """Check that every row fits into a batch.

        Raises:
            ValueError: A row is longer than `row_tokens` or `batch_tokens`.
        """
        longest = int(lengths.max(initial=0))
        if longest > self._capacity:
            name = "batch_tokens" if self.row_tokens is None else "row_tokens"
            raise ValueError(
                f"{name}: expected room for a row of {longest} tokens, got {self._capacity}; pass "
                "the encode.max_tokens of the build, the maximum length of a row, or build with a "
                "smaller one"
            )


def pack(lengths: npt.NDArray[np.int64], capacity: int) -> list[npt.NDArray[np.int64]]:
    """Pack rows by best fit decreasing: the longest first, each into the fullest pack with room.

    Needs at most 11/9 of the minimum number of packs (Johnson 1973). With many short rows, all
    packs but the last are full.

    Args:
        lengths: int64 `[R]`, number of tokens of each row, in `[1, capacity]`.
        capacity: Maximum number of tokens of a pack.

    Returns:
        Indices into `lengths`, ascending, an array per pack. Packs with the longest rows come
        first.
    """
    if not len(lengths):
        return []

    longest_first = np.argsort(-lengths, kind="stable")
    tops = np.full(capacity + 1, -1, np.int64)
    bits = np.zeros(capacity // WORD + 1, np.uint64)
    below = np.empty(len(lengths), np.int64)
    packs = np.empty(len(lengths), np.int64)  # the pack of each row
    num_packs = best_fit(lengths, longest_first, capacity, tops, below, bits, packs)

    # Group the rows by pack.
    sizes = np.bincount(packs, minlength=num_packs)
    return np.split(np.argsort(packs, kind="stable"), np.cumsum(sizes)[:-1])


def share_batches(batches: list[RowBatch], world: int) -> list[RowBatch]:
    """Split batches until each rank has one. No batch grows, so all stay within the budget.

    Args:
        batches: At least one batch; at most `world`.
        world: Number of ranks.

    Returns:
        `world` batches.
    """
    shares = list(batches)
    while len(shares) < world:
        largest = max(range(len(shares)), key=lambda number: len(shares[number].rows))
        batch = shares[largest]

        # With fewer rows than ranks, a row is repeated: a rank without a batch would never join the
        # gradient exchange, and the others would wait for it forever.
        if len(batch.rows) == 1:
            shares.append(batch)
        else:
            shares[largest : largest + 1] = _halves(batch)
    return shares


def _halves(batch: RowBatch) -> list[RowBatch]:
    """Split a batch of at least two rows in half. This may split a packed row in two."""
    half = len(batch.rows) // 2
    parts = []
    for start, stop in ((0, half), (half, len(batch.rows))):
        packs = batch.packs
        if packs is not None:
            inner = packs[(packs > start) & (packs < stop)]
            packs = np.array([start, *inner.tolist(), stop]) - start
        parts.append(RowBatch(batch.rows[start:stop], packs))
    return parts


def check_size(name: str, value: Any) -> None:
    """Check that a size is a positive integer.

    Raises:
        ValueError: Not an integer of at least 1.
    """
    if not is_integer(value) or value < 1:
        raise ValueError(f"{name}: expected an integer of at least 1, got {value!r}")
