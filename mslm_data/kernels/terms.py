"""A term table over running text: words of characters, a trie of words, and its longest match at each word.

A trie is a hash table of edges, `edges` int32 `[2**n, 4]`: a step (parent node x 2, + 1 where white space comes before
the word), the first and past the last character of the edge's word in the table's own text, and the child node. The
root is node 0; a step of -1 is an empty place. Words are compared character by character, so equal hashes do no harm.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.draws import GOLDEN, mix

OTHER, LETTER, MARK, SPACE, LINE_END, CARRIAGE_RETURN = range(6)
"""Kinds of characters. A letter or digit joins the letters before it, so does a mark; any other is a word alone."""

APART = 2
"""The gap before a word that no term reaches across."""


@kernel
def find_words(kinds: Array, words: Array, count: Array) -> None:
    """Find the words of a text.

    Args:
        kinds: uint8 `[C]`, the kind of each character.
        words: int32 `[C, 3]`, `[0, W)` written: first character, past the last, and the gap before: 0 for none, 1 for
            white space with one line end at most, `APART` for more, and before the first.
        count: int64 `[1]`, written: W.
    """
    w, gap, line_ends, inside = -1, APART, 0, False
    for c in range(len(kinds)):
        kind = kinds[c]
        if kind >= SPACE:
            if kind == CARRIAGE_RETURN or (
                kind == LINE_END and (c == 0 or kinds[c - 1] != CARRIAGE_RETURN)
            ):
                line_ends += 1
            gap = max(gap, 1 if line_ends < 2 else APART)
            inside = False
            continue
        if not (inside and kind in (LETTER, MARK)):
            w += 1
            words[w, 0], words[w, 2] = c, gap
            gap, line_ends = 0, 0
            inside = kind == LETTER
        words[w, 1] = c + 1
    count[0] = w + 1


@kernel
def hash_words(codes: Array, words: Array, out: Array) -> None:
    """Hash words: FNV-1a over characters in place of bytes.

    Args:
        codes: uint32 `[C]`, the text.
        words: int32 `[W, 3]`, its words; see `find_words`.
        out: uint64 `[W]`, written.
    """
    for w in range(len(out)):
        hashed = np.uint64(0xCBF29CE484222325)
        for c in range(words[w, 0], words[w, 1]):
            hashed = (hashed ^ np.uint64(codes[c])) * np.uint64(0x100000001B3)
        out[w] = hashed


@kernel
def place_of(edges: Array, names: Array, step: int, hashed: np.uint64, word: Array) -> np.int64:
    """Return the place of an edge, or the empty one where it belongs.

    Args:
        edges: int32 `[2**n, 4]`, with an empty place at least.
        names: uint32, the table's text.
        step: The edge's parent x 2, + 1 where white space comes before its word.
        hashed: The word's hash.
        word: uint32, the word.
    """
    place = np.int64(mix(hashed + GOLDEN * np.uint64(step + 1)) & np.uint64(len(edges) - 1))
    while edges[place, 0] >= 0:
        if edges[place, 0] == step and edges[place, 2] - edges[place, 1] == len(word):
            known = names[edges[place, 1] : edges[place, 2]]
            c = 0
            while c < len(word) and known[c] == word[c]:
                c += 1
            if c == len(word):
                break
        place = (place + 1) & (len(edges) - 1)
    return place


@kernel
def add_terms(
    names: Array, words: Array, hashes: Array, bounds: Array, edges: Array, nodes: Array
) -> None:
    """Put terms into an empty trie.

    Args:
        names: uint32 `[C]`, the text of all terms.
        words: int32 `[W, 3]`, its words; see `find_words`.
        hashes: uint64 `[W]`.
        bounds: int64 `[T + 1]`, words of each term.
        edges: int32 `[2**n, 4]`, -1 throughout, of more places than W; written.
        nodes: int32 `[T]`, written: the node at which each term ends.
    """
    num_nodes = 1
    for t in range(len(nodes)):
        node = 0
        for w in range(bounds[t], bounds[t + 1]):
            step = 2 * node + (min(words[w, 2], 1) if w > bounds[t] else 0)
            place = place_of(edges, names, step, hashes[w], names[words[w, 0] : words[w, 1]])
            if edges[place, 0] < 0:
                edges[place, 0], edges[place, 1], edges[place, 2] = step, words[w, 0], words[w, 1]
                edges[place, 3] = num_nodes
                num_nodes += 1
            node = edges[place, 3]
        nodes[t] = node


@kernel
def longest_terms(
    codes: Array, words: Array, hashes: Array, names: Array, edges: Array, ending: Array, out: Array
) -> None:
    """Find the longest term that begins at each word.

    Args:
        codes: uint32 `[C]`, the text.
        words: int32 `[W, 3]`, its words; see `find_words`.
        hashes: uint64 `[W]`.
        names: uint32, the table's text.
        edges: int32 `[2**n, 4]`, the trie.
        ending: uint8 `[nodes]`: 1 where a term ends.
        out: int32 `[W, 2]`, written: past the term's last word, and its node; 0, 0 where none begins.
    """
    for first in range(len(words)):
        node = 0
        out[first] = 0
        for w in range(first, len(words)):
            gap = words[w, 2] if w > first else 0
            if gap == APART:
                break
            place = place_of(
                edges, names, 2 * node + gap, hashes[w], codes[words[w, 0] : words[w, 1]]
            )
            if edges[place, 0] < 0:
                break
            node = edges[place, 3]
            if ending[node]:
                out[first, 0], out[first, 1] = w + 1, node


@kernel
def leftmost_terms(past: Array, out: Array, count: Array) -> None:
    """Choose terms that do not overlap: the first, then the first that begins after it, and so on.

    Args:
        past: int32 `[W]`: past the last word of the term that begins at each word, 0 for none.
        out: int32 `[W]`, `[0, M)` written: first words of those chosen.
        count: int64 `[1]`, written: M.
    """
    m, w = 0, 0
    while w < len(past):
        if past[w] > 0:
            out[m] = w
            m += 1
            w = past[w]
        else:
            w += 1
    count[0] = m
