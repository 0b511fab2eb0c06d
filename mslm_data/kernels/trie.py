"""A trie of token sequences, and its matches in rows of tokens.

A trie is a hash table of edges, `edges` uint64 `[2**n]`, each of them its parent node `<< 32 | token`. A sequence's
first token is a node by itself, and has its number; that of any other node is `B` more than the place of the edge that
leads to it. `ending` int32 `[B + 2**n]` has the sequence that ends at a node, or -1. Two small tables turn away most
places of a corpus before any edge is looked up: `begins` uint8 `[B]` says of a token whether sequences begin with it
(1) or it is one by itself (2), the last of it being 0 for tokens that no sequence has; and `seconds` uint64 `[2**k]`
has a bit for the hash of each sequence's first two tokens.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.draws import mix

EMPTY = np.uint64(2**64 - 1)
"""A place without an edge."""
LONGER, ALONE = 1, 2


@kernel
def pair(left: int | np.int64, right: int) -> np.uint64:
    """Return two numbers, each in `[0, 2**32)`, as one."""
    return (np.uint64(left) << np.uint64(32)) | np.uint64(right)


@kernel
def edge_of(edges: Array, node: int | np.int64, token: int) -> np.int64:
    """Return the place of an edge, or the empty one where it belongs.

    Args:
        edges: uint64 `[2**n]`, with an empty place at least.
        node: The parent.
        token: 0 or more.
    """
    edge, last = pair(node, token), np.uint64(len(edges) - 1)
    place = mix(edge) & last
    while edges[place] != edge and edges[place] != EMPTY:
        place = (place + np.uint64(1)) & last
    return np.int64(place)


@kernel
def child_of(edges: Array, nodes: int, node: int | np.int64, token: int) -> np.int64:
    """Return the node that a token leads to from another, or -1; see `edge_of`, and `nodes` is `B + 2**n`."""
    place = edge_of(edges, node, token)
    return np.int64(-1) if edges[place] == EMPTY else nodes - len(edges) + place


@kernel
def add_entries(
    offsets: Array, tokens: Array, edges: Array, ending: Array, begins: Array, seconds: Array
) -> None:
    """Put sequences into an empty trie; see this module's first lines.

    Args:
        offsets: int64 `[E + 1]`.
        tokens: int32, the sequences; none is empty.
        edges: uint64 `[2**n]`, EMPTY throughout, of more places than there are tokens that are no sequence's first;
            written.
        ending: int32 `[B + 2**n]`, -1 throughout; written: of equal sequences the first.
        begins: uint8 `[B]`, 0 throughout, longer by 2 than the largest token; written.
        seconds: uint64 `[2**k]`, 0 throughout; written.
    """
    for entry in range(len(offsets) - 1):
        start, node = offsets[entry], np.int64(tokens[offsets[entry]])
        for t in range(start + 1, offsets[entry + 1]):
            place = edge_of(edges, node, tokens[t])
            edges[place] = pair(node, tokens[t])
            node = len(begins) + place
        if ending[node] < 0:
            ending[node] = entry
        if offsets[entry + 1] == start + 1:
            begins[tokens[start]] = ALONE
        else:
            begins[tokens[start]] = max(begins[tokens[start]], LONGER)
            bit = mix(pair(tokens[start], tokens[start + 1])) & np.uint64(64 * len(seconds) - 1)
            seconds[bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))


@kernel
def exact_values(
    offsets: Array,
    ids: Array,
    unit_offsets: Array,
    starts: Array,
    ends: Array,
    edges: Array,
    values: Array,
    out: Array,
) -> None:
    """Look up the sequence that each unit is. Most words of a corpus are one token, and so found without any edge.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        ids: int32 `[T]`.
        unit_offsets: int64 `[N + 1]` of the units.
        starts: int32 `[U]`: a unit's first token, counted within its row.
        ends: int32 `[U]`, half open; no unit is empty.
        edges: uint64 `[2**n]`, the trie.
        values: `[B + 2**n + 1]`: what there is to know of each node; the last is for what leads to no node.
        out: `[U]`, written: the value of the node of just the unit's tokens.
    """
    nodes = len(values) - 1
    none = np.uint64(nodes - len(edges) - 1)
    for i in range(len(offsets) - 1):
        row = ids[offsets[i] : offsets[i + 1]]
        for u in range(unit_offsets[i], unit_offsets[i + 1]):
            node, t = np.int64(min(np.uint64(row[starts[u]]), none)), starts[u] + 1
            while node >= 0 and t < ends[u]:
                node = child_of(edges, nodes, node, row[t])
                t += 1
            out[u] = values[node]  # of -1 the last


@kernel
def sift(ids: Array, words: Array, begins: Array, seconds: Array, places: Array) -> int:
    """Find where an entry may begin in a row, and miss none; no branch, so that few of them are guessed wrong.

    Args:
        ids: int32 `[L]`.
        words: int32 `[L]`, `word_ids`.
        begins: uint8 `[B]`, see this module's first lines.
        seconds: uint64 `[2**k]`, likewise.
        places: int64, longer than the row; `[0, n)` written: first tokens of words, rising.

    Returns:
        n.
    """
    size, before = 0, np.int32(-1)
    none, mask = np.uint64(len(begins) - 1), np.uint64(64 * len(seconds) - 1)
    for t in range(len(ids)):
        begin = begins[min(np.uint64(ids[t]), none)]
        bit = mix(pair(ids[t], ids[min(t + 1, len(ids) - 1)])) & mask
        seen = (seconds[bit >> np.uint64(6)] >> (bit & np.uint64(63))) & np.uint64(1)
        opens = (words[t] >= 0) & (words[t] != before)
        places[size] = t
        size += int(opens & ((begin == ALONE) | ((begin == LONGER) & (seen != 0))))
        before = words[t]
    return size


@kernel
def match_entries(
    offsets: Array,
    ids: Array,
    words: Array,
    edges: Array,
    ending: Array,
    begins: Array,
    seconds: Array,
    out: Array,
    out_offsets: Array,
) -> None:
    """Find all entries that stand in rows as whole words: from the first token of a word to the last of one.

    Args:
        offsets: int64 `[N + 1]`.
        ids: int32 `[T]`.
        words: int32 `[T]`, `word_ids`; no entry goes over a special token.
        edges: uint64 `[2**n]`, the trie.
        ending: int32 `[B + 2**n]`, likewise.
        begins: uint8 `[B]`, likewise.
        seconds: uint64 `[2**k]`, likewise.
        out: int32 `[C, 3]`: first token, counted within the row, past the last, and the entry, by first token and
            length; `[0, min(C, M))` written.
        out_offsets: int64 `[N + 1]`, written: the matches of each row; the last is M, also where that is more than C.
    """
    longest = 0
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    places = np.empty(longest + 1, np.int64)
    m = 0
    out_offsets[0] = 0
    for i in range(len(offsets) - 1):
        row_ids, row_words = ids[offsets[i] : offsets[i + 1]], words[offsets[i] : offsets[i + 1]]
        for first in places[: sift(row_ids, row_words, begins, seconds, places)]:
            node, t = np.int64(row_ids[first]), first + 1
            while node >= 0:
                ended = t == len(row_ids) or row_words[t] < 0
                if (ended or row_words[t] != row_words[t - 1]) and ending[node] >= 0:
                    if m < len(out):
                        out[m, 0], out[m, 1], out[m, 2] = first, t, ending[node]
                    m += 1
                if ended:
                    break
                node = child_of(edges, len(ending), node, row_ids[t])
                t += 1
        out_offsets[i + 1] = m
