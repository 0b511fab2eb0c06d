r"""Tokenises text as it is, white space included, as BPE and Unigram tokenizers do.

WordPiece has no tokens for white space, so its words can be tokenised one at a time. Tokenizers of
decoders and of T5 differ: `HISTORY:\n\n  The` has tokens for the line breaks, and the token of
`The` includes a space. So a row is tokenised as a whole, and its ids are those that the tokenizer
gives for the row's characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from mslm_data.data.documents import Documents, Mentions, Ranges
from mslm_data.data.ragged import make_offsets
from mslm_data.encode.replaced import Ints, Replaced
from mslm_data.encode.tokenizer import AT_ONCE, Tokenizer, find_batches, library_errors
from mslm_data.encode.word_table import is_mark

Bools = npt.NDArray[np.bool_]

_OTHER, _LETTER, _MARK, _SPACE = range(4)
"""Classes of characters: words of their own; letters and digits; combining marks; white space."""


@dataclass(frozen=True, slots=True, eq=False)
class TextTokens:
    r"""The T tokens of R ranges of a line.

    Tokens of the range ` It\n\nends`::

        token  id  word  start  end
            0  12     0      1    3
            1   7     1      3    5
            2  90     2      5    9

    Token 0 includes the space, which is not in its range: a mention `It` begins where it begins.

    Attributes:
        offsets: int64 `[R + 1]`, offsets of the ranges' tokens.
        ids: int64 `[T]`, token ids.
        words: int64 `[T]`, word of each token, counted over all ranges. White space is a word by
            itself, except for a single space before a word, which is a part of it.
        starts: int64 `[T]`, first character on the line, non-decreasing, white space around the
            token's text excluded. A single space before a word has the word's first character.
        ends: int64 `[T]`, character after the last, non-decreasing, greater than the start.
    """

    offsets: Ints
    ids: Ints
    words: Ints
    starts: Ints
    ends: Ints


class TextLine:
    """The line of a batch of documents, with placeholders replaced, to tokenise in ranges.

    Attributes:
        replaced: The line, and the conversion from and to positions on the line of the documents.
        starts: int64 `[D]`, first character of each document on `replaced.line`.
        ends: int64 `[D]`, character after the last.
    """

    def __init__(self, documents: Documents, tokenizer: Tokenizer) -> None:
        """Classify the characters of the documents' line."""
        self.replaced = Replaced.from_documents(documents)
        self.starts = self.replaced.move(documents.starts)
        self.ends = self.replaced.move(documents.ends)
        self._tokenizer = tokenizer
        self._known: dict[tuple[int, int], tuple[Ints, Ints]] = {}
        """Range -> ids, and character ranges `[T, 2]` within the range."""

        self._chars = _code_points(self.replaced.line)
        classes = _classify(self._chars)
        is_space = classes == _SPACE
        self._filled = make_offsets(~is_space)
        """Number of characters before each position that are not white space."""
        self._after_space, self._before_space = _find_text(is_space)
        self._after_break = np.zeros(len(classes) + 1, np.int64)
        """End of the last line break before each position."""
        is_break = self._chars == ord("\n")
        ends = np.arange(1, len(classes) + 1)
        self._after_break[1:] = np.maximum.accumulate(np.where(is_break, ends, 0))
        self._is_head = self._heads(documents, classes)

    def trim(self, documents: Documents) -> Mentions:
        """Return the mentions of the documents without the white space around their text."""
        after_space = self._after_space
        before_space = self._before_space
        if documents.line != self.replaced.line:
            after_space, before_space = _find_text(
                _classify(_code_points(documents.line)) == _SPACE
            )

        mentions = documents.mentions
        starts = after_space[mentions.starts]
        return replace(mentions, starts=starts, ends=before_space[mentions.ends])

    def row_starts(self, sentences: Ranges) -> Ints:
        """Return where the rows of sentences begin, so that no character is between them.

        Args:
            sentences: N sentences, on the line of the documents.

        Returns:
            int64 `[N]`, on `replaced.line`. A sentence of white space begins where the next one
            does, and so has no characters.
        """
        documents = np.repeat(np.arange(len(self.starts)), sentences.counts)
        starts = self.replaced.move(sentences.starts)
        before = self._before_space[starts]
        after = self._after_space[starts]

        begins = self.cut_between(before, after)
        is_first = before <= self.starts[documents]
        begins[is_first] = self.starts[documents[is_first]]
        is_over = after >= self.ends[documents]
        begins[is_over] = self.ends[documents[is_over]]
        return begins

    def split_long(self, starts: Ints, documents: Ints, mentions: Mentions) -> tuple[Ints, Ints]:
        """Split rows of more than `AT_ONCE` characters, to bound the memory of the library.

        A row is split at the last white space within the limit, outside of mentions, if the second
        half of the limit has one; else at the limit.

        Args:
            starts: int64 `[R]`, first character of each row, ascending.
            documents: int64 `[R]`, document of each row.
            mentions: Mentions on the line of the documents.

        Returns:
            Start and document of each row.
        """
        ends = self.row_ends(starts, documents)
        if (ends - starts).max(initial=0) <= AT_ONCE:
            return starts, documents

        is_place = np.diff(self._filled) == 0
        bounds = self.replaced.move(np.stack([mentions.starts, mentions.ends], axis=1))
        for first, past in bounds.tolist():
            is_place[first:past] = False

        split: list[int] = []
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            split.append(start)
            while end - split[-1] > AT_ONCE:
                limit = split[-1] + AT_ONCE
                middle = limit - AT_ONCE // 2
                spaces = np.flatnonzero(is_place[middle:limit])
                cut = limit
                if len(spaces):
                    space = middle + spaces[-1:]
                    after = np.minimum(self._after_space[space], limit)
                    cut = int(self.cut_between(self._before_space[space], after)[0])
                split.append(max(cut, middle))
        new_starts = np.array(split, np.int64)
        return new_starts, documents[np.searchsorted(starts, new_starts, side="right") - 1]

    def row_ends(self, starts: Ints, documents: Ints) -> Ints:
        """Return the ends of rows: the start of the next row, or the end of their document.

        Args:
            starts: int64 `[R]`, first character of each row, ascending.
            documents: int64 `[R]`, document of each row.
        """
        ends = self.ends[documents]
        is_followed = np.flatnonzero(np.diff(documents) == 0)
        ends[is_followed] = starts[is_followed + 1]
        return ends

    def cut_between(self, ends: Ints, starts: Ints) -> Ints:
        """Return where to cut between texts: behind the last line break, else before the space.

        Args:
            ends: int64 `[K]`, end of the text before each cut.
            starts: int64 `[K]`, start of the text after it.
        """
        return np.where(ends < starts, np.maximum(self._after_break[starts], ends), starts)

    def tokenise(self, starts: Ints, ends: Ints) -> TextTokens:
        """Tokenise ranges of the line, each as a text of its own.

        Args:
            starts: int64 `[R]`, first character of each range, ascending.
            ends: int64 `[R]`, character after the last; ranges do not overlap.
        """
        bounds = list(zip(starts.tolist(), ends.tolist(), strict=True))
        self._encode([bound for bound in bounds if bound not in self._known])
        encoded = [self._known[bound] for bound in bounds]
        self._known = dict(zip(bounds, encoded, strict=True))
        offsets = make_offsets(np.array([len(ids) for ids, _ in encoded], np.int64))
        ids = np.concatenate([np.empty(0, np.int64), *(ids for ids, _ in encoded)])
        spans = np.concatenate([np.empty((0, 2), np.int64), *(spans for _, spans in encoded)])
        spans = spans + np.repeat(starts, np.diff(offsets))[:, None]
        ids[np.isin(ids, self._tokenizer.control)] = self._tokenizer.ids.unk

        # A token's range has a character, and no white space around it. It does not go back:
        # some tokenizers give overlapping ranges.
        limits = np.repeat(ends, np.diff(offsets))
        lows = np.minimum(spans[:, 0], limits - 1)
        highs = np.maximum(spans[:, 1], lows + 1)
        is_blank = self._filled[lows] == self._filled[highs]

        # A single space before a token with text is a part of its word.
        is_single = (spans[:, 1] - spans[:, 0] <= 1) & (self._chars[lows] >= ord(" "))
        is_last = np.zeros(len(ids) + 1, np.bool_)
        is_last[offsets] = True
        is_lead = is_blank & is_single & ~is_last[1:]
        is_lead[:-1] &= ~is_blank[1:]

        is_white = is_blank & ~is_lead
        token_starts = np.where(is_white, lows, self._after_space[lows])
        token_ends = np.where(is_white, highs, self._before_space[highs])
        token_ends[is_lead] = token_starts[is_lead] + 1
        token_starts = np.maximum.accumulate(token_starts)
        token_ends = np.maximum.accumulate(token_ends)

        # A token begins a word if it begins at the first character of a word, is white space, or is
        # the first of its range. So a token over several words merges them.
        begins = is_white | self._is_head[token_starts]
        begins &= np.diff(token_starts, prepend=-1) != 0  # bytes of a character have equal starts
        begins[offsets[:-1][np.diff(offsets) > 0]] = True
        words = np.cumsum(begins) - 1
        return TextTokens(offsets, ids, words, token_starts, token_ends)

    def _encode(self, bounds: Sequence[tuple[int, int]]) -> None:
        """Tokenise ranges and remember their tokens."""
        texts = [self.replaced.line[start:end] for start, end in bounds]
        for first, past in pairwise(find_batches(texts)):
            with library_errors("tokenizer: cannot encode text: ", private=True):
                encodings = self._tokenizer.core.encode_batch(
                    texts[first:past], add_special_tokens=False
                )
            for bound, encoding in zip(bounds[first:past], encodings, strict=True):
                spans = np.array(encoding.offsets, np.int64).reshape(-1, 2)
                self._known[bound] = np.array(encoding.ids, np.int64), spans

    def _heads(self, documents: Documents, classes: npt.NDArray[np.uint8]) -> Bools:
        """Return whether each character begins a word, bool `[C]`."""
        # Marks belong to the letter or digit before them.
        places = np.arange(len(classes))
        base = np.maximum.accumulate(np.where(classes == _MARK, 0, places))
        joins = (classes == _LETTER) | ((classes == _MARK) & (classes[base] == _LETTER))
        is_head: Bools = classes != _SPACE
        is_head[1:] &= ~(joins[1:] & joins[:-1])

        # Words that the source gives.
        given = np.flatnonzero(documents.has_words)
        steps = np.zeros(len(classes) + 1, np.int64)
        np.add.at(steps, self.starts[given], 1)
        np.add.at(steps, self.ends[given], -1)
        is_head &= np.cumsum(steps)[:-1] == 0
        is_head[self.replaced.move(documents.words.starts)] = True
        return is_head


def _code_points(text: str) -> npt.NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _find_text(is_space: Bools) -> tuple[Ints, Ints]:
    """Return where text begins and ends, from whether each of C characters is white space.

    Returns:
        int64 `[C + 1]`, first character at or after each position that is not white space; and
        end of the last such character before it.
    """
    places = np.arange(len(is_space))
    after_space = np.append(np.where(is_space, len(places), places), len(places))
    after_space = np.minimum.accumulate(after_space[::-1])[::-1]
    before_space = np.append(0, np.where(is_space, 0, places + 1))
    return after_space, np.maximum.accumulate(before_space)


def _classify(chars: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
    """Return the class of each character."""
    # Look up each distinct character once.
    table = np.zeros(int(chars.max(initial=0)) + 1, np.uint8)
    for code in np.flatnonzero(np.bincount(chars)).tolist():
        character = chr(code)
        if character.isspace():
            table[code] = _SPACE
        elif character.isalnum():
            table[code] = _LETTER
        elif is_mark(character):
            table[code] = _MARK
    return table[chars]
