"""A lexicon laid out for looking up: words that it knows, and its entries wherever they stand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged
from mslm_data.errors import VocabularyError
from mslm_data.kernels.trie import EMPTY, add_entries, exact_values, match_entries
from mslm_data.lexicon.store import Lexicon, open_lexicon


@dataclass(frozen=True, slots=True, eq=False)
class Trie:
    """A lexicon and the trie of its entries.

    Attributes:
        lexicon: As it was read.
        edges: uint64 `[2**n]`; see `kernels/trie.py`.
        ending: int32 `[B + 2**n]`, likewise; so the others.
        begins: uint8 `[B]`.
        seconds: uint64 `[2**k]`.
    """

    lexicon: Lexicon
    edges: Array
    ending: Array
    begins: Array
    seconds: Array

    @classmethod
    def of(cls, lexicon: Lexicon) -> Trie:
        """Lay out a lexicon; of equal entries the first is found."""
        tokens = lexicon.tokens
        places = 1 << (2 * (len(tokens.values) - len(tokens)) + 1).bit_length()
        begins = np.zeros(tokens.values.max(initial=0) + 2, np.uint8)
        edges, ending = (
            np.full(places, EMPTY, np.uint64),
            np.full(len(begins) + places, -1, np.int32),
        )
        seconds = np.zeros(max(places // 8, 1), np.uint64)
        add_entries(tokens.offsets, tokens.values, edges, ending, begins, seconds)
        return cls(lexicon, edges, ending, begins, seconds)

    def table(self, values: Array, missing: float) -> Array:
        """Return what `exact` looks up, from a number for each entry, and one for what is none."""
        return np.append(np.append(values, missing)[self.ending], missing)

    def exact(self, examples: Examples, starts: Ragged, ends: Ragged, table: Array) -> Array:
        """Return the number of the entry that each unit is, `[U]`; see `table`.

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
        """Return all entries that stand in the rows as whole words, overlapping ones too, and which entry each is.

        They are ordered by first token, then length.

        Raises:
            VocabularyError: A lexicon of another tokenizer.
        """
        self.check(examples)
        ids, offsets, words = (
            examples.input_ids.values,
            examples.input_ids.offsets,
            examples.word_ids.values,
        )
        out, of_rows = np.empty((len(ids) + 16, 3), np.int32), np.empty(len(offsets), np.int64)
        trie = (self.edges, self.ending, self.begins, self.seconds)
        match_entries(offsets, ids, words, *trie, out, of_rows)
        if of_rows[-1] > len(out):
            out = np.empty((of_rows[-1], 3), np.int32)
            match_entries(offsets, ids, words, *trie, out, of_rows)
        starts, ends, entries = np.ascontiguousarray(out[: of_rows[-1]].T)
        return Ragged(starts, of_rows), Ragged(ends, of_rows), entries

    def check(self, examples: Examples) -> None:
        """See that the lexicon can be of these rows.

        Raises:
            VocabularyError: A lexicon of another tokenizer.
        """
        size = self.lexicon.about["size"]
        if size != examples.ids.size:
            raise VocabularyError(
                f"lexicon: expected one of a tokenizer of {examples.ids.size} ids, got one of {size}; make it again "
                "from these shards with `mslm-data vocab`"
            )


def open_trie(path: Path, *, made_by: str = "") -> Trie:
    """Read a lexicon and lay it out; the last few are remembered while their files stay as they are.

    Args:
        path: The lexicon's file.
        made_by: The command that makes one, for who has none.

    Raises:
        VocabularyError: No such file, not a lexicon, of a newer format, or damaged.
    """
    return _laid_out(open_lexicon(path, made_by=made_by))


@lru_cache(maxsize=8)
def _laid_out(lexicon: Lexicon) -> Trie:
    return Trie.of(lexicon)
