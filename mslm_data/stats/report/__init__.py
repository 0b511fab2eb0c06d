"""What strategies hide as one HTML file that needs nothing else: no script, style, font or image from elsewhere.

It shows sentences and words of the corpus. Equal input is equal bytes: there is no time and no path in it.
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
from mslm_data.mask.strategy import Strategy
from mslm_data.stats.counts import MaskStats
from mslm_data.stats.grid import SweepPoint
from mslm_data.stats.report import sections
from mslm_data.stats.report.charts import text
from mslm_data.stats.report.sentences import Sentences, choose_rows
from mslm_data.stats.weights import Scheme

__all__ = ["Report", "Sentences", "choose_rows"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report:
    """All that the page shows.

    Attributes:
        corpus: Its name.
        split: Of the rows.
        seed: Of the masks.
        epochs: That were counted.
        strategies: Name -> strategy; the first is the one that the page is about, others stand beside it.
        stats: What each hides, by the same names.
        sentences: The rows that are shown.
        schemes: Ways to weigh.
        points: The first strategy at all rates; empty where it has none.
        words: The words that it masks most, as text, with how often each is masked and stands there.
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

    def html(self) -> str:
        """Return the page."""
        first = next(iter(self.strategies))
        stats = self.stats[first]
        drawn = [
            sections.summary(stats),
            sections.weights(stats, self.schemes),
            sections.heat(self.sentences.heat(self.strategies[first], seed=self.seed), first),
            sections.side_by_side(
                self.sentences.side_by_side(self.strategies, seed=self.seed), len(self.strategies)
            ),
            sections.compared(self.stats),
            sections.budgets(self.stats),
            sections.sweep(self.points),
            sections.words(self.words, self.epochs),
            sections.labels(stats),
        ]
        script = _part("page.js")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        options = [
            f"<li><b>{text(name)}</b> {text(said_options(way))}</li>"
            for name, way in self.strategies.items()
        ]
        return Template(_part("template.html")).substitute(
            title=text(f"What {first} hides in {self.corpus}, {self.split}"),
            asked=text(f"seed {self.seed}, {self.epochs} epoch{'s' if self.epochs > 1 else ''}"),
            options="".join(options),
            sections="\n".join(drawn),
            about=text(f"mslm-data {__version__}; digest of all masks of {first}: {stats.digest}"),
            script=script,
            script_hash=f"sha256-{digest}",
        )


def said_options(strategy: Strategy) -> str:
    """Return a strategy's options as people read them; of a file only its name, and none that are empty."""
    if strategy.origin is None:
        return "picks of your own"
    options = strategy.origin.options.items()
    return ", ".join(
        f"{name} {_plain(value)}" for name, value in options if value not in (None, "", (), [])
    )


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return (
            PurePosixPath(re.sub(r"\\", "/", value)).name if re.search(r"[/\\]", value) else value
        )
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(f"{name} {_plain(of)}" for name, of in value.items() if of is not None)
            + "}"
        )
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(_plain, value)) + "]"
    return json.dumps(value, default=str)


def _part(name: str) -> str:
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
