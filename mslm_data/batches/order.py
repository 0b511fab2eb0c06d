"""Compute the rows of every batch of an epoch, for `md.Batches` and for the loader of torch.

The batches of an epoch are a pure function of the rows, their lengths, the seed, the epoch and the
number of ranks. All processes compute the same batches, and any batch is found without those before
it. There are four steps:

1. Order: `RowOrder` gives the row at each position of the epoch. A shuffled order is computed,
   never held in memory.
2. Windows: positions are cut into windows of a fixed number of rows, about `WINDOW` batches. Only
   one window is held in memory, however long the epoch is.
3. Batches: the rows of a window are cut into batches by `BatchOptions`, by number of rows or of
   tokens. With `bucketed`, rows are sorted by length first, and the batches shuffled afterwards.
4. Ranks: batches are dealt to the ranks in turn. Rank `r` gets batch `s * world + r` in step `s`.
   In the last step the remaining rows are shared among all ranks, so every rank takes the same
   number of steps.

The position in training is the number of rows before it in the epoch. For batches by tokens it is a
window, and a number of batches within it. Neither depends on the number of workers or ranks, so a
state can be resumed with another number of them. `Cursor` saves and loads states.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.batches.batch_options import BatchOptions, RowBatch, RowNumbers, share_batches
from mslm_data.batches.row_order import RowOrder, ShardUses, make_stream, row_order, shuffle_numbers
from mslm_data.log import LOGGER
from mslm_data.mask.rng import check_count

WINDOW = 64
"""Number of batches in a window.

A larger window brings rows of more similar length together, but shuffles them less well.
"""
STATE_VERSION = 5
"""Version of the states of `Cursor`.

