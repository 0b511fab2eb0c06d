"""A guard that denies a process the network, and its environment."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_ADDRESSED = ("socket.connect", "socket.sendto", "socket.sendmsg")
_NAMED = (
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.gethostbyaddr",
    "socket.getnameinfo",
)
_OFFLINE = (
    "HF_HUB_OFFLINE",
    "TRANSFORMERS_OFFLINE",
    "HF_DATASETS_OFFLINE",
    "MEDCAT_DISABLE_VERSION_CHECK",
)


def forbid(log: Path) -> None:
    """Deny this process the network permanently, and log its requests to a file.

    Python's audit hooks see the connections and name look-ups of all libraries. Sockets between
    local processes are allowed.
    """

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in _NAMED or (event in _ADDRESSED and isinstance(args[-1], tuple)):
            with log.open("a") as file:
                file.write(f"{event} {args[1:] if event in _ADDRESSED else args}\n")
            raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))

    sys.addaudithook(hook)


def without_network(log: Path, home: Path, **more: str) -> dict[str, str]:
    """Return the environment of a process without network, with no offline variables set."""
    kept = {name: value for name, value in os.environ.items() if name not in _OFFLINE}
    paths = os.pathsep.join(map(str, (ROOT / "tests" / "security" / "site", ROOT)))
    return kept | {"PYTHONPATH": paths, "MSLM_TEST_NO_NETWORK": str(log), "HOME": str(home)} | more
