"""Counts what strategies mask, in the rows shown and in the whole split."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from mslm_data.data.examples import Examples
from mslm_data.look.corpus import Corpus
from mslm_data.look.jobs import Job, Progress
from mslm_data.look.state import State
from mslm_data.mask.plan import MaskPlan
from mslm_data.mask.strategy import Strategy
from mslm_data.shard.split import Split
from mslm_data.stats.counts import MaskStats
from mslm_data.stats.tally import Tally

_CHUNK = 16_384
_QUICK_ROWS = 50_000
"""Splits of fewer rows are waited for a moment, so that their counts come with the rows."""
_PATIENCE_S = 0.06


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of one strategy.

    Attributes:
        name: Its name on the page.
        strategy: The strategy.
        shown: Of the rows shown; None where none are.
        job: Of the split.
    """

    name: str
    strategy: Strategy
    shown: MaskStats | None
    job: Job

    @property
    def split(self) -> MaskStats | None:
        """The counts of the split; None until they are there."""
        stats: MaskStats | None = self.job.result
        return stats


def count_rows(examples: Examples, plan: MaskPlan, labels: tuple[str, ...]) -> MaskStats:
    """Return what one plan masks of some rows."""
    tally = Tally(labels, 1, words=False)
    tally.add(examples, [plan])
    return tally.stats()


def count_strategies(
    corpus: Corpus,
    state: State,
    shown: dict[str, MaskStats] | None = None,
    *,
    begin: bool = True,
) -> list[Counted]:
    """Return the counts of each strategy; those of the split are made in the background.

    Args:
        corpus: The folder.
        state: The split, the strategies, the seed and the epoch.
        shown: Name of each strategy -> its counts of the rows shown.
        begin: Whether counts of a large split may begin, which rows should not wait for.
    """
    split = corpus.shards[state.split]
    is_small = len(split) <= _QUICK_ROWS

    counted = []
    strategies = corpus.strategies(state.strategies)
    for place, (name, strategy) in enumerate(strategies.items()):
        key = (state.split, state.strategies[place].key, state.seed, state.epoch)
        job = corpus.jobs.get(
            f"counts-{place}",
            key,
            counting(split, strategy, seed=state.seed, epoch=state.epoch),
            patience=_PATIENCE_S if is_small else 0.0,
            begin=begin or is_small,
        )
        counted.append(Counted(name, strategy, (shown or {}).get(name), job))
    return counted


def counting(
    split: Split, strategy: Strategy, *, seed: int, epoch: int
) -> Callable[[Progress], MaskStats]:
    """Return a function that counts what a strategy masks of a split in one epoch."""

    def count(progress: Progress) -> MaskStats:
        own = Split(split.folder, split.name, split.manifest)
        tally = Tally(split.labels, 1, words=False)
        done = 0
        for examples, plan in _planned(own, strategy, seed=seed, epoch=epoch):
            progress(done, len(split))
            tally.add(examples, [plan])
            done += len(examples)
        return tally.stats()

    return count


def _planned(
    split: Split, strategy: Strategy, **of_plan: Any
) -> Iterator[tuple[Examples, MaskPlan]]:
    """Yield the rows of a split with their plans; the next ones are planned meanwhile."""
    firsts = [0, *itertools.accumulate(split.shard_rows)]

    def plan(start: int) -> tuple[Examples, MaskPlan]:
        # Shards behind are closed, so that no more than one or two are in memory.
        shard = bisect.bisect_right(firsts, start) - 1
        split.keep({shard, shard + 1})
        examples = split.examples(start, min(start + _CHUNK, len(split)))
        return examples, strategy.plan(examples, **of_plan)

    with ThreadPoolExecutor(1, "mslm-data-plan") as pool:
        ahead = None
        for start in range(0, len(split), _CHUNK):
            now, ahead = ahead, pool.submit(plan, start)
            if now is not None:
                yield now.result()
        if ahead is not None:
            yield ahead.result()
