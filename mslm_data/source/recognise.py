"""Finds the source that reads some files by their content: `--source auto`.

Every format reports its evidence (`Source.sniff`). If two formats match, the error names both.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mslm_data.errors import SourceError
from mslm_data.io import archive, resources
from mslm_data.io.files import hash_file
from mslm_data.source import Guess, Sample, Source
from mslm_data.source.reading.files import (
    HEAD_BYTES,
    ending,
    ends_with,
    name_document,
    packed_or_plain,
    read_head,
    stem,
)
from mslm_data.source.reading.walk import plain_files
from mslm_data.source.table import SOURCES, usual_tables

_LOOKED_AT = 20
"""Maximum number of non-empty files of each suffix whose content is tested."""
_DIGESTED_BYTES = 64 << 20
"""Maximum size of a file that is compared with the corpora of shipped pipelines."""
_HTML = (".html", ".htm", ".xhtml")
_PACKED = (".xz", ".bz2", ".zst", ".7z", ".rar")
"""Suffixes of packed files that are not unpacked here."""


class Recognised(NamedTuple):
    """The source or shipped pipeline that reads some files.

    Attributes:
        what: Name of the source or pipeline.
        why: The evidence.
        toml: Text of a pipeline file that reads the files. A pipeline that is not shipped has the
            name of its source. Keys of rows depend on it, and must not depend on a path.
        folder: Name for an output folder, from the name of the input.
    """

    what: str
    why: str
    toml: str
    folder: str

    @property
    def tables(self) -> dict[str, Any]:
        """The parsed pipeline file."""
        return tomllib.loads(self.toml)


class _Finding(NamedTuple):
    """A source's guess about a file.

    Attributes:
        name: Name of the source.
        path: The file.
        guess: The guess, with evidence or with a problem.
    """

    name: str
    path: Path
    guess: Guess

    @property
    def own_options(self) -> set[str]:
        """Options of the source that not all sources have."""
        return {*SOURCES.load(self.name).__struct_fields__}.difference(Source.__struct_fields__)


def recognise(inputs: Sequence[Path], decided: Collection[str] = ()) -> Recognised:
    """Find the source or shipped pipeline that reads some files.

    Files with the digests of a shipped pipeline's corpus are read by that pipeline. Otherwise
    exactly one source must recognise the files. It gets its default options and those that the
    files need. If none does, the closest source is chosen if the user set an option of it, as its
    question asks.

    Args:
        inputs: Files, or folders to search.
        decided: Names of the source's options that the user set.

    Raises:
        SourceError: No source recognises the files, or several do.
    """
    files = [path for root in inputs for path in ([root] if root.is_file() else plain_files(root))]
    if not files:
        names = ", ".join(map(str, inputs))
        raise SourceError(f"{names}: expected files, found none; check --input")

    # A digest is certain, so it comes before guesses.
    shipped = _find_shipped(files)
    if shipped:
        return shipped

    # If no file shows its format, each may be too short: try the files of each suffix joined.
    samples = _read_samples(files)
    findings = [*_find(samples)]
    claims = _find_claims(findings) or _find_claims(_find(_join_samples(samples)))
    if not claims:
        near = _find_nearest(findings)
        if near is None or near.own_options.isdisjoint(decided):
            raise _unrecognised(inputs[0], files, near)
        guess = Guess("it is the closest, and its option is set")
        claims = {near.name: near._replace(guess=guess)}
    if len(claims) > 1:
        fits = " and ".join(
            f"'{source}' ({claim.path.name}: {claim.guess.why})" for source, claim in claims.items()
        )
        raise SourceError(
            f"{inputs[0]}: expected files of one format, got files that match {fits}; name the "
            f"source, such as --source {next(iter(claims))}, or pass the files of one format with "
            "--input"
        )

    [(name, claim)] = claims.items()
    guess = claim.guess
    why = f"{claim.path.name}: {guess.why}"
    if name in resources.pipeline_names():
        return Recognised(name, why, resources.pipeline_text(name), Path(name).name)
    lines = [f'name = "{name}"']
    for stage, table in usual_tables(name).items():
        lines += ["", f"[{stage}]", f'use = "{table["use"]}"']
        if stage == "source":
            lines += [f"{option} = {_in_toml(value)}" for option, value in guess.options.items()]
    return Recognised(name, why, "\n".join([*lines, ""]), _corpus_name(inputs[0]))


def _read_samples(files: Iterable[Path]) -> list[Sample]:
    """Return the first non-empty files of each suffix, with their first bytes.

    Texts with a file of annotations are skipped. They may hold anything; the annotations identify
    the format.
    """
    suffixes = {suffix for name in SOURCES.names() for suffix in SOURCES.load(name).annotations}
    by_ending: dict[str, list[Sample]] = {}
    for path in files:
        samples = by_ending.setdefault(ending(path), [])
        if len(samples) < _LOOKED_AT and path.stat().st_size and not _is_annotated(path, suffixes):
            samples.append(Sample(path, read_head(path)))
    return [sample for samples in by_ending.values() for sample in samples]


def _is_annotated(path: Path, suffixes: Collection[str]) -> bool:
    """Return whether a text has annotations in a file beside it."""
    return ending(path) not in suffixes and any(
        packed_or_plain(path.with_name(stem(path) + suffix)) for suffix in suffixes
    )


def _join_samples(samples: Sequence[Sample]) -> list[Sample]:
    """Join the files of each suffix, as a short file may not show all features of its format."""
    by_ending: dict[str, list[Sample]] = {}
    for sample in samples:
        by_ending.setdefault(ending(sample.path), []).append(sample)
    return [
        Sample(files[0].path, b"\n\n".join(sample.head for sample in files)[:HEAD_BYTES])
        for files in by_ending.values()
        if len(files) > 1
    ]


def _find(samples: Sequence[Sample]) -> Iterator[_Finding]:
    """Ask each source about the files that its suffixes allow.

    Plug-ins that need an option cannot be guessed.
    """
    for name in SOURCES.names():
        kind: type[Source] = SOURCES.load(name)
        if any(option.required for option in msgspec.structs.fields(kind)):
            continue
        source = kind()
        for sample in samples:
            if kind.by_content or ends_with(sample.path, kind.suffixes):
                yield _Finding(name, sample.path, _sniff(name, source, sample))


def _sniff(name: str, source: Source, sample: Sample) -> Guess:
    """Return what a source can tell; of a plug-in that fails, that it failed."""
    try:
        return source.sniff(sample)
    except Exception as error:
        plugin = SOURCES.plugin(name)
        if plugin is None:
            raise
        return Guess(problem=f"{type(error).__name__} in the {plugin}")


def _find_claims(findings: Iterable[_Finding]) -> dict[str, _Finding]:
    """Return the first evidence for each source, or for shipped pipelines with that source."""
    claims: dict[str, _Finding] = {}
    for finding in findings:
        if finding.guess.why:
            claims.setdefault(finding.guess.pipeline or finding.name, finding)
    return claims


def _find_nearest(findings: Iterable[_Finding]) -> _Finding | None:
    """Return the problem of the source that most files seem to belong to, in its first file."""
    problems: dict[str, list[_Finding]] = {}
    for finding in findings:
        if finding.guess.problem:
            problems.setdefault(finding.name, []).append(finding)
    return max(problems.values(), key=len)[0] if problems else None


def _unrecognised(root: Path, files: Sequence[Path], near: _Finding | None) -> SourceError:
    """Make the error for files that no source recognises, with the closest source."""
    endings = sorted({ending(path) for path in files})
    got = (
        f"{root}: expected a known format, got files ending with {', '.join(endings[:10])} that "
        "no source recognises"
    )
    if near:
        return SourceError(
            f"{got}; the closest is --source {near.name}, which reports {near.path.name}: "
            f"{near.guess.problem}"
        )

    for path in files[:_LOOKED_AT]:
        document = name_document(read_head(path))
        if not document and ends_with(path, _HTML):
            document = "an HTML page; convert it to text first, as with `pandoc --to plain`"
        if document:
            return SourceError(f"{path}: expected texts or annotations, got {document}")
    for path in files:
        if archive.is_archive(path.name):
            return SourceError(f"{got}; pass an archive itself, as in --input {path}")
        if path.name.lower().endswith(_PACKED):
            unpacked = ", ".join(archive.SUFFIXES)
            return SourceError(
                f"{got}; unpack {path}, as only {unpacked} and .gz are unpacked here"
            )
    fitting = [
        name
        for name in SOURCES.names()
        if any(ends_with(path, SOURCES.load(name).suffixes) for path in files)
    ]
    if not fitting:
        return SourceError(
            f"{got}; if one of those that `mslm-data recipes --sources` lists reads them, name it "
            'with --source; else convert the files: docs/forms.md has code for "Formats without '
            'a source"'
        )
    advice = f"--source and one of {', '.join(fitting)}"
    if any(ends_with(path, SOURCES.load("text").suffixes) for path in files):
        advice = f"--source text if they hold texts without mentions, else {advice}"
    return SourceError(
        f"{got}; name the source: {advice}; or convert the files: docs/forms.md has code for "
        '"Formats without a source"'
    )


def _in_toml(value: object) -> str:
    """Format an option's value. JSON is valid TOML for text, numbers and lists."""
    return json.dumps(value, ensure_ascii=False)


def _corpus_name(path: Path) -> str:
    """Make a corpus name from the name of a file or folder, valid as a folder name."""
    name = path.resolve().name.removesuffix(".gz").partition(".")[0]
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)
    return plain.strip("-").lower() or "corpus"


# Shipped pipelines --------------------------------------------------------------------------------


def _find_shipped(files: Sequence[Path]) -> Recognised | None:
    """Return the shipped pipeline whose corpus contains one of some files, by digest.

    Raises:
        SourceError: The files belong to several corpora.
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
        return Recognised(pipeline, why, resources.pipeline_text(pipeline), Path(pipeline).name)
    return None


def _shipped_digests() -> Mapping[str, str]:
    """Return digest of a file -> name of the shipped pipeline that downloads it."""
    return {
        fetch["sha256"]: name
        for name in resources.pipeline_names()
        for fetch in tomllib.loads(resources.pipeline_text(name))["source"].get("fetch", [])
    }
