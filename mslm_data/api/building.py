"""Builds a folder from what a user asks for: `md.build`, and what `mslm-data build` calls.

Here a name becomes a pipeline, a tokenizer and files of this machine, with the checks that the
command and the call share. `builds` makes a folder of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, overload

from mslm_data.engine import ENGINES, WORTH_WORKERS, Preload
from mslm_data.engine.local import ahead
from mslm_data.errors import BuildError, CallError, MslmDataError, PipelineError, system_message
from mslm_data.io import resources
from mslm_data.log import LOGGER, TO_KEEP
from mslm_data.pipeline import Pipeline, read
from mslm_data.registry import did_you_mean

# Kernels and Arrow take most of a second to import, so each function imports what it needs. Workers
# can load the same meanwhile.
if TYPE_CHECKING:
    from mslm_data.api.loading import Shards
    from mslm_data.builds import Progress
    from mslm_data.builds.plan import Plan
    from mslm_data.builds.stages import Inputs
    from mslm_data.encode.tokenizer import Tokenizer
    from mslm_data.shard.manifest import Manifest
    from mslm_data.source.reading.splits import Unread
    from mslm_data.source.recognise import Recognised

AUTO = "auto"
"""The source that is found by looking at the files."""
_OF_DOCUMENTS = "jsonl"
"""The source that reads documents from Python, once they are written down."""
_FILES_LOOKED_AT = 1000
"""Maximum number of files of an input folder whose sizes are added up."""

_LONGEST_NAME = 255
"""Maximum bytes of a file name, on nearly all file systems."""

Source = str | Path | Mapping[str, Any]
"""A name of a shipped pipeline or source, the path of a TOML file, or the tables of such a file."""
Input = str | Path | Sequence[str | Path]
"""One file, folder or URL, or several."""
Downloading = Callable[[], AbstractContextManager[Callable[[str, int, int], None]]]
"""Context of a download; gives a callback that takes a file name, bytes so far and total bytes."""


@overload
def build(
    source: Source | None = ...,
    *,
    input: Input = ...,
    documents: Iterable[Any] | None = ...,
    tokenizer: str | Path | None = ...,
    out: str | Path | None = ...,
    workers: int | None = ...,
    engine: str = ...,
    options: Mapping[str, Any] | None = ...,
    sample: bool = ...,
    part: None = ...,
    progress: Callable[[Progress], None] | None = ...,
) -> Shards: ...


@overload
def build(
    source: Source | None = ...,
    *,
    input: Input = ...,
    documents: Iterable[Any] | None = ...,
    tokenizer: str | Path | None = ...,
    out: str | Path | None = ...,
    workers: int | None = ...,
    engine: str = ...,
    options: Mapping[str, Any] | None = ...,
    sample: bool = ...,
    part: tuple[int, int],
    progress: Callable[[Progress], None] | None = ...,
) -> None: ...


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
    part: tuple[int, int] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Shards | None:
    """Turn a corpus into a folder of Arrow shards, and open it; what `mslm-data build` does.

    The same call resumes a build that was interrupted, and only opens a folder that is finished.
    Errors name the command's options, which have the names of the arguments here: `--out` is `out`,
    and `--set encode.keep_text=true` is `options={"encode.keep_text": True}`.

    Args:
        source: The name of a shipped pipeline, or of a source such as `label-studio`; the path of a
            TOML file; the tables that such a file would give, with a `name`; or `auto` for what is
            found by looking at the files. None, with `documents`: `jsonl`.
        input: Files or folders, here or at any URL that fsspec knows. Empty: the corpus is fetched
            from its public home.
        documents: Documents from Python, in place of files: mappings, or objects with attributes,
            of `id`, `text`, `entities` (each `(start, end, label)`, a mapping or an object of
            these, in characters, half open) and `split` (`train`, `validation` or `test`; None:
            `train`). A mapping may have any other columns that the source `jsonl` reads, and
            documents without an id are numbered. They are written to a private folder beside `out`
            and read from there as files of JSON lines are, which gives the same bytes; the folder
            is deleted at the end. Give the same documents to resume.
        tokenizer: A `tokenizer.json`, a `vocab.txt`, a Hugging Face folder or a hub id. None: the
            one that the pipeline names.
        out: The folder. None: `shards/NAME`.
        workers: Number of work units that are done at a time. None: by the size of the input,
            and by the CPUs that may be used.
        engine: `local`, processes of this machine, or `ray`, a Ray cluster.
        options: `stage.option` -> value, on top of the pipeline.
        sample: Whether the small corpus and tokenizer that the package ships are built.
        part: `(i, n)`, from 1: do every n-th work unit only, beginning with unit i. The call
            without it finishes the folder.
        progress: Called at the start and as work units finish.

    Returns:
        The folder, as `load` opens it; None with `part`, which leaves it unfinished.

    Raises:
        CallError: Arguments that do not go together, a number out of range, or a document that
            cannot be one.
        PipelineError: The pipeline or an option is unknown or wrong, or a tokenizer is missing.
        SourceError: An input is missing, or not in the format that the pipeline names.
        BuildError: The folder holds something else, or the build cannot be completed.
        MslmDataError: Anything else that is wrong with what was passed, or with the machine.
    """
    if part is not None and not _is_part(part):
        raise CallError(f"part: expected (i, n) with 1 <= i <= n, such as (2, 8), got {part!r}")

    try:
        with ExitStack() as until_built:
            if documents is not None:
                if sample or input:
                    got = "a sample" if sample else "an input"
                    raise CallError(f"documents: cannot be combined with {got}; leave out one")
                source, folder = _placed(source, out)
                input = until_built.enter_context(_spooled(documents, folder))
                out = folder
            if source is None:
                raise CallError("source: expected a name, a file or documents=, got neither")

            ready = until_built.enter_context(
                prepared(
                    source,
                    input=input,
                    tokenizer=tokenizer,
                    out=out,
                    workers=workers,
                    engine=engine,
                    options=options,
                    sample=sample,
                )
            )
            ready.run(part=part, progress=progress or (lambda _: None))

        from mslm_data.api.loading import load

        return load(ready.out) if part is None else None
    except OSError as error:  # the command words these itself, with advice
        raise MslmDataError(system_message(error) or type(error).__name__) from error


def _placed(source: Source | None, out: str | Path | None) -> tuple[Source, Path]:
    """Return the source that reads documents from Python, and the folder that is built.

    Raises:
        CallError: The source reads no JSON lines; or nothing names the folder.
        PipelineError: There is no such source.
    """
    if source is None:
        if out is None:
            raise CallError("out: expected the folder to build from documents, got none")
        return _OF_DOCUMENTS, Path(out)

    pipeline = read_named(source)
    if pipeline.source.use != _OF_DOCUMENTS:
        raise CallError(
            f"documents: expected a pipeline with the source '{_OF_DOCUMENTS}', got one with "
            f"'{pipeline.source.use}'"
        )
    return source, default_folder(source, pipeline, sample=False) if out is None else Path(out)


@contextmanager
def _spooled(documents: Iterable[Any], out: Path) -> Iterator[Path]:
    """Write documents from Python to a folder of their own, and delete it afterwards.

    It lies beside the folder that is built, where workers on other machines see it too.
    """
    from mslm_data.source.inputs.spool import spool

    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        private = TemporaryDirectory(prefix=f".{out.name}.documents-", dir=out.parent)
    except OSError as error:
        raise BuildError(
            f"{out.parent}: expected a folder to write into, got {error.strerror}"
        ) from None
    with private as folder:
        spool(documents, Path(folder))
        yield Path(folder)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A build that can begin: what was asked for has been read, checked, and brought here.

    Attributes:
        pipeline: How the corpus is built.
        inputs: Files or folders of this machine; none if the source itself fetches them.
        tokenizer: Makes the tokens.
        out: The folder.
        copies: Cache folders that hold copies of inputs, from a URL or unpacked.
        workers: See `build`.
        engine: See `build`.
        recognised: What was found by looking at the files; None where a source was named.
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
        """The files of each split; found once, as the hub may have to be asked for them.

        Raises:
            SourceError: See `build`.
            PipelineError: See `build`.
        """
        from mslm_data.builds import find

        return find(self.pipeline, self.inputs)

    def files(self) -> tuple[dict[str, list[str]], list[Unread]]:
        """Return split -> the files that are read, and those that are not, with the reason.

        Names are those below the input.
        """
        return self.found.names(), self.found.unread(apart_from=self.out)

    def plan(self) -> tuple[Plan, tuple[str, ...]]:
        """Return what would be built, and the label of each index; nothing is written.

        Raises:
            MslmDataError: See `build`.
        """
        from mslm_data import builds

        return builds.planned(self.found, self.tokenizer, self.out)

    def run(
        self, *, part: tuple[int, int] | None, progress: Callable[[Progress], None]
    ) -> Manifest | None:
        """Build the folder, as `builds.build` does.

        A warning is logged if patients' text goes where others can enter.

        Raises:
            MslmDataError: See `build`.
        """
        from mslm_data import builds
        from mslm_data.io.private import warn_readable

        if self.pipeline.about.protected or self.pipeline.encode.keep_text:
            warn_readable([self.out, *self.copies])
        return builds.build_found(
            self.found,
            self.tokenizer,
            self.out,
            workers=self.workers,
            engine=self.engine,
            part=part,
            progress=progress,
        )


def _check_is_path(argument: str, value: object) -> None:
    """Raise CallError for text that no file system takes for a path."""
    if not isinstance(value, str | Path):
        return
    try:
        path = os.fsencode(value)
    except UnicodeEncodeError:
        wrong = "other characters than text has"
    else:
        is_long = b"://" not in path and max(map(len, path.split(b"/"))) > _LONGEST_NAME
        wrong = ""
        if is_long:
            wrong = f"a name of more than {_LONGEST_NAME} bytes"
        elif b"\0" in path:
            wrong = "a NUL"
    if wrong:
        raise CallError(f"{argument}: expected a valid file name or path, got one with {wrong}")


def _are_numbers(*given: object) -> bool:
    """Return whether these are whole numbers of at least 1."""
    return all(isinstance(number, int) and number >= 1 for number in given)


def _is_part(part: Any) -> bool:
    """Return whether these are a unit's number and how many units there are."""
    if not isinstance(part, tuple | list) or len(part) != 2:
        return False
    return _are_numbers(*part) and bool(part[0] <= part[1])


