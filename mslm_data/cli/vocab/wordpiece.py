"""`mslm-data vocab wordpiece`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mslm_data.cli.options import FileOrFolder, json_option
from mslm_data.cli.output import echo, print_json, table

if TYPE_CHECKING:
    from mslm_data.builds.texts import CorpusTexts, Texts


@click.command("wordpiece", short_help="Train a WordPiece vocabulary.")
@click.option(
    "--source",
    metavar="NAME|FILE.toml",
    help="Read the corpus of this pipeline: a shipped one (`mslm-data recipes` lists them), a "
    "source such as `text` with its usual options, or a TOML file.",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="PATH",
    help="Read these files or folders, here or at any URL that fsspec knows. Repeat it for further "
    "ones.",
)
@click.option("--sample", is_flag=True, help="Read the small corpus that the package ships.")
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="STAGE.OPTION=VALUE",
    help="Change an option of the pipeline. Repeat it for further options.",
)
@click.option(
    "--from-folder",
    "folder",
    type=FileOrFolder(),
    metavar="DIR",
    help="Read the rows of a folder that was built with encode.keep_text=true instead of a source.",
)
@click.option(
    "--split",
    "splits",
    multiple=True,
    default=["train"],
    show_default=True,
    metavar="NAME",
    help="Learn from this split. Repeat it for further splits.",
)
@click.option(
    "--held-out",
    metavar="SPLIT",
    help="Count the pieces per word in this split too, which is not learned from.",
)
@click.option(
    "--out",
    type=FileOrFolder(),
    required=True,
    metavar="DIR",
    help="Write the tokenizer to this folder, which must be new or empty.",
)
@click.option(
    "--size",
    type=click.IntRange(1),
    default=30522,
    show_default=True,
    help="Learn at most this many pieces, special tokens included.",
)
@click.option(
    "--min-frequency",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Join two pieces only if they stand side by side at least this often.",
)
@click.option(
    "--cased/--uncased",
    default=False,
    show_default=True,
    help="Keep, or fold, capitals and accents.",
)
@json_option
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
    """Train a WordPiece vocabulary on a corpus, for `build --tokenizer DIR`.

    The input is a corpus, as a tokenizer is needed before there are shards. Equal texts give equal
    bytes. Documents that cannot be read are counted, and too many of them end the command, as in a
    build (`source.max_loss`). Words that de-identification took out are not learned; a vocabulary
    of patients' notes still holds the notes' words.

    \b
    Example:
        mslm-data vocab wordpiece --source blurb/bc2gm --out vocab/genes \\
            --size 8000 --held-out test
        mslm-data vocab wordpiece --source mimic --input NOTEEVENTS.csv.gz \\
            --out vocab/notes
    """  # noqa: D301 - click wants the character
    from mslm_data.cli.progress import counting
    from mslm_data.io.private import warn_of_readers
    from mslm_data.lexicon.wordpiece import count_pieces, refuse_used, train, write

    if (source is None) == (folder is None) or (folder is not None and (inputs or sample or sets)):
        raise click.UsageError("expected --source with its options, or --from-folder alone")
    if held_out in splits:
        raise click.UsageError(
            f"--held-out: expected a split that is not learned from, got '{held_out}', which "
            "--split names"
        )
    splits = tuple(dict.fromkeys(splits))  # a split that is named twice is learned from once
    refuse_used(out)

    texts: Texts
    corpus: CorpusTexts | None = None
    if folder is not None:
        texts, protected = _of_folder(folder)
    else:
        corpus, protected = _of_source(str(source), list(inputs), sets, sample=sample)
        texts = corpus
    held = texts([held_out] if held_out else [])  # raises for a wrong name before the work is done

    with counting("wordpiece", "documents") as progress:
        learned = train(
            lambda: texts(splits),
            size=size,
            min_frequency=min_frequency,
            cased=cased,
            progress=progress,
        )
    if protected:
        warn_of_readers([out, out.parent])
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
    report["set_aside"] = dict(sum(corpus.set_aside.values(), Counter()) if corpus else {})

    if as_json:
        print_json(report)
    else:
        _print(report)


def _print(report: Mapping[str, Any]) -> None:
    """Print a report as a table, with a warning if the folder holds patients' words."""
    rows = [
        (name.replace("_", " "), value)
        for name, value in report.items()
        if isinstance(value, int | float) and name != "protected"
    ]
    rows += [(f"set aside: {reason}", count) for reason, count in report["set_aside"].items()]
    echo(table(("", ""), rows).removeprefix("\n"))
    echo(f"{report['out']}: sha256 {report['sha256']}")

    if report["protected"]:
        echo("learned from patients' text: treat this folder as you treat the notes")


def _of_source(
    name: str, inputs: list[str], sets: tuple[str, ...], *, sample: bool
) -> tuple[CorpusTexts, bool]:
    """Return a pipeline's texts, and whether they are patients' text."""
    from mslm_data.building import inputs_of, read_named
    from mslm_data.builds.texts import CorpusTexts
    from mslm_data.cli.progress import downloading

    pipeline = read_named(name, sets=sets)
    paths = inputs_of(pipeline, inputs, sample=sample, downloading=downloading)
    return CorpusTexts(pipeline, paths), pipeline.about.protected


def _of_folder(folder: Path) -> tuple[Texts, bool]:
    """Return a built folder's texts, and whether they are patients' text."""
    from mslm_data.builds.texts import of_folder
    from mslm_data.loading import load

    shards = load(folder)
    return of_folder(shards), shards.manifest.protected
