"""Strategies at each pair of the paper's rates, as tables whose cells are links."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mslm_data.data.examples import Examples
from mslm_data.look.background import Job, Progress
from mslm_data.look.corpus import Corpus, NamedStrategy
from mslm_data.look.reading import read_chunks
from mslm_data.look.state import Choice, State
from mslm_data.mask.strategy import Strategy
from mslm_data.shard.split import Split
from mslm_data.stats.grid import SweepPoint, has_both_rates, sweep

TITLE = "Rates"
TEMPLATE = "rates.html"

_CHUNK = 4096


def context(corpus: Corpus, state: State) -> dict[str, Any]:
    """Return the counts at each pair of rates, for each strategy that has both rates."""
    jobs: list[Job] = []
    tables = []
    for made in corpus.strategies(state.strategies):
        if not has_both_rates(made.strategy):
            continue
        # The rates of the strategy are replaced by those of each cell.
        choice = _registered(corpus, made).without("elm", "blm")
        job = corpus.background.get(
            f"rates-{made.place}",
            (state.split, choice.key, state.seed, state.epoch),
            _sweeping(
                corpus.shards[state.split], made.strategy, seed=state.seed, epoch=state.epoch
            ),
        )
        jobs.append(job)
        lines = _lines(job.result or [], state, made, choice)
        tables.append({"name": made.name, "lines": lines})

    unfinished = [job for job in jobs if job.result is None]
    return {"tables": tables, "job": unfinished[0] if unfinished else None}


def _registered(corpus: Corpus, made: NamedStrategy) -> Choice:
    """Return the choice of a strategy whose rates an address can set.

    It cannot set those of a strategy from a file; the registered one with the same options has the
    same masks.
    """
    origin = made.strategy.origin
    if made.choice.name not in corpus.added or origin is None:
        return made.choice
    return corpus.add(origin.name.rpartition(".v")[0] or origin.name, made.strategy)


def _sweeping(
    split: Split, strategy: Strategy, *, seed: int, epoch: int
) -> Callable[[Progress], list[SweepPoint]]:
    """Return a job that counts one epoch of a split at all rates."""

    def count(progress: Progress) -> list[SweepPoint]:
        def chunks() -> Iterator[Examples]:
            for start, examples in read_chunks(split, _CHUNK):
                progress(start, len(split))
                yield examples

        return sweep(chunks, strategy, labels=split.labels, seed=seed, first_epoch=epoch)

    return count


def _lines(
    points: list[SweepPoint], state: State, made: NamedStrategy, choice: Choice
) -> list[list[dict[str, Any]]]:
    """Return the cells of the table, a list for each rate of ELM.

    Args:
        points: The counts at each pair of rates.
        state: The state of the page.
        made: The strategy on the page.
        choice: The strategy without its rates.
    """
    origin = made.strategy.origin
    current = () if origin is None else (origin.options["elm"], origin.options["blm"])
    chosen = list(state.strategies)
    lines: dict[float, list[dict[str, Any]]] = {}
    for point in points:
        options = {**choice.options, "elm": f"{point.elm:g}", "blm": f"{point.blm:g}"}
        chosen[made.place] = Choice(choice.name, options)
        lines.setdefault(point.elm, []).append(
            {
                "point": point,
                "address": state.address(strategies=tuple(chosen)),
                "is_current": (point.elm, point.blm) == current,
            }
        )
    return list(lines.values())
