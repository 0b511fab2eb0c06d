"""`mslm-data subset`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from mslm_data.cli.command import make_command, option
from mslm_data.cli.options import FileOrFolder, LocalFolder, Positive, Seed
from mslm_data.cli.output import echo
from mslm_data.errors import CallError
from mslm_data.log import few
from mslm_data.registry import Options
from mslm_data.results import Result, Table, counted

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from mslm_data.shard.split import Split

_MAX_LABELS = 5
"""Maximum number of labels in a warning."""

Share = Annotated[float, Meta(gt=0, le=1)]


class Subset(Options, frozen=True, kw_only=True):
    """Options of `mslm-data subset`."""

    folder: LocalFolder
    documents: Annotated[
        tuple[Positive, ...] | None,
        option("Number of documents to take.", metavar="N[,N...]", separator=","),
    ] = None
    share: Annotated[
        tuple[Share, ...] | None,
        option("Share of the documents to take, rounded up.", metavar="S[,S...]", separator=","),
    ] = None
    shots: Annotated[
        tuple[Positive, ...] | None,
        option(
            "Number of mentions that each label has at least, if the split has as many.",
            metavar="K[,K...]",
            separator=",",
        ),
    ] = None
    min_term_share: Annotated[
        Share | None,
        option("Minimum share of tokens in mentions, for each document.", metavar="S"),
    ] = None
    term_shares: Annotated[
        tuple[Share, ...] | None,
        option(
            "Shares of a document's tokens in mentions at which the documents are divided into "
            "bins. Each bin is a subset.",
            metavar="S[,S...]",
            separator=",",
        ),
    ] = None
    label: Annotated[
        str | None,
        option(
            "Label whose mentions count for these shares.", metavar="NAME", default="all labels"
        ),
    ] = None
    split: Annotated[
        str,
        option(
            "Name of the split to draw from. Other splits are copied completely.", metavar="NAME"
        ),
    ] = "train"
    seed: Annotated[
        Seed, option("Seed of the draw. Subsets of the same seed are nested.", metavar="N")
    ] = 0
    out: Annotated[
        Path,
        option(
            "New output folder; with several sizes, it gets a subfolder per size.",
            metavar="DIR2",
            type=FileOrFolder(),
        ),
    ]

    @property
    def counts_terms(self) -> bool:
        """Whether documents are chosen by their term share."""
        return self.min_term_share is not None or self.term_shares is not None

    def draws(self) -> list[Draw]:
        """Return the subsets that are asked for.

        Raises:
            CallError: None or several options give sizes, or a size is repeated.
        """
        given = {"documents": self.documents, "share": self.share, "shots": self.shots}
        given["term-shares"] = self.term_shares
        chosen = {name: sizes for name, sizes in given.items() if sizes is not None}
        if self.label is not None and not self.counts_terms:
            raise CallError("--label: expected --min-term-share or --term-shares beside it")
        if self.term_shares is not None and self.min_term_share is not None:
            raise CallError("subset: expected one of --min-term-share and --term-shares, got both")
        lowest = self.min_term_share or 0.0
        if self.min_term_share is not None and not chosen:
            return [Draw("", {}, lowest)]
        if len(chosen) != 1:
            raise CallError(
                "subset: expected one of --documents, --share, --shots and --term-shares, got "
                f"{' and '.join(f'--{name}' for name in chosen) or 'none'}"
            )

        ((name, sizes),) = chosen.items()
        if len({*sizes}) < len(sizes):
            raise CallError(f"--{name}: expected different sizes, got {', '.join(map(str, sizes))}")
        if self.term_shares is not None:
            bins = pairwise([0.0, *sorted(self.term_shares), 1.0])
            return [Draw(f"term-share-{low:g}-{high:g}", {}, low, high) for low, high in bins]
        return [Draw(f"{name}-{size}", {name: size}, lowest) for size in sizes]


class Draw(NamedTuple):
    """A subset that is asked for.

    Attributes:
        name: Name of its folder beside others.
        size: `documents`, `share` or `shots`, and its value; empty for all documents.
        low: Minimum term share of its documents.
        high: Their maximum, not included if below 1.
    """

    name: str
    size: dict[str, Any]
    low: float = 0.0
    high: float = 1.0

    def choose(self, split: Split, shares: npt.NDArray[np.float64] | None, seed: int) -> Split:
        """Return the documents of a split.

        Args:
            split: N rows.
            shares: float64 `[N]`, term share of each row's document; None to take all.
            seed: Seed of the draw.

        Raises:
            CallError: A size is out of range, or no document has such a term share.
        """
        import numpy as np

        if shares is not None:
            is_in = (shares >= self.low) & ((shares < self.high) | (self.high == 1))
            split = split.select(np.flatnonzero(is_in))
            if not len(split):
                found = f"{shares.min():.3g} to {shares.max():.3g}" if len(shares) else "none"
                raise CallError(
                    f"subset: expected documents of split '{split.name}' with a share of tokens in "
                    f"mentions from {self.low:g} to {self.high:g}, found {found}"
                )
        try:
            return split.subset(**self.size, seed=seed) if self.size else split
        except ValueError as error:
            raise CallError(f"--{error}") from None


class Written(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A subset as a new folder: the size that was asked, and the numbers in its split."""

    out: Path
    share: float | None = None
    shots: int | None = None
    term_share: tuple[float, float] | None = None
    documents: int
    rows: int
    mentions: int


