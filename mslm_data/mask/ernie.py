"""ERNIE 1.0: whole entities, phrases and words in some rows, single tokens in others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mslm_data.mask.choose import Choose
from mslm_data.mask.corruption import Replacement, replacement_of
from mslm_data.mask.listed import ChooseListed
from mslm_data.mask.rate import Rate, Share
from mslm_data.mask.stages import OneOf, Stage, Staged

MADE_BY = "mslm-data vocab pmi DIR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ernie(Staged):
    """Hide whole mentions, phrases and words by a coin each, or in other rows single tokens.

    Sun et al. 2019, as the released code does it (PaddlePaddle/ERNIE, `ERNIE/batching.py` and `reader/pretraining.py`),
    described in words: a row comes cut into units; each has a coin of 0.15, with no least and no most; of a unit's
    tokens each has its own fate of 80/10/10, and random ids are drawn from the whole vocabulary, special ones too.

    Differences: the code draws for each file, by a share in its list of files, whether units or single tokens
    ("characters") are hidden; here each row draws, anew in each epoch, and as the share is not published, it is a half.
    Its files come cut into words, phrases and entities by tools that are not released; here the entities are the
    mentions, phrases those of a list if there is one (see `ChooseListed` for such as overlap), and words the rest.
    `[UNK]` is hidden within mentions only, the id 0 is drawn too. There is no budget to owe.

    Attributes:
        rate: Chance of each unit, or of each token, in `[0, 1]`.
        tokens: Share of rows that hide single tokens.
        vocabulary: A list of phrases; none by default.
        corruption: `80-10-10` as in the code, or see `replacement_of`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`.
    """

    rate: Rate = 0.15
    tokens: Share = 0.5
    vocabulary: str = ""
    corruption: str = "80-10-10"

    def stages(self) -> Sequence[Stage]:
        """Return either mentions, then phrases and words, or tokens."""
        entities = Choose(hide="mentions", rate=self.rate, how="each", unknown=True, kind="entity")
        rest = Choose(hide="words", rate=self.rate, how="each", among="generic")
        if self.vocabulary:
            rest = ChooseListed(
                vocabulary=self.vocabulary,
                made_by=MADE_BY,
                rate=self.rate,
                how="each",
                among="generic",
            )
        tokens = Choose(rate=self.rate, how="each")
        return (OneOf(chances=[1 - self.tokens, self.tokens], ways=[[entities, rest], [tokens]]),)

    def replacement(self) -> Replacement:
        """See `Staged`."""
        return replacement_of(self.corruption, ids="vocabulary")
