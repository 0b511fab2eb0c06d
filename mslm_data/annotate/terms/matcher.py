"""Matches terms in texts by a trie over words."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mslm_data.annotate.terms.texts import Array, Texts
from mslm_data.data.ragged import count_up
from mslm_data.kernels import term_trie as kernels
from mslm_data.kernels.hashing import EMPTY, enter_words, look_up_words


class TermTrie:
    """A trie of terms, whose edges are words.

    Edges are stored in a hash table: node, gap before the word, and word number -> child node.
    """

    def __init__(self, texts: Texts, *, match_case: bool) -> None:
        """Add each text as a term.

        Args:
            texts: Terms, each with at least a word.
            match_case: Whether to compare case.
        """
        self._match_case = match_case
        self._names = self._compared(texts)

        # Number the distinct words of all terms.
        num_words = len(texts.words)
        num_places = 1 << (2 * num_words).bit_length()
        self._words = texts.words
        self._slots = np.full(num_places, -1, np.int64)
        self._hashes = np.empty(num_words, np.uint64)
        numbers = np.empty(num_words, np.int64)
        enter_words(self._names, self._words, 0, self._slots, self._hashes, numbers)

        # Add the edges, in a hash table that is at most half full.
        bounds = np.searchsorted(texts.words[:, 0], texts.starts)
        bounds = np.append(bounds, num_words).astype(np.int64)
        self._keys = np.full(num_places, EMPTY, np.uint64)
        self._children = np.zeros(num_places, np.int32)
        nodes = np.empty(len(texts.starts), np.int32)
        kernels.add_terms(texts.words, numbers, bounds, self._keys, self._children, nodes)

        # The terms that end at node n are `_order[_bounds[n]:_bounds[n + 1]]`.
        num_nodes = int(self._children.max()) + 1
        self._order = np.argsort(nodes, kind="stable")
        self._bounds = np.searchsorted(nodes[self._order], np.arange(num_nodes + 1))
        self._ending = (np.diff(self._bounds) > 0).astype(np.uint8)

    def longest(self, texts: Texts) -> npt.NDArray[np.int32]:
        """Find the longest term at each word.

        Args:
            texts: W words.

        Returns:
            int32 `[W, 2]`, word after the term, and node at the end of the term; 0 and 0 for no
            term.
        """
        codes = self._compared(texts)
        numbers = np.empty(len(texts.words), np.int64)
        look_up_words(
            codes, texts.words, self._slots, self._names, self._words, self._hashes, numbers
        )

        out = np.empty((len(texts.words), 2), np.int32)
        kernels.longest_terms(texts.words, numbers, self._keys, self._children, self._ending, out)
        return out

    def terms(self, nodes: Array) -> tuple[Array, Array]:
        """Return the terms that end at nodes. Terms with equal names end at the same node.

        Args:
            nodes: Integers `[N]`.

        Returns:
            Index of each term, sorted within a node, and index of its node in `nodes`.
        """
        counts = self._bounds[nodes + 1] - self._bounds[nodes]
        owners = np.repeat(np.arange(len(nodes)), counts)
        return self._order[count_up(self._bounds[nodes], counts)], owners

    def _compared(self, texts: Texts) -> Array:
        return texts.codes if self._match_case else texts.folded


def leftmost(past: npt.NDArray[np.int32]) -> Array:
    """Choose non-overlapping matches, from left to right.

    Args:
        past: int32 `[W]`, word after the term that starts at each word; 0 for no term.

    Returns:
        Sorted first words of the chosen terms, int32.
    """
    out = np.empty(len(past), np.int32)
    count = kernels.leftmost_terms(past, out)
    return out[:count]
