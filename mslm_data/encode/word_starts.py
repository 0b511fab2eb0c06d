"""Finds the first token of each word from token ids.

Built folders store the word of each token, but a batch of ids at prediction time does not. Without
words, a model could start a mention in the middle of a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import models

from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.encode.word_table import is_mark

Bools = npt.NDArray[np.bool_]

_BEFORE = "a"
"""Token decoded before each token, because decoders strip leading white space of a text."""
_PART = "\ufffd"
"""Decoded text of an incomplete UTF-8 sequence; treated as a letter."""


@dataclass(frozen=True, slots=True, eq=False)
class WordStarts:
    """Flags of V token ids that determine the starts of words.

    A word is a run of letters, digits and combining marks, or a single other character, as in built
    folders of running text.

    Attributes:
        opens: bool `[V]`, whether the token always starts a word: it starts with white space, or
            with a character that is a word by itself.
        closes: bool `[V]`, whether the next token always starts a word.
        blank: bool `[V]`, whether the token is a single space at most, which belongs to the next
            word.
        white: bool `[V]`, whether the token is other white space, which is a word by itself.
    """

    opens: Bools
    closes: Bools
    blank: Bools
    white: Bools

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer) -> WordStarts:
        """Compute the flags of all tokens of a tokenizer."""
        size = tokenizer.ids.size
        opens = np.ones(size, np.bool_)
        closes = np.ones(size, np.bool_)
        blank = np.zeros(size, np.bool_)
        white = np.zeros(size, np.bool_)
        for token, id_ in tokenizer.core.get_vocab(with_added_tokens=False).items():
            text = _after_another(tokenizer.core.decoder, token)
            stripped = text.strip()
            blank[id_] = text in ("", " ")
            white[id_] = not stripped and not blank[id_]
            if stripped:
                opens[id_] = text[0].isspace() or not _goes_on(stripped[0])
                closes[id_] = text[-1].isspace() or not _goes_on(stripped[-1])

        # WordPiece replaces a whole unknown word by [UNK]. Other models replace single characters,
        # which may be inside a word.
        unknown = tokenizer.ids.unk
        if unknown >= 0 and not isinstance(tokenizer.core.model, models.WordPiece):
            opens[unknown] = closes[unknown] = False
        return cls(opens, closes, blank, white)

    def find_first_tokens(self, ids: npt.NDArray[np.int64]) -> Bools:
        """Return whether each token starts a word, bool `[B, L]`.

        Args:
            ids: int64 `[B, L]` in `[0, V)`.
        """
        first = self.opens[ids]
        first[:, :1] = True
        first[:, 1:] |= self.closes[ids[:, :-1]]
        first[:, 1:] &= ~self.blank[ids[:, :-1]] | self.white[ids[:, 1:]]
        return first


def _after_another(decoder: Any, token: str) -> str:
    """Decode a token as it is decoded after another token, with leading white space."""
    if decoder is None:
        return f" {token}"
    text: str = decoder.decode([_BEFORE, token])
    return text.removeprefix(_BEFORE)


def _goes_on(character: str) -> bool:
    """Return whether a character can continue a word."""
    return character == _PART or character.isalnum() or is_mark(character)
