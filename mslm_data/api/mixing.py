"""Mixes several built folders in given shares.

mixed = md.mix({"shards/pubmed": 0.7, "shards/notes": 0.3})
for batch in md.Batches(mixed, md.strategy("joint"), batch_tokens=16_384): ...
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, TypeAlias

from mslm_data.api.loading import Shards, load
from mslm_data.batches.mix import Mix, origin, share_rows
from mslm_data.shard.row_numbers import is_integer, is_number
from mslm_data.shard.split import Split

Folder: TypeAlias = str | Path | Shards | Split
"""A built folder, its path or URL, of which one split is used; or a split, or a subset of one."""
EpochSize: TypeAlias = int | Literal["total", "longest", "shortest"]
"""Size of an epoch; see `mix`."""
MAX_ROWS = 1 << 53
"""Maximum number of rows per epoch. It keeps row numbers and rounds far below the limit of
int64."""


def mix(
    folders: Mapping[Any, float] | Sequence[Folder],
    *,
    split: str = "train",
    by: Literal["tokens", "rows"] = "tokens",
    temperature: float | None = None,
    epoch_size: EpochSize = "total",
) -> Mix:
    """Mix the rows of several built folders in given shares. The result can be used like a split.

    Each epoch has the same number of rows from each folder. Small folders are repeated, with
    different masks each time. Large folders continue in the next epoch with the remaining rows.

    Args:
        folders: Folder -> weight, in proportion to the shares: `{"shards/pubmed": 0.7,
            "shards/notes": 0.3}`. Or a list of folders, weighted by size. A folder is a path, a
            URL, the result of `md.load`, or one of its splits or of their subsets.
        split: Name of the split of each folder. Default: `train`. Ignored for folders given as
            splits.
        by: Unit of sizes and shares: `tokens` (default) or `rows`.
        temperature: Weights of a list are `size ** (1 / temperature)`, as in XLM-R (Conneau et al.
            2020) and mT5 (Xue et al. 2021), whose exponent 0.3 is a temperature of 1 / 0.3. Larger
            values repeat small folders more often. Default: 1, proportional to size.
        epoch_size: Size of an epoch. `"total"` (default): the size of all folders. `"longest"`:
            until the folder that lasts longest was used exactly once. `"shortest"`: until the first
            folder was used exactly once. Or a number of tokens (of rows with `by="rows"`).

    Raises:
        TypeError: `folders` is a single folder or no folders.
        ValueError: A weight, temperature or size is out of range, a split is empty, tokenizers
            differ, or a folder is named twice.
        ShardError: A folder is not a built folder, or does not have the split.
        SourceError: A URL does not exist or cannot be reached.
    """
    if by not in ("tokens", "rows"):
        raise ValueError(f"by: expected 'tokens' or 'rows', got {by!r}")

    splits = [_load_split(folder, split) for folder in _several(folders)]
    for member in splits:
        if not len(member) or not member.tokens:
            raise ValueError(
                f"mix: expected rows in each split, got none in {member.splits[0].name}; "
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

    # Fractions are exact, so that equal calls give equal epochs on all machines.
    shares = [weight / sum(weights) for weight in weights]

    # An epoch has `share` of its tokens from each folder, and rows in proportion to these.
    whole = _epoch_size(sizes, shares, epoch_size)
    parts = [
        replace(
            member.splits[0],
            share=float(share),
            rows=max(1, round(whole * share * len(member) / size)),
        )
        for member, size, share in zip(splits, sizes, shares, strict=True)
    ]
    if sum(part.rows for part in parts) > MAX_ROWS:
        raise ValueError(
            f"epoch_size: expected at most {MAX_ROWS:,} rows per epoch, and {epoch_size!r} gives "
            "more with these shares; pass a number"
        )
    mixed = Mix(parts)
    _check_keys(splits)
    return mixed


def _check_keys(splits: Sequence[Split]) -> None:
    """Check that rows of different folders have different keys, so that their masks differ.

    Keys depend on the name of the corpus, and on ids and texts of documents. So only folders of the
    same name can share keys, if they have documents in common. Remote folders are not checked,
    because that would download all of them.

    Raises:
        ValueError: Two folders share keys.
    """
    local = [split for split in splits if isinstance(split.place, Path)]
    for one, other in combinations(local, 2):
        name = one.manifest.name
        if name != other.manifest.name or one.manifest.plan == other.manifest.plan:
            continue
        if origin(one) != origin(other) and share_rows(one, other):  # `Mix` compared the others
            raise ValueError(
                f"mix: {one.folder} and {other.folder} are of the corpus '{name}' and have rows in "
                "common, whose masks would be the same; leave one out, or build it under another "
                "name, as with --set name=other"
            )


def _several(folders: Any) -> list[Any]:
    """Check the type of `folders`, and return them as a list.

    Raises:
        TypeError: It is a single folder or no folders.
        ValueError: It is empty.
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
    """Return a split of a folder, loading the folder if needed.

    Raises:
        TypeError: It is not a folder, a split, or a subset.
        ShardError: It is not a built folder, or does not have the split.
        SourceError: The URL does not exist or cannot be reached.
    """
    if isinstance(folder, Split):
        return folder
    if isinstance(folder, str | Path):
        folder = load(folder)
    if not isinstance(folder, Shards):
        raise TypeError(
            "folders: expected paths, URLs, loaded folders, their splits or subsets, got "
            f"{type(folder).__name__}"
        )
    return folder[name]


def _weight(weight: Any) -> Fraction:
    """Return a weight as an exact fraction.

    Raises:
        ValueError: It is not a number above 0.
    """
    if not _is_above_0(weight):
        raise ValueError(
            f"folders: expected weights above 0, got {weight!r}; leave a folder out that is not "
            "wanted"
        )
    return Fraction(float(weight))


def _weights_from_sizes(sizes: Sequence[int], temperature: float | None) -> list[Fraction]:
    """Return the weights of a list of folders.

    Raises:
        ValueError: The temperature is not a number above 0.
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
    return is_number(value) and math.isfinite(value) and value > 0


def _epoch_size(sizes: Sequence[int], shares: Sequence[Fraction], epoch_size: Any) -> Fraction:
    """Return the number of tokens or rows per epoch.

    Raises:
        ValueError: `epoch_size` is neither a known name nor a number.
    """
    # In an epoch of `size / share`, a folder is used exactly once.
    once = [size / share for size, share in zip(sizes, shares, strict=True)]
    named = {"total": Fraction(sum(sizes)), "longest": max(once), "shortest": min(once)}
    if isinstance(epoch_size, str) and epoch_size in named:
        return named[epoch_size]

    if not is_integer(epoch_size) or epoch_size < 1:
        raise ValueError(
            "epoch_size: expected 'total', 'longest', 'shortest', or an integer of at least 1, got "
            f"{epoch_size!r}"
        )
    return Fraction(int(epoch_size))
