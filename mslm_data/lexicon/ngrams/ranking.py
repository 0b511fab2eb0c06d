"""Rank the n-grams of rows by pointwise mutual information, as a lexicon for PMI masking.

An n-gram is counted within one row, unless rows are taken as one long sentence. Where a long
sentence was cut into rows, n-grams across the cut are not counted. An n-gram with a word that holds
`[UNK]` is left out, as it stands for many.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers

from mslm_data.data.examples import Examples, TokenIds
from mslm_data.data.ragged import Ragged, make_offsets
from mslm_data.errors import VocabularyError
from mslm_data.io import resources
from mslm_data.kernels.gather import gather
from mslm_data.lexicon.ngrams.association import MEASURES
from mslm_data.lexicon.ngrams.counting import count_ngrams, spell
from mslm_data.lexicon.ngrams.listing import (
    Listing,
    by_score,
    list_sizes,
    overlap,
    size_for,
    tokens_by_size,
)
from mslm_data.lexicon.ngrams.stream import LONGEST, read_words
from mslm_data.lexicon.store import Lexicon
from mslm_data.lexicon.word_types import WordTypes, word_strings
from mslm_data.registry import did_you_mean

ORDERS = ("length", "score", "longest")
"""Orders in which entries are used: short n-grams first, all by score, long n-grams first."""


@dataclass(frozen=True, kw_only=True)
class NgramChoice:
    """Options for the selection and order of n-grams.

    The defaults are those of Abaho et al. 2024; see `RECIPES`.

    Attributes:
        lengths: Number of words of the shortest and of the longest n-grams.
        min_counts: Minimum number of occurrences: one number, or one per length.
        measure: A name in `MEASURES`.
        size: Maximum number of entries: the best of all lengths, or with `shares` the best of each.
        coverage: In place of `size`: keep as many entries as needed to cover this share of the
            tokens.
        shares: Percentage of `size` that each length may have. Without shares all lengths compete
            by score.
        order: A name in `ORDERS`.
        drop_short_words: Leave out n-grams with a word of one character.
        stop_words: Leave out n-grams with one of these words, given in lower case; a word's own
            case does not matter.
        across_sentences: Count as if all rows were one sentence.
    """

    lengths: tuple[int, int] = (2, 4)
    min_counts: tuple[int, ...] = (5,)
    measure: str = "levine"
    size: int | None = None
    coverage: float | None = None
    shares: tuple[float, ...] = ()
    order: str = "length"
    drop_short_words: bool = False
    stop_words: frozenset[str] = field(default=frozenset(), repr=False)
    across_sentences: bool = False

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ValueError: An option is out of range, or two do not go together.
        """
        low, high = self.lengths
        number = max(high - low + 1, 1)

        if not 2 <= low <= high <= LONGEST:
            raise ValueError(f"lengths: expected from 2 to {LONGEST} words, got {low}-{high}")
        if len(self.min_counts) not in (1, number):
            raise ValueError(
                f"min-count: expected one number or {number}, got {len(self.min_counts)}"
            )
        if min(self.min_counts) < 1:
            raise ValueError(f"min-count: expected at least 1, got {min(self.min_counts)}")

        for name, value, known in (
            ("measure", self.measure, tuple(MEASURES)),
            ("order", self.order, ORDERS),
        ):
            if value not in known:
                raise ValueError(
                    f"{name}: expected one of {', '.join(known)}, got "
                    f"'{value}'{did_you_mean(value, known)}"
                )

        if self.size is not None and (self.size < 1 or self.coverage is not None):
            raise ValueError(f"size: expected at least 1 and no coverage besides, got {self.size}")
        if self.coverage is not None and not 0 < self.coverage <= 1:
            raise ValueError(f"coverage: expected a share in (0, 1], got {self.coverage}")

        if self.shares:
            is_whole = all(share >= 0 for share in self.shares) and math.isclose(
                sum(self.shares), 100, abs_tol=1e-6
            )
            if len(self.shares) != number or not is_whole:
                given = ", ".join(f"{share:g}" for share in self.shares)
                raise ValueError(
                    f"shares: expected {number} percentages, 0 or more, that sum to 100, got "
                    f"{given}"
                )
            if self.size is None and self.coverage is None:
                raise ValueError(
                    "shares: expected a size or a coverage that they are shares of, got neither"
                )

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
"""Recipes: those of Abaho et al. 2024, of Levine et al. 2021, and of the code released with the
former.

That code differs from its paper: 2 occurrences in place of 5, and NLTK's measure. It also takes all
splits and leaves out English stop words, which `mslm-data vocab pmi` adds. Then `released` gives
the released lists entry by entry, if the vocabulary is cased; an uncased one merges words that
differ in their capitals, and gives other lists."""


