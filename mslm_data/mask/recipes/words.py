"""Whole words at random: BERT, PubMedBERT, Hugging Face, fairseq, and a plain baseline.

These strategies differ in the definition of a word. In BERT it is a piece with its `##` pieces,
which is the rows' `word_ids`. In Hugging Face's collator it is a stretch between white space, such
as `results,`. In fairseq it depends on the tokenizer.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from mslm_data.mask.budget import Budget
from mslm_data.mask.corruption import Corruption
from mslm_data.mask.orders import Order
from mslm_data.mask.pick import Eligible, Pick
from mslm_data.mask.rate import Rate
from mslm_data.mask.recipes.options import MaxMasked, OfAllTokens, Shares
from mslm_data.mask.strategy import Recipe


def whole_word(
    rate: OfAllTokens = 0.15,
    max_masked: MaxMasked = 20,
    corruption: Shares = "80-10-10",
) -> Recipe:
    """Mask whole words up to a number of tokens, as BERT's whole-word models and PubMedBERT do.

    Reference: `create_pretraining_data.py` of google-research/bert. The budget in tokens is that of
    `bert`. Words are drawn in random order. A word longer than the remaining budget is skipped, so
    a row may have fewer masked tokens than its budget. The limit of 20 is for rows of 128 tokens.
    The tokens of a word are corrupted independently, with random ids from the whole vocabulary.

    Hugging Face's former whole-word collator does the same with a `max_masked` of 512. PubMedBERT
    (Gu et al. 2021) masks whole words at 0.15; this is recalled from the paper, not re-read.

    BERT splits `IL-2` into three words, and so do rows from running text. In a corpus of given
    words, `IL-2` is one word.
    """
    budget = Budget(
        rate, counts="all tokens", rounding="nearest", min_masked=1, max_masked=max_masked
    )
    words = Pick("words", budget, Eligible(unknown=True))
    return Recipe((words,), Corruption(corruption, random_ids="vocabulary"))


def whole_word_hf(
    rate: Annotated[Rate, Meta(description="Probability of each word.")] = 0.15,
    unknown: Annotated[bool, Meta(description="Whether words with `[UNK]` are eligible.")] = False,
    corruption: Shares = "mask",
) -> Recipe:
    """Mask each stretch between white space independently, as Hugging Face's whole-word collator.

    Reference: `DataCollatorForLanguageModeling(whole_word_mask=True)` of transformers 5.23. A token
    belongs to the previous token's word if it starts at the character at which the previous token
    ends, unless the previous token is special. `results,` and `pro-inflammatory` are therefore one
    word each. Words are masked whole and replaced by `[MASK]`.

    Words need character offsets: build with `encode.keep_text`. Without offsets, words are those of
    `word_ids`, which are the same in a corpus of given words.

    Differences from the collator:

    * Byte-level tokenizers split some characters into several tokens. These are words of their own
      in the collator, and one word here.
    * SentencePiece offsets include the space before a piece, so the collator treats a whole row as
      one word. This strategy does not.
    * Whether the collator masks `[UNK]` depends on its caller, see `token`. If `unknown` is false,
      a word with an `[UNK]` is never masked here; the collator can mask its other tokens.
    """
    words = Pick("chunks", Budget(rate), Eligible(unknown=unknown), Order("bernoulli"))
    return Recipe((words,), Corruption(corruption))


def whole_word_roberta(
    rate: Annotated[Rate, Meta(description="Share of the row's words to mask.")] = 0.15,
    unit: Annotated[
        Literal["words", "chunks"],
        Meta(
            description="The definition of a word: `words` of `word_ids`, as in fairseq with a "
            "WordPiece tokenizer, or `chunks` between white space, as in fairseq with RoBERTa's "
            "byte-level BPE, where a word starts at a token with a space before it (needs "
            "`encode.keep_text`)."
        ),
    ] = "words",
    corruption: Shares = "80-10-10",
) -> Recipe:
    """Mask whole words, `int(rate * n + u)` of n words in each row, as fairseq does.

    Reference: `mask_tokens_dataset.py` of fairseq with `mask_whole_words`. u is uniform in `[0,
    1)`, so the expected number is exactly `rate * n`. All tokens of a word get the same action, but
    each gets its own random id, which is never special.

    fairseq treats `<s>` and `</s>` as words. Here they are neither counted nor masked; the
    probability of other words is the same.
    """
    words = Pick(unit, Budget(rate, rounding="random"), Eligible(unknown=True))
    group: Literal["word", "unit"] = "word" if unit == "words" else "unit"
    return Recipe((words,), Corruption(corruption, by=group))


def random_word(
    rate: Annotated[Rate, Meta(description="Share of the row's words to mask. Rounded up.")] = 0.15,
    corruption: Shares = "80-10-10",
) -> Recipe:
    """Mask a fixed share of each row's words: the baseline of the Difference-Masking slides.

    No code was released. Where the slides are silent, this strategy follows the conventions of this
    package: counts are exact ceilings, words with `[UNK]` are never masked, and random ids are
    never special.
    """
    return Recipe((Pick("words", Budget(rate)),), Corruption(corruption))