@dataclass(frozen=True, kw_only=True)
class Subsets(Result):
    """The written subsets of a split."""

    split: str
    seed: int
    protected: bool
    subsets: list[Written]

    def tables(self) -> Iterator[str | Table]:
        """Yield a line for each folder, and another if it has patients' text."""
        for subset in self.subsets:
            documents = counted(subset.documents, "document")
            rows = counted(subset.rows, "row")
            mentions = counted(subset.mentions, "mention")
            line = f"{subset.out}: {documents} of {self.split}, {rows}, {mentions}"
            if subset.term_share is not None:
                low, high = subset.term_share
                line += f", {low:g} to {high:g} of their tokens in mentions"
            yield line
            if self.protected:
                yield f"{subset.out}: patients' text, as token ids can be turned back into it"


@make_command("subset", Subset)
def command(options: Subset) -> Subsets:
    r"""Write some documents of DIR as a new built folder.

    Documents are drawn with --seed. Subsets of the same seed are nested: the 10 documents of one
    are among the 50 of another. Each label is included if possible. Rows keep their keys and
    therefore their masks.

    Documents are also chosen by their term share, the share of their tokens that are in mentions.

    \b
    Example:
        mslm-data subset shards/ncbi --documents 50 --out shards/ncbi-50
        mslm-data subset shards/ncbi --documents 10,50,100 --seed 1 --out few/ncbi
        mslm-data subset shards/ncbi --share 0.05 --out shards/ncbi-5-percent
        mslm-data subset shards/ncbi --shots 5 --out shards/ncbi-5-shot
        mslm-data subset shards/ncbi --min-term-share 0.05 --out shards/ncbi-dense
        mslm-data subset shards/ncbi --term-shares 0.02,0.1 --out bins
    """
    draws = options.draws()

    from mslm_data.api.loading import load
    from mslm_data.builds.subset import write_subset
    from mslm_data.cli.progress import counting

    # Draw all subsets before writing the first, so that a wrong size leaves nothing behind.
    shards = load(options.folder)
    whole = shards[options.split]
    shares = None
    if options.counts_terms:
        try:
            shares = whole.term_shares(options.label)
        except ValueError as error:
            raise CallError(f"--{error}") from None
    subsets = [draw.choose(whole, shares, options.seed) for draw in draws]

    written = []
    for draw, subset in zip(draws, subsets, strict=True):
        out = options.out / draw.name if len(draws) > 1 else options.out
        drawn: dict[str, Any] = {**draw.size, "seed": options.seed} if draw.size else {}
        if shares is not None:
            drawn["term_share"] = [draw.low, draw.high]
        if options.label is not None:
            drawn["label"] = options.label
        with counting("subset", "rows") as count:
            write_subset(shards, subset, drawn, out, progress=count)

        mentions = _count_mentions(subset)
        if "shots" in draw.size:
            _warn_of_few(options.split, draw.size["shots"], mentions)
        written.append(
            Written(
                out=out,
                share=draw.size.get("share"),
                shots=draw.size.get("shots"),
                term_share=None if shares is None else (draw.low, draw.high),
                documents=subset.documents,
                rows=len(subset),
                mentions=sum(mentions.values()),
            )
        )

    return Subsets(
        split=options.split, seed=options.seed, protected=whole.protected, subsets=written
    )


def _warn_of_few(split: str, shots: int, mentions: dict[str, int]) -> None:
    """Print a warning if a label has fewer mentions than asked."""
    fewer = [f"{number:,} of {label}" for label, number in mentions.items() if number < shots]
    if fewer:
        listed = few(fewer, _MAX_LABELS)
        echo(f"warning: --shots {shots:,}: split '{split}' has only {listed}", err=True)


def _count_mentions(subset: Split) -> dict[str, int]:
    """Return the number of mentions of each label."""
    labels: Counter[int] = Counter()
    for chunk in subset.chunks():
        labels.update(chunk.span_labels.values.tolist())
    return {label: labels[number] for number, label in enumerate(subset.labels)}
