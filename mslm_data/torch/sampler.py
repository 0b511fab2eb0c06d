"""Which rows each batch has: shuffled, in buckets of length, shared out to ranks, and resumable in mid-epoch.

The batches of an epoch are one sequence, a pure function of (rows, seed, epoch, batch size), and with one rank just
that of `md.Batches`. Of `world` ranks, rank r takes every `world`-th, beginning with batch r. So a place in the epoch
is a number of rows, whatever the workers and ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import Sampler

from mslm_data.batches.order import batches_of_window, rows_at
from mslm_data.loading import BATCHES_AT_ONCE
from mslm_data.mask.draws import check_count

Array = npt.NDArray[np.int64]


class Rows(list[int]):
    """The rows of a batch, with the epoch and the step of training that it is for: a list to any DataLoader.

    Attributes:
        epoch: Which pass over the data.
        step: Batches of this rank before, those of earlier epochs included.
    """

    epoch: int
    step: int

    @classmethod
    def of(cls, rows: Array, *, epoch: int, step: int) -> Rows:
        """Make one from an array `[B]`."""
        made = cls(rows.tolist())
        made.epoch, made.step = epoch, step
        return made


@dataclass(frozen=True, slots=True)
class Start:
    """Where in an epoch the batches begin.

    Attributes:
        place: Batches are cut from the order's rows from here on.
        batch: The first of these batches that is due.
        steps: Steps taken before.
    """

    place: int = 0
    batch: int = 0
    steps: int = 0


class ShardSampler(Sampler[Rows]):
    """A batch sampler: `DataLoader(dataset, batch_sampler=ShardSampler(dataset, ...), collate_fn=MaskingCollator())`.

    Every rank gives the same number of batches, so DDP never waits for one that has ended: where the last step has
    fewer batches than ranks, their rows are shared out evenly, and only if they are fewer than the ranks are some given
    twice.

    Iterating begins at the first batch, once after `load_state_dict` where that says. `set_epoch` also tells the
    dataset. With workers, DataLoader asks for batches ahead of training: take the state from `MaskedLoader`, or from
    torchdata's StatefulDataLoader, which count what training has seen.

    Leave `rank` and `world` alone where the trainer shards batches itself (Accelerate's `prepare`); two that shard lose
    rows without a word.

    Attributes:
        epoch: The present one.
        given: Batches since iterating began; a loader that prepares some ahead sets it to what training has seen.
    """

    def __init__(
        self,
        dataset: Sized,
        *,
        batch_size: int = 32,
        seed: int | None = None,
        epoch: int | None = None,
        shuffle: bool = True,
        bucketed: bool = False,
        drop_last: bool = False,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        """Say which.

        Args:
            dataset: Anything of some length; `bucketed` needs one with `lengths`, as `MaskedDataset` has.
            batch_size: Rows of each rank's batch.
            seed: Of the order; None is the dataset's, or 0.
            epoch: The first; None is the dataset's, or 0.
            shuffle: Whether rows come in an order of (seed, epoch), or as stored.
            bucketed: Whether rows of like length share a batch, among those of `BATCHES_AT_ONCE` batches.
            drop_last: Whether to leave out batches that are not full, and a last step that not all ranks have one for.
            rank: Which of the ranks this is.
            world: How many there are.

        Raises:
            ValueError: A number out of range, or buckets of rows without lengths.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size: expected at least 1, got {batch_size}")
        if not 0 <= rank < world:
            raise ValueError(f"rank: expected one of {world}, got {rank}")
        if bucketed and not hasattr(dataset, "lengths"):
            raise ValueError(
                "bucketed: expected a dataset with lengths, got one without; use a MaskedDataset"
            )
        seed = getattr(dataset, "seed", 0) if seed is None else seed
        epoch = getattr(dataset, "epoch", 0) if epoch is None else epoch
        check_count("seed", seed)
        check_count("epoch", epoch)
        self.dataset, self.batch_size, self.rank, self.world = dataset, batch_size, rank, world
        self.epoch, self.drop_last, self.given = epoch, drop_last, 0
        self._order: dict[str, Any] = {
            "rows": len(dataset),
            "seed": seed,
            "shuffle": shuffle,
            "bucketed": bucketed,
            "drop_last": drop_last,
        }
        self._now = Start()
        self._due: Start | None = None

    @property
    def sampler(self) -> ShardSampler:
        """Itself: where Lightning and Accelerate look for `set_epoch`."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Go to the first batch of an epoch; to the one that is, is nothing, so a resumed one goes on.

        Raises:
            ValueError: Not an epoch.
        """
        check_count("epoch", epoch)
        if epoch != self.epoch:
            self.epoch, self.given = epoch, 0
            self._now, self._due = Start(), None
        self._tell()

    def __len__(self) -> int:
        """Return the number of batches of this epoch, those before a resume included."""
        start = self._due or self._now
        return start.steps + self._steps(start)

    def __iter__(self) -> Iterator[Rows]:
        epoch = self.epoch
        return (Rows.of(rows, epoch=epoch, step=step) for rows, step in self.arrays())

    def arrays(self) -> Iterator[tuple[Array, int]]:
        """Iterate, and give each batch's rows as an array with its step: a list costs as much as reading the rows."""
        if self._due is None:
            self._now, self.given = Start(), 0
        return self._batches(self.epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return where iterating stands: small, plain, the same on all ranks, and good for any number of them."""
        start = self._due or self._now
        consumed = start.place + (start.batch + self.given * self.world) * self.batch_size
        return {
            "version": 1,
            **self._order,
            "batch_size": self.batch_size,
            "world": self.world,
            "epoch": self.epoch,
            "consumed": min(consumed, len(self.dataset)),
            "steps": start.steps + self.given,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken, also of another number of ranks, or, without buckets, of another batch size.

        Raises:
            ValueError: A state of other rows or options, which would repeat or lose rows.
        """
        if state.get("version") != 1:
            raise ValueError(f"state: expected version 1, got {state.get('version')}")
        bucketed = bool(self._order["bucketed"])
        for name, value in (
            self._order | ({"batch_size": self.batch_size} if bucketed else {})
        ).items():
            if state.get(name) != value:
                raise ValueError(
                    f"state: expected {name} = {value}, got {state.get(name)}; make the same order first"
                )
        for name in ("epoch", "consumed", "steps"):
            check_count(f"state: {name}", state.get(name))
        consumed = state["consumed"]
        if consumed > len(self.dataset):
            raise ValueError(
                f"state: expected consumed of at most {len(self.dataset)}, got {consumed}"
            )
        self.epoch, self.given = state["epoch"], 0
        batch = -(-consumed // self.batch_size)
        self._due = (
            Start(0, batch, state["steps"]) if bucketed else Start(consumed, 0, state["steps"])
        )
        self._tell()

    def _tell(self) -> None:
        """Tell the dataset the epoch, for whoever asks it for rows without saying."""
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(self.epoch)

    def _count(self, start: Start) -> int:
        """Return how many batches there are from where they are cut."""
        rows = len(self.dataset) - start.place
        return rows // self.batch_size if self.drop_last else -(-rows // self.batch_size)

    def _steps(self, start: Start) -> int:
        """Return how many batches each rank has left."""
        left = max(self._count(start) - start.batch, 0)
        return left // self.world if self.drop_last else -(-left // self.world)

    def _batches(self, epoch: int) -> Iterator[tuple[Array, int]]:
        self._now, self._due, self.given = (
            self._due or Start(),
            None,
            0,
        )  # only now: DataLoader may throw one away
        start = self._now
        first_step = epoch * self._steps(Start()) + start.steps
        window = lru_cache(maxsize=2)(lambda number: self._window(start.place, number, epoch))
        count = self._count(start)
        for given in range(self._steps(start)):
            first = start.batch + given * self.world
            numbers = range(first, min(first + self.world, count))
            if len(numbers) == self.world:
                numbers = numbers[self.rank : self.rank + 1]
            parts = [window(n // BATCHES_AT_ONCE)[n % BATCHES_AT_ONCE] for n in numbers]
            rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
            if first + self.world > count:
                rows = np.array_split(np.resize(rows, max(len(rows), self.world)), self.world)[
                    self.rank
                ]
            self.given = given + 1
            yield rows, first_step + given

    def _window(self, place: int, number: int, epoch: int) -> list[Array]:
        """Return the batches of one window, as rows."""
        size, seed, rows = self.batch_size, self._order["seed"], len(self.dataset)
        begin = place + number * BATCHES_AT_ONCE * size
        end = min(begin + BATCHES_AT_ONCE * size, rows)
        order = np.arange(begin, end)
        if self._order["shuffle"]:
            order = rows_at(begin, end, size=rows, seed=seed, epoch=epoch)
        if not self._order["bucketed"]:
            return [order[first : first + size] for first in range(0, len(order), size)]
        lengths = self.dataset.lengths(order)  # type: ignore[attr-defined]
        batches = [
            order[at]
            for at in batches_of_window(lengths, size, seed=seed, epoch=epoch, window=number)
        ]
        return [batch for batch in batches if len(batch) == size or not self.drop_last]
