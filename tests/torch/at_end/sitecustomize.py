"""Python imports this first in the processes of `test_programs.py`.

It fails those that destroy their process group while a model holds it. Threads of Gloo would live
on, and one that then waits for the interpreter's lock hangs or aborts the process, by chance.
"""

from __future__ import annotations

import os
from pathlib import Path

if "RANK" in os.environ:
    from torch import distributed

    destroy = distributed.destroy_process_group

    def destroy_and_check(group: distributed.ProcessGroup | None = None) -> None:
        """Destroy the process group, and end the process if its threads are still there."""
        destroy(group)
        names = [task.read_text() for task in Path("/proc/self/task").glob("*/comm")]
        if any("gloo" in name for name in names):
            os.write(2, b"a model still holds the process group\n")
            os._exit(1)

    distributed.destroy_process_group = destroy_and_check
