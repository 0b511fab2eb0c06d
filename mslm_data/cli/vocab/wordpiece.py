"""`mslm-data vocab wordpiece`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mslm_data.cli.output import print_json, table

if TYPE_CHECKING:
    from mslm_data.builds.texts import Texts


@click.command("wordpiece", short_help="Train a WordPiece vocabulary.")
@click.option("--source", help="A shipped pipeline (see `recipes`) or a TOML file.")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    help="Files or folders, here or at any URL that fsspec knows.",
)
@click.option("--sample", is_flag=True, help="Read the small corpus that the package ships.")
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="STAGE.OPTION=VALUE",
    help="Change an option of the pipeline.",
)
@click.option(
    "--from-folder", "folder", type=click.Path(path_type=Path), metavar="DIR",
    help="Read the rows of a folder built with keep_text instead of a source.",
)  # fmt: skip
@click.option(
    "--split", "splits", multiple=True, default=["train"], show_default=True, help="May repeat."
)
@click.option("--held-out", metavar="SPLIT", help="A split to count the pieces per word of.")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="A new folder."
)
@click.option(
    "--size", type=click.IntRange(1), default=30522, show_default=True, help="Pieces at the most."
)
@click.option(
    "--min-frequency",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Of a joined pair.",
)
@click.option(
    "--cased/--uncased", default=False, show_default=True, help="Keep capitals and accents."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    source: str | None,
    inputs: tuple[str, ...],
    sample: bool,
    sets: tuple[str, ...],
    folder: Path | None,
    splits: tuple[str, ...],
    held_out: str | None,
    out: Path,
    size: int,
    min_frequency: int,
    cased: bool,
    as_json: bool,
) -> None:
    """Train a WordPiece vocabulary on a corpus, for `build --tokenizer DIR` and for a model's first pre-training.

    The input is a corpus, as a tokenizer is needed before there are shards. Equal texts give equal bytes. What
    de-identification took out is not learned; a vocabulary of patients' notes still holds their words.

    \b
    mslm-data vocab wordpiece --source blurb/bc2gm --out vocab/genes --size 8000 --held-out test
    mslm-data vocab wordpiece --source mimic --input NOTEEVENTS.csv.gz --out vocab/notes
    """  # noqa: D301 - click wants the character
    from mslm_data.cli.progress import counting
    from mslm_data.lexicon.wordpiece import count_pieces, refuse_used, train, write

    if (source is None) == (folder is None) or (folder is not None and (inputs or sample or sets)):
        raise click.UsageError("expected --source with its options, or --from-folder alone")
    refuse_used(out)
    texts, protected = (
        _of_folder(folder) if folder else _of_source(str(source), list(inputs), sets, sample=sample)
    )
    held = texts([held_out] if held_out else [])  # raises for a wrong name before the work is done
    with counting("wordpiece", "documents") as progress:
        learned = train(
            lambda: texts(splits),
            size=size,
            min_frequency=min_frequency,
            cased=cased,
            progress=progress,
        )
    tokenizer = write(out, learned)
    report = {
        "out": str(out),
        "size": len(learned.pieces),
        "documents": learned.documents,
        "words": learned.words,
        "characters_left_out": learned.left_out,
        "sha256": tokenizer.digest,
        "protected": protected,
    }
    if held_out:
        counts = count_pieces(tokenizer, held)
        report |= {
            "held_out": held_out,
            "held_out_words": counts.words,
            "held_out_unknown": counts.unknown,
            "pieces_per_word": counts.pieces_per_word,
        }
    if as_json:
        print_json(report)
        return
    rows = [
        (name.replace("_", " "), value)
        for name, value in report.items()
        if isinstance(value, int | float)
    ]
    click.echo(
        table(
            ("", ""), [(name, value) for name, value in rows if name != "protected"]
        ).removeprefix("\n")
    )
    click.echo(f"{out}: sha256 {tokenizer.digest}")
    if protected:
        click.echo("learned from patients' text: treat this folder as you treat the notes")


def _of_source(
    name: str, inputs: list[str], sets: tuple[str, ...], *, sample: bool
) -> tuple[Texts, bool]:
    """Return a pipeline's texts, and whether they are patients' text."""
    from mslm_data.builds.texts import of_corpus
    from mslm_data.cli.build import inputs_of
    from mslm_data.pipeline import read

    pipeline = read(name, sets=sets)
    return of_corpus(pipeline, inputs_of(pipeline, inputs, sample=sample)), pipeline.about.protected


def _of_folder(folder: Path) -> tuple[Texts, bool]:
    """Return a built folder's texts, and whether they are patients' text."""
    from mslm_data.builds.texts import of_folder
    from mslm_data.loading import load

    shards = load(folder)
    return of_folder(shards), shards.manifest.protected
