"""Counts masked tokens, in the rows on the page and in the whole split."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

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
"""Maximum number of rows of a split whose counts are waited for, so that they come with the rows.
"""
_PATIENCE_S = 0.06


@dataclass(frozen=True, slots=True)
class StrategyCounts:
    """The counts of one strategy.

    Attributes:
        name: Its name on the page.
        strategy: The strategy.
        shown: Counts of the rows on the page; None where a view shows no rows.
        job: Counts the split.
    """

    name: str
    strategy: Strategy
    shown: MaskStats | None
    job: Job

    @property
    def split(self) -> MaskStats | None:
        """Counts of the split; None until the job has ended."""
        stats: MaskStats | None = self.job.result
        return stats


def count_rows(examples: Examples, plan: MaskPlan, labels: tuple[str, ...]) -> MaskStats:
    """Count the masked tokens of some rows."""
    tally = Tally(labels, 1, words=False)
    tally.add(examples, [plan])
    return tally.stats()


def count_strategies(
    corpus: Corpus,
    state: State,
    shown: Mapping[str, MaskStats] | None = None,
    *,
    begin: bool = True,
) -> list[StrategyCounts]:
    """Return the counts of each strategy; the split is counted in the background.

    Args:
        corpus: The folder.
        state: Split, strategies, seed and epoch.
        shown: Name of each strategy -> counts of the rows on the page.
        begin: Start to count a large split. False while rows are drawn, which would be slowed
            down.
    """
    split = corpus.shards[state.split]
    is_small = len(split) <= _QUICK_ROWS

    counts = []
    strategies = corpus.strategies(state.strategies)
    for place, (name, strategy) in enumerate(strategies.items()):
        job = corpus.jobs.get(
            f"counts-{place}",
            (state.split, state.strategies[place].key, state.seed, state.epoch),
            counting(split, strategy, seed=state.seed, epoch=state.epoch),
            patience=_PATIENCE_S if is_small else 0.0,
            begin=begin or is_small,
        )
        counts.append(StrategyCounts(name, strategy, (shown or {}).get(name), job))
    return counts


def counting(
    split: Split, strategy: Strategy, *, seed: int, epoch: int
) -> Callable[[Progress], MaskStats]:
    """Return a job that counts the masked tokens of a split in one epoch."""

    def count(progress: Progress) -> MaskStats:
        tally = Tally(split.labels, 1, words=False)
        done = 0
        for examples, plan in _plan_chunks(split, strategy, seed=seed, epoch=epoch):
            progress(done, len(split))
            tally.add(examples, [plan])
            done += len(examples)
        return tally.stats()

    return count


def _plan_chunks(
    split: Split, strategy: Strategy, *, seed: int, epoch: int
) -> Iterator[tuple[Examples, MaskPlan]]:
    """Yield the rows of a split in chunks, with their plans."""

    def plan(start: int) -> tuple[Examples, MaskPlan]:
        stop = min(start + _CHUNK, len(split))
        examples = split.examples(start, stop)
        return examples, strategy.plan(examples, seed=seed, epoch=epoch)

    # A second thread plans the next chunk while the caller counts this one.
    with ThreadPoolExecutor(1, "mslm-data-plan") as pool:
        ahead = None
        for start in range(0, len(split), _CHUNK):
            current, ahead = ahead, pool.submit(plan, start)
            if current is not None:
                yield current.result()
        if ahead is not None:
            yield ahead.result()
