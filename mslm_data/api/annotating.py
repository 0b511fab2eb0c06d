"""Writes entities of texts as JSON lines, for `mslm-data annotate`.

A file is written by `builds` in work units, and can be resumed. Lines for standard output, or from
standard input, are written immediately and cannot be resumed.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from msgspec.structs import replace

from mslm_data.data.document import Document, SetAside
from mslm_data.errors import CallError, PipelineError
from mslm_data.io.files import make_folder, writing_whole
from mslm_data.pipeline import STAGES, AnnotateOptions, Pipeline

if TYPE_CHECKING:
    from mslm_data.builds import Progress
    from mslm_data.builds.line_sink import LineCounts
    from mslm_data.builds.stages import Inputs
    from mslm_data.source.formats.text import PlainText

STDIN = "-"
_STDIN_ID = "stdin"
_PROTECTED = "about.protected"
"""The only option outside of `[source]` with an effect: a warning about readable patients' text."""
_OF_BUILDS = ("decontaminate", "duplicates", "duplicate_similarity", "sample", "fetch")
"""Options of `[source]` with an effect on builds only."""
_BLANKS = " \t\r\n\f\v"
"""Characters of blank lines."""


# Options ------------------------------------------------------------------------------------------


def check_sets(sets: Sequence[str]) -> None:
    """Check that `--set` changes only options for reading documents.

    Args:
        sets: Values of `--set`. `pipeline.read` reports those not of the form `stage.option=value`.

    Raises:
        PipelineError: An option belongs to another stage, or to builds only.
    """
    for text in sets:
        path = text.partition("=")[0].strip()
        stage, _, option = path.partition(".")
        is_known = stage in STAGES and option
        if not is_known or path == _PROTECTED:
            continue
        if stage != "source" or option.partition(".")[0] in _OF_BUILDS:
            raise PipelineError(
                f"--set {path}: expected an option for reading documents, such as "
                "source.text_column, source.documents or source.max_loss; this option is for "
                "builds only, so leave it out"
            )


def with_model(pipeline: Pipeline, model: str, *, batch_size: int) -> Pipeline:
    """Return the pipeline with a token-classification model as its annotator.

    The model runs on a GPU if available, otherwise on the CPU with torch's default number of
    threads.

    Args:
        pipeline: The pipeline that reads documents.
        model: A folder saved by `MslmModel`, a token-classification model of transformers, or a hub
            id.
        batch_size: See `ModelNer`.

    Raises:
        AnnotateError: The model is missing, needs code or pickles, or has no labels.
        TokenizerError: The model has no tokenizer.
        MissingExtraError: torch or transformers is not installed.
    """
    from mslm_data import _optional
    from mslm_data.builds.stages import forget_annotator, load_annotator
    from mslm_data.torch.predict.model_ner import ModelNer

    _optional.load("torch", wanted_by="`mslm-data annotate`")
    _optional.load("transformers", wanted_by="`mslm-data annotate`")
    import torch

    options = {
        "model": model,
        "batch_size": batch_size,
        "device": "cuda" if torch.cuda.is_available() else "cpu",
        "threads": torch.get_num_threads(),
    }
    # Load the model before anything is written, so that a wrong model leaves no file. It is cached.
    forget_annotator()
    load_annotator(AnnotateOptions(use="model", options=options))
    labels = ModelNer(model=model).labels()
    return replace(
        pipeline,
        annotate=AnnotateOptions(use="model", options=options, labels=labels),
        source=replace(pipeline.source, duplicates="keep", decontaminate=()),
    )


# Annotation ---------------------------------------------------------------------------------------


def find_texts(pipeline: Pipeline, paths: Sequence[str]) -> Inputs:
    """Find the input texts.

    Args:
        pipeline: The pipeline that reads documents.
        paths: Files, folders or URLs; or only `-` for standard input, with a text in total or per
            line, as the source's option `documents` says.

    Returns:
        The input files; no files for standard input.

    Raises:
        CallError: Standard input is combined with other inputs, or the source needs files.
        SourceError: An input is missing, or has another format.
    """
    from mslm_data.builds import find
    from mslm_data.builds.stages import Inputs, make_source
    from mslm_data.source.formats.text import PlainText
    from mslm_data.source.inputs.localise import localise

    if STDIN not in paths:
        return find(pipeline, localise(paths))

    source = make_source(pipeline)
    if len(paths) > 1 or not isinstance(source, PlainText) or source.documents == "block":
        raise CallError(
            "--input -: standard input is read as plain text, one document in all or one per line, "
            "and without other inputs; write other input to a file"
        )
    return Inputs(pipeline, source, {"train": []})


