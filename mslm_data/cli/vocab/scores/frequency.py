"""`mslm-data vocab scores frequency`."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import click

from mslm_data.cli.options import folder_argument, json_option, splits_option
from mslm_data.cli.vocab.options import out_option, save_lexicon
from mslm_data.cli.vocab.scores import chosen, print_report


@click.command("frequency", short_help="Token ids by their number of occurrences.")
@folder_argument
@splits_option("to count", default="train")
@out_option("DIR/vocab/frequency.arrow", "file for the lexicon")
@json_option
def command(folder: Path, splits: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Count the token ids of a built folder, for random tokens as in SpanBERT.

    Writes a lexicon of single ids. Special tokens and ids without occurrences have no entry.

    \b
    Example:
        mslm-data vocab scores frequency shards/bc2gm
    """  # noqa: D301 - click wants the character
    from mslm_data.api.loading import load
    from mslm_data.lexicon.scores.making import about
    from mslm_data.lexicon.scores.tables import count_ids

    shards = load(folder)
    used = chosen(shards, splits or ("train",))
    chunks = chain.from_iterable(split.chunks() for split in used.values())
    lexicon = count_ids(chunks, about(shards.manifest, of="frequency", splits=list(used)))

    out = out or folder / "vocab" / "frequency.arrow"
    save_lexicon(out, lexicon, protected=shards.manifest.protected)
    print_report(as_json, out, {"entries": len(lexicon), "tokens": int(lexicon.scores.sum())})
