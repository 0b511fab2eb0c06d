"""Texts in, lines of entities out: what `mslm-data annotate` does.

A file of lines is written by `builds`, as folders of shards are: in work units, resumably. Lines
for standard output, and those of standard input, are written as they come, and not resumed.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.errors import AnnotateError, CallError, PipelineError
from mslm_data.io.files import make_folder
from mslm_data.pipeline import STAGES, AnnotateOptions, Pipeline

if TYPE_CHECKING:
    from mslm_data.builds import Progress
    from mslm_data.builds.entity_lines import LineCounts
    from mslm_data.builds.reading import Record
    from mslm_data.builds.stages import Inputs
    from mslm_data.source.formats.text import PlainText

STDIN = "-"
_STDIN_ID = "stdin"
_PROTECTED = "about.protected"
"""The option besides those of the source that is heeded: it warns of readers of patients' text."""
_OF_BUILDS = ("decontaminate", "duplicates", "duplicate_similarity", "sample", "fetch")
"""Options of `[source]` that are not the source's own, and do nothing here."""
_BLANKS = " \t\r\n\f\v"
"""Characters of a blank line."""


# Options ------------------------------------------------------------------------------------------


def check_sets(sets: Sequence[str]) -> None:
    """Check that assignments change options that have a say in how documents are read.

    Args:
        sets: What `--set` was given; what is not `stage.option=value` is left to `pipeline.read`.

    Raises:
        PipelineError: One is not of the source, or only builds have it.
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
    """Return a pipeline that reads documents as before, and whose annotator is a model.

    The model runs on a GPU if there is one, else with as many threads as torch chooses.

    Args:
        pipeline: Its source reads the documents.
        model: A folder that `MslmModel` saved, or one of a token-classification model of
            transformers, or a hub name.
        batch_size: See `ModelNer`.

    Raises:
        AnnotateError: There is no such model, it needs code or pickles, or it has no labels.
        TokenizerError: It has no tokenizer.
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
    # Loaded once, and before anything is written: what is no model leaves no file.
    forget_annotator()
    load_annotator(AnnotateOptions(use="model", options=options))
    labels = ModelNer(model=model).labels()
    return replace(
        pipeline,
        annotate=AnnotateOptions(use="model", options=options, labels=labels),
        duplicates="keep",
        decontaminate=(),
    )


# Annotation ---------------------------------------------------------------------------------------


def find_texts(pipeline: Pipeline, given: Sequence[str]) -> Inputs:
    """Find the texts of a run.

    Args:
        pipeline: Its source reads them.
        given: Files, folders or URLs; or `-` alone for standard input, which holds one text, or one
            a line where the source's `documents` says so.

    Returns:
        The files; none for standard input.

    Raises:
        CallError: Standard input beside others, or of a source that needs files.
        SourceError: An input is missing, or not of the source's format.
    """
    from mslm_data.builds import find
    from mslm_data.builds.stages import Inputs, make_source
    from mslm_data.source.formats.text import PlainText
    from mslm_data.source.inputs.localise import localise

    if STDIN not in given:
        return find(pipeline, localise(given))

    source = make_source(pipeline)
    if len(given) > 1 or not isinstance(source, PlainText) or source.documents == "block":
        raise CallError(
            "--input -: standard input is read as plain text, one document in all or one per line, "
            "and without other inputs; write other input to a file"
        )
    return Inputs(pipeline, source, {"train": []})