@contextmanager
def _unseen() -> Iterator[Callable[[str, int, int], None]]:
    """Show nothing of a download."""
    yield lambda *_: None


@contextmanager
def prepared(
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
) -> Iterator[Prepared]:
    """Read, check and fetch what a build needs.

    If it will have several workers here, what they need is loaded meanwhile and kept for the block.

    Args:
        source: See `build`.
        input: See `build`.
        tokenizer: See `build`.
        out: See `build`.
        workers: See `build`.
        engine: See `build`.
        options: See `build`.
        sets: The same as `options` in the words of a command, `stage.option=value`.
        sample: See `build`.
        downloading: Shows how far the download of a corpus is.

    Raises:
        MslmDataError: See `build`.
    """
    if workers is not None and not _are_numbers(workers):
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
    paths_of: dict[str, list[Any]] = {
        "source": [source],
        "input": given,
        "tokenizer": [tokenizer],
        "out": [out],
    }
    for argument, values in paths_of.items():
        for value in values:
            _check_is_path(argument, value)
    recognised = None
    if source == AUTO:
        recognised = _recognised(given, sample=sample)
        source = recognised.tables
    pipeline = read_named(source, sets=sets, options=options)
    if sample:
        pipeline = pipeline.sampled()

    with ExitStack() as until_built:
        several = _worth_workers(given) if workers is None else workers > 1
        if several and engine == "local":
            preload = Preload("mslm_data.builds.worker:load_stages", pipeline.to_preload())
            until_built.enter_context(ahead(preload))

        loaded = tokenizer_of(pipeline, tokenizer, sample=sample)
        paths = choose_inputs(pipeline, given, sample=sample, downloading=downloading)
        yield Prepared(
            pipeline=pipeline,
            inputs=tuple(paths),
            tokenizer=loaded,
            out=Path(out) if out is not None else default_folder(source, pipeline, sample=sample),
            copies=tuple(_copies(paths, given)),
            workers=workers,
            engine=engine,
            recognised=recognised,
        )


