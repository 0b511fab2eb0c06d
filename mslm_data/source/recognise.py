"""Finds the source that reads some files by looking at them: `--source auto`.

Every format says what speaks for it (`Source.recognises`). Where two fit, nothing is guessed: the
error names both.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mslm_data.errors import SourceError
from mslm_data.io import resources
from mslm_data.io.files import sha256_of
from mslm_data.source import Source
from mslm_data.source.reading.files import ends_with, opened
from mslm_data.source.reading.splits import plain_files
from mslm_data.source.table import SOURCES, usual_tables

_HEAD_BYTES = 64 << 10
_LOOKED_AT = 20
"""Files of a format that are looked at: the first of those with one of its suffixes."""
_DIGESTED_BYTES = 64 << 20
"""Size up to which a file may be one of a shipped pipeline's."""


class Recognised(NamedTuple):
    """Name what reads some files, and why.

    Attributes:
        what: The source, or the shipped pipeline.
        why: What speaks for it.
        toml: The pipeline file that reads them.
    """

    what: str
    why: str
    toml: str

    @property
    def tables(self) -> dict[str, Any]:
        """The tables of the pipeline file, with a name."""
        return tomllib.loads(self.toml)


class _Claim(NamedTuple):
    first: Path
    why: str


def recognise(inputs: Sequence[Path]) -> Recognised:
    """Find what reads some files.

    Files with the digests of a shipped pipeline's corpus are that corpus. Else the one source that
    recognises them is taken, with its usual options.

    Args:
        inputs: Files, or folders that are searched through.

    Raises:
        SourceError: No source recognises the files, or several do.
    """
    files = [path for root in inputs for path in ([root] if root.is_file() else plain_files(root))]
    if not files:
        names = ", ".join(map(str, inputs))
        raise SourceError(f"{names}: expected files, found none; check --input")

    shipped = _shipped(files)
    if shipped:
        return shipped

    claims: dict[str, _Claim] = {}
    for name in SOURCES.names():
        claims |= _claims(name, files)
    if len(claims) > 1:
        fits = " and ".join(
            f"'{name}' ({claim.first.name}: {claim.why})" for name, claim in claims.items()
        )
        raise SourceError(
            f"{inputs[0]}: expected files of one form, got what fits {fits}; name the source, "
            f"such as --source {next(iter(claims))}, or pass the files of one form with --input"
        )
    if not claims:
        endings = sorted({path.suffix or path.name for path in files})
        advice = f"--source and one of {', '.join(SOURCES.names())}"
        suffixes = SOURCES.load("text").suffixes
        if any(ends_with(path, suffixes) for path in files):
            advice = f"--source text if they hold texts without mentions, else {advice}"
        raise SourceError(
            f"{inputs[0]}: expected a form that is recognised, got files ending with "
            f"{', '.join(endings[:10])} that none of the sources is sure of; name the source: "
            f"{advice}"
        )

    [(what, claim)] = claims.items()
    why = f"{claim.first.name}: {claim.why}"
    if what in resources.pipeline_names():
        return Recognised(what, why, resources.pipeline_text(what))
    lines = [f'name = "{_name_of(inputs[0])}"']
    for stage, table in usual_tables(what).items():
        lines += ["", f"[{stage}]", f'use = "{table["use"]}"']
    return Recognised(what, why, "\n".join([*lines, ""]))


def _claims(name: str, files: Iterable[Path]) -> dict[str, _Claim]:
    """Return what reads the files that a source recognises: itself, or shipped pipelines of it."""
    source: type[Source] = SOURCES.load(name)
    mine = [path for path in files if ends_with(path, source.suffixes)]
    claims: dict[str, _Claim] = {}
    for path in mine[:_LOOKED_AT]:
        head = _head(path)
        why = source.recognises(path, head)
        if why:
            claims.setdefault(source.pipeline_of(head) or name, _Claim(path, why))
    return claims


def _head(path: Path) -> bytes:
    """Return a file's first bytes; none of one that cannot be read, as others can tell."""
    try:
        with opened(path) as file:
            return file.read(_HEAD_BYTES)
    except SourceError:
        return b""


def _name_of(path: Path) -> str:
    """Return a corpus' name: that of its folder or file, with nothing that a folder cannot have."""
    name = path.resolve().name.removesuffix(".gz").partition(".")[0]
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)
    return plain.strip("-").lower() or "corpus"


# Shipped pipelines --------------------------------------------------------------------------------


def _shipped(files: Sequence[Path]) -> Recognised | None:
    """Return the shipped pipeline whose corpus some files are, by their digests.

    Raises:
        SourceError: They are of several pipelines.
    """
    pipeline_of = _digests()
    found: dict[str, Path] = {}
    for path in files[:_LOOKED_AT]:
        if path.stat().st_size <= _DIGESTED_BYTES:
            pipeline = pipeline_of.get(sha256_of(path))
            if pipeline:
                found.setdefault(pipeline, path)
    if len(found) > 1:
        corpora = " and ".join(f"{path} of '{name}'" for name, path in found.items())
        raise SourceError(f"expected one corpus, got {corpora}; pass one of them with --input")
    for pipeline, path in found.items():
        why = f"{path.name} has the digest of that corpus"
        return Recognised(pipeline, why, resources.pipeline_text(pipeline))
    return None


def _digests() -> Mapping[str, str]:
    """Return digest of a file -> the shipped pipeline that fetches it."""
    return {
        fetch["sha256"]: name
        for name in resources.pipeline_names()
        for fetch in tomllib.loads(resources.pipeline_text(name))["source"].get("fetch", [])
    }