def annotate(
    inputs: Inputs,
    out: Path | None,
    write: Callable[[str], object],
    *,
    show_text: bool = False,
    progress: Callable[[Progress], None] = lambda _: None,
) -> LineCounts:
    """Write a line for each document; as in a build, no entity touches a placeholder.

    Args:
        inputs: From `find_texts`.
        out: The file that gets the lines, None for `write`.
        write: Called with the lines of some documents.
        show_text: Whether an entity has its characters too.
        progress: Called as work units finish.

    Raises:
        AnnotateError: The file is there, and is not of an earlier run.
        BuildError: Another process writes the file, it was made of something else, or too many
            documents are set aside.
        SourceError: An input is not of the source's format, or has changed meanwhile.
    """
    from mslm_data.builds import annotate_found, entity_lines

    if out is None:
        return _annotate_at_once(inputs, write, show_text=show_text)

    out = out.resolve()  # a link is the file that it leads to
    make_folder(out.parent)
    if any(inputs.files.values()):
        return annotate_found(inputs, out, show_text=show_text, progress=progress)

    if out.exists():
        raise AnnotateError(
            f"{out}: the file exists, and texts from standard input cannot be resumed; name "
            "another --out, or remove the file"
        )
    made = entity_lines.made_of(
        entity_lines.collect_identity(inputs, show_text=show_text), {"train": [STDIN]}
    )
    with entity_lines.writing_file(out, made) as (write_bytes, keep):
        counts = _annotate_at_once(
            inputs, lambda text: write_bytes(text.encode()), show_text=show_text
        )
        keep(counts)
    return counts


def _annotate_at_once(
    inputs: Inputs, write: Callable[[str], object], *, show_text: bool
) -> LineCounts:
    """Annotate all documents as one work unit for each split, and write lines as they come."""
    from mslm_data.builds import entity_lines
    from mslm_data.builds.tasks import WorkUnit

    receipts = {}
    for split in inputs.files:
        unit = WorkUnit(split, 0, 0, ())
        records = _records(inputs, split)
        receipt = entity_lines.write_lines(
            unit, records, inputs.pipeline, write, show_text=show_text
        )
        receipts[split] = [receipt]
    entity_lines.check_losses(inputs, receipts)
    return entity_lines.count(receipt for [receipt] in receipts.values())


def _records(inputs: Inputs, split: str) -> Iterator[Record]:
    """Give the records of a split, or those of standard input."""
    from mslm_data.builds.entity_lines import names_of, records_as_given
    from mslm_data.builds.plan import check_unchanged_files, take_stamps
    from mslm_data.data.documents import in_batches

    if not inputs.files[split]:
        for record in in_batches(_of_stdin(inputs)):
            yield Part(STDIN), record
        return

    stamps = take_stamps(inputs)
    names = names_of(inputs, staging=None)
    yield from records_as_given(split, inputs.parts(split), inputs.pipeline, names)
    check_unchanged_files(stamps, stamps)


# Standard input -----------------------------------------------------------------------------------


def _of_stdin(inputs: Inputs) -> Iterator[Document | SetAside]:
    """Read standard input in the encoding that the source says, whole or line by line."""
    from mslm_data.builds.entity_lines import MAX_BYTES, whole_text
    from mslm_data.source.reading.encodings import marked, to_utf8

    source = cast("PlainText", inputs.source)  # as `find_texts` has seen to
    if source.documents == "line":
        yield from _read_stdin_lines(source.encoding)
        return
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) <= MAX_BYTES:
        data = to_utf8(data, marked(data, source.encoding))
    yield whole_text(data, _STDIN_ID, f"{_STDIN_ID}:1")


def _read_stdin_lines(encoding: str) -> Iterator[Document | SetAside]:
    """Read the lines of standard input as they come; blank ones are passed over."""
    from mslm_data.builds.entity_lines import MAX_BYTES, TOO_LARGE
    from mslm_data.source.reading.encodings import DAMAGED, DAMAGED_LETTER
    from mslm_data.source.reading.records import NOT_UTF8

    stream = io.TextIOWrapper(
        sys.stdin.buffer,
        # A byte order mark stands before the first line, and is not of it.
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
                _pass_over_line(stream, line)
            elif DAMAGED_LETTER in text:
                yield SetAside(doc_id, place, NOT_UTF8)
            else:
                yield Document(id=doc_id, text=text, place=place)
    finally:
        stream.detach()  # or standard input would be closed


def _pass_over_line(stream: IO[str], read: str) -> None:
    """Read the rest of a line of which some has been read."""
    from mslm_data.builds.entity_lines import MAX_BYTES

    while read and not read.endswith("\n"):
        read = stream.readline(MAX_BYTES)
