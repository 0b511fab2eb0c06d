"""Builds on Ray in a separate process that tests may kill.

`python -m tests.engine.driver CORPUS INPUTS OUT`
"""

from __future__ import annotations

import sys
from pathlib import Path

from mslm_data import builds
from tests.engine.works import SlowWorker, finely

if __name__ == "__main__":
    corpus, inputs, out = sys.argv[1:]
    builds.BuildWorker = SlowWorker  # type: ignore[misc]
    finely(corpus).build(Path(inputs), Path(out), workers=3, engine="ray")
