"""Builds a folder from user arguments: `md.build`, `md.build_part`, and `mslm-data build`.

This module turns names into a pipeline, a tokenizer and local files, with checks shared by the
command and the function. `builds` does the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mslm_data.engine import ENGINES
from mslm_data.errors import BuildError, CallError, MslmDataError, PipelineError, system_message
from mslm_data.io import resources
from mslm_data.io.files import make_folder, naming_file, private_folder
from mslm_data.io.locks import HeldError
from mslm_data.io.remote import output
from mslm_data.log import LOGGER, TO_KEEP
from mslm_data.pipeline import Pipeline, read
from mslm_data.registry import did_you_mean

# Importing kernels and Arrow takes most of a second, so each function imports only what it needs.
# Meanwhile the workers start.
if TYPE_CHECKING:
    from mslm_data.api.loading import Shards
    from mslm_data.builds import Preview, Progress
    from mslm_data.builds.stages import Inputs
    from mslm_data.encode.tokenizer import Tokenizer
    from mslm_data.shard.manifest import Manifest
    from mslm_data.source.reading.splits import Unread
    from mslm_data.source.recognise import Recognised

AUTO = "auto"
"""The source name that selects a source by the input files."""
_OF_DOCUMENTS = "jsonl"
"""The source for documents from Python, which are written to files first."""

Source = str | Path | Mapping[str, Any]
"""Name of a shipped pipeline or source, path of a TOML file, or the tables of one."""
Input = str | Path | Sequence[str | Path]
"""A file, folder or URL, or several."""
Downloading = Callable[[], AbstractContextManager[Callable[[str, int, int], None]]]
"""Context of a download. It gives a callback of file name, bytes so far and total bytes."""


def build(
    source: Source | None = None,
    *,
    input: Input = (),
    documents: Iterable[Any] | None = None,
    tokenizer: str | Path | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    engine: str = "local",
    options: Mapping[str, Any] | None = None,
    sample: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Shards:
    """Build a folder of Arrow shards from a corpus, and open it, as `mslm-data build` does.

    The same call resumes an interrupted build, or opens a finished folder. Errors name the options
    of the command: `--out` is the argument `out`, and `--set encode.keep_text=true` is
    `options={"encode.keep_text": True}`.

    Args:
        source: Name of a shipped pipeline or of a source such as `label-studio`, path of a TOML
            file, or the tables of such a file with a `name`. `auto` selects a source by the files.
            Default: `jsonl` if `documents` are given, otherwise required.
        input: Files or folders, as paths or fsspec URLs. Default: download the corpus from its
            public home.
        documents: Documents from Python instead of files: mappings, or objects with attributes
            `id`, `text`, `entities` and `split`. Each entity is `(start, end, label)`, or a mapping
            or object with these names, in characters, half open. `split` is `train` (default),
            `validation` or `test`. Mappings may have more columns, as for the source `jsonl`.
            Documents without an id are numbered. They are written to a private folder beside `out`
            while the build runs, and give the same bytes as JSON lines. Pass the same documents to
            resume.
        tokenizer: A `tokenizer.json`, a `vocab.txt`, a Hugging Face folder or a hub id. Default:
            the pipeline's.
        out: Output folder. Default: `shards/NAME`.
        workers: Number of parallel work units. Default: chosen by the input size and the available
            CPUs.
        engine: `local` for processes on this machine (default), or `ray` for a Ray cluster.
        options: `stage.option` -> value; overrides options of the pipeline.
        sample: Whether to build the shipped sample corpus with its tokenizer. Default: False.
        progress: Called at the start and after each work unit.

    Returns:
        The opened folder, as from `load`.

    Raises:
        CallError: Arguments that cannot be combined, a number out of range, or an invalid document.
        PipelineError: The pipeline or an option is unknown or wrong, or no tokenizer is named.
        SourceError: An input is missing, or has another format than the pipeline's.
        BuildError: The folder has other content, or the build cannot be completed.
        MslmDataError: Any other error of the arguments or the machine.
    """
    folder = _run(
        source,
        documents,
        part=None,
        progress=progress,
        input=input,
        tokenizer=tokenizer,
        out=out,
        workers=workers,
        engine=engine,
        options=options,
        sample=sample,
    )

    from mslm_data.api.loading import load

    return load(folder)


def build_part(
    source: Source | None = None,
    *,
    part: tuple[int, int],
    input: Input = (),
    documents: Iterable[Any] | None = None,
    tokenizer: str | Path | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    engine: str = "local",
    options: Mapping[str, Any] | None = None,
    sample: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> None:
    """Build some work units of a folder, as `mslm-data build --part` does in an array job.

    The folder stays unfinished: `build` with the same arguments, after all parts, finishes it.

    Args:
        source: See `build`, as for all arguments but `part`.
        part: `(i, n)` for every n-th work unit from unit i, counted from 1.
        input: See `build`.
        documents: See `build`.
        tokenizer: See `build`.
        out: See `build`.
        workers: See `build`.
        engine: See `build`.
        options: See `build`.
        sample: See `build`.
        progress: See `build`.

    Raises:
        CallError: `part` is out of range, or see `build`.
        MslmDataError: See `build`.
    """
    if not _is_part(part):
        raise CallError(f"part: expected (i, n) with 1 <= i <= n, such as (2, 8), got {part!r}")

    _run(
        source,
        documents,
        part=part,
        progress=progress,
        input=input,
        tokenizer=tokenizer,
        out=out,
        workers=workers,
        engine=engine,
        options=options,
        sample=sample,
    )


def _run(
    source: Source | None,
    documents: Iterable[Any] | None,
    *,
    part: tuple[int, int] | None,
    progress: Callable[[Progress], None] | None,
    input: Input,
    out: str | Path | None,
    sample: bool,
    **arguments: Any,
) -> Path:
    """Build a folder or a part of it, and return the folder.

    Args:
        source: See `build`.
        documents: See `build`.
        part: See `build_part`; None for the whole folder.
        progress: See `build`.
        input: See `build`.
        out: See `build`.
        sample: See `build`.
        **arguments: Other arguments, for `prepare`.

    Raises:
        MslmDataError: See `build`.
    """
    try:
        with ExitStack() as until_built:
            # Documents from Python become JSON lines, so that they are built like files.
            if documents is not None:
                if sample or input:
                    got = "a sample" if sample else "an input"
                    raise CallError(f"documents: cannot be combined with {got}; leave out one")
                source, folder = _placed(source, out)
                # Parts may be built at the same time, each from its own copy of the documents.
                name = folder.name if part is None else f"{folder.name}.{part[0]}-of-{part[1]}"
                input = until_built.enter_context(_spooled(documents, folder.with_name(name)))
                out = folder
            if source is None:
                raise CallError("source: expected a name, a file or documents=, got neither")

            ready = prepare(source, input=input, out=out, sample=sample, **arguments)
            ready.run(part=part, progress=progress or (lambda _: None))
            return ready.out
    except OSError as error:  # the command has its own messages for these
        raise MslmDataError(system_message(error) or type(error).__name__) from error


def _placed(source: Source | None, out: str | Path | None) -> tuple[Source, Path]:
    """Return the source for documents from Python, and the output folder.

    Raises:
        CallError: The source is not `jsonl`, or the folder is not named.
        PipelineError: The source is unknown.
    """
    if source is None:
        if out is None:
            raise CallError("out: expected the folder to build from documents, got none")
        return _OF_DOCUMENTS, output(out)

    pipeline = read_named(source)
    if pipeline.source.use != _OF_DOCUMENTS:
        raise CallError(
            f"documents: expected a pipeline with the source '{_OF_DOCUMENTS}', got one with "
            f"'{pipeline.source.use}'"
        )
    return source, default_folder(source, pipeline, sample=False) if out is None else output(out)


@contextmanager
def _spooled(documents: Iterable[Any], out: Path) -> Iterator[Path]:
    """Write documents from Python to a temporary folder.

    The folder is beside the output folder, so that workers on other machines can read it.
    """
    from mslm_data.source.inputs.spool import spool

    with ExitStack() as until_built:
        try:
            make_folder(out.parent)
            folder = until_built.enter_context(private_folder(out, error=BuildError))
        except HeldError:
            raise BuildError(
                f"{out}: another build of documents is running in this folder; wait for it or "
                "choose another --out"
            ) from None
        except OSError as error:
            raise BuildError(
                f"{out.parent}: expected a folder to write into, got {error.strerror}"
            ) from None
        with naming_file(out):
            spool(documents, folder)
        yield folder


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A build that is ready to run, with checked arguments, local inputs and a loaded tokenizer.

    Attributes:
        pipeline: The pipeline.
        inputs: Local files or folders; empty if the source fetches its own input.
        tokenizer: The tokenizer.
        out: The output folder.
        copies: Cache folders with copies of inputs, downloaded or unpacked.
        workers: See `build`.
        engine: See `build`.
        recognised: The source selected by `auto`; None if a source was named.
    """

    pipeline: Pipeline
    inputs: tuple[Path, ...]
    tokenizer: Tokenizer
    out: Path
    copies: tuple[Path, ...]
    workers: int | None
    engine: str
    recognised: Recognised | None

    @cached_property
    def found(self) -> Inputs:
        """The input files of each split; cached, because the hub may be asked for them.

        Raises:
            SourceError: See `build`.
            PipelineError: See `build`.
        """
        from mslm_data.builds import find

        return find(self.pipeline, self.inputs)

    def files(self) -> tuple[dict[str, list[str]], list[Unread]]:
        """Return split -> the files to read, and the files not read, with reasons.

        Paths are relative to the input.
        """
        return self.found.names(), self.found.unread(apart_from=self.out)

    def preview(self) -> Preview:
        """Return what the build would do, without writing anything.

        Raises:
            MslmDataError: See `build`.
        """
        from mslm_data import builds

        return builds.plan_build(self.found, self.tokenizer, self.out)

    def run(
        self, *, part: tuple[int, int] | None, progress: Callable[[Progress], None]
    ) -> Manifest | None:
        """Build the folder; see `builds.build`.

        Logs a warning if patients' text is written to folders that other users can read.

        Raises:
            MslmDataError: See `build`.
        """
        from mslm_data import builds
        from mslm_data.io.private import warn_readable

        if self.pipeline.about.protected or self.pipeline.encode.keep_text:
            warn_readable([self.out, *self.copies])
        return builds.build(
            self.found,
            self.tokenizer,
            self.out,
            workers=self.workers,
            engine=self.engine,
            part=part,
            progress=progress,
        )