def read_named(
    source: Source, *, sets: Sequence[str] = (), options: Mapping[str, Any] | None = None
) -> Pipeline:
    """Read a shipped pipeline, a TOML file, the tables of one, or a source with its usual options.

    Args:
        source: `blurb/ncbi-disease`, `my.toml`, tables with a `name`, or `label-studio`.
        sets: See `pipeline.read`.
        options: See `pipeline.read`.

    Raises:
        PipelineError: There is nothing of that name; or as from `pipeline.read`.
    """
    shipped = resources.pipeline_names()
    if isinstance(source, Mapping) or str(source).endswith(".toml") or source in shipped:
        return read(source, sets=sets, options=options)

    from mslm_data.source.table import SOURCES, usual_tables

    name = str(source)
    if name not in SOURCES:
        near = did_you_mean(name, [*shipped, *SOURCES.names()])
        raise PipelineError(f"no shipped pipeline or source '{name}'{near}")
    return read({"name": name, **usual_tables(name)}, sets=sets, options=options)


def _recognised(given: Sequence[str | Path], *, sample: bool) -> Recognised:
    """Look at files for what reads them, and say what was found.

    Raises:
        CallError: There are no files.
        SourceError: No source recognises them, or several do.
    """
    from mslm_data.source.inputs.localise import localise
    from mslm_data.source.recognise import recognise

    if sample or not given:
        raise CallError(f"source '{AUTO}': expected files to recognise, got none; pass --input")
    found = recognise(localise(given))
    LOGGER.info(
        "source '%s': found '%s', as %s; `mslm-data recipes %s --input …` prints the pipeline file",
        AUTO,
        found.what,
        found.why,
        AUTO,
        extra=TO_KEEP,
    )
    return found


