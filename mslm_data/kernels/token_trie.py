"""Find the entries of a lexicon in rows, with a trie of token ids.

The trie is stored in flat arrays. B is at least 2 more than the largest token of any entry.

* `edges` uint64 `[2**n]`, a table of keys (`hashing`). The key of an edge is `node << 32 | token`.
  The node of a first token is the token itself. Any other node is B plus the slot of its edge.
* `ending` int32 `[B + 2**n]`: the entry that ends at each node, or -1.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.hashing import EMPTY, find_key, pair
from mslm_data.kernels.rows import begins_word


@kernel
def find_child(edges: Array, nodes: int, node: int | np.int64, token: int) -> np.int64:
    """Return the child of a node for a token, or -1.

    Args:
        edges: uint64 `[2**n]`, edges of the trie.
        nodes: Number of nodes, `B + 2**n`.
        node: The parent.
        token: Any token id. No entry has a negative id.
    """
    place = find_key(edges, pair(node, token))
    return np.int64(-1) if edges[place] == EMPTY else nodes - len(edges) + place


@kernel
def add_entries(offsets: Array, tokens: Array, edges: Array, ending: Array) -> None:
    """Add entries to an empty trie. The trie finds the first of equal entries.

    Args:
        offsets: int64 `[E + 1]`.
        tokens: int32, tokens of the entries. No entry is empty.
        edges: uint64 `[2**n]`, all `EMPTY`, longer than `tokens`; written.
        ending: int32 `[B + 2**n]`, all -1; written.
    """
    num_tokens = len(ending) - len(edges)
    for entry in range(len(offsets) - 1):
        start, stop = offsets[entry], offsets[entry + 1]

        # Add the edges of the entry. Those of a common prefix are found.
        node = np.int64(tokens[start])
        for t in range(start + 1, stop):
            edge = pair(node, tokens[t])
            place = find_key(edges, edge)
            edges[place] = edge
            node = num_tokens + place
        if ending[node] < 0:
            ending[node] = entry


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
    """Look up the value of each unit in a lexicon.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        ids: int32 `[T]`, token ids.
        unit_offsets: int64 `[N + 1]` of the units.
        starts: int32 `[U]`, first token of each unit, within its row.
        ends: int32 `[U]`, half open. No unit is empty.
        edges: uint64 `[2**n]`, edges of the trie.
        values: `[B + 2**n + 1]`, any type, a value per node. The last item is for units that are
            not in the trie.
        out: `[U]`, same type, written: the value of each unit.
    """
    nodes = len(values) - 1
    unknown = np.uint64(nodes - len(edges) - 1)  # B - 1: the node of tokens outside the lexicon
    for i in range(len(offsets) - 1):
        row = ids[offsets[i] : offsets[i + 1]]
        for u in range(unit_offsets[i], unit_offsets[i + 1]):
            # The node of the first token needs no lookup, and most words have one token only.
            # Negative ids of damaged shards are large as unsigned numbers.
            node = np.int64(min(np.uint64(row[starts[u]]), unknown))
            t = starts[u] + 1
            while node >= 0 and t < ends[u]:
                node = find_child(edges, nodes, node, row[t])
                t += 1
            out[u] = values[node]  # node -1 reads the last item


@kernel
def match_entries(
    offsets: Array,
    ids: Array,
    words: Array,
    edges: Array,
    ending: Array,
    out: Array,
    out_offsets: Array,
) -> None:
    """Find all entries in rows that are whole words, including overlapping ones.

    A match begins and ends with a word, and contains no special token.

    Args:
        offsets: int64 `[N + 1]`.
        ids: int32 `[T]`, token ids.
        words: int32 `[T]`, `word_ids`, -1 on special tokens.
        edges: uint64 `[2**n]`, edges of the trie.
        ending: int32 `[B + 2**n]`, entries of its nodes.
        out: int32 `[C, 3]`, written, up to C matches: first token within the row, the token after
            the last, and the entry; sorted by first token, then length.
        out_offsets: int64 `[N + 1]`, written: offsets of each row's matches. The last item is the
            number of all matches, also if it is larger than C.
    """
    unknown = np.uint64(len(ending) - len(edges) - 1)  # the node of tokens outside the lexicon
    m = 0
    out_offsets[0] = 0
    for i in range(len(offsets) - 1):
        row_ids = ids[offsets[i] : offsets[i + 1]]
        row_words = words[offsets[i] : offsets[i + 1]]
        before = np.int32(-1)
        for first in range(len(row_ids)):
            is_begin = begins_word(row_words[first], before)
            before = row_words[first]
            if not is_begin:
                continue

            # Negative ids of damaged shards are large as unsigned numbers.
            node = np.int64(min(np.uint64(row_ids[first]), unknown))
            t = first + 1
            while node >= 0:
                # An entry may end before token t only at the end of a word or of the text.
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
