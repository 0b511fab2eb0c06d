"""Rank the n-grams of rows by pointwise mutual information, as a lexicon for PMI masking.

N-grams are within one row, unless all rows are treated as one sentence. N-grams across the windows
of a long sentence are therefore not counted. N-grams with `[UNK]` are skipped, since it stands for
many words.

Ties are broken by words, as in the released lists: token ids differ between tokenizers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers

from mslm_data.data.examples import Examples, TokenIds
from mslm_data.data.ragged import Ragged
from mslm_data.errors import VocabularyError
from mslm_data.lexicon.ngrams.association import MEASURES
from mslm_data.lexicon.ngrams.choice import RECIPES, NgramChoice
from mslm_data.lexicon.ngrams.counting import count_ngrams, spell
from mslm_data.lexicon.ngrams.listing import (
    Listing,
    count_covered_tokens,
    find_size,
    list_sizes,
    order_by_score,
)
from mslm_data.lexicon.ngrams.stream import read_words
from mslm_data.lexicon.store import Lexicon
from mslm_data.lexicon.word_types import WordTypes, word_strings


def rank_ngrams(
    chunks: Iterable[Examples],
    tokenizer: tokenizers.Tokenizer,
    ids: TokenIds,
    choice: NgramChoice = RECIPES["paper"],
    *,
    about: Mapping[str, Any],
) -> Lexicon:
    """Make a lexicon of the n-grams of rows.

    N-grams with equal scores are sorted by the text of their words.

    Args:
        chunks: Rows, such as `Split.chunks()`.
        tokenizer: The folder's tokenizer, to decode words.
        ids: Token ids of the tokenizer.
        choice: Selection and order of n-grams.
        about: Metadata, see `Lexicon`.

    Returns:
        The lexicon. `about["counts"]` has `entries` by length, `tokens` (non-special), and
        `covered_tokens` (in an entry).

    Raises:
        VocabularyError: No n-grams are left.
    """
    low, high = choice.lengths
    stream = read_words(chunks, across=choice.across_sentences)
    min_counts = [choice.min_count(max(n, low)) for n in range(2, high + 1)]
    kept, ties = _find_usable_words(stream.words, tokenizer, ids, min(min_counts), choice)
    grams = count_ngrams(stream, min_counts, kept=kept)

    listings = {}
    for n in range(low, high + 1):
        frequent = np.flatnonzero(grams[n - 1].counts >= choice.min_count(n))
        scores = MEASURES[choice.measure](grams, stream.positions, n)[frequent]
        listings[n] = Listing(frequent, spell(grams, n)[frequent], scores).sort(ties)
    if not any(map(len, listings.values())):
        raise VocabularyError(
            f"no n-grams of {low} to {high} words occur "
            f"{', '.join(map(str, choice.min_counts))} times among {stream.positions[1]} words; "
            "lower --min-count, or use more splits"
        )

    # With the size of the smallest list for each n-gram, any size or coverage is a comparison.
    sizes = list_sizes(listings, choice.shares)
    tokens = count_covered_tokens(stream, grams, listings, sizes)
    size = choice.size or find_size(tokens, choice.coverage)
    listed = {
        n: listing.select((sizes[n] > 0) & (sizes[n] <= size)) for n, listing in listings.items()
    }
    if not any(map(len, listed.values())):
        raise VocabularyError(
            f"no entries: each share of {size} n-grams is less than one; use a larger size"
        )

    counts = {
        "entries": {str(n): len(listing) for n, listing in listed.items()},
        "tokens": int(tokens.sum()),
        "covered_tokens": int(tokens[:-1][: size + 1].sum()),
    }
    about = {**about, "size": ids.size, "counts": counts}
    return _make_lexicon(listed, choice.order, stream.words.tokens, about)


def ngram_strings(lexicon: Lexicon, tokenizer: tokenizers.Tokenizer) -> list[str]:
    """Return the text of each entry, words joined by spaces."""
    tokens = lexicon.tokens

    # Decode all words at once: as rows of one array of sub-words.
    starts = lexicon.word_starts.values + np.repeat(tokens.offsets[:-1], lexicon.words)
    words = word_strings(Ragged(tokens.values, np.append(starts, len(tokens.values))), tokenizer)
    offsets = lexicon.word_starts.offsets.tolist()
    return [" ".join(words[start:stop]) for start, stop in pairwise(offsets)]


def _find_usable_words(
    words: WordTypes,
    tokenizer: tokenizers.Tokenizer,
    ids: TokenIds,
    min_count: int,
    choice: NgramChoice,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Return the word types allowed in n-grams, bool `[W]`, and their rank by text, `[W]`."""
    usable = words.counts >= min_count
    token_words = np.repeat(np.arange(len(words)), words.tokens.lengths)
    usable[token_words[np.isin(words.tokens.values, (*ids.special, ids.unk))]] = False

    # Decode only frequent words.
    numbers = np.flatnonzero(usable)
    texts = word_strings(words.tokens.take(numbers), tokenizer)
    by_text = sorted(range(len(texts)), key=texts.__getitem__)
    ties = np.zeros(len(words), np.int64)
    ties[numbers[by_text]] = np.arange(len(texts))

    dropped = [
        text.lower() in choice.stop_words or (choice.drop_short_words and len(text) < 2)
        for text in texts
    ]
    usable[numbers[np.array(dropped, np.bool_)]] = False
    return usable, ties


def _make_lexicon(
    listings: Mapping[int, Listing], order: str, types: Ragged, about: Mapping[str, Any]
) -> Lexicon:
    """Merge n-grams of all lengths, and sort them into their order of use."""
    words = Ragged.concatenate(
        [
            Ragged(listing.words.ravel(), np.arange(len(listing) + 1) * n)
            for n, listing in listings.items()
        ]
    )
    scores = np.concatenate([listing.scores for listing in listings.values()])

    places = np.arange(len(scores))
    if order == "score":
        places = order_by_score(listings)
    elif order == "longest":
        places = np.argsort(-words.lengths, kind="stable")
    words = words.take(places)

    # Concatenate the tokens of an entry's words; words start where the one before ends.
    pieces = types.take(words.values)
    offsets = pieces.offsets[words.offsets]
    starts = pieces.offsets[:-1] - np.repeat(offsets[:-1], words.lengths)
    return Lexicon(
        tokens=Ragged(pieces.values, offsets),
        word_starts=Ragged(starts.astype(np.int32), words.offsets),
        scores=scores[places],
        about={"kind": "ngrams", **about},
    )
