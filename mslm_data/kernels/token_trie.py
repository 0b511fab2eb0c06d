"""Find the entries of a lexicon, which are runs of token ids, in rows.

The trie is a table of keys (`hashing`), `edges` uint64 `[2**n]`: the key of an edge is
`node << 32 | token`. The first token of an entry is a node by itself and has the token's number.
The number of any other node is `B` more than the place of the edge that leads to it. `ending`
int32 `[B + 2**n]` holds the entry that ends at a node, or -1.

Two small tables turn away most places of a corpus before any edge is looked up:

* `begins` uint8 `[B]`: whether a token begins longer entries (1), or is an entry by itself (2). Its
  last item, 0, stands for tokens that no entry has.
* `seconds` uint64 `[2**k]`: one bit for the hash of the first two tokens of each entry.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.hashing import EMPTY, find_key, pair
from mslm_data.kernels.rng import mix
from mslm_data.kernels.rows import begins_word, longest_row

LONGER, ALONE = 1, 2
"""Values of `begins` for a token. ALONE also where longer entries begin with it."""


@kernel
def find_child(edges: Array, nodes: int, node: int | np.int64, token: int) -> np.int64:
    """Return the node that a token leads to from another node, or -1.

    Args:
        edges: uint64 `[2**n]`, the trie.
        nodes: `B + 2**n`.
        node: The parent.
        token: Any id; no entry has a negative one.
    """
    place = find_key(edges, pair(node, token))
    return np.int64(-1) if edges[place] == EMPTY else nodes - len(edges) + place


@kernel
def pair_bit(left: int, right: int, seconds: Array) -> np.uint64:
    """Return which bit of `seconds` belongs to two tokens: 64 bits in each item, the lowest first.

    Args:
        left: The first token.
        right: The second token.
        seconds: uint64 `[2**k]`.
    """
    return mix(pair(left, right)) & np.uint64(64 * len(seconds) - 1)


@kernel
def add_entries(
    offsets: Array, tokens: Array, edges: Array, ending: Array, begins: Array, seconds: Array
) -> None:
    """Put entries into an empty trie. Of equal entries the first is found.

    Args:
        offsets: int64 `[E + 1]`.
        tokens: int32, the entries; none is empty.
        edges: uint64 `[2**n]`, all `EMPTY`, of more places than there are tokens; written.
        ending: int32 `[B + 2**n]`, all -1; written.
        begins: uint8 `[B]`, all 0; written. B is at least 2 more than the largest token.
        seconds: uint64 `[2**k]`, all 0; written.
    """
    num_tokens = len(begins)
    for entry in range(len(offsets) - 1):
        start, stop = offsets[entry], offsets[entry + 1]
        first = tokens[start]

        node = np.int64(first)
        for t in range(start + 1, stop):
            edge = pair(node, tokens[t])
            place = find_key(edges, edge)
            edges[place] = edge
            node = num_tokens + place
        if ending[node] < 0:
            ending[node] = entry

        if stop == start + 1:
            begins[first] = ALONE
        else:
            begins[first] = max(begins[first], LONGER)
            bit = pair_bit(first, tokens[start + 1], seconds)
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
    """Look up the entry that each unit is. Most words of a corpus are one token and need no edge.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        ids: int32 `[T]`.
        unit_offsets: int64 `[N + 1]` of the units.
        starts: int32 `[U]`: a unit's first token, counted within its row.
        ends: int32 `[U]`, half open; no unit is empty.
        edges: uint64 `[2**n]`, the trie.
        values: `[B + 2**n + 1]`, any type: a value for each node; the last one is for units that
            lead to no node.
        out: `[U]`, of that type, written: the value of the node that the unit's tokens lead to.
    """
    nodes = len(values) - 1
    unknown = np.uint64(nodes - len(edges) - 1)  # B - 1: the node of tokens that no entry has
    for i in range(len(offsets) - 1):
        row = ids[offsets[i] : offsets[i + 1]]
        for u in range(unit_offsets[i], unit_offsets[i + 1]):
            # As unsigned, negative ids of damaged shards are large too.
            node = np.int64(min(np.uint64(row[starts[u]]), unknown))
            t = starts[u] + 1
            while node >= 0 and t < ends[u]:
                node = find_child(edges, nodes, node, row[t])
                t += 1
            out[u] = values[node]  # node -1 takes the last value


@kernel
def sift(ids: Array, words: Array, begins: Array, seconds: Array, places: Array) -> int:
    """List where entries may begin in a row, missing none, and return how many places there are.

    Args:
        ids: int32 `[L]`.
        words: int32 `[L]`, `word_ids`.
        begins: uint8 `[B]`.
        seconds: uint64 `[2**k]`.
        places: int64, longer than the row; written up to the returned number: first tokens of
            words, rising.
    """
    unknown = np.uint64(len(begins) - 1)

    # No branch, which would often be predicted wrongly: a place that is not kept is overwritten by
    # the next one. The last token of the row is paired with itself; that bit only sifts less.
    size = 0
    before = np.int32(-1)
    for t in range(len(ids)):
        begin = begins[min(np.uint64(ids[t]), unknown)]
        bit = pair_bit(ids[t], ids[min(t + 1, len(ids) - 1)], seconds)
        seen = (seconds[bit >> np.uint64(6)] >> (bit & np.uint64(63))) & np.uint64(1)
        may_begin = (begin == ALONE) | ((begin == LONGER) & (seen != 0))
        places[size] = t
        size += begins_word(words[t], before) & may_begin
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
    """Find all entries that stand in rows as whole words, overlapping ones too.

    A match begins at the first token of a word and ends at the last token of one.

    Args:
        offsets: int64 `[N + 1]`.
        ids: int32 `[T]`.
        words: int32 `[T]`, `word_ids`; no entry goes over a special token.
        edges: uint64 `[2**n]`, the trie.
        ending: int32 `[B + 2**n]`, the trie.
        begins: uint8 `[B]`, the trie.
        seconds: uint64 `[2**k]`, the trie.
        out: int32 `[C, 3]`, written as far as there is room: first token, counted within the row,
            the token after the last, and the entry; ordered by first token, then length.
        out_offsets: int64 `[N + 1]`, written: the matches of each row. The last item counts all of
            them, also where C is too few.
    """
    places = np.empty(longest_row(offsets) + 1, np.int64)
    m = 0
    out_offsets[0] = 0
    for i in range(len(offsets) - 1):
        row_ids = ids[offsets[i] : offsets[i + 1]]
        row_words = words[offsets[i] : offsets[i + 1]]
        for first in places[: sift(row_ids, row_words, begins, seconds, places)]:
            node = np.int64(row_ids[first])
            t = first + 1
            while node >= 0:
                # An entry may end before token t where a word or the text does.
                text_ends = t == len(row_ids) or row_words[t] < 0
                if (text_ends or row_words[t] != row_words[t - 1]) and ending[node] >= 0:
                    if m < len(out):
                        out[m, 0] = first
                        out[m, 1] = t
                        out[m, 2] = ending[node]
                    m += 1
                if text_ends:
                    break
                node = find_child(edges, len(ending), node, row_ids[t])
                t += 1
        out_offsets[i + 1] = m
