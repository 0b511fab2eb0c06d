"""Cuts long sentences into windows outside mentions, and joins short sentences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mslm_data.data.ragged import Ragged
from mslm_data.encode.layout import Ints, Layout, number_within
from mslm_data.encode.mentions import TokenMentions
from mslm_data.kernels.windows import cut_windows, join_windows


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """W windows of N sentences; each becomes a row, unless sentences are joined.

    A sentence that fits is one window. A sentence without a token has none.

    Attributes:
        firsts: int64 `[W]`, first token of each window, rising.
        lengths: int64 `[W]`, its tokens.
        sentences: int64 `[W]`, its sentence.
        numbers: int64 `[W]`, its number within the sentence.
        per_sentence: int64 `[N]`, windows of each sentence.
    """

    firsts: Ints
    lengths: Ints
    sentences: Ints
    numbers: Ints
    per_sentence: Ints


def cut_sentences(layout: Layout, mentions: TokenMentions, limit: int, *, protect: bool) -> Windows:
    """Cut sentences into windows of at most `limit` tokens.

    Args:
        layout: The sentences and their tokens.
        mentions: Mentions over the same tokens.
        limit: Maximum number of tokens of a window, at least 1.
        protect: Avoid cuts inside mentions where possible. False cuts before the first word that
            does not fit.
    """
    lengths = np.diff(layout.offsets)
    if lengths.max(initial=0) <= limit:
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
        numbers=number_within(per_sentence),
        per_sentence=per_sentence,
    )


def join_sentences(windows: Windows, documents: Ints, limit: int) -> tuple[Windows, Ragged]:
    """Join consecutive sentences of a document into rows of at most `limit` tokens.

    Args:
        windows: The sentences and the windows of those that are longer.
        documents: int64 `[N]`, each sentence's document.
        limit: Maximum number of tokens of a row; no window is longer.

    Returns:
        The rows as windows, each with the sentence and number of its first window; and for each
        row the first tokens of its windows, int64.
    """
    window_documents = documents[windows.sentences]
    whole = (windows.per_sentence == 1)[windows.sentences]
    first = np.empty(len(windows.firsts), np.int64)
    num_rows = join_windows(windows.lengths, window_documents, whole, limit, first)
    first = first[:num_rows]

    end = windows.firsts[-1:] + windows.lengths[-1:]
    firsts = windows.firsts[first]
    rows = Windows(
        firsts=firsts,
        lengths=np.diff(np.append(firsts, end)),
        sentences=windows.sentences[first],
        numbers=windows.numbers[first],
        per_sentence=windows.per_sentence,
    )
    return rows, Ragged(windows.firsts, np.append(first, len(windows.firsts)))


def costs(layout: Layout, mentions: TokenMentions, *, protect: bool) -> npt.NDArray[np.uint8]:
    """Return the cost of starting a window at each token, `[T]`.

    0: no cut, 1: splits a word, 2: splits a mention, 3: splits both.

    Args:
        layout: The tokens.
        mentions: Mentions over them.
        protect: Whether splitting a mention has a cost.
    """
    cost = (~layout.heads).astype(np.uint8)
    if not protect:
        return cost

    # Tokens in a mention, but for its first, as sums of +2 after its start and -2 at its end.
    steps = np.zeros(len(cost) + 1, np.int64)
    np.add.at(steps, mentions.starts + 1, 2)
    np.add.at(steps, mentions.ends, -2)
    cost += np.cumsum(steps)[:-1].astype(np.uint8)
    return cost
