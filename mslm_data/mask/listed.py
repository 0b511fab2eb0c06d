"""Units from a list: its n-grams where they stand, and the words that are in none of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mslm_data.data.examples import Examples
from mslm_data.kernels.grams import unite_words
from mslm_data.lexicon.trie import open_trie
from mslm_data.mask.choose import Choose, Hide
from mslm_data.mask.draws import BRANCH, Draws
from mslm_data.mask.units import Units, mentions, runs


@dataclass(frozen=True, slots=True, kw_only=True)
class ChooseListed(Choose):
    """Hide units of each row, as `Choose` does: n-grams of a list, and words.

    Of an n-gram within another the larger is the unit; of overlapping ones some at random, the words of the others
    being units again. With `among = "generic"` no n-gram reaches into a mention.

    Attributes:
        vocabulary: The list's file.
        made_by: The command that makes one, for who has none.
    """

    vocabulary: str
    made_by: str
    hide: Hide = "words"

    def units(self, examples: Examples, draws: Draws) -> Units:
        """See `Choose`."""
        starts, ends, _ = open_trie(Path(self.vocabulary), made_by=self.made_by).matches(examples)
        offsets, words = examples.input_ids.offsets, examples.word_ids.values
        pool, numbers = np.ones(len(words), np.uint8), np.empty(len(words), np.int32)
        if self.among == "generic":
            terms = mentions(examples)
            terms.paint(offsets, terms.lengths, 0, pool)
        unite_words(
            offsets,
            words,
            starts.offsets,
            starts.values,
            ends.values,
            pool,
            draws.streams(BRANCH),
            numbers,
        )
        return runs(examples, numbers)
