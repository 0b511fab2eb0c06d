"""`mslm-data doctor`."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import click

from mslm_data._version import __version__
from mslm_data.cli.options import json_option
from mslm_data.cli.output import echo, print_json

_REQUIREMENT = re.compile(r"([\w.-]+)(?:.*;.*extra == ['\"]([\w-]+))?")
"""Name of a required package, and the extra that requires it."""

_SAMPLE = "blurb/ebm-nlp"
"""The shipped pipeline with the smallest sample."""


@click.command("doctor", short_help="Check the installation.")
@json_option
def command(as_json: bool) -> int:
    """List versions, extras, CPUs and the cache folder, and mask a test batch.

    The test builds the smallest shipped sample in a temporary folder, and masks a batch of it. The
    exit code is 1 if the test fails or the cache folder cannot be written.

    \b
    Example:
        mslm-data doctor
        mslm-data doctor --json
    """  # noqa: D301 - click wants the character
    report = _look()
    if not as_json:
        for name, words in _lines(report):
            echo(f"{name:<10} {words}")

    echo("building the smallest sample and masking a batch of it ...", err=True)
    try:
        report |= {"batch": _masked_batch(), "error": None}
    except Exception as error:  # noqa: BLE001 - a broken package may raise anything
        report |= {"batch": None, "error": f"{type(error).__name__}: {error}"}

    ok = report["batch"] is not None and report["cache"]["error"] is None
    if as_json:
        print_json({"ok": ok, **report})
    else:
        echo(f"{'batch':<10} {_batch(report)}")
    return 0 if ok else 1


def _look() -> dict[str, Any]:
    """Return versions, extras, CPUs and cache, without importing heavy packages."""
    from mslm_data.engine.cpus import cgroup_cpus, cpus, usable_cpus

    core, extras = _packages()
    return {
        "version": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": core,
        "extras": extras,
        "cpus": {
            "usable": usable_cpus(),
            "control_group": cgroup_cpus(),
            "workers": cpus(),
        },
        "cache": _cache(),
    }


def _packages() -> tuple[dict[str, str | None], dict[str, dict[str, str | None]]]:
    """Return the versions of required packages, and of the packages of each extra.

    The version of a missing package is None. Without an installation, as for a copy of the source,
    both dicts are empty.
    """
    from importlib.metadata import PackageNotFoundError, requires, version

    from mslm_data._optional import EXTRAS

    def find_version(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    core: dict[str, str | None] = {}
    extras: dict[str, dict[str, str | None]] = {}
    try:
        requirements = requires("mslm-data") or []
    except PackageNotFoundError:
        requirements = []
    for requirement in requirements:
        name, extra = _REQUIREMENT.match(requirement).groups()  # type: ignore[union-attr]
        if extra is None:
            core[name] = find_version(name)
        elif extra in EXTRAS:
            extras.setdefault(extra, {})[name] = find_version(name)
    return core, extras


def _cache() -> dict[str, Any]:
    """Return the path of the cache folder, and the error if it cannot be written."""
    from mslm_data.io import cache
    from mslm_data.io.files import make_folder

    root, home = cache.root(), Path.home()
    folder = f"~/{root.relative_to(home)}" if root.is_relative_to(home) else str(root)
    error = None
    try:
        make_folder(root)
        with TemporaryFile(dir=root):
            pass
    except OSError as problem:
        error = problem.strerror
    return {"folder": folder, "error": error}


def _masked_batch() -> dict[str, Any]:
    """Build the smallest sample, mask a batch, and count its tokens."""
    import mslm_data as md

    with TemporaryDirectory(prefix="mslm-data-doctor-") as folder:
        shards = md.build(_SAMPLE, sample=True, out=Path(folder) / "sample", workers=1)
        batch = next(iter(md.Batches(shards["train"], "joint", batch_size=8)))
    return {
        "source": _SAMPLE,
        "rows": len(batch["keys"]),
        "tokens": int(batch["attention_mask"].sum()),
        "masked_tokens": int((batch["labels"] != -100).sum()),
    }


def _lines(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each printed line."""
    yield "mslm-data", f"{report['version']}, Python {report['python']}, {report['platform']}"
    yield "core", _versions(report["packages"])
    for extra, packages in report["extras"].items():
        how = f"; pip install 'mslm-data[{extra}]'" if None in packages.values() else ""
        yield extra, _versions(packages) + how

    cpus = report["cpus"]
    limit = cpus["control_group"]
    limited = "" if limit is None else f", limited to the time of {limit:g} by a control group"
    yield "CPUs", f"{cpus['usable']}{limited}; workers of a build: {cpus['workers']}"

    cache = report["cache"]
    state = "can be written"
    if cache["error"] is not None:
        state = f"cannot be written: {cache['error']}; set MSLM_DATA_CACHE to another folder"
    yield "cache", f"{cache['folder']}, {state}"


def _versions(packages: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {version or '(missing)'}" for name, version in packages.items())


def _batch(report: dict[str, Any]) -> str:
    batch = report["batch"]
    if batch is None:
        return f"failed: {report['error']}"
    return (
        f"{batch['rows']} rows of the sample of {batch['source']}, "
        f"{batch['masked_tokens']} of {batch['tokens']} tokens masked"
    )
