"""Processes for tests, forked from this one, which has imported everything."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import traceback
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

SHOWN = Path(__file__).parents[2] / "examples"
"""Programs of the manual."""
EXAMPLES = Path(__file__).parent / "examples"
"""Programs that report their batches. Tests kill some of them."""


def start(target: Any, *arguments: Any) -> BaseProcess:
    """Call a target in a child process. An error is printed, and makes its exit code 1."""
    process = multiprocessing.get_context("fork").Process(target=_call, args=(target, *arguments))
    process.start()
    return process


def _call(target: Any, *arguments: Any) -> None:
    """Call a target, with as little as possible of what earlier tests left in this process.

    One thread is enough for such small models; several would wait for each other on few cores.
    """
    import torch
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    multiprocessing.set_start_method("fork", force=True)
    torch.set_num_threads(1)

    code = 0
    try:
        target(*arguments)
    except BaseException:  # noqa: BLE001 - of the target, also an exit
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # A normal exit would wait for threads that were not copied by the fork.
    os._exit(code)


def example(name: str, out: Path, *arguments: str) -> BaseProcess:
    """Start an example, like `python NAME ARGUMENTS`; its output goes to `out`."""
    folder = SHOWN if (SHOWN / name).is_file() else EXAMPLES
    return start(_run, str(folder / name), str(out), arguments)


def _run(path: str, out: str, arguments: tuple[str, ...]) -> None:
    sys.path.insert(0, str(EXAMPLES))
    sys.argv = [path, *arguments]
    sys.stdout = open(out, "a")  # noqa: SIM115 - until the process ends
    sys.stderr = open(out + ".err", "a")  # noqa: SIM115
    runpy.run_path(path, run_name="__main__")