def rank_ngrams(
    chunks: Iterable[Examples],
    tokenizer: tokenizers.Tokenizer,
    ids: TokenIds,
    choice: NgramChoice = RECIPES["paper"],
    *,
    about: Mapping[str, Any],
) -> Lexicon:
    """Make a lexicon of the n-grams of rows.

    N-grams of equal score are in the order of their words' strings.

    Args:
        chunks: Rows, such as those of `Split.chunks()`.
        tokenizer: That of the folder, to decode words.
        ids: Its special ids.
        choice: Which n-grams.
        about: What the lexicon says of what made it; see `Lexicon`.

    Returns:
        The lexicon. Its `about["counts"]` holds `entries` by length, `tokens` (sub-words, without
        special ones), `covered_tokens` (those within an entry), and the counts of `overlap`.

    Raises:
        VocabularyError: No n-gram is left.
    """
    low, high = choice.lengths
    stream = read_words(chunks, across=choice.across_sentences)
    least = [choice.min_count(max(n, low)) for n in range(2, high + 1)]
    kept, ties = _usable(stream.words, tokenizer, ids, min(least), choice)
    grams = count_ngrams(stream, least, kept=kept)

    listings = {}
    for n in range(low, high + 1):
        frequent = np.flatnonzero(grams[n - 1].counts >= choice.min_count(n))
        scores = MEASURES[choice.measure](grams, stream.positions, n)[frequent]
        listings[n] = Listing(frequent, spell(grams, n)[frequent], scores).best(ties)
    if not any(map(len, listings.values())):
        raise VocabularyError(
            f"expected n-grams of {low} to {high} words that occur "
            f"{', '.join(map(str, choice.min_counts))} times, got "
            f"none among {stream.positions[1]} words; lower the least count, or take more splits"
        )

    # Every n-gram knows the smallest list that holds it, so any size or coverage is one comparison.
    sizes = list_sizes(listings, choice.shares)
    tokens = tokens_by_size(stream, grams, listings, sizes)
    size = choice.size or size_for(tokens, choice.coverage)
    listed = {
        n: listing.where((sizes[n] > 0) & (sizes[n] <= size)) for n, listing in listings.items()
    }
    if not any(map(len, listed.values())):
        raise VocabularyError(
            f"expected entries, got none: no length has a share in {size}; make the list longer"
        )

    counts = {
        "entries": {str(n): len(listing) for n, listing in listed.items()},
        "tokens": int(tokens.sum()),
        "covered_tokens": int(tokens[:-1][: size + 1].sum()),
        **overlap(stream, grams, listed),
    }
    about = {**about, "size": ids.size, "counts": counts}
    return _lexicon(listed, choice.order, stream.words.tokens, about)


