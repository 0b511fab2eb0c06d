"""The protocol of rows, which a split, a subset of one and a mix of splits share."""

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

CHUNK = 8192
"""Default number of rows in a chunk."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SplitShare:
    """A split, and the share of it that an epoch takes.

    Attributes:
        split: Its rows.
        share: The part of an epoch's tokens or rows that was asked for, in `(0, 1]`.
        rows: Number of rows that an epoch takes of it, at least 1 in a mix.
    """

    split: Split
    share: float
    rows: int

    @property
    def name(self) -> str:
        """Names of the folder and the split."""
        return f"{self.split.folder}/{self.split.name}"

    @property
    def tokens(self) -> int:
        """Approximate tokens per epoch: rows times mean length."""
        return self.rows * self.split.tokens // len(self.split)

    @property
    def times(self) -> float:
        """Average number of times that an epoch takes each row."""
        return self.rows / len(self.split)

    @property
    def described(self) -> list[Any]:
        """Corpus, split, digest and rows, for JSON. No path, since the folder may move."""
        digest = sha256("".join(shard.sha256 for shard in self.split.record.shards).encode())
        return [self.split.manifest.name, self.split.name, digest.hexdigest()[:16], self.rows]


class Rows(ABC):
    """Rows to train on or to measure: a `Split`, a `Subset` of one, or a `Mix` of several.

    Batches, datasets, statistics and drawings use these attributes and methods alone, so that
    whatever has them goes wherever a split goes.

    Attributes:
        labels: The label of each index of `span_labels`.
        tags: The tag of each index of `bio`.
        doc_labels: The label of each index of `doc_labels`; empty where documents have none.
        token_ids: The tokenizer's special ids.
        protected: Whether some of the rows are patients' text, not to be shown or shared.
        place: The folder in which lexicons and score columns are looked up by name; None for rows
            of several folders.
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
            TypeError: Rows of a mix, which have other numbers in each epoch.
        """
        raise TypeError(f"rows: expected one split or a subset of it, got {type(self).__name__}")

    @property
    @abstractmethod
    def splits(self) -> tuple[SplitShare, ...]:
        """The splits that the rows come from, each with its share of an epoch."""

    @property
    @abstractmethod
    def tokens(self) -> int:
        """Number of tokens per epoch, special tokens included; approximate for a mix."""

    @property
    @abstractmethod
    def digest(self) -> str | None:
        """Digest of the rows; None if their order identifies them."""

    def epoch_rows(
        self,
        rows: npt.NDArray[np.int64],
        *,
        seed: int,  # noqa: ARG002 - a mix has other rows in each epoch
        epoch: int,  # noqa: ARG002
    ) -> npt.NDArray[np.int64]:
        """Convert row numbers within an epoch, from 0, to row numbers for `take`.

        Args:
            rows: int64 `[R]`, each in `[0, len(self))`.
            seed: In `[0, 2**63)`.
            epoch: In `[0, 2**63)`.
        """
        return rows

    @abstractmethod
    def take(self, rows: npt.NDArray[np.int64]) -> Examples:
        """Copy rows in any order.

        Args:
            rows: int64 `[R]`, as `epoch_rows` or a `RowOrder` gives them.
        """

    @abstractmethod
    def lengths(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the number of tokens of each given row, `[R]`; see `take`."""

    @abstractmethod
    def examples(self, start: int = 0, stop: int | None = None) -> Examples:
        """Return rows `[start, stop)`."""

    @abstractmethod
    def chunks(self, rows: int = CHUNK, *, seed: int = 0, epoch: int = 0) -> Iterator[Examples]:
        """Yield the rows of an epoch split by split, in chunks of at most `rows` rows."""

    def chunks_from(
        self, split: int, rows: int = CHUNK, *, seed: int = 0, epoch: int = 0
    ) -> Iterator[Examples]:
        """Yield the rows that an epoch takes of one split; see `chunks`.

        Args:
            split: Its number in `splits`.
            rows: Maximum number of rows in a chunk.
            seed: In `[0, 2**63)`.
            epoch: In `[0, 2**63)`.
        """
        self.splits[split]
        return self.chunks(rows, seed=seed, epoch=epoch)

    @abstractmethod
    def check(self) -> None:
        """Reopen and check shards whose files changed since they were opened."""

    @abstractmethod
    def bring(self) -> None:
        """Download all shards of remote folders that are not cached."""


def whole_numbers(rows: Any) -> npt.NDArray[np.int64]:
    """Convert row numbers to an array.

    Raises:
        TypeError: Something else than whole numbers, such as a mask of booleans.
    """
    numbers = np.asarray(rows)
    if numbers.size and (numbers.dtype.kind not in "iu" or numbers.ndim != 1):
        raise TypeError(
            f"rows: expected a sequence of whole numbers, got {numbers.dtype} with "
            f"{numbers.ndim} dimensions"
        )
    return numbers.astype(np.int64, copy=False)


def resolve_stop(start: int, stop: int | None, rows: int) -> int:
    """Return the end of a range of rows; None is the number of rows.

    Raises:
        IndexError: Not `0 <= start <= stop <= rows`.
    """
    stop = rows if stop is None else stop
    if not 0 <= start <= stop <= rows:
        raise IndexError(f"rows: expected 0 <= start <= stop <= {rows}, got [{start}, {stop})")
    return stop


def check_chunk(rows: Any) -> None:
    """Check the number of rows of a chunk.

    Raises:
        ValueError: Not a whole number of at least 1.
    """
    if not isinstance(rows, int | np.integer) or rows < 1:
        raise ValueError(f"rows: expected a whole number of at least 1, got {rows!r}")


def resolve_row(row: Any, rows: int) -> int:
    """Return the index of a row, with negative numbers counted from the end.

    Raises:
        IndexError: No such row among `rows`.
        TypeError: Not a number, such as a slice.
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
