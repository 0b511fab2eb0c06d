"""Cuts long sentences into windows outside mentions, and joins short sentences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mslm_data.data.ragged import Ragged, count_up
from mslm_data.encode.layout import Layout
from mslm_data.encode.mentions import TokenMentions
from mslm_data.encode.replaced import Ints
from mslm_data.kernels.windows import cut_windows, join_windows


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """W windows over N sentences. Each window becomes a row, unless sentences are joined.

    Two sentences, of 700 and 20 tokens, with at most 510 tokens in a window::

        window  first  length  sentence  number
             0      0     510         0       0
             1    510     190         0       1
             2    700      20         1       0

    A sentence without tokens has no window.

    Attributes:
        firsts: int64 `[W]`, sorted first token of each window.
        lengths: int64 `[W]`, number of tokens.
        sentences: int64 `[W]`, sentence of the window.
        numbers: int64 `[W]`, index of the window within its sentence.
        per_sentence: int64 `[N]`, number of windows of each sentence.
        texts: int64 `[W, 2]`, characters of each window on the line of the documents. Default:
            None, from the first to the last token.
    """

    firsts: Ints
    lengths: Ints
    sentences: Ints
    numbers: Ints
    per_sentence: Ints
    texts: Ints | None = None


def cut_sentences(layout: Layout, mentions: TokenMentions, limit: int, *, protect: bool) -> Windows:
    """Cut sentences into windows of at most `limit` tokens.

    Args:
        layout: Sentences and tokens.
        mentions: Mentions over the tokens.
        limit: Maximum number of tokens in a window, at least 1.
        protect: Whether to avoid cuts inside mentions. False cuts before the first word that does
            not fit.
    """
    lengths = np.diff(layout.offsets)
    if lengths.max(initial=0) <= limit:  # no cuts
        per_sentence = (lengths > 0).astype(np.int64)
        firsts = layout.offsets[:-1][lengths > 0]
    else:
        per_sentence = np.empty(len(lengths), np.int64)
        firsts = np.empty(len(layout.ids), np.int64)
        cost = costs(layout, mentions, protect=protect)
        cut_windows(layout.offsets, cost, limit, firsts, per_sentence)
        firsts = firsts[: per_sentence.sum()]

    return Windows(
        firsts=firsts,
        lengths=np.diff(firsts, append=len(layout.ids)),
        sentences=np.repeat(np.arange(len(per_sentence)), per_sentence),
        numbers=count_up(0, per_sentence),
        per_sentence=per_sentence,
    )


def join_sentences(windows: Windows, documents: Ints, limit: int) -> Windows:
    """Join consecutive sentences of a document into rows of at most `limit` tokens.

    Args:
        windows: W windows over N sentences. Windows of a sentence that was cut are not joined.
        documents: int64 `[N]`, document of each sentence.
        limit: Maximum number of tokens in a row, at least that of each window.

    Returns:
        The rows as windows, with sentence and number of their first window.
    """
    window_documents = documents[windows.sentences]
    whole = (windows.per_sentence == 1)[windows.sentences]
    first = np.empty(len(windows.firsts), np.int64)
    num_rows = join_windows(windows.lengths, window_documents, whole, limit, first)
    first = first[:num_rows]

    end = windows.firsts[-1:] + windows.lengths[-1:]
    firsts = windows.firsts[first]
    return Windows(
        firsts=firsts,
        lengths=np.diff(np.append(firsts, end)),
        sentences=windows.sentences[first],
        numbers=windows.numbers[first],
        per_sentence=windows.per_sentence,
    )


def find_sentence_starts(layout: Layout, windows: Windows) -> Ragged:
    """Return the first tokens of the sentences in each window, int64; the window's own is first."""
    has_tokens = np.diff(layout.offsets) > 0
    starts = np.union1d(windows.firsts, layout.offsets[:-1][has_tokens])
    return Ragged(starts, np.append(np.searchsorted(starts, windows.firsts), len(starts)))


def costs(layout: Layout, mentions: TokenMentions, *, protect: bool) -> npt.NDArray[np.uint8]:
    """Return the cost of starting a window at each token, uint8 `[T]`.

    The cost is 0 between words, 1 inside a word, 2 between words of a mention, and 3 inside a word
    of a mention.

    Args:
        layout: T tokens.
        mentions: Mentions over the tokens.
        protect: Whether a cut inside a mention has a cost.
    """
    cost = (~layout.heads).astype(np.uint8)
    if not protect:
        return cost

    # Add 2 for all tokens of a mention except the first, by cumulative sums of +2 and -2.
    steps = np.zeros(len(cost) + 1, np.int64)
    np.add.at(steps, mentions.starts + 1, 2)
    np.add.at(steps, mentions.ends, -2)
    cost += np.cumsum(steps)[:-1].astype(np.uint8)
    return cost
