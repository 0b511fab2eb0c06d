"""Token rows with their tags and mentions as flat columns, which encode makes and masking reads."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.data.bio import paint
from mslm_data.data.ragged import Ragged, make_offsets, take_alike
from mslm_data.kernels.user_rows import find_misplaced


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenIds:
    """The ids of a tokenizer that masking and padding must know.

    Attributes:
        size: Number of ids; valid ids are in `[0, size)`.
        mask: The id of `[MASK]`, -1 if the tokenizer has none.
        pad: The id of `[PAD]`, -1 if the tokenizer has none.
        unk: The id of `[UNK]`, -1 if the tokenizer has none.
        special: All special ids, rising; never drawn as a random replacement.
    """

    size: int
    mask: int = -1
    pad: int = -1
    unk: int = -1
    special: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Examples:
    """Hold N rows of T tokens with S mentions as ragged columns.

    `shard/FORMAT.md` has the law of each column.

    Attributes:
        keys: uint64 `[N]`, one digest a row, which seeds the row's draws.
        input_ids: int32, T tokens in N rows, special tokens included.
        word_ids: int32, same offsets: number of the word within the row; -1 on special tokens.
        bio: int16, same offsets: tags, numbered as `mslm_data.data.bio` says.
        span_starts: int32, S mentions in N rows: first token of the mention, counted within the
            row; rising.
        span_ends: int32, same offsets: half open.
        span_labels: int16, same offsets.
        ids: The tokenizer's special ids.
        doc_ids: `[N]`, the document each row comes from.
        doc_labels: int16 `[N]`, the label of each row's document; -1 where it has none. None where
            the source has no labels of documents.
        sentence_starts: int32, sentences in N rows: the token of the row at which each begins, the
            first at the first token that is not special. None where each row is one sentence, or a
            window of one.
        span_concepts: `[S]`, CUIs; weak supervision only.
        span_scores: float32 `[S]`, confidences in `[0, 1]`; weak supervision only.
        span_contexts: int8 `[S]`, bits of `data.context`; with `annotate.context` only.
        texts: `[N]`, only with `keep_text`.
        token_starts: int32, offsets as input_ids: first character of the token in the row's text;
            -1 on specials.
        token_ends: int32, same offsets: half open; -1 on specials.
    """

    keys: npt.NDArray[np.uint64]
    input_ids: Ragged
    word_ids: Ragged
    bio: Ragged
    span_starts: Ragged
    span_ends: Ragged
    span_labels: Ragged
    ids: TokenIds
    doc_ids: Sequence[str] | None = None
    doc_labels: npt.NDArray[np.int16] | None = None
    sentence_starts: Ragged | None = None
    span_concepts: Sequence[str] | None = None
    span_scores: npt.NDArray[np.float32] | None = None
    span_contexts: npt.NDArray[np.int8] | None = None
    texts: Sequence[str] | None = None
    token_starts: Ragged | None = None
    token_ends: Ragged | None = None

    def __post_init__(self) -> None:
        # Columns of a mapped shard are read-only. Kernels are compiled for each kind of array, so
        # make all rows of that kind. Tags and labels stay as they are: a mix renumbers them.
        self.keys.flags.writeable = False
        for column in (self.input_ids, self.word_ids, self.span_starts, self.span_ends):
            column.values.flags.writeable = False

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        # Counts alone: the columns are long, and their ids could be read back into text.
        tokens, mentions = len(self.input_ids.values), len(self.span_starts.values)

        return f"Examples({len(self):,} rows, {tokens:,} tokens, {mentions:,} mentions)"

    @property
    def sentence_offsets(self) -> npt.NDArray[np.int64]:
        """The first token of each sentence over all rows, and the number of tokens, `[M + 1]`.

        Special tokens belong to the sentence beside them. Where there are no `sentence_starts`,
        each row is a sentence.
        """
        starts = self.sentence_starts
        offsets = self.input_ids.offsets
        if starts is None:
            return offsets

        firsts = starts.values + np.repeat(offsets[:-1], starts.lengths)
        firsts[starts.offsets[:-1]] = offsets[:-1]
        return np.append(firsts, offsets[-1])


def examples(
    lengths: Any,
    *,
    keys: Any,
    spans: tuple[Ragged, Ragged] | Sequence[Sequence[Sequence[int]]] | None = None,
) -> Examples:
    """Make rows of units that are not text, such as the patches of images, from arrays alone.

    Each unit is a word of its own, no unit is special, and no tokenizer is needed: strategies plan
    which units to hide, and `plan.kinds` says so. All ids are 0, so nothing can be corrupted.
    Difference-Masking on video, for example, hides patches, and its spans are the stretches of
    patches that a box of a face or body covers::

        rows = md.examples([3780, 3780], keys=[0, 1], spans=[[(12, 15), (40, 44)], []])
        plan = md.strategy("elm").plan(rows, seed=0, epoch=0)

    Args:
        lengths: Integers `[N]`, 0 or more: units of each row.
        keys: Integers `[N]` of 64 bits, which seed the rows' draws. A row that comes again, in
            another batch or epoch, must have the same key; different rows should have different
            ones.
        spans: The mentions of each row, half open in units of the row, sorted, not overlapping: a
            list of `(start, end)` pairs for each row, or two `Ragged` of N rows, starts and ends.
            All have label 0. None: no row has a mention.

    Raises:
        ValueError: Arrays of other shapes or types, numbers out of range, or mentions that are out
            of order, overlap or end behind their row.
    """
    sizes = _integers(lengths, "lengths")
    if sizes.min(initial=0) < 0:
        row = int(np.argmin(sizes))
        raise ValueError(f"lengths: expected 0 or more, got {sizes[row]} for row {row}")

    of_rows = _integers(keys, "keys").astype(np.uint64)
    if len(of_rows) != len(sizes):
        raise ValueError(f"keys: expected {len(sizes)}, one for each length, got {len(of_rows)}")

    starts, ends = _bounds(spans, len(sizes))
    labels = Ragged(np.zeros(len(starts.values), np.int16), starts.offsets)
    check_spans(starts, ends, labels, sizes)

    offsets = make_offsets(sizes)
    words = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
    return Examples(
        keys=of_rows,
        input_ids=Ragged(np.zeros(offsets[-1], np.int32), offsets),
        word_ids=Ragged(words.astype(np.int32), offsets),
        bio=Ragged(paint(starts, ends, labels, offsets), offsets),
        span_starts=starts,
        span_ends=ends,
        span_labels=labels,
        ids=TokenIds(size=1),
    )


def check_examples(name: str, examples: object) -> None:
    """Refuse what is not rows, such as a whole split.

    Raises:
        TypeError: Not `Examples`.
    """
    if not isinstance(examples, Examples):
        raise TypeError(
            f"{name}: expected rows, as split.examples(0, 100) gives, got {type(examples).__name__}"
        )


def check_spans(starts: Ragged, ends: Ragged, labels: Ragged, sizes: npt.NDArray[np.int64]) -> None:
    """Refuse mentions that masking cannot take.

    Args:
        starts: First token of each mention, counted within its row; N rows.
        ends: Token after the last, half open.
        labels: Label of each mention.
        sizes: int64 `[N]`, tokens of the rows.

    Raises:
        ValueError: Columns of different lengths, or mentions that are out of order, overlap or end
            behind their row.
    """
    if not (
        np.array_equal(starts.offsets, ends.offsets)
        and np.array_equal(starts.offsets, labels.offsets)
    ):
        raise ValueError(
            "rows: expected as many span_ends and span_labels as span_starts in each row"
        )

    misplaced = find_misplaced(starts.offsets, starts.values, ends.values, sizes)
    if misplaced >= 0:
        raise ValueError(
            f"row {misplaced}: mentions must be sorted, must not overlap, "
            "and must end within the row"
        )


def _integers(values: Any, name: str) -> npt.NDArray[Any]:
    """Return integers of 64 bits, `[N]`; an empty list passes, though NumPy makes it floats."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise ValueError(
            f"{name}: expected integers of 64 bits in one dimension, "
            f"got {array.dtype} of shape {array.shape}"
        )
    return array if array.dtype == np.uint64 else array.astype(np.int64)


