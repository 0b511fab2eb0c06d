"""Selective Masking's rule, one row and one call at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def important(
    ids: Sequence[int],
    word_ids: Sequence[int],
    p_true: Callable[[list[int]], float],
    threshold: float,
) -> list[int]:
    """Return the positions of important tokens of a row between special tokens."""
    inner = [t for t, word in enumerate(word_ids) if word >= 0]
    if not inner:
        return []
    before, after = list(ids[: inner[0]]), list(ids[inner[-1] + 1 :])
    whole = p_true(list(ids))
    buffer: list[int] = []
    found = []
    for t in inner:
        buffer.append(ids[t])
        if whole - p_true(before + buffer + after) < threshold:
            found.append(t)
            buffer.pop()
    return found
