"""A strategy at each pair of the paper's rates, as a heat map whose cells are links."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from mslm_data.data.examples import Examples
from mslm_data.look.corpus import Corpus
from mslm_data.look.jobs import Progress
from mslm_data.look.reading import close_other_shards, reopen
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
    """Return the counts of the first strategy with both rates, at each pair of rates."""
    strategies = corpus.strategies(state.strategies)
    places = [place for place, one in enumerate(strategies.values()) if has_both_rates(one)]
    if not places:
        return {"name": None, "job": None, "lines": []}

    # The rates of the strategy are replaced by those of each cell.
    place = places[0]
    name, strategy = list(strategies.items())[place]
    options = {
        option: text
        for option, text in state.strategies[place].options.items()
        if option not in ("elm", "blm")
    }
    choice = Choice(state.strategies[place].name, options)
    job = corpus.jobs.get(
        "rates",
        (state.split, choice.key, state.seed, state.epoch),
        _sweeping(corpus.shards[state.split], strategy, seed=state.seed, epoch=state.epoch),
    )
    points: list[SweepPoint] | None = job.result
    return {
        "name": name,
        "job": None if points is not None else job,
        "lines": _lines(points or [], state, place, strategy, choice),
        "clipped": sum(point.weights.saturated for point in points or []),
    }


def _sweeping(
    split: Split, strategy: Strategy, *, seed: int, epoch: int
) -> Callable[[Progress], list[SweepPoint]]:
    """Return a job that counts one epoch of a split at all rates."""

    def count(progress: Progress) -> list[SweepPoint]:
        own = reopen(split)

        def chunks() -> Iterator[Examples]:
            done = 0
            for examples in own.chunks(_CHUNK):
                progress(done, len(own))
                yield examples
                close_other_shards(own, done, done + len(examples))
                done += len(examples)

        return sweep(chunks, strategy, seed=seed, first_epoch=epoch)

    return count


def _lines(
    points: list[SweepPoint], state: State, place: int, strategy: Strategy, choice: Choice
) -> list[list[dict[str, Any]]]:
    """Return the cells of the heat map, a list for each rate of ELM.

    Args:
        points: The counts at each pair of rates.
        state: The state of the page.
        place: Place of the strategy among those of the state.
        strategy: The strategy.
        choice: The strategy without its rates.
    """
    chosen = list(state.strategies)
    made_with = {} if strategy.origin is None else strategy.origin.options
    current = made_with.get("elm"), made_with.get("blm")

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
                "clips_below": None,
            }
        )
    for line in lines.values():
        line[0]["clips_below"] = _clips_below([cell["point"] for cell in line])
    return list(lines.values())


def _clips_below(points: list[SweepPoint]) -> float | None:
    """Return about the rate of BLM at which both clips of Eq. 3 cease to fire.

    Args:
        points: The points of one rate of ELM, by rising rate of BLM.

    Returns:
        The rate at which N_ELM = N_BLM, interpolated between two points; None if no two points
        enclose it.
    """
    for low, high in itertools.pairwise(points):
        if low.weights.saturated and not high.weights.saturated:
            lacking = low.whole.n_elm - low.whole.n_blm
            spare = high.whole.n_blm - high.whole.n_elm
            return low.blm + (high.blm - low.blm) * lacking / (lacking + spare)
    return None
