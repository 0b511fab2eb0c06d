"""Walk through the batches of epochs, on one rank of several, and resume.

Batches are dealt to the ranks in turn: rank `r` gets batch `s * world + r` in step `s` of a block.
In the last step of a block the remaining rows are shared among all ranks, so every rank takes the
same number of steps. The batches themselves are those of `epoch_plan.plan_epoch`.

A position in training is a number of batches of an epoch. It depends neither on workers nor on
ranks, so a state can be resumed with another number of them. `Cursor` saves and loads states.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sized
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.batches.batch_options import BatchOptions, RowNumbers
from mslm_data.batches.blocks import block_bounds, block_rows, find_parts
from mslm_data.batches.epoch_plan import EpochPlan, plan_epoch, window_rows
from mslm_data.log import LOGGER
from mslm_data.mask.rng import check_count, make_stream
from mslm_data.shard.read import Shard
from mslm_data.shard.remote import RemoteFolder, bring, fetch_ahead

STATE_VERSION = 1
"""Version of the states of `Cursor`."""


class Position(NamedTuple):
    """A position in training, between two steps.

    Epochs by tokens differ in their number of batches, and the number of ranks may change on
    resume, so steps and tokens do not follow from the epoch.

    Attributes:
        epoch: Epoch number, from 0.
        block: Number of blocks of this epoch before it. At the end of the epoch, all of them.
        batch: Number of batches of this block before it, over all ranks.
        step: Number of steps before it, over all epochs. None at the start of an epoch that was
            set: then earlier epochs count as many steps and tokens as this one.
        tokens: Number of tokens before it, over all epochs and ranks.
    """

    epoch: int
    block: int = 0
    batch: int = 0
    step: int | None = None
    tokens: int = 0


class Step(NamedTuple):
    """A batch of one rank.

    Attributes:
        rows: `[R]`, the rows of the batch.
        rounds: uint32 `[R]`, how often the epoch has used each row before; None if no row is
            repeated.
        number: Number of the training step, counted over all epochs from 0.
        tokens: Number of tokens before this step, over all epochs and ranks.
        after: The position after this step.
    """

    rows: RowNumbers
    rounds: npt.NDArray[np.uint32] | None
    number: int
    tokens: int
    after: Position


class EpochOrder:
    """The batches of every epoch, a pure function of rows, options, epoch and ranks.

    Attributes:
        rows: The rows; see `plan_epoch`.
        options: Size and form of the batches, and the seed.
    """

    def __init__(self, rows: Sized, options: BatchOptions) -> None:
        """Create the order. No row is read."""
        self.rows: Any = rows
        self.options = options
        self._parts = find_parts(rows)
        self._splits = getattr(rows, "splits", ())
        self._is_remote = any(isinstance(part.source.place, RemoteFolder) for part in self._splits)
        self._plan: tuple[tuple[int, int], EpochPlan] | None = None
        """Epoch and block of the last plan, and the plan."""

    def bounds(self, epoch: int) -> list[int]:
        """Return the first position of each block of an epoch, and the number of its rows."""
        window = window_rows(self.rows, self.options)
        return block_bounds(self._parts, self.options, epoch=epoch, window=window)

    def plan(self, epoch: int, block: int = 0) -> EpochPlan:
        """Return the plan of a block; see `plan_epoch`. The last plan is kept."""
        if self._plan is None or self._plan[0] != (epoch, block):
            self._plan = None  # frees its memory before the next plan is made
            if self._is_remote:
                bring(self._shards(epoch, block))
            self._plan = (epoch, block), plan_epoch(self.rows, self.options, epoch, block=block)
        return self._plan[1]

    def steps(self, epoch: int, world: int = 1) -> int:
        """Return the number of steps of an epoch, equal for all ranks.

        For batches by tokens this reads the lengths of all rows; with `shuffle="shards"`, it is an
        estimate from the number of tokens.
        """
        options = self.options
        bounds = self.bounds(epoch)

        def divide(counts: npt.NDArray[np.int64], by: int) -> npt.NDArray[np.int64]:
            return counts // by if options.drop_last else -(-counts // by)

        if options.batch_size is not None:
            batches = divide(np.diff(bounds), options.batch_size)
        elif options.shuffle == "shards":
            batches = np.array([-(-self.rows.tokens // (options.batch_tokens or 1))])
        else:
            counts = [self.plan(epoch, block).num_batches for block in range(len(bounds) - 1)]
            batches = np.array(counts, np.int64)

        return int(divide(batches, world).sum())

    def batches(self, start: Position, *, rank: int = 0, world: int = 1) -> Iterator[Step]:
        """Yield the batches of one rank from `start` to the end of the epoch.

        The next block is downloaded meanwhile, if it is remote.

        Args:
            start: Position of the first batch; its `step` is not None.
            rank: The rank, in `[0, world)`. Default: 0.
            world: Number of ranks. Default: 1.

        Raises:
            ValueError: A row is longer than `batch_tokens`.
        """
        before = start
        first = start.batch
        bounds = self.bounds(start.epoch)
        download = None
        try:
            for block in range(start.block, len(bounds) - 1):
                plan = self.plan(start.epoch, block)
                if self._is_remote and block + 2 < len(bounds):
                    download = fetch_ahead(self._shards(start.epoch, block + 1))

                stop = plan.num_batches
                if self.options.drop_last:
                    stop -= (stop - first) % world
                firsts = np.arange(first, stop, world)
                step_tokens = np.add.reduceat(plan.tokens[:stop], firsts, dtype=np.int64)
                for batch, tokens in zip(firsts.tolist(), step_tokens.tolist(), strict=True):
                    past = min(batch + world, stop)
                    place = (block, past) if past < stop else (block + 1, 0)
                    number = before.step or 0
                    after = Position(start.epoch, *place, number + 1, before.tokens + tokens)

                    places = self._places(plan, range(batch, past), rank, world)
                    rounds = None if plan.rounds is None else plan.rounds[places]
                    yield Step(plan.rows[places], rounds, number, before.tokens, after)
                    before = after
                first = 0
                del plan
        finally:
            if download is not None:
                download.cancel()

    def describe(self) -> dict[str, Any]:
        """Return the settings that determine the meaning of a position, for JSON."""
        described = {
            "rows": len(self.rows),
            "tokens": self.rows.tokens,
            "digest": getattr(self.rows, "digest", None),
            **asdict(self.options),
        }
        if self.options.shuffle == "shards":
            shards = [rows for part in self._parts for rows in part.shard_rows]
            described["shards"] = f"{len(shards)}, {int(make_stream(*shards)):016x}"
        if described["digest"] is None:
            described["mix"] = [part.described for part in self._splits]
        return described

    def _places(
        self, plan: EpochPlan, batches: range, rank: int, world: int
    ) -> slice | npt.NDArray[np.int64]:
        """Return the places of a rank's rows in a plan, for the batches of a step."""
        bounds = plan.bounds[batches.start : batches.stop + 1]
        if len(batches) == world:
            return slice(bounds[rank], bounds[rank + 1])

        shares = _share(np.diff(bounds), world, by_tokens=self.options.is_by_tokens)
        return shares[rank] + int(bounds[0])

    def _shards(self, epoch: int, block: int) -> list[Shard]:
        """Return the shards of a block."""
        start, stop = self.bounds(epoch)[block : block + 2]
        numbers, _ = block_rows(self._parts, self.options, epoch=epoch, start=start, stop=stop)
        shards: list[Shard] = self.rows.shards(numbers)
        return shards


