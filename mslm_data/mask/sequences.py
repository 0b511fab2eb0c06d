"""Spans that a decoder writes, each behind a sentinel: T5, UL2, and salient spans in T5's layout.

Inputs are shorter than the rows (`corrupt`), and what is to be written is a sequence of its own (`targets`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged
from mslm_data.kernels.spans import cut_segments
from mslm_data.kernels.tokens import count_at_least
from mslm_data.mask.budget import quotas
from mslm_data.mask.choose import Choose
from mslm_data.mask.corruption import Replacement
from mslm_data.mask.draws import BRANCH, SAMPLE, Draws, check_count
from mslm_data.mask.layout import (
    check_sentinels,
    prepend,
    sentinel_inputs,
    sentinel_targets,
)
from mslm_data.mask.plan import Draft, MaskKind, MaskPlan
from mslm_data.mask.rate import Rate, rate_at
from mslm_data.mask.stages import Stage, Staged

WHOLE_ROW = float("inf")
"""The mean length of spans of which a row has one."""
DENOISERS = (
    (0.15, 3.0, "R"),
    (0.15, 8.0, "R"),
    (0.25, WHOLE_ROW, "S"),
    (0.5, 3.0, "X"),
    (0.5, 8.0, "X"),
    (0.15, 64.0, "X"),
    (0.5, 64.0, "X"),
)
"""UL2's: rate, mean length, mode."""
_MODES = np.array(["RSX".index(mode) for _, _, mode in DENOISERS])


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """The stage of T5: each row is cut into segments, and every other one is hidden, beginning with the second.

    Attributes:
        ways: Rates with mean lengths in tokens, one drawn for each row. `round(rate * tokens)` are hidden, 1 at least
            and one fewer than there are at most, in `round(hidden / mean)` spans, 1 at least.
    """

    ways: Sequence[tuple[Rate, float]]

    def mark(self, examples: Examples, draws: Draws, draft: Draft) -> None:
        """See `Stage`."""
        offsets, words, sizes = (
            examples.input_ids.offsets,
            examples.word_ids.values,
            np.empty(len(examples), np.int64),
        )
        count_at_least(offsets, words, 0, sizes)
        noise, spans, drawn = np.zeros_like(sizes), np.zeros_like(sizes), self.drawn(draws)
        for way, (rate, mean) in enumerate(self.ways):
            some = np.clip(
                quotas(rate_at(rate, draws), sizes, "nearest", draws), 1, np.maximum(sizes - 1, 1)
            )
            runs = np.clip(
                np.rint(some / mean).astype(np.int64),
                1,
                np.minimum(some, np.maximum(sizes - some, 1)),
            )
            rows = (drawn == way) & (sizes > 1)
            noise[rows], spans[rows] = some[rows], runs[rows]
        cut_segments(
            offsets, words, noise, spans, draws.streams(SAMPLE), MaskKind.BASE.value, draft.kinds
        )

    def drawn(self, draws: Draws) -> Array:
        """Return which of the ways each row goes, all equally likely, int64 `[N]`."""
        return (draws.uniforms(BRANCH) * len(self.ways)).astype(np.int64)


class Sentinels(Staged):
    """What strategies in T5's layout share: inputs with a sentinel a span, and the spans behind theirs as targets."""

    __slots__ = ()

    sentinels: tuple[int, ...]

    def __post_init__(self) -> None:
        Staged.__post_init__(self)
        check_sentinels(self.sentinels)

    def replacement(self) -> Replacement:
        """See `Staged`; not of use here."""
        return Replacement()

    def corrupt(
        self, examples: Examples, plan: MaskPlan, *, seed: int = 0, epoch: int = 0
    ) -> Ragged:
        """Return the rows with a sentinel in the place of each hidden span; see `layout.sentinel_inputs`."""
        check_count("seed", seed)
        check_count("epoch", epoch)
        return sentinel_inputs(examples, plan, self.sentinels)

    def targets(self, examples: Examples, plan: MaskPlan) -> Ragged:
        """Return each hidden span behind its sentinel, then the row's last specials; see `layout.sentinel_targets`."""
        return sentinel_targets(examples, plan, self.sentinels)


