"""A process that may not use the network, and the environment of one."""

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
    """Refuse this process the network from now on, for good, and note in a file what was asked for.

    Python tells audit hooks of every connection and every look-up of a name, whatever library asks; sockets between
    processes of this machine are none of the network's.
    """

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in _NAMED or (event in _ADDRESSED and isinstance(args[-1], tuple)):
            with log.open("a") as file:
                file.write(f"{event} {args[1:] if event in _ADDRESSED else args}\n")
            raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))

    sys.addaudithook(hook)


def without_network(log: Path, home: Path, **more: str) -> dict[str, str]:
    """Return the environment of a process that may not use the network, with nothing in it that keeps libraries off."""
    kept = {name: value for name, value in os.environ.items() if name not in _OFFLINE}
    paths = os.pathsep.join(map(str, (ROOT / "tests" / "security" / "site", ROOT)))
    return kept | {"PYTHONPATH": paths, "MSLM_TEST_NO_NETWORK": str(log), "HOME": str(home)} | more
