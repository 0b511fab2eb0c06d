"""The meaning of BIO tags: their numbers, their names, and the mentions that they say.

Label `l` has two tags: `1 + 2 * l` is B, on the first token of a mention, and `2 + 2 * l` is I, on
its other tokens. Tag 0 is O: the token is in no mention. B opens a mention. I continues an open
mention of its label, and opens one where it cannot, as MSLM reads tags (Abaho et al. 2024) and as
IOB1 has them.

All code that writes or reads tags calls this module. The functions of one argument are arithmetic,
so they take ints, NumPy arrays and torch tensors alike. The loops behind `paint` and `find` are
`mslm_data.kernels.tags`, which are imported on first use: numbers and names of tags are wanted
where numba would only cost time.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from mslm_data.data.ragged import Array, Ragged

OUTSIDE = 0
"""The tag of a token in no mention."""
MAX_LABELS = 16_383
"""The most labels whose tags fit into `bio`, an int16: one tag for O and two for each label."""
NO_TAG = (-1, 0, 0, 0)
"""Code of a word without a tag, for `find`: it has no label and ends an open mention."""

Mentions: TypeAlias = "tuple[Ragged, Ragged, Ragged]"
"""Starts, ends and labels of S mentions in N rows, in tokens of the row, half open: int32, int32,
int16."""


def tag_names(labels: Sequence[str]) -> list[str]:
    """Return the name of each tag: O, B-X, I-X, B-Y, I-Y and so on."""
    return ["O", *(f"{prefix}-{label}" for label in labels for prefix in "BI")]


def count_tags(labels: int) -> int:
    """Return the number of tags for a number of labels. Valid tags are smaller."""
    return 1 + 2 * labels


def begin(label: Any) -> Any:
    """Return the tag of a mention's first token, B."""
    return 1 + 2 * label


def inside(label: Any) -> Any:
    """Return the tag of a mention's other tokens, I."""
    return 2 + 2 * label


def tag_label(tag: Any) -> Any:
    """Return the label of a tag of 0 or more, -1 for O."""
    return (tag - 1) // 2


def begins(tag: Any) -> Any:
    """Return whether a tag is B."""
    return (tag > OUTSIDE) & (tag % 2 == 1)


def continues(tag: Any) -> Any:
    """Return whether a tag is I."""
    return (tag > OUTSIDE) & (tag % 2 == 0)


def continued(tag: Any) -> Any:
    """Return the tag of the next token of the same word: I after B and I, O after O."""
    return tag + tag % 2


def paint(
    starts: Ragged, ends: Ragged, labels: Ragged, offsets: npt.NDArray[np.int64]
) -> npt.NDArray[np.int16]:
    """Return the tags of rows from their mentions.

    Args:
        starts: First token of each mention, counted within its row; N rows.
        ends: Token after the last, same offsets.
        labels: Same offsets.
        offsets: int64 `[N + 1]`, tokens of each row.

    Returns:
        int16 `[T]`, in the order of the rows.
    """
    from mslm_data.kernels.tags import paint_bio

    bio = np.zeros(offsets[-1], np.int16)
    paint_bio(starts.offsets, starts.values, ends.values, labels.values, offsets, bio)
    return bio


def mentions(tags: Ragged) -> Mentions:
    """Return the mentions that tags say.

    Args:
        tags: One tag a token in N rows; negative where a token has none, which ends a mention as O
            does.
    """
    from mslm_data.data.ragged import Ragged

    tag_numbers = np.maximum(tags.values, -1).astype(np.int64)
    labels = int(tag_label(tag_numbers.max(initial=OUTSIDE))) + 1
    mentions_found = find(tag_numbers, tags.offsets, _meanings(labels))

    # `find` counts tokens over all rows; a row's own begin at its offset.
    first = np.repeat(tags.offsets[:-1], np.diff(mentions_found.offsets))
    starts = (mentions_found.spans[:, 0] - first).astype(np.int32)
    ends = (mentions_found.spans[:, 1] - first).astype(np.int32)
    span_labels = mentions_found.spans[:, 2].astype(np.int16)
    offsets = mentions_found.offsets
    return Ragged(starts, offsets), Ragged(ends, offsets), Ragged(span_labels, offsets)


class SentenceMentions(NamedTuple):
    """The mentions of S sentences.

    Attributes:
        spans: int64 `[M, 3]`: first word, word after the last, both counted over all sentences, and
            label.
        offsets: int64 `[S + 1]`, mentions of each sentence.
        late: int64 `[S]`, how many of them began with a tag that should have continued one.
    """

    spans: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    late: npt.NDArray[np.int64]


def find(tags: Array, offsets: Array, meanings: npt.NDArray[np.int64]) -> SentenceMentions:
    """Find the mentions of sentences by tags of any scheme.

    Args:
        tags: Integers `[W]`, the row of `meanings` for each word; -1 for a word without a tag.
        offsets: Integers `[S + 1]`, words of each sentence.
        meanings: int64 `[M + 1, 4]`, each tag's label, and whether it continues an open mention of
            that label, ends the mention with its word, and should not open one; `NO_TAG` comes
            last.
    """
    from mslm_data.data.ragged import make_offsets
    from mslm_data.kernels.tags import find_mentions

    spans = np.empty((len(tags), 3), np.int64)
    counts = np.empty((2, len(offsets) - 1), np.int64)
    find_mentions(
        np.ascontiguousarray(offsets, np.int64),
        np.ascontiguousarray(tags, np.int64),
        meanings,
        spans,
        counts,
    )

    per_sentence, late = counts
    return SentenceMentions(spans[: per_sentence.sum()], make_offsets(per_sentence), late)


@functools.lru_cache(maxsize=8)
def _meanings(labels: int) -> npt.NDArray[np.int64]:
    """Return what the tags of so many labels mean to `find`."""
    table = np.zeros((count_tags(labels) + 1, 4), np.int64)
    table[OUTSIDE] = NO_TAG
    table[-1] = NO_TAG

    numbers = np.arange(labels)
    table[begin(numbers), 0] = numbers
    table[inside(numbers), 0] = numbers
    table[inside(numbers), 1] = 1  # continues an open mention of its label
    table[inside(numbers), 3] = 1  # should not open one
    return table
