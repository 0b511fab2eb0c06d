"""A build that ends its own process at a given fsync, as a power cut would: `python -m tests.builds.killed OUT N`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests import made

UNIT_BYTES = 1500


def build_until(out: Path, last: int) -> None:
    fsync, calls = os.fsync, 0

    def fatal(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == last:
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(handle)

    os.fsync = fatal
    made.built(out, pipeline=made.pipeline_of(unit_bytes=UNIT_BYTES))


if __name__ == "__main__":
    build_until(Path(sys.argv[1]), int(sys.argv[2]))
