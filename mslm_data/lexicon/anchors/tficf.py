"""Find words that are typical of a corpus compared with general text, by TF-ICF.

Difference-Masking (Wilf et al. 2023) compares all words with these anchors.

The paper's code has fixed lists of anchors, and its formula divides by counts that may be 0.
Minimum counts and smoothing are our additions, see `find_anchors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tokenizers

from mslm_data.data.ragged import Ragged
from mslm_data.errors import VocabularyError
from mslm_data.lexicon.anchors.choice import AnchorOptions
from mslm_data.lexicon.anchors.general_text import Frequencies, spellings
from mslm_data.lexicon.store import Lexicon
from mslm_data.lexicon.word_types import WordTypes


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """An anchor word with score and counts.

    Attributes:
        word: Lower-case text; it comes from the corpus.
        count: Number of occurrences in the corpus, in any case.
        general: Number of occurrences in the general text.
        score: TF-ICF.
    """

    word: str
    count: int
    general: int
    score: float


def find_anchors(
    words: WordTypes,
    tokenizer: tokenizers.Tokenizer,
    general: Frequencies,
    options: AnchorOptions,
    *,
    about: Mapping[str, Any],
) -> tuple[Lexicon, list[Anchor]]:
    """Rank the words of a corpus by TF-ICF(w) = (c_T(w) / N_T) / ((c_P(w) + a) / (N_P + a V)).

    c_T(w) and c_P(w) are counts of w in the corpus and in the general text, N_T and N_P the total
    counts, V is the number of distinct words of the general text, and a the smoothing. Only words
    of two or more letters are counted, in lower case. Ties are broken by the count in the corpus,
    then alphabetically.

    Args:
        words: Word types of the corpus.
        tokenizer: The folder's tokenizer.
        general: Word counts of the general text.
        options: Limits for anchors.
        about: Metadata, see `Lexicon`. The counts N_T, N_P and V are added.

    Returns:
        A lexicon with the most frequent form of each anchor, and the anchors as text; best first.

    Raises:
        VocabularyError: No word is frequent enough, or the general text has no words.
    """
    if not general.counts:
        raise VocabularyError("general: the general text has no words; use another")

    by_word = spellings(words, tokenizer)
    total = sum(spelling.count for spelling in by_word.values())
    general_total = sum(general.counts.values())

    # Constant factor of the ratios: (N_P + a V) / N_T.
    scale = (general_total + options.smoothing * len(general.counts)) / max(total, 1)

    ranked = []
    for word, spelling in by_word.items():
        if spelling.count >= options.min_count and word not in options.stop_words:
            general_count = general.counts.get(word, 0)
            ratio = spelling.count / (general_count + options.smoothing)
            score = ratio * scale  # multiply last: equal ratios give equal scores
            ranked.append(
                Anchor(word=word, count=spelling.count, general=general_count, score=score)
            )

    if not ranked:
        raise VocabularyError(
            f"anchors: no words occur {options.min_count} times or more; lower --min-count"
        )

    ranked.sort(key=lambda anchor: (-anchor.score, -anchor.count, anchor.word))
    anchors = ranked[: options.count]

    counts = {
        "words": total,
        "general_words": general_total,
        "general_vocabulary": len(general.counts),
    }
    forms = [words.tokens[by_word[anchor.word].form].tolist() for anchor in anchors]
    lexicon = Lexicon.from_words(
        Ragged.from_rows(forms, np.int32),
        np.array([anchor.score for anchor in anchors]),
        {"kind": "anchors", **about, "counts": counts},
    )
    return lexicon, anchors
