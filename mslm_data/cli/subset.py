"""`mslm-data subset`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mslm_data.cli.options import FileOrFolder, folder_argument, json_option, split_option
from mslm_data.cli.output import counted, echo, print_json
from mslm_data.errors import CallError
from mslm_data.log import few

if TYPE_CHECKING:
    from mslm_data.shard.split import Split

_MAX_LABELS = 5
"""Maximum number of labels in a warning."""


class Sizes(click.ParamType[tuple[Any, ...]]):
    """One or more sizes, separated by commas."""

    name = "sizes"

    def __init__(self, size: click.ParamType[Any]) -> None:
        """Create the type, with the type of a single size."""
        self._size = size

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        """Return the sizes, each checked."""
        if isinstance(value, tuple):
            return value
        sizes = tuple(self._size.convert(size.strip(), param, ctx) for size in value.split(","))
        if len({*sizes}) < len(sizes):
            self.fail(f"expected different sizes, got {value}", param, ctx)
        return sizes


@click.command("subset", short_help="Write some documents as a new folder.")
@folder_argument
@click.option(
    "--documents",
    type=Sizes(click.IntRange(1)),
    metavar="N[,N...]",
    help="Number of documents to take.",
)
@click.option(
    "--share",
    "shares",
    type=Sizes(click.FloatRange(0, 1, min_open=True)),
    metavar="S[,S...]",
    help="Share of the documents to take, rounded up.",
)
@click.option(
    "--shots",
    type=Sizes(click.IntRange(1)),
    metavar="K[,K...]",
    help="Number of mentions that each label has at least, if the split has as many.",
)
@split_option("to draw from", "Other splits are copied completely.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Seed of the draw. Subsets of the same seed are nested.",
)
@click.option(
    "--out",
    required=True,
    type=FileOrFolder(),
    metavar="DIR2",
    help="New output folder; with several sizes, it gets a subfolder per size.",
)
@json_option
def command(
    folder: Path,
    documents: tuple[int, ...] | None,
    shares: tuple[float, ...] | None,
    shots: tuple[int, ...] | None,
    split: str,
    seed: int,
    out: Path,
    as_json: bool,
) -> None:
    """Write some documents of DIR as a new built folder, for few-shot experiments.

    Documents are drawn with --seed. Subsets of the same seed are nested: the 10 documents of one
    are among the 50 of another. Each label is included if possible. Rows keep their keys and
    therefore their masks.

    \b
    Example:
        mslm-data subset shards/ncbi --documents 50 --out shards/ncbi-50
        mslm-data subset shards/ncbi --documents 10,50,100 --seed 1 --out few/ncbi
        mslm-data subset shards/ncbi --share 0.05 --out shards/ncbi-5-percent
        mslm-data subset shards/ncbi --shots 5 --out shards/ncbi-5-shot
    """  # noqa: D301 - click wants the character
    sizes_by_option: dict[str, Any] = {"documents": documents, "share": shares, "shots": shots}
    chosen = [(option, sizes) for option, sizes in sizes_by_option.items() if sizes is not None]
    if len(chosen) != 1:
        raise CallError(
            "subset: expected one of --documents, --share and --shots, got "
            f"{' and '.join(f'--{option}' for option, _ in chosen) or 'none'}"
        )
    ((option, sizes),) = chosen

    from mslm_data.api.loading import load
    from mslm_data.builds.subset import write_subset
    from mslm_data.cli.progress import counting

    # Draw all subsets before writing the first, so that a wrong size leaves nothing behind.
    shards = load(folder)
    whole = shards[split]
    options: list[dict[str, Any]] = [{option: size, "seed": seed} for size in sizes]
    try:
        subsets = [whole.subset(**drawn) for drawn in options]
    except ValueError as error:
        raise CallError(f"--{error}") from None

    written = []
    for size, drawn, subset in zip(sizes, options, subsets, strict=True):
        place = out / f"{option}-{size}" if len(sizes) > 1 else out
        with counting("subset", "rows") as count:
            write_subset(shards, subset, drawn, place, progress=count)
        mentions = _count_mentions(subset)
        counts = {
            "documents": subset.documents,
            "rows": len(subset),
            "mentions": sum(mentions.values()),
        }
        written.append({"out": str(place), option: size, **counts})
        fewer = [f"{number:,} of {label}" for label, number in mentions.items() if number < size]
        if shots is not None and fewer:
            shown = few(fewer, _MAX_LABELS)
            echo(f"warning: --shots {size:,}: split '{split}' has only {shown}", err=True)

    if as_json:
        print_json({"split": split, "seed": seed, "subsets": written})
        return
    for counts in written:
        num_documents = counted(counts["documents"], "document")
        num_rows = counted(counts["rows"], "row")
        num_mentions = counted(counts["mentions"], "mention")
        echo(f"{counts['out']}: {num_documents} of {split}, {num_rows}, {num_mentions}")
    if whole.protected:
        echo(f"{out}: patients' text, as token ids can be turned back into it")


def _count_mentions(subset: Split) -> dict[str, int]:
    """Return the number of mentions of each label."""
    labels: Counter[int] = Counter()
    for chunk in subset.chunks():
        labels.update(chunk.span_labels.values.tolist())
    return {label: labels[number] for number, label in enumerate(subset.labels)}
