"""Find terms in running text: split it into words, and walk a trie of words from each of them.

The words of all terms are numbered by a table of items (`hashing`). The trie is a table of keys:
the key of an edge is `step << 32 | word`. A step is twice the parent node, plus 1 where white space
comes before the word. `children` int32 `[2**n]` beside it holds the node that an edge leads to.
The root is node 0.
"""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.hashing import EMPTY, find_key, pair

OTHER, LETTER, MARK, SPACE, LINE_END, CARRIAGE_RETURN = range(6)
"""Kinds of characters. A letter or digit joins the letters before it, and so does a mark. Any other
character is a word by itself. The kinds from SPACE on are white space."""

APART = 2
"""The gap before a word that no term reaches across."""


@kernel
def split_text(kinds: Array, words: Array) -> int:
    """Find the words of a text, and return how many there are.

    Args:
        kinds: uint8 `[C]`, the kind of each character.
        words: int32 `[C, 3]`, written up to the returned number: first character, the one after the
            last, and the gap before: 0 for none, 1 for white space with at most one line end,
            `APART` for more, and before the first word.
    """
    count = 0
    gap = APART
    line_ends = 0
    inside = False  # of a word that letters may join
    for c in range(len(kinds)):
        kind = kinds[c]
        if kind >= SPACE:
            # CR LF is one line end, which the CR has counted.
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
    """Put terms into an empty trie.

    Args:
        words: int32 `[W, 3]`, the words of all terms, as `split_text` writes them.
        numbers: int64 `[W]`, the number of each word; equal words have equal numbers.
        bounds: int64 `[T + 1]`, words of each term.
        keys: uint64 `[2**n]`, all `EMPTY`, of more places than W; written.
        children: int32 `[2**n]`, written.
        nodes: int32 `[T]`, written: the node at which each term ends.
    """
    num_nodes = 1
    for t in range(len(nodes)):
        node = 0
        for w in range(bounds[t], bounds[t + 1]):
            # What stands before a term's first word does not matter.
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
        words: int32 `[W, 3]`, as `split_text` writes them.
        numbers: int64 `[W]`, the number of each word among those of the terms, -1 for others.
        keys: uint64 `[2**n]`, the trie.
        children: int32 `[2**n]`, the trie.
        ending: uint8 `[nodes]`: 1 where a term ends.
        out: int32 `[W, 2]`, written: the word after the term's last, and its node; 0 and 0 where no
            term begins.
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
    """Choose terms that do not overlap, from the left, and return how many there are.

    Args:
        past: int32 `[W]`: the word after the term that begins at each word, 0 for none.
        out: int32 `[W]`, written up to the returned number: first words of the chosen terms.
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
