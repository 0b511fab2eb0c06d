"""Tell which cues of a sentence reach which of its mentions.

A cue and what it says are sets of flags, one bit each. A cue that stands before mentions reaches
all of them up to the end of the sentence, or to a word that ends its flag. A cue that stands after
mentions reaches back to the nearest one and to those that are listed with it, but not over a word
that ends all flags.
"""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel

OTHER, COMMA, AND = range(3)
"""Kinds of words between mentions: any, a comma, or what joins the last one of a list."""

FARTHEST = 6
"""Words that may stand between a mention and a cue after it."""
EVERY = 31
"""All flags."""


@kernel
def reach(
    sentences: Array,
    mentions: Array,
    before: Array,
    after: Array,
    ends: Array,
    kinds: Array,
    flags: Array,
) -> None:
    """Give each mention the flags of the cues that reach it.

    Args:
        sentences: int64 `[N, 2]`, words of each sentence, half open.
        mentions: int64 `[W]`, the number of the mention that each word belongs to, -1 for none.
        before: uint8 `[W]`, flags of the cue that begins at each word, for mentions after it.
        after: uint8 `[W]`, flags of that cue for mentions before it.
        ends: uint8 `[W]`, flags that reach no further than to this word.
        kinds: uint8 `[W]`: `OTHER`, `COMMA` or `AND`.
        flags: uint8 `[S]`, changed: flags are added.
    """
    for n in range(len(sentences)):
        start = sentences[n, 0]
        stop = sentences[n, 1]

        active = 0
        for w in range(start, stop):
            if mentions[w] >= 0:
                flags[mentions[w]] |= active
            else:
                active = (active & ~ends[w]) | before[w]

        active = 0
        distance = 0  # words since the cue
        in_list = False  # whether a mention has been met
        joined = False  # whether a word of kind AND has been met in the list
        for back in range(stop - start):
            w = stop - 1 - back
            if mentions[w] >= 0:
                flags[mentions[w]] |= active
                in_list = True
                continue
            if after[w]:
                active = after[w]
                distance = 0
                in_list = False
                joined = False
                continue

            # A comma alone may part clauses: `HTN, PE ruled out`. With an `and` after it, it lists.
            distance += 1
            joined = joined or (in_list and kinds[w] == AND)
            if in_list:
                goes_on = kinds[w] == AND or (kinds[w] == COMMA and joined)
            else:
                goes_on = kinds[w] != COMMA and distance <= FARTHEST
            active = active if goes_on and ends[w] != EVERY else 0
