"""Builds killed at any disk-changing call resume, and end with the same bytes."""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mslm_data.api.loading import load
from mslm_data.builds.verify import verify
from mslm_data.errors import ShardError
from tests import made
from tests.faults.children import Children
from tests.faults.corpora import CORPORA
from tests.support.cases import long

FIRST_AND_STEP = [(13, 41), *long(*((first, 6) for first in range(1, 7)))]
"""First call at which a build is killed, and the step to the next: a few in the daily suite, all
300 or more in the long suite.
"""
MOST_KILLS = 100
"""Maximum number of kills before a build counts as stuck."""


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    with Children() as started:
        yield started


class Whole(NamedTuple):
    """A corpus and its uninterrupted build."""

    name: str
    inputs: Path
    tree: dict[str, bytes]
    calls: int


@pytest.fixture(scope="module", params=CORPORA)
def whole(
    request: pytest.FixtureRequest, children: Children, tmp_path_factory: pytest.TempPathFactory
) -> Whole:
    folder = tmp_path_factory.mktemp(request.param)
    inputs = CORPORA[request.param].write(folder / "in")
    status, calls = children.build(request.param, inputs, folder / "out", kill_at=0)
    assert (status, verify(folder / "out")[1]) == (0, [])
    assert calls > 60
    return Whole(request.param, inputs, made.tree(folder / "out"), calls)


@pytest.mark.parametrize(("first", "step"), FIRST_AND_STEP)
def test_build__killed_at_any_call_resumes_with_the_same_bytes(
    first: int, step: int, whole: Whole, children: Children, tmp_path: Path
) -> None:
    corpus, inputs, expected, calls = whole
    for at in range(first, calls + 1, step):
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


def test_build__killed_repeatedly_resumes_with_the_same_bytes(
    whole: Whole, children: Children, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    chance = random.Random(whole.name)

    kills = 0
    while (
        kills < MOST_KILLS
        and children.build(whole.name, whole.inputs, out, kill_at=chance.randint(12, 40 + kills))[0]
    ):
        kills += 1
        assert len(list(out.glob(".*.tmp"))) <= 1, (
            "what a killed build leaves is removed by the next"
        )

    assert 1 < kills < MOST_KILLS
    assert made.tree(out) == whole.tree