def _check_is_path(out: str | Path) -> None:
    """Check that the output folder can be a path, before anything is read.

    Raises:
        CallError: It has a NUL, or characters that cannot be encoded.
    """
    with suppress(OSError):
        try:
            os.lstat(out)
        except ValueError as error:
            raise CallError(f"out: expected a path, got one that is none: {error}") from None


def _are_positive(*values: object) -> bool:
    return all(isinstance(value, int) and value >= 1 for value in values)


def _is_part(part: Any) -> bool:
    """Return whether a value is `(i, n)` with 1 <= i <= n."""
    is_pair = isinstance(part, tuple | list) and len(part) == 2
    return is_pair and _are_positive(*part) and bool(part[0] <= part[1])


@contextmanager
def _unseen() -> Iterator[Callable[[str, int, int], None]]:
    yield lambda *_: None


def prepare(
    source: Source,
    *,
    input: Input = (),
    tokenizer: str | Path | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    engine: str = "local",
    options: Mapping[str, Any] | None = None,
    sets: Sequence[str] = (),
    sample: bool = False,
    downloading: Downloading = _unseen,
) -> Prepared:
    """Prepare a build: check the arguments, fetch inputs, and load the tokenizer.

    Args:
        source: See `build`.
        input: See `build`.
        tokenizer: See `build`.
        out: See `build`.
        workers: See `build`.
        engine: See `build`.
        options: See `build`.
        sets: Options as `stage.option=value`, from the command line.
        sample: See `build`.
        downloading: Shows the progress of a download. Default: shows nothing.

    Raises:
        MslmDataError: See `build`.
    """
    if workers is not None and not _are_positive(workers):
        raise CallError(
            f"workers: expected a number from 1, got {workers!r}; leave it out for a number that "
            "suits the input"
        )
    if not isinstance(options, Mapping | None):
        raise CallError(
            'options: expected a mapping, such as {"encode.keep_text": True}, got '
            f"{type(options).__name__}"
        )
    ENGINES.resolve(engine)

    given = [input] if isinstance(input, str | Path) else list(input)
    recognised = None
    if source == AUTO:
        paths_set = [*(text.partition("=")[0] for text in sets), *(options or {})]
        decided = {path.removeprefix("source.") for path in paths_set if path.startswith("source.")}
        recognised = _recognised(given, sample=sample, decided=decided)
        source = recognised.tables
    pipeline = read_named(source, sets=sets, options=options)
    if sample:
        pipeline = pipeline.sampled()

    loaded = choose_tokenizer(pipeline, tokenizer, sample=sample)
    paths = choose_inputs(pipeline, given, sample=sample, downloading=downloading)
    if out is None:
        named = recognised.folder if recognised else source
        out = default_folder(named, pipeline, sample=sample)
    _check_is_path(out)
    return Prepared(
        pipeline=pipeline,
        inputs=tuple(paths),
        tokenizer=loaded,
        out=output(out),
        copies=tuple(_copies(paths, given)),
        workers=workers,
        engine=engine,
        recognised=recognised,
    )


