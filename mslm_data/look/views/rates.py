"""Strategies at each pair of the paper's rates, as heat maps whose cells are links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from mslm_data.data.examples import Examples
from mslm_data.look.corpus import Corpus
from mslm_data.look.counts import StrategyCounts, count_strategies
from mslm_data.look.jobs import Job, Progress
from mslm_data.look.reading import read_chunks
from mslm_data.look.state import Choice, State
from mslm_data.mask.strategy import Strategy
from mslm_data.shard.split import Split
from mslm_data.stats.grid import SweepPoint, clip_brackets, find_clip_limits, has_both_rates, sweep

TITLE = "Rates"
TEMPLATE = "rates.html"

_CHUNK = 4096
_LARGEST_GAIN = 0.2311
"""Maximum of `w_elm - 0.5` in Eq. 5: the softmax of 1 and 0, minus 0.5."""
_BISECTION_STEPS = 8
"""Number of steps between two of the paper's rates of BLM, for the progress of a job."""
_MAX_ROWS = 1_000_000
"""Maximum number of rows of a split whose limits are counted."""
_PATIENCE_S = 0.3

Limits = Mapping[float, float]


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

    # The map is shown before the limits, which take twice as long. Two minutes for ten million rows
    # would hold up the counts of other rates, so brackets are enough there.
    brackets = clip_brackets(points)
    limiting: Job | None = None
    if brackets and len(split) <= _MAX_ROWS:
        limiting = corpus.jobs.get(
            f"limits-{place}",
            key,
            _limiting(split, strategy, points, seed=state.seed, epoch=state.epoch),
            patience=_PATIENCE_S,
        )
    limits: Limits | None = None if limiting is None else limiting.result
    ceases = {elm: high for elm, (_, high) in brackets.items()} if limits is None else limits
    return {
        "name": counts.name,
        "jobs": [job for job in (counts.job, swept, limiting) if job is not None],
        "lines": _lines(points, state, place, current, choice),
        "clipped": sum(point.weights.saturated for point in points),
        "brackets": brackets,
        "limits": limits or {},
        "advice": _advice(points, ceases),
        "current": current,
        "stats": counts.split,
    }


def _sweeping(
    split: Split, strategy: Strategy, *, seed: int, epoch: int
) -> Callable[[Progress], list[SweepPoint]]:
    """Return a job that counts one epoch of a split at all rates."""

    def count(progress: Progress) -> list[SweepPoint]:
        chunks = _chunks(split, 1, progress)
        return sweep(chunks, strategy, seed=seed, first_epoch=epoch)

    return count


def _limiting(
    split: Split, strategy: Strategy, points: list[SweepPoint], *, seed: int, epoch: int
) -> Callable[[Progress], Limits]:
    """Return a job that finds the rates at which both clips cease to fire in a split."""

    def find(progress: Progress) -> Limits:
        chunks = _chunks(split, _BISECTION_STEPS, progress)
        return find_clip_limits(chunks, strategy, points, seed=seed, epoch=epoch)

    return find


def _chunks(split: Split, passes: int, progress: Progress) -> Callable[[], Iterable[Examples]]:
    """Return a function that reads a split in chunks, and reports the progress of all passes."""
    done = 0

    def chunks() -> Iterator[Examples]:
        nonlocal done
        for _, examples in read_chunks(split, _CHUNK):
            progress(done, passes * len(split))
            yield examples
            done += len(examples)

    return chunks


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
                "weight": (point.weights.w_elm - 0.5) / _LARGEST_GAIN,
                "rate": point.rate(point.whole),
                "is_current": (point.elm, point.blm) == current,
            }
        )
    return list(lines.values())


def _advice(points: list[SweepPoint], limits: Limits) -> str:
    """Return a sentence on the rates at which both clips do not fire; "" if they fire nowhere.

    Args:
        points: The points of the sweep.
        limits: Rate of ELM -> rate of BLM from which they do not fire.
    """
    if not any(point.weights.saturated for point in points):
        return ""
    if all(point.weights.saturated for point in points):
        return "They fire at every pair of this table: lower ELM or raise BLM further than it does."

    # At the highest rate of BLM, they may still fire at some rates of ELM.
    last = max(point.blm for point in points)
    never = [point.elm for point in points if point.blm == last and point.weights.saturated]
    elms = {point.elm for point in points}
    if not never:
        return f"At every ELM of this table they cease from BLM {max(limits.values()):g}."
    sometimes = sorted(elms - set(never))
    where = " and ".join(f"{elm:g}" for elm in sometimes)
    ceases = max((limits[elm] for elm in sometimes if elm in limits), default=0.0)
    return (
        f"At ELM {where} they cease from BLM {ceases:g}; at ELM "
        f"{' and '.join(f'{elm:g}' for elm in never)} they fire at every BLM of this table."
    )
