"""Finds the source that reads some files by looking at them: `--source auto`.

Every format says what speaks for it (`Source.recognises`). Where two fit, nothing is guessed: the
error names both.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mslm_data.errors import SourceError
from mslm_data.io import resources
from mslm_data.io.files import hash_file
from mslm_data.source import Source
from mslm_data.source.reading.files import (
    HEAD_BYTES,
    ending,
    ends_with,
    is_annotated,
    read_head,
)
from mslm_data.source.reading.walk import plain_files
from mslm_data.source.table import SOURCES, usual_tables

_LOOKED_AT = 20
"""Files of an ending that are looked at: the first that hold anything."""
_DIGESTED_BYTES = 64 << 20
"""Size up to which a file may be one of a shipped pipeline's."""
_ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.xz", ".tar.bz2")


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
    """Hold what speaks for a source, or for a shipped pipeline of it.

    Attributes:
        first: The first file that it recognises.
        why: What speaks for it there.
        options: The options that this file wants besides the usual ones.
    """

    first: Path
    why: str
    options: Mapping[str, Any]


class _Sample(NamedTuple):
    """A file and its first bytes."""

    path: Path
    head: bytes


def recognise(inputs: Sequence[Path]) -> Recognised:
    """Find what reads some files.

    Files with the digests of a shipped pipeline's corpus are that corpus. Else the one source that
    recognises them is taken, with its usual options and those that the files want.

    Args:
        inputs: Files, or folders that are searched through.

    Raises:
        SourceError: No source recognises the files, or several do.
    """
    files = [path for root in inputs for path in ([root] if root.is_file() else plain_files(root))]
    if not files:
        names = ", ".join(map(str, inputs))
        raise SourceError(f"{names}: expected files, found none; check --input")

    shipped = _find_shipped(files)
    if shipped:
        return shipped

    samples = _read_samples(files)
    claims: dict[str, _Claim] = {}
    for source in SOURCES.names():
        claims |= _find_claims(source, samples)
    if len(claims) > 1:
        fits = " and ".join(
            f"'{source}' ({claim.first.name}: {claim.why})" for source, claim in claims.items()
        )
        raise SourceError(
            f"{inputs[0]}: expected files of one form, got what fits {fits}; name the source, "
            f"such as --source {next(iter(claims))}, or pass the files of one form with --input"
        )
    if not claims:
        for source in SOURCES.names():
            claims |= _find_claims(source, _join_samples(samples))
    if len(claims) != 1:
        raise _unrecognised(inputs[0], files, samples)

    [(name, claim)] = claims.items()
    why = f"{claim.first.name}: {claim.why}"
    if name in resources.pipeline_names():
        return Recognised(name, why, resources.pipeline_text(name))
    lines = [f'name = "{_corpus_name(inputs[0])}"']
    for stage, table in usual_tables(name).items():
        lines += ["", f"[{stage}]", f'use = "{table["use"]}"']
        if stage == "source":
            lines += [f"{option} = {_in_toml(value)}" for option, value in claim.options.items()]
    return Recognised(name, why, "\n".join([*lines, ""]))


def _read_samples(files: Iterable[Path]) -> list[_Sample]:
    """Return the first files of each ending that hold anything, with their beginnings.

    Of a text and its annotations the annotations say what they are: a text can hold anything.
    """
    by_ending: dict[str, list[_Sample]] = {}
    for path in files:
        samples = by_ending.setdefault(ending(path), [])
        if len(samples) < _LOOKED_AT and path.stat().st_size and not is_annotated(path):
            samples.append(_Sample(path, read_head(path)))
    return [sample for samples in by_ending.values() for sample in samples]


def _join_samples(samples: Iterable[_Sample]) -> list[_Sample]:
    """Return files of each ending as one: a short one may not show all that its form has."""
    by_ending: dict[str, list[_Sample]] = {}
    for sample in samples:
        by_ending.setdefault(ending(sample.path), []).append(sample)
    return [
        _Sample(files[0].path, b"\n\n".join(sample.head for sample in files)[:HEAD_BYTES])
        for files in by_ending.values()
        if len(files) > 1
    ]