@dataclass(frozen=True, slots=True, kw_only=True)
class T5(Sentinels):
    """Hide spans of 3 tokens on average that a decoder writes: T5's span corruption.

    From Raffel et al. 2020 and `preprocessors.py` of google-research/text-to-text-transfer-transformer, in words:
    `round(rate * tokens)` tokens are hidden, in `round(hidden / mean_span)` spans; what is hidden and what is not are
    each cut into as many segments, every way to do so being as likely, and take turns. The first segment stays, so a
    row's first token is never hidden and its last one always is (`random_roll` is left out). A row of one token keeps
    it. Only tokens that are not special are counted, and specials stay in the inputs; `[UNK]` is hidden like any other.

    Inputs have one sentinel in the place of each span; targets are each sentinel with its tokens, then the special
    tokens at the row's end, such as `</s>`; there is no last sentinel, as in the code. `t5_lengths` tells how long raw
    rows may be.

    Attributes:
        rate: Share of the row's tokens, specials aside, in `[0, 1]`; one is hidden at least.
        mean_span: Mean length of spans in tokens, 1 or more.
        sentinels: Their ids, those of a row's first span first; none are the tokenizer's own, see
            `layout.default_sentinels`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`, a length below 1, or sentinels that are not distinct ids.
    """

    rate: Rate = 0.15
    mean_span: float = 3.0
    sentinels: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        Sentinels.__post_init__(self)
        _check_mean(self.mean_span)

    def stages(self) -> Sequence[Stage]:
        """Return the one."""
        return (Segments(ways=((self.rate, self.mean_span),)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ul2(Sentinels):
    """Hide spans as one of UL2's seven denoisers does, drawn for each row, for a decoder to write.

    From Tay et al. 2022. All seven cut rows as `t5` does: R hides 15 % in spans of 3 or 8 tokens, X 50 % in spans of 3
    or 8, or 15 or 50 % in spans of 64, and S the last quarter of the row as one span. All are equally likely. Recalled
    from the paper, not re-read. In rows much shorter than 64 tokens the spans of 64 are one span at the row's end.

    Attributes:
        sentinels: See `T5`.
        modes: Ids of the tokens that say the mode, for R, S and X, put before the inputs; none without.

    Raises:
        ValueError: Not three modes, or sentinels that are not distinct ids.
    """

    sentinels: tuple[int, ...] = ()
    modes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        Sentinels.__post_init__(self)
        if len(self.modes) not in (0, 3) or min(self.modes, default=0) < 0:
            raise ValueError(
                f"modes: expected the ids of R, S and X, or none, got {len(self.modes)}"
            )

    def stages(self) -> Sequence[Segments]:
        """Return the one."""
        return (Segments(ways=tuple((rate, mean) for rate, mean, _ in DENOISERS)),)

    def corrupt(
        self, examples: Examples, plan: MaskPlan, *, seed: int = 0, epoch: int = 0
    ) -> Ragged:
        """See `Sentinels.corrupt`; with modes, seed and epoch must be those of the plan."""
        rows = Sentinels.corrupt(self, examples, plan, seed=seed, epoch=epoch)
        if not self.modes:
            return rows
        if max(self.modes) >= examples.ids.size:
            raise ValueError(
                f"modes: expected ids below {examples.ids.size}, the tokenizer's, got {max(self.modes)}"
            )
        drawn = self.stages()[0].drawn(Draws(keys=examples.keys, seed=seed, epoch=epoch))
        return prepend(rows, np.array(self.modes, np.int32)[_MODES[drawn]])


@dataclass(frozen=True, slots=True, kw_only=True)
class SalientT5(Sentinels):
    """Hide one mention of each row for a decoder to write, as salient spans are in T5's layout.

    From Cole et al. 2023. One of the row's mentions, each as likely, is replaced by a sentinel; its tokens are the
    target, laid out as in `t5`. Theirs are named entities and dates, or temporal expressions that SUTime finds: here
    what the shards have as mentions. Recalled from the paper, not re-read. A row without a mention stays as it is and
    has nothing to write but its last special tokens.

    Attributes:
        sentinels: See `T5`; only the first is used.

    Raises:
        ValueError: Sentinels that are not distinct ids.
    """

    sentinels: tuple[int, ...] = ()

    def stages(self) -> Sequence[Stage]:
        """Return the one."""
        return (Choose(hide="mentions", rate=1.0, most=1, unknown=True, kind="entity"),)


def t5_lengths(inputs_length: int, rate: float = 0.15, mean_span: float = 3.0) -> tuple[int, int]:
    """Return how many raw tokens make inputs of a length, and how long the targets are then.

    As T5's `random_spans_helper` counts, one `</s>` being part of inputs and targets and not of the raw tokens: 512 at
    0.15 and 3 is 568 raw tokens and targets of 114. `encode.max_tokens`, which counts `</s>`, is one more then.

    Args:
        inputs_length: Tokens, sentinels and `</s>` among them; 2 or more.
        rate: Share of raw tokens that is hidden, in `(0, 1)`.
        mean_span: Mean length of spans, 1 or more.

    Raises:
        ValueError: A rate or lengths out of range.
    """
    if inputs_length < 2 or not 0 < rate < 1:
        raise ValueError(
            f"lengths: expected 2 or more and a rate in (0, 1), got {inputs_length} and {rate}"
        )
    _check_mean(mean_span)

    def lengths(raw: int) -> tuple[int, int]:
        noise = round(raw * rate)
        spans = round(noise / mean_span)
        return raw - noise + spans + 1, noise + spans + 1

    raw = 1
    while lengths(raw + 1)[0] <= inputs_length:
        raw += 1
    targets = lengths(raw)[1]
    if rate == 0.5 and targets > inputs_length:
        return raw - 1, targets - 1  # so there, to have two lengths that are equal
    return raw, targets


def _check_mean(mean_span: Any) -> None:
    if not 1 <= mean_span < WHOLE_ROW:
        raise ValueError(f"mean_span: expected 1 token or more, got {mean_span}")
