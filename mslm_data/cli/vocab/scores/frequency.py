"""`mslm-data vocab scores frequency`."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import click

from mslm_data.cli.vocab.scores import chosen, common, say


@click.command("frequency", short_help="Token ids by how often they occur.")
@common(out="DIR/vocab/frequency.arrow", splits="train")
def command(folder: Path, names: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Count token ids, a lexicon: the unigram distribution that SpanBERT draws random tokens from.

    Special tokens, and ids that do not occur, have no entry.
    """
    from mslm_data.cli.private import warn_of_readers
    from mslm_data.lexicon.scores.making import about
    from mslm_data.lexicon.scores.tables import count_ids
    from mslm_data.lexicon.store import write_lexicon
    from mslm_data.loading import load

    shards = load(folder)
    splits = chosen(shards, names or ("train",))
    chunks = chain.from_iterable(split.chunks() for split in splits.values())
    lexicon = count_ids(chunks, about(shards.manifest, of="frequency", splits=list(splits)))
    out = out or folder / "vocab" / "frequency.arrow"
    if shards.manifest.protected:
        warn_of_readers([out.parent])
    write_lexicon(out, lexicon)
    say(as_json, out, {"entries": len(lexicon), "tokens": int(lexicon.scores.sum())})
