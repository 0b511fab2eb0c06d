"""What runs on the nodes of a Ray cluster: an actor that does units, and prints nothing that Ray could keep."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import socket
from collections.abc import Mapping
from contextlib import suppress

from mslm_data import __version__
from mslm_data.data.document import WorkUnit
from mslm_data.engine import PRELOAD, Work, attempt
from mslm_data.errors import BuildError, MslmDataError

_WRITERS = ("numpy", "pyarrow", "tokenizers", "spacy", "medcat")
"""Packages besides this one whose version can change bytes."""


class Hand:
    """The actor: a process on some node."""

    def begin(
        self, wanted: Mapping[str, str], cwd: str, folder: str, module: str, told: str
    ) -> MslmDataError | None:
        """Get ready, or return why units cannot be done here.

        What this process prints goes nowhere from now on: Ray would keep it in a file that others can read.

        Args:
            wanted: Package -> version, where the build was started.
            cwd: Where the build was started, which its paths may be relative to.
            folder: What is built.
            module: See `Preload`.
            told: See `Preload`.
        """
        os.umask(0o077)
        _silence()
        with suppress(OSError):
            os.chdir(cwd)
        here = versions()
        for name, version in wanted.items():
            if here.get(name, version) != version:
                return BuildError(
                    f"node {_node()}: expected {name} {version} as where the build was started, got {here[name]}; "
                    "install the same versions on all nodes, as bytes depend on them"
                )
        if not os.path.isdir(os.path.join(folder, ".build")):  # False too where it may not look
            return BuildError(
                f"node {_node()}: expected to see {folder}, found no such folder; build into one that all nodes share "
                "under the same path"
            )
        os.environ[PRELOAD] = told
        with suppress(Exception):  # the units meet it again, and say so
            importlib.import_module(module)
        return None

    def attempt(self, work: Work, unit: WorkUnit) -> str | MslmDataError:
        """Do a unit; see `engine.attempt`."""
        outcome = attempt(work, unit)
        if isinstance(outcome, MslmDataError):
            unseen = [part.path for part in unit.parts if not os.path.exists(part.path)]
            if unseen:
                return BuildError(
                    f"node {_node()}: expected to see {unseen[0]}, found no such file; inputs lie where all nodes see "
                    "them under the same path"
                )
        return outcome


def _silence() -> None:
    """Send what is printed nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)


def versions() -> dict[str, str]:
    """Return the versions of what writes bytes, as far as it is installed."""
    found = {"mslm-data": __version__}
    for name in _WRITERS:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _node() -> str:
    return socket.gethostname()
