"""Divides documents into rows that are tokenised as texts, see `text_line`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mslm_data.data.documents import Mentions, Ranges
from mslm_data.data.ragged import number_within
from mslm_data.encode.layout import Layout, lay_out_rows
from mslm_data.encode.mentions import TokenMentions
from mslm_data.encode.replaced import Ints
from mslm_data.encode.text_line import TextLine
from mslm_data.encode.windows import Windows, cut_sentences, join_sentences
from mslm_data.errors import TokenizerError


def fit_rows(
    line: TextLine,
    sentences: Ranges,
    mentions: Mentions,
    align: Callable[[Layout], TokenMentions],
    *,
    limit: int,
    protect: bool,
    join: bool,
) -> tuple[Layout, Windows]:
    """Divide documents into rows of at most `limit` tokens, without a character between them.

    Sentences are tokenised first, to know where to cut and how many to join. What becomes a row is
    tokenised as a text of its own, which may take a token more than as a part of its sentence. Then
    the row is cut again.

    Args:
        line: The line of D documents.
        sentences: N sentences of the documents.
        mentions: Mentions of the documents.
        align: Returns the mentions over the tokens of a layout.
        limit: Maximum number of tokens of a row, at least 1.
        protect: See `cut_sentences`.
        join: Whether to join consecutive sentences.

    Returns:
        The tokens of the sentences, and the rows as windows over them.

    Raises:
        TokenizerError: A character has more tokens than `limit`.
    """
    sentence_starts = line.row_starts(sentences)
    sentence_documents = np.repeat(np.arange(len(line.starts)), sentences.counts)
    starts, documents = line.split_long(sentence_starts, sentence_documents, mentions)
    layout = lay_out_rows(line, starts, documents)

    # Sentences without a token, such as invisible characters, become a part of their neighbours.
    ends = line.row_ends(starts, documents)
    lengths = np.diff(layout.offsets)
    is_fit = not join and not ((lengths == 0) & (starts < ends)).any()
    while not is_fit or lengths.max(initial=0) > limit:
        windows = cut_sentences(layout, align(layout), limit, protect=protect)
        windows, starts = _by_characters(line, layout, windows, starts, limit)
        if not is_fit and join:
            joined = join_sentences(windows, layout.sentence_documents, limit)
            starts = starts[np.searchsorted(windows.firsts, joined.firsts)]
            windows = joined
        layout = lay_out_rows(line, starts, layout.sentence_documents[windows.sentences])
        lengths = np.diff(layout.offsets)
        is_fit = True

    return _by_sentences(line, layout, starts, sentence_starts, sentence_documents)


def _by_characters(
    line: TextLine, layout: Layout, windows: Windows, starts: Ints, limit: int
) -> tuple[Windows, Ints]:
    """Return windows that begin at different characters, and these on the line, int64 `[W]`.

    Tokens of a byte-level tokenizer may share a character. Windows that begin within one are
    merged; if the row is then too long, it is cut again as a text of its own.

    Args:
        line: The line.
        layout: Tokens of N rows.
        windows: Windows over the rows.
        starts: int64 `[N]`, first character of each row.
        limit: Maximum number of tokens of a window.
    """
    begins = starts[windows.sentences]
    cuts = np.flatnonzero(windows.numbers)
    token = windows.firsts[cuts]
    move = line.replaced.move
    begins[cuts] = line.cut_between(move(layout.ends[token - 1]), move(layout.starts[token]))
    is_new = np.ones(len(begins), np.bool_)
    is_new[cuts] = begins[cuts] > np.maximum.accumulate(begins)[cuts - 1]
    if not is_new.all():
        if np.count_nonzero(is_new) == len(starts):  # no row is cut any more
            raise TokenizerError(
                f"max_tokens: a character of the text has more than {limit} tokens; expected more"
            )
        begins = begins[is_new]
        firsts = windows.firsts[is_new]
        sentences = windows.sentences[is_new]
        windows = Windows(
            firsts=firsts,
            lengths=np.diff(firsts, append=len(layout.ids)),
            sentences=sentences,
            numbers=number_within(sentences),
            per_sentence=np.bincount(sentences, minlength=len(windows.per_sentence)),
        )

    documents = layout.sentence_documents[windows.sentences]
    is_first = np.diff(documents, prepend=-1) > 0
    begins[is_first] = line.starts[documents[is_first]]
    return windows, begins


def _by_sentences(
    line: TextLine, layout: Layout, starts: Ints, sentence_starts: Ints, documents: Ints
) -> tuple[Layout, Windows]:
    """Return the tokens of rows as tokens of sentences, and the rows as windows.

    Args:
        line: The line.
        layout: Tokens of W rows.
        starts: int64 `[W]`, first character of each row on the line.
        sentence_starts: int64 `[N]`, first character of each sentence on the line.
        documents: int64 `[N]`, document of each sentence.
    """
    bounds = np.stack([starts, line.row_ends(starts, layout.sentence_documents)], axis=1)
    has_tokens = np.diff(layout.offsets) > 0
    firsts = layout.offsets[:-1][has_tokens]

    # A token that reaches over the start of a sentence belongs to the sentence before.
    begins = np.searchsorted(layout.starts, line.replaced.restore(sentence_starts))
    offsets = np.append(begins, len(layout.ids))
    is_head = layout.heads
    is_head[begins[begins < len(is_head)]] = True
    by_sentences = Layout(
        documents,
        number_within(documents),
        offsets,
        layout.ids,
        np.cumsum(is_head) - 1,
        layout.starts,
        layout.ends,
    )

    row_sentences = np.searchsorted(offsets, firsts, side="right") - 1
    per_sentence = np.bincount(row_sentences, minlength=len(documents))
    windows = Windows(
        firsts=firsts,
        lengths=np.diff(firsts, append=len(layout.ids)),
        sentences=row_sentences,
        numbers=number_within(row_sentences),
        per_sentence=np.maximum(per_sentence, np.diff(offsets) > 0),
        texts=line.replaced.restore(bounds[has_tokens]),
    )
    return by_sentences, windows
