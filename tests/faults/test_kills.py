"""A build that is killed at any call that changes the disk goes on, and ends with the same bytes."""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mslm_data.errors import ShardError
from mslm_data.loading import load
from mslm_data.shard.verify import verify
from tests import made
from tests.faults.children import Children
from tests.faults.corpora import CORPORA

STEPS = 6
"""The calls of a build, more than three hundred in all three corpora, are shared out over so many tests."""
MOST_KILLS = 100
"""A build that is killed later each time and still does not end never will."""


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    with Children() as started:
        yield started


@pytest.mark.parametrize("step", range(STEPS))
@pytest.mark.parametrize("corpus", CORPORA)
def test_build__killed_at_any_call_ends_with_the_same_bytes(
    corpus: str, step: int, children: Children, tmp_path: Path
) -> None:
    inputs = CORPORA[corpus].write(tmp_path / "in")
    status, calls = children.build(corpus, inputs, tmp_path / "whole", kill_at=0)
    expected = made.tree(tmp_path / "whole")
    assert (status, verify(tmp_path / "whole")[1]) == (0, [])
    assert calls > 60

    for at in range(1 + step, calls + 1, STEPS):
        out = tmp_path / "out"
        status, _ = children.build(corpus, inputs, out, kill_at=at)
        assert status == -signal.SIGKILL, at
        if (out / "manifest.json").exists():
            assert made.tree(out).items() >= expected.items(), at
        else:
            with pytest.raises(ShardError):
                load(out)
        CORPORA[corpus].build(inputs, out)
        assert made.tree(out) == expected, at
        shutil.rmtree(out)


@pytest.mark.parametrize("corpus", CORPORA)
def test_build__killed_again_and_again_ends_with_the_same_bytes(
    corpus: str, children: Children, tmp_path: Path
) -> None:
    inputs, out, chance = (
        CORPORA[corpus].write(tmp_path / "in"),
        tmp_path / "out",
        random.Random(corpus),
    )
    CORPORA[corpus].build(inputs, tmp_path / "whole")

    kills = 0
    while (
        kills < MOST_KILLS
        and children.build(corpus, inputs, out, kill_at=chance.randint(12, 40 + kills))[0]
    ):
        kills += 1
        assert len(list(out.glob(".*.tmp"))) <= 1, (
            "what a killed build leaves is removed by the next"
        )

    assert 1 < kills < MOST_KILLS
    assert made.tree(out) == made.tree(tmp_path / "whole")
