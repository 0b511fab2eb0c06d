"""Mentions first: EntityBERT and what became of it, salient spans, and linguistically informed masking.

The mentions are those of the shards, whoever marked them: a corpus, MedCAT, a list of terms, noun chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mslm_data.data.examples import Examples
from mslm_data.mask.choose import Choose
from mslm_data.mask.corruption import Replacement, replacement_of
from mslm_data.mask.draws import Draws
from mslm_data.mask.plan import Draft
from mslm_data.mask.rate import Limit, Rate, Share
from mslm_data.mask.score import Score
from mslm_data.mask.stages import OneOf, Stage, Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityBert(Staged):
    """Hide 40 % of a row's mentions, then 12 % of its words among what is left (EntityBERT).

    Lin et al. 2021 mark events and times in notes and hide a share of them together with other words. The shares and
    80/10/10 are recalled from the paper, not re-read; there is no code. Decided here: both shares are of the row, 12 %
    being of all its words, but taken from those that are not hidden yet, in mentions or not; and as rows are sentences
    where the paper has blocks of text, numbers are rounded at random, so that over a corpus the shares are exact.

    Attributes:
        entities: Share of a row's mentions that are hidden whole, in `[0, 1]`.
        words: Share of a row's words that are hidden besides.
        corruption: `80-10-10` as in the paper, or see `replacement_of`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`.
    """

    entities: Rate = 0.4
    words: Rate = 0.12
    corruption: str = "80-10-10"

    def stages(self) -> Sequence[Stage]:
        """Return mentions, then words."""
        return (
            Choose(
                hide="mentions", rate=self.entities, rounding="random", unknown=True, kind="entity"
            ),
            Choose(hide="words", rate=self.words, rounding="random"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityBertDifference(Staged):
    """Hide the first tokens of a row's mentions: the code of Difference-Masking in EntityBERT's place.

    The baseline of Wilf et al. 2023 (`data_with_entity.py` of abwilf/Difference-Masking) is not EntityBERT: of the n
    tokens of a row, specials aside, it hides the first `int(0.15 * n)` tokens of tagged words, with no draw; where
    nothing is tagged, that many tokens at random; where too few are tagged, no more.

    "First" is there the order of a Python set of strings, which changes from run to run, over the first occurrence of
    each string. Here it is the order in the row, over all mentions. The random draw is there of places 0 to n - 1
    where the tokens stand at 1 to n, so `<s>` may be hidden and the last token never is; here it is of the tokens.

    Attributes:
        rate: Share of the row's tokens, specials aside, in `[0, 1]`.
        corruption: `80-10-10` as in the code, or see `replacement_of`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`.
    """

    rate: Rate = 0.15
    corruption: str = "80-10-10"

    def stages(self) -> Sequence[Stage]:
        """Return first tokens of mentions, then chance in rows that have none."""
        return (
            Choose(rate=self.rate, rounding="down", how="first", among="mentions", unknown=True),
            WithoutMentions(stage=Choose(rate=self.rate, rounding="down", unknown=True)),
        )

    def replacement(self) -> Replacement:
        """See `Staged`."""
        return replacement_of(self.corruption, ids="vocabulary")


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutMentions:
    """Run a stage in rows that have no mention, and nothing in others.

    Attributes:
        stage: What to run; what earlier stages owe in these rows, it pays.
    """

    stage: Choose

    def mark(self, examples: Examples, draws: Draws, draft: Draft) -> None:
        """See `Stage`."""
        own = draft.copy()
        self.stage.mark(examples, draws, own)
        rows = examples.span_starts.lengths == 0
        np.copyto(draft.kinds, own.kinds, where=np.repeat(rows, examples.input_ids.lengths))
        np.copyto(draft.owed, own.owed, where=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Salient(Staged):
    """Hide one whole mention of each row, and nothing in rows without one (salient spans).

    REALM (Guu et al. 2020; google-research/language) chooses one named entity or date among all of a passage, and the
    sentence that it stands in becomes the query: a sentence is seen as often as it has entities, one without never.
    Here the row is the unit: each row with a mention has one hidden in every epoch, and rows without stay as they are,
    so leave them out where they cost time. Likewise the mention that would be cut is not skipped with its sentence
    but stands back for the others of its row (`longest`). Cole et al. 2023 add times and let T5 write the span.

    Attributes:
        longest: Mentions of more tokens are never chosen, REALM has room for 10; None or 0 is no limit.
        corruption: `mask` as in REALM, or see `replacement_of`.

    Raises:
        ValueError: A negative limit.
    """

    longest: Limit = None
    corruption: str = "mask"

    def stages(self) -> Sequence[Stage]:
        """Return the one stage."""
        return (
            Choose(
                hide="mentions",
                rate=0,
                least=1,
                most=1,
                longest=self.longest or None,
                unknown=True,
                kind="entity",
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lim(Staged):
    """Hide tokens of phrases only in three rows of four, and only other tokens in the fourth (LIM).

    Linguistically informed masking (Althammer et al. 2021, patents): in `create_pretraining_data_lim.py` of
    sophiaalthammer/patent-lim a draw for each sequence says which tokens can be had, those of noun chunks or those of
    none; the rest is BERT's masking, see `Bert`. Where there are fewer than are due, fewer are hidden: a row without
    phrases has nothing hidden three times of four. The released code takes all tokens where the chance is 0.5 or less,
    which is `bert`; here the chance means what it says. The paper's runs have 0.75 and 1.

    Attributes:
        chance: Of a row that only tokens of phrases are hidden, in `[0, 1]`.
        rate: Share of the row's tokens, specials included, in `[0, 1]`.
        most: The number hidden is this at most; None or 0 is no limit.
        scores: A score column that is above 0 on tokens of phrases, if they are not the mentions.
        corruption: `80-10-10` as in the paper, or see `replacement_of`.

    Raises:
        ValueError: A chance or rate that is not in `[0, 1]`, or a negative limit.
    """

    chance: Share = 0.75
    rate: Rate = 0.15
    most: Limit = 20
    scores: str = ""
    corruption: str = "80-10-10"

    def stages(self) -> Sequence[Stage]:
        """Return the two ways that a row can go."""
        ways = (self._way("mentions", "flag"), self._way("generic", "unflagged"))
        return (OneOf(chances=(self.chance, 1 - self.chance), ways=tuple((way,) for way in ways)),)

    def _way(
        self, among: Literal["mentions", "generic"], transform: Literal["flag", "unflagged"]
    ) -> Choose:
        score = Score(column=self.scores, transform=transform) if self.scores else None
        return Choose(
            rate=self.rate,
            of="all tokens",
            rounding="nearest",
            least=1,
            most=self.most or None,
            how="weighted" if score else "uniform",
            score=score,
            among="any" if score else among,
            unknown=True,
        )

    def replacement(self) -> Replacement:
        """See `Staged`."""
        return replacement_of(self.corruption, ids="vocabulary")
