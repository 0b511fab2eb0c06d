"""Options of batches: by number of rows or of tokens, padded or flat.

| options | a batch |
|---|---|
| `batch_size=32` | 32 rows, each padded to the longest |
| `batch_tokens=16_384` | as many rows as fit, padding included |
| `batch_tokens=16_384, flat=True` | as many rows as fit, as one flat row |
| `batch_size=32, flat=True` | 32 rows, as one flat row |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mslm_data.mask.rng import check_count
from mslm_data.shard.row_numbers import is_integer

RowNumbers: TypeAlias = npt.NDArray[Any]
"""uint32 or int64 `[R]`, row numbers of a split or a mix."""

OPEN_SHARDS = 16
"""Default number of shards that `shuffle="shards"` shuffles together."""
_DEFAULT_SIZE = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """The options of batches, for `md.Batches` and the loader of torch.

    The table of this module shows the forms of a batch. With several ranks, sizes are per rank.

    Attributes:
        batch_size: Number of rows. Default: 32, unless `batch_tokens` is given.
        batch_tokens: Maximum number of tokens of a batch, padding included.
        flat: Whether to concatenate all rows of a batch into one.
        multiple_of: Round the width of batches up to a multiple of this; 8 suits tensor cores.
        shuffle: Whether to shuffle rows, by seed and epoch. `"shards"` shuffles `open_shards`
            shards together, for splits that are remote or larger than memory.
        open_shards: Number of shards that are shuffled together when `shuffle="shards"`.
        bucketed: Whether to batch rows of similar length, within windows of 64 batches. Default:
            True, but False with `shuffle=False`, which keeps the stored order, and with `flat`,
            which has no padding to save. Without it, more than half of the positions of sentences
            are padding.
        drop_last: Whether to skip batches that are not full, and a last step that lacks a batch for
            some rank.
        seed: Seed of the order, in `[0, 2**63)`.
        margin: Number of tokens by which a row may become longer in a batch, set by the strategy;
            with sentinels, `mslm_data.mask.sentinels.MARGIN`.

    Raises:
        ValueError: A value of the wrong type or out of range, or options that do not go together.
    """

    batch_size: int | None = None
    batch_tokens: int | None = None
    flat: bool = False
    multiple_of: int = 1
    shuffle: bool | Literal["shards"] = True
    open_shards: int = OPEN_SHARDS
    bucketed: bool | None = None
    drop_last: bool = False
    seed: int = 0
    margin: int = 0

    def __post_init__(self) -> None:
        for name in ("batch_size", "batch_tokens", "multiple_of", "open_shards"):
            if getattr(self, name) is not None:
                check_size(name, getattr(self, name))
                object.__setattr__(self, name, int(getattr(self, name)))
        check_count("seed", self.seed)
        object.__setattr__(self, "seed", int(self.seed))
        is_by_shards = isinstance(self.shuffle, str) and self.shuffle == "shards"
        if not is_by_shards and not isinstance(self.shuffle, bool | np.bool_):
            raise ValueError(f"shuffle: expected True, False or 'shards', got {self.shuffle!r}")
        object.__setattr__(self, "shuffle", "shards" if is_by_shards else bool(self.shuffle))

        if self.bucketed is None:
            object.__setattr__(self, "bucketed", bool(self.shuffle) and not self.flat)
        for name in ("flat", "bucketed", "drop_last"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ValueError(f"{name}: expected True or False, got {getattr(self, name)!r}")
            object.__setattr__(self, name, bool(getattr(self, name)))

        if self.batch_tokens is None and self.batch_size is None:
            object.__setattr__(self, "batch_size", _DEFAULT_SIZE)
        elif self.batch_tokens is not None and self.batch_size is not None:
            raise ValueError(
                "batch_size, batch_tokens: expected one of them, got both; with batch_tokens a "
                "batch has as many rows as fit"
            )
        if self.bucketed and self.flat:
            raise ValueError(
                "bucketed: expected False for flat rows, which have no padding, got True"
            )

    @property
    def is_by_tokens(self) -> bool:
        """Whether batches have a maximum number of tokens, so their numbers of rows differ."""
        return self.batch_tokens is not None

    def describe_size(self) -> str:
        """Return the size of a batch for humans, such as `32 rows`."""
        if self.batch_tokens is not None:
            size = f"{self.batch_tokens:,} tokens"
        else:
            size = f"{self.batch_size:,} rows"
        return f"{size} in one flat row" if self.flat else size

    def width(self, longest: int) -> int:
        """Return the width of a batch, in tokens, from the length of its longest line."""
        return -(-longest // self.multiple_of) * self.multiple_of


def check_size(name: str, value: Any) -> None:
    """Check that a size is a positive integer.

    Raises:
        ValueError: Not an integer of at least 1.
    """
    if not is_integer(value) or value < 1:
        raise ValueError(f"{name}: expected an integer of at least 1, got {value!r}")
