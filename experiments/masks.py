"""The compared strategies, at rates that mask as many tokens as the paper's headline rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from experiments.corpora import command
from mslm_data.api.loading import Shards
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.mask.plan import MaskPlan
from mslm_data.mask.rng import RowRng
from mslm_data.mask.strategy import Strategy
from mslm_data.stats import MaskStats, mask_stats

HEADLINE: dict[str, Any] = {"elm": 1.0, "blm": 0.075}
"""Rates of ELM and BLM in the paper's main results."""
RATES = ((0.25, 0.15), (0.5, 0.075), (0.5, 0.15), (1.0, 0.15))
"""Other rates of ELM and BLM. At the first pair, the two weights of Eq. 5 differ."""
_WITH_LEXICONS = ("pmi", "difference", "mst", "attention-high")
_TRIES = 6

Ints = npt.NDArray[np.integer[Any]]
Make = Callable[[Shards, float], Strategy]
"""Makes a strategy for a folder at a rate."""


def _named(name: str, **options: Any) -> Make:
    return lambda shards, rate: shards.strategy(name, rate=rate, corruption="mask", **options)


def _joint(*, elm: float, blm: float) -> Make:
    return lambda shards, _: shards.strategy("joint", elm=elm, blm=blm)


def _half(rounding: str) -> Make:
    """Mask half of the mentions, and other tokens at a rate.

    Args:
        rounding: Rounding of the number of mentions in a row, `up` or `random`.
    """

    def make(shards: Shards, rate: float) -> Strategy:
        picks = [
            {"units": "mentions", "budget": {"rate": 0.5, "rounding": rounding}, "kind": "entity"},
            {"units": "tokens", "budget": {"rate": rate, "counts": "tokens", "rounding": "random"}},
        ]
        picks[0]["eligible"] = {"unknown": True}
        return shards.strategy("picks", picks=picks, corruption="mask")

    return make


def _attention_high(shards: Shards, rate: float) -> Strategy:
    """Return AttnMask-High with its own rates. The rate is the share of rows that are masked."""
    return shards.strategy("attention-high", gate=rate)


def _entitybert(shards: Shards, rate: float) -> Strategy:
    return shards.strategy("entitybert", words=rate, corruption="mask")


class RandomSpans(Strategy):
    """Mask random spans in place of mentions, with another strategy: a control for whole terms.

    Each row keeps the number of its mentions and their lengths in tokens, and spans consist of
    whole words, as mentions do. Their positions are drawn anew in each epoch.
    """

    origin = None
    follows_training: ClassVar[bool] = False

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy

    @property
    def needs(self) -> frozenset[str]:
        return self.strategy.needs

    def plan_with(self, examples: Examples, rng: RowRng) -> MaskPlan:
        return self.strategy.plan_with(scatter_mentions(examples, rng), rng)

    def corrupt_with(self, examples: Examples, plan: MaskPlan, rng: RowRng) -> Ragged:
        return self.strategy.corrupt_with(examples, plan, rng)

    def table(self) -> dict[str, Any]:
        return {"use": "experiments.masks:RandomSpans", "strategy": self.strategy.table()}


def scatter_mentions(examples: Examples, rng: RowRng) -> Examples:
    """Move each mention to a random place in its row, with the same length in tokens.

    The longest is placed first. A place is a free run of whole words. If a row has none of the
    length, any free run of tokens is a place; if it has none either, its mentions stay.
    """
    starts, ends = (column.values.copy() for column in (examples.span_starts, examples.span_ends))
    offsets = examples.span_starts.offsets
    for row in np.flatnonzero(np.diff(offsets)).tolist():
        generator = np.random.default_rng((int(rng.keys[row]), rng.seed, rng.epoch))
        spans = slice(offsets[row], offsets[row + 1])
        moved = _scatter(examples.word_ids[row], ends[spans] - starts[spans], generator)
        if moved is not None:
            starts[spans], ends[spans] = moved
    return replace(
        examples,
        span_starts=Ragged(starts, offsets),
        span_ends=Ragged(ends, offsets),
        span_concepts=None,
        span_scores=None,
        span_contexts=None,
    )


def _scatter(
    words: Ints, lengths: Ints, generator: np.random.Generator
) -> tuple[Ints, Ints] | None:
    """Return starts and ends of spans at random places of a row, in order; None without places.

    Args:
        words: Word of each token, `[L]`; -1 for special tokens.
        lengths: Lengths of the spans in tokens.
        generator: Source of random numbers.
    """
    taken = words < 0
    boundary = np.ones(len(words) + 1, bool)
    boundary[1:-1] = words[1:] != words[:-1]
    spans = []
    for length in sorted(lengths.tolist(), reverse=True):
        windows = np.lib.stride_tricks.sliding_window_view(taken, length)
        free = np.logical_not(np.any(windows, axis=1))
        whole = free & boundary[: len(free)] & boundary[length:]
        places = np.flatnonzero(whole if whole.any() else free)
        if not len(places):
            return None
        start = int(generator.choice(places))
        taken[start : start + length] = True
        spans.append((start, start + length))
    starts, ends = np.array(sorted(spans)).T
    return starts, ends