def _bounds(spans: Any, rows: int) -> tuple[Ragged, Ragged]:
    """Return the starts and ends of mentions, int32, in N rows."""
    if spans is None:
        spans = [[]] * rows
    if isinstance(spans, tuple) and [type(column) for column in spans] == [Ragged, Ragged]:
        starts, ends = spans
    else:
        pairs = [_pairs(row, number) for number, row in enumerate(spans)]
        starts = Ragged.from_rows([row[:, 0] for row in pairs], np.int64)
        ends = Ragged.from_rows([row[:, 1] for row in pairs], np.int64)

    if len(starts) != rows or len(ends) != rows:
        raise ValueError(f"spans: expected {rows} rows, one for each length, got {len(starts)}")
    return _narrow(starts), _narrow(ends)


def _pairs(row: Sequence[Sequence[int]], number: int) -> npt.NDArray[np.int64]:
    """Return the `(start, end)` pairs of a row, int64 `[S, 2]`."""
    try:
        pairs = np.asarray(row) if len(row) else np.empty((0, 2), np.int64)
    except (TypeError, ValueError):  # no list, or pairs of unequal length
        pairs = np.empty(0)

    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(f"spans: row {number}: expected a list of (start, end) pairs of integers")
    return pairs.astype(np.int64)


def _narrow(column: Ragged) -> Ragged:
    """Return places as int32; those that do not fit stay too large for any row."""
    largest = np.iinfo(np.int32).max
    return Ragged(np.clip(column.values, -1, largest).astype(np.int32), column.offsets)


def take(examples: Examples, rows: npt.NDArray[np.int64]) -> Examples:
    """Return any rows, in any order, with the columns that masking reads.

    Documents, concepts, scores, contexts and texts are left behind.
    """
    ids, words, bio = take_alike((examples.input_ids, examples.word_ids, examples.bio), rows)
    starts, ends, labels = take_alike(
        (examples.span_starts, examples.span_ends, examples.span_labels), rows
    )
    return Examples(
        keys=examples.keys[rows],
        input_ids=ids,
        word_ids=words,
        bio=bio,
        span_starts=starts,
        span_ends=ends,
        span_labels=labels,
        ids=examples.ids,
        doc_labels=None if examples.doc_labels is None else examples.doc_labels[rows],
        sentence_starts=(
            None if examples.sentence_starts is None else examples.sentence_starts.take(rows)
        ),
        token_starts=None if examples.token_starts is None else examples.token_starts.take(rows),
        token_ends=None if examples.token_ends is None else examples.token_ends.take(rows),
    )


def concatenate(parts: Sequence[Examples]) -> Examples:
    """Put the rows of several one after the other.

    Args:
        parts: One or more; all must have the same fields, and the ids of one tokenizer.
    """
    together: dict[str, Any] = {}
    for field in dataclasses.fields(Examples):
        values = [getattr(part, field.name) for part in parts]
        if values[0] is None or field.name == "ids":
            together[field.name] = values[0]
        elif isinstance(values[0], Ragged):
            together[field.name] = Ragged.concatenate(values)
        elif isinstance(values[0], np.ndarray):
            together[field.name] = np.concatenate(values)
        else:
            together[field.name] = list(itertools.chain.from_iterable(values))
    return Examples(**together)
