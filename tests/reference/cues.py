"""How far cues reach, word by word and flag by flag."""

from __future__ import annotations

from collections.abc import Sequence

OTHER, COMMA, AND = range(3)


def reach(
    sentence: Sequence[int],
    mentions: Sequence[int],
    before: Sequence[set[int]],
    after: Sequence[set[int]],
    ends: Sequence[set[int]],
    kinds: Sequence[int],
    flags: int,
) -> set[tuple[int, int]]:
    """Return the (mention, flag) pairs of one sentence, whose words are numbered by `sentence`.

    Each cue is followed alone, from where it stands.
    """
    found = set()
    for w in sentence:
        if mentions[w] >= 0:
            continue
        for flag in before[w]:
            for v in range(w + 1, sentence[-1] + 1):
                if mentions[v] >= 0:
                    found.add((mentions[v], flag))
                elif flag in ends[v] and flag not in before[v]:
                    break
        for flag in after[w]:
            for mention in _listed(w, sentence, mentions, after, ends, kinds, flags):
                found.add((mention, flag))
    return found


def _listed(
    cue: int,
    sentence: Sequence[int],
    mentions: Sequence[int],
    after: Sequence[set[int]],
    ends: Sequence[set[int]],
    kinds: Sequence[int],
    flags: int,
) -> list[int]:
    """Return the mentions that a cue after them reaches, backwards."""
    reached: list[int] = []
    words_between: list[int] = []
    saw_and = False
    for v in range(cue - 1, sentence[0] - 1, -1):
        if mentions[v] >= 0:
            reached.append(mentions[v])
            continue
        if after[v] or len(ends[v]) == flags:
            break
        if not reached:
            words_between.append(v)
            if kinds[v] == COMMA or len(words_between) > 6:
                break
        else:
            saw_and = saw_and or kinds[v] == AND
            if kinds[v] == OTHER or (kinds[v] == COMMA and not saw_and):
                break
    return reached
