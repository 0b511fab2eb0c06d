"""Draws what strategies hide as one HTML page.

The page needs nothing else: no script, style, font or image from elsewhere. It shows sentences and
words of the corpus. Equal input gives equal bytes, as it holds no time and no path.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from string import Template
from typing import Any

from mslm_data._version import __version__
from mslm_data.draw import look
from mslm_data.draw.parts import text
from mslm_data.draw.sentences import Sentences
from mslm_data.mask.strategy import Strategy
from mslm_data.stats.batch_counts import BatchStats
from mslm_data.stats.counts import MaskStats
from mslm_data.stats.grid import SweepPoint
from mslm_data.stats.of_mix import PartStats
from mslm_data.stats.realised import effective_rates
from mslm_data.stats.report import sections
from mslm_data.stats.weights import Scheme


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report:
    """Everything that the page shows.

    Attributes:
        corpus: Name of the corpus.
        split: Name of the split.
        seed: Seed of the masks.
        epochs: Number of epochs counted.
        strategies: Name -> strategy. The page is about the first; others stand beside it.
        stats: Name of each strategy -> its counts.
        sentences: The rows that are shown.
        schemes: Ways to weigh.
        points: The first strategy at all rates; empty if it has no such rates.
        words: The words that the first strategy masks most: text, how often each is masked, and how
            often it occurs.
        batches: Counts of the batches of training; None draws none.
        parts: Counts of each split, where the rows are a mix's.
    """

    corpus: str
    split: str
    seed: int
    epochs: int
    strategies: Mapping[str, Strategy]
    stats: Mapping[str, MaskStats]
    sentences: Sentences
    schemes: Sequence[Scheme]
    points: Sequence[SweepPoint]
    words: Sequence[tuple[str, int, int]]
    batches: BatchStats | None = None
    parts: Sequence[PartStats] = ()

    def html(self) -> str:
        """Return the page."""
        first = next(iter(self.strategies))
        stats = self.stats[first]
        shaded = self.sentences.heat(self.strategies[first], seed=self.seed)
        beside = self.sentences.side_by_side(self.strategies, seed=self.seed)
        drawn = [
            sections.summary(stats),
            sections.weights(stats, self.schemes),
            sections.heat(shaded, first),
            sections.side_by_side(beside, len(self.strategies)),
            sections.rates(
                {
                    name: effective_rates(strategy, self.stats[name])
                    for name, strategy in self.strategies.items()
                }
            ),
            sections.compared(self.stats),
            sections.budgets(self.stats),
            sections.sweep(self.points),
            sections.words(self.words, self.epochs),
            sections.labels(stats),
            sections.mix(self.parts),
            sections.batches(self.batches),
        ]

        options = [
            f"<li><b>{text(name)}</b> {text(said_options(strategy))}</li>"
            for name, strategy in self.strategies.items()
        ]
        epochs = "1 epoch" if self.epochs == 1 else f"{self.epochs} epochs"

        # The page's policy lets only a script with this digest run, so no text of a corpus can.
        script = _part("page.js")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

        return Template(_part("template.html")).substitute(
            title=text(f"What {first} hides in {self.corpus}, {self.split}"),
            asked=text(f"seed {self.seed}, {epochs}"),
            options="".join(options),
            sections="\n".join(drawn),
            about=text(f"mslm-data {__version__}; digest of all masks of {first}: {stats.digest}"),
            look=look(),
            script=script,
            script_hash=f"sha256-{digest}",
        )


def said_options(strategy: Strategy) -> str:
    """Return a strategy's options as people read them.

    Empty ones are left out. Of a path only its name stays, as folders are nobody else's business.
    """
    if strategy.origin is None:
        return "of your own"

    return ", ".join(
        f"{name} {_readable(value)}"
        for name, value in strategy.origin.options.items()
        if value not in (None, "", (), [])
    )


def _readable(value: Any) -> str:
    """Return a value without the quotes of JSON, and without the folders of paths."""
    if isinstance(value, str):
        is_path = re.search(r"[/\\]", value)
        return PurePosixPath(value.replace("\\", "/")).name if is_path else value

    if isinstance(value, float):
        return f"{value:g}"

    if isinstance(value, Mapping):
        items = [f"{name} {_readable(of)}" for name, of in value.items() if of is not None]
        return f"{{{', '.join(items)}}}"

    if isinstance(value, Sequence):
        return f"[{', '.join(map(_readable, value))}]"

    return json.dumps(value, default=str)


def _part(name: str) -> str:
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
