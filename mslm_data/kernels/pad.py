"""Write chosen rows of a chunk as a rectangle: B rows of L tokens or M mentions, with padding."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel

IGNORED = -100
"""The label of a token where nothing is predicted, and a tag where no word is."""


@kernel
def measure_rows(rows: Array, offsets: Array, span_offsets: Array, out: Array) -> None:
    """Find the most tokens and the most mentions of chosen rows.

    Args:
        rows: int64 `[B]`.
        offsets: int64 `[N + 1]`, tokens of the rows.
        span_offsets: int64 `[N + 1]`, mentions of the rows.
        out: int64 `[2]`, written: most tokens, most mentions; 0 where no row is chosen.
    """
    tokens = 0
    spans = 0
    for b in range(len(rows)):
        row = rows[b]
        tokens = max(tokens, offsets[row + 1] - offsets[row])
        spans = max(spans, span_offsets[row + 1] - span_offsets[row])
    out[0] = tokens
    out[1] = spans


@kernel
def pad_masked(
    rows: Array, offsets: Array, ids: Array, hidden: Array, kinds: Array, pad: int, out: Array
) -> None:
    """Write the ids of chosen rows, the attention mask and the labels.

    Args:
        rows: int64 `[B]`, rows of the chunk.
        offsets: int64 `[N + 1]`, tokens of the chunk's rows.
        ids: int32 `[T]`, ids as they were.
        hidden: int32 `[T]`, ids as the model sees them.
        kinds: uint8 `[T]`, why a token is predicted; 0 where it is not.
        pad: The id of padding.
        out: int64 `[3, B, L]`, written: input_ids; attention_mask; and labels, -100 where nothing
            is predicted.
    """
    for b in range(len(rows)):
        begin, end = offsets[rows[b]], offsets[rows[b] + 1]
        row_ids = ids[begin:end]
        row_hidden = hidden[begin:end]
        row_kinds = kinds[begin:end]

        input_ids = out[0, b]
        attention = out[1, b]
        labels = out[2, b]
        for t in range(len(row_ids)):
            input_ids[t] = row_hidden[t]
            attention[t] = 1
            labels[t] = row_ids[t] if row_kinds[t] != 0 else IGNORED

        input_ids[len(row_ids) :] = pad
        attention[len(row_ids) :] = 0
        labels[len(row_ids) :] = IGNORED


@kernel
def pad_tags(
    rows: Array,
    offsets: Array,
    bio: Array,
    words: Array,
    kinds: Array,
    out: Array,
    out_kinds: Array,
) -> None:
    """Write the tags and kinds of chosen rows.

    Args:
        rows: int64 `[B]`, rows of the chunk.
        offsets: int64 `[N + 1]`, tokens of the chunk's rows.
        bio: int16 `[T]`, tags.
        words: int32 `[T]`, -1 on special tokens.
        kinds: uint8 `[T]`.
        out: int64 `[B, L]`, written: the tags, -100 on special tokens and padding.
        out_kinds: uint8 `[B, L]`, written: the kinds, 0 on padding.
    """
    for b in range(len(rows)):
        begin, end = offsets[rows[b]], offsets[rows[b] + 1]
        row_bio = bio[begin:end]
        row_words = words[begin:end]
        row_kinds = kinds[begin:end]

        tags = out[b]
        kinds_of = out_kinds[b]
        for t in range(len(row_bio)):
            tags[t] = row_bio[t] if row_words[t] >= 0 else IGNORED
            kinds_of[t] = row_kinds[t]

        tags[len(row_bio) :] = IGNORED
        kinds_of[len(row_bio) :] = 0


@kernel
def pad_spans(
    rows: Array, offsets: Array, starts: Array, ends: Array, labels: Array, out: Array
) -> None:
    """Write the mentions of chosen rows, padded with -1.

    Args:
        rows: int64 `[B]`, rows of the chunk.
        offsets: int64 `[N + 1]`, mentions of the chunk's rows.
        starts: int32 `[S]`.
        ends: int32 `[S]`, half open.
        labels: int16 `[S]`.
        out: int64 `[3, B, M]`, written: starts, ends, labels.
    """
    for b in range(len(rows)):
        begin = offsets[rows[b]]
        count = offsets[rows[b] + 1] - begin
        for s in range(out.shape[2]):
            there = s < count
            out[0, b, s] = starts[begin + s] if there else -1
            out[1, b, s] = ends[begin + s] if there else -1
            out[2, b, s] = labels[begin + s] if there else -1


@kernel
def pad_rows(rows: Array, offsets: Array, ids: Array, pad: int, out: Array) -> None:
    """Write chosen rows, padded.

    Args:
        rows: int64 `[B]`.
        offsets: int64 `[N + 1]`.
        ids: int32 `[T]`.
        pad: What padding holds.
        out: int64 `[B, L]`, written.
    """
    for b in range(len(rows)):
        row = ids[offsets[rows[b]] : offsets[rows[b] + 1]]
        for t in range(len(row)):
            out[b, t] = row[t]
        out[b, len(row) :] = pad
