"""Counts the CPUs that this process may use, by its affinity and its control groups.

A container limit, such as `docker run --cpus 2` or a Kubernetes limit, is a share of CPU time that
a control group (version 2) grants its processes. All CPUs remain visible, so `os.sched_getaffinity`
and `os.process_cpu_count` count all of them.
"""

from __future__ import annotations

import math
import os
from contextlib import suppress
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
        own: File that names the control group of this process, as `0::/pods/mine`.
    """
    name = "".join(line for line in _read(own).splitlines() if line.startswith("0::"))
    group = groups / name.removeprefix("0::").strip("/")

    # The limits of all parents apply. A container often sees the outside name of its group, but
    # only the folder `groups`.
    folders = [group, *group.parents]
    limits = [_limit(folder / "cpu.max") for folder in folders[: folders.index(groups) + 1]]
    return min((limit for limit in limits if limit), default=None)


def _limit(file: Path) -> float | None:
    """Return the limit in a file: `200000 100000` is 2 CPUs, `max 100000` none."""
    match _read(file).split():
        case [quota, period] if quota.isdecimal() and period.isdecimal() and int(period):
            return int(quota) / int(period)
    return None


def _read(file: Path) -> str:
    with suppress(OSError, ValueError):  # a name with a NUL is a ValueError
        return file.read_text(encoding="utf-8", errors="replace")
    return ""
