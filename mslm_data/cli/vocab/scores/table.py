"""`mslm-data vocab scores table`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mslm_data.cli.options import FileOrFolder, folder_argument, json_option
from mslm_data.cli.vocab.options import out_option, save_lexicon
from mslm_data.cli.vocab.scores import print_report


@click.command("table", short_help="Words, pieces or ids by your own table.")
@folder_argument
@click.option(
    "--from",
    "path",
    type=FileOrFolder(),
    required=True,
    metavar="FILE.tsv",
    help="Table with an entry, a tab and a number per line.",
)
@click.option(
    "--by",
    type=click.Choice(["words", "pieces", "ids"]),
    default="words",
    show_default=True,
    help="Kind of the entries: words and phrases, pieces as spelt in the vocabulary, or token ids.",
)
@out_option("DIR/vocab/table.arrow", "file for the lexicon")
@json_option
def command(folder: Path, path: Path, by: Any, out: Path | None, as_json: bool) -> None:
    """Make a lexicon from a table of words, pieces or token ids, with a number each.

    Words and phrases are encoded as in the folder. Tables of ids are for example InforMask's rates.
    Entries keep their order. Unusable lines, such as a header, are counted by reason.

    \b
    Example:
        mslm-data vocab scores table shards/bc2gm --from rates.tsv --by ids \\
            --out shards/bc2gm/vocab/informask.arrow
    """  # noqa: D301 - click wants the character
    from mslm_data.api.loading import load
    from mslm_data.io.files import hash_file
    from mslm_data.lexicon.scores.encoding import have_given_words, load_folder_tokenizer
    from mslm_data.lexicon.scores.making import about
    from mslm_data.lexicon.scores.tables import read_table

    shards = load(folder)
    manifest = shards.manifest
    digest = hash_file(path) if path.is_file() else ""
    tokenizer = load_folder_tokenizer(folder, manifest)
    lexicon, skipped = read_table(
        path,
        tokenizer,
        by=by,
        given_words=any(have_given_words(shards[split], tokenizer) for split in shards),
        about=about(manifest, of="table", by=by, table=digest),
    )

    out = out or folder / "vocab" / "table.arrow"
    save_lexicon(out, lexicon, protected=manifest.protected)
    read = len(lexicon) + skipped.total()
    print_report(as_json, out, {"read": read, "kept": len(lexicon), "left_out": skipped})
