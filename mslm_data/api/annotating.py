"""Writes entities of texts as JSON lines or as NOTE_NLP, for `mslm-data annotate`.

A file is written by `builds` in work units, and can be resumed. Lines for standard output are
written immediately and cannot be resumed.
"""

from __future__ import annotations

import datetime
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mslm_data.errors import AnnotateError, CallError, PipelineError
from mslm_data.io.files import make_folder
from mslm_data.io.name_tables import read_table
from mslm_data.pipeline import STAGES, AnnotateOptions, Pipeline

if TYPE_CHECKING:
    from mslm_data.builds import Progress
    from mslm_data.builds.line_forms import LineForm
    from mslm_data.builds.line_sink import LineCounts
    from mslm_data.builds.stages import Inputs

STDIN = "-"
_NUMBER = re.compile(r"[0-9]{1,18}")
_WITH_EFFECT = ("about.protected", "annotate.context", "annotate.leave_out_context")
"""Options outside of `[source]` with an effect: a warning about readable patients' text, and the
context of mentions."""
_OF_BUILDS = ("decontaminate", "duplicates", "duplicate_similarity", "sample", "fetch")
"""Options of `[source]` with an effect on builds only."""


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
        if not is_known or path in _WITH_EFFECT:
            continue
        if stage != "source" or option.partition(".")[0] in _OF_BUILDS:
            raise PipelineError(
                f"--set {path}: expected an option for reading documents, such as "
                "source.text_column, source.documents or source.max_loss; this option is for "
                "builds only, so leave it out"
            )


def make_form(
    to: str, *, show_text: bool = False, date: str = "", concepts: Path | None = None
) -> LineForm:
    """Return the form of the lines to write.

    Args:
        to: "jsonl" or "note_nlp".
        show_text: Whether to write the text of each entity. NOTE_NLP needs it.
        date: Date of the run, YYYY-MM-DD. NOTE_NLP needs it.
        concepts: Table of concepts for NOTE_NLP, see `_read_concepts`.

    Raises:
        AnnotateError: The table of concepts is missing or damaged.
        CallError: An option is missing, or has no effect.
    """
    from mslm_data.builds.line_forms import EntityLines, NoteNlp

    if to == "jsonl":
        if date or concepts:
            raise CallError("--date and --concepts: expected --to note_nlp with them, got jsonl")
        return EntityLines(show_text=show_text)
    if not show_text:
        raise CallError(
            f"--to {to}: its column lexical_variant is text of the documents, which may be "
            "patients'; add --show-text to write it"
        )
    try:
        if datetime.date.fromisoformat(date).isoformat() != date:
            raise ValueError
    except ValueError:
        got = "another value" if date else "none"
        raise CallError(
            f"--to {to}: expected the date of the run for nlp_date, got {got}; add --date "
            "YYYY-MM-DD"
        ) from None
    return NoteNlp(date=date, concepts=_read_concepts(concepts) if concepts else {})


def _read_concepts(path: Path) -> dict[str, str]:
    """Return CUI or label -> concept id, of a CSV table with the columns cui and concept_id.

    Raises:
        AnnotateError: The file is missing or damaged, or lacks a column.
    """
    expected = f"{path}: expected a table with the columns cui and concept_id"
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = read_table(file, path, AnnotateError)
            if not {"cui", "concept_id"}.issubset(table.columns):
                raise AnnotateError(f"{expected}, found others")
            found = {}
            for line, row in table.rows:
                if not _NUMBER.fullmatch(row["concept_id"]):
                    raise AnnotateError(
                        f"{path}:{line}: expected a whole number as concept_id, got another value"
                    )
                found[row["cui"]] = row["concept_id"]
            return found
    except (OSError, UnicodeDecodeError):
        raise AnnotateError(f"{expected} in UTF-8, found none") from None


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
        annotate=AnnotateOptions(
            use="model",
            options=options,
            labels=labels,
            context=pipeline.annotate.context,
            leave_out_context=pipeline.annotate.leave_out_context,
        ),
        source=replace(pipeline.source, duplicates="keep", decontaminate=()),
    )


# Annotation ---------------------------------------------------------------------------------------


@contextmanager
def finding_texts(pipeline: Pipeline, paths: Sequence[str]) -> Iterator[Inputs]:
    """Find the input texts. Standard input is copied to a private file until the end of the block.

    Args:
        pipeline: The pipeline that reads documents.
        paths: Files, folders or URLs; or only `-` for standard input, which is read as a `.txt`
            file.

    Raises:
        CallError: Standard input is combined with other inputs, or the source reads no plain text.
        SourceError: An input is missing, or has another format.
    """
    from mslm_data.builds import find
    from mslm_data.builds.stages import make_source
    from mslm_data.source.formats.text import PlainText
    from mslm_data.source.inputs.localise import localise

    if STDIN not in paths:
        yield find(pipeline, localise(paths))
        return

    if len(paths) > 1 or not isinstance(make_source(pipeline), PlainText):
        raise CallError(
            "--input -: standard input is read as plain text, and without other inputs; write "
            "other input to a file"
        )
    with TemporaryDirectory(prefix="mslm-data-annotate-") as folder:
        file = Path(folder) / "stdin.txt"
        with file.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield find(pipeline, [file])


def annotate(
    inputs: Inputs,
    out: Path | None,
    write: Callable[[bytes], object],
    form: LineForm | None = None,
    *,
    progress: Callable[[Progress], None] = lambda _: None,
) -> LineCounts:
    """Write the entities of documents. As in builds, entities never touch placeholders.

    Args:
        inputs: From `finding_texts`.
        out: Output file; None calls `write` instead.
        write: Called with the lines of each batch, in UTF-8.
        form: Form of the lines. Default: None, JSON without text.
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
    from mslm_data.builds.line_forms import EntityLines
    from mslm_data.builds.line_sink import annotate_at_once

    form = form or EntityLines()
    if out is None:
        return annotate_at_once(inputs, write, form)

    out = out.resolve()  # writing replaces the target of a link, not the link
    make_folder(out.parent)
    return builds.annotate(inputs, out, form, progress=progress)
