"""Counts the CPUs that this process may use, by its affinity and its control groups.

A container limit, such as `docker run --cpus 2` or a Kubernetes limit, is a share of CPU time that
a control group grants its processes. All CPUs remain visible, so `os.sched_getaffinity` and
`os.process_cpu_count` count all of them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUP = Path("/proc/self/cgroup")


def cpus(groups: Path = _GROUPS, own: Path = _OWN_GROUP) -> int:
    """Return the number of CPUs that this process may use: the default number of workers.

    A limit of 2.5 CPUs counts as 3, because two processes would leave time unused.

    Args:
        groups: See `cgroup_cpus`.
        own: See `cgroup_cpus`.
    """
    limit = cgroup_cpus(groups, own)
    if limit is None:
        return usable_cpus()
    return math.ceil(min(usable_cpus(), limit))


def usable_cpus() -> int:
    """Return the number of CPUs in the affinity of this process, which schedulers may restrict."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cgroup_cpus(groups: Path = _GROUPS, own: Path = _OWN_GROUP) -> float | None:
    """Return the CPU limit of this process's control groups, in CPUs; None without a limit.

    Files that cannot be read, as on systems other than Linux, set no limit.

    Args:
        groups: Mount point of control groups.
        own: File that names the control groups of this process.
    """
    limits = []
    for line in _lines(own):
        _, controllers, place = (*line.split(":", 2), "", "")[:3]
        below = place.strip("/")
        # A line without controllers names the group of version 2; others are of version 1, whose
        # folder has the name of all its controllers or of one.
        if not controllers:
            limits += [_new_limit(group) for group in _upwards(groups, below)]
        elif "cpu" in controllers.split(","):
            for name in (controllers, "cpu"):
                limits += [_old_limit(group) for group in _upwards(groups / name, below)]
    return min((limit for limit in limits if limit), default=None)


def _upwards(root: Path, below: str) -> Iterator[Path]:
    """Yield a group's folder and its parents, whose limits all apply.

    A container often sees the outside name of its group, but only the folder `root`.
    """
    folder = root / below
    yield folder
    while folder != root:
        folder = folder.parent
        yield folder


def _new_limit(group: Path) -> float | None:
    """Return the limit of a version 2 group: `200000 100000` is 2 CPUs, `max 100000` none."""
    words = _words(group / "cpu.max")
    return _share(words[0], words[1]) if len(words) > 1 else None


def _old_limit(group: Path) -> float | None:
    """Return the limit of a version 1 group, where -1 is no limit."""
    quota = _words(group / "cpu.cfs_quota_us")
    period = _words(group / "cpu.cfs_period_us")
    return _share(quota[0], period[0]) if quota and period else None


def _share(quota: str, period: str) -> float | None:
    """Return quota / period; None if either is not a number."""
    if not (quota.isdecimal() and period.isdecimal() and int(period)):
        return None
    return int(quota) / int(period)


def _words(file: Path) -> list[str]:
    return [word for line in _lines(file) for word in line.split()]


def _lines(file: Path) -> list[str]:
    """Return the lines of a file; none if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except (OSError, ValueError):  # a name with a NUL is a ValueError
        return []
