"""Digests of a plan and a corruption of each strategy, with the shares of its paper or code.

A changed digest changes every mask ever drawn: runs no longer resume, and published counts no
longer hold. Never edit a digest in `golden.json`. Different masks for the same seed need a new
version (`joint.v2`) with a digest of its own. `python -m tests.mask.test_golden` prints the
digests.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from mslm_data.mask.table import STRATEGIES
from tests.generate import fixed_examples
from tests.mask.contract import made

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())


def digests_of(name):
    examples = fixed_examples()
    strategy = made((name, {}), examples)
    plan = strategy.plan(examples, seed=3, epoch=5)
    ids = strategy.corrupt(examples, plan, seed=3, epoch=5)
    columns = (plan.kinds.values.astype("u1"), ids.values.astype("<i4"))
    return [hashlib.sha256(column.tobytes()).hexdigest() for column in columns]


@pytest.mark.parametrize("name", STRATEGIES.names())
def test_plan__numbers_are_those_of_its_version(name):
    assert name in GOLDEN, (
        f"{name} has no row in tests/mask/golden.json; see this module's first lines"
    )
    assert digests_of(name) == GOLDEN[name], (
        f"{name} draws other numbers: that is a new version, not a new digest"
    )


def test_golden__no_row_without_a_strategy():
    assert sorted(GOLDEN) == STRATEGIES.names()


if __name__ == "__main__":
    print(json.dumps({name: digests_of(name) for name in STRATEGIES.names()}, indent=2))  # noqa: T201
