"""Mentions of user rows: read from spans, or decoded from tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mslm_data.data import bio
from mslm_data.data.ragged import Array, Ragged
from mslm_data.kernels.pad import IGNORED

Spans: TypeAlias = tuple[Ragged, Ragged, Ragged]
"""Starts, ends (half open) and labels of the mentions of N rows, in tokens.

Dtypes are int32, int32 and int16.
"""


def no_spans(rows: int) -> Spans:
    """Return N rows without mentions."""
    offsets = np.zeros(rows + 1, np.int64)
    starts, ends, labels = (np.empty(0, dtype) for dtype in (np.int32, np.int32, np.int16))
    return Ragged(starts, offsets), Ragged(ends, offsets), Ragged(labels, offsets)


def read_tag_spans(tags: Ragged, words: Ragged, names: Sequence[str] | None) -> Spans:
    """Decode mentions from BIO tags; see `mslm_data.data.bio.mentions`.

    A token without a tag, such as a later token of a word in token classification, continues the
    last tag before it. Special tokens are outside of all mentions.

    Args:
        tags: Tag of each token, -100 for none.
        words: Word of each token, -1 on special tokens.
        names: Names of the tags (`O`, `B-X`, `I-X`) in any order; labels are numbered by first
            occurrence. Default: tags are numbered as in shards, see `mslm_data.data.bio`.

    Raises:
        ValueError: A name is not O, B-X or I-X, or a tag has no name.
    """
    coded = _renumber_tags(tags.values, names)
    special = words.values < 0
    coded[special] = bio.OUTSIDE

    # Forward fill within the row: each token without a tag takes the tag of the nearest tagged
    # token before it.
    is_missing = (tags.values == IGNORED) & ~special
    places = np.arange(len(coded))
    first = np.repeat(tags.offsets[:-1], tags.lengths)
    nearest = np.maximum.accumulate(np.where(is_missing, first, places)) if len(places) else places
    coded[is_missing] = bio.continued(coded[nearest])[is_missing]

    return bio.mentions(Ragged(coded, tags.offsets))


def _renumber_tags(tags: Array, names: Sequence[str] | None) -> npt.NDArray[np.int64]:
    """Convert tags to the numbering of shards; missing tags become O."""
    size = bio.count_tags(bio.MAX_LABELS) if names is None else len(names)
    present = tags[tags != IGNORED]
    if len(present) and (present.min() < 0 or present.max() >= size):
        raise ValueError(
            f"rows: expected tags in [0, {size}) or {IGNORED}, got {present.min()} to "
            f"{present.max()}"
        )

    filled = np.where(tags == IGNORED, bio.OUTSIDE, tags).astype(np.int64)
    return filled if names is None else _number_tags(names)[filled]


def _number_tags(names: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the number of each tag name in shards."""
    labels: dict[str, int] = {}
    numbers = []
    for name in names:
        prefix, _, label = name.partition("-")
        if name == "O":
            numbers.append(bio.OUTSIDE)
        elif prefix in ("B", "I") and label:
            number = labels.setdefault(label, len(labels))
            numbers.append(bio.begin(number) if prefix == "B" else bio.inside(number))
        else:
            raise ValueError(f"tags: expected O, B-X and I-X, got '{name}'")
    return np.array(numbers, np.int64)
