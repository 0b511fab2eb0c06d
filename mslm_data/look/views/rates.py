"""What the first strategy masks at all the paper's rates, as a heat map whose cells are links."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mslm_data.data.examples import Examples
from mslm_data.look.corpus import Corpus
from mslm_data.look.jobs import Progress
from mslm_data.look.state import Choice, State
from mslm_data.mask.strategy import Strategy
from mslm_data.shard.split import Split
from mslm_data.stats.grid import SweepPoint, has_both_rates, sweep

TITLE = "Rates"
TEMPLATE = "rates.html"

_LARGEST_GAIN = 0.2311
"""The most by which `w_elm` of Eq. 5 exceeds 0.5: the softmax of 1 and 0, less 0.5."""


def context(corpus: Corpus, state: State) -> dict[str, Any]:
    """Return the first strategy with both rates at each pair of the paper's rates."""
    strategies = corpus.strategies(state.strategies)
    swept = [place for place, one in enumerate(strategies.values()) if has_both_rates(one)]
    if not swept:
        return {"name": None, "job": None, "lines": []}

    place = swept[0]
    name, strategy = list(strategies.items())[place]
    options = {
        option: text
        for option, text in state.strategies[place].options.items()
        if option not in ("elm", "blm")
    }
    choice = Choice(state.strategies[place].name, options)
    job = corpus.jobs.get(
        "rates",
        (state.split, choice.key, state.seed),
        _sweeping(corpus.shards[state.split], strategy, seed=state.seed),
    )
    points: list[SweepPoint] | None = job.result
    return {
        "name": name,
        "job": None if points is not None else job,
        "lines": _lines(points or [], state, place, choice),
        "clipped": sum(point.weights.saturated for point in points or []),
    }


def _sweeping(
    split: Split, strategy: Strategy, *, seed: int
) -> Callable[[Progress], list[SweepPoint]]:
    """Return a function that counts a split at all rates."""

    def count(progress: Progress) -> list[SweepPoint]:
        def chunks() -> Iterator[Examples]:
            done = 0
            for examples in split.chunks(4096):
                progress(done, len(split))
                yield examples
                done += len(examples)

        return sweep(chunks, strategy, seed=seed)

    return count


def _lines(
    points: list[SweepPoint], state: State, place: int, choice: Choice
) -> list[list[dict[str, Any]]]:
    """Return the cells of the grid, a line for each rate of ELM."""
    most = max((point.rate(point.whole) for point in points), default=0) or 1
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
                "share": point.rate(point.whole) / most,
            }
        )
    return list(lines.values())
