"""Difference-Masking: what is like the words that set a domain apart is hidden more often (Wilf et al. 2023).

`mslm-data vocab anchors` finds those words, `mslm-data vocab scores anchors` how like them each word is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mslm_data.mask.choose import Choose
from mslm_data.mask.corruption import Replacement, replacement_of
from mslm_data.mask.rate import Rate, Share
from mslm_data.mask.score import Score
from mslm_data.mask.stages import Stage, Staged

UNLIKE = -1.0
"""The least cosine: what a word has that is not in the lexicon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(Staged):
    """Hide words, the likelier the more they are like anchors of the domain (Difference-Masking).

    As in the paper: a word's weight is its highest cosine to an anchor over the row's sum, and words are drawn by
    weight without replacement; so a word's chance to be hidden is not in proportion to its weight, but flatter. Stop
    words have weights like others.

    Decided here, as the paper's text rate was not to be seen: 0.15 is a share of the row's words, rounded at random,
    so that short rows have their share too. A cosine of 0 or less, and a word that is not in the lexicon, is a weight
    of 0. Poolers give cosines that hardly differ (0.59 to 0.98 in the authors' own example), so that words are hidden
    almost evenly; that is what `transform` is for.

    Attributes:
        vocabulary: A lexicon of words with their likeness.
        rate: Share of the row's words, in `[0, 1]`.
        transform: What makes a weight of a likeness: `none`; `swish`, `s / (1 + exp(-s))`, or `rank`, 1 for the least
            like of the row's n words to n, of which the released code has the one before the other.
        alpha: What is left of each word's share of the row's weight; the rest is spread evenly, over words without a
            likeness too. The authors tried 0.1, 0.3, 0.5 and 0.7.
        corruption: `80-10-10` as in the paper, or see `replacement_of`.

    Raises:
        ValueError: A rate or alpha that is not in `[0, 1]`.
    """

    vocabulary: str = "difference.arrow"
    rate: Rate = 0.15
    transform: Literal["none", "swish", "rank"] = "none"
    alpha: Share = 1.0
    corruption: str = "80-10-10"

    def stages(self) -> Sequence[Stage]:
        """Return the one stage."""
        score = Score(
            lexicon=self.vocabulary, transform=self.transform, missing=UNLIKE, alpha=self.alpha
        )
        return (
            Choose(hide="words", rate=self.rate, rounding="random", how="weighted", score=score),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceReleased(Staged):
    """Hide single tokens by the rank of their word's likeness to anchors (Difference-Masking's code).

    From `data_before_submission.py` of abwilf/Difference-Masking, described in words, no line of it copied. Kept:

    * tokens are hidden, not words, so that words are hidden in part;
    * likenesses only rank the row's m words: each token of the word most like weighs m, of the word least like 1;
    * `int(0.15 * n)` of the row's n tokens, specials aside, are drawn by weight without replacement.

    Not kept, as slips of the code:

    * a word that occurs twice can be hidden only where it occurs last, and is drawn with twice the chance there, where
      two draws of one place count as two; here each occurrence is a word of its own;
    * words are there what stands between blanks, commas and all, and each is tokenised alone, so that its places may
      not be those of the row; here they are the shards' words;
    * rows of more tokens than the model takes stop the run.

    Equal likenesses are ranked there as the sort leaves them; here the first is the higher. Words that are not in the
    lexicon rank last.

    Attributes:
        vocabulary: See `Difference`.
        rate: Share of the row's tokens, specials aside, in `[0, 1]`.
        alpha: See `Difference`; the rest is spread over tokens (`get_masked_indices_alpha`).
        corruption: `80-10-10` as in the code, or see `replacement_of`.

    Raises:
        ValueError: A rate or alpha that is not in `[0, 1]`.
    """

    vocabulary: str = "difference.arrow"
    rate: Rate = 0.15
    alpha: Share = 1.0
    corruption: str = "80-10-10"

    def stages(self) -> Sequence[Stage]:
        """Return the one stage."""
        score = Score(lexicon=self.vocabulary, transform="rank", missing=UNLIKE, alpha=self.alpha)
        return (Choose(rate=self.rate, rounding="down", how="weighted", score=score, unknown=True),)

    def replacement(self) -> Replacement:
        """See `Staged`."""
        return replacement_of(self.corruption, ids="vocabulary")
