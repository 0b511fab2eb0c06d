"""The kernel for near copies, compared with a search over all kept documents."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.kernels.near_copies import MAY_STAY, PASSED_OVER, STAYS, thin

PLACES = 4
documents = st.lists(
    st.tuples(
        st.lists(st.integers(0, 2), min_size=PLACES, max_size=PLACES),
        st.lists(st.integers(-1, 3), min_size=2, max_size=2),
        st.sampled_from([PASSED_OVER, MAY_STAY, MAY_STAY, STAYS]),
    ),
    max_size=14,
)


def expected(rows: list, least: int) -> list[int]:
    kept: list = []
    copies = []
    for signature, buckets, role in rows:
        near = any(
            sum(a == b for a, b in zip(signature, other, strict=True)) >= least
            for other, of_other in kept
            if any(a == b >= 0 for a, b in zip(buckets, of_other, strict=True))
        )
        is_copy = near and role == MAY_STAY
        copies.append(int(is_copy))
        if role in (MAY_STAY, STAYS) and not is_copy:
            kept.append((signature, buckets))
    return copies


@given(documents, st.integers(1, PLACES))
def test_thin__compares_with_kept_documents_only(rows: list, least: int) -> None:
    num = len(rows)
    copies = np.empty(num, np.uint8)

    thin(
        np.array([row[0] for row in rows], np.uint8).reshape(num, PLACES),
        np.array([row[1] for row in rows], np.int32).reshape(num, 2),
        np.array([row[2] for row in rows], np.uint8),
        least,
        np.full((2, 4), -1, np.int32),
        np.full((num, 2), -1, np.int32),
        np.full(num, -1, np.int32),
        copies,
    )

    assert copies.tolist() == expected(rows, least)
