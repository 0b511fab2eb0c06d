"""`mslm-data vocab scores table`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from mslm_data.cli.command import make_command, option
from mslm_data.cli.options import FileOrFolder
from mslm_data.cli.vocab.options import FolderOptions, WrittenOutput, output, save_lexicon


class TableScores(FolderOptions, frozen=True, kw_only=True):
    """Options of `mslm-data vocab scores table`."""

    path: Annotated[
        Path,
        option(
            "Table with an entry, a tab and a number per line.",
            metavar="FILE.tsv",
            type=FileOrFolder(),
            flags="--from",
        ),
    ]
    by: Annotated[
        Literal["words", "pieces", "ids"],
        option(
            "Kind of the entries: words and phrases, pieces as spelt in the vocabulary, or token "
            "ids."
        ),
    ] = "words"
    out: Annotated[Path | None, output("DIR/vocab/table.arrow", "file for the lexicon")] = None


@make_command("table", TableScores)
def command(options: TableScores) -> WrittenOutput:
    r"""Make a lexicon from a table of words, pieces or token ids, with a number each.

    Words and phrases are encoded as in the folder. Tables of ids are for example InforMask's rates.
    Entries keep their order. Unusable lines, such as a header, are counted by reason.

    \b
    Example:
        mslm-data vocab scores table shards/bc2gm --from rates.tsv --by ids \
            --out shards/bc2gm/vocab/informask.arrow
    """
    from mslm_data.api.loading import load
    from mslm_data.io.files import hash_file
    from mslm_data.lexicon.scores.encoding import have_given_words, load_folder_tokenizer
    from mslm_data.lexicon.scores.making import about
    from mslm_data.lexicon.scores.tables import read_table

    shards = load(options.folder)
    manifest = shards.manifest
    digest = hash_file(options.path) if options.path.is_file() else ""
    tokenizer = load_folder_tokenizer(options.folder, manifest)
    lexicon, skipped = read_table(
        options.path,
        tokenizer,
        by=options.by,
        given_words=any(have_given_words(shards[split], tokenizer) for split in shards),
        about=about(manifest, of="table", by=options.by, table=digest),
    )

    out = options.out or options.folder / "vocab" / "table.arrow"
    save_lexicon(out, lexicon, protected=manifest.protected)
    read = len(lexicon) + skipped.total()
    return WrittenOutput(out=out, counts={"read": read, "kept": len(lexicon), "left_out": skipped})
