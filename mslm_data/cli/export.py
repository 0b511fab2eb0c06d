"""`mslm-data export`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from mslm_data.cli.command import make_command, option
from mslm_data.cli.options import AnyFolder, FileOrFolder
from mslm_data.registry import Options
from mslm_data.results import Result, Table, counted

if TYPE_CHECKING:
    from mslm_data.shard.export import ExportedSplit


class Export(Options, frozen=True, kw_only=True):
    """Options of `mslm-data export`."""

    folder: AnyFolder
    to: Annotated[
        Literal["parquet", "jsonl", "gliner", "docbin", "conll"],
        option(
            "Output format, a file per shard. With all columns: parquet; jsonl, an object per "
            "row, with keys as strings. With words and mentions: gliner, spaCy's docbin, or conll."
        ),
    ]
    out: Annotated[
        Path,
        option(
            "New output folder, with a subfolder per split.", metavar="DIR2", type=FileOrFolder()
        ),
    ]
    split: Annotated[
        tuple[str, ...],
        option("Name of a split to write. Can be repeated.", metavar="NAME", default="all"),
    ] = ()


@dataclass(frozen=True, kw_only=True)
class Exported(Result):
    """The written splits."""

    out: Path
    to: str
    protected: bool
    splits: dict[str, ExportedSplit]

    def tables(self) -> Iterator[str | Table]:
        """Yield a line for each split, and another if they have patients' text."""
        from mslm_data.shard.export import FORMATS

        for name, size in self.splits.items():
            rows = counted(size.rows, "row")
            yield f"{self.out / name}: {rows} in {counted(size.files, 'file')}"
        if self.protected:
            has_words = FORMATS[self.to].has_words
            from_ids = "" if has_words else ", as token ids can be turned back into it"
            yield f"{self.out}: patients' text{from_ids}"


@make_command("export", Export)
def command(options: Export) -> Exported:
    r"""Write the rows of DIR for trainers and tools that do not read Arrow.

    parquet and jsonl have all columns of DIR, under the same names. gliner, docbin and conll
    have the words of each row with its mentions, and need a folder built with --set
    encode.keep_text=true. DIR2 has a copy of the tokenizer. It is created complete or not at all:
    after an interruption, run the same command again. Token ids can be turned back into text, so an
    export of patients' notes is patients' text too.

    \b
    Example:
        mslm-data export shards/ncbi --to parquet --out parquet/ncbi
        mslm-data export shards/ncbi --to jsonl --split train --out jsonl/ncbi
        mslm-data export shards/ncbi --to gliner --out gliner/ncbi
    """
    from mslm_data.api.loading import load
    from mslm_data.cli.progress import counting

    shards = load(options.folder)
    with counting("export", "rows") as count:
        splits = shards.export(
            to=options.to, out=options.out, splits=options.split or None, progress=count
        )
    return Exported(
        out=options.out, to=options.to, protected=shards.manifest.protected, splits=splits
    )
