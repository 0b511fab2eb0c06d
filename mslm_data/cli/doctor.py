"""`mslm-data doctor`."""

from __future__ import annotations

import shutil
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from mslm_data.cli.options import json_option
from mslm_data.cli.output import echo, print_json

if TYPE_CHECKING:
    from mslm_data.doctor import Findings
    from mslm_data.doctor.packages import Package

_WIDTH = 100
"""Characters of a line, where the terminal is not narrower."""
_NARROWEST = 40
"""Characters of a line on a terminal that is narrower still."""
_NAME = 11
"""Characters that the name of a line takes."""


@click.command("doctor", short_help="List what is installed, and try a masked batch.")
@json_option
def command(as_json: bool) -> int:
    """List what is installed here and what is missing, and try a masked batch.

    Each package is imported in a process of its own. Then the smallest shipped sample is built into
    a temporary folder, and a batch of it is masked. The exit code is 1 if something that is needed,
    or that is installed, does not work; the last lines say what to do. The output names neither the
    user nor the machine.

    \b
    Example:
        mslm-data doctor
        mslm-data doctor --json
    """  # noqa: D301 - click wants the character
    from mslm_data.doctor import examine

    found = examine(lambda what: echo(f"{what} ...", err=True))
    if as_json:
        print_json(_report(found))
    else:
        for name, words in _lines(found):
            _print(name, words)
        for name, notes in (("problem", found.problems), ("advice", found.advice)):
            for note in notes:
                _print(name, f"{note.what}; {note.do}")
        _print("", _verdict(found))
    return 0 if found.ok else 1


def _report(found: Findings) -> dict[str, Any]:
    """Return what `--json` prints."""
    packages = [{**asdict(package), "in_range": package.in_range} for package in found.packages]
    return {"ok": found.ok, **asdict(found), "packages": packages}


def _print(name: str, words: str) -> None:
    """Print a line with its name, broken between words."""
    terminal = shutil.get_terminal_size((_WIDTH, 0)).columns
    echo(
        textwrap.fill(
            words,
            width=min(_WIDTH, max(terminal, _NARROWEST)),
            initial_indent=name.ljust(_NAME) if name else "",
            subsequent_indent=" " * _NAME,
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def _verdict(found: Findings) -> str:
    if found.problems:
        number = len(found.problems)
        return "1 problem to mend" if number == 1 else f"{number} problems to mend"

    there = [package for package in found.packages if package.version is not None]
    tested = there and all(package.in_range for package in there)
    which = ", in versions that are tested" if tested else ""
    return f"all that is needed works{which}"


def _lines(found: Findings) -> list[tuple[str, str]]:
    """Return what is there: the name of each line, and its words."""
    python, platform = found.python, found.platform
    system = ", ".join(
        filter(None, (f"{platform['system']} {platform['machine']}", platform["libc"]))
    )
    core = [package for package in found.packages if package.is_core]
    lines = [
        (
            "mslm-data",
            f"{found.version}   {python['implementation']} {python['version']}   {system}",
        ),
        ("core", _packages(core) or "installed without metadata, so what it needs is not known"),
    ]
    for extra, missing in found.extras.items():
        of = [package for package in found.packages if extra in package.extras]
        words = _packages([package for package in of if package.version is not None])
        if missing:
            has = f" (it has {words})" if words else ""
            words = f"not installed: pip install 'mslm-data[{extra}]'{has}"
        lines.append((extra, words))

    return [
        *lines,
        ("CPUs", _cpus(found)),
        ("GPU", _gpu(found.gpu)),
        ("cache", _cache(found.cache)),
        ("locks", found.locks),
        ("kernels", _kernels(found.kernels)),
        ("trial", _trial(found.trial)),
    ]


def _packages(of: list[Package]) -> str:
    """Return packages with their versions, and a mark where something is the matter."""
    return ", ".join(f"{package.name} {package.version or ''}{_mark(package)}" for package in of)


def _mark(package: Package) -> str:
    if package.version is None:
        return "(not installed)"
    if package.error is not None:
        return " (broken)"
    return "" if package.in_range else f" (tested: {package.tested})"


def _cpus(found: Findings) -> str:
    cpus = found.cpus
    words = f"{cpus['usable']} of {cpus['machine']} can be used"
    limit = cpus["control_group"]
    if limit is None:
        words += ", no limit by a control group"
    else:
        words += f", limited to the time of {limit:g} by a control group"
    words += f", builds start {_counted(cpus['workers'], 'worker')}"
    given = [f"{name}={number}" for name, number in found.threads.items()]
    if found.gpu is not None:
        given.append(f"torch has {_counted(found.gpu['threads'], 'thread')}")
    return ", ".join([words, *given])


def _gpu(gpu: dict[str, Any] | None) -> str:
    if gpu is None:
        return "not looked for, as torch is not there"
    devices = [f"{device['name']}, {device['bytes'] / 2**30:.0f} GiB" for device in gpu["devices"]]
    if gpu["metal"]:
        devices.append("Metal")
    built = f"for CUDA {gpu['cuda']}" if gpu["cuda"] else "without CUDA"
    return f"{'; '.join(devices) or 'none'} (torch is built {built})"


def _cache(cache: dict[str, Any]) -> str:
    by = "MSLM_DATA_CACHE" if cache["named_by"] else "MSLM_DATA_CACHE is not set"
    state = "can be written" if cache["writable"] else f"cannot be written: {cache['error']}"
    size = f"{cache['bytes'] / 1e6:,.1f} MB in {cache['files']:,} files"
    return f"{cache['folder']} ({by}), {state}, {size}"


def _kernels(kernels: dict[str, Any]) -> str:
    if not kernels:
        return "not looked at, as numba is broken"
    if kernels["folder"] is None:
        return "compiled in each run, and not kept"
    before, after = kernels["stored"], kernels.get("stored_after", kernels["stored"])
    compiled = f", {after - before} more were compiled now" if after > before else ""
    words = f"{before} were compiled before{compiled}, kept in the cache folder"
    others = kernels["others"]
    if others["folders"]:
        size = f"{others['bytes'] / 1e6:,.1f} MB"
        words += f"; {_counted(others['folders'], 'folder')} of other versions: {size}"
    return words


def _counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _trial(trial: dict[str, Any] | None) -> str:
    if trial is None:
        return "failed"
    return (
        f"{trial['source']}: {trial['rows']} rows built in {trial['build_s']:.1f} s; a batch of "
        f"{trial['batch_rows']} rows, {trial['masked_tokens']} of {trial['batch_tokens']} tokens "
        f"masked, in {trial['batch_s']:.1f} s"
    )
