"""Finds out whether this machine has what the package needs: what `mslm-data doctor` says.

Nothing heavy is imported in this process, and no package but those that every command needs. Each
package is imported by a child, so one that is broken, or that takes its process with it, is found
and named like any other. A last child builds the smallest sample and makes a masked batch.

Nothing that is said names the user, the machine or any variable's value but that of numbers of
threads, so it can be shown to others.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from mslm_data._version import __version__
from mslm_data.doctor import machine
from mslm_data.doctor.children import Outcome, run
from mslm_data.doctor.packages import Package, extras, is_in_range, known_packages, python_range
from mslm_data.doctor.trial import UNUSED_DAYS

_IMPORT_S = 180.0
"""Seconds after which an import is called stuck."""
_TRIAL_S = 900.0
"""Seconds after which the trial is: on a slow disk kernels take some minutes to compile."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Something that could be better, and what to do about it."""

    what: str
    do: str


@dataclass(slots=True, kw_only=True)
class Findings:
    """Everything that was found, as `doctor --json` prints it.

    Attributes:
        version: Of this package.
        python: Its version, its implementation, the tested range, and whether it is in that.
        platform: System, processor and C library.
        packages: Each package that is needed or installed.
        extras: Name -> the packages that it lacks; empty where it is installed.
        cpus: How many there are, how many this process may run on, what its control group allows,
            and how many workers builds start.
        threads: Variables that limit threads -> their numbers.
        gpu: What torch can use; None where torch is not installed or broken.
        cache: Where the cache folder is, and whether it can be written.
        locks: Whether files in it can be locked.
        kernels: Where compiled kernels are kept, how many there were before the trial, and after;
            folders of other versions, and those of them that are unused.
        trial: What was built and masked; None where that failed.
        problems: What keeps the package, or something that is installed for it, from working.
        advice: What works, but not as well as it could.
    """

    version: str = __version__
    python: dict[str, Any] = field(default_factory=dict)
    platform: dict[str, str] = field(default_factory=dict)
    packages: list[Package] = field(default_factory=list)
    extras: dict[str, list[str]] = field(default_factory=dict)
    cpus: dict[str, Any] = field(default_factory=dict)
    threads: dict[str, int] = field(default_factory=dict)
    gpu: dict[str, Any] | None = None
    cache: dict[str, Any] = field(default_factory=dict)
    locks: str = "not tried"
    kernels: dict[str, Any] = field(default_factory=dict)
    trial: dict[str, Any] | None = None
    problems: list[Advice] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Return whether all that is needed works."""
        return not self.problems


def examine(said: Callable[[str], None] = lambda _: None) -> Findings:
    """Look at everything, and try a masked batch.

    Args:
        said: Called with what is done next, as some of it takes a while.
    """
    found = Findings(python=machine.python(), platform=machine.system())
    found.packages = known_packages()
    found.extras = extras(found.packages)
    found.cpus = machine.cpus()
    found.threads = machine.threads()
    _look_at_python(found)
    _look_at_cpus(found)

    there = [package for package in found.packages if package.version is not None]
    said(f"importing {len(there)} packages, each in a process of its own")
    with ThreadPoolExecutor(max_workers=found.cpus["workers"]) as pool:
        kernels = pool.submit(run, "kernels", seconds=_IMPORT_S)
        outcomes = list(pool.map(_imported, there))
    _look_at_packages(found, there, outcomes)

    _look_at_cache(found)
    _look_at_kernels(found, kernels.result())

    warm = bool(found.kernels.get("stored"))
    slowly = "" if warm else "; kernels are compiled first, which takes up to a minute"
    said(f"building the smallest sample and masking a batch of it{slowly}")
    _look_at_trial(found, run("masked_batch", seconds=_TRIAL_S))
    return found


def _imported(package: Package) -> Outcome:
    return run("imported", package.imports, seconds=_IMPORT_S)


def _look_at_python(found: Findings) -> None:
    wanted = python_range()
    found.python |= {"tested": wanted, "in_range": is_in_range(found.python["version"], wanted)}
    if not found.python["in_range"]:
        found.advice.append(
            Advice(
                f"Python {found.python['version']} is not in the tested range {wanted}",
                "install the package for another Python",
            )
        )


def _look_at_cpus(found: Findings) -> None:
    """Advise to limit the threads of libraries where a control group allows fewer CPUs.

    Builds know such a limit. Libraries such as torch know the CPUs alone, and start a thread for
    each, which then wait for each other.
    """
    limit = found.cpus["control_group"]
    usable = found.cpus["usable"]
    workers = found.cpus["workers"]
    if limit is None or limit >= usable or found.threads.get("OMP_NUM_THREADS", usable) <= workers:
        return
    found.advice.append(
        Advice(
            f"the control group allows the time of {limit:g} CPUs, though {usable} can be run on: "
            "builds heed it, but torch and other libraries start a thread for each of them",
            f"set OMP_NUM_THREADS={workers}",
        )
    )


def _look_at_packages(
    found: Findings, there: Sequence[Package], outcomes: Sequence[Outcome]
) -> None:
    """Take down what the imports of packages came to."""
    for package in found.packages:
        if package.version is None and package.is_core:
            found.problems.append(
                Advice(
                    f"{package.name} is not installed",
                    f"pip install '{package.name}{package.tested}'",
                )
            )

    for package, outcome in zip(there, outcomes, strict=True):
        package.error = outcome.error
        if outcome.error is not None:
            do = f"pip install --force-reinstall '{package.name}{package.tested}'"
            if package.name == "numba" and machine.numba_has_no_thread():
                do = "unset NUMBA_NUM_THREADS, or set it to a number above 0"
            found.problems.append(
                Advice(f"{package.name} {package.version} cannot be imported: {outcome.error}", do)
            )
        elif not package.in_range:
            found.advice.append(
                Advice(
                    f"{package.name} {package.version} is not in the tested range {package.tested}",
                    f"pip install '{package.name}{package.tested}'",
                )
            )
        if package.name == "torch" and isinstance(outcome.value, Mapping):
            found.gpu = dict(outcome.value)


def _look_at_cache(found: Findings) -> None:
    found.cache = machine.cache_folder()
    if found.cache["error"] is not None:
        found.problems.append(
            Advice(
                f"the cache folder {found.cache['folder']} cannot be written: "
                f"{found.cache['error']}",
                "set MSLM_DATA_CACHE to a folder of yours",
            )
        )
        return

    found.locks = machine.locks()
    if found.locks == machine.OWNER_FILES:
        found.advice.append(
            Advice(
                "the file system of the cache folder has no locks (flock), so files that name "
                "their owner stand for them",
                "set MSLM_DATA_CACHE to a folder on a disk of this machine",
            )
        )
    elif found.locks != machine.FLOCK:
        found.problems.append(
            Advice(
                f"files in the cache folder cannot be locked: {found.locks}",
                "set MSLM_DATA_CACHE to a folder on another file system",
            )
        )


def _look_at_kernels(found: Findings, outcome: Outcome) -> None:
    """Take down where compiled kernels are kept; a numba that is broken is a problem already."""
    if not isinstance(outcome.value, Mapping):
        return
    found.kernels = dict(outcome.value)
    if found.kernels["folder"] is None and found.cache["error"] is None:
        found.advice.append(
            Advice(
                "kernels are compiled in each run, as their folder in the cache folder is not this "
                "user's alone",
                "chmod go-w the folder kernels and those below it, or set MSLM_DATA_CACHE to "
                "another folder",
            )
        )

    unused = found.kernels["unused"]
    if unused["folders"]:
        kernels = _for_shell(str(PurePath(found.kernels["folder"]).parent))
        found.advice.append(
            Advice(
                f"kernels that other versions compiled, in folders that were not used for "
                f"{UNUSED_DAYS} days ({unused['folders']:,}), take {unused['bytes'] / 1e6:,.1f} MB",
                f"find {kernels} -mindepth 1 -maxdepth 1 -type d -mtime +{UNUSED_DAYS} "
                "-exec rm -r {} +",
            )
        )


def _for_shell(path: str) -> str:
    """Return a path as a shell takes it, which knows a home by its `~` outside of quotes only."""
    if path.startswith("~/"):
        return f"~/{shlex.quote(path[2:])}"
    return shlex.quote(path)


def _look_at_trial(found: Findings, outcome: Outcome) -> None:
    if isinstance(outcome.value, Mapping):
        found.trial = dict(outcome.value)
        found.kernels["stored_after"] = found.trial.pop("stored")
        return

    broken = any(package.error or package.version is None for package in _core(found))
    found.problems.append(
        Advice(
            f"the smallest sample could not be built and masked: {outcome.error}",
            "mend the packages above first"
            if broken
            else "run it with --debug: mslm-data --debug build --source blurb/ncbi-disease "
            "--sample --out FOLDER",
        )
    )


def _core(found: Findings) -> list[Package]:
    return [package for package in found.packages if package.is_core]
