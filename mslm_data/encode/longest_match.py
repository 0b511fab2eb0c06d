"""WordPiece for printable ASCII words, in a kernel 100 times faster than the `tokenizers` library.

The library takes 4 microseconds per word, a fifth of the time of a build. In most corpora, nearly
all words are printable ASCII. BERT's tokenizers encode them in three steps:

1. Convert to lower case, for uncased vocabularies.
2. Split runs of letters and digits from other characters, and these from each other.
3. Match the longest piece first.

Other words and other tokenizers use the library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from mslm_data.data.ragged import make_offsets, read_only
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.kernels.hashing import enter_words
from mslm_data.kernels.longest_match import PieceTable, cut_words, mark_printable

Ints = npt.NDArray[np.int64]
Chars = npt.NDArray[np.uint32]


class LongestMatch(NamedTuple):
    """A WordPiece vocabulary for printable ASCII.

    Attributes:
        lowercase: Whether words are converted to lower case.
        begins: Pieces at the start of a run, and single characters other than letters and digits.
        goes_on: Pieces inside a run, without their prefix `##`.
        limits: Length of the longest piece, and maximum length of a run, in characters.
        unknown: Id of a run without matching pieces, or longer than the maximum.
    """

    lowercase: bool
    begins: PieceTable
    goes_on: PieceTable
    limits: tuple[int, int]
    unknown: int

    def printable(self, chars: Chars, bounds: Ints) -> npt.NDArray[np.bool_]:
        """Return whether each word is printable ASCII, bool `[W]`.

        Args:
            chars: uint32 `[C]`, code points.
            bounds: int64 `[W, 2]`, character range of each word.
        """
        marks = np.empty(len(bounds), np.bool_)
        mark_printable(chars, bounds, marks)
        return marks

    def cut(self, chars: Chars, bounds: Ints) -> tuple[Ints, npt.NDArray[np.int32]]:
        """Tokenise words.

        Args:
            chars: uint32 `[C]`, code points, printable ASCII only.
            bounds: int64 `[W, 2]`, character range of each word.

        Returns:
            Number of pieces of each word, int64 `[W]`, and the pieces, int32 `[P, 4]`, see
            `WordTable.pieces`.
        """
        if self.lowercase:
            is_capital = (chars >= ord("A")) & (chars <= ord("Z"))
            chars = np.where(is_capital, chars + np.uint32(32), chars)

        # A piece has at least a character, so there are at most as many pieces as characters.
        pieces = np.empty((len(chars), 4), np.int32)
        counts = np.empty(len(bounds), np.int64)
        total = cut_words(
            chars, bounds, self.begins, self.goes_on, self.limits, self.unknown, pieces, counts
        )
        return counts, pieces[:total]


def load_longest_match(tokenizer: Tokenizer) -> LongestMatch | None:
    """Return the vocabulary of a BERT tokenizer; None for other tokenizers."""
    # Added tokens match inside words before WordPiece. Special ones are switched off for text, so
    # only others exclude the fast kernel.
    config: dict[str, Any] = msgspec.json.decode(tokenizer.json)
    model = config["model"]
    normalizer = config["normalizer"] or {}
    is_berts = (
        model["type"] == "WordPiece"
        and normalizer.get("type") == "BertNormalizer"
        and (config["pre_tokenizer"] or {}).get("type") == "BertPreTokenizer"
        and all(token["special"] for token in config["added_tokens"])
        and not tokenizer.lead
    )
    if not is_berts:
        return None

    # Other pieces, such as `don't`, never match: the pre-tokenizer splits at punctuation.
    vocab: Mapping[str, int] = model["vocab"]
    prefix: str = model["continuing_subword_prefix"]
    begins = {
        piece: id_
        for piece, id_ in vocab.items()
        if _is_word(piece) or (len(piece) == 1 and "!" <= piece <= "~")
    }
    goes_on = {
        piece.removeprefix(prefix): id_
        for piece, id_ in vocab.items()
        if piece.startswith(prefix) and _is_word(piece.removeprefix(prefix))
    }

    longest = max(map(len, [*begins, *goes_on]), default=1)
    return LongestMatch(
        lowercase=normalizer["lowercase"],
        begins=_table(list(begins), list(begins.values())),
        goes_on=_table(list(goes_on), list(goes_on.values())),
        limits=(longest, model["max_input_chars_per_word"]),
        unknown=vocab[model["unk_token"]],
    )


def _is_word(piece: str) -> bool:
    return piece.isascii() and piece.isalnum()


def _table(pieces: Sequence[str], ids: Sequence[int]) -> PieceTable:
    """Build a hash table of pieces."""
    chars = np.array([*map(ord, "".join(pieces))], np.uint32)
    offsets = make_offsets(np.fromiter(map(len, pieces), np.int64, len(pieces)))
    bounds = np.stack([offsets[:-1], offsets[1:]], axis=1)

    slots = np.full(1 << max(10, (2 * len(pieces)).bit_length()), -1, np.int32)
    hashes = np.empty(len(pieces), np.uint64)
    enter_words(read_only(chars), bounds, 0, slots, hashes, np.empty(len(pieces), np.int64))
    return slots, hashes, chars, offsets[:-1], offsets[1:], np.array(ids, np.int64)
