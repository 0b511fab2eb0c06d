"""Whole words at random: BERT's and PubMedBERT's, Hugging Face's, fairseq's, and the plain form.

They differ in what a word is: BERT's are pieces with their `##`, which are the rows' `word_ids`; Hugging Face's stand
between white space, so that `results,` is one; fairseq's depend on the tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mslm_data.mask.choose import Choose
from mslm_data.mask.corruption import Replacement, replacement_of
from mslm_data.mask.rate import Limit, Rate
from mslm_data.mask.stages import Stage, Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeWord(Staged):
    """Hide whole words up to a number of tokens, as BERT's whole-word models and PubMedBERT do.

    In `create_pretraining_data.py` of google-research/bert the budget is that of `Bert`, in tokens. Words come in
    random order; one that is longer than what is left is skipped for the next, so that fewer tokens may be hidden than
    are due. Each token of a word meets its own fate, and random ids come from the whole vocabulary. Hugging Face's
    older whole-word collator does the same with `most` at 512. PubMedBERT (Gu et al. 2021) hides whole words at 0.15:
    recalled from the paper, not re-read.

    BERT splits `IL-2` into three words. So do rows of running text; in corpora of given words it is one, as given.

    Attributes:
        rate: Share of the row's tokens, specials counted though never hidden, in `[0, 1]`.
        most: The tokens hidden are this many at most: 20 is for rows of 128; None or 0 is no limit.
        corruption: `80-10-10` as in the code, or see `replacement_of`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`, or a negative limit.
    """

    rate: Rate = 0.15
    most: Limit = 20
    corruption: str = "80-10-10"

    def stages(self) -> Sequence[Stage]:
        """Return the one stage."""
        words = Choose(
            hide="words",
            rate=self.rate,
            of="all tokens",
            rounding="nearest",
            least=1,
            most=self.most or None,
            overrun="skip",
            unknown=True,
        )
        return (words,)

    def replacement(self) -> Replacement:
        """See `Staged`."""
        return replacement_of(self.corruption, ids="vocabulary")


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeWordHf(Staged):
    """Hide each stretch between white space by a coin, as Hugging Face's collator does for whole words.

    `DataCollatorForLanguageModeling(whole_word_mask=True)` of transformers 5.23: a token begins a word unless it begins
    at the character where the token before it ends, and that one is not special. So `results,` is one word, and
    `pro-inflammatory` too. (Pieces of one character, as byte-level tokenizers make them, are words of their own there,
    and stay together here.) A word is hidden by one coin, whole, and always behind `[MASK]`. That needs characters:
    build with `encode.keep_text`; without, words are those of `word_ids`, which is the same for corpora of given words.

    Whether `[UNK]` is hidden is up to the collator's caller, see `Token`. Where it is not, a word that holds one is
    never hidden here; there its other pieces can be.

    Attributes:
        rate: Chance of each word, in `[0, 1]`.
        unknown: Whether words with `[UNK]` may be hidden.
        corruption: `mask`, the only one that the collator has for words, or see `replacement_of`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`.
    """

    rate: Rate = 0.15
    unknown: bool = False
    corruption: str = "mask"

    def stages(self) -> Sequence[Stage]:
        """Return the one stage."""
        return (Choose(hide="chunks", rate=self.rate, how="each", unknown=self.unknown),)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeWordRoberta(Staged):
    """Hide whole words, `int(rate * n + u)` of n words in each row, as fairseq does.

    In fairseq's `mask_tokens_dataset.py` with `mask_whole_words`: u is uniform in `[0, 1)`, so that the mean number is
    exactly `rate * n`. A word meets one fate, but random ids, none special, are drawn for each of its tokens. There
    `<s>` and `</s>` are words like others; here they are never hidden nor counted, and other words keep their chance.

    Attributes:
        rate: Share of the row's words, in `[0, 1]`.
        unit: What a word is: `words` of `word_ids`, as with a WordPiece tokenizer there, or `chunks` between white
            space, as with RoBERTa's byte-level BPE, where only a token with a space before it begins a word (needs
            `encode.keep_text`).
        corruption: `80-10-10` as in the code, or see `replacement_of`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`.
    """

    rate: Rate = 0.15
    unit: Literal["words", "chunks"] = "words"
    corruption: str = "80-10-10"

    def stages(self) -> Sequence[Stage]:
        """Return the one stage."""
        return (
            Choose(hide=self.unit, rate=self.rate, of="units", rounding="random", unknown=True),
        )

    def replacement(self) -> Replacement:
        """See `Staged`."""
        return replacement_of(self.corruption, by="word" if self.unit == "words" else "unit")


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomWord(Staged):
    """Hide whole words, a fixed share of each row: the plain baseline of the Difference-Masking slides.

    No code of it was released, so where the slides are silent it is as the rest of this package: counts are exact
    ceilings, words with `[UNK]` are never hidden, random ids are those that are not special.

    Attributes:
        rate: Share of the row's words, in `[0, 1]`; the number is rounded up.
        corruption: `80-10-10` as in the slides, or see `replacement_of`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`.
    """

    rate: Rate = 0.15
    corruption: str = "80-10-10"

    def stages(self) -> Sequence[Stage]:
        """Return the one stage."""
        return (Choose(hide="words", rate=self.rate, of="units"),)
