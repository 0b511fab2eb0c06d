"""Counts masked tokens, in the rows on the page and in the whole split."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mslm_data.data.examples import Examples
from mslm_data.look.background import Job, Progress
from mslm_data.look.corpus import Corpus
from mslm_data.look.reading import read_chunks
from mslm_data.look.state import State
from mslm_data.mask.plan import MaskPlan
from mslm_data.mask.strategy import Strategy
from mslm_data.shard.split import Split
from mslm_data.stats.counts import MaskStats
from mslm_data.stats.tally import Tally


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
    corpus: Corpus, state: State, shown: Mapping[str, MaskStats] | None = None
) -> list[StrategyCounts]:
    """Return the counts of each strategy; the split is counted in the background.

    Args:
        corpus: The folder.
        state: Split, strategies, seed and epoch.
        shown: Name of each strategy -> counts of the rows on the page.
    """
    split = corpus.shards[state.split]
    counts = []
    for made in corpus.strategies(state.strategies):
        job = corpus.background.get(
            f"counts-{made.place}",
            (state.split, made.choice.key, state.seed, state.epoch),
            counting(split, made.strategy, seed=state.seed, epoch=state.epoch),
        )
        counts.append(StrategyCounts(made.name, made.strategy, (shown or {}).get(made.name), job))
    return counts


def counting(
    split: Split, strategy: Strategy, *, seed: int, epoch: int
) -> Callable[[Progress], MaskStats]:
    """Return a job that counts the masked tokens of a split in one epoch."""

    def count(progress: Progress) -> MaskStats:
        tally = Tally(split.labels, 1, words=False)
        for start, examples in read_chunks(split):
            progress(start, len(split))
            tally.add(examples, [strategy.plan(examples, seed=seed, epoch=epoch)])
        return tally.stats()

    return count