def stop_words_in(name: str) -> frozenset[str]:
    """Read stop words, one per line, lower-cased.

    `english` names the shipped list, `none` no word.

    Raises:
        VocabularyError: No such file, not text, or a line of several words.
    """
    if name == "none":
        return frozenset()

    path = resources.path("vocab", "stop-words-english.txt") if name == "english" else Path(name)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise VocabularyError(
            f"{name}: expected a file of stop words, one a line, in UTF-8 "
            f"({type(error).__name__}); `english` names "
            "those that are shipped"
        ) from None

    for number, line in enumerate(lines, start=1):
        if len(line.split()) > 1:
            raise VocabularyError(
                f"{name}:{number}: expected one stop word a line, got a line of several words; "
                "leave counts and comments out"
            )
    return frozenset(word for line in lines if (word := line.strip().lower()))


def as_options(choice: NgramChoice) -> dict[str, Any]:
    """Return the options as JSON values.

    Stop words may be private: their number takes their place.
    """
    return {**asdict(choice), "stop_words": len(choice.stop_words)}


def ngram_strings(lexicon: Lexicon, tokenizer: tokenizers.Tokenizer) -> list[str]:
    """Return the text of each entry, words joined by spaces."""
    tokens = lexicon.tokens

    # All words of all entries as rows of one array of sub-words.
    starts = lexicon.word_starts.values + np.repeat(tokens.offsets[:-1], lexicon.words)
    words = word_strings(Ragged(tokens.values, np.append(starts, len(tokens.values))), tokenizer)
    offsets = lexicon.word_starts.offsets.tolist()
    return [" ".join(words[start:stop]) for start, stop in pairwise(offsets)]


def _usable(
    words: WordTypes,
    tokenizer: tokenizers.Tokenizer,
    ids: TokenIds,
    least: int,
    choice: NgramChoice,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Return which word types n-grams may contain, bool `[W]`, and their rank by text, `[W]`."""
    usable = words.counts >= least
    token_words = np.repeat(np.arange(len(words)), words.tokens.lengths)
    usable[token_words[np.isin(words.tokens.values, (*ids.special, ids.unk))]] = False

    # Only words that may come into question are decoded.
    numbers = np.flatnonzero(usable)
    texts = word_strings(_rows(words.tokens, numbers), tokenizer)
    by_text = sorted(range(len(texts)), key=texts.__getitem__)
    ties = np.zeros(len(words), np.int64)
    ties[numbers[by_text]] = np.arange(len(texts))

    dropped = [
        text.lower() in choice.stop_words or (choice.drop_short_words and len(text) < 2)
        for text in texts
    ]
    usable[numbers[np.array(dropped, np.bool_)]] = False
    return usable, ties


def _lexicon(
    listings: Mapping[int, Listing], order: str, types: Ragged, about: Mapping[str, Any]
) -> Lexicon:
    """Merge n-grams of all lengths, shortest first, into their order of use."""
    words = Ragged.concatenate(
        [
            Ragged(listing.words.ravel(), np.arange(len(listing) + 1) * n)
            for n, listing in listings.items()
        ]
    )
    scores = np.concatenate([listing.scores for listing in listings.values()])

    places = np.arange(len(scores))
    if order == "score":
        places = by_score(listings)
    elif order == "longest":
        places = np.argsort(-words.lengths, kind="stable")
    words = _rows(words, places)

    # An entry's tokens are those of its words, and a word begins where those before it end.
    pieces = _rows(types, words.values)
    offsets = pieces.offsets[words.offsets]
    starts = pieces.offsets[:-1] - np.repeat(offsets[:-1], words.lengths)
    return Lexicon(
        tokens=Ragged(pieces.values, offsets),
        word_starts=Ragged(starts.astype(np.int32), words.offsets),
        scores=scores[places],
        about={"kind": "ngrams", **about},
    )


def _rows(rows: Ragged, numbers: npt.NDArray[Any]) -> Ragged:
    """Select rows, in this order."""
    offsets = make_offsets(rows.lengths[numbers])
    out = np.empty(offsets[-1], rows.values.dtype)
    gather(numbers, rows.offsets, rows.values, offsets[:-1], out)
    return Ragged(out, offsets)
