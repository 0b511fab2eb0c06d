from __future__ import annotations

import pytest

from mslm_data.log import few


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ("", ""),
        ("ab", "a, b"),
        ("abc", "a, b, c"),
        ("abcd", "a, b and 2 others"),
        ("a" * 1_002, "a, a and 1,000 others"),
    ],
)
def test_few__lists_the_first_names_and_the_number_of_others(names: str, shown: str) -> None:
    assert few([*names], 2) == shown
