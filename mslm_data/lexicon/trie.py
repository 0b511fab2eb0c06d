"""Build a trie of a lexicon, and find its entries in rows.

`Trie.matches` finds entries wherever they stand; `Trie.exact` looks up units, such as words, that
may be entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged
from mslm_data.errors import VocabularyError
from mslm_data.kernels.hashing import EMPTY
from mslm_data.kernels.token_trie import add_entries, exact_values, match_entries
from mslm_data.lexicon.artefacts import made_by
from mslm_data.lexicon.store import Lexicon, open_lexicon


@dataclass(frozen=True, slots=True, eq=False)
class Trie:
    """A lexicon with a trie of its entries.

    Attributes:
        lexicon: As it was read.
        edges: uint64 `[2**n]`, a hash table of the trie's edges; see `kernels/token_trie.py` for
            this and the other arrays.
        ending: int32 `[B + 2**n]`: which entry ends at a node, -1 for none.
        begins: uint8 `[B]`: whether an entry begins with a token.
        seconds: uint64 `[2**k]`: a filter of pairs of first and second tokens.
    """

    lexicon: Lexicon
    edges: Array
    ending: Array
    begins: Array
    seconds: Array

    @classmethod
    def from_lexicon(cls, lexicon: Lexicon) -> Trie:
        """Build the trie of a lexicon. Of equal entries the first counts."""
        tokens = lexicon.tokens

        # At most half of the places are taken: an edge for each token but the first of its entry.
        places = 1 << (2 * (len(tokens.values) - len(tokens)) + 1).bit_length()
        begins = np.zeros(tokens.values.max(initial=0) + 2, np.uint8)
        edges = np.full(places, EMPTY, np.uint64)
        ending = np.full(len(begins) + places, -1, np.int32)
        seconds = np.zeros(max(places // 8, 1), np.uint64)
        add_entries(tokens.offsets, tokens.values, edges, ending, begins, seconds)

        return cls(lexicon, edges, ending, begins, seconds)

    def table(self, values: Array, missing: float) -> Array:
        """The hash table for `exact`.

        Args:
            values: A number for each entry, `[E]`.
            missing: The number of units that are not entries.
        """
        return np.append(np.append(values, missing)[self.ending], missing)

    def exact(self, examples: Examples, starts: Ragged, ends: Ragged, table: Array) -> Array:
        """Return the entry that each unit equals, `[U]`.

        Args:
            examples: N rows.
            starts: The units' first tokens, N rows, U values.
            ends: The tokens after their last ones.
            table: From `table`.

        Raises:
            VocabularyError: A lexicon of another tokenizer.
        """
        self.check(examples)

        ids = examples.input_ids
        out = np.empty(len(starts.values), table.dtype)
        where = (ids.offsets, ids.values, starts.offsets, starts.values, ends.values)
        exact_values(*where, self.edges, table, out)
        return out

    def matches(self, examples: Examples) -> tuple[Ragged, Ragged, npt.NDArray[np.int32]]:
        """Find all entries of whole words in the sentences of rows, overlapping ones included.

        Returns:
            Starts and ends in tokens of the row, half open, N rows each, and the number of the
            entry at each place. They are ordered by first token, then by length.

        Raises:
            VocabularyError: A lexicon of another tokenizer.
        """
        self.check(examples)

        ids = examples.input_ids.values
        offsets = examples.sentence_offsets
        sentences = (offsets, ids, examples.word_ids.values)
        trie = (self.edges, self.ending, self.begins, self.seconds)
        out = np.empty((len(ids) + 16, 3), np.int32)
        found = np.empty(len(offsets), np.int64)
        match_entries(*sentences, *trie, out, found)

        # The kernel counts what it has no room for, so a second pass has enough.
        if found[-1] > len(out):
            out = np.empty((found[-1], 3), np.int32)
            match_entries(*sentences, *trie, out, found)

        starts, ends, entries = np.ascontiguousarray(out[: found[-1]].T)
        of = examples.sentence_starts
        if of is not None:
            # From tokens of the sentence to tokens of the row, and from sentences to rows.
            rows = np.repeat(examples.input_ids.offsets[:-1], of.lengths)
            shifts = np.repeat(offsets[:-1] - rows, np.diff(found)).astype(np.int32)
            starts += shifts
            ends += shifts
            found = found[of.offsets]
        return Ragged(starts, found), Ragged(ends, found), entries

    def check(self, examples: Examples) -> None:
        """Check that rows use the lexicon's tokenizer, by its number of ids.

        Raises:
            VocabularyError: A lexicon of another tokenizer.
        """
        size = self.lexicon.about["size"]
        if size != examples.ids.size:
            raise VocabularyError(
                f"lexicon: expected one of a tokenizer of {examples.ids.size} ids, got one of "
                f"{size}; make it from these shards"
            )


def open_trie(path: Path) -> Trie:
    """Read a lexicon and build its trie.

    The last 8 are remembered as long as their files do not change.

    Raises:
        VocabularyError: The file is missing, not a lexicon, of a newer format, or damaged.
    """
    return _laid_out(open_lexicon(path))


def open_words(path: Path) -> Trie:
    """Read a lexicon of words or n-grams and build its trie; see `open_trie`.

    Raises:
        VocabularyError: See `open_trie`; or the lexicon lists token ids, which are pieces of words.
    """
    trie = open_trie(path)

    made = made_by(trie.lexicon.about)
    if made.get("of") == "frequency" or made.get("by") == "ids":
        raise VocabularyError(f"{path}: expected entries of words, got numbers of token ids")
    return trie


@lru_cache(maxsize=8)
def _laid_out(lexicon: Lexicon) -> Trie:
    return Trie.from_lexicon(lexicon)
