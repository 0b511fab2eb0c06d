"""N-grams from a lexicon ranked by pointwise mutual information (PMI), and concepts.

`mslm-data vocab pmi` makes such a lexicon from a built folder. The three PMI strategies agree on
what a list is, and on little else.
"""

from __future__ import annotations

from typing import Annotated, Literal

from mslm_data.mask.budget import Budget
from mslm_data.mask.combined_picks import ByEpoch
from mslm_data.mask.corruption import Corruption
from mslm_data.mask.listed_picks import InOrder, Occurrences, Scattered
from mslm_data.mask.orders import Order
from mslm_data.mask.pick import Listed, Pick
from mslm_data.mask.rate import Limit, Rate
from mslm_data.mask.strategy import Recipe
from mslm_data.registry import Help


def pmi(
    lexicon: Annotated[str, Help("File of the list, in its order of use.")] = "pmi.arrow",
    rate: Annotated[Rate, Help("Share of the tokens, special ones aside.")] = 0.15,
    corruption: Annotated[str, Help("`mask` as in the paper; see `Corruption`.")] = "mask",
) -> Recipe:
    """Mask listed n-grams, those of highest rank first, until a share of the tokens is masked.

    Abaho et al. 2024, appendix E, Algorithm 2. As printed it never ends and leaves much open, so:

    * The budget is `ceil(rate * tokens that are not special)`, exactly.
    * The list is gone through in passes. In a pass each n-gram masks its left-most occurrence none
      of whose tokens is masked yet. A pass that masks nothing is the last, and the budget may stay
      unspent.
    * The last n-gram is cut to the rest of the budget (lines 8 to 10).
    * An occurrence is contiguous, begins at the first token of a word and ends at the last of one.
    * Nothing is random: a row's mask is the same in all epochs.

    "The total masking budget is maintained" (section 5) does not hold for short lists: about a
    fifth of BC2GM's sentences hold no n-gram of its released list.
    """
    return Recipe((InOrder(lexicon=lexicon, rate=rate),), Corruption(corruption))


def pmi_released(
    lexicon: Annotated[str, Help("File of the list, in its order of use.")] = "pmi.arrow",
    rate: Annotated[Rate, Help("Share of the tokens.")] = 0.15,
    corruption: Annotated[str, Help("`mask` as in the code; see `Corruption`.")] = "mask",
) -> Recipe:
    """Mask the words of listed n-grams where each stands first, as the released code does.

    From mykelismyname/MSLM (`custom_mask.py`, `pmi_masking`), described in words, with no line
    copied:

    * The list is gone through once, from the top, until the budget is spent.
    * An n-gram is found where its sub-words are in the row in their order, with any others between
      them.
    * Then each of its words is masked by itself, where its sub-words first stand side by side. That
      may be before the n-gram, apart from it, or within a longer word, as word boundaries are not
      looked for.
    * The word in which the budget ends is cut; what is masked is not found again.
    * The budget is `ceil(rate * tokens)` in floats, of tokens that are neither special nor `[UNK]`.

    What cannot be reproduced: the released code tokenises the strings of its list when it masks,
    each word by itself and without what stands before it, where this takes the sub-words in the
    list (the same for WordPiece, not for byte-level vocabularies). A list holds no special token,
    so `[UNK]` is never masked here, while a released list may name words that become one. With the
    script's `random_mask` it masks BLM tokens on top, and forgets which tokens the list masked.
    """
    return Recipe((Scattered(lexicon=lexicon, rate=rate),), Corruption(corruption))


