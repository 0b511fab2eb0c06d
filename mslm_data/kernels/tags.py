"""Convert mentions to BIO tags, and tags of any scheme to mentions."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel


@kernel
def paint_bio(
    span_offsets: Array, starts: Array, ends: Array, labels: Array, offsets: Array, bio: Array
) -> None:
    """Write B on the first token of each mention and I on its other tokens.

    Args:
        span_offsets: int64 `[N + 1]` of the mentions.
        starts: int32 `[S]`, first token of each mention, within its row.
        ends: int32 `[S]`, half open.
        labels: int16 `[S]`, label numbers. Label l has the tags `1 + 2 l` (B) and `2 + 2 l` (I).
        offsets: int64 `[N + 1]` of the tokens.
        bio: int16 `[T]`, all 0 (O); written in mentions.
    """
    for i in range(len(span_offsets) - 1):
        for s in range(span_offsets[i], span_offsets[i + 1]):
            begin = offsets[i] + starts[s]
            bio[begin] = 1 + 2 * labels[s]
            for t in range(begin + 1, offsets[i] + ends[s]):
                bio[t] = 2 + 2 * labels[s]


@kernel
def find_mentions(
    offsets: Array, tags: Array, meanings: Array, spans: Array, counts: Array
) -> None:
    """Convert the tags of sentences to mentions. A table defines the tags of the scheme.

    Args:
        offsets: integers `[S + 1]`, offsets of each sentence's words.
        tags: integers `[W]`, index into `meanings` of each word's tag. -1 is the last item.
        meanings: int64 `[M, 4]`, definition of each tag: label, or -1 outside mentions; 1 if the
            tag continues an open mention of its label, 2 of any label, else 0; whether it ends the
            mention; whether it is irregular at the beginning of a mention, such as I in BIO.
        spans: int64 `[W, 3]`, written from the top: first word of each mention, word after the
            last, and label. The item after the last mention is scratch memory.
        counts: int64 `[2, S]`, written: number of mentions, and of mentions with an irregular
            beginning.
    """
    m = 0  # number of complete mentions; an open mention is at index m
    for s in range(len(offsets) - 1):
        first = m
        late = 0
        is_open = False
        for w in range(offsets[s], offsets[s + 1]):
            # Continue the open mention, or end it and open another.
            label = meanings[tags[w], 0]
            continues = meanings[tags[w], 1]
            if not is_open or continues == 0 or (continues == 1 and label != spans[m, 2]):
                m += is_open
                is_open = label >= 0
                late += meanings[tags[w], 3]
                if is_open:
                    spans[m, 0] = w
                    spans[m, 2] = label

            if is_open:
                spans[m, 1] = w + 1
            if meanings[tags[w], 2] != 0:
                m += is_open
                is_open = False

        # The end of a sentence ends its mention.
        m += is_open
        counts[0, s] = m - first
        counts[1, s] = late
