"""A few mutations of every target. FUZZ_EXAMPLES=2000 tries 2,000, different ones each time."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz.mutations import KINDS, Change, mutate
from tests.fuzz.targets import TARGETS
from tests.fuzz.watch import watched

pytestmark = pytest.mark.long


EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES") or 0)
numbers = st.integers(0, (1 << 20) - 1)
changes = st.lists(
    st.builds(Change, st.sampled_from(list(KINDS)), numbers, numbers, numbers),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("name", TARGETS)
def test_target__reads_its_seeds(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    target.lay_out(tmp_path)

    assert all(target.try_one(tmp_path, seed) for seed in target.seeds())


@pytest.mark.parametrize("name", TARGETS)
def test_target__answers_or_refuses(name: str) -> None:
    target = TARGETS[name]
    seeds, tokens = [*target.seeds(), *target.more()], target.all_tokens

    @settings(
        max_examples=EXAMPLES or 12,
        derandomize=not EXAMPLES,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(seeds), changes)
    def some(seed: bytes, drawn: list[Change]) -> None:
        with watched():
            target.try_one(folder, mutate(seed, drawn, tokens))

    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        target.lay_out(folder)
        for seed in target.seeds():  # compile kernels before tries are timed
            target.try_one(folder, seed)
        some()
