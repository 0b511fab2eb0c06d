"""Cut rows into batches by tokens."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel


@kernel
def cut_to_budget(
    lengths: Array, budget: int, multiple_of: int, is_flat: bool, firsts: Array
) -> int:
    """Cut consecutive rows into batches with a maximum number of tokens, padding included.

    The tokens of a padded batch are its number of rows times the length of its longest row, rounded
    up. Those of a flat row are the sum of the lengths, rounded up.

    Args:
        lengths: uint32 `[R]`, number of tokens of each row.
        budget: Maximum number of tokens of a batch, at least the rounded length of the longest row.
        multiple_of: Widths are rounded up to a multiple of this.
        is_flat: Whether the rows of a batch are concatenated to a flat row.
        firsts: int64 `[R]`, written from the left: first row of each batch.

    Returns:
        The number of batches.
    """
    num_batches = 0
    count = 0
    longest = 0
    total = 0
    for row in range(len(lengths)):
        length = int(lengths[row])
        count += 1
        longest = max(longest, length)
        total += length

        width = total if is_flat else longest
        lines = 1 if is_flat else count
        fits = lines * (-(-width // multiple_of) * multiple_of) <= budget

        # The row does not fit: it is the first row of the next batch.
        if row == 0 or not fits:
            firsts[num_batches] = row
            num_batches += 1
            count = 1
            longest = length
            total = length
    return num_batches
