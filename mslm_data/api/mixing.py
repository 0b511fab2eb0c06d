"""Mixes corpora: several built folders as one, in given shares.

mixed = md.mix({"shards/pubmed": 0.7, "shards/notes": 0.3})
for batch in md.Batches(mixed, md.strategy("joint"), batch_tokens=16_384): ...
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from mslm_data.api.loading import Shards, load
from mslm_data.batches.mix import Mix
from mslm_data.shard.row_protocol import SplitShare
from mslm_data.shard.split import Split

Folder: TypeAlias = str | Path | Shards | Split
"""A built folder, or its path or URL, of which one split is taken; or a split itself."""
EpochSize: TypeAlias = int | Literal["total", "longest", "shortest"]
"""How much an epoch has; see `mix`."""
MOST_ROWS = 1 << 53
"""Rows of an epoch at most, so that numbers of rows and rounds are far from those of int64."""


def mix(
    folders: Mapping[Any, float] | Sequence[Folder],
    *,
    split: str = "train",
    by: Literal["tokens", "rows"] = "tokens",
    temperature: float | None = None,
    epoch_size: EpochSize = "total",
) -> Mix:
    """Mix the rows of several built folders in given shares. The result goes wherever a split goes.

    Each epoch has the same number of rows of each folder. Rows of a small folder come again, each
    time with a mask of their own; of a large one the next epoch has those that this one has not.

    Args:
        folders: Folder -> weight, of which the shares follow: `{"shards/pubmed": 0.7,
            "shards/notes": 0.3}`. Or a list of folders, whose weights are their sizes. A folder is
            a path or URL, or what `md.load` returned, or one of its splits.
        split: Which split of each folder; a folder that is given as a split is that split.
        by: Whether sizes and shares are counted in tokens or in rows.
        temperature: Of a list of folders: weights are `size ** (1 / temperature)`, as for mT5 (Xue
            et al. 2021) and XLM-R (Conneau et al. 2020), whose exponent 0.3 is 1 / 0.3 here. 1
            keeps the sizes; more makes small folders come more often.
        epoch_size: How much an epoch has. `"total"`: as much as all folders together. `"longest"`:
            so much that each folder is used up, and the one that lasts longest just once.
            `"shortest"`: so much that the first folder to end is used up just once. Or a number of
            tokens (rows, with `by="rows"`).

    Raises:
        TypeError: A single folder, or something else than folders.
        ValueError: A weight, temperature or size out of range, an empty split, folders of different
            tokenizers, or one that is named twice.
        ShardError: Not a built folder, or one without the split.
        SourceError: Nothing at a URL, or out of reach.
    """
    if by not in ("tokens", "rows"):
        raise ValueError(f"by: expected 'tokens' or 'rows', got {by!r}")

    splits = [_load_split(folder, split) for folder in _several(folders)]
    for member in splits:
        if not len(member) or not member.tokens:
            raise ValueError(
                f"mix: expected rows in each split, got none in {member.folder}/{member.name}; "
                "leave it out"
            )

    sizes = [member.tokens if by == "tokens" else len(member) for member in splits]
    if isinstance(folders, Mapping):
        if temperature is not None:
            raise ValueError(
                "temperature: cannot be combined with weights; pass a list of folders, or leave "
                "out temperature"
            )
        weights = [_weight(weight) for weight in folders.values()]
    else:
        weights = _weights_from_sizes(sizes, temperature)

    shares = [weight / sum(weights) for weight in weights]
    whole = _whole(sizes, shares, epoch_size)
    parts = [
        SplitShare(
            split=member,
            share=float(share),
            rows=max(1, round(whole * share * len(member) / size)),
        )
        for member, size, share in zip(splits, sizes, shares, strict=True)
    ]
    if sum(part.rows for part in parts) > MOST_ROWS:
        raise ValueError(
            f"epoch_size: expected at most {MOST_ROWS:,} rows per epoch, and {epoch_size!r} gives "
            "more with these shares; pass a number"
        )
    return Mix(parts)


def _several(folders: Any) -> list[Any]:
    """Return the folders of a mix.

    Raises:
        TypeError: One folder alone, or something else.
        ValueError: None.
    """
    is_one = isinstance(folders, str | Path | Shards | Split)
    if is_one or not isinstance(folders, Mapping | Sequence):
        raise TypeError(
            "folders: expected folders with their weights, {'shards/a': 0.7, 'shards/b': 0.3}, or "
            f"a list of folders, got {type(folders).__name__}"
        )
    if not folders:
        raise ValueError("folders: expected one or more, got none")
    return list(folders)


def _load_split(folder: Any, name: str) -> Split:
    """Return one split of a folder, which is opened if only its place is given.

    Raises:
        TypeError: Something else.
        ShardError: Not a built folder, or one without the split.
        SourceError: Nothing at a URL, or out of reach.
    """
    if isinstance(folder, Split):
        return folder
    if isinstance(folder, str | Path):
        folder = load(folder)
    if not isinstance(folder, Shards):
        raise TypeError(
            "folders: expected paths, URLs, loaded folders or their splits, got "
            f"{type(folder).__name__}"
        )
    return folder[name]


def _weight(weight: Any) -> Fraction:
    """Return a weight that was given.

    Raises:
        ValueError: Not a number above 0.
    """
    if not _is_above_0(weight):
        raise ValueError(
            f"folders: expected weights above 0, got {weight!r}; leave a folder out that is not "
            "wanted"
        )
    return Fraction(float(weight))


def _weights_from_sizes(sizes: Sequence[int], temperature: float | None) -> list[Fraction]:
    """Return weights that follow from sizes.

    Raises:
        ValueError: A temperature that is not above 0.
    """
    if temperature is None:
        temperature = 1
    if not _is_above_0(temperature):
        raise ValueError(
            f"temperature: expected a number above 0, got {temperature!r}; 1 keeps the sizes"
        )
    if temperature == 1:
        return [Fraction(size) for size in sizes]

    largest = max(sizes)
    weights = [Fraction((size / largest) ** (1 / float(temperature))) for size in sizes]
    if not all(weights):
        raise ValueError(
            f"temperature: {temperature!r} gives small folders a weight of 0; pass a larger "
            "number, 1 keeps the sizes"
        )
    return weights


def _is_above_0(value: Any) -> bool:
    """Return whether a value is a finite number above 0."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value > 0


def _whole(sizes: Sequence[int], shares: Sequence[Fraction], epoch_size: Any) -> Fraction:
    """Return how many tokens or rows an epoch has.

    Raises:
        ValueError: Neither a name of a size nor a number.
    """
    # If the epoch were so long, a folder would be used up just once.
    lasting = [size / share for size, share in zip(sizes, shares, strict=True)]
    named = {"total": Fraction(sum(sizes)), "longest": max(lasting), "shortest": min(lasting)}
    if isinstance(epoch_size, str) and epoch_size in named:
        return named[epoch_size]

    is_number = isinstance(epoch_size, int | np.integer) and not isinstance(epoch_size, bool)
    if not is_number or epoch_size < 1:
        raise ValueError(
            "epoch_size: expected 'total', 'longest', 'shortest', or an integer of at least 1, got "
            f"{epoch_size!r}"
        )
    return Fraction(int(epoch_size))
