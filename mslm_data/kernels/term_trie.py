"""Find terms in running text: split it into words, and walk a trie of words from each word.

The words of all terms are numbered by a table of items (`hashing`). The trie is a table of keys:
the key of an edge is `(2 * parent + gap) << 32 | word`, with a gap of 1 for white space before the
word, otherwise 0. `children` int32 `[2**n]` has the child node of each edge. The root is node 0.
"""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.hashing import EMPTY, find_key, pair

OTHER, LETTER, MARK, SPACE, LINE_END, CARRIAGE_RETURN = range(6)
"""Kinds of characters. A LETTER (or digit) or MARK continues a word of letters. An OTHER character
is a word by itself. The kinds from SPACE on are white space."""

APART = 2
"""A gap before a word that no term may contain."""


@kernel
def split_text(kinds: Array, words: Array) -> int:
    """Split a text into words, and return their number.

    Args:
        kinds: uint8 `[C]`, kind of each character.
        words: int32 `[C, 3]`, written from the left: first character, character after the last, and
            the gap before the word. A gap is 0 without white space, 1 for white space with at most
            one line end, and `APART` for more line ends, and before the first word.
    """
    count = 0
    gap = APART
    line_ends = 0
    inside = False  # whether the last word may be continued by letters
    for c in range(len(kinds)):
        kind = kinds[c]
        if kind >= SPACE:
            # CR LF is one line end, counted at the CR.
            after_return = c > 0 and kinds[c - 1] == CARRIAGE_RETURN
            if kind == CARRIAGE_RETURN or (kind == LINE_END and not after_return):
                line_ends += 1
            gap = max(gap, 1 if line_ends < 2 else APART)
            inside = False
            continue

        joins = inside and kind in (LETTER, MARK)
        if not joins:
            words[count, 0] = c
            words[count, 2] = gap
            count += 1
            gap = 0
            line_ends = 0
            inside = kind == LETTER
        words[count - 1, 1] = c + 1
    return count


@kernel
def add_terms(
    words: Array, numbers: Array, bounds: Array, keys: Array, children: Array, nodes: Array
) -> None:
    """Add terms to an empty trie.

    Args:
        words: int32 `[W, 3]`, words of all terms, from `split_text`.
        numbers: int64 `[W]`, number of each word. Equal words have equal numbers.
        bounds: int64 `[T + 1]`, offsets of each term's words.
        keys: uint64 `[2**n]` with `2**n > W`, all `EMPTY`; written: edges of the trie.
        children: int32 `[2**n]`, written: child node of each edge.
        nodes: int32 `[T]`, written: last node of each term.
    """
    num_nodes = 1
    for t in range(len(nodes)):
        node = 0
        for w in range(bounds[t], bounds[t + 1]):
            # The gap before the first word of a term does not matter.
            gap = min(words[w, 2], 1) if w > bounds[t] else 0
            key = pair(2 * node + gap, numbers[w])
            place = find_key(keys, key)
            if keys[place] == EMPTY:
                keys[place] = key
                children[place] = num_nodes
                num_nodes += 1
            node = children[place]
        nodes[t] = node


@kernel
def longest_terms(
    words: Array, numbers: Array, keys: Array, children: Array, ending: Array, out: Array
) -> None:
    """Find the longest term that begins at each word of a text.

    Args:
        words: int32 `[W, 3]`, words of the text, from `split_text`.
        numbers: int64 `[W]`, number of each word, -1 for words of no term.
        keys: uint64 `[2**n]`, edges of the trie.
        children: int32 `[2**n]`, child node of each edge.
        ending: uint8 `[nodes]`, 1 for last nodes of terms.
        out: int32 `[W, 2]`, written: the word after the term, and its node; 0 and 0 for no term.
    """
    for first in range(len(words)):
        out[first] = 0
        node = 0
        for w in range(first, len(words)):
            gap = words[w, 2] if w > first else 0
            if gap == APART or numbers[w] < 0:
                break
            place = find_key(keys, pair(2 * node + gap, numbers[w]))
            if keys[place] == EMPTY:
                break
            node = children[place]
            if ending[node]:
                out[first, 0] = w + 1
                out[first, 1] = node


@kernel
def leftmost_terms(past: Array, out: Array) -> int:
    """Choose terms that do not overlap, greedily from the left, and return their number.

    Args:
        past: int32 `[W]`, the word after the term that begins at each word, 0 for none.
        out: int32 `[W]`, written from the left: first words of the chosen terms.
    """
    count = 0
    w = 0
    while w < len(past):
        if past[w] > 0:
            out[count] = w
            count += 1
            w = past[w]
        else:
            w += 1
    return count
