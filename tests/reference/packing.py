"""Slow twin of `kernels/packing.py`: packs are lists of rows, looked through one by one."""

from __future__ import annotations

from collections.abc import Sequence


def best_fit(lengths: Sequence[int], order: Sequence[int], capacity: int) -> list[list[int]]:
    """Put each row into the fullest pack that has room; of several, into the last one filled."""
    packs: list[list[int]] = []
    filled: list[int] = []  # the packs, that filled last at the end
    for row in order:
        rooms = {pack: capacity - sum(lengths[r] for r in packs[pack]) for pack in filled}
        fitting = [pack for pack in filled if rooms[pack] >= lengths[row]]
        if fitting:
            least = min(rooms[pack] for pack in fitting)
            pack = [pack for pack in fitting if rooms[pack] == least][-1]
            filled.remove(pack)
        else:
            pack = len(packs)
            packs.append([])
        packs[pack].append(row)
        filled.append(pack)
    return packs


def cut_to_budget(lengths: Sequence[int], budget: int, multiple_of: int) -> list[list[int]]:
    """Give each batch rows as long as their rectangle fits the budget."""
    batches: list[list[int]] = []
    for row in range(len(lengths)):
        if batches:
            grown = [*batches[-1], row]
            width = max(lengths[r] for r in grown)
            while width % multiple_of:
                width += 1
            if len(grown) * width <= budget:
                batches[-1] = grown
                continue
        batches.append([row])
    return batches
