"""`mslm-data vocab scores frequency`."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Annotated

from mslm_data.cli.command import make_command
from mslm_data.cli.vocab.options import FolderOptions, WrittenOutput, output, save_lexicon, splits
from mslm_data.cli.vocab.scores import chosen


class FrequencyScores(FolderOptions, frozen=True, kw_only=True):
    """Options of `mslm-data vocab scores frequency`."""

    split: Annotated[tuple[str, ...], splits("to count", default="train")] = ()
    out: Annotated[Path | None, output("DIR/vocab/frequency.arrow", "file for the lexicon")] = None


@make_command("frequency", FrequencyScores)
def command(options: FrequencyScores) -> WrittenOutput:
    r"""Count the token ids of a built folder, for random tokens as in SpanBERT.

    Writes a lexicon of single ids. Special tokens and ids without occurrences have no entry.

    \b
    Example:
        mslm-data vocab scores frequency shards/bc2gm
    """
    from mslm_data.api.loading import load
    from mslm_data.lexicon.scores.making import about
    from mslm_data.lexicon.scores.tables import count_ids

    shards = load(options.folder)
    used = chosen(shards, options.split or ("train",))
    chunks = chain.from_iterable(split.chunks() for split in used.values())
    lexicon = count_ids(chunks, about(shards.manifest, of="frequency", splits=list(used)))

    out = options.out or options.folder / "vocab" / "frequency.arrow"
    save_lexicon(out, lexicon, protected=shards.manifest.protected)
    counts = {"entries": len(lexicon), "tokens": int(lexicon.scores.sum())}
    return WrittenOutput(out=out, counts=counts)
