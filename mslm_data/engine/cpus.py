"""Counts the CPUs that this process may use, as its affinity and its control groups say.

A container's limit (`docker run --cpus 2`, a limit of Kubernetes) is a share of time that a control
group gives to its processes. It takes no CPU away, so `os.sched_getaffinity` and
`os.process_cpu_count` still count all CPUs of the machine.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUP = Path("/proc/self/cgroup")


def cpus(groups: Path = _GROUPS, own: Path = _OWN_GROUP) -> int:
    """Return the number of CPUs that this process may use: a build starts at most so many workers.

    A limit of 2.5 CPUs counts as 3, as two processes would leave time unused.

    Args:
        groups: See `cgroup_cpus`.
        own: See `cgroup_cpus`.
    """
    limit = cgroup_cpus(groups, own)
    if limit is None:
        return usable_cpus()
    return math.ceil(min(usable_cpus(), limit))


def usable_cpus() -> int:
    """Return the number of CPUs that this process may run on; schedulers may limit it."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cgroup_cpus(groups: Path = _GROUPS, own: Path = _OWN_GROUP) -> float | None:
    """Return the CPUs' time that control groups allow this process, in CPUs; None for all.

    What cannot be read, as on other systems than Linux, sets no limit.

    Args:
        groups: Where control groups are mounted.
        own: The file that names the group of this process.
    """
    limits = []
    for line in _lines(own):
        _, controllers, place = (*line.split(":", 2), "", "")[:3]
        below = place.strip("/")
        if not controllers:
            limits += [_new_limit(group) for group in _upwards(groups, below)]
        elif "cpu" in controllers.split(","):
            for name in (controllers, "cpu"):
                limits += [_old_limit(group) for group in _upwards(groups / name, below)]
    return min((limit for limit in limits if limit), default=None)


def _upwards(root: Path, below: str) -> Iterator[Path]:
    """Give a group's folder and those above it; the limits of all of them hold.

    A container often sees the name that its group has outside, but only the folder `root`.
    """
    folder = root / below
    yield folder
    while folder != root:
        folder = folder.parent
        yield folder


def _new_limit(group: Path) -> float | None:
    """Return the limit of a group of version 2: `200000 100000` means 2 CPUs, `max 100000` all."""
    words = _words(group / "cpu.max")
    return _share(words[0], words[1]) if len(words) > 1 else None


def _old_limit(group: Path) -> float | None:
    """Return the limit of a group of version 1, where -1 means all CPUs."""
    quota = _words(group / "cpu.cfs_quota_us")
    period = _words(group / "cpu.cfs_period_us")
    return _share(quota[0], period[0]) if quota and period else None


def _share(quota: str, period: str) -> float | None:
    """Return a quota as a share of its period; None where one of them is not a number."""
    if not (quota.isdecimal() and period.isdecimal() and int(period)):
        return None
    return int(quota) / int(period)


def _words(file: Path) -> list[str]:
    return [word for line in _lines(file) for word in line.split()]


def _lines(file: Path) -> list[str]:
    """Return a file's lines; nothing where it cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except (OSError, ValueError):  # a name with a NUL is a ValueError
        return []
