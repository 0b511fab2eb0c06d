"""Find near copies of documents by their MinHash signatures."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel

PASSED_OVER, MAY_STAY, STAYS = range(3)
"""Roles of documents.

PASSED_OVER is ignored. MAY_STAY stays unless it is a copy. STAYS stays in any case.
"""


@kernel
def thin(
    signatures: Array,
    buckets: Array,
    roles: Array,
    min_equal: int,
    heads: Array,
    links: Array,
    compared: Array,
    copies: Array,
) -> None:
    """Find the documents that are near copies of an earlier document that stays.

    A document is compared with earlier ones in the same bucket in at least one of B bands. The
    documents of a bucket are a linked list: `heads` has the last, `links` the one before each.

    Args:
        signatures: uint8 `[D, P]`.
        buckets: int32 `[D, B]`, bucket of each document in each band, -1 if it has no other
            document.
        roles: uint8 `[D]`, PASSED_OVER, MAY_STAY or STAYS.
        min_equal: Minimum number of equal items in the signatures of a copy and its original.
        heads: int32 `[B, N]`, all -1; scratch memory: last document of each bucket.
        links: int32 `[D, B]`, scratch memory: the document before each one in its bucket.
        compared: int32 `[D]`, all -1; scratch memory: last document compared with each one.
        copies: uint8 `[D]`, written: 1 for copies.
    """
    for d in range(len(signatures)):
        copies[d] = 0
        if roles[d] == PASSED_OVER:
            continue

        # Compare with the documents of its buckets, with each once.
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
                    if equal >= min_equal:
                        copies[d] = 1
                other = links[other, b]

        # It stays: add it to its buckets.
        if not copies[d]:
            for b in range(buckets.shape[1]):
                if buckets[d, b] >= 0:
                    links[d, b] = heads[b, buckets[d, b]]
                    heads[b, buckets[d, b]] = d
