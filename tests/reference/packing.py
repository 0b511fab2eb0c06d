"""Slow twin of `kernels/packing.py`."""

from __future__ import annotations

from collections.abc import Sequence


def cut_to_budget(
    lengths: Sequence[int], budget: int, multiple_of: int, is_flat: bool
) -> list[list[int]]:
    """Give each batch rows as long as they fit the budget."""
    batches: list[list[int]] = []
    for row in range(len(lengths)):
        if batches:
            grown = [*batches[-1], row]
            width = sum(lengths[r] for r in grown) if is_flat else max(lengths[r] for r in grown)
            while width % multiple_of:
                width += 1
            if (width if is_flat else len(grown) * width) <= budget:
                batches[-1] = grown
                continue
        batches.append([row])
    return batches
