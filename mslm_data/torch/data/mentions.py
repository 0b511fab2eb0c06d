"""Mentions of the user's own rows: given as spans, or decoded from tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mslm_data.data import bio
from mslm_data.data.ragged import Array, Ragged
from mslm_data.kernels.pad import IGNORED

Spans: TypeAlias = tuple[Ragged, Ragged, Ragged]
"""Starts, ends and labels of S mentions in N rows, in tokens of the row, half open.

Types are int32, int32, int16.
"""


def no_spans(rows: int) -> Spans:
    """Return rows without mentions."""
    nothing = np.empty(0, np.int64)
    return _ragged(nothing, nothing, nothing, np.zeros(rows + 1, np.int64))


def read_tag_spans(tags: Ragged, words: Ragged, names: Sequence[str] | None) -> Spans:
    """Decode mentions from BIO tags; see `mslm_data.data.bio.mentions`.

    A token without a tag, as a word's further tokens have in token classification, continues the
    tag of the last token before it that has one. Special tokens are in no mention.

    Args:
        tags: One a token, -100 where there is none.
        words: The word of each token, -1 on special ones.
        names: Of the tags (`O`, `B-X`, `I-X`), in any order; labels are then numbered as they first
            stand there. None is the numbering of shards, which `mslm_data.data.bio` has.

    Raises:
        ValueError: A name that is not O, B-X or I-X, or a tag without a name.
    """
    coded = _renumber_tags(tags.values, names)
    special = words.values < 0
    coded[special] = bio.OUTSIDE

    # Each token without a tag takes that of the nearest token before it in its row that has one.
    bare = (tags.values == IGNORED) & ~special
    places = np.arange(len(coded))
    first = np.repeat(tags.offsets[:-1], tags.lengths)
    nearest = np.maximum.accumulate(np.where(bare, first, places)) if len(places) else places
    coded[bare] = bio.continued(coded[nearest])[bare]

    return bio.mentions(Ragged(coded, tags.offsets))


def _renumber_tags(tags: Array, names: Sequence[str] | None) -> npt.NDArray[np.int64]:
    """Convert tags to the numbering of shards; positions without a tag become O."""
    size = bio.count_tags(bio.MAX_LABELS) if names is None else len(names)
    real = tags[tags != IGNORED]
    if len(real) and (real.min() < 0 or real.max() >= size):
        raise ValueError(
            f"rows: expected tags in [0, {size}) or {IGNORED}, got {real.min()} to {real.max()}"
        )

    known = np.where(tags == IGNORED, bio.OUTSIDE, tags).astype(np.int64)
    return known if names is None else _number_tags(names)[known]


def _number_tags(names: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the number that shards use for each tag name."""
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


def _ragged(starts: Array, ends: Array, labels: Array, offsets: npt.NDArray[np.int64]) -> Spans:
    parts = zip((starts, ends, labels), (np.int32, np.int32, np.int16), strict=True)
    first, second, third = (Ragged(values.astype(of), offsets) for values, of in parts)
    return first, second, third
