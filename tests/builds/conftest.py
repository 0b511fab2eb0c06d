"""Built folders for the tests of builds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mslm_data.api.loading import load
from mslm_data.builds.tasks import BuildUnit, Cut, FindDrops, Join, ReadUnit, Unpack
from mslm_data.builds.verify import verify
from tests import made
from tests.builds import everything
from tests.shard.conftest import folder, one_build
from tests.support.build_tasks import tasks_run

__all__ = ["folder", "one_build"]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The input folder of `everything`, which no test changes."""
    return everything.write(tmp_path_factory.mktemp("everything"))


@pytest.fixture(scope="session")
def whole(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that an uninterrupted build with one worker makes of it."""
    out = tmp_path_factory.mktemp("whole") / "out"
    with tasks_run() as tasks:
        everything.build(corpus, out)

    kinds = Counter(type(task) for task in tasks)
    assert kinds[Unpack] > 0
    assert kinds[Cut] == kinds[FindDrops] == 1
    assert min(kinds[ReadUnit], kinds[BuildUnit]) > 4
    assert kinds[Join] > 2
    assert verify(out)[1] == []
    assert (out / "set_aside.jsonl").read_bytes().count(b"\n") == 5
    rows = [*load(out)["train"]]
    assert any(map(any, (row["span_contexts"] for row in rows)))
    assert max(len(row["sentence_starts"]) for row in rows) > 1
    assert {row["doc_label"] for row in rows} == {0, 1}
    return out


@pytest.fixture(scope="session")
def expected(whole: Path) -> dict[str, bytes]:
    """The bytes of this folder's files."""
    return made.tree(whole)


@pytest.fixture(scope="session")
def half(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unfinished folder, with the units of a part."""
    out = tmp_path_factory.mktemp("half") / "out"
    everything.build(corpus, out, part=(1, 2))
    return out
