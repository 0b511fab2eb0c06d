"""Choose documents that stay, such that none is nearly another that stays, by their signatures."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel

PASSED_OVER, MAY_STAY, STAYS, GOES = range(4)
"""Roles of documents.

Others are compared with those that stay, and with those that may stay and are not copies. One that
goes may be a copy too, but it has other reasons to go, so nothing is a copy of it.
"""


@kernel
def thin(
    signatures: Array,
    buckets: Array,
    roles: Array,
    least: int,
    heads: Array,
    links: Array,
    compared: Array,
    copies: Array,
) -> None:
    """Find the documents that are nearly one before them, which is not such a copy itself.

    A document is compared with those that share a bucket with it in one band at least.

    Args:
        signatures: uint8 `[D, P]`.
        buckets: int32 `[D, B]`, the bucket of each document in each band; -1 where no other
            document has it.
        roles: uint8 `[D]`, one of the roles above.
        least: Equal places of two signatures from which one is a copy of the other.
        heads: int32 `[B, N]`, all -1 at first, changed: the last document kept in each bucket.
        links: int32 `[D, B]`, written: the document kept in the bucket before.
        compared: int32 `[D]`, all -1 at first, changed: the last document compared with each.
        copies: uint8 `[D]`, written: 1 for copies.
    """
    for d in range(len(signatures)):
        copies[d] = 0
        if roles[d] == PASSED_OVER:
            continue

        for b in range(buckets.shape[1]):
            if roles[d] == STAYS or copies[d] or buckets[d, b] < 0:
                continue
            other = heads[b, buckets[d, b]]
            while other >= 0 and not copies[d]:
                if compared[other] != d:
                    compared[other] = d
                    equal = 0
                    for p in range(signatures.shape[1]):
                        if signatures[d, p] == signatures[other, p]:
                            equal += 1
                    if equal >= least:
                        copies[d] = 1
                other = links[other, b]

        if not copies[d] and roles[d] != GOES:
            for b in range(buckets.shape[1]):
                if buckets[d, b] >= 0:
                    links[d, b] = heads[b, buckets[d, b]]
                    heads[b, buckets[d, b]] = d
