"""Finds the first tokens of words from token ids alone.

Built folders store the word of each token; a batch of ids does not have it, and a model may tag the
second half of a word as the beginning of a mention.
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
"""Put before a token when it is decoded, so that decoders do not strip the token's space."""
_PART = "\ufffd"
"""Text of an incomplete UTF-8 sequence; treated as a letter."""


@dataclass(frozen=True, slots=True, eq=False)
class WordStarts:
    """Flags of V token ids: which begin a word, and which end one.

    A word is a run of letters, digits and combining marks, or one other character, as in built
    folders whose source has running text.

    Attributes:
        opens: bool `[V]`, whether a word begins with the token whatever stands before it: white
            space does, or the token's first character is in no longer word.
        closes: bool `[V]`, whether a word begins after the token whatever follows.
        blank: bool `[V]`, whether the token is white space alone, and so of the word that follows.
    """

    opens: Bools
    closes: Bools
    blank: Bools

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer) -> WordStarts:
        """Classify every token of a tokenizer."""
        size = tokenizer.ids.size
        opens = np.ones(size, np.bool_)
        closes = np.ones(size, np.bool_)
        blank = np.zeros(size, np.bool_)
        for token, id_ in tokenizer.core.get_vocab(with_added_tokens=False).items():
            text = _after_another(tokenizer.core.decoder, token)
            stripped = text.strip()
            blank[id_] = not stripped
            if stripped:
                opens[id_] = text[0].isspace() or not _goes_on(stripped[0])
                closes[id_] = text[-1].isspace() or not _goes_on(stripped[-1])

        # WordPiece replaces a whole unknown word by [UNK]; other models replace single characters.
        unknown = tokenizer.ids.unk
        if unknown >= 0 and not isinstance(tokenizer.core.model, models.WordPiece):
            opens[unknown] = closes[unknown] = False
        return cls(opens, closes, blank)

    def find_first_tokens(self, ids: npt.NDArray[np.int64]) -> Bools:
        """Return which tokens begin a word, bool `[B, L]`.

        Args:
            ids: `[B, L]`, each in `[0, V)`.
        """
        first = self.opens[ids]
        first[:, :1] = True
        first[:, 1:] |= self.closes[ids[:, :-1]]
        first[:, 1:] &= ~self.blank[ids[:, :-1]]
        return first


def _after_another(decoder: Any, token: str) -> str:
    """Decode a token as it reads after another token, with its leading white space."""
    if decoder is None:
        return f" {token}"
    text: str = decoder.decode([_BEFORE, token])
    return text.removeprefix(_BEFORE)


def _goes_on(character: str) -> bool:
    """Return whether a character can be part of a longer word."""
    return character == _PART or character.isalnum() or is_mark(character)
