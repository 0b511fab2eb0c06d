"""Write chosen rows of a chunk as a rectangle: B lines of L tokens or M mentions, with padding.

A line of the rectangle holds one row or, *packed*, several rows side by side.
"""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel

IGNORED = -100
"""The label of a token where nothing is predicted, and a tag where no word is."""


@kernel
def measure_rows(
    rows: Array, packs: Array, offsets: Array, span_offsets: Array, out: Array
) -> None:
    """Find the most tokens and the most mentions of the lines that chosen rows make.

    Args:
        rows: int64 `[R]`, rows of the chunk.
        packs: int64 `[B + 1]`, where each line's rows begin among these.
        offsets: int64 `[N + 1]`, tokens of the chunk's rows.
        span_offsets: int64 `[N + 1]`, mentions of the chunk's rows.
        out: int64 `[2]`, written: most tokens, most mentions; 0 where no row is chosen.
    """
    most_tokens = 0
    most_spans = 0
    for b in range(len(packs) - 1):
        tokens = 0
        spans = 0
        for row in rows[packs[b] : packs[b + 1]]:
            tokens += offsets[row + 1] - offsets[row]
            spans += span_offsets[row + 1] - span_offsets[row]
        most_tokens = max(most_tokens, tokens)
        most_spans = max(most_spans, spans)
    out[0] = most_tokens
    out[1] = most_spans


@kernel
def pad_masked(
    rows: Array,
    packs: Array,
    offsets: Array,
    ids: Array,
    corrupted: Array,
    kinds: Array,
    pad: int,
    out: Array,
) -> None:
    """Write the ids of chosen rows, the attention mask and the labels.

    Args:
        rows: int64 `[R]`, rows of the chunk.
        packs: int64 `[B + 1]`, where each line's rows begin among these.
        offsets: int64 `[N + 1]`, tokens of the chunk's rows.
        ids: int32 `[T]`, ids as they were.
        corrupted: int32 `[T]`, ids as the model sees them.
        kinds: uint8 `[T]`, why a token is predicted; 0 where it is not.
        pad: The id of padding.
        out: int64 `[3, B, L]`, written: input_ids; attention_mask; and labels, -100 where nothing
            is predicted.
    """
    for b in range(len(packs) - 1):
        input_ids = out[0, b]
        attention = out[1, b]
        labels = out[2, b]

        at = 0
        for row in rows[packs[b] : packs[b + 1]]:
            for t in range(offsets[row], offsets[row + 1]):
                input_ids[at] = corrupted[t]
                attention[at] = 1
                labels[at] = ids[t] if kinds[t] != 0 else IGNORED
                at += 1

        input_ids[at:] = pad
        attention[at:] = 0
        labels[at:] = IGNORED


@kernel
def pad_tags(
    rows: Array,
    packs: Array,
    offsets: Array,
    bio: Array,
    words: Array,
    kinds: Array,
    out: Array,
    out_kinds: Array,
) -> None:
    """Write the tags and kinds of chosen rows.

    Args:
        rows: int64 `[R]`, rows of the chunk.
        packs: int64 `[B + 1]`, where each line's rows begin among these.
        offsets: int64 `[N + 1]`, tokens of the chunk's rows.
        bio: int16 `[T]`, tags.
        words: int32 `[T]`, -1 on special tokens.
        kinds: uint8 `[T]`.
        out: int64 `[B, L]`, written: the tags, -100 on special tokens and padding.
        out_kinds: uint8 `[B, L]`, written: the kinds, 0 on padding.
    """
    for b in range(len(packs) - 1):
        tags = out[b]
        kinds_of = out_kinds[b]

        at = 0
        for row in rows[packs[b] : packs[b + 1]]:
            for t in range(offsets[row], offsets[row + 1]):
                tags[at] = bio[t] if words[t] >= 0 else IGNORED
                kinds_of[at] = kinds[t]
                at += 1

        tags[at:] = IGNORED
        kinds_of[at:] = 0


@kernel
def pad_spans(
    rows: Array,
    packs: Array,
    offsets: Array,
    span_offsets: Array,
    starts: Array,
    ends: Array,
    labels: Array,
    out: Array,
) -> None:
    """Write the mentions of chosen rows in tokens of their line, padded with -1.

    Args:
        rows: int64 `[R]`, rows of the chunk.
        packs: int64 `[B + 1]`, where each line's rows begin among these.
        offsets: int64 `[N + 1]`, tokens of the chunk's rows.
        span_offsets: int64 `[N + 1]`, mentions of the chunk's rows.
        starts: int32 `[S]`, in tokens of the row.
        ends: int32 `[S]`, half open.
        labels: int16 `[S]`.
        out: int64 `[3, B, M]`, written: starts, ends, labels.
    """
    for b in range(len(packs) - 1):
        at = 0
        moved = 0  # tokens of the line before the row
        for row in rows[packs[b] : packs[b + 1]]:
            for s in range(span_offsets[row], span_offsets[row + 1]):
                out[0, b, at] = starts[s] + moved
                out[1, b, at] = ends[s] + moved
                out[2, b, at] = labels[s]
                at += 1
            moved += offsets[row + 1] - offsets[row]
        out[:, b, at:] = -1


@kernel
def number_packed(rows: Array, packs: Array, offsets: Array, out: Array) -> None:
    """Write where each token of packed rows stands: its place in its row, and its row's number.

    Args:
        rows: int64 `[R]`, rows of the chunk.
        packs: int64 `[B + 1]`, where each line's rows begin among these.
        offsets: int64 `[N + 1]`, tokens of the chunk's rows.
        out: int64 `[2, B, L]`, written: places, from 0 in each row, 0 on padding; and the number of
            the row within its line, from 0, -1 on padding.
    """
    for b in range(len(packs) - 1):
        at = 0
        for number in range(packs[b + 1] - packs[b]):
            row = rows[packs[b] + number]
            for place in range(offsets[row + 1] - offsets[row]):
                out[0, b, at] = place
                out[1, b, at] = number
                at += 1
        out[0, b, at:] = 0
        out[1, b, at:] = -1


@kernel
def pad_rates(rows: Array, packs: Array, offsets: Array, rates: Array, out: Array) -> None:
    """Write at each token of packed rows the rate of its row.

    Args:
        rows: int64 `[R]`, rows of the chunk.
        packs: int64 `[B + 1]`, where each line's rows begin among these.
        offsets: int64 `[N + 1]`, tokens of the chunk's rows.
        rates: float32 `[N]`, of the chunk's rows.
        out: float32 `[B, L]`, written: 1 on padding, by which a loss can be divided.
    """
    for b in range(len(packs) - 1):
        at = 0
        for row in rows[packs[b] : packs[b + 1]]:
            stop = at + offsets[row + 1] - offsets[row]
            out[b, at:stop] = rates[row]
            at = stop
        out[b, at:] = 1


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
