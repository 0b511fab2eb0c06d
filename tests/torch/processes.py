"""Processes for tests, forked from a server that has imported everything."""

from __future__ import annotations

import functools
import multiprocessing
import runpy
import sys
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

SHOWN = Path(__file__).parents[2] / "examples"
"""Programs of the manual."""
EXAMPLES = Path(__file__).parent / "examples"
"""Programs that report their batches. Tests kill some of them."""


@functools.cache
def server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.torch.preloaded"])
    return context


def start(target: Any, *arguments: Any) -> BaseProcess:
    process = server().Process(target=_forking, args=(target, *arguments))
    process.start()
    return process


def _forking(target: Any, *arguments: Any) -> None:
    """Call a target whose child processes are forked directly; children of a server would survive when it is killed.

    One thread is enough for such small models; several would wait for each other on few cores.
    """
    import torch

    multiprocessing.set_start_method("fork", force=True)
    torch.set_num_threads(1)
    target(*arguments)


def example(name: str, out: Path, *arguments: str) -> BaseProcess:
    """Start an example, like `python NAME ARGUMENTS`; its output goes to `out`."""
    folder = SHOWN if (SHOWN / name).is_file() else EXAMPLES
    return start(_run, str(folder / name), str(out), arguments)


def _run(path: str, out: str, arguments: tuple[str, ...]) -> None:
    sys.path.insert(0, str(EXAMPLES))
    sys.argv = [path, *arguments]
    with open(out, "a") as file:
        sys.stdout = file
        sys.stderr = open(out + ".err", "a")  # noqa: SIM115
        runpy.run_path(path, run_name="__main__")
        file.flush()