def _worth_workers(given: Sequence[str | Path]) -> bool:
    """Return whether files and folders of this machine are large enough for several workers.

    What has to be fetched or unpacked counts as it lies here.
    """
    found = 0
    for path in map(Path, given):
        files = [path] if path.is_file() else islice(_files_below(path), _FILES_LOOKED_AT)
        for file in files:
            found += file.stat().st_size
            if found >= WORTH_WORKERS:
                return True
    return False


def _files_below(folder: Path) -> Iterator[Path]:
    """Give the files below a folder; none where there is no folder."""
    for place, _, names in os.walk(folder):
        for name in names:
            file = Path(place, name)
            if file.is_file():
                yield file


def default_folder(source: Source, pipeline: Pipeline, *, sample: bool) -> Path:
    """Return the folder of a build that is given none: below `shards/`, by its name.

    Raises:
        PipelineError: No folder can have the name.
    """
    name = pipeline.name if isinstance(source, Mapping) else str(source)
    last = Path(name).stem
    if last in ("", ".."):
        raise PipelineError(f"pipeline '{name}': the name cannot be a folder's name; pass --out")
    return Path("shards") / (f"{last}-sample" if sample else last)


def choose_inputs(
    pipeline: Pipeline,
    given: Sequence[str | Path],
    *,
    sample: bool,
    downloading: Downloading = _unseen,
) -> list[Path]:
    """Return the files or folders to read: the sample, the user's own, or those fetched.

    Args:
        pipeline: Says where its corpus is.
        given: The user's own, here or at URLs.
        sample: Whether the shipped sample is read.
        downloading: See `prepare`.

    Raises:
        CallError: Both a sample and an input.
        PipelineError: The pipeline has no sample.
        SourceError: An input is missing, or cannot be fetched.
    """
    from mslm_data.source.inputs.fetch import fetch
    from mslm_data.source.inputs.localise import localise

    if sample:
        if given:
            raise CallError(
                "expected a sample or an input, got both; a sample has its own corpus, so leave "
                "out one of them"
            )
        if not pipeline.sample:
            raise PipelineError(
                f"pipeline '{pipeline.name}': it has no sample; pass your corpus (--input)"
            )
        return [resources.path("vocab", pipeline.sample)]

    if given:
        return localise(given)
    if pipeline.source.options.get("dataset"):  # of the hub: the source itself fetches it
        return []
    with downloading() as progress:
        return fetch(pipeline.name, pipeline.fetch, progress=progress)


def tokenizer_of(pipeline: Pipeline, name: str | Path | None, *, sample: bool) -> Tokenizer:
    """Load the tokenizer that the user names, else the pipeline's, else the sample's.

    Raises:
        PipelineError: Nobody names one.
        TokenizerError: It cannot be loaded, or lacks what masking needs.
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
    """Return the cache folders that hold copies of inputs, which came from a URL or were packed."""
    from mslm_data.io import cache

    names = [str(name) for name in given]
    copied = [path for path in paths if names and str(path) not in names]
    kinds = [cache.folder(kind) for kind in ("inputs", "unpacked")] if copied else []
    return [kind for kind in kinds if any(path.is_relative_to(kind) for path in copied)]
