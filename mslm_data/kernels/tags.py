"""Write mentions as BIO tags, and read mentions from tags of any scheme."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel


@kernel
def paint_bio(
    span_offsets: Array, starts: Array, ends: Array, labels: Array, offsets: Array, bio: Array
) -> None:
    """Write B on the first token of each mention and I on its other tokens.

    Args:
        span_offsets: int64 `[N + 1]`, mentions of each row.
        starts: int32 `[S]`, tokens of the row.
        ends: int32 `[S]`, half open.
        labels: int16 `[S]`; label l has the tags `1 + 2 l` (B) and `2 + 2 l` (I).
        offsets: int64 `[N + 1]`, tokens of each row.
        bio: int16 `[T]`, zeros; written where mentions are.
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
    """Read mentions from the tags of sentences. A table says what each tag of the scheme means.

    Args:
        offsets: integers `[S + 1]`, words of each sentence.
        tags: integers `[W]`, each a row of `meanings`; -1 for its last row.
        meanings: int64 `[M, 4]`: the label, -1 for a word in no mention; 1 where the word continues
            an open mention of its label; 1 where the mention ends with the word; 1 where the word
            should not open a mention.
        spans: int64 `[W, 3]`, written: of each mention the first word, the one after its last, and
            the label. The row after the last mention may hold scratch data.
        counts: int64 `[2, S]`, written: mentions, and those opened by a word that should not.
    """
    m = 0  # mentions that have ended; an open one is written at row m
    for s in range(len(offsets) - 1):
        first = m
        late = 0
        is_open = False
        for w in range(offsets[s], offsets[s + 1]):
            label = meanings[tags[w], 0]
            continues = is_open and meanings[tags[w], 1] != 0 and label == spans[m, 2]
            if not continues:
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

        m += is_open
        counts[0, s] = m - first
        counts[1, s] = late
