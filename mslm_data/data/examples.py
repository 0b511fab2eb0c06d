"""Batches of token rows as flat columns: the output of `encode`, and the input of masking."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from mslm_data.data.bio import paint
from mslm_data.data.ragged import Ragged, count_up, make_offsets, read_only
from mslm_data.kernels.gather import gather
from mslm_data.kernels.user_rows import find_misplaced

OPTIONAL = {
    "token_starts": "text",
    "token_ends": "text",
    "sentence_starts": "joined",
    "doc_labels": "documents",
}
"""Columns needed for masking that not all examples have -> their condition, see `Column.when`."""
_OF_TOKENS = ("input_ids", "word_ids", "bio", "token_starts", "token_ends")
_OF_SPANS = ("span_starts", "span_ends", "span_labels")
_TYPES = {"bio": np.int16, "span_labels": np.int16}
"""Column -> dtype of its values, default int32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenIds:
    """Hold the special ids of a tokenizer that masking and padding need.

    BERT's ids::

         size  mask  pad  unk  special
        30522   103    0  100  (0, 100, 101, 102, 103)

    Ids 0 to 30521 are valid. `[CLS]` (101) and `[SEP]` (102) need no field of their own.

    Attributes:
        size: Vocabulary size; valid ids are in `[0, size)`.
        mask: Id of `[MASK]`. Default: -1, the tokenizer has no such token.
        pad: Id of `[PAD]`. Default: -1.
        unk: Id of `[UNK]`. Default: -1.
        bos: Id of the token at the beginning of a text. Default: -1.
        eos: Id of the token at its end, with which decoders learn to stop. Default: -1.
        sentinels: Ids of `<extra_id_0>`, `<extra_id_1>` and so on, which stand for masked runs in
            the input of an encoder-decoder such as T5. Default: (), none.
        special: Sorted ids of all special tokens, which are never random replacements.
    """

    size: Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]
    mask: Annotated[int, msgspec.Meta(ge=-1)] = -1
    pad: Annotated[int, msgspec.Meta(ge=-1)] = -1
    unk: Annotated[int, msgspec.Meta(ge=-1)] = -1
    bos: Annotated[int, msgspec.Meta(ge=-1)] = -1
    eos: Annotated[int, msgspec.Meta(ge=-1)] = -1
    sentinels: tuple[Annotated[int, msgspec.Meta(ge=0)], ...] = ()
    special: tuple[Annotated[int, msgspec.Meta(ge=0)], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Examples:
    """Hold N rows with T tokens and S mentions as ragged columns.

    A row of 13 tokens and two mentions, for `Warfarin causes haemorrhage .`::

        token      0   1   2   3   4    5   6   7   8   9  10  11  12
        input_ids  2  59 242 183 942 1044 239 615 417 936 492  18   3
        word_ids  -1   0   0   0   0    1   1   2   2   2   2   3  -1
        bio        0   1   2   2   2    0   0   3   4   4   4   0   0

        mention  span_starts  span_ends  span_labels
              0            1          5            0
              1            7         11            1

    Mention 1 is tokens 7 to 10, the word `haemorrhage`, with label 1. Its first token has the tag
    B of this label (3), its other tokens have I (4). `shard/FORMAT.md` specifies each column.

    Attributes:
        keys: uint64 `[N]`, a hash that seeds the random numbers of the row.
        input_ids: int32, T tokens in N rows, including special tokens.
        word_ids: int32, same offsets, word index within the row; -1 for special tokens.
        bio: int16, same offsets, tags as numbered in `mslm_data.data.bio`.
        span_starts: int32, S mentions in N rows, first token of the mention, counted within the
            row, sorted.
        span_ends: int32, same offsets, token after the last.
        span_labels: int16, same offsets, index into the labels of the manifest.
        ids: Special ids of the tokenizer.
        doc_ids: `[N]`, document of each row.
        doc_labels: int16 `[N]`, label of the row's document, -1 if the document has no label.
            Default: None, the source has no document labels.
        sentence_starts: int32, sentences in N rows, first token of the sentence within the row. The
            first sentence starts at the first token that is not special. Default: None, each row is
            one sentence or a window of one.
        span_concepts: `[S]`, concept identifiers (CUIs). Default: None, no weak supervision.
        span_scores: float32 `[S]`, confidences in `[0, 1]`. Default: None, no weak supervision.
        span_contexts: int8 `[S]`, bit flags, see `data.context`. Default: None, no
            `annotate.context`.
        texts: `[N]`, text of each row. Default: None, no `encode.keep_text`.
        token_starts: int32, same offsets as `input_ids`, first character of the token in the row's
            text; -1 for special tokens. Default: None.
        token_ends: int32, same offsets, character after the last; -1 for special tokens. Default:
            None.
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
        # numba compiles a kernel separately for read-only and for writable arrays. Columns of a
        # mapped shard are read-only, so hold read-only views of all others. `bio` and `span_labels`
        # stay writable, because a mix renumbers labels in place.
        object.__setattr__(self, "keys", read_only(self.keys))
        for name in ("input_ids", "word_ids", "span_starts", "span_ends"):
            column: Ragged = getattr(self, name)
            object.__setattr__(self, name, Ragged(read_only(column.values), column.offsets))

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        # Print counts only: token ids in a log could be decoded to the text of patients.
        tokens, mentions = len(self.input_ids.values), len(self.span_starts.values)

        return f"Examples({len(self):,} rows, {tokens:,} tokens, {mentions:,} mentions)"

    def slice(self, start: int, stop: int) -> Examples:
        """Return rows `[start, stop)` as views, with the columns needed for masking; see `take`."""
        columns: dict[str, Any] = {}
        for name in (*_OF_TOKENS, *_OF_SPANS, "sentence_starts"):
            column: Ragged | None = getattr(self, name)
            columns[name] = None if column is None else column.slice(start, stop)
        return Examples(
            keys=self.keys[start:stop],
            ids=self.ids,
            doc_labels=None if self.doc_labels is None else self.doc_labels[start:stop],
            **columns,
        )

    @property
    def sentence_offsets(self) -> npt.NDArray[np.int64]:
        """Offsets of M sentences in the tokens of all rows, int64 `[M + 1]`.

        Special tokens belong to the adjacent sentence. Without `sentence_starts`, each row is a
        sentence.
        """
        starts = self.sentence_starts
        offsets = self.input_ids.offsets
        if starts is None:
            return offsets

        # The first sentence of a row includes the special tokens at the row's start.
        firsts = starts.values + np.repeat(offsets[:-1], starts.lengths)
        firsts[starts.offsets[:-1]] = offsets[:-1]
        return np.append(firsts, offsets[-1])


def examples(
    lengths: Any,
    *,
    keys: Any,
    spans: Sequence[Sequence[Sequence[int]]] | None = None,
) -> Examples:
    """Make rows of units other than text, such as image patches, from arrays.

    Strategies plan masks for these rows as for tokens; `plan.kinds` marks the masked units. No
    tokenizer is needed. Each unit counts as a word, and no unit is special. All ids are 0, so a
    strategy cannot corrupt these rows.

    Example: Difference-Masking on video masks patches. A span is a run of patches covered by the
    bounding box of a face or body::

        rows = md.examples([3780, 3780], keys=[0, 1], spans=[[(12, 15), (40, 44)], []])
        plan = md.strategy("elm").plan(rows, seed=0, epoch=0)

    Args:
        lengths: Integers `[N]` of at least 0, number of units in each row.
        keys: 64-bit integers `[N]`, seeds for the rows' random numbers. A row must have the same
            key in every batch and epoch; different rows should have different keys.
        spans: A list of `(start, end)` pairs for each row: mentions, half open in units of the row,
            sorted and non-overlapping. All have label 0. Default: None, no mentions.

    Raises:
        ValueError: An array has the wrong shape or dtype, a number is out of range, or mentions are
            unsorted, overlap or exceed their row.
    """
    sizes = _integers(lengths, "lengths")
    if sizes.min(initial=0) < 0:
        row = int(np.argmin(sizes))
        raise ValueError(f"lengths: expected 0 or more, got {sizes[row]} for row {row}")

    row_keys = _integers(keys, "keys").astype(np.uint64)
    if len(row_keys) != len(sizes):
        raise ValueError(f"keys: expected {len(sizes)}, one for each length, got {len(row_keys)}")

    starts, ends = _starts_and_ends([[]] * len(sizes) if spans is None else spans)
    if len(starts) != len(sizes):
        raise ValueError(
            f"spans: expected {len(sizes)} rows, one for each length, got {len(starts)}"
        )
    labels = Ragged(np.zeros(len(starts.values), np.int16), starts.offsets)
    check_spans(starts, ends, labels, sizes)

    offsets = make_offsets(sizes)
    return Examples(
        keys=row_keys,
        input_ids=Ragged(np.zeros(offsets[-1], np.int32), offsets),
        word_ids=Ragged(count_up(0, sizes).astype(np.int32), offsets),
        bio=Ragged(paint(starts, ends, labels, offsets), offsets),
        span_starts=starts,
        span_ends=ends,
        span_labels=labels,
        ids=TokenIds(size=1),
    )


def check_examples(name: str, examples: object) -> None:
    """Check that an argument is `Examples`, and not a whole split.

    Raises:
        TypeError: The argument has another type.
    """
    if not isinstance(examples, Examples):
        raise TypeError(
            f"{name}: expected rows, as split.examples(0, 100) gives, got {type(examples).__name__}"
        )


def check_spans(starts: Ragged, ends: Ragged, labels: Ragged, sizes: npt.NDArray[np.int64]) -> None:
    """Check that mentions are sorted, do not overlap and lie within their rows.

    Args:
        starts: N rows, first token of each mention, counted within its row.
        ends: N rows, token after the last.
        labels: N rows, label of each mention.
        sizes: int64 `[N]`, number of tokens in each row.

    Raises:
        ValueError: A mention breaks one of these rules, or the columns have different offsets.
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
    """Convert to 64-bit integers, `[N]`."""
    array = np.asarray(values)
    # NumPy converts an empty list to floats, so check the dtype of non-empty arrays only.
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise ValueError(
            f"{name}: expected integers of 64 bits in one dimension, "
            f"got {array.dtype} of shape {array.shape}"
        )
    return array if array.dtype == np.uint64 else array.astype(np.int64)


def _starts_and_ends(spans: Sequence[Sequence[Sequence[int]]]) -> tuple[Ragged, Ragged]:
    """Convert `(start, end)` pairs to starts and ends, int32, in N rows."""
    pairs = Ragged.from_rows([_pairs(row, number) for number, row in enumerate(spans)], np.int64)

    # Clipping to int32 keeps invalid positions invalid: -1, or 2**31 - 1.
    bounds = np.clip(pairs.values.reshape(-1, 2), -1, np.iinfo(np.int32).max).astype(np.int32)
    starts, ends = bounds.T.copy()
    return Ragged(starts, pairs.offsets), Ragged(ends, pairs.offsets)


def _pairs(row: Sequence[Sequence[int]], number: int) -> npt.NDArray[np.int64]:
    """Convert the `(start, end)` pairs of a row to int64 `[S, 2]`."""
    try:
        pairs = np.asarray(row) if len(row) else np.empty((0, 2), np.int64)
    except (TypeError, ValueError):  # not a list, or pairs of unequal length
        pairs = np.empty(0)

    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(f"spans: row {number}: expected a list of (start, end) pairs of integers")
    return pairs.astype(np.int64)


def take(examples: Examples, rows: npt.NDArray[np.int64]) -> Examples:
    """Return a copy of a selection of rows, with the columns needed for masking.

    The result has no document ids, concepts, scores, contexts or texts.

    Args:
        examples: N rows.
        rows: int64 `[K]` in `[0, N)`, in any order.
    """
    columns = {name for name in OPTIONAL if getattr(examples, name) is not None}
    return gather_examples(
        [(examples, slice(None), rows)], len(rows), examples.ids, columns=columns
    )


def gather_examples(
    parts: Sequence[tuple[Examples, slice | npt.NDArray[np.int64], npt.NDArray[np.int64]]],
    size: int,
    ids: TokenIds,
    *,
    columns: Collection[str],
) -> Examples:
    """Copy rows of several `Examples`, with the columns needed for masking, in any order.

    Args:
        parts: Examples with the same tokenizer; the places of their rows in the result; and the
            numbers of these rows in the examples.
        size: Total number of rows.
        ids: Special ids of the tokenizer.
        columns: Names of the columns of `OPTIONAL` in the result. Without `sentence_starts` in its
            examples, each row is one sentence; without `doc_labels`, rows have label -1.
    """
    keys = np.empty(size, np.uint64)
    for examples, places, rows in parts:
        keys[places] = examples.keys[rows]

    doc_labels = None
    if "doc_labels" in columns:
        doc_labels = np.full(size, -1, np.int16)
        for examples, places, rows in parts:
            if examples.doc_labels is not None:
                doc_labels[places] = examples.doc_labels[rows]

    if "sentence_starts" in columns:
        parts = [
            part if part[0].sentence_starts is not None else _with_sentences(*part)
            for part in parts
        ]

    # Columns of a group have the same offsets.
    gathered: dict[str, Any] = {}
    for group in (_OF_TOKENS, _OF_SPANS, ("sentence_starts",)):
        names = [name for name in group if name not in OPTIONAL or name in columns]
        if not names:
            continue
        lengths = np.zeros(size, np.int64)
        for examples, places, rows in parts:
            offsets = getattr(examples, names[0]).offsets
            lengths[places] = offsets[rows + 1] - offsets[rows]
        to = make_offsets(lengths)

        columns_out = [np.empty(to[-1], _TYPES.get(name, np.int32)) for name in names]
        for examples, places, rows in parts:
            begins = to[:-1][places]
            for name, out in zip(names, columns_out, strict=True):
                column: Ragged = getattr(examples, name)
                gather(rows, column.offsets, column.values, begins, out)
        for name, out in zip(names, columns_out, strict=True):
            gathered[name] = Ragged(out, to)
    return Examples(keys=keys, ids=ids, doc_labels=doc_labels, **gathered)


def _with_sentences(
    examples: Examples,
    places: slice | npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
) -> tuple[Examples, slice | npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Copy rows of examples without `sentence_starts`, each row as one sentence."""
    taken = take(examples, rows)

    # A row has one or two special tokens before its first word, so the loop is short.
    words = taken.word_ids
    firsts = words.offsets[:-1].copy()
    while np.any(words.values[firsts] < 0):
        firsts += words.values[firsts] < 0

    starts = (firsts - words.offsets[:-1]).astype(np.int32)
    sentences = Ragged(starts, np.arange(len(rows) + 1))
    return dataclasses.replace(taken, sentence_starts=sentences), places, np.arange(len(rows))


def concatenate(parts: Sequence[Examples]) -> Examples:
    """Concatenate the rows of several `Examples`.

    Args:
        parts: At least one. All must have the same optional columns and the same tokenizer.
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
