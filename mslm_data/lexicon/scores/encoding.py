"""Load a folder's tokenizer, and encode words from outside, such as those of a table."""

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
"""Characters that stand within words as sources give them, and between those of running text."""
_GOES_ON = "##"
"""Begins the pieces of WordPiece that go on with a word."""
_CHUNKS_LOOKED_AT = 8
"""Of thousands of rows each."""


def load_folder_tokenizer(folder: Path, manifest: Manifest) -> Tokenizer:
    """Load the tokenizer of a built folder, and check its digest.

    Raises:
        TokenizerError: It is not there.
        VocabularyError: Another one is.
    """
    tokenizer = tokenizers.load_tokenizer(str(folder / "tokenizer.json"))
    if tokenizer.digest != manifest.tokenizer["sha256"]:
        raise VocabularyError(
            f"{folder / 'tokenizer.json'}: not the tokenizer that the folder was built with"
        )
    return replace(tokenizer, ids=manifest.token_ids)


def have_given_words(split: Split, tokenizer: Tokenizer) -> bool:
    """Return whether a split has its source's words, so that `IL-2` is a single word.

    Running text is split into words at every such character. The rows themselves are asked, the
    first of a large split, as one source may read both.
    """
    wanted = [
        id_
        for piece, id_ in tokenizer.core.get_vocab(with_added_tokens=False).items()
        if piece.removeprefix(_GOES_ON).startswith(_WITHIN_WORDS)
    ]
    for rows in islice(split.chunks(), _CHUNKS_LOOKED_AT):
        words = rows.word_ids.values
        goes_on = np.zeros(len(words), np.bool_)
        goes_on[1:] = (words[1:] >= 0) & (words[1:] == words[:-1])
        goes_on[rows.word_ids.offsets[:-1][rows.word_ids.lengths > 0]] = False
        if np.isin(rows.input_ids.values[goes_on], wanted).any():
            return True
    return False


def encode_words(words: Sequence[str], table: WordTable) -> tuple[Ragged, Ragged]:
    """Encode words as part of pre-split text, which is how rows are encoded.

    Args:
        words: Any strings; an empty one has no pieces.
        table: Of the tokenizer; filled with the words that are new.

    Returns:
        int32, the ids of each word without special tokens, and for each id the number of its word
        within the string, as running text is numbered; see `number_words`.
    """
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    given = np.flatnonzero(lengths)

    # The table takes words as ranges of one line of text, and returns a row of its own for each.
    line = "".join(words)
    chars = np.frombuffer(line.encode("utf-32-le", "surrogatepass"), np.uint32)
    ends = np.cumsum(lengths)[given]
    rows = table.rows(line, chars, np.stack([ends - lengths[given], ends], axis=1))

    counts = np.zeros(len(words), np.int64)
    counts[given] = np.diff(table.offsets)[rows]
    offsets = make_offsets(counts)
    pieces = np.empty((offsets[-1], 4), np.int32)
    gather(rows, table.offsets, table.pieces, offsets[:-1][given], pieces)

    ids = Ragged(np.ascontiguousarray(pieces[:, 0]), offsets)
    word_numbers = Ragged(np.ascontiguousarray(pieces[:, 3]), offsets)
    return ids, word_numbers