def pmi_levine(
    lexicon: Annotated[str, Help("File of the list; its order does not matter.")] = "pmi.arrow",
    rate: Annotated[Rate, Help("Share of the tokens, special ones aside.")] = 0.15,
    overrun: Annotated[
        Literal["skip", "stop"],
        Help(
            "What happens to a unit of more tokens than are left: `skip` it and try others, or "
            "`stop`."
        ),
    ] = "skip",
    corruption: Annotated[str, Help("`80-10-10` of whole units; see `Corruption`.")] = "80-10-10",
) -> Recipe:
    """Mask listed n-grams and single words, all as likely, until a share of tokens is masked.

    Levine et al. 2021, PMI-Masking; recalled from the paper, not re-read. N-grams of a list are
    units like words. Where one holds another, the larger is the unit; of overlapping ones one is,
    at random, and the words of the others are units again. Units are drawn uniformly until 15 % of
    the tokens are masked, and a unit shares one fate of 80-10-10.

    Decided where it is silent: the share is of the tokens that are not special, rounded up. A unit
    of more tokens than are left is skipped. Of several that overlap, taken in random order, each
    stays that overlaps none before it, drawn anew in each epoch. An n-gram within a larger one that
    lost does not come back.
    """
    units = Pick(Listed(lexicon), Budget(rate, counts="tokens", overrun=overrun))
    return Recipe((units,), Corruption(corruption, by="unit"))


def ccm(
    lexicons: Annotated[
        tuple[str, ...], Help("Files of the lists, one for each stage, in order.")
    ] = ("concepts.arrow",),
    rate: Annotated[
        Rate, Help("Expected share of the tokens, in warm-up and in each stage but the last.")
    ] = 0.15,
    last_rate: Annotated[Rate, Help("Expected share of concepts' tokens in the last stage.")] = 0.1,
    rest_rate: Annotated[Rate, Help("Chance of each other token in the last stage.")] = 0.05,
    max_masked: Annotated[
        Limit,
        Help(
            "Number of masked tokens after which no concept is tried, except in the last stage; 0 "
            "for no limit."
        ),
    ] = 20,
    warm_up: Annotated[int, Help("Number of warm-up epochs.")] = 1,
    epochs: Annotated[int, Help("Number of epochs of each stage but the last.")] = 1,
    corruption: Annotated[
        str, Help("`mask`, or shares of whole occurrences such as `80-10-10`; see `Corruption`.")
    ] = "mask",
) -> Recipe:
    """Mask listed concepts, from lists that grow by epoch; in the end single tokens too (CCM).

    Lee et al. 2022, concept-based curriculum masking. Read in the released code only
    (`src/dataloader.py` of KoreaMGLEE/Concept-based-curriculum-masking), described in words:

    * Warm-up: each token is masked with probability 0.15.
    * Stage k: the concepts of stages 1 to k. With n the row's tokens and c the tokens of all their
      occurrences (one within another counted again), each has the probability
      `int(0.15 * n) / c`. So 0.15 of the tokens are expected, or fewer. Concepts come in random
      order, and an occurrence is passed over where a token of it is masked. Once 20
      tokens are masked no further concept is tried.
    * Last stage: the same concepts at 0.10 and without that limit, then each token that is
      left, with probability 0.05.
    * All masked tokens become `[MASK]`.

    Another class of the same file differs: a share of 0.18, a limit of 19 or 20, 80-10-10 by
    occurrence, no last stage. The committed trainer uses that one, moves on every 100,000 steps and
    begins anew after the last stage. This strategy does not follow it, but for `corruption`.

    Decided here: stages follow the epoch, and the last one stays. List k is meant to hold those
    before it, and stage k uses it alone. Occurrences are whole words, where the code finds pieces
    within words too. There is no budget.
    """
    if not lexicons:
        raise ValueError("lexicons: expected one list or more, got none")
    if warm_up < 0:
        raise ValueError(f"warm_up: expected 0 epochs or more, got {warm_up}")
    if epochs < 1:
        raise ValueError(f"epochs: expected 1 or more, got {epochs}")

    bernoulli = Order("bernoulli")
    warming = (Pick("tokens", Budget(rate), order=bernoulli),)
    growing = [
        (Occurrences(lexicon=name, rate=rate, max_masked=max_masked or None),) for name in lexicons
    ]
    last = (
        Occurrences(lexicon=lexicons[-1], rate=last_rate),
        Pick("tokens", Budget(rest_rate), order=bernoulli),
    )
    curriculum = ByEpoch(
        epochs=(warm_up, *[epochs] * len(growing)),
        ways=(warming, *growing, last),
    )
    return Recipe((curriculum,), Corruption(corruption, by="unit"))
