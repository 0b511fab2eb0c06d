"""Tokenises documents to flat arrays of token positions on the line.

The other steps of `encode` are arithmetic on these arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mslm_data.data.documents import Documents, Ranges
from mslm_data.data.ragged import count_up, make_offsets, number_within
from mslm_data.encode.replaced import Ints, Replaced
from mslm_data.encode.text_line import TextLine
from mslm_data.encode.word_table import WordTable
from mslm_data.kernels.pieces import find_stretches, lay_pieces


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The N sentences and T tokens of a batch of documents.

    Tokens of the word `causes` in `Warfarin causes haemorrhage .`::

        token    id  word  start  end
            4  1044     1      9   13
            5   239     1     13   15

    Attributes:
        sentence_documents: int64 `[N]`, document of each sentence.
        sentence_numbers: int64 `[N]`, index of the sentence within its document.
        offsets: int64 `[N + 1]`, offsets of the sentences' tokens.
        ids: int64 `[T]`, token ids.
        words: int64 `[T]`, word of each token, counted over all documents.
        starts: int64 `[T]`, first character on the line, non-decreasing.
        ends: int64 `[T]`, character after the last, non-decreasing, greater than the start.
    """

    sentence_documents: Ints
    sentence_numbers: Ints
    offsets: Ints
    ids: Ints
    words: Ints
    starts: Ints
    ends: Ints

    @property
    def heads(self) -> npt.NDArray[np.bool_]:
        """Whether each token is the first of its word, bool `[T]`."""
        heads: npt.NDArray[np.bool_] = np.diff(self.words, prepend=-1) != 0
        return heads


def lay_out(documents: Documents, sentences: Ranges, table: WordTable) -> Layout:
    """Tokenise documents.

    Args:
        documents: D documents.
        sentences: Sentences of the documents.
        table: Tokenizer, with its cache of words. New words are added, if the tokenizer does not
            read whole texts.
    """
    if table.tokenizer.reads_text:
        line = TextLine(documents, table.tokenizer)
        sentence_documents = np.repeat(np.arange(len(documents)), sentences.counts)
        return lay_out_rows(line, line.row_starts(sentences), sentence_documents)
    return _lay_out_words(documents, sentences, table)


def lay_out_rows(line: TextLine, starts: Ints, documents: Ints) -> Layout:
    """Tokenise the documents of a line in rows, each as a text of its own.

    Args:
        line: The line.
        starts: int64 `[N]`, first character of each row, ascending. A row ends where the next one
            begins, or with its document.
        documents: int64 `[N]`, document of each row.

    Returns:
        The tokens, with rows as sentences.
    """
    tokens = line.tokenise(starts, line.row_ends(starts, documents))
    return Layout(
        documents,
        number_within(documents),
        tokens.offsets,
        tokens.ids,
        tokens.words,
        *line.replaced.move_back(tokens.starts, tokens.ends),
    )


def _lay_out_words(documents: Documents, sentences: Ranges, table: WordTable) -> Layout:
    """Tokenise the words of documents, one at a time."""
    replaced = Replaced.from_documents(documents)
    line = replaced.line
    chars = np.frombuffer(line.encode("utf-32-le", "surrogatepass"), np.uint32)
    on_line = replaced.move(np.stack([sentences.starts, sentences.ends], axis=1))
    sentence_documents = np.repeat(np.arange(len(documents)), sentences.counts)

    # Find the words: those of the source, or else character runs between white space. A sentence of
    # C characters has at most (C + 1) / 2 runs, which bounds the size of the result.
    has_words = documents.has_words[sentence_documents]
    words = replaced.move(np.stack([documents.words.starts, documents.words.ends], axis=1))
    characters = int(np.diff(on_line[~has_words]).sum())
    room = len(words) + (characters + len(on_line)) // 2 + 1
    bounds = np.empty((room, 2), np.int64)
    counts = np.empty(len(sentence_documents), np.int64)
    find_stretches(chars, on_line, has_words, words, bounds, counts)
    bounds = bounds[: counts.sum()]

    # Look up the pieces of each word, and move them to the position of the word.
    rows = table.rows(line, chars, bounds)
    pieces = table.offsets[rows + 1] - table.offsets[rows]
    offsets = make_offsets(pieces)[make_offsets(counts)]
    tokens = np.empty((4, offsets[-1]), np.int64)
    lay_pieces(counts, has_words, rows, bounds, table.offsets, table.pieces, tokens)

    ids, token_words, token_starts, token_ends = tokens
    starts, ends = replaced.move_back(token_starts, token_ends)
    numbers = count_up(0, sentences.counts)
    return Layout(sentence_documents, numbers, offsets, ids, token_words, starts, ends)
