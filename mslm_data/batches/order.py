"""Decides which rows each batch of an epoch has, for NumPy and for torch alike.

`md.Batches`, `ShardSampler` and `MaskedLoader` all ask here.

An epoch is laid out in four moves. Each is computed from numbers alone (rows, lengths, seed, epoch,
ranks), so any place of any epoch is reached without walking there, and every process finds the same
batches.

1. Rows take places. The rows at places `[a, b)` are either rows `a` to `b` as stored, or those of a
   permutation that is computed for (seed, epoch) and never held in memory (`shuffle_rows`).
2. Places are cut into windows of `WINDOW` batches. A window is all that is ever held, however long
   the epoch.
3. A window's rows are cut into batches: one after the other as they stand or, `bucketed`, rows of
   like length together and these batches shuffled once more (`bucket_rows`).
4. Batches are dealt to the ranks like cards: step `s` takes the next `world` batches, and rank `r`
   gets the `r`-th of them. The last step shares out the rows of what is left, so that every rank
   takes the same number of steps.

A place in training is therefore a number of rows. It holds for any number of ranks and workers, and
`Cursor` makes of it the one state that all three users save and load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mslm_data.kernels.draws import fold
from mslm_data.kernels.shuffle import shuffled
from mslm_data.log import LOGGER
from mslm_data.mask.draws import check_count

RowNumbers: TypeAlias = npt.NDArray[np.int64]
"""`[R]`, numbers of rows of a split."""

WINDOW = 64
"""Batches of a window.

