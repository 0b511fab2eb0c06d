"""Options of `mslm-data vocab pmi`: which n-grams a lexicon has, and in which order."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mslm_data.registry import Options

LONGEST = 5
"""Maximum number of words in an n-gram."""

Length = Annotated[int, Meta(ge=2, le=LONGEST)]
Positive = Annotated[int, Meta(ge=1)]


class NgramChoice(Options, frozen=True, kw_only=True):
    """Options for the selection and order of n-grams.

    The defaults are those of Abaho et al. 2024; see `RECIPES`. `extra` says how an option is
    written as one text.
    """

    measure: Annotated[
        Literal["levine", "plain", "squared"], Meta(description="Measure for the ranking.")
    ] = "levine"
    lengths: Annotated[
        tuple[Length, Length],
        Meta(
            description="Lengths of n-grams in words, within 2-5.",
            extra={"separator": "-", "metavar": "N-M"},
        ),
    ] = (2, 4)
    min_counts: Annotated[
        tuple[Positive, ...],
        Meta(
            description="Minimum number of occurrences, for all n-grams or per length.",
            extra={"separator": ",", "metavar": "K[,K…]", "flags": "--min-count"},
        ),
    ] = (5,)
    size: Annotated[
        Positive | None,
        Meta(
            description="Maximum number of n-grams, best ones first.",
            extra={"metavar": "N"},
        ),
    ] = None
    coverage: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        Meta(
            description="Share of the tokens that the smallest list covers; instead of a size.",
            extra={"metavar": "SHARE"},
        ),
    ] = None
    shares: Annotated[
        tuple[Annotated[float, Meta(ge=0, le=100)], ...],
        Meta(
            description="Percentage of n-grams of each length, shortest first. By default all "
            "lengths compete by score.",
            extra={"separator": ",", "metavar": "P,P…"},
        ),
    ] = ()
    order: Annotated[
        Literal["length", "score", "longest"],
        Meta(
            description="Order of the lexicon, in which strategies use it: short n-grams first "
            "(length), high scores first (score) or long n-grams first (longest)."
        ),
    ] = "length"
    drop_short_words: Annotated[
        bool,
        Meta(
            description="Whether to leave out n-grams with a word of one character.",
            extra={"flags": "--drop-short-words/--keep-short-words"},
        ),
    ] = False
    stop_words: Annotated[
        frozenset[str], Meta(description="Lower-case words that no n-gram may have, in any case.")
    ] = frozenset()
    across_sentences: Annotated[
        bool,
        Meta(
            description="Whether to count n-grams across the ends of rows.",
            extra={"flags": "--across-sentences/--within-sentences"},
        ),
    ] = False

    def __post_init__(self) -> None:
        """Check the options with each other.

        Raises:
            ValueError: An option contradicts another.
        """
        low, high = self.lengths
        num_lengths = high - low + 1
        if num_lengths < 1:
            raise ValueError(f"lengths: expected LOW-HIGH in ascending order, got {low}-{high}")
        if len(self.min_counts) not in (1, num_lengths):
            raise ValueError(
                f"min_counts: expected one number or {num_lengths}, got {len(self.min_counts)}"
            )
        if self.size is not None and self.coverage is not None:
            raise ValueError("size: expected a size or a coverage, got both")

        if self.shares:
            is_whole = math.isclose(sum(self.shares), 100, abs_tol=1e-6)
            if len(self.shares) != num_lengths or not is_whole:
                percentages = ", ".join(f"{share:g}" for share in self.shares)
                raise ValueError(
                    f"shares: expected {num_lengths} percentages that sum to 100, got {percentages}"
                )
            if self.size is None and self.coverage is None:
                raise ValueError("shares: the total is unknown; pass a size or a coverage too")

    def min_count(self, n: int) -> int:
        """Return the minimum number of occurrences of n-grams of n words."""
        if len(self.min_counts) == 1:
            return self.min_counts[0]
        return self.min_counts[n - self.lengths[0]]


RECIPES = {
    "paper": NgramChoice(),
    "levine": NgramChoice(
        lengths=(2, 5), min_counts=(11,), coverage=0.5, shares=(50, 25, 12.5, 12.5)
    ),
    "released": NgramChoice(
        min_counts=(2,), measure="plain", drop_short_words=True, across_sentences=True
    ),
}
"""Options of Abaho et al. 2024, of Levine et al. 2021, and of the code released with the former.

The released code differs from its paper: a minimum of 2 occurrences instead of 5, and NLTK's
measure. It also uses all splits and removes English stop words, which `mslm-data vocab pmi` adds.
`released` then reproduces the released lists exactly with a cased vocabulary. An uncased vocabulary
merges words, and gives other lists.
"""


def as_options(choice: NgramChoice) -> dict[str, Any]:
    """Return the options as JSON values.

    Stop words may be private, and are replaced by their number.
    """
    return {**msgspec.structs.asdict(choice), "stop_words": len(choice.stop_words)}
