"""Assign the cues of a sentence, such as negations, to its mentions.

The meaning of a cue is a set of flags, one bit each. A cue before mentions (`no HTN`) applies to
all mentions up to the end of the sentence, or to a word that ends its flag. A cue after mentions
(`HTN ruled out`) applies to the nearest mention before it, and to mentions in the same list, but
not across a word that ends all flags.
"""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel

OTHER, COMMA, AND = range(3)
"""Kinds of words between mentions: any word, a comma, or a conjunction before the last item of a
list."""

FARTHEST = 6
"""Maximum number of words between a mention and a cue after it."""
EVERY = 31
"""All flags, as a bit set."""


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
    """Add the flags of cues to the mentions in their scope.

    Args:
        sentences: int64 `[N, 2]`, word range of each sentence.
        mentions: int64 `[W]`, mention of each word, -1 for none.
        before: uint8 `[W]`, flags of a cue at each word, for mentions after it; 0 for no cue.
        after: uint8 `[W]`, flags of a cue at each word, for mentions before it; 0 for no cue.
        ends: uint8 `[W]`, flags whose scope ends at each word.
        kinds: uint8 `[W]`, OTHER, COMMA or AND.
        flags: uint8 `[S]`, flags of each mention, changed.
    """
    for n in range(len(sentences)):
        start = sentences[n, 0]
        stop = sentences[n, 1]

        # Cues before mentions: from left to right.
        active = 0
        for w in range(start, stop):
            if mentions[w] >= 0:
                flags[mentions[w]] |= active
            else:
                active = (active & ~ends[w]) | before[w]

        # Cues after mentions: from right to left.
        active = 0
        distance = 0  # number of words since the cue
        in_list = False  # whether a mention has been reached
        joined = False  # whether the list has had a conjunction
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

            # A comma may separate clauses: `HTN, PE ruled out`. It belongs to a list only if a
            # conjunction follows: `HTN, DM and PE ruled out`.
            distance += 1
            joined = joined or (in_list and kinds[w] == AND)
            if in_list:
                goes_on = kinds[w] == AND or (kinds[w] == COMMA and joined)
            else:
                goes_on = kinds[w] != COMMA and distance <= FARTHEST
            active = active if goes_on and ends[w] != EVERY else 0
