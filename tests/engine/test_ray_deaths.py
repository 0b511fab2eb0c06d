"""Random kills of actors, nodes and the driver.

FAULT_ROUNDS=20 runs twenty builds of each corpus.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mslm_data.builds.verify import verify
from tests import made
from tests.engine import works
from tests.engine.nodes import actors, kill_node
from tests.engine.works import finely
from tests.faults.corpora import CORPORA

pytestmark = pytest.mark.long


ROUNDS = int(os.environ.get("FAULT_ROUNDS") or 0)
KILLS = 10


def kill_one(
    cluster: Any, driver: subprocess.Popen[bytes], out: Path, chance: random.Random
) -> str:
    """Kill an actor, usually at a unit, sometimes a node or the driver. Return its kind."""
    victim = chance.choices(("busy actor", "actor", "driver", "node"), (7, 1, 2, 1))[0]
    if victim == "driver":
        driver.kill()
    elif victim == "node":
        node = chance.choice(sorted(cluster.worker_nodes, key=id))
        kill_node(node)
        cluster.remove_node(node)
        cluster.add_node(num_cpus=1)
    else:
        found = {process.pid for process in actors(cluster)}
        found = found if victim == "actor" else works.busy(out, found)
        if not found:
            return "nobody"
        with suppress(ProcessLookupError):
            os.kill(chance.choice(sorted(found)), signal.SIGKILL)
    return victim


@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("corpus", CORPORA)
def test_build__resumes_after_many_deaths(
    corpus: str, number: int, cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    while len(cluster.worker_nodes) < 2:
        cluster.add_node(num_cpus=1)
    chance, kills, out = random.Random(number), Counter[str](), tmp_path / "out"
    inputs = finely(corpus).write(tmp_path / "in")
    finely(corpus).build(inputs, tmp_path / "whole")
    Path(f"{out}.go").touch()
    command = [sys.executable, "-m", "tests.engine.driver", corpus, str(inputs), str(out)]

    code: int | None = 1
    while code:
        driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        while (code := driver.poll()) is None:
            time.sleep(chance.uniform(0.2, 1.0))
            if kills.total() - kills["nobody"] < KILLS and actors(cluster):
                kills[kill_one(cluster, driver, out, chance)] += 1
        assert code in (0, -signal.SIGKILL), driver.communicate()

    assert made.tree(out) == made.tree(tmp_path / "whole")
    assert verify(out)[1] == []
    with capsys.disabled():
        print(f"\n{corpus}: killed {dict(kills)}")  # noqa: T201
