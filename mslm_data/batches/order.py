"""Decides which rows each batch of an epoch has, for NumPy and for torch alike.

`md.Batches` and the loader of torch both ask here.

An epoch is laid out in four moves. Each is computed from numbers alone (rows, lengths, seed, epoch,
ranks), so any place of any epoch is reached without walking there, and every process finds the same
batches.

1. Rows take places. The rows at places `[a, b)` are found as `RowOrder` says: as stored, or those
   of a permutation that is computed for (seed, epoch) and never held in memory.
2. Places are cut into windows of about `WINDOW` batches. A window is all that is ever held, however
   long the epoch. It has a fixed number of rows.
3. A window's rows are cut into batches as `BatchOptions` says: by number or by tokens, padded or
   packed. They are taken as they stand or, `bucketed`, rows of like length together, and these
   batches are shuffled once more (`bucket_rows`).
4. Batches are dealt to the ranks like cards: step `s` takes the next `world` batches, and rank `r`
   gets the `r`-th of them. The last step shares out the rows of what is left, so that every rank
   takes the same number of steps.

A place in training is therefore a number of rows; where rows are counted by their tokens, it is a
window and a number of its batches. It holds for any number of ranks and workers, and `Cursor` makes
of it the one state that all its users save and load.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.batches.batch_options import BatchOptions, Drawn, RowNumbers, shared_out
from mslm_data.batches.row_order import RowOrder, ShardUses, make_stream, row_order, shuffled_part
from mslm_data.log import LOGGER
from mslm_data.mask.rng import check_count

WINDOW = 64
"""Batches of a window.

More bring rows of closer lengths together and mix an epoch's batches less.
"""
STATE_VERSION = 5
"""Version of the states that `Cursor` saves.