WEAK = "joint, weak"
"""Joint masking of weak mentions. BLM's rate masks as many tokens as with gold mentions."""

MASKS: Mapping[str, Make] = {
    "joint": _joint(**HEADLINE),
    **{f"joint {elm:g}, {blm:g}": _joint(elm=elm, blm=blm) for elm, blm in RATES},
    WEAK: lambda shards, rate: shards.strategy("joint", elm=HEADLINE["elm"], blm=rate),
    "token": _named("token"),
    "whole-word": _named("whole-word", max_masked=0),
    "span": _named("span"),
    "pmi": _named("pmi"),
    "difference": _named("difference", transform="rank"),
    "salient": lambda shards, _: shards.strategy("salient"),
    "half": _half("up"),
    "half-unbiased": _half("random"),
    "random spans": lambda shards, rate: RandomSpans(_half("random")(shards, rate)),
    "mst": _named("mst"),
    "attention-high": _attention_high,
    "entitybert": _entitybert,
    "selective": _named("selective", scores="confidence"),
}
"""Name of an arm's masks -> function that makes the strategy."""
_WITHOUT_RATE = ("joint", "salient", *(name for name in MASKS if name.startswith("joint ")))


def masks(
    name: str, shards: Shards, *, encoder: Path, seed: int, target: float | None = None
) -> tuple[Strategy, MaskStats]:
    """Return a strategy for a folder's training rows, and its counts in the first epoch.

    The masked share differs from the rate, because budgets are rounded in each row and n-grams may
    be rare. The rate is fitted by a few steps of the secant method, and the best step is returned.
    Strategies without a rate are not fitted.

    Args:
        name: Name in `MASKS`.
        shards: Folder. Missing lexicons and scores are written to it.
        encoder: Encoder for anchor similarity and attention.
        seed: Seed of the counted masks.
        target: Share of tokens to mask. Default: the share that joint masking at `HEADLINE` masks.
    """
    if name in _WITH_LEXICONS:
        with FileLock(f"{shards.folder}.lexicons.lock"):
            _make_lexicon(name, shards, encoder)
    make = MASKS[name]
    if name in _WITHOUT_RATE:
        strategy = make(shards, 0.0)
        return strategy, count_masked(strategy, shards, seed=seed)

    if target is None:
        target = count_masked(make_joint(shards), shards, seed=seed).realised_rate
    tried: dict[float, tuple[Strategy, MaskStats]] = {}
    rate, share_before, rate_before = target, 0.0, 0.0
    for _ in range(_TRIES):
        strategy = make(shards, rate)
        stats = count_masked(strategy, shards, seed=seed)
        share = stats.realised_rate
        tried[abs(target - share)] = (strategy, stats)
        if share == share_before:  # the rate no longer changes the share
            break

        # A line through the last two tries gives the next rate.
        per_share = (rate - rate_before) / (share - share_before)
        rate_before, share_before = rate, share
        rate = min(1.0, max(0.0, round(rate + (target - share) * per_share, 4)))
    return tried[min(tried)]


def make_joint(shards: Shards) -> Strategy:
    """Make joint masking at the paper's headline rates."""
    return MASKS["joint"](shards, 0.0)


def count_masked(strategy: Strategy, shards: Shards, *, seed: int) -> MaskStats:
    """Count the masked tokens of the training rows in the first epoch."""
    return mask_stats(shards["train"].chunks, strategy, seed=seed, labels=shards.labels)


def _make_lexicon(name: str, shards: Shards, encoder: Path) -> None:
    """Write the lexicon or the scores of a strategy, if missing."""
    folder = Path(str(shards.folder))
    encoder_options = ["--encoder", str(encoder)]
    if name == "pmi" and not (folder / "vocab" / "pmi.arrow").is_file():
        command("vocab", "pmi", str(folder))
    if name == "difference" and not (folder / "vocab" / "difference.arrow").is_file():
        command("vocab", "anchors", str(folder), "--general", "wordfreq")
        command("vocab", "scores", "anchors", str(folder), *encoder_options, "--embedding", "mean")
    if name in ("mst", "attention-high") and not (folder / "vocab" / "attention").is_dir():
        command("vocab", "scores", "attention", str(folder), *encoder_options, "--split", "train")
