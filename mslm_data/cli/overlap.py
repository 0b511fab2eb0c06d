"""`mslm-data overlap`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

import click
import msgspec

from mslm_data.cli.command import argument, make_command
from mslm_data.cli.options import AnyFolder, FolderOrUrl
from mslm_data.io.remote import local, redact_url
from mslm_data.registry import Options
from mslm_data.results import Result, Table

if TYPE_CHECKING:
    from mslm_data.shard.split import Split
    from mslm_data.stats.overlap import NormalWords, SharedRow
    from mslm_data.stats.overlap import Overlap as Shared


class OverlapOptions(Options, frozen=True, kw_only=True):
    """Options of `mslm-data overlap`."""

    folder: AnyFolder
    others: Annotated[tuple[Path | str, ...], argument("[OTHER]...", type=FolderOrUrl())] = ()


class Place(msgspec.Struct, frozen=True):
    """A split, with its folder as the user named it, without secrets."""

    folder: str
    split: str

    def __str__(self) -> str:
        return f"{self.folder}/{self.split}"


class Pair(msgspec.Struct, frozen=True, kw_only=True, rename={"within": "in"}):
    """The sentences of one split that another has too, with the rows of the first."""

    of: Place
    within: Place
    sentences: int
    exact: int
    exact_short: int
    near: int
    share: float
    found: list[SharedRow]


@dataclass(frozen=True, kw_only=True)
class Overlaps(Result):
    """The compared pairs of splits, and the number of words that nearly equal sentences share."""

    words: int
    pairs: list[Pair]

    def tables(self) -> Iterator[str | Table]:
        """Yield a row for each pair."""
        head = ("sentences of", "in", "sentences", "exact", f"under {self.words} words", "near")
        rows = [
            (
                str(pair.of),
                str(pair.within),
                pair.sentences,
                pair.exact,
                pair.exact_short,
                pair.near,
                pair.share,
            )
            for pair in self.pairs
        ]
        yield Table(rows, head=(*head, "share"))


@make_command("overlap", OverlapOptions)
def command(options: OverlapOptions) -> Overlaps:
    r"""Count the sentences of OTHER that are also in DIR, exactly or nearly.

    Without OTHER, the splits of DIR are compared with each other. Each folder is a built folder
    with all of its splits, or the folder of one split, such as shards/ncbi/test.

    Only words are compared: case, accents, punctuation and spaces are ignored, and the tokenizers
    may differ. Exact sentences have the same words, near ones share 13 consecutive words. Text is
    never printed; --json lists the rows and documents.

    \b
    Example:
        mslm-data overlap shards/ncbi
        mslm-data overlap shards/pubmed/train shards/ncbi/test shards/jnlpba/test
    """
    from mslm_data.cli.progress import counting
    from mslm_data.stats.overlap import WORDS, overlap, shared_rows

    pairs = []
    known: dict[tuple[_Identity, _Identity], Shared] = {}
    for query, target in _pairs(options.folder, options.others):
        # One comparison gives both directions of a pair.
        key = (query.identity, target.identity)
        if key not in known:
            with counting("overlap", "rows") as count:
                overlaps = overlap(
                    query.rows, target.rows, query.words, target.words, progress=count
                )
            known[key], known[key[::-1]] = overlaps

        shared = known[key]
        pairs.append(
            Pair(
                of=query.place,
                within=target.place,
                sentences=shared.sentences,
                exact=len(shared.exact),
                exact_short=shared.short,
                near=len(shared.near),
                share=shared.share,
                found=shared_rows(query.rows, shared),
            )
        )

    return Overlaps(words=WORDS, pairs=pairs)


_Identity: TypeAlias = tuple[str, str]
"""A folder and the name of a split; equal for different spellings of a path."""


class _Side(NamedTuple):
    """A split to compare.

    Attributes:
        place: The split as the user named it.
        identity: Identifies the split.
        rows: The rows.
        words: Normal words for its tokenizer.
    """

    place: Place
    identity: _Identity
    rows: Split
    words: NormalWords


def _pairs(folder: Path | str, others: Sequence[Path | str]) -> list[tuple[_Side, _Side]]:
    """Return the pairs to compare: the split of the sentences, and the split to search.

    Raises:
        UsageError: There is nothing to compare with.
        ShardError: A folder is neither a built folder nor a split of one.
    """
    searched, unnamed = _sides(folder)
    queried = [*unnamed, *searched] if not others else []
    for other in others:
        queried += _sides(other)[0]

    pairs = [
        (query, target)
        for query in queried
        for target in searched
        if query.identity != target.identity
    ]
    if not pairs:
        raise click.UsageError(
            f"{redact_url(str(folder))}: expected another split to compare with, got only "
            "this one; name a further folder"
        )
    return pairs


def _sides(folder: Path | str) -> tuple[list[_Side], list[_Side]]:
    """Return the splits named by a path, and the other splits of their folder."""
    from mslm_data.encode.tokenizer import open_tokenizer
    from mslm_data.shard.built_folder import load_splits
    from mslm_data.stats.overlap import NormalWords

    shards, chosen = load_splits(folder)
    words = NormalWords(open_tokenizer(shards.tokenizer), shards.manifest.token_ids)

    # For `shards/ncbi/test`, the folder to print is `shards/ncbi`.
    name = redact_url(str(folder))
    identity = name
    if isinstance(shards.folder, Path):
        identity = str(shards.folder.resolve())
        path = local(str(folder))
        if path is not None and path.resolve() != shards.folder.resolve():
            name = str(path.parent if path.name else shards.folder)

    sides = [
        _Side(Place(name, split.name), (identity, split.name), split, words)
        for split in shards.values()
    ]
    return (
        [side for side in sides if side.rows.name in chosen],
        [side for side in sides if side.rows.name not in chosen],
    )
