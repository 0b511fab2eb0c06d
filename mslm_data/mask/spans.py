"""Runs of tokens or words at random places: SPAN of the MSLM paper, and SpanBERT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array
from mslm_data.kernels.spans import grow_spans, open_spans, place_spans
from mslm_data.kernels.tokens import count_at_least
from mslm_data.mask.budget import quotas
from mslm_data.mask.corruption import Replacement, replacement_of
from mslm_data.mask.draws import BRANCH, LENGTH, SAMPLE, Draws
from mslm_data.mask.lengths import geometric_lengths, uniform_lengths
from mslm_data.mask.plan import Draft, MaskKind
from mslm_data.mask.rate import Rate, Share, rate_at
from mslm_data.mask.stages import Stage, Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceSpans:
    """The stage of spans that do not overlap: tokens in random order, a length for each, until the budget is spent.

    Attributes:
        rate: Budget as a share of the row's tokens, rounded up.
        shortest: Least length that is drawn, in tokens.
        longest: Greatest; all between are equally likely. A span is cut to what is left of the budget and at the end
            of the row's text.
        released: Whether spans begin at words only, and `[UNK]` is left out of what the rate is a share of.
    """

    rate: Rate
    shortest: int
    longest: int
    released: bool

    def mark(self, examples: Examples, draws: Draws, draft: Draft) -> None:
        """See `Stage`."""
        offsets, words, ids = (
            examples.input_ids.offsets,
            examples.word_ids.values,
            examples.input_ids.values,
        )
        quota = quotas(rate_at(self.rate, draws), self._sizes(examples), "up", draws)
        state = np.empty(len(ids), np.uint8)
        open_spans(offsets, words, ids, examples.ids.unk, draft.kinds, self.released, state)
        sums = uniform_lengths(self.shortest, self.longest)
        streams = np.stack([draws.streams(SAMPLE), draws.streams(LENGTH)])
        place_spans(offsets, state, quota, sums, streams, MaskKind.BASE.value, draft.kinds)
        draft.owed += quota

    def _sizes(self, examples: Examples) -> Array:
        """Return how many tokens of each row the rate is a share of, int64 `[N]`."""
        offsets, words, sizes = (
            examples.input_ids.offsets,
            examples.word_ids.values,
            np.empty(len(examples), np.int64),
        )
        if self.released:
            words = np.where(examples.input_ids.values == examples.ids.unk, -1, words)
        count_at_least(offsets, words, 0, sizes)
        return sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowSpans:
    """The stage of SpanBERT's spans of whole words, which may grow into one another; the last is cut to the budget.

    Attributes:
        rate: Budget as a share of the row's tokens, rounded up.
        chance: Of the geometric law of lengths, which are in words.
        longest: Where that law ends.
        mentions: Whether a fair coin at each step says to take a mention instead.
    """

    rate: Rate
    chance: float
    longest: int
    mentions: bool

    def mark(self, examples: Examples, draws: Draws, draft: Draft) -> None:
        """See `Stage`."""
        offsets, words, starts = (
            examples.input_ids.offsets,
            examples.word_ids.values,
            examples.span_starts,
        )
        sizes = np.empty(len(examples), np.int64)
        count_at_least(offsets, words, 0, sizes)
        quota = quotas(rate_at(self.rate, draws), sizes, "up", draws)
        mention_offsets = starts.offsets if self.mentions else np.zeros_like(offsets)
        sums = geometric_lengths(self.chance, self.longest)
        streams = np.stack([draws.streams(SAMPLE), draws.streams(LENGTH), draws.streams(BRANCH)])
        ends = examples.span_ends.values
        grow_spans(
            offsets, words, mention_offsets, starts.values, ends, quota, sums, streams, draft.kinds
        )
        draft.owed += quota


@dataclass(frozen=True, slots=True, kw_only=True)
class Span(Staged):
    """Hide spans of 2 to 4 tokens at random places: SPAN of the MSLM paper, Algorithm 1.

    From Abaho et al. 2024, appendix E.1. The budget is `ceil(rate * tokens)`; the row's tokens are gone through in
    random order, each as the first of a span whose length is drawn, cut to what is left of the budget and at the
    row's end; a span that would overlap one taken before is left out. So about a sixth of spans have one token at rate
    0.15, for all that 2 to 4 are drawn. There is one pass: at high rates the budget may not be reached (`owed`; in
    BC2GM at 0.5 it was in every row, at 0.75 half a percent of it was missing).

    Decided where the paper is silent or cannot be meant: lines 11 to 13 recompute a span's end as it was, and are
    taken to cut it at the row's end; a span as long as the rest of the budget may be taken (line 7, against the text's
    "less than"); spans may touch; they may begin and end within words; a span that would hold `[UNK]` is left out.

    Attributes:
        rate: Share of the row's tokens, specials aside, in `[0, 1]`.
        shortest: Least length that is drawn, 1 or more.
        longest: Greatest length.
        corruption: `mask` as in the paper, or percent of `[MASK]`, random and kept, such as `80-10-10`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`, or lengths that are none.
    """

    rate: Rate = 0.15
    shortest: int = 2
    longest: int = 4
    corruption: str = "mask"

    def __post_init__(self) -> None:
        Staged.__post_init__(self)
        if not 1 <= self.shortest <= self.longest:
            raise ValueError(
                f"shortest, longest: expected lengths of 1 or more, the first no greater, got {self.shortest}, "
                f"{self.longest}"
            )

    def stages(self) -> Sequence[Stage]:
        """Return the one."""
        return (
            PlaceSpans(
                rate=self.rate, shortest=self.shortest, longest=self.longest, released=False
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanReleased(Staged):
    """Hide spans of 1 to 5 tokens that begin at words: SPAN as the MSLM paper's released code has it.

    From mykelismyname/MSLM at c9cde41, `custom_mask.py:224-260`, described in words. As `span`, but for lengths of 1
    to 5, first tokens that are no `##` piece, and a budget of what is neither special nor `[UNK]`; a span at the row's
    end is cut.

    What is left out: with `[UNK]` in a row the code cuts at the wrong place, so that spans get negative lengths and
    more than the budget is hidden, and it hides `[UNK]` within a span; here a span that would hold one is left out.
    Words are those of the shards: where one has punctuation inside, the code also begins at the pieces after it.

    Attributes:
        rate: Share of the row's tokens that are neither special nor `[UNK]`, in `[0, 1]`.
        corruption: See `Span`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`.
    """

    rate: Rate = 0.15
    corruption: str = "mask"

    def stages(self) -> Sequence[Stage]:
        """Return the one."""
        return (PlaceSpans(rate=self.rate, shortest=1, longest=5, released=True),)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanBert(Staged):
    """Hide spans of 1 to 10 whole words, 3.8 of them on average, as SpanBERT does.

    From Joshi et al. 2020 and `masking.py` of facebookresearch/SpanBERT, described in words: the budget is `ceil(rate *
    tokens)`. At each step a token is drawn, any that is not hidden yet; the span begins with its word and goes on to
    the right over as many words as a geometric law of 0.2, ending at 10, says. Spans may grow over and beside each
    other, and the last is cut within a word when the budget is spent, so it is always spent to the token. `[UNK]` is
    hidden like any other.

    Tokens of one run, that is of spans that touch or overlap, share one fate (`--replacement-method span`, as in the
    released model; the code's default is a fate for each token). The code draws random ids from the tokens of the
    corpus, so that they are as frequent there: `unigrams` does that, and without it all ids that are not special are
    equally likely. The objective at span boundaries is the model's and not part of a mask.

    Attributes:
        rate: Share of the row's tokens, specials aside, in `[0, 1]`.
        chance: Of the geometric law, in `(0, 1)`.
        longest: Where it ends, 1 or more words.
        corruption: `80-10-10` as in the paper, or see `Span`.
        unigrams: File of a lexicon of single tokens with the number of times that each occurs; "" for none.

    Raises:
        ValueError: A rate that is not in `[0, 1]`, or a law that is none.
    """

    rate: Rate = 0.15
    chance: Share = 0.2
    longest: int = 10
    corruption: str = "80-10-10"
    unigrams: str = ""

    def __post_init__(self) -> None:
        Staged.__post_init__(self)
        if not 0 < self.chance < 1 or self.longest < 1:
            raise ValueError(
                f"chance, longest: expected a chance in (0, 1) and 1 word or more, got {self.chance}, {self.longest}"
            )

    def stages(self) -> Sequence[Stage]:
        """Return the one."""
        return (
            GrowSpans(rate=self.rate, chance=self.chance, longest=self.longest, mentions=False),
        )

    def replacement(self) -> Replacement:
        """See `Staged`."""
        return replacement_of(self.corruption, by="run", ids=self.unigrams or "words")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanBertNer(SpanBert):
    """Hide mentions and spans of words by the toss of a coin, as SpanBERT's NER variant does.

    From Joshi et al. 2020: as `spanbert`, but that at each step a fair coin says whether a span of words is next or one
    of the row's mentions, any of them, hidden before or not (`NERSpanMaskingScheme`, `ner_masking_prob` 0.5). A mention
    is cut where the budget ends. Its tokens are of kind ENTITY, those of spans BASE, whichever took them first. Where
    the row has no mention, spans take all. The code joins mentions that touch into one; here they are two.

    Attributes:
        rate: See `SpanBert`; so the others.
        chance: See there.
        longest: See there.
        corruption: See there.
        unigrams: See there.

    Raises:
        ValueError: See there.
    """

    def stages(self) -> Sequence[Stage]:
        """Return the one."""
        return (GrowSpans(rate=self.rate, chance=self.chance, longest=self.longest, mentions=True),)