def annotate(
    inputs: Inputs,
    out: Path | None,
    write: Callable[[bytes], object],
    *,
    show_text: bool = False,
    progress: Callable[[Progress], None] = lambda _: None,
) -> LineCounts:
    """Write a line of entities per document. As in builds, entities never touch placeholders.

    Args:
        inputs: From `find_texts`.
        out: Output file; None calls `write` instead.
        write: Called with the lines of each batch, in UTF-8.
        show_text: Whether to write the text of each entity. Default: False.
        progress: Called after each work unit.

    Returns:
        The counts.

    Raises:
        AnnotateError: The output file exists.
        BuildError: Another process writes the file, an unfinished run had other inputs or options,
            or too many documents are set aside.
        SourceError: An input has another format, or has changed meanwhile.
    """
    from mslm_data import builds
    from mslm_data.builds.line_sink import annotate_at_once, check_new

    has_files = any(inputs.files.values())
    read = None if has_files else lambda _: _read_stdin(inputs)
    if out is None:
        return annotate_at_once(inputs, write, show_text=show_text, read=read)

    out = out.resolve()  # writing replaces the target of a link, not the link
    make_folder(out.parent)
    if has_files:
        return builds.annotate(inputs, out, show_text=show_text, progress=progress)

    check_new(out)
    with writing_whole(out) as file:
        return annotate_at_once(inputs, file.write, show_text=show_text, read=read)


def _read_stdin(inputs: Inputs) -> Iterator[Document | SetAside]:
    """Read documents from standard input: the whole text, or a document per line."""
    from mslm_data.builds.line_sink import MAX_BYTES, whole_text
    from mslm_data.source.reading.encodings import marked, to_utf8

    source = cast("PlainText", inputs.source)  # checked by `find_texts`
    if source.documents == "line":
        yield from _read_stdin_lines(source.encoding)
        return
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) <= MAX_BYTES:
        data = to_utf8(data, marked(data, source.encoding))
    yield whole_text(data, _STDIN_ID, f"{_STDIN_ID}:1")


def _read_stdin_lines(encoding: str) -> Iterator[Document | SetAside]:
    """Yield a document per line of standard input as it arrives, skipping blank lines."""
    from mslm_data.builds.line_sink import MAX_BYTES, TOO_LARGE
    from mslm_data.source.reading.encodings import DAMAGED, DAMAGED_LETTER
    from mslm_data.source.reading.records import NOT_UTF8

    stream = io.TextIOWrapper(
        sys.stdin.buffer,
        # utf-8-sig drops a byte order mark at the beginning.
        encoding="utf-8-sig" if encoding == "utf-8" else encoding,
        errors=DAMAGED,
        newline="\n",
    )
    try:
        number = 0
        for line_number, line in enumerate(iter(lambda: stream.readline(MAX_BYTES + 1), ""), 1):
            text = line.removesuffix("\n").removesuffix("\r")
            if not text.strip(_BLANKS):
                continue

            doc_id = f"{_STDIN_ID}:{number}"
            place = f"{_STDIN_ID}:{line_number}"
            number += 1
            if len(line) > MAX_BYTES:
                yield SetAside(doc_id, place, TOO_LARGE)
                _skip_line(stream, line)
            elif DAMAGED_LETTER in text:
                yield SetAside(doc_id, place, NOT_UTF8)
            else:
                yield Document(id=doc_id, text=text, place=place)
    finally:
        stream.detach()  # otherwise the wrapper closes standard input


def _skip_line(stream: IO[str], read: str) -> None:
    """Read the rest of a line, given the part that was read."""
    from mslm_data.builds.line_sink import MAX_BYTES

    while read and not read.endswith("\n"):
        read = stream.readline(MAX_BYTES)
