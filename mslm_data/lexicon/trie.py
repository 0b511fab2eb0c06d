"""Build a trie of a lexicon, and find its entries in rows.

`Trie.matches` finds all occurrences of entries; `Trie.exact` looks up given units, such as words.
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
    """A lexicon with a trie of its entries; see `kernels/token_trie.py` for the arrays.

    Attributes:
        lexicon: The lexicon.
        edges: uint64 `[2**n]`, hash table of edges.
        ending: int32 `[B + 2**n]`, entry that ends at a node, -1 for none.
    """

    lexicon: Lexicon
    edges: Array
    ending: Array

    @classmethod
    def from_lexicon(cls, lexicon: Lexicon) -> Trie:
        """Build the trie of a lexicon. Of equal entries the first is used."""
        tokens = lexicon.tokens

        # An edge for each token except an entry's first, at a load factor of at most 1/2.
        places = 1 << (2 * (len(tokens.values) - len(tokens)) + 1).bit_length()
        edges = np.full(places, EMPTY, np.uint64)
        ending = np.full(tokens.values.max(initial=0) + 2 + places, -1, np.int32)
        add_entries(tokens.offsets, tokens.values, edges, ending)

        return cls(lexicon, edges, ending)

    def table(self, values: Array, missing: float) -> Array:
        """Return the lookup table for `exact`.

        Args:
            values: Number of each entry, `[E]`.
            missing: Number for units that are not entries.
        """
        return np.append(np.append(values, missing)[self.ending], missing)

    def exact(self, examples: Examples, starts: Ragged, ends: Ragged, table: Array) -> Array:
        """Look up the number of each unit, `[U]`.

        Args:
            examples: N rows.
            starts: First token of each unit, N rows, U values.
            ends: Token after the last.
            table: The result of `table`.

        Raises:
            VocabularyError: The lexicon was made with another tokenizer.
        """
        self.check(examples)

        ids = examples.input_ids
        out = np.empty(len(starts.values), table.dtype)
        where = (ids.offsets, ids.values, starts.offsets, starts.values, ends.values)
        exact_values(*where, self.edges, table, out)
        return out

    def matches(self, examples: Examples) -> tuple[Ragged, Ragged, npt.NDArray[np.int32]]:
        """Find all entries of whole words within sentences, including overlapping ones.

        Returns:
            Starts and ends in tokens of the row, half open, N rows each, and the number of each
            matching entry. Sorted by start, then by length.

        Raises:
            VocabularyError: The lexicon was made with another tokenizer.
        """
        self.check(examples)

        ids = examples.input_ids.values
        offsets = examples.sentence_offsets
        sentences = (offsets, ids, examples.word_ids.values)
        trie = (self.edges, self.ending)
        out = np.empty((len(ids) + 16, 3), np.int32)
        match_offsets = np.empty(len(offsets), np.int64)
        match_entries(*sentences, *trie, out, match_offsets)

        # The kernel also counts matches that do not fit, so a second call has enough space.
        if match_offsets[-1] > len(out):
            out = np.empty((match_offsets[-1], 3), np.int32)
            match_entries(*sentences, *trie, out, match_offsets)

        starts, ends, entries = np.ascontiguousarray(out[: match_offsets[-1]].T)
        sentences_of_rows = examples.sentence_starts
        if sentences_of_rows is not None:
            # Convert from tokens of the sentence to tokens of the row, and group matches by row.
            rows = np.repeat(examples.input_ids.offsets[:-1], sentences_of_rows.lengths)
            shifts = np.repeat(offsets[:-1] - rows, np.diff(match_offsets)).astype(np.int32)
            starts += shifts
            ends += shifts
            match_offsets = match_offsets[sentences_of_rows.offsets]
        return Ragged(starts, match_offsets), Ragged(ends, match_offsets), entries

    def check(self, examples: Examples) -> None:
        """Check by the number of ids that rows use the lexicon's tokenizer.

        Raises:
            VocabularyError: The lexicon was made with another tokenizer.
        """
        size = self.lexicon.about["size"]
        if size != examples.ids.size:
            raise VocabularyError(
                f"lexicon: made with a tokenizer of {size} ids, but the rows have one of "
                f"{examples.ids.size}; make a lexicon from these shards"
            )


def open_trie(path: Path) -> Trie:
    """Read a lexicon and build its trie. The last 8 unchanged files are cached.

    Raises:
        VocabularyError: The file is missing, not a lexicon, has a newer format, or is damaged.
    """
    return _build_cached(open_lexicon(path))


def open_words(path: Path) -> Trie:
    """Read a lexicon of words or n-grams and build its trie; see `open_trie`.

    Raises:
        VocabularyError: See `open_trie`; or the entries are token ids, not words.
    """
    trie = open_trie(path)

    made = made_by(trie.lexicon.about)
    if made.get("of") == "frequency" or made.get("by") == "ids":
        raise VocabularyError(f"{path}: expected a lexicon of words, got token ids")
    return trie


@lru_cache(maxsize=8)
def _build_cached(lexicon: Lexicon) -> Trie:
    return Trie.from_lexicon(lexicon)
