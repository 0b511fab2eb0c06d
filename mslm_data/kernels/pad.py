"""Gather rows of a chunk into padded arrays: B lines of L tokens or M mentions.

A line of an array holds one row or, if rows are packed, several rows one after the other. All
kernels take the R rows to gather, and `packs` `[B + 1]`, their offsets by line.
"""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel

IGNORED = -100
"""Label of tokens that are not masked, and tag of special tokens and padding."""


@kernel
def measure_rows(
    rows: Array, packs: Array, offsets: Array, span_offsets: Array, out: Array
) -> None:
    """Find the maximum number of tokens and of mentions in a line.

    Args:
        rows: int64 `[R]`, row numbers.
        packs: int64 `[B + 1]`, offsets of each line's rows.
        offsets: int64 `[N + 1]` of the tokens.
        span_offsets: int64 `[N + 1]` of the mentions.
        out: int64 `[2]`, written: number of tokens, number of mentions; 0 without rows.
    """
    max_tokens = 0
    max_spans = 0
    for b in range(len(packs) - 1):
        tokens = 0
        spans = 0
        for row in rows[packs[b] : packs[b + 1]]:
            tokens += offsets[row + 1] - offsets[row]
            spans += span_offsets[row + 1] - span_offsets[row]
        max_tokens = max(max_tokens, tokens)
        max_spans = max(max_spans, spans)
    out[0] = max_tokens
    out[1] = max_spans


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
    """Gather the token ids, the attention mask and the labels.

    Args:
        rows: int64 `[R]`, row numbers.
        packs: int64 `[B + 1]`, offsets of each line's rows.
        offsets: int64 `[N + 1]` of the tokens.
        ids: int32 `[T]`, original token ids.
        corrupted: int32 `[T]`, corrupted token ids.
        kinds: uint8 `[T]`, `MaskKind` of each token, 0 if it is not masked.
        pad: Id of the padding token.
        out: int64 `[3, B, L]`, written: input_ids (corrupted), attention_mask, and labels (original
            ids of masked tokens, -100 elsewhere).
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
    """Gather the BIO tags and the kinds.

    Args:
        rows: int64 `[R]`, row numbers.
        packs: int64 `[B + 1]`, offsets of each line's rows.
        offsets: int64 `[N + 1]` of the tokens.
        bio: int16 `[T]`, BIO tags.
        words: int32 `[T]`, `word_ids`, -1 on special tokens.
        kinds: uint8 `[T]`, `MaskKind` of each token.
        out: int64 `[B, L]`, written: the tags, -100 on special tokens and padding.
        out_kinds: uint8 `[B, L]`, written: the kinds, 0 on padding.
    """
    for b in range(len(packs) - 1):
        tags = out[b]
        line_kinds = out_kinds[b]

        at = 0
        for row in rows[packs[b] : packs[b + 1]]:
            for t in range(offsets[row], offsets[row + 1]):
                tags[at] = bio[t] if words[t] >= 0 else IGNORED
                line_kinds[at] = kinds[t]
                at += 1

        tags[at:] = IGNORED
        line_kinds[at:] = 0


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
    """Gather the mentions, as token ranges within their line.

    Args:
        rows: int64 `[R]`, row numbers.
        packs: int64 `[B + 1]`, offsets of each line's rows.
        offsets: int64 `[N + 1]` of the tokens.
        span_offsets: int64 `[N + 1]` of the mentions.
        starts: int32 `[S]`, first token of each mention, within its row.
        ends: int32 `[S]`, half open.
        labels: int16 `[S]`, label numbers.
        out: int64 `[3, B, M]`, written: starts, ends and labels, padded with -1.
    """
    for b in range(len(packs) - 1):
        at = 0
        moved = 0  # number of tokens in the line before the row
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
    """Write the position of each packed token within its row, and the number of the row.

    Args:
        rows: int64 `[R]`, row numbers.
        packs: int64 `[B + 1]`, offsets of each line's rows.
        offsets: int64 `[N + 1]` of the tokens.
        out: int64 `[2, B, L]`, written: positions, from 0 in each row, 0 on padding; and the number
            of the row within its line, from 0, -1 on padding.
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
    """Write the masking rate of its row at each packed token.

    Args:
        rows: int64 `[R]`, row numbers.
        packs: int64 `[B + 1]`, offsets of each line's rows.
        offsets: int64 `[N + 1]` of the tokens.
        rates: float32 `[N]`, masking rate of each row.
        out: float32 `[B, L]`, written: the rates; 1 on padding, so a loss can be divided by them.
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
    """Gather rows of one column, a line each.

    Args:
        rows: int64 `[B]`, row numbers.
        offsets: int64 `[N + 1]` of the tokens.
        ids: int32 `[T]`, token ids.
        pad: Value of padding.
        out: int64 `[B, L]`, written.
    """
    for b in range(len(rows)):
        row = ids[offsets[rows[b]] : offsets[rows[b] + 1]]
        for t in range(len(row)):
            out[b, t] = row[t]
        out[b, len(row) :] = pad
