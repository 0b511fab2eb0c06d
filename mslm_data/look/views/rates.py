"""Strategies at each pair of the paper's rates, as heat maps whose cells are links."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mslm_data.data.examples import Examples
from mslm_data.look.corpus import Corpus
from mslm_data.look.counts import StrategyCounts, count_strategies
from mslm_data.look.jobs import Progress
from mslm_data.look.reading import read_chunks
from mslm_data.look.state import Choice, State
from mslm_data.mask.strategy import Strategy
from mslm_data.shard.split import Split
from mslm_data.stats.grid import SweepPoint, has_both_rates, sweep

TITLE = "Rates"
TEMPLATE = "rates.html"

_CHUNK = 4096
_LARGEST_GAIN = 0.2311
"""Maximum of `w_elm - 0.5` in Eq. 5: the softmax of 1 and 0, minus 0.5."""


def context(corpus: Corpus, state: State) -> dict[str, Any]:
    """Return the counts at each pair of rates, for each strategy that has both rates."""
    tables = [
        _table(corpus, state, place, counts)
        for place, counts in enumerate(count_strategies(corpus, state))
        if has_both_rates(counts.strategy)
    ]
    unfinished = [job for table in tables for job in table["jobs"] if job.result is None]
    return {"tables": tables, "job": unfinished[0] if unfinished else None}


def _table(corpus: Corpus, state: State, place: int, counts: StrategyCounts) -> dict[str, Any]:
    """Return the heat map of one strategy.

    Args:
        corpus: The folder.
        state: The state of the page.
        place: Place of the strategy among those of the state.
        counts: The strategy, and its counts at the current rates.
    """
    strategy = counts.strategy
    made_with: Mapping[str, Any] = {} if strategy.origin is None else strategy.origin.options
    current = made_with["elm"], made_with["blm"]

    choice = state.strategies[place]
    if choice.name in corpus.added and strategy.origin is not None:
        # An address cannot change the rates of a strategy from a file, so cells have the registered
        # strategy with the same options.
        name = strategy.origin.name
        choice = corpus.add(name.rpartition(".v")[0] or name, strategy)

    # The rates of the strategy are replaced by those of each cell.
    options = {
        option: text for option, text in choice.options.items() if option not in ("elm", "blm")
    }
    choice = Choice(choice.name, options)
    key = (state.split, choice.key, state.seed, state.epoch)
    split = corpus.shards[state.split]
    swept = corpus.jobs.get(
        f"rates-{place}", key, _sweeping(split, strategy, seed=state.seed, epoch=state.epoch)
    )
    points: list[SweepPoint] = swept.result or []

    return {
        "name": counts.name,
        "jobs": [counts.job, swept],
        "lines": _lines(points, state, place, current, choice),
        "clipped": sum(point.stats.weights.saturated for point in points),
        "current": current,
        "stats": counts.split,
    }


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
    points: list[SweepPoint],
    state: State,
    place: int,
    current: tuple[object, object],
    choice: Choice,
) -> list[list[dict[str, Any]]]:
    """Return the cells of the heat map, a list for each rate of ELM.

    Args:
        points: The counts at each pair of rates.
        state: The state of the page.
        place: Place of the strategy among those of the state.
        current: Its rates of ELM and BLM.
        choice: The strategy without its rates.
    """
    chosen = list(state.strategies)
    lines: dict[float, list[dict[str, Any]]] = {}
    for point in points:
        options = {**choice.options, "elm": f"{point.elm:g}", "blm": f"{point.blm:g}"}
        chosen[place] = Choice(choice.name, options)
        lines.setdefault(point.elm, []).append(
            {
                "point": point,
                "address": state.address(strategies=tuple(chosen)),
                "weight": (point.stats.weights.w_elm - 0.5) / _LARGEST_GAIN,
                "is_current": (point.elm, point.blm) == current,
            }
        )
    return list(lines.values())
