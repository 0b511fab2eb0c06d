"""N-grams ranked by pointwise mutual information (PMI), and concepts, both from a lexicon.

`mslm-data vocab pmi` makes a PMI lexicon from a built folder. Both PMI strategies read the
same lexicon and differ in everything else.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from mslm_data.mask.budget import Budget
from mslm_data.mask.corruption import Corruption
from mslm_data.mask.listed_picks import InOrder, Occurrences
from mslm_data.mask.orders import Order
from mslm_data.mask.pick import Listed, Pick
from mslm_data.mask.rate import Limit, Rate
from mslm_data.mask.recipes.options import RoundedUp, Shares
from mslm_data.mask.strategy import Curriculum, Recipe, ShippedPick


def pmi(
    lexicon: Annotated[
        str, Meta(description="File of the lexicon, in order of rank.")
    ] = "pmi.arrow",
    rate: RoundedUp = 0.15,
    corruption: Shares = "mask",
) -> Recipe:
    """Mask listed n-grams, those of highest rank first, until a share of the tokens is masked.

    Reference: Abaho et al. 2024, appendix E, Algorithm 2. The printed algorithm does not terminate
    and is incomplete. Here:

    * The budget is `ceil(rate * tokens)`, exact, without special tokens.
    * The lexicon is scanned in passes. In a pass, each n-gram masks its leftmost occurrence without
      masked tokens. A pass that masks nothing is the last one, so the budget may not be spent.
    * The last n-gram is cut to the remaining budget (lines 8 to 10).
    * An occurrence is contiguous, starts at the first token of a word and ends at the last token of
      a word.
    * There is no randomness: a row's mask is the same in all epochs.

    The paper says that "the total masking budget is maintained" (section 5). This is not so for
    short lexicons: about a fifth of the sentences of BC2GM contain no n-gram of its released list.
    """
    return Recipe((InOrder(lexicon=lexicon, rate=rate),), Corruption(corruption))


def pmi_levine(
    lexicon: Annotated[
        str, Meta(description="File of the lexicon. The order of its entries does not matter.")
    ] = "pmi.arrow",
    rate: RoundedUp = 0.15,
    overrun: Annotated[
        Literal["skip", "stop"],
        Meta(
            description="Action for a unit longer than the remaining budget: `skip` it and try "
            "other units, or `stop`."
        ),
    ] = "skip",
    corruption: Shares = "80-10-10",
) -> Recipe:
    """Mask listed n-grams and single words, equally likely, until a share of tokens is masked.

    Reference: PMI-Masking, Levine et al. 2021, recalled from the paper and not re-read. Units are
    the n-grams of the lexicon and all other words. An n-gram inside a larger one is no unit. Of
    overlapping n-grams, one is drawn at random; the words of the others are units again. Units are
    drawn uniformly until 15 % of the tokens are masked. All tokens of a unit get the same action of
    80-10-10.

    Where the paper is silent:

    * The budget is a share of the non-special tokens, rounded up. A unit longer than the remaining
      budget is skipped.
    * Overlapping n-grams are visited in a random order, new in each epoch. Each is kept if it
      overlaps no n-gram kept before. An n-gram inside a larger one that was not kept is not used
      either.
    """
    units = Pick(Listed(lexicon), Budget(rate, counts="tokens", overrun=overrun))
    return Recipe((units,), Corruption(corruption, by="unit"))


def ccm(
    lexicons: Annotated[
        tuple[str, ...],
        Meta(min_length=1, description="Files of the lexicons, one for each stage, in order."),
    ] = ("concepts.arrow",),
    rate: Annotated[
        Rate,
        Meta(
            description="Expected share of masked tokens, in the warm-up and in each stage but the "
            "last."
        ),
    ] = 0.15,
    last_rate: Annotated[
        Rate, Meta(description="Expected share of masked tokens of concepts in the last stage.")
    ] = 0.1,
    rest_rate: Annotated[
        Rate, Meta(description="Probability of each other token in the last stage.")
    ] = 0.05,
    max_masked: Annotated[
        Limit,
        Meta(
            description="Number of masked tokens in a row after which no more concepts are tried, "
            "or 0 for no limit. Does not apply to the last stage."
        ),
    ] = 20,
    warm_up: Annotated[int, Meta(ge=0, description="Number of warm-up epochs.")] = 1,
    epochs: Annotated[
        int, Meta(ge=1, description="Number of epochs of each stage but the last.")
    ] = 1,
    corruption: Shares = "mask",
) -> Curriculum:
    """Mask concepts of lists that grow by epoch, and in the last stage single tokens too (CCM).

    Reference: concept-based curriculum masking, Lee et al. 2022. Only the code was read,
    `src/dataloader.py` of KoreaMGLEE/Concept-based-curriculum-masking, and reimplemented from its
    behaviour:

    * Warm-up: each token is masked with probability 0.15.
    * Stage k uses the concepts of stages 1 to k. Let n be the number of tokens in the row, and c
      the number of tokens in all occurrences, nested occurrences counted again. Each occurrence is
      masked with probability `int(0.15 * n) / c`, so at most 0.15 of the tokens are expected to be
      masked. Concepts are visited in random order. An occurrence with a masked token is skipped.
      After 20 masked tokens, no more concepts are tried.
    * Last stage: the same concepts at 0.10 without that limit, then each remaining token with
      probability 0.05.
    * All masked tokens become `[MASK]`.

    Another class in the same file has a rate of 0.18, a limit of 19 or 20, 80-10-10 per occurrence,
    and no last stage. The committed trainer uses that class, changes stages every 100,000 steps,
    and restarts after the last. Only `corruption` follows it here.

    Differences from the code:

    * Stages follow the epoch, and the last one continues to the end of training.
    * Stage k reads lexicon k alone, which should contain the concepts of earlier stages.
    * Occurrences are whole words. The code also matches inside words.
    """
    bernoulli = Order("bernoulli")
    stages: list[tuple[ShippedPick, ...]] = [
        (Occurrences(lexicon=name, rate=rate, max_masked=max_masked),) for name in lexicons
    ]
    lengths = [epochs] * len(stages)
    if warm_up:
        stages.insert(0, (Pick("tokens", Budget(rate), order=bernoulli),))
        lengths.insert(0, warm_up)
    rest = Pick("tokens", Budget(rest_rate), order=bernoulli)
    stages.append((Occurrences(lexicon=lexicons[-1], rate=last_rate), rest))

    replacement = Corruption(corruption, by="unit")
    return Curriculum(tuple(Recipe(picks, replacement) for picks in stages), tuple(lengths))
