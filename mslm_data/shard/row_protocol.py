"""`Rows`, the common interface of a split, a subset and a mix."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples, TokenIds
from mslm_data.shard.remote import RemoteFolder

if TYPE_CHECKING:
    from mslm_data.shard.split import Split
    from mslm_data.shard.subset import Subset

CHUNK = 8192
"""Default number of rows in a chunk."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SplitShare:
    """A split, or a subset of it, and its share of an epoch.

    A row::

        name            share   rows  times
        shards/a/train   0.25  2,000    0.5

    The split has 4,000 rows. An epoch takes 2,000 of them, which are a quarter of the epoch.

    Attributes:
        split: The split.
        subset: The subset whose rows are taken. Default: None, all rows.
        share: Requested share of the tokens or rows of an epoch, in `(0, 1]`.
        rows: Number of rows per epoch, at least 1 in a mix.
    """

    split: Split
    subset: Subset | None = None
    share: float
    rows: int

    @property
    def source(self) -> Split | Subset:
        """The rows to take from: the subset, or the whole split."""
        return self.split if self.subset is None else self.subset

    @property
    def name(self) -> str:
        """Folder and name of the split, with the number of documents of a subset."""
        name = f"{self.split.folder}/{self.split.name}"
        return name if self.subset is None else f"{name} ({self.subset.documents:,} documents)"

    @property
    def tokens(self) -> int:
        """Approximate number of tokens per epoch: rows times mean length."""
        return self.rows * self.source.tokens // len(self.source)

    @property
    def times(self) -> float:
        """Mean number of times that each row occurs in an epoch."""
        return self.rows / len(self.source)

    @property
    def digest(self) -> str:
        """Digest of the shards of the whole split."""
        shards = "".join(shard.sha256 for shard in self.split.record.shards)
        return sha256(shards.encode()).hexdigest()[:16]

    @property
    def described(self) -> list[Any]:
        """Corpus, split, digest and rows, for JSON. Without path, since folders may be moved."""
        digest = self.digest if self.subset is None else self.subset.digest
        return [self.split.manifest.name, self.split.name, digest, self.rows]


