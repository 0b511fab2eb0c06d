"""BIO tags: their numbers and names, and the conversion between tags and mentions.

Numbers of the tags of label `l`::

    tag          name   token
    0            O      in no mention
    1 + 2 * l    B-l    first token of a mention of label l
    2 + 2 * l    I-l    any other token of the mention

With labels `["Chemical", "Disease"]`, tag 4 is I-Disease.

B starts a mention. I continues an open mention of its label; if no such mention is open, I starts a
mention, as in IOB1 and in MSLM (Abaho et al. 2024).

All code that writes or reads tags uses this module. Functions of a single argument are arithmetic,
and accept ints, NumPy arrays and torch tensors. `paint` and `find` import numba on first use, so
that commands that only need tag names start faster.
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
"""Tag of a token in no mention."""
MAX_LABELS = 16_383
"""Maximum number of labels: `1 + 2 * MAX_LABELS` tags fit into the int16 column `bio`."""
NO_TAG = (-1, 0, 0, 0)
"""Row of the table `meanings` of `find` for a word outside mentions."""

Mentions: TypeAlias = "tuple[Ragged, Ragged, Ragged]"
"""int32 starts, int32 ends and int16 labels of S mentions in N rows, in tokens of the row."""


def tag_names(labels: Sequence[str]) -> list[str]:
    """Return the tag names for some labels: O, B-X, I-X, B-Y, I-Y and so on."""
    return ["O", *(f"{prefix}-{label}" for label in labels for prefix in "BI")]


def count_tags(labels: int) -> int:
    """Return the number of tags for a number of labels; valid tags are in `[0, count)`."""
    return 1 + 2 * labels


def begin(label: Any) -> Any:
    """Return the B tag of a label."""
    return 1 + 2 * label


def inside(label: Any) -> Any:
    """Return the I tag of a label."""
    return 2 + 2 * label


def tag_label(tag: Any) -> Any:
    """Return the label of a non-negative tag; -1 for O."""
    return (tag - 1) // 2


def begins(tag: Any) -> Any:
    """Return whether a tag is a B tag."""
    return (tag > OUTSIDE) & (tag % 2 == 1)


def continues(tag: Any) -> Any:
    """Return whether a tag is an I tag."""
    return (tag > OUTSIDE) & (tag % 2 == 0)


def continued(tag: Any) -> Any:
    """Return the tag of the next token in the same word: I after B or I, O after O."""
    return tag + tag % 2


def paint(
    starts: Ragged, ends: Ragged, labels: Ragged, offsets: npt.NDArray[np.int64]
) -> npt.NDArray[np.int16]:
    """Convert mentions to tags.

    Args:
        starts: N rows, first token of each mention, counted within its row.
        ends: Same offsets, token after the last.
        labels: Same offsets, label of each mention.
        offsets: int64 `[N + 1]`, offsets of the rows' tokens.

    Returns:
        int16 `[T]`, tag of each token.
    """
    from mslm_data.kernels.tags import paint_bio

    bio = np.zeros(offsets[-1], np.int16)
    paint_bio(starts.offsets, starts.values, ends.values, labels.values, offsets, bio)
    return bio


def mentions(tags: Ragged) -> Mentions:
    """Convert tags to mentions.

    Args:
        tags: N rows, a tag for each token. Negative tags, such as -100 for padding, count as O.
    """
    from mslm_data.data.ragged import Ragged

    tag_numbers = np.maximum(tags.values, -1).astype(np.int64)
    labels = int(tag_label(tag_numbers.max(initial=OUTSIDE))) + 1
    mentions_found = find(tag_numbers, tags.offsets, _meanings(labels))

    # `find` counts tokens over all rows, a row counts from its own first token.
    first = np.repeat(tags.offsets[:-1], np.diff(mentions_found.offsets))
    starts = (mentions_found.spans[:, 0] - first).astype(np.int32)
    ends = (mentions_found.spans[:, 1] - first).astype(np.int32)
    span_labels = mentions_found.spans[:, 2].astype(np.int16)
    offsets = mentions_found.offsets
    return Ragged(starts, offsets), Ragged(ends, offsets), Ragged(span_labels, offsets)


class SentenceMentions(NamedTuple):
    """Hold the mentions of S sentences.

    Attributes:
        spans: int64 `[M, 3]`, first word, word after the last, and label of each mention. Words are
            counted over all sentences.
        offsets: int64 `[S + 1]`, offsets of the sentences' mentions.
        late: int64 `[S]`, number of mentions in each sentence with a late start, such as an I tag.
    """

    spans: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    late: npt.NDArray[np.int64]


def find(tags: Array, offsets: Array, meanings: npt.NDArray[np.int64]) -> SentenceMentions:
    """Find the mentions in sentences tagged by any scheme, such as BIO or BIOES.

    Args:
        tags: Integers `[W]`, row of `meanings` for each word; -1 for a word without a tag.
        offsets: Integers `[S + 1]`, offsets of the sentences' words.
        meanings: int64 `[M + 1, 4]`. A row has the label of a tag; 1 if the tag continues an open
            mention of its label, 2 of any label, else 0; and two booleans: the mention ends after
            this word; starting a mention with this tag counts as late. The last row is `NO_TAG`.
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
    """Return the table `meanings` of `find` for BIO tags, int64 `[2 + 2 * labels, 4]`."""
    table = np.zeros((count_tags(labels) + 1, 4), np.int64)
    table[OUTSIDE] = NO_TAG
    table[-1] = NO_TAG

    numbers = np.arange(labels)
    table[begin(numbers), 0] = numbers
    table[inside(numbers), 0] = numbers
    table[inside(numbers), 1] = 1  # continues an open mention of its label
    table[inside(numbers), 3] = 1  # is late if it starts a mention
    return table