2 knew batches of a number of rows alone, 3 no digest of the rows; up to 4 few rows, shards or
batches came in other orders.
"""

_BATCH_STREAM = 0xBA7C


@dataclass(frozen=True, slots=True)
class Place:
    """A place in training at which batches begin.

    Attributes:
        epoch: Which pass over the data.
        rows: Rows of this epoch's order that were given before, those of all ranks together. Where
            rows are counted by their tokens: those of the windows before.
        steps: Batches of each rank that were given before in this epoch.
        batches: Where rows are counted by their tokens: batches of the present window that were
            given before, those of all ranks together.
    """

    epoch: int = 0
    rows: int = 0
    steps: int = 0
    batches: int = 0


class Step(NamedTuple):
    """A batch of one rank.

    Attributes:
        drawn: Its rows.
        number: The training step that it is for: the batches of this rank before, with those of
            earlier epochs. Where rows are counted by their tokens, earlier epochs count as many as
            their tokens fill.
        tokens: Tokens that all ranks were given before this step, those of earlier epochs included;
            see `EpochOrder.tokens_before`. None where tokens are not known.
        after: The place after it.
    """

    drawn: Drawn
    number: int
    tokens: int | None
    after: Place


@dataclass(frozen=True, kw_only=True)
class EpochOrder:
    """The rows of every batch, as a pure function of these fields, the epoch and the ranks.

    Attributes:
        row_order: Which row stands at which place.
        options: What a batch is made of, and the seed.
        tokens: Number of tokens of all rows; None where it is not known.
        digest: Tells the rows from others, so that a state of these is noticed; None where
            `row_order` does, or where nothing is known.
        lengths: Returns the number of tokens of given rows; asked only if `bucketed`, or if
            batches are filled by tokens.

    Raises:
        ValueError: Buckets or budgets without lengths.
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
    _counted: dict[int, list[int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Epoch -> batches of each of its windows, of the epoch that was asked for last."""

    def __post_init__(self) -> None:
        # Asked for at each batch, and a sum over shards or splits.
        object.__setattr__(self, "rows", self.row_order.size)

        if self.options.bucketed and self.lengths is None:
            raise ValueError(
                "bucketed: expected a dataset that has `lengths`, got one without; use a "
                "MaskedDataset, or bucketed=False"
            )
        if self.options.is_by_tokens and (self.lengths is None or self.tokens is None):
            raise ValueError(
                "batch_tokens, row_tokens: expected a dataset that has `lengths` and `tokens`, got "
                "one without; use a MaskedDataset, or batch_size alone"
            )

    @classmethod
    def from_options(cls, rows: Sized, options: BatchOptions) -> EpochOrder:
        """Return the order of a split, a mix, a dataset, or any other object with a length.

        Args:
            rows: Which rows; buckets and budgets need `lengths` and `tokens` of them.
            options: The options of batches.

        Raises:
            ValueError: Rows without `lengths`, `tokens` or `shard_rows` where options need them.
        """
        return cls(
            row_order=row_order(rows, options),
            options=options,
            tokens=getattr(rows, "tokens", None),
            digest=getattr(rows, "digest", None),
            lengths=getattr(rows, "lengths", None),
        )

    def steps(self, start: Place, world: int = 1) -> int:
        """Return how many batches each of `world` ranks has from `start` to the epoch's end.

        Where rows are counted by their tokens, the lengths of all rows are read for that.
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
        """Return how many tokens were given before a place, or None where tokens are not known.

        They are counted without reading any length: each epoch before has the tokens of all rows,
        and of the present one the share of its rows that were given, rounded down. So the number is
        the same on all ranks, after a resume, and for any order of the rows. In buckets, a batch
        that is not full counts as full.

        Args:
            epoch: The present epoch.
            rows: Rows of this epoch that all ranks together were given before.
        """
        if self.tokens is None:
            return None

        tokens = int(self.tokens)
        return epoch * tokens + tokens * rows // max(self.rows, 1)

    def batches(self, start: Place, *, rank: int = 0, world: int = 1) -> Iterator[Step]:
        """Give one rank's batches from `start` to the end of its epoch.

        Args:
            start: Where to begin.
            rank: Whose batches, in `[0, world)`.
            world: Number of ranks.

        Raises:
            ValueError: A row has more tokens than the shape has room for.
        """
        if self.options.is_by_tokens:
            return self._by_tokens(start, rank, world)
        return self._by_rows(start, rank, world)

    def wanted(self, uses: ShardUses, start: Place, after: Place) -> tuple[int, int]:
        """Return which shards the batches between two places can want, in the order of their uses.

        Args:
            uses: The epoch's shards, as `RowOrder.uses` gives them.
            start: Before the batches.
            after: After them.

        Returns:
            The first of these shards, and the one after the last.
        """
        first = start.rows // self.window_rows * self.window_rows
        last = (after.rows // self.window_rows + 1) * self.window_rows
        behind = int(np.searchsorted(uses.stops, first, side="right"))
        return behind, int(np.searchsorted(uses.starts, last, side="left"))

    def _by_rows(self, start: Place, rank: int, world: int) -> Iterator[Step]:
        """Give batches of a number of rows: each is found without those before it."""
        origin, first = self._origin(start)
        batches = self._batches_from(origin)
        number = start.epoch * self.steps(Place(start.epoch), world) + start.steps
        after = start

        # Whole steps: each rank takes every `world`-th batch, and only ever holds the window that
        # its batch lies in.
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

        # What is left is shared out row by row. Its batches can lie on both sides of a window's
        # border.
        left = range(first + whole, batches)
        if left and not self.options.drop_last:
            numbers = {batch // WINDOW for batch in left}
            windows = {number: self._window(start.epoch, origin, number) for number in numbers}
            rows = np.concatenate([windows[batch // WINDOW][batch % WINDOW].rows for batch in left])
            share = self.options.drawn(_shared_out(rows, rank, world))
            tokens = self.tokens_before(after.epoch, after.rows)
            yield Step(share, number, tokens, self._after(after, world))

    def _by_tokens(self, start: Place, rank: int, world: int) -> Iterator[Step]:
        """Give batches of a number of tokens: how many a window has is found by cutting it."""
        number = start.epoch * self.nominal_steps(world) + start.steps
        steps = start.steps
        skipped = start.batches
        dealt: list[Drawn] = []

        first_window = self._first_window(start)
        rows = first_window * self.window_rows  # of the steps before, all ranks together
        for window in range(first_window, self._num_windows):
            batches = self._window(start.epoch, 0, window)
            rows += sum(len(batch.rows) for batch in batches[:skipped])
            for given, batch in enumerate(batches[skipped:], start=skipped + 1):
                dealt.append(batch)
                if len(dealt) < world:
                    continue
                steps += 1
                after = Place(start.epoch, window * self.window_rows, steps, given)
                yield Step(dealt[rank], number, self.tokens_before(start.epoch, rows), after)
                number += 1
                rows += sum(len(batch.rows) for batch in dealt)
                dealt = []

            # A resumed pass can begin within a step's batches only if the ranks are others now.
            skipped = 0

        if dealt and not self.options.drop_last:
            share = shared_out(dealt, world)[rank]
            tokens = self.tokens_before(start.epoch, rows)
            yield Step(share, number, tokens, Place(start.epoch, self.rows, steps + 1))

    def _after(self, place: Place, world: int) -> Place:
        """Return the place after one more step, where rows are counted."""
        rows = place.rows + world * (self.options.batch_size or 1)
        return Place(place.epoch, min(rows, self.rows), place.steps + 1)

    def _origin(self, start: Place) -> tuple[int, int]:
        """Return at which row batches begin to be cut, and which of these batches comes first.

        Buckets keep the windows of a whole epoch: their batches are counted from its first row.
        Without buckets the rest of an epoch is cut anew from the first row that was not given, so
        another batch size can take over.
        """
        if self.options.bucketed:
            return 0, -(-start.rows // (self.options.batch_size or 1))

        return start.rows, 0

    def _batches_from(self, origin: int) -> int:
        """Return how many batches are cut from the rows at `origin` and after, by their number."""
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

        # As many as fill its batches on average, whatever the rows' order.
        budget = WINDOW * (self.options.tokens or 1)
        return max(WINDOW, budget * self.rows // max(self.tokens or 1, 1))

    def _first_window(self, start: Place) -> int:
        """Return the window that a place is in: the one after the last at an epoch's end."""
        return -(-start.rows // self.window_rows)

    @property
    def _num_windows(self) -> int:
        return -(-self.rows // self.window_rows)

    def nominal_steps(self, world: int) -> int:
        """Return about how many steps an epoch has where rows are counted by their tokens."""
        return -(-(self.tokens or 0) // ((self.options.tokens or 1) * world))

    def _counts(self, epoch: int) -> list[int]:
        """Return the number of batches of each window of an epoch."""
        if epoch not in self._counted:
            counts = [len(self._window(epoch, 0, number)) for number in range(self._num_windows)]
            self._counted.clear()
            self._counted[epoch] = counts
        return self._counted[epoch]

    def _window(self, epoch: int, origin: int, number: int) -> list[Drawn]:
        """Return the batches of a window (moves 1 to 3)."""
        start = origin + number * self.window_rows
        stop = min(start + self.window_rows, self.rows)
        rows = self.row_order.rows(start, stop, seed=self.options.seed, epoch=epoch)

        lengths = None
        if self.lengths is not None and (self.options.bucketed or self.options.is_by_tokens):
            lengths = self.lengths(rows)

        def mix(count: int) -> RowNumbers:
            """Return an order of so many things of this window."""
            return _shuffled(count, make_stream(_BATCH_STREAM, self.options.seed, epoch, number))

        if lengths is not None and self.options.is_by_tokens:
            if not self.options.bucketed:
                return self.options.cut(rows, lengths, mix)
            longest_first = np.argsort(-lengths, kind="stable")
            batches = self.options.cut(rows[longest_first], lengths[longest_first], mix)
            return [batches[batch] for batch in mix(len(batches))]

        size = self.options.batch_size or 1
        if lengths is None:
            parts = [rows[first : first + size] for first in range(0, len(rows), size)]
            return [self.options.drawn(part) for part in parts]

        places = bucket_rows(lengths, size, seed=self.options.seed, epoch=epoch, window=number)
        parts = [rows[batch] for batch in places]

        # The batch of the shortest rows may stand anywhere in its window, so it is left out here.
        return [
            self.options.drawn(p) for p in parts if len(p) == size or not self.options.drop_last
        ]


class Cursor:
    """How far a pass over an order has come, and the state that resumes it.

    A state is small, plain (JSON or msgpack can keep it), equal on all ranks, and good for any
    number of them. It is the same for `md.Batches` and the loader of torch: each resumes what the
    other has saved.

    Attributes:
        order: The batches.
        place: Where the pass stands: after the batches that were counted.
        world: Ranks of the present pass.
    """

    def __init__(self, order: EpochOrder, epoch: int = 0) -> None:
        """Stand at the first batch of `epoch`.

        Raises:
            ValueError: Not an epoch.
        """
        check_count("epoch", epoch)
        self.order = order
        self.place = Place(epoch)
        self.world = 1
        self._resumed = False
        self._is_exhausted = False
        """Whether all steps of the present pass were made."""
        self._ahead: deque[Place] = deque()
        """Places after the steps that were made and not yet counted."""

    @property
    def epoch(self) -> int:
        """The present epoch."""
        return self.place.epoch

    def set_epoch(self, epoch: int) -> None:
        """Start `epoch` from its first batch.

        Does nothing within the current one, so a resumed run continues.

        Raises:
            ValueError: Not an epoch.
        """
        check_count("epoch", epoch)
        if epoch != self.epoch or (self._is_over and not self._resumed):
            self._stand(Place(epoch))

    def rewind(self) -> None:
        """Stand at the first batch of the epoch, or of the next one if its pass is over.

        A loaded state stays as it is. To be called when an iterator is made.
        """
        if not self._resumed:
            self._stand(Place(self.epoch + self._is_over))

    def begin(self, *, rank: int = 0, world: int = 1) -> Iterator[Step]:
        """Begin a new pass: where `rewind` stands, or once at a loaded state.

        To be called when the first batch is asked for: DataLoader makes iterators that it throws
        away unused. Whoever hands the batches out calls `count` for each.

        Args:
            rank: Whose batches.
            world: Number of ranks.
        """
        self.rewind()
        self._resumed = False
        self.world = world

        return self._noted(self.order.batches(self.place, rank=rank, world=world))

    def count(self) -> None:
        """Count a batch as given: the earliest of those that were made and not yet counted."""
        if self._ahead:  # else somebody goes on with a pass that another has replaced
            self.place = self._ahead.popleft()

    def steps(self, world: int | None = None) -> int:
        """Return the number of each rank's batches in this epoch, with those before a resume."""
        world = self.world if world is None else world

        return self.place.steps + self.order.steps(self.place, world)

    def steps_in_words(self, world: int | None = None) -> str:
        """Return how many steps an epoch has, or about how many where lengths must be read."""
        world = self.world if world is None else world
        if self.order.options.is_by_tokens:
            return f"about {self.order.nominal_steps(world):,}"
        return f"{self.steps(world):,}"

    def state_dict(self) -> dict[str, Any]:
        """Return where the pass stands, for `load_state_dict`."""
        return {
            "version": STATE_VERSION,
            **self._described(),
            "batch_size": _plain(self.order.options.batch_size),
            "epoch": int(self.place.epoch),
            "rows_given": int(self.place.rows),
            "batches_given": int(self.place.batches),
            "steps": int(self.place.steps),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where a state was taken.

        The ranks may be others now. Where a batch is a number of rows in no buckets, that number
        may be another too.

        Raises:
            ValueError: A state of other rows or options, which would repeat or lose rows, or a
                damaged one.
        """
        if state.get("version") != STATE_VERSION:
            raise ValueError(
                f"state: expected version {STATE_VERSION}, got {state.get('version')!r}; begin the "
                "epoch anew, or resume with the version of mslm-data that saved it"
            )

        expected = self._described()
        if self.order.options.bucketed or self.order.options.is_by_tokens:
            expected["batch_size"] = _plain(self.order.options.batch_size)
        for name, value in expected.items():
            if state.get(name) != value:
                raise ValueError(
                    f"state: expected {name} = {value}, got {state.get(name)!r}; load the same "
                    "split and pass the options that the state was saved with"
                )

        for name in ("epoch", "rows_given", "batches_given", "steps"):
            check_count(f"state: {name}", state.get(name))
        if state["rows_given"] > self.order.rows:
            raise ValueError(
                f"state: expected rows_given of at most {self.order.rows}, got "
                f"{state['rows_given']}; load the same split"
            )

        self._stand(
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
        """Whether the present pass has no batch left."""
        return self._is_exhausted or 0 < self.order.rows <= self.place.rows

    def _stand(self, place: Place) -> None:
        self.place = place
        self._ahead = deque()
        self._resumed = False
        self._is_exhausted = False

    def _noted(self, steps: Iterator[Step]) -> Iterator[Step]:
        """Give steps, and note the place after each as it is made."""
        ahead = self._ahead
        for step in steps:
            ahead.append(step.after)
            yield step
        if ahead is self._ahead:  # else another pass has begun
            self._is_exhausted = True

    def _described(self) -> dict[str, Any]:
        """Return what two orders must agree on for a place to mean the same."""
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
            **order.row_order.described(),
            "tokens": _plain(order.tokens),
            "digest": order.digest,
            "seed": int(options.seed),
            "bucketed": bool(options.bucketed),
            "drop_last": bool(options.drop_last),
            **by_tokens,
        }


def _plain(number: int | None) -> int | None:
    """Return a number as JSON takes it, which may be one of NumPy's."""
    return None if number is None else int(number)


def bucket_rows(
    lengths: npt.NDArray[np.int64], batch_size: int, *, seed: int, epoch: int, window: int
) -> list[RowNumbers]:
    """Return the batches of a window, each of rows of like length, in shuffled order.

    Args:
        lengths: `[R]`, tokens of the window's rows, in the epoch's order.
        batch_size: Rows of a batch; the batch of the shortest rows may have fewer.
        seed: In `[0, 2**63)`.
        epoch: In `[0, 2**63)`.
        window: Number of the window.

    Returns:
        Batches, each as places within the window.
    """
    longest_first = np.argsort(-lengths, kind="stable")
    starts = range(0, len(longest_first), batch_size)
    batches = [longest_first[start : start + batch_size] for start in starts]

    # Without this shuffle every window would train from its longest rows to its shortest.
    order = _shuffled(len(batches), make_stream(_BATCH_STREAM, seed, epoch, window))

    return [batches[b] for b in order]


def _shuffled(count: int, stream: np.uint64) -> RowNumbers:
    """Return the numbers from 0 to `count`, in an order that the stream draws."""
    return shuffled_part(0, count, size=count, stream=stream)


def _shared_out(rows: RowNumbers, rank: int, world: int) -> RowNumbers:
    """Return a rank's share of the rows of a last step that has fewer batches than ranks.

    Shares differ by one row at most. Only where there are fewer rows than ranks do some ranks
    repeat a row: a rank without a batch would leave the others waiting in their gradient exchange
    for ever.
    """
    enough = np.resize(rows, max(len(rows), world))

    return np.array_split(enough, world)[rank]
