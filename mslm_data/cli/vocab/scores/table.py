"""`mslm-data vocab scores table`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from mslm_data.cli.vocab.scores import say


@click.command("table", short_help="Words, pieces or ids by a table of yours.")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--from",
    "path",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE.tsv",
    help="The table.",
)
@click.option("--by", type=click.Choice(["words", "pieces", "ids"]), default="words", show_default=True,
              help="What its first column has.")  # fmt: skip
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="[default: DIR/vocab/table.arrow]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(folder: Path, path: Path, by: Any, out: Path | None, as_json: bool) -> None:
    """Make a lexicon of a table: an entry, a tab, a number; a header may stand first.

    words are words or phrases, encoded as the folder's are; pieces are those of the vocabulary as it spells them; ids
    are token ids, such as InforMask's rates. Entries keep their order. Lines that cannot be used are counted, with
    the number of the first.
    """
    from mslm_data.cli.private import warn_of_readers
    from mslm_data.io.files import sha256_of
    from mslm_data.lexicon.scores.encoding import tokenizer_of
    from mslm_data.lexicon.scores.making import about
    from mslm_data.lexicon.scores.tables import read_table
    from mslm_data.lexicon.store import write_lexicon
    from mslm_data.loading import load

    manifest = load(folder).manifest
    made = {"of": "table", "by": by, "table": sha256_of(path) if path.is_file() else ""}
    lexicon, report = read_table(
        path,
        tokenizer_of(folder, manifest),
        by=by,
        given_words=manifest.pipeline["source"]["use"] in ("conll", "ebm", "hub"),
        about=about(manifest, **made),
    )
    out = out or folder / "vocab" / "table.arrow"
    if manifest.protected:
        warn_of_readers([out.parent])
    write_lexicon(out, lexicon)
    say(as_json, out, asdict(report))