More bring rows of closer lengths together and mix an epoch's batches less.
"""
STATE_VERSION = 2
"""Version of the states that `Cursor` saves; 1 had two forms, one for NumPy and one for torch."""

_ROW_STREAM = 0x0BDE
_BATCH_STREAM = 0xBA7C


@dataclass(frozen=True, slots=True)
class Place:
    """A place in training at which batches begin.

    Attributes:
        epoch: Which pass over the data.
        rows: Rows of this epoch's order that were given before, those of all ranks together.
        steps: Batches of each rank that were given before in this epoch.
    """

    epoch: int = 0
    rows: int = 0
    steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochOrder:
    """The rows of every batch, as a pure function of these fields, the epoch and the ranks.

    Attributes:
        rows: Number of rows.
        batch_size: Rows of a rank's batch.
        seed: In `[0, 2**63)`.
        shuffle: Whether rows come in an order of (seed, epoch), or as stored.
        bucketed: Whether rows of like length share a batch.
        drop_last: Whether to leave out a batch that is not full, and a last step that has no batch
            for some rank.
        tokens: Number of tokens of all rows, by which a state of other rows is noticed; None where
            it is not known.
        lengths: Returns the number of tokens of given rows; asked only if `bucketed`.

    Raises:
        ValueError: An option of the wrong type or out of range, or buckets without lengths.
    """

    rows: int
    batch_size: int = 32
    seed: int = 0
    shuffle: bool = True
    bucketed: bool = False
    drop_last: bool = False
    tokens: int | None = None
    lengths: Callable[[RowNumbers], npt.NDArray[np.int64]] | None = field(
        default=None, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        check_size("batch_size", self.batch_size)
        check_count("seed", self.seed)

        for name in ("shuffle", "bucketed", "drop_last"):
            value = getattr(self, name)
            if not isinstance(value, bool | np.bool_):
                raise ValueError(f"{name}: expected True or False, got {value!r}")

        if self.bucketed and self.lengths is None:
            raise ValueError(
                "bucketed: expected a dataset that has `lengths`, got one without; use a "
                "MaskedDataset, or bucketed=False"
            )

    def steps(self, start: Place, world: int = 1) -> int:
        """Return how many batches each of `world` ranks has from `start` to the epoch's end."""
        origin, first = self._origin(start)
        left = max(self._batches_from(origin) - first, 0)
        if self.drop_last:
            return left // world

        return -(-left // world)

    def batches(
        self, start: Place, *, rank: int = 0, world: int = 1
    ) -> Iterator[tuple[RowNumbers, int]]:
        """Give one rank's batches from `start` to the end of its epoch.

        Args:
            start: Where to begin.
            rank: Whose batches, in `[0, world)`.
            world: Number of ranks.

        Yields:
            The batch's rows, `[B]`, and the training step it is for: the batches of this rank
            before, with those of earlier epochs.
        """
        origin, first = self._origin(start)
        batches = self._batches_from(origin)
        step = start.epoch * self.steps(Place(start.epoch), world) + start.steps

        # Whole steps: each rank takes every `world`-th batch, and only ever holds the window that
        # its batch lies in.
        whole = max(batches - first, 0) // world * world
        held = -1
        for batch in range(first + rank, first + whole, world):
            number, place = divmod(batch, WINDOW)
            if number != held:
                window = self._window(start.epoch, origin, number)
                held = number
            yield window[place], step
            step += 1

        # What is left is shared out row by row. Its batches can lie on both sides of a window's
        # border.
        left = range(first + whole, batches)
        if left and not self.drop_last:
            numbers = {batch // WINDOW for batch in left}
            windows = {number: self._window(start.epoch, origin, number) for number in numbers}
            rows = np.concatenate([windows[batch // WINDOW][batch % WINDOW] for batch in left])
            yield _shared_out(rows, rank, world), step

    def after(self, start: Place, steps: int, world: int = 1) -> Place:
        """Return the place after some more steps of `world` ranks."""
        rows = start.rows + steps * world * self.batch_size

        return Place(start.epoch, min(rows, self.rows), start.steps + steps)

    def _origin(self, start: Place) -> tuple[int, int]:
        """Return at which row batches begin to be cut, and which of these batches comes first.

        Buckets keep the windows of a whole epoch: their batches are counted from its first row.
        Without buckets the rest of an epoch is cut anew from the first row that was not given, so
        another batch size can take over.
        """
        if self.bucketed:
            return 0, -(-start.rows // self.batch_size)

        return start.rows, 0

    def _batches_from(self, origin: int) -> int:
        """Return how many batches are cut from the rows at `origin` and after."""
        rows = self.rows - origin
        if self.drop_last:
            return rows // self.batch_size

        return -(-rows // self.batch_size)

    def _window(self, epoch: int, origin: int, number: int) -> list[RowNumbers]:
        """Return the rows of each batch of a window (moves 1 to 3).

        Other ways to order rows belong into the first paragraph, other ways to cut batches into the
        last two.
        """
        size = self.batch_size
        start = origin + number * WINDOW * size
        stop = min(start + WINDOW * size, self.rows)
        if self.shuffle:
            rows = shuffle_rows(start, stop, size=self.rows, seed=self.seed, epoch=epoch)
        else:
            rows = np.arange(start, stop)

        if self.lengths is None or not self.bucketed:
            return [rows[first : first + size] for first in range(0, len(rows), size)]

        lengths = self.lengths(rows)
        places = bucket_rows(lengths, size, seed=self.seed, epoch=epoch, window=number)
        batches = [rows[batch] for batch in places]

        # The batch of the shortest rows may stand anywhere in its window, so it is left out here.
        return [batch for batch in batches if len(batch) == size or not self.drop_last]


class Cursor:
    """How far a pass over an order has come, and the state that resumes it.

    A state is small, plain (JSON or msgpack can keep it), equal on all ranks, and good for any
    number of them. It is the same for `md.Batches`, `ShardSampler` and `MaskedLoader`: each resumes
    what another has saved.

    Attributes:
        order: The batches.
        start: Where the present pass began.
        given: Batches of this rank handed out since `start`. Whoever hands them out counts here.
        world: Ranks of the present pass.
    """

    def __init__(self, order: EpochOrder, epoch: int = 0) -> None:
        """Stand at the first batch of `epoch`.

        Raises:
            ValueError: Not an epoch.
        """
        check_count("epoch", epoch)
        self.order = order
        self.start = Place(epoch)
        self.given = 0
        self.world = 1
        self._resumed = False

    @property
    def epoch(self) -> int:
        """The present epoch."""
        return self.start.epoch

    def set_epoch(self, epoch: int) -> None:
        """Start `epoch` from its first batch.

        Does nothing if it is the current one, so a resumed run continues.

        Raises:
            ValueError: Not an epoch.
        """
        check_count("epoch", epoch)
        if epoch != self.epoch:
            self._stand(Place(epoch))

    def rewind(self) -> None:
        """Stand at the epoch's first batch, but stay where a loaded state has led.

        To be called when an iterator is made.
        """
        if not self._resumed:
            self._stand(Place(self.epoch))

    def begin(self, world: int = 1) -> Place:
        """Return where a new pass begins: at the epoch's first batch, or once at a loaded state.

        To be called when the first batch is asked for: DataLoader makes iterators that it throws
        away unused.
        """
        self.rewind()
        self._resumed = False
        self.world = world

        return self.start

    def steps(self, world: int | None = None) -> int:
        """Return the number of each rank's batches in this epoch, with those before a resume."""
        world = self.world if world is None else world

        return self.start.steps + self.order.steps(self.start, world)

    def state_dict(self) -> dict[str, Any]:
        """Return where the pass stands, for `load_state_dict`."""
        place = self.order.after(self.start, self.given, self.world)

        return {
            "version": STATE_VERSION,
            **self._described(),
            "batch_size": int(self.order.batch_size),
            "epoch": int(place.epoch),
            "rows_given": int(place.rows),
            "steps": int(place.steps),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where a state was taken.

        The ranks may be others now. Without buckets, so may the batch size.

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
        if self.order.bucketed:
            expected["batch_size"] = self.order.batch_size
        for name, value in expected.items():
            if state.get(name) != value:
                raise ValueError(
                    f"state: expected {name} = {value}, got {state.get(name)!r}; load the same "
                    "split and pass the options that the state was saved with"
                )

        for name in ("epoch", "rows_given", "steps"):
            check_count(f"state: {name}", state.get(name))
        if state["rows_given"] > self.order.rows:
            raise ValueError(
                f"state: expected rows_given of at most {self.order.rows}, got "
                f"{state['rows_given']}; load the same split"
            )

        self._stand(Place(state["epoch"], state["rows_given"], state["steps"]))
        self._resumed = True
        LOGGER.info(
            "resuming epoch %d after %d of %d rows, %d steps",
            *(self.start.epoch, self.start.rows, self.order.rows, self.start.steps),
        )

    def _stand(self, place: Place) -> None:
        self.start = place
        self.given = 0
        self._resumed = False

    def _described(self) -> dict[str, Any]:
        """Return what two orders must agree on for a number of rows to mean one place."""
        order = self.order

        return {
            "rows": int(order.rows),
            "tokens": None if order.tokens is None else int(order.tokens),
            "seed": int(order.seed),
            "shuffle": bool(order.shuffle),
            "bucketed": bool(order.bucketed),
            "drop_last": bool(order.drop_last),
        }


def shuffle_rows(start: int, stop: int, *, size: int, seed: int, epoch: int) -> RowNumbers:
    """Return the rows at places `[start, stop)` of the shuffled order of an epoch.

    Args:
        start: First place.
        stop: Place after the last; at most `size`.
        size: Rows of the split.
        seed: In `[0, 2**63)`.
        epoch: In `[0, 2**63)`; each has an order of its own.
    """
    out = np.empty(stop - start, np.int64)
    shuffled(start, _stream(_ROW_STREAM, seed, epoch), size, _half_bits(size), out)

    return out


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
    order = np.empty(len(batches), np.int64)
    stream = _stream(_BATCH_STREAM, seed, epoch, window)
    shuffled(0, stream, len(batches), _half_bits(len(batches)), order)

    return [batches[b] for b in order]


def check_size(name: str, value: Any) -> None:
    """Refuse what cannot be a size.

    Raises:
        ValueError: Not an integer of at least 1.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name}: expected an integer of at least 1, got {value!r}")


def _shared_out(rows: RowNumbers, rank: int, world: int) -> RowNumbers:
    """Return a rank's share of the rows of a last step that has fewer batches than ranks.

    Shares differ by one row at most. Only where there are fewer rows than ranks do some ranks
    repeat a row: a rank without a batch would leave the others waiting in their gradient exchange
    for ever.
    """
    enough = np.resize(rows, max(len(rows), world))

    return np.array_split(enough, world)[rank]


def _half_bits(size: int) -> int:
    """Return half of the bits that number `size` rows, rounded up, as `shuffled` takes it."""
    return max(1, -(-(size - 1).bit_length() // 2))


def _stream(*names: int) -> np.uint64:
    """Return the stream of draws that these numbers name, each folded into the one before."""
    stream = np.uint64(0)
    for name in names:
        stream = np.uint64(fold(stream, name))

    return stream
