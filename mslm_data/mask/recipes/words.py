"""Whole words at random: BERT's and PubMedBERT's, Hugging Face's, fairseq's, and a plain baseline.

They differ in what a word is. BERT's are pieces with their `##`, which are the rows' `word_ids`.
Hugging Face's stand between white space, so that `results,` is one. fairseq's depend on the
tokenizer.
"""

from __future__ import annotations

from typing import Annotated, Literal

from mslm_data.mask.budget import Budget
from mslm_data.mask.corruption import Corruption
from mslm_data.mask.orders import Order
from mslm_data.mask.pick import Eligible, Pick
from mslm_data.mask.rate import Limit, Rate
from mslm_data.mask.strategy import Recipe
from mslm_data.registry import Help


def whole_word(
    rate: Annotated[
        Rate, Help("Share of the row's tokens, special ones included, though never masked.")
    ] = 0.15,
    max_masked: Annotated[
        Limit,
        Help("Maximum number of masked tokens; 20 is for rows of 128 tokens, 0 for no limit."),
    ] = 20,
    corruption: Annotated[str, Help("`80-10-10` as in the code; see `Corruption`.")] = "80-10-10",
) -> Recipe:
    """Mask whole words up to a number of tokens, as BERT's whole-word models and PubMedBERT do.

    In `create_pretraining_data.py` of google-research/bert the budget is that of `bert`, in tokens.
    Words come in random order. A word longer than the rest of the budget is skipped for the next,
    so fewer tokens may be masked than are due. Each token of a word meets its own fate, and random
    ids come from the whole vocabulary. Hugging Face's older whole-word collator does the same with
    `max_masked` at 512. PubMedBERT (Gu et al. 2021) masks whole words at 0.15: recalled from the
    paper, not re-read.

    BERT splits `IL-2` into three words, and so do rows of running text. In corpora of given words
    it is one, as given.
    """
    budget = Budget(
        rate, counts="all tokens", rounding="nearest", min_masked=1, max_masked=max_masked or None
    )
    words = Pick("words", budget, Eligible(unknown=True))
    return Recipe((words,), Corruption(corruption, random_ids="vocabulary"))


def whole_word_hf(
    rate: Annotated[Rate, Help("Chance of each word.")] = 0.15,
    unknown: Annotated[bool, Help("Whether words with `[UNK]` can be masked.")] = False,
    corruption: Annotated[
        str, Help("`mask`, the only one that the collator has for words; see `Corruption`.")
    ] = "mask",
) -> Recipe:
    """Mask each stretch between white space independently, as Hugging Face's whole-word collator.

    In `DataCollatorForLanguageModeling(whole_word_mask=True)` of transformers 5.23 a token begins a
    word unless it begins at the character where the token before it ends, and that token is not
    special. So `results,` is one word, and `pro-inflammatory` too. Pieces of one character, as
    byte-level tokenizers make them, are words of their own there, and stay together here. With
    SentencePiece tokenizers the collator differs: a piece's offsets include the space before it, so
    that a whole row is one word there, and this strategy does not follow it.

    A word is masked whole, and always replaced by `[MASK]`. That needs characters: build
    with `encode.keep_text`. Without them, words are those of `word_ids`, which is the same for
    corpora of given words. Whether `[UNK]` is masked depends on the collator's caller, see `token`.
    Where it is not, a word that holds one is never masked here; there its other pieces can be.
    """
    words = Pick("chunks", Budget(rate), Eligible(unknown=unknown), Order("bernoulli"))
    return Recipe((words,), Corruption(corruption))


def whole_word_roberta(
    rate: Annotated[Rate, Help("Share of the row's words.")] = 0.15,
    unit: Annotated[
        Literal["words", "chunks"],
        Help(
            "What a word is: `words` of `word_ids`, as with a WordPiece tokenizer there, or "
            "`chunks` between white space, as with RoBERTa's byte-level BPE, where only a token "
            "with a space before it begins a word (needs `encode.keep_text`)."
        ),
    ] = "words",
    corruption: Annotated[str, Help("`80-10-10` as in the code; see `Corruption`.")] = "80-10-10",
) -> Recipe:
    """Mask whole words, `int(rate * n + u)` of n words in each row, as fairseq does.

    In fairseq's `mask_tokens_dataset.py` with `mask_whole_words`, u is uniform in `[0, 1)`, so the
    mean number is exactly `rate * n`. A word meets one fate, but random ids, none of them special,
    are drawn for each of its tokens. There `<s>` and `</s>` are words like others. Here they are
    never masked nor counted, and other words keep their chance.
    """
    words = Pick(unit, Budget(rate, rounding="random"), Eligible(unknown=True))
    fate: Literal["word", "unit"] = "word" if unit == "words" else "unit"
    return Recipe((words,), Corruption(corruption, by=fate))


def random_word(
    rate: Annotated[Rate, Help("Share of the row's words; the number is rounded up.")] = 0.15,
    corruption: Annotated[str, Help("`80-10-10` as in the slides; see `Corruption`.")] = "80-10-10",
) -> Recipe:
    """Mask a fixed share of each row's words: the baseline of the Difference-Masking slides.

    No code of it was released. Where the slides are silent it is as the rest of this package:
    counts are exact ceilings, words with `[UNK]` are never masked, and random ids are those that
    are not special.
    """
    return Recipe((Pick("words", Budget(rate)),), Corruption(corruption))