class Rows(ABC):
    """Base class of `Split`, `Subset` and `Mix`, the inputs of training and statistics.

    Batches, datasets, statistics and drawings use only these attributes and methods, so each works
    with all three classes.

    Attributes:
        labels: Label names, indexed by `span_labels`.
        tags: Tag names, indexed by `bio`.
        doc_labels: Document label names, indexed by `doc_labels`; empty without document labels.
        token_ids: Special ids of the tokenizer.
        protected: Whether some rows are patients' text, which must not be shown or shared.
        place: Folder with lexicons and score columns in `vocab/`; None for rows of several folders.
    """

    labels: tuple[str, ...]
    tags: tuple[str, ...]
    doc_labels: tuple[str, ...]
    token_ids: TokenIds
    protected: bool
    place: Path | RemoteFolder | None

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows per epoch."""

    def __getitem__(self, row: int) -> dict[str, Any]:
        """Return all columns of a row as plain Python values.

        Raises:
            TypeError: The rows belong to a mix, which has different rows in each epoch.
        """
        raise TypeError(f"rows: expected one split or a subset of it, got {type(self).__name__}")

    @property
    @abstractmethod
    def splits(self) -> tuple[SplitShare, ...]:
        """Splits of the rows, with their shares of an epoch."""

    @property
    @abstractmethod
    def tokens(self) -> int:
        """Number of tokens per epoch, including special tokens; approximate for a mix."""

    @property
    @abstractmethod
    def digest(self) -> str | None:
        """Digest of the rows; None for a mix, whose row order has a digest."""

    def epoch_rows(
        self,
        rows: npt.NDArray[np.int64],
        *,
        seed: int,  # noqa: ARG002 - a mix has other rows in each epoch
        epoch: int,  # noqa: ARG002
    ) -> npt.NDArray[np.int64]:
        """Convert positions within an epoch to row numbers for `take`.

        Args:
            rows: int64 `[R]` in `[0, len(self))`.
            seed: Seed in `[0, 2**63)`.
            epoch: Epoch in `[0, 2**63)`.
        """
        return rows

    @abstractmethod
    def take(self, rows: npt.NDArray[np.int64]) -> Examples:
        """Return a copy of a selection of rows.

        Args:
            rows: int64 `[R]`, row numbers from `epoch_rows` or a `RowOrder`, in any order.
        """

    @abstractmethod
    def lengths(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the number of tokens in each of the rows, int64 `[R]`; see `take`."""

    @abstractmethod
    def examples(self, start: int = 0, stop: int | None = None) -> Examples:
        """Return rows `[start, stop)`."""

    @abstractmethod
    def chunks(self, rows: int = CHUNK, *, seed: int = 0, epoch: int = 0) -> Iterator[Examples]:
        """Yield the rows of an epoch, split by split, in chunks of at most `rows` rows."""

    def chunks_from(
        self, split: int, rows: int = CHUNK, *, seed: int = 0, epoch: int = 0
    ) -> Iterator[Examples]:
        """Yield the rows of an epoch from a single split; see `chunks`.

        Args:
            split: Index of the split in `splits`.
            rows: Maximum number of rows in a chunk. Default: 8192.
            seed: Seed in `[0, 2**63)`. Default: 0.
            epoch: Epoch in `[0, 2**63)`. Default: 0.
        """
        self.splits[split]  # raises IndexError; a split or subset has only index 0
        return self.chunks(rows, seed=seed, epoch=epoch)

    @abstractmethod
    def check(self) -> None:
        """Reopen and check shards whose files have changed since they were opened."""

    @abstractmethod
    def bring(self) -> None:
        """Download all remote shards missing from the cache."""


def is_number(value: Any) -> bool:
    """Return whether a value is a number of Python or NumPy, and not a truth value."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer of Python or NumPy, and not a truth value."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def whole_numbers(rows: Any) -> npt.NDArray[np.int64]:
    """Convert row numbers to an int64 array.

    Raises:
        TypeError: The rows are not integers, but for example a boolean mask.
    """
    numbers = np.asarray(rows)
    if numbers.size and (numbers.dtype.kind not in "iu" or numbers.ndim != 1):
        raise TypeError(
            f"rows: expected a sequence of whole numbers, got {numbers.dtype} with "
            f"{numbers.ndim} dimensions"
        )
    return numbers.astype(np.int64, copy=False)


def resolve_stop(start: int, stop: int | None, rows: int) -> int:
    """Return the end of a row range; None stands for the number of rows.

    Raises:
        IndexError: The range is not within `[0, rows]`.
    """
    stop = rows if stop is None else stop
    if not 0 <= start <= stop <= rows:
        raise IndexError(f"rows: expected 0 <= start <= stop <= {rows}, got [{start}, {stop})")
    return stop


def check_chunk(rows: Any) -> None:
    """Check the number of rows in a chunk.

    Raises:
        ValueError: `rows` is not an integer of at least 1.
    """
    if not isinstance(rows, int | np.integer) or rows < 1:
        raise ValueError(f"rows: expected a whole number of at least 1, got {rows!r}")


def resolve_row(row: Any, rows: int) -> int:
    """Convert a row index to a non-negative index; negative ones count from the end.

    Raises:
        IndexError: The row is out of range.
        TypeError: `row` is not an integer, but for example a slice.
    """
    try:
        number = operator.index(row)
    except TypeError:
        raise TypeError(
            f"row: expected an integer, got {type(row).__name__}; for several rows use "
            "examples(start, stop) of a split, or take(numbers)"
        ) from None

    if not -rows <= number < rows:
        raise IndexError(f"row: expected a number below {rows}, the number of rows, got {number}")

    return number % rows