def _share(
    sizes: npt.NDArray[np.int64], world: int, *, by_tokens: bool
) -> list[npt.NDArray[np.int64]]:
    """Share the rows of a last step with fewer batches than ranks.

    Args:
        sizes: int64 `[B]`, number of rows of each batch.
        world: Number of ranks, more than there are batches.
        by_tokens: Whether batches have a maximum number of tokens. Then none is enlarged: the
            largest batch is halved until each rank has one. Otherwise, shares differ by at most one
            row.

    Returns:
        Indices into the rows of all batches, an array per rank.
    """
    # With fewer rows than ranks, rows are repeated: a rank without a batch would never join the
    # gradient exchange, and the others would wait for it forever.
    rows = np.arange(sizes.sum())
    if not by_tokens:
        return np.array_split(np.resize(rows, max(len(rows), world)), world)

    shares = np.split(rows, np.cumsum(sizes)[:-1])
    while len(shares) < world:
        largest = max(range(len(shares)), key=lambda number: len(shares[number]))
        share = shares[largest]
        if len(share) == 1:
            shares.append(share)
        else:
            shares[largest : largest + 1] = np.split(share, [len(share) // 2])
    return shares


class Cursor:
    """The position of a pass over an `EpochOrder`, and its states.

    A state is a small dict of JSON values, equal on all ranks. It can be resumed with another
    number of ranks or workers. States of `md.Batches` and of the torch loader are interchangeable.

    Attributes:
        order: The order of the batches.
        world: Number of ranks of the current pass.
    """

    def __init__(self, order: EpochOrder, epoch: int = 0) -> None:
        """Start at the first batch of `epoch`.

        Raises:
            ValueError: `epoch` is not in `[0, 2**63)`.
        """
        check_count("epoch", epoch)
        self.order = order
        self.world = 1
        self._first = _start_of(epoch)
        """The start of the epoch."""
        self._position = self._first
        """The position after the last counted batch."""
        self._is_resumed = False
        """Whether a state was loaded, and no pass begun since."""
        self._is_epoch_set = False
        """Whether the epoch of a loaded state was set since."""
        self._is_exhausted = False
        """Whether all steps of the current pass have been yielded."""
        self._uncounted: deque[Position] = deque()
        """Positions after the steps that have been yielded but not counted."""

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self._position.epoch

    def set_epoch(self, epoch: int) -> None:
        """Move to the first batch of `epoch`; within the current epoch, do nothing.

        So a trainer that sets the epoch after a resume does not lose the position. After a resume
        at the end of an epoch, a pass over this epoch is empty.

        Raises:
            ValueError: `epoch` is not in `[0, 2**63)`.
        """
        check_count("epoch", epoch)
        if self._is_resumed and epoch == self.epoch:
            self._is_epoch_set = True
        elif epoch != self.epoch or self._is_over:
            self._enter(epoch)

    def rewind(self) -> None:
        """Move to the first batch of the epoch, or of the next one after a complete pass.

        Does nothing after `load_state_dict`. To be called when an iterator is made.
        """
        if not self._is_resumed:
            self._enter(self.epoch + self._is_over)

    def begin(self, *, rank: int = 0, world: int = 1) -> Iterator[Step]:
        """Start a pass at a loaded state, otherwise as `rewind`; call `count` for each batch.

        To be called when the first batch is requested, not when an iterator is made: DataLoader
        makes iterators that it never uses.

        Args:
            rank: The rank, in `[0, world)`. Default: 0.
            world: Number of ranks. Default: 1.
        """
        self.rewind()
        self.world = world
        steps = self._steps_from_here(rank, world)
        step = next(steps, None)

        # A state of the end of an epoch: begin the next one.
        is_begun = self._position.block > 0 or self._position.batch > 0
        if step is None and is_begun and self._is_resumed and not self._is_epoch_set:
            self._enter(self.epoch + 1)
            steps = self._steps_from_here(rank, world)
            step = next(steps, None)

        self._is_resumed = False
        return self._record_positions(step, steps)

    def count(self) -> None:
        """Move past the oldest batch that has been yielded but not counted."""
        if self._uncounted:  # empty if a newer pass has replaced the caller's
            self._position = self._uncounted.popleft()

    def steps(self, world: int | None = None) -> int:
        """Return the number of steps of this epoch, including those before a resume."""
        return self.order.steps(self.epoch, self.world if world is None else world)

    def state_dict(self) -> dict[str, Any]:
        """Return the position as a dict, for `load_state_dict`."""
        return {
            "version": STATE_VERSION,
            **self._position._asdict(),
            "options": self.order.describe(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume at a state. The number of ranks may differ.

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
        saved = state.get("options")
        if not isinstance(saved, Mapping):
            raise ValueError(f"state: expected options, got {saved!r}; pass a state_dict() whole")
        expected = self.order.describe()
        for name in {**expected, **saved}:
            if saved.get(name) != expected.get(name):
                raise ValueError(
                    f"state: expected {name} = {expected.get(name)}, got {saved.get(name)!r}; load "
                    "the same split and pass the options that the state was saved with"
                )

        # The position itself.
        position = Position(*(state.get(name) for name in Position._fields))  # type: ignore[arg-type]
        for name, value in position._asdict().items():
            if name != "step" or value is not None:
                check_count(f"state: {name}", value)
        rows = len(self.order.rows)
        if position.batch > rows or position.block >= len(self.order.bounds(position.epoch)):
            raise ValueError(
                f"state: expected at most {rows} batches, got block {position.block} and batch "
                f"{position.batch}; load the same split"
            )

        self._first = _start_of(position.epoch)
        self._move_to(position)
        self._is_resumed = True
        LOGGER.info(
            "resuming epoch %d after %d batches of block %d, %s steps in all",
            *(position.epoch, position.batch, position.block, position.step),
        )

    @property
    def _is_over(self) -> bool:
        """Whether the current pass has no batch left."""
        blocks = len(self.order.bounds(self.epoch)) - 1
        return self._is_exhausted or 0 < blocks == self._position.block

    def _enter(self, epoch: int) -> None:
        """Move to the first batch of an epoch."""
        given = self._position
        if epoch == self._first.epoch:
            start = self._first
        elif epoch == given.epoch + 1 and (given.block or given.batch):
            # Training goes on: steps and tokens are counted on.
            start = Position(epoch, step=given.step, tokens=given.tokens)
        else:
            start = _start_of(epoch)

        self._first = start
        self._move_to(start)

    def _move_to(self, position: Position) -> None:
        self._position = position
        self._is_resumed = False
        self._is_epoch_set = False
        self._is_exhausted = False
        self._uncounted = deque()

    def _steps_from_here(self, rank: int, world: int) -> Iterator[Step]:
        start = self._position
        if start.step is None:
            # The steps before are unknown: count earlier epochs as long as this one.
            step = start.epoch * self.order.steps(start.epoch, world)
            tokens = start.epoch * self.order.rows.tokens
            self._position = self._first = start._replace(step=step, tokens=tokens)
        return self.order.batches(self._position, rank=rank, world=world)

    def _record_positions(self, step: Step | None, steps: Iterator[Step]) -> Iterator[Step]:
        """Yield steps, and record the position after each."""
        uncounted = self._uncounted
        while step is not None:
            uncounted.append(step.after)
            yield step
            step = next(steps, None)

        if uncounted is self._uncounted:  # otherwise a newer pass has started
            self._is_exhausted = True


def _start_of(epoch: int) -> Position:
    """Return the start of an epoch that does not follow another one."""
    return Position(epoch, step=None if epoch else 0)
