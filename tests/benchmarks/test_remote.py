"""How well orders of remote splits mix rows."""

from __future__ import annotations

from benchmarks import remote


def test_distances__grow_with_the_open_shards() -> None:
    medians = [
        int(quantiles.split(", ")[1].replace(",", "")) for _, quantiles, _ in remote._distances()
    ]

    assert len(medians) == 5
    assert medians == sorted(medians)