def read_named(
    source: Source, *, sets: Sequence[str] = (), options: Mapping[str, Any] | None = None
) -> Pipeline:
    """Read a shipped pipeline, a TOML file or its tables, or use the defaults of a source.

    Args:
        source: Such as `blurb/ncbi-disease`, `my.toml`, tables with a `name`, or `label-studio`.
        sets: See `pipeline.read`.
        options: See `pipeline.read`.

    Raises:
        CallError: The source has another type, such as a list of documents.
        PipelineError: The name is unknown, or from `pipeline.read`.
    """
    if not isinstance(source, str | os.PathLike | Mapping):
        raise CallError(
            f"source: expected a name, a file or tables, got {type(source).__name__}; pass "
            "documents as documents="
        )
    shipped = resources.pipeline_names()
    if isinstance(source, Mapping) or str(source).endswith(".toml") or source in shipped:
        return read(source, sets=sets, options=options)

    from mslm_data.source.table import SOURCES, usual_tables

    name = str(source)
    if name not in SOURCES:
        near = did_you_mean(name, [*shipped, *SOURCES.names()])
        raise PipelineError(f"no shipped pipeline or source '{name}'{near}")
    return read({"name": name, **usual_tables(name)}, sets=sets, options=options)


def _recognised(
    given: Sequence[str | Path], *, sample: bool, decided: Collection[str]
) -> Recognised:
    """Select a source by the input files, and log the result.

    Args:
        given: The input files.
        sample: Whether a sample is built, which has no files to recognise.
        decided: Names of the source's options that the user set.

    Raises:
        CallError: There are no files.
        SourceError: No source recognises them, or several do.
    """
    from mslm_data.source.inputs.localise import localise
    from mslm_data.source.recognise import recognise

    if sample or not given:
        raise CallError(f"source '{AUTO}': expected files to recognise, got none; pass --input")
    recognised = recognise(localise(given), decided)
    LOGGER.info(
        "source '%s': found '%s', as %s; `mslm-data recipes %s --input …` prints the pipeline file",
        AUTO,
        recognised.what,
        recognised.why,
        AUTO,
        extra=TO_KEEP,
    )
    return recognised