def _find_claims(name: str, samples: Iterable[_Sample]) -> dict[str, _Claim]:
    """Return what reads the files that a source recognises: itself, or shipped pipelines of it."""
    source: type[Source] = SOURCES.load(name)
    claims: dict[str, _Claim] = {}
    for path, head in samples:
        if not (source.by_content or ends_with(path, source.suffixes)):
            continue
        why = source.recognises(path, head)
        if why:
            claim = _Claim(path, why, source.suggest_options(path, head))
            claims.setdefault(source.suggest_pipeline(head) or name, claim)
    return claims


def _unrecognised(root: Path, files: Sequence[Path], samples: Sequence[_Sample]) -> SourceError:
    """Return the error where no source recognises a file, with what the nearest one says."""
    endings = sorted({ending(path) for path in files})
    got = (
        f"{root}: expected a form that is recognised, got files ending with "
        f"{', '.join(endings[:10])} that none of the sources is sure of"
    )
    near = _describe_nearest(samples)
    if near:
        return SourceError(f"{got}; the nearest is --source {near}")

    archives = [path for path in files if path.name.endswith(_ARCHIVES)]
    if archives:
        return SourceError(f"{got}; pass an archive itself, as in --input {archives[0]}")
    advice = f"--source and one of {', '.join(SOURCES.names())}"
    if any(ends_with(path, SOURCES.load("text").suffixes) for path in files):
        advice = f"--source text if they hold texts without mentions, else {advice}"
    return SourceError(f"{got}; name the source: {advice}")


def _describe_nearest(samples: Iterable[_Sample]) -> str:
    """Return the source that most files seem to be of, and what keeps it from reading one."""
    short: dict[str, list[str]] = {}
    for name in SOURCES.names():
        source: type[Source] = SOURCES.load(name)
        for path, head in samples:
            if source.by_content or ends_with(path, source.suffixes):
                reason = source.falls_short(path, head)
                if reason:
                    short.setdefault(name, []).append(f"{path.name}: {reason}")
    if not short:
        return ""
    name, reasons = max(short.items(), key=lambda item: len(item[1]))
    return f"{name}, which says of {reasons[0]}"


def _in_toml(value: object) -> str:
    """Return the value of an option as a pipeline file has it: JSON's text, numbers and lists."""
    return json.dumps(value, ensure_ascii=False)


def _corpus_name(path: Path) -> str:
    """Return a corpus' name: that of its folder or file, with nothing that a folder cannot have."""
    name = path.resolve().name.removesuffix(".gz").partition(".")[0]
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)
    return plain.strip("-").lower() or "corpus"


# Shipped pipelines --------------------------------------------------------------------------------


def _find_shipped(files: Sequence[Path]) -> Recognised | None:
    """Return the shipped pipeline whose corpus some files are, by their digests.

    Raises:
        SourceError: They are of several pipelines.
    """
    pipelines = _shipped_digests()
    matches: dict[str, Path] = {}
    for path in files[:_LOOKED_AT]:
        if path.stat().st_size <= _DIGESTED_BYTES:
            pipeline = pipelines.get(hash_file(path))
            if pipeline:
                matches.setdefault(pipeline, path)
    if len(matches) > 1:
        corpora = " and ".join(f"{path} of '{name}'" for name, path in matches.items())
        raise SourceError(f"expected one corpus, got {corpora}; pass one of them with --input")
    for pipeline, path in matches.items():
        why = f"{path.name} has the digest of that corpus"
        return Recognised(pipeline, why, resources.pipeline_text(pipeline))
    return None


def _shipped_digests() -> Mapping[str, str]:
    """Return digest of a file -> the shipped pipeline that fetches it."""
    return {
        fetch["sha256"]: name
        for name in resources.pipeline_names()
        for fetch in tomllib.loads(resources.pipeline_text(name))["source"].get("fetch", [])
    }