Version 2 had batches by rows only, version 3 no digest of the rows. Up to version 4, short orders
of rows, shards or batches were shuffled differently.
"""

_BATCH_STREAM = 0xBA7C


@dataclass(frozen=True, slots=True)
class Place:
    """A position in training, between two steps.

    Attributes:
        epoch: Epoch number, from 0.
        rows: Number of rows before it in this epoch, over all ranks. For batches by tokens: number
            of rows in earlier windows.
        steps: Number of steps before it in this epoch.
        batches: For batches by tokens: number of batches before it in the current window, over all
            ranks.
    """

    epoch: int = 0
    rows: int = 0
    steps: int = 0
    batches: int = 0


class Step(NamedTuple):
    """A batch of one rank.

    Attributes:
        batch: The rows of the batch.
        number: Number of the training step, counted over all epochs from 0. For batches by tokens,
            earlier epochs count as `EpochOrder.nominal_steps`.
        tokens: Number of tokens before this step, over all epochs and ranks, see
            `EpochOrder.tokens_before`. None if unknown.
        after: The position after this step.
    """

    batch: RowBatch
    number: int
    tokens: int | None
    after: Place


@dataclass(frozen=True, kw_only=True)
class EpochOrder:
    """The batches of every epoch, a pure function of these fields, the epoch and the ranks.

    Attributes:
        row_order: The order of the rows.
        options: Size and form of the batches, and the seed.
        tokens: Number of tokens of all rows. None if unknown.
        digest: Digest of the rows, saved in states to detect a state of other rows. None if
            `row_order` describes the rows, or if unknown.
        lengths: Function from row numbers to numbers of tokens. Required if `bucketed`, and for
            batches by tokens.

    Raises:
        ValueError: `bucketed` or batches by tokens without `lengths` or `tokens`.
    """

    row_order: RowOrder
    options: BatchOptions
    tokens: int | None = None
    digest: str | None = None
    lengths: Callable[[RowNumbers], npt.NDArray[np.int64]] | None = field(
        default=None, repr=False, compare=False
    )
    rows: int = field(init=False, compare=False)
    """Number of rows of an epoch."""
    _cached_counts: dict[int, list[int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Epoch -> number of batches of each window. Holds the latest epoch only."""

    def __post_init__(self) -> None:
        # Stored, because `size` sums over all shards or splits and every batch reads it.
        object.__setattr__(self, "rows", self.row_order.size)

        if self.options.bucketed and self.lengths is None:
            raise ValueError(
                "bucketed: expected rows that have `lengths`, got others; use a split, or "
                "bucketed=False"
            )
        if self.options.is_by_tokens and (self.lengths is None or self.tokens is None):
            raise ValueError(
                "batch_tokens, row_tokens: expected rows that have `lengths` and `tokens`, got "
                "others; use a split, or batch_size alone"
            )

    @classmethod
    def from_options(cls, rows: Sized, options: BatchOptions) -> EpochOrder:
        """Return the order of a split, a mix, or any other object with a length.

        Args:
            rows: The rows. Some options need their attributes `lengths`, `tokens` or `shard_rows`.
            options: Options of the batches.

        Raises:
            ValueError: An option needs an attribute that the rows do not have.
        """
        return cls(
            row_order=row_order(rows, options),
            options=options,
            tokens=getattr(rows, "tokens", None),
            digest=getattr(rows, "digest", None),
            lengths=getattr(rows, "lengths", None),
        )

    def steps(self, start: Place, world: int = 1) -> int:
        """Return the number of steps from `start` to the end of the epoch, equal for all ranks.

        For batches by tokens this reads the lengths of all rows.
        """
        if self.options.is_by_tokens:
            counts = self._counts(start.epoch)[self._first_window(start) :]
            left = max(sum(counts) - start.batches, 0)
        else:
            origin, first = self._origin(start)
            left = max(self._batches_from(origin) - first, 0)

        if self.options.drop_last:
            return left // world
        return -(-left // world)

    def tokens_before(self, epoch: int, rows: int) -> int | None:
        """Return the number of tokens before a position in training. None if unknown.

        Computed without reading lengths: earlier epochs count all tokens, the current epoch the
        fraction of its rows, rounded down. So the number is the same on all ranks, after a resume,
        and for any order of the rows. With `bucketed`, a partial batch counts as full.

        Args:
            epoch: The current epoch.
            rows: Number of rows before the position in this epoch, over all ranks.
        """
        if self.tokens is None:
            return None

        tokens = int(self.tokens)
        return epoch * tokens + tokens * rows // max(self.rows, 1)

    def batches(self, start: Place, *, rank: int = 0, world: int = 1) -> Iterator[Step]:
        """Yield the batches of one rank from `start` to the end of the epoch.

        Args:
            start: Position of the first batch.
            rank: The rank, in `[0, world)`. Default: 0.
            world: Number of ranks. Default: 1.

        Raises:
            ValueError: A row is longer than `row_tokens` or `batch_tokens`.
        """
        if self.options.is_by_tokens:
            return self._by_tokens(start, rank, world)
        return self._by_rows(start, rank, world)

    def needed_shards(self, uses: ShardUses, start: Place, after: Place) -> tuple[int, int]:
        """Return the range of shards that the batches between two positions may read.

        Args:
            uses: The shards of the epoch, from `RowOrder.shard_uses`.
            start: Position before the batches.
            after: Position after the batches.

        Returns:
            First index into `uses`, and the index after the last.
        """
        # A batch may hold any row of its window, so round to whole windows.
        first = start.rows // self.window_rows * self.window_rows
        last = (after.rows // self.window_rows + 1) * self.window_rows
        num_done = int(np.searchsorted(uses.stops, first, side="right"))
        return num_done, int(np.searchsorted(uses.starts, last, side="left"))

    def _by_rows(self, start: Place, rank: int, world: int) -> Iterator[Step]:
        """Yield batches of a fixed number of rows. Each is found without those before it."""
        origin, first = self._origin(start)
        batches = self._batches_from(origin)
        number = start.epoch * self.steps(Place(start.epoch), world) + start.steps
        after = start

        # Full steps: a rank takes every `world`-th batch, and computes only the windows of these.
        whole = max(batches - first, 0) // world * world
        held = -1
        for batch in range(first + rank, first + whole, world):
            tokens = self.tokens_before(after.epoch, after.rows)
            window_number, place = divmod(batch, WINDOW)
            if window_number != held:
                window = self._window(start.epoch, origin, window_number)
                held = window_number
            after = self._after(after, world)
            yield Step(window[place], number, tokens, after)
            number += 1

        # The last step has fewer batches than ranks: share their rows. They may be in two windows.
        left = range(first + whole, batches)
        if left and not self.options.drop_last:
            numbers = {batch // WINDOW for batch in left}
            windows = {number: self._window(start.epoch, origin, number) for number in numbers}
            rows = np.concatenate([windows[batch // WINDOW][batch % WINDOW].rows for batch in left])
            share = self.options.row_batch(_share_rows(rows, rank, world))
            tokens = self.tokens_before(after.epoch, after.rows)
            yield Step(share, number, tokens, self._after(after, world))

    def _by_tokens(self, start: Place, rank: int, world: int) -> Iterator[Step]:
        """Yield batches of a number of tokens. A window is cut to find how many batches it has."""
        number = start.epoch * self.nominal_steps(world) + start.steps
        steps = start.steps
        skipped = start.batches
        dealt: list[RowBatch] = []  # batches of the step that is being filled, one per rank

        first_window = self._first_window(start)
        rows = first_window * self.window_rows  # rows before this step, over all ranks
        for window in range(first_window, self._num_windows):
            batches = self._window(start.epoch, 0, window)
            rows += sum(len(batch.rows) for batch in batches[:skipped])
            for taken, batch in enumerate(batches[skipped:], start=skipped + 1):
                dealt.append(batch)
                if len(dealt) < world:
                    continue

                # A step is full. Its last batch may be in a later window than its first.
                steps += 1
                after = Place(start.epoch, window * self.window_rows, steps, taken)
                yield Step(dealt[rank], number, self.tokens_before(start.epoch, rows), after)
                number += 1
                rows += sum(len(batch.rows) for batch in dealt)
                dealt = []

            # Only the first window has batches to skip.
            skipped = 0

        if dealt and not self.options.drop_last:
            share = share_batches(dealt, world)[rank]
            tokens = self.tokens_before(start.epoch, rows)
            yield Step(share, number, tokens, Place(start.epoch, self.rows, steps + 1))

    def _after(self, place: Place, world: int) -> Place:
        """Return the position after one more step of batches by rows."""
        rows = place.rows + world * (self.options.batch_size or 1)
        return Place(place.epoch, min(rows, self.rows), place.steps + 1)

    def _origin(self, start: Place) -> tuple[int, int]:
        """Return the row from which batches are cut, and the first of these batches to yield."""
        # Buckets need the windows of the whole epoch, so their batches are counted from row 0.
        if self.options.bucketed:
            return 0, -(-start.rows // (self.options.batch_size or 1))

        # Otherwise batches are cut from the position itself, so a resumed run may change its batch
        # size.
        return start.rows, 0

    def _batches_from(self, origin: int) -> int:
        """Return the number of batches by rows from row `origin` to the end of the epoch."""
        rows = self.rows - origin
        size = self.options.batch_size or 1
        if self.options.drop_last:
            return rows // size

        return -(-rows // size)

    @property
    def window_rows(self) -> int:
        """Number of rows of a window."""
        if self.options.batch_size is not None and not self.options.is_by_tokens:
            return WINDOW * self.options.batch_size

        # The average number of rows in WINDOW batches by tokens. It must not depend on the order.
        budget = WINDOW * (self.options.tokens or 1)
        return max(WINDOW, budget * self.rows // max(self.tokens or 1, 1))

    def _first_window(self, start: Place) -> int:
        """Return the window of a position; the number of windows at the end of an epoch."""
        return -(-start.rows // self.window_rows)

    @property
    def _num_windows(self) -> int:
        return -(-self.rows // self.window_rows)

    def nominal_steps(self, world: int) -> int:
        """Return the approximate number of steps of an epoch for batches by tokens."""
        return -(-(self.tokens or 0) // ((self.options.tokens or 1) * world))

    def _counts(self, epoch: int) -> list[int]:
        """Return the number of batches of each window of an epoch."""
        if epoch not in self._cached_counts:
            counts = [len(self._window(epoch, 0, number)) for number in range(self._num_windows)]
            self._cached_counts.clear()
            self._cached_counts[epoch] = counts
        return self._cached_counts[epoch]

    def _window(self, epoch: int, origin: int, number: int) -> list[RowBatch]:
        """Return the batches of a window, by steps 1 to 3 of this module's docstring."""
        start = origin + number * self.window_rows
        stop = min(start + self.window_rows, self.rows)
        rows = self.row_order.rows(start, stop, seed=self.options.seed, epoch=epoch)

        lengths = None
        if self.lengths is not None and (self.options.bucketed or self.options.is_by_tokens):
            lengths = self.lengths(rows)
        if lengths is not None and self.options.bucketed:
            longest_first = np.argsort(-lengths, kind="stable")
            rows = rows[longest_first]
            lengths = lengths[longest_first]

        def shuffle(count: int) -> RowNumbers:
            stream = make_stream(_BATCH_STREAM, self.options.seed, epoch, number)
            return shuffle_numbers(0, count, size=count, stream=stream)

        if lengths is not None and self.options.is_by_tokens:
            batches = self.options.cut(rows, lengths, shuffle)
        else:
            size = self.options.batch_size or 1
            parts = [rows[first : first + size] for first in range(0, len(rows), size)]
            batches = [self.options.row_batch(part) for part in parts]

        # Without this shuffle, training would go from the longest rows to the shortest in each
        # window.
        if self.options.bucketed:
            batches = [batches[batch] for batch in shuffle(len(batches))]

        # The shuffle may put the partial batch anywhere, so it is dropped here.
        if self.options.drop_last and not self.options.is_by_tokens:
            batches = [batch for batch in batches if len(batch.rows) == self.options.batch_size]
        return batches


class Cursor:
    """The position of a pass over an `EpochOrder`, and its states.

    A state is a small dict of JSON values, equal on all ranks. It can be resumed with another
    number of ranks or workers. States of `md.Batches` and of the torch loader are interchangeable.

    Attributes:
        order: The order of the batches.
        place: The position after the last counted batch.
        world: Number of ranks of the current pass.
    """

    def __init__(self, order: EpochOrder, epoch: int = 0) -> None:
        """Start at the first batch of `epoch`.

        Raises:
            ValueError: `epoch` is not in `[0, 2**63)`.
        """
        check_count("epoch", epoch)
        self.order = order
        self.place = Place(epoch)
        self.world = 1
        self._resumed = False
        self._is_exhausted = False
        """Whether all steps of the current pass have been yielded."""
        self._uncounted: deque[Place] = deque()
        """Positions after the steps that have been yielded but not counted."""

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self.place.epoch

    def set_epoch(self, epoch: int) -> None:
        """Move to the first batch of `epoch`; within the current epoch, do nothing.

        So a trainer that sets the epoch after a resume does not lose the position.

        Raises:
            ValueError: `epoch` is not in `[0, 2**63)`.
        """
        check_count("epoch", epoch)
        if epoch != self.epoch or (self._is_over and not self._resumed):
            self._move_to(Place(epoch))

    def rewind(self) -> None:
        """Move to the first batch of the epoch, or of the next one after a complete pass.

        Does nothing after `load_state_dict`. To be called when an iterator is made.
        """
        if not self._resumed:
            self._move_to(Place(self.epoch + self._is_over))

    def begin(self, *, rank: int = 0, world: int = 1) -> Iterator[Step]:
        """Start a pass at a loaded state, otherwise as `rewind`; call `count` for each batch.

        To be called when the first batch is requested, not when an iterator is made: DataLoader
        makes iterators that it never uses.

        Args:
            rank: The rank, in `[0, world)`. Default: 0.
            world: Number of ranks. Default: 1.
        """
        self.rewind()
        self._resumed = False
        self.world = world

        return self._record_places(self.order.batches(self.place, rank=rank, world=world))

    def count(self) -> None:
        """Move past the oldest batch that has been yielded but not counted."""
        if self._uncounted:  # empty if a newer pass has replaced the caller's
            self.place = self._uncounted.popleft()

    def steps(self, world: int | None = None) -> int:
        """Return the number of steps of this epoch, including those before a resume."""
        world = self.world if world is None else world

        return self.place.steps + self.order.steps(self.place, world)

    def steps_in_words(self, world: int | None = None) -> str:
        """Return the number of steps of an epoch; approximate for batches by tokens."""
        world = self.world if world is None else world
        if self.order.options.is_by_tokens:
            return f"about {self.order.nominal_steps(world):,}"
        return f"{self.steps(world):,}"

    def state_dict(self) -> dict[str, Any]:
        """Return the position as a dict, for `load_state_dict`."""
        return {
            "version": STATE_VERSION,
            **self._describe(),
            "batch_size": _plain(self.order.options.batch_size),
            "epoch": int(self.place.epoch),
            "rows_given": int(self.place.rows),
            "batches_given": int(self.place.batches),
            "steps": int(self.place.steps),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume at a state.

        The number of ranks may differ. So may `batch_size`, unless batches are bucketed or by
        tokens.

        Raises:
            ValueError: The state is damaged, or belongs to other rows or options, so rows would be
                repeated or lost.
        """
        if state.get("version") != STATE_VERSION:
            raise ValueError(
                f"state: expected version {STATE_VERSION}, got {state.get('version')!r}; begin the "
                "epoch anew, or resume with the version of mslm-data that saved it"
            )

        # Settings that must be equal for the position to mean the same rows.
        expected = self._describe()
        if self.order.options.bucketed or self.order.options.is_by_tokens:
            expected["batch_size"] = _plain(self.order.options.batch_size)
        for name, value in expected.items():
            if state.get(name) != value:
                raise ValueError(
                    f"state: expected {name} = {value}, got {state.get(name)!r}; load the same "
                    "split and pass the options that the state was saved with"
                )

        # The position itself.
        for name in ("epoch", "rows_given", "batches_given", "steps"):
            check_count(f"state: {name}", state.get(name))
        if state["rows_given"] > self.order.rows:
            raise ValueError(
                f"state: expected rows_given of at most {self.order.rows}, got "
                f"{state['rows_given']}; load the same split"
            )

        self._move_to(
            Place(
                epoch=state["epoch"],
                rows=state["rows_given"],
                steps=state["steps"],
                batches=state["batches_given"],
            )
        )
        self._resumed = True
        LOGGER.info(
            "resuming epoch %d after %d of %d rows, %d steps",
            *(self.place.epoch, self.place.rows, self.order.rows, self.place.steps),
        )

    @property
    def _is_over(self) -> bool:
        """Whether the current pass has no batch left."""
        return self._is_exhausted or 0 < self.order.rows <= self.place.rows

    def _move_to(self, place: Place) -> None:
        self.place = place
        self._uncounted = deque()
        self._resumed = False
        self._is_exhausted = False

    def _record_places(self, steps: Iterator[Step]) -> Iterator[Step]:
        """Yield steps, and record the position after each."""
        uncounted = self._uncounted
        for step in steps:
            uncounted.append(step.after)
            yield step
        if uncounted is self._uncounted:  # otherwise a newer pass has started
            self._is_exhausted = True

    def _describe(self) -> dict[str, Any]:
        """Return the settings that determine the meaning of a position."""
        order = self.order
        options = order.options
        by_tokens = {}
        if options.is_by_tokens:
            by_tokens = {
                "batch_tokens": _plain(options.batch_tokens),
                "row_tokens": _plain(options.row_tokens),
                "flat": bool(options.flat),
                "multiple_of": _plain(options.multiple_of),
            }

        return {
            **order.row_order.describe(),
            "tokens": _plain(order.tokens),
            "digest": order.digest,
            "seed": int(options.seed),
            "bucketed": bool(options.bucketed),
            "drop_last": bool(options.drop_last),
            **by_tokens,
        }


def _plain(number: int | None) -> int | None:
    """Convert an integer of Python or NumPy to JSON."""
    return None if number is None else int(number)


def _share_rows(rows: RowNumbers, rank: int, world: int) -> RowNumbers:
    """Return a rank's share of the rows of a last step with fewer batches than ranks.

    Shares differ by at most one row.
    """
    # With fewer rows than ranks, rows are repeated: a rank without a batch would never join the
    # gradient exchange, and the others would wait for it forever.
    enough = np.resize(rows, max(len(rows), world))

    return np.array_split(enough, world)[rank]
