"""`mslm-data doctor`."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

import msgspec

from mslm_data._version import __version__
from mslm_data.cli.command import make_command
from mslm_data.cli.output import echo
from mslm_data.registry import Options
from mslm_data.results import Result, Table

_REQUIREMENT = re.compile(r"([\w.-]+)(?:.*;.*extra == ['\"]([\w-]+))?")
"""Name of a required package, and the extra that requires it."""

_SAMPLE = "blurb/ebm-nlp"
"""The shipped pipeline with the smallest sample."""

Versions = dict[str, str | None]
"""Package -> version; None if it is missing."""


class Doctor(Options, frozen=True, kw_only=True):
    """Options of `mslm-data doctor`: none."""


class Cpus(msgspec.Struct, frozen=True):
    """Numbers of CPUs: those of this process, the limit of its control group, and workers."""

    usable: int
    control_group: float | None
    workers: int


class Cache(msgspec.Struct, frozen=True):
    """The cache folder, and the error if it cannot be written."""

    folder: str
    error: str | None


class PluginState(msgspec.Struct, frozen=True):
    """A plug-in, and the problem if it cannot be used."""

    group: str
    name: str
    package: str
    version: str
    problem: str | None


class Batch(msgspec.Struct, frozen=True):
    """A masked batch of the sample of a pipeline."""

    source: str
    rows: int
    tokens: int
    masked_tokens: int


@dataclass(frozen=True, kw_only=True)
class Installation(Result):
    """Versions, plug-ins and state of an installation, with a masked batch as a trial."""

    ok: bool
    version: str
    python: str
    platform: str
    packages: Versions
    extras: dict[str, Versions]
    cpus: Cpus
    cache: Cache
    plugins: list[PluginState]
    batch: Batch | None
    error: str | None

    @property
    def exit_code(self) -> int:
        """Return 1 if no batch could be made, or the cache folder cannot be written."""
        return 0 if self.ok else 1

    def tables(self) -> Iterator[str | Table]:
        """Yield a line for each thing that was looked at."""
        yield Table([*self._lines()])

    def _lines(self) -> Iterator[tuple[str, str]]:
        yield "mslm-data", f"{self.version}, Python {self.python}, {self.platform}"
        yield "core", _listed(self.packages)
        for extra, packages in self.extras.items():
            how = f"; pip install 'mslm-data[{extra}]'" if None in packages.values() else ""
            yield extra, _listed(packages) + how

        limit = self.cpus.control_group
        limited = "" if limit is None else f", limited to the time of {limit:g} by a control group"
        yield "CPUs", f"{self.cpus.usable}{limited}; workers of a build: {self.cpus.workers}"

        state = "can be written"
        if self.cache.error is not None:
            state = f"cannot be written: {self.cache.error}; set MSLM_DATA_CACHE to another folder"
        yield "cache", f"{self.cache.folder}, {state}"

        for plugin in self.plugins:
            where = f"{plugin.name} of {plugin.group}, from {plugin.package} {plugin.version}"
            yield "plug-in", plugin.problem or where

        if self.batch is None:
            yield "batch", f"failed: {self.error}"
        else:
            yield (
                "batch",
                f"{self.batch.rows} rows of the sample of {self.batch.source}, "
                f"{self.batch.masked_tokens} of {self.batch.tokens} tokens masked",
            )


@make_command("doctor", Doctor)
def command(options: Doctor) -> Installation:  # noqa: ARG001 - it has none
    r"""List versions, extras, CPUs, the cache folder and plug-ins, and mask a test batch.

    The test builds the smallest shipped sample in a temporary folder, and masks a batch of it. The
    exit code is 1 if the test fails or the cache folder cannot be written. A plug-in that cannot be
    used is listed with the reason; everything else works without it.

    \b
    Example:
        mslm-data doctor
        mslm-data doctor --json
    """
    from mslm_data.engine.cpus import cgroup_cpus, cpus, usable_cpus

    core, extras = _packages()
    cache = _cache()
    plugins = _plugins()

    echo("building the smallest sample and masking a batch of it ...", err=True)
    batch = None
    problem = None
    try:
        batch = _masked_batch()
    except Exception as error:  # noqa: BLE001 - a broken package may raise anything
        problem = f"{type(error).__name__}: {error}"

    return Installation(
        ok=batch is not None and cache.error is None,
        version=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        packages=core,
        extras=extras,
        cpus=Cpus(usable=usable_cpus(), control_group=cgroup_cpus(), workers=cpus()),
        cache=cache,
        plugins=plugins,
        batch=batch,
        error=problem,
    )


def _packages() -> tuple[Versions, dict[str, Versions]]:
    """Return the versions of required packages, and of the packages of each extra.

    Without an installation, as for a copy of the source, both are empty.
    """
    from importlib.metadata import PackageNotFoundError, requires, version

    from mslm_data._optional import EXTRAS

    def find_version(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    core: Versions = {}
    extras: dict[str, Versions] = {}
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


def _cache() -> Cache:
    """Return the cache folder, after writing a file into it."""
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
    return Cache(folder, error)


def _plugins() -> list[PluginState]:
    """Import all plug-ins, and return what came of it."""
    from mslm_data.annotate import ANNOTATORS
    from mslm_data.mask.table import STRATEGIES
    from mslm_data.segment import SEGMENTERS
    from mslm_data.source import SOURCES

    return [
        PluginState(
            group=plugin.entry_point.group,
            name=name,
            package=plugin.distribution,
            version=plugin.version,
            problem=problem or None,
        )
        for registry in (SOURCES, ANNOTATORS, SEGMENTERS, STRATEGIES)
        for name, (plugin, problem) in registry.plugins().items()
    ]


def _masked_batch() -> Batch:
    """Build the smallest sample, mask a batch, and count its tokens."""
    import mslm_data as md

    with TemporaryDirectory(prefix="mslm-data-doctor-") as folder:
        shards = md.build(_SAMPLE, sample=True, out=Path(folder) / "sample", workers=1)
        batch = next(iter(md.Batches(shards["train"], "joint", batch_size=8)))
    return Batch(
        source=_SAMPLE,
        rows=len(batch["keys"]),
        tokens=int(batch["attention_mask"].sum()),
        masked_tokens=int((batch["labels"] != -100).sum()),
    )


def _listed(packages: Versions) -> str:
    return ", ".join(f"{name} {version or '(missing)'}" for name, version in packages.items())
