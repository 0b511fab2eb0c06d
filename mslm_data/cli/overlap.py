"""`mslm-data overlap`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import click

from mslm_data.cli.options import FolderOrUrl, folder_or_url_argument, json_option
from mslm_data.cli.output import echo, print_json, table
from mslm_data.io.remote import local, redact_url

if TYPE_CHECKING:
    from mslm_data.shard.split import Split
    from mslm_data.stats.overlap import NormalWords, Overlap


@click.command("overlap", short_help="Find sentences that two splits share.")
@folder_or_url_argument
@click.argument("others", type=FolderOrUrl(), metavar="[OTHER]...", nargs=-1)
@json_option
def command(folder: Path | str, others: tuple[Path | str, ...], as_json: bool) -> int:
    """Count the sentences of OTHER that are also in DIR, exactly or nearly.

    Without OTHER, the splits of DIR are compared with each other. Each folder is a built folder
    with all of its splits, or the folder of one split, such as shards/ncbi/test.

    Only words are compared: case, accents, punctuation and spaces are ignored, and the tokenizers
    may differ. Exact sentences have the same words, near ones share 13 consecutive words. Text is
    never printed; --json lists the rows and documents.

    \b
    Example:
        mslm-data overlap shards/ncbi
        mslm-data overlap shards/pubmed/train shards/ncbi/test shards/jnlpba/test
    """  # noqa: D301 - click wants the character
    from mslm_data.cli.progress import counting
    from mslm_data.stats.overlap import overlap

    pairs = _pairs(folder, others)
    comparisons: list[tuple[_Side, _Side, Overlap]] = []
    known: dict[tuple[_Place, _Place], Overlap] = {}
    for query, target in pairs:
        # One comparison gives both directions of a pair.
        key = (query.place, target.place)
        if key not in known:
            with counting("overlap", "rows") as count:
                overlaps = overlap(
                    query.split, target.split, query.words, target.words, progress=count
                )
            known[key], known[key[::-1]] = overlaps
        comparisons.append((query, target, known[key]))

    if as_json:
        print_json(_report(comparisons))
    else:
        _print(comparisons)
    return 0


_Place: TypeAlias = tuple[str, str]
"""A folder and the name of a split; equal for different spellings of a path."""


class _Side(NamedTuple):
    """A split to compare.

    Attributes:
        folder: The folder as the user named it, without secrets.
        place: Identifies the split.
        split: The rows.
        words: Normal words for its tokenizer.
    """

    folder: str
    place: _Place
    split: Split
    words: NormalWords

    @property
    def name(self) -> str:
        """Path of the split's folder, for tables."""
        return f"{self.folder}/{self.split.name}"


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
        (query, target) for query in queried for target in searched if query.place != target.place
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
    if isinstance(shards.folder, Path):
        place = str(shards.folder.resolve())
        path = local(str(folder))
        if path is not None and path.resolve() != shards.folder.resolve():
            name = str(path.parent if path.name else shards.folder)
    else:
        place = name

    sides = [_Side(name, (place, split.name), split, words) for split in shards.values()]
    return (
        [side for side in sides if side.split.name in chosen],
        [side for side in sides if side.split.name not in chosen],
    )


def _report(comparisons: Sequence[tuple[_Side, _Side, Overlap]]) -> dict[str, Any]:
    """Return the JSON object of `overlap --json`."""
    from mslm_data.stats.overlap import WORDS, shared_rows

    return {
        "words": WORDS,
        "pairs": [
            {
                "of": {"folder": query.folder, "split": query.split.name},
                "in": {"folder": target.folder, "split": target.split.name},
                "sentences": shared.sentences,
                "exact": len(shared.exact),
                "exact_short": shared.short,
                "near": len(shared.near),
                "share": shared.share,
                "found": shared_rows(query.split, shared),
            }
            for query, target, shared in comparisons
        ],
    }


def _print(comparisons: Sequence[tuple[_Side, _Side, Overlap]]) -> None:
    from mslm_data.stats.overlap import WORDS

    head = ("sentences of", "in", "sentences", "exact", f"under {WORDS} words", "near", "share")
    echo(table(head, list(_rows(comparisons))))


def _rows(comparisons: Sequence[tuple[_Side, _Side, Overlap]]) -> Iterator[Sequence[Any]]:
    for query, target, shared in comparisons:
        yield (
            query.name,
            target.name,
            shared.sentences,
            len(shared.exact),
            shared.short,
            len(shared.near),
            shared.share,
        )
