"""`mslm-data annotate`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from mslm_data.cli.command import argument, make_command, option
from mslm_data.cli.options import FileOrFolder, Positive
from mslm_data.cli.output import echo
from mslm_data.registry import Options
from mslm_data.results import Result, Table

if TYPE_CHECKING:
    from mslm_data.builds.line_sink import LineCounts


class Annotate(Options, frozen=True, kw_only=True):
    """Options of `mslm-data annotate`."""

    model: Annotated[str, argument("MODEL")]
    input: Annotated[
        tuple[str, ...],
        option(
            "Input file, folder or URL, or - for standard input. Can be repeated.",
            metavar="FILE|FOLDER|-",
        ),
    ]
    out: Annotated[
        Path | None,
        option(
            "New output file, written when complete. Until then, FILE.parts has the "
            "unfinished work.",
            metavar="FILE",
            type=FileOrFolder(dir_okay=False),
            default="standard output",
        ),
    ] = None
    to: Annotated[
        Literal["jsonl", "note_nlp"],
        option(
            "Output format: jsonl, or note_nlp, a row per entity of OMOP CDM's table NOTE_NLP as "
            "CSV. This has the text of each entity, so it needs --show-text, and --date. Read "
            "NOTE with --source omop, so that ids are those of the notes."
        ),
    ] = "jsonl"
    date: Annotated[
        str,
        option("Date of the run, for nlp_date of note_nlp.", metavar="YYYY-MM-DD", default="none"),
    ] = ""
    concepts: Annotated[
        Path | None,
        option(
            "Table of concepts for note_nlp: CSV with the columns cui and concept_id. Entities "
            "without a CUI are looked up by their label.",
            metavar="FILE.csv",
            type=FileOrFolder(dir_okay=False),
            default="0 as note_nlp_concept_id",
        ),
    ] = None
    source: Annotated[
        str,
        option(
            "Source or pipeline that reads the documents. `text` reads each .txt file as one "
            "document, and each row of tables, JSON lines, parquet and Arrow files.",
            metavar="NAME|FILE.toml",
        ),
    ] = "text"
    set: Annotated[
        tuple[str, ...],
        option(
            "Option of the source, such as source.documents=line or source.text_column=note; or "
            "annotate.context=true for flags of negation and history, by rules for English. Can "
            "be repeated.",
            metavar="STAGE.OPTION=VALUE",
        ),
    ] = ()
    batch_size: Annotated[
        Positive,
        option(
            "Number of tokens per batch, in rows of full length. A GPU is faster with 32 or more, "
            "a CPU is not. The entities do not depend on it.",
            metavar="N",
        ),
    ] = 1
    show_text: Annotated[
        bool,
        option("Add the text of each entity to the output, even if it is patients' text."),
    ] = False


@dataclass(frozen=True, kw_only=True)
class AnnotatedLines(Result):
    """The written lines: their file, and the numbers of documents and entities."""

    out: Path | None
    documents: int
    entities: int
    left_out: Mapping[str, int]
    set_aside: int

    @property
    def is_aside(self) -> bool:
        """True without a file, because then stdout has the entities and nothing else."""
        return self.out is None

    def tables(self) -> Iterator[str | Table]:
        """Yield a line, if there is a file."""
        if self.out is not None:
            yield f"{self.out}: {self.documents:,} documents; {self.entities:,} entities found"


@make_command("annotate", Annotate)
def command(options: Annotate) -> AnnotatedLines:
    r"""Find entities in texts of any length, and write a line of JSON per document, or NOTE_NLP.

    MODEL is a folder saved by MslmModel, or a token-classification model of transformers: a folder
    or a hub id, with safetensors weights. Starts and ends are character offsets in the input text.
    Run the same command again to resume an interrupted one.

    --json prints the counts. Without --out, they are the last line of stderr, because stdout has
    the entities.

    \b
    Example:
        mslm-data annotate models/ncbi --input notes --out found.jsonl
        mslm-data annotate models/ncbi --input notes.jsonl --set source.text_column=note
        mslm-data annotate models/ncbi --input note.csv --source omop \
            --to note_nlp --show-text --date 2026-01-31 --out note_nlp.csv
    """
    from mslm_data.api import annotating
    from mslm_data.api.building import read_named
    from mslm_data.cli.progress import showing
    from mslm_data.io.private import warn_readable

    annotating.check_sets(options.set)
    form = annotating.make_form(
        options.to, show_text=options.show_text, date=options.date, concepts=options.concepts
    )
    pipeline = annotating.with_model(
        read_named(options.source, sets=options.set), options.model, batch_size=options.batch_size
    )
    out = options.out
    if out is not None and options.show_text and pipeline.about.protected:
        warn_readable([out.parent])

    with (
        annotating.finding_texts(pipeline, options.input) as inputs,
        showing("annotate") if out is not None else nullcontext(lambda _: None) as progress,
    ):
        counts = annotating.annotate(
            inputs,
            out,
            lambda lines: echo(lines.decode(), nl=False),
            form,
            progress=progress,
        )
    _print_losses(counts)
    return AnnotatedLines(
        out=out,
        documents=counts.documents,
        entities=counts.entities,
        left_out=counts.left_out,
        set_aside=sum(counts.set_aside.values()),
    )


def _print_losses(counts: LineCounts) -> None:
    """Print to stderr the entities left out and the documents set aside, by reason."""
    for reason, count in Counter(counts.left_out).most_common():
        echo(f"{count:,} found and left out: {reason}", err=True)
    for reason, count in Counter(counts.set_aside).most_common(3):
        echo(f"{count:,} set aside, the first at {counts.places[reason]}: {reason}", err=True)
