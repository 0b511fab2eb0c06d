"""Mentions to tags, and tags to mentions."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel


@kernel
def paint_bio(
    span_offsets: Array, starts: Array, ends: Array, labels: Array, offsets: Array, bio: Array
) -> None:
    """Write B on the first token of each mention and I on the others.

    Args:
        span_offsets: int64 `[N + 1]`, mentions of each row.
        starts: int32 `[S]`, tokens of the row.
        ends: int32 `[S]`, half open.
        labels: int16 `[S]`; label l has the tags `1 + 2 l` (B) and `2 + 2 l` (I).
        offsets: int64 `[N + 1]`, tokens of each row.
        bio: int16 `[T]`, zeros, written where mentions are.
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
    """Read mentions from the tags of sentences; a tag's meaning says which scheme it is of.

    Args:
        offsets: integers `[S + 1]`, words of each sentence.
        tags: integers `[W]`, each a row of `meanings`, -1 for the last.
        meanings: int64 `[M, 4]`: the label, -1 for a word in no mention; 1 where the word goes on with a mention of its
            label, if one is open; 1 where no word goes on with its mention; 1 where it should not open one.
        spans: int64 `[W, 3]`, written: of each mention the first word, the one after its last, and the label.
        counts: int64 `[2, S]`, written: mentions, and those opened by a word that should not.
    """
    m = 0
    for s in range(len(offsets) - 1):
        before, late, open_ = m, 0, False
        for w in range(offsets[s], offsets[s + 1]):
            label = meanings[tags[w], 0]
            if not (open_ and meanings[tags[w], 1] != 0 and label == spans[m, 2]):
                m += int(open_)
                open_ = label >= 0
                late += meanings[tags[w], 3]
                if open_:
                    spans[m, 0], spans[m, 2] = w, label
            if open_:
                spans[m, 1] = w + 1
            if meanings[tags[w], 2] != 0:
                m, open_ = m + int(open_), False
        m += int(open_)
        counts[0, s], counts[1, s] = m - before, late