def default_folder(source: Source, pipeline: Pipeline, *, sample: bool) -> Path:
    """Return the default output folder: the pipeline's name in `shards/`.

    Raises:
        PipelineError: The name cannot be a folder's name.
    """
    name = pipeline.name if isinstance(source, Mapping) else str(source).removesuffix(".toml")
    last = Path(name).name
    if last in ("", ".."):
        raise PipelineError(
            f"pipeline '{name}': the name cannot be a folder's name; pass out (--out)"
        )
    return Path("shards") / (f"{last}-sample" if sample else last)


def choose_inputs(
    pipeline: Pipeline,
    given: Sequence[str | Path],
    *,
    sample: bool,
    downloading: Downloading = _unseen,
) -> list[Path]:
    """Return the files or folders to read: the sample, the given inputs, or a download.

    Args:
        pipeline: The pipeline, with its sample and download.
        given: Inputs from the user, as paths or URLs.
        sample: Whether to read the shipped sample.
        downloading: See `prepare`.

    Raises:
        CallError: Both a sample and an input are given.
        PipelineError: The pipeline has no sample.
        SourceError: An input is missing or cannot be fetched.
    """
    from mslm_data.source.inputs.fetch import fetch
    from mslm_data.source.inputs.localise import localise

    if sample:
        if given:
            raise CallError(
                "expected a sample or an input, got both; a sample has its own corpus, so leave "
                "out one of them"
            )
        if not pipeline.source.sample:
            raise PipelineError(
                f"pipeline '{pipeline.name}': it has no sample; pass your corpus (--input)"
            )
        return [resources.path("vocab", pipeline.source.sample)]

    if given:
        return localise(given)
    if pipeline.source.options.get("dataset"):  # the source fetches it from the hub
        return []
    with downloading() as progress:
        return fetch(pipeline.name, pipeline.source.fetch, progress=progress)


def choose_tokenizer(pipeline: Pipeline, name: str | Path | None, *, sample: bool) -> Tokenizer:
    """Load the given tokenizer; otherwise the pipeline's, otherwise the sample's.

    Raises:
        PipelineError: No tokenizer is named.
        TokenizerError: It cannot be loaded, or has no mask token.
    """
    from mslm_data.encode.tokenizer import load_tokenizer

    named = str(name or pipeline.encode.tokenizer)
    if not named and sample:
        named = str(resources.path("vocab", "sample/vocab.txt"))
    if not named:
        raise PipelineError(
            f"pipeline '{pipeline.name}': it needs a tokenizer; pass a tokenizer.json, a "
            "vocab.txt, a Hugging Face folder or a hub id (--tokenizer)"
        )
    return load_tokenizer(named, lowercase=pipeline.encode.lowercase)


def _copies(paths: Sequence[Path], given: Sequence[str | Path]) -> list[Path]:
    """Return the cache folders with copies of inputs, downloaded or unpacked."""
    from mslm_data.io import cache

    names = [str(name) for name in given]
    copied = [path for path in paths if names and str(path) not in names]
    kinds = [cache.folder(kind) for kind in ("inputs", "unpacked")] if copied else []
    return [kind for kind in kinds if any(path.is_relative_to(kind) for path in copied)]
