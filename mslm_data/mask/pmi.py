"""Masking of n-grams whose words belong together, from a list ranked by pointwise mutual information (PMI).

`mslm-data vocab pmi` makes such a list from a built folder. The three strategies agree on what a list is and on little
else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, offsets_of
from mslm_data.kernels.grams import take_in_order, take_scattered
from mslm_data.kernels.tokens import count_at_least, open_pool
from mslm_data.lexicon.store import Lexicon
from mslm_data.lexicon.trie import Trie, open_trie
from mslm_data.mask.budget import quotas
from mslm_data.mask.corruption import Replacement, replacement_of
from mslm_data.mask.draws import Draws
from mslm_data.mask.listed import ChooseListed
from mslm_data.mask.plan import Draft, MaskKind
from mslm_data.mask.rate import Rate, rate_at
from mslm_data.mask.stages import Stage, Staged
from mslm_data.mask.units import Units

MADE_BY = "mslm-data vocab pmi DIR"


@dataclass(frozen=True, slots=True, kw_only=True)
class InOrder:
    """Hide listed n-grams in the order of their list, in passes; see `Pmi`.

    Attributes:
        vocabulary: The list's file.
        rate: Tokens to hide, as a share of those that are not special.
    """

    vocabulary: str
    rate: Rate

    def mark(self, examples: Examples, draws: Draws, draft: Draft) -> None:
        """See `Stage`."""
        *where, entries = listed_in(self.vocabulary).matches(examples)
        matches = Units(*where)
        pool, real = open_tokens(examples, draft)
        quota = quotas(rate_at(self.rate, draws), real, "up", draws)
        taken, offsets = np.zeros(len(matches), np.int64), examples.input_ids.offsets
        starts, ends = matches.starts, matches.ends.values
        take_in_order(offsets, starts.offsets, starts.values, ends, entries, pool, quota, taken)
        draft.owed += quota
        matches.take(offsets, taken, MaskKind.BASE, draft)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scattered:
    """Hide the words of listed n-grams that stand scattered in a row; see `PmiReleased`.

    Attributes:
        vocabulary: The list's file.
        rate: Tokens to hide, as a share of those that are neither special nor `[UNK]`; rounded up in floats.
    """

    vocabulary: str
    rate: Rate

    def mark(self, examples: Examples, draws: Draws, draft: Draft) -> None:
        """See `Stage`."""
        trie, ids, size = listed_in(self.vocabulary), examples.input_ids, examples.ids.size
        trie.check(examples)
        words, known = examples.word_ids.values, np.empty(len(examples), np.int64)
        count_at_least(ids.offsets, np.where(ids.values == examples.ids.unk, -1, words), 0, known)
        rates = rate_at(self.rate, draws) * np.ones(
            len(examples)
        )  # a rate of a row is not taken for a decimal
        quota = quotas(rates, known, "up", draws)
        pool, _ = open_tokens(examples, draft)
        before = pool.copy()
        take_scattered(ids.offsets, ids.values, *_layout(trie.lexicon, size), pool, quota)
        draft.owed += quota
        np.copyto(draft.kinds, np.uint8(MaskKind.BASE), where=pool != before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pmi(Staged):
    """Hide listed n-grams, those of highest rank first, until a share of the tokens is hidden.

    Abaho et al. 2024, appendix E, Algorithm 2. As printed it never ends, and much is left open, so:

    * the budget is `ceil(rate * tokens that are not special)`, exactly;
    * it goes over the list in passes; in a pass each n-gram hides its left-most occurrence none of whose tokens is
      hidden yet; a pass that hides nothing is the last, and the budget may stay unspent;
    * the last n-gram is cut to what is left of the budget (lines 8 to 10);
    * an occurrence is contiguous, begins at the first token of a word and ends at the last of one;
    * nothing is random: a row's mask is the same in all epochs.

    "The total masking budget is maintained" (section 5) does not hold for short lists: of BC2GM's released list about a
    fifth of the sentences holds no n-gram at all.

    Attributes:
        vocabulary: The list's file, in its order of use.
        rate: Share of the tokens, in `[0, 1]`.
        corruption: `mask` as in the paper, or percent of `[MASK]`, random and kept, such as `80-10-10`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`.
    """

    vocabulary: str = "pmi.arrow"
    rate: Rate = 0.15
    corruption: str = "mask"

    def stages(self) -> Sequence[Stage | None]:
        """Return the passes."""
        return (InOrder(vocabulary=self.vocabulary, rate=self.rate) if self.rate else None,)


@dataclass(frozen=True, slots=True, kw_only=True)
class PmiReleased(Staged):
    """Hide the words of listed n-grams, wherever in the row each stands first, as the released code does.

    From mykelismyname/MSLM (`custom_mask.py`, `pmi_masking`), described in words, no line of it copied:

    * the list is gone through once, from the top, until the budget is spent;
    * an n-gram is found where its sub-words are in the row in their order, with any others between them;
    * then each of its words is hidden by itself, where its sub-words first stand side by side: that may be before the
      n-gram, apart from it, or within a longer word, as nobody looks for word boundaries;
    * the word that the budget ends in is cut; what is hidden is not found again;
    * the budget is `ceil(rate * tokens)` in floats, of tokens that are neither special nor `[UNK]`.

    What cannot be reproduced: the released code tokenises the strings of its list when it masks, each word by itself
    and without what stands before it, where this takes the sub-words in the list (the same for WordPiece, not for
    byte-level vocabularies); a list holds no special token, so `[UNK]` is never hidden, while a released list may name
    words that become one; and with the script's `random_mask` it hides BLM tokens on top, and forgets which tokens the
    list hid.

    Attributes:
        vocabulary: The list's file, in its order of use.
        rate: Share of the tokens, in `[0, 1]`.
        corruption: See `Pmi`.

    Raises:
        ValueError: A rate that is not in `[0, 1]`.
    """

    vocabulary: str = "pmi.arrow"
    rate: Rate = 0.15
    corruption: str = "mask"

    def stages(self) -> Sequence[Stage | None]:
        """Return the one pass."""
        return (Scattered(vocabulary=self.vocabulary, rate=self.rate) if self.rate else None,)


@dataclass(frozen=True, slots=True, kw_only=True)
class PmiLevine(Staged):
    """Hide listed n-grams and single words, all equally likely, until a share of the tokens is hidden.

    Levine et al. 2021, PMI-Masking; recalled from the paper, not re-read: n-grams of a list are units like words; where
    one holds another the larger is the unit; of overlapping ones one at random, and the words of the others are units
    again. Units are drawn uniformly until 15 % of the tokens are hidden, and a unit shares one fate of 80-10-10.

    Decisions where it is silent: the share is of the tokens that are not special, rounded up; a unit of more tokens
    than are left is skipped; of several that overlap, each in random order stays that overlaps none before it, drawn
    anew in each epoch; an n-gram within a larger one that lost does not come back.

    Attributes:
        vocabulary: The list's file; its order is of no account.
        rate: Share of the tokens, in `[0, 1]`.
        overrun: What becomes of a unit of more tokens than are left: `skip` it and try others, or `stop`.
        corruption: See `Pmi`; of whole units.

    Raises:
        ValueError: A rate that is not in `[0, 1]`.
    """

    vocabulary: str = "pmi.arrow"
    rate: Rate = 0.15
    overrun: Literal["skip", "stop"] = "skip"
    corruption: str = "80-10-10"

    def stages(self) -> Sequence[Stage | None]:
        """Return the choice among n-grams and words."""
        return (
            ChooseListed(
                vocabulary=self.vocabulary,
                made_by=MADE_BY,
                rate=self.rate,
                of="tokens",
                overrun=self.overrun,
            ),
        )

    def replacement(self) -> Replacement:
        """Return 80-10-10 of whole units."""
        return replacement_of(self.corruption, by="unit")


def listed_in(vocabulary: str) -> Trie:
    """Return the list of n-grams in a file.

    Raises:
        VocabularyError: A file that is missing, damaged, or no lexicon.
    """
    return open_trie(Path(vocabulary), made_by=MADE_BY)


def open_tokens(examples: Examples, draft: Draft) -> tuple[Array, Array]:
    """Return which tokens can be hidden, uint8 `[T]`, and how many of each row are not special, int64 `[N]`."""
    pool, real = np.empty(len(draft.kinds), np.uint8), np.empty(len(examples), np.int64)
    ids, words = examples.input_ids, examples.word_ids.values
    open_pool(ids.offsets, words, ids.values, examples.ids.unk, draft.kinds, pool, real)
    return pool, real


@lru_cache(maxsize=4)
def _layout(lexicon: Lexicon, size: int) -> tuple[Array, Array, Array, Array, Array]:
    """Return a list as `take_scattered` wants it: entries under the rarest of their tokens, so that few are tried.

    Args:
        lexicon: The list.
        size: Ids of the tokenizer.
    """
    tokens, words = lexicon.tokens, lexicon.word_starts
    bounds = np.append(
        words.values + np.repeat(tokens.offsets[:-1], words.lengths), len(tokens.values)
    )
    entries = np.repeat(np.arange(len(lexicon), dtype=np.int32), tokens.lengths)
    counts = np.bincount(tokens.values, minlength=size)
    order = np.lexsort((counts[tokens.values], entries))
    rarest = tokens.values[order[tokens.offsets[:-1]]]
    listed = np.argsort(rarest, kind="stable").astype(np.int32)
    return (
        tokens.values,
        bounds,
        words.offsets,
        listed,
        offsets_of(np.bincount(rarest, minlength=size)),
    )
