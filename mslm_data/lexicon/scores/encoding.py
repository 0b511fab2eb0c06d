"""Load a folder's tokenizer, and encode words from elsewhere, such as those of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from mslm_data.data.ragged import Ragged, make_offsets
from mslm_data.encode import tokenizer as tokenizers
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.encode.word_table import WordTable
from mslm_data.errors import VocabularyError
from mslm_data.kernels.gather import gather
from mslm_data.shard.manifest import Manifest
from mslm_data.shard.split import Split

_WITHIN_WORDS = ("-", "/", "'")
"""Characters that are part of words in sources of words, and separate words in running text."""
_CONTINUATION = "##"
"""Prefix of WordPiece for pieces that continue a word."""
_MAX_CHUNKS = 8
"""Number of chunks that `have_given_words` reads."""


def load_folder_tokenizer(folder: Path, manifest: Manifest) -> Tokenizer:
    """Load the tokenizer of a built folder, and check its digest.

    Raises:
        TokenizerError: It is missing.
        VocabularyError: It is not the tokenizer in the manifest.
    """
    tokenizer = tokenizers.load_tokenizer(str(folder / "tokenizer.json"))
    if tokenizer.digest != manifest.tokenizer.sha256:
        raise VocabularyError(
            f"{folder / 'tokenizer.json'}: not the tokenizer that the folder was built with"
        )
    return replace(tokenizer, ids=manifest.token_ids)


def have_given_words(split: Split, tokenizer: Tokenizer) -> bool:
    """Return whether a split has its source's words, so that `IL-2` is a single word.

    Otherwise words are those of running text, split at `-`, `/` and `'`. Decided by the first rows,
    since a source may produce either.
    """
    ids = [
        id_
        for piece, id_ in tokenizer.core.get_vocab(with_added_tokens=False).items()
        if piece.removeprefix(_CONTINUATION).startswith(_WITHIN_WORDS)
    ]
    for rows in islice(split.chunks(), _MAX_CHUNKS):
        words = rows.word_ids.values
        continues_word = np.zeros(len(words), np.bool_)
        continues_word[1:] = (words[1:] >= 0) & (words[1:] == words[:-1])

        # The first token of a row continues nothing.
        continues_word[rows.word_ids.offsets[:-1][rows.word_ids.lengths > 0]] = False
        if np.isin(rows.input_ids.values[continues_word], ids).any():
            return True
    return False


def encode_words(words: Sequence[str], table: WordTable) -> tuple[Ragged, Ragged]:
    """Encode words as part of pre-split text, like the words of rows.

    Args:
        words: Strings; an empty string has no pieces.
        table: Word table of the tokenizer. New words are added.

    Returns:
        int32, ids of each word without special tokens; and for each id the number of its word
        within the string, numbered as in running text, see `number_words`.
    """
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    non_empty = np.flatnonzero(lengths)

    # The table takes ranges of a line of text, and returns the index of a row for each.
    line = "".join(words)
    chars = np.frombuffer(line.encode("utf-32-le", "surrogatepass"), np.uint32)
    ends = np.cumsum(lengths)[non_empty]
    rows = table.rows(line, chars, np.stack([ends - lengths[non_empty], ends], axis=1))

    counts = np.zeros(len(words), np.int64)
    counts[non_empty] = np.diff(table.offsets)[rows]
    offsets = make_offsets(counts)
    pieces = np.empty((offsets[-1], 4), np.int32)
    gather(rows, table.offsets, table.pieces, offsets[:-1][non_empty], pieces)

    ids = Ragged(np.ascontiguousarray(pieces[:, 0]), offsets)
    word_numbers = Ragged(np.ascontiguousarray(pieces[:, 3]), offsets)
    return ids, word_numbers
