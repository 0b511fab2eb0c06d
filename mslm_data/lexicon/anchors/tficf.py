"""Find the words that set a corpus apart from general text, by TF-ICF.

Difference-Masking (Wilf et al. 2023) compares all words with these.

The paper's code has anchors as fixed lists, and its formula divides by counts that may be 0.
Minimum counts and smoothing are therefore ours; see `find_anchors`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tokenizers

from mslm_data.data.ragged import Ragged
from mslm_data.errors import VocabularyError
from mslm_data.lexicon.anchors.general_text import Frequencies, spellings
from mslm_data.lexicon.store import Lexicon
from mslm_data.lexicon.word_types import WordTypes


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """An anchor word with its score and counts.

    Attributes:
        word: In lower case; corpus text.
        count: Its occurrences in the corpus, in whatever capitals.
        general: Its occurrences in the general text.
        score: TF-ICF.
    """

    word: str
    count: int
    general: int
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorOptions:
    """Limits for anchors.

    Attributes:
        count: Maximum number of anchors.
        min_count: Minimum number of occurrences in the corpus. Without it, words that occur once
            come first.
        smoothing: Added to each count of the general text, above 0, as it may lack a word.
        stop_words: Words that cannot be anchors, in lower case. The ratio leaves hardly any of them
            among the first.
    """

    count: int = 20
    min_count: int = 20
    smoothing: float = 1.0
    stop_words: Collection[str] = ()

    def __post_init__(self) -> None:
        if not (self.smoothing > 0 and math.isfinite(self.smoothing)):
            raise ValueError(f"smoothing: expected a number above 0, got {self.smoothing}")


def find_anchors(
    words: WordTypes,
    tokenizer: tokenizers.Tokenizer,
    general: Frequencies,
    options: AnchorOptions,
    *,
    about: Mapping[str, Any],
) -> tuple[Lexicon, list[Anchor]]:
    """Rank the words of a corpus by TF-ICF(w) = (c_T(w) / N_T) / ((c_P(w) + a) / (N_P + a V)).

    Words are taken in lower case, and only those of two letters or more and nothing else count. N_T
    is the number of words of the corpus, N_P that of the general text, V the number of different
    words of the general text, and a the smoothing. Of equal scores the word that is more frequent
    in the corpus comes first, then the alphabet decides.

    Args:
        words: Of the corpus' rows.
        tokenizer: Its folder's.
        general: The general text.
        options: Which words become anchors.
        about: What the lexicon says of what made it; see `Lexicon`. The counts N_T, N_P and V are
            added.

    Returns:
        A lexicon of each anchor's most frequent form, and the anchors as text; the best first in
        both.

    Raises:
        VocabularyError: No word is frequent enough, or the general text has no words.
    """
    if not general.counts:
        raise VocabularyError("general: the general text has no words; use another")

    found = spellings(words, tokenizer)
    total = sum(one.count for one in found.values())
    general_total = sum(general.counts.values())
    scale = (general_total + options.smoothing * len(general.counts)) / max(total, 1)

    ranked = []
    for word, one in found.items():
        if one.count >= options.min_count and word not in options.stop_words:
            in_general = general.counts.get(word, 0)
            ratio = one.count / (in_general + options.smoothing)
            score = ratio * scale  # in this order words of equal ratios keep equal scores
            ranked.append(Anchor(word=word, count=one.count, general=in_general, score=score))

    if not ranked:
        raise VocabularyError(
            f"anchors: no words occur {options.min_count} times or more; lower --min-count"
        )

    anchors = sorted(ranked, key=lambda one: (-one.score, -one.count, one.word))[: options.count]

    counts = {
        "words": total,
        "general_words": general_total,
        "general_vocabulary": len(general.counts),
    }
    lexicon = Lexicon(
        tokens=Ragged.from_rows(
            [words.tokens[found[anchor.word].form].tolist() for anchor in anchors], np.int32
        ),
        word_starts=Ragged(np.zeros(len(anchors), np.int32), np.arange(len(anchors) + 1)),
        scores=np.array([anchor.score for anchor in anchors]),
        about={"kind": "anchors", **about, "counts": counts},
    )
    return lexicon, anchors
