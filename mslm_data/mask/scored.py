"""Tokens by numbers of a model or a table: Selective Masking, InforMask, keywords.

The numbers are made once, before training, by `mslm-data vocab scores`: for tokens where they stand a score column, for
words or ids wherever they stand a lexicon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mslm_data.mask.choose import Choose
from mslm_data.mask.corruption import Replacement, replacement_of
from mslm_data.mask.rate import Limit, Rate
from mslm_data.mask.score import Score
from mslm_data.mask.stages import Stage, Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectiveTask(Staged):
    """Hide every token that a task model finds important (Selective Masking on task data).

    Gu et al. 2020: a token is important if, once it stands at the end of what was read of the row, the classifier is
    nearly as sure of the label as with the whole row. `mslm-data vocab scores confidence` scores tokens by that rule,
    above 0 for important ones, and these are all hidden, whatever their number; the same ones in every epoch. The
    released code (thunlp/SelectiveMasking) leaves spaCy's stop words unmasked, and predicts 20 tokens of a row of 128
    at most; here both are up to the column.

    Attributes:
        scores: A score column, above 0 on what is to be hidden.
        corruption: `80-10-10` as in the code, or see `replacement_of`.
    """

    scores: str = "confidence"
    corruption: str = "80-10-10"

    def stages(self) -> Sequence[Stage]:
        """Return the one stage."""
        return (
            Choose(
                rate=1, how="each", score=Score(column=self.scores, transform="flag"), unknown=True
            ),
        )

    def replacement(self) -> Replacement:
        """See `Staged`."""
        return replacement_of(self.corruption, ids="vocabulary")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selective(Staged):
    """Hide the tokens of highest score above 0, up to 15 % of a row (Selective Masking, in-domain).

    Gu et al. 2020 train a token classifier on what `selective-task` finds, to carry it over to text without labels: of
    the tokens that it takes for important, the `int(max(1, 0.15 * n))` with the highest logits are hidden, n being the
    row's tokens (specials aside here). The same ones in every epoch.

    `mslm-data vocab scores logits --value margin` is above 0 just on tokens that the classifier takes for important,
    and ranks them by how clearly; without `--value` it ranks by the logit as the released code does, but then important
    are those whose logit is above 0, which is not quite the same.

    Attributes:
        scores: A score column, above 0 on what may be hidden.
        rate: Share of the row's tokens, specials aside, in `[0, 1]`; rounded down, but one token at least.
        most: The number hidden is this at most, 40 of rows of 256 in the code; None or 0 is no limit.
        corruption: `80-10-10` as in the code, or see `replacement_of`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`, or a negative limit.
    """

    scores: str = "logits"
    rate: Rate = 0.15
    most: Limit = None
    corruption: str = "80-10-10"

    def stages(self) -> Sequence[Stage]:
        """Return the one stage."""
        return (
            Choose(
                rate=self.rate,
                rounding="down",
                least=1,
                most=self.most or None,
                how="highest",
                score=Score(column=self.scores),
                unknown=True,
            ),
        )

    def replacement(self) -> Replacement:
        """See `Staged`."""
        return replacement_of(self.corruption, ids="vocabulary")


@dataclass(frozen=True, slots=True, kw_only=True)
class InforMask(Staged):
    """Hide each token by a coin whose chance is that of its id in a table (InforMask).

    Sadeq et al. 2022 give each id a rate that follows how much its tokens tell about those around them (PMI), and
    publish a table of 29,007 ids of bert-base-uncased, from 0.018 to 1, 0.25 in the plain mean. It has no licence, so
    it is not shipped: `mslm-data vocab scores table --by ids --out DIR/vocab/informask.arrow` reads a copy of yours.
    Ids that it has not are never hidden.

    The released code (NafisSadeq/InforMask) has all tokens as labels, hidden or not. Here, as everywhere, only hidden
    ones are predicted; a loss over all tokens can be had from the rows themselves.

    Attributes:
        vocabulary: A lexicon of single tokens with their rates; 1 and more is always.
        rate: What all rates are multiplied by, in `[0, 1]`.
        corruption: `mask` as in the code, or see `replacement_of`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`.
    """

    vocabulary: str = "informask.arrow"
    rate: Rate = 1.0
    corruption: str = "mask"

    def stages(self) -> Sequence[Stage]:
        """Return the one stage."""
        return (
            Choose(
                rate=self.rate,
                how="each",
                score=Score(lexicon=self.vocabulary, by="token"),
                unknown=True,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Keywords(Staged):
    """Hide words that a lexicon lists, keywords of the domain, each by a coin (Golchin et al. 2023).

    The paper finds keywords with KeyBERT and hides these alone; at which rate was not to be seen, so it is an option,
    and its default hides them all. `mslm-data vocab scores table --out DIR/vocab/keywords.arrow` makes a lexicon of
    any list of words; a keyword of several words is not found. `mslm-data vocab anchors` finds keywords by frequency.

    Attributes:
        vocabulary: A lexicon; a word that has an entry above 0 is a keyword.
        rate: Chance of each keyword, in `[0, 1]`.
        corruption: `mask` as in the paper, or see `replacement_of`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`.
    """

    vocabulary: str = "keywords.arrow"
    rate: Rate = 1.0
    corruption: str = "mask"

    def stages(self) -> Sequence[Stage]:
        """Return the one stage."""
        return (
            Choose(
                hide="words",
                rate=self.rate,
                how="each",
                score=Score(lexicon=self.vocabulary, transform="flag"),
            ),
        )
