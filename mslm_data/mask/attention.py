"""Tokens by how much `[CLS]` attends to them: AttnMask and MST, which are about images, adapted to text.

In both papers a teacher that follows the model in training gives the attention, of its last block, for patches of an
image. Here a frozen encoder gives it once for the tokens of a row (`mslm-data vocab scores attention`), so this is an
adaptation and no reproduction. Special tokens, which draw most attention in text, are left out before anything is
counted or ranked; stops and commas, which draw some, are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from mslm_data.data.examples import Examples
from mslm_data.kernels.choose import choose_each, choose_uniform
from mslm_data.kernels.tokens import count_at_least
from mslm_data.mask.budget import quotas
from mslm_data.mask.choose import Choose
from mslm_data.mask.draws import Draws
from mslm_data.mask.plan import Draft, MaskKind
from mslm_data.mask.rate import Rate, Share, Varying, rate_at
from mslm_data.mask.score import Score
from mslm_data.mask.stages import Stage, Staged

_RATE = Varying(shape="uniform", start=0.1, stop=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionHigh(Staged):
    """Hide the tokens that [CLS] attends to most, in half of the rows (AttnMask-High, adapted to text).

    Kakogeorgiou et al. 2022 (gkakogeorgiou/attmask): of n patches the `int(r * n)` of highest attention, r between 0.1
    and 0.5; every other image stays whole, so that 15 % are hidden in the mean. There r is one number for a batch;
    here, as a row's mask does not depend on its batch, each row draws its own in each epoch. See the module.

    Attributes:
        scores: A score column of attention.
        rate: Share of the row's tokens, specials aside.
        gate: Chance of each row that anything of it is hidden, in `[0, 1]`.
        corruption: `mask` as in the paper, or see `replacement_of`.

    Raises:
        ValueError: A rate or chance that is not in `[0, 1]`.
    """

    scores: str = "attention"
    rate: Rate = _RATE
    gate: Share = 0.5
    corruption: str = "mask"

    def stages(self) -> Sequence[Stage]:
        """Return the one stage."""
        return (_by_attention(self.scores, self.rate, self.gate, "highest"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionHints(AttentionHigh):
    """Hide what `attention-high` hides, but for some of the top (AttnMask-Hints, adapted to text).

    As there; then of the `int(0.1 * n)` tokens of highest attention, `int(0.1 * r * n)` are shown again, drawn
    uniformly. Rows of fewer than 20 tokens have no hint at any r up to 0.5, and none of fewer than 100 has one at 0.1;
    the released code fails on drawing none.

    Attributes:
        scores: See `AttentionHigh`; so rate, gate and corruption.
        show: The 0.1, both of them, in `[0, 1]`.

    Raises:
        ValueError: A rate, chance or share that is not in `[0, 1]`.
    """

    show: Share = 0.1

    def stages(self) -> Sequence[Stage]:
        """Return the one stage, which hides and shows."""
        return (
            Hints(hide=_by_attention(self.scores, self.rate, self.gate, "highest"), show=self.show),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionLow(AttentionHigh):
    """Hide the tokens that [CLS] attends to least, in half of the rows (AttnMask-Low, adapted to text).

    The control of Kakogeorgiou et al. 2022 for `attention-high`, which says more.

    Attributes:
        scores: See `AttentionHigh`; so rate, gate and corruption.

    Raises:
        ValueError: A rate or chance that is not in `[0, 1]`.
    """

    def stages(self) -> Sequence[Stage]:
        """Return the one stage."""
        return (_by_attention(self.scores, self.rate, self.gate, "lowest"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mst(Staged):
    """Hide some of the tokens that [CLS] attends to least, by a coin each (MST, adapted to text).

    Li et al. 2021 hide patches of low attention, by chance, so as to leave what matters in the picture. The 1/8 is
    recalled from the paper, not re-read; below which attention a patch is low was not to be seen, and half of the
    row's tokens is our choice, so say both where it matters. See the module.

    Attributes:
        scores: A score column of attention.
        share: The row's tokens, specials aside, among which the coins fall: this share of lowest attention, rounded
            down; in `[0, 1]`.
        rate: Chance of each of these, in `[0, 1]`.
        corruption: `mask` as in the paper, or see `replacement_of`.

    Raises:
        ValueError: A share or rate that is not in `[0, 1]`.
    """

    scores: str = "attention"
    share: Rate = 0.5
    rate: Rate = 0.125
    corruption: str = "mask"

    def stages(self) -> Sequence[Stage]:
        """Return the one stage."""
        return (Coins(among=_by_attention(self.scores, self.share, 1.0, "lowest"), rate=self.rate),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """Hide tokens of highest score, then show some of the top again.

    Attributes:
        hide: The highest, by a rate r.
        show: Share of the row's tokens that are the top; of it, r times as many are shown, drawn uniformly.
    """

    hide: Choose
    show: float

    def mark(self, examples: Examples, draws: Draws, draft: Draft) -> None:
        """See `Stage`."""
        offsets, real = examples.input_ids.offsets, np.empty(len(examples), np.int64)
        count_at_least(offsets, examples.word_ids.values, 0, real)
        top = Draft(draft.kinds.copy(), draft.owed.copy(), None)
        replace(self.hide, rate=self.show, gate=1.0).mark(examples, draws, top)
        top.kinds[draft.kinds > 0] = 0
        self.hide.mark(examples, draws, draft)
        shown = quotas(self.show * rate_at(self.hide.rate, draws), real, "down", draws)
        choose_uniform(
            offsets, (top.kinds > 0).astype(np.uint8), shown, draws.streams(), 0, draft.kinds
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Coins:
    """Hide each of some tokens by a coin.

    Attributes:
        among: What would hide those tokens.
        rate: Chance of each.
    """

    among: Choose
    rate: Rate

    def mark(self, examples: Examples, draws: Draws, draft: Draft) -> None:
        """See `Stage`."""
        some = Draft(draft.kinds.copy(), draft.owed.copy(), None)
        self.among.mark(examples, draws, some)
        rates = np.broadcast_to(rate_at(self.rate, draws), len(examples))
        chances = ((some.kinds > 0) & (draft.kinds == 0)) * np.repeat(
            rates, examples.input_ids.lengths
        )
        choose_each(
            examples.input_ids.offsets, chances, draws.streams(), MaskKind.BASE.value, draft.kinds
        )


def _by_attention(
    scores: str, rate: Rate, gate: float, how: Literal["highest", "lowest"]
) -> Choose:
    return Choose(
        rate=rate, of="tokens", rounding="down", how=how, gate=gate, score=Score(column=scores)
    )
