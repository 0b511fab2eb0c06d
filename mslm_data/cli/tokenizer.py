"""Opens the tokenizer of a built folder, for showing tokens as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from mslm_data.shard.built_folder import BuiltFolder


def open_tokenizer(shards: BuiltFolder) -> Tokenizer:
    """Load the tokenizer of a built folder.

    Raises:
        ShardError: The folder has none.
        OSError: The file cannot be read.
        TokenizerError: The file is damaged.
    """
    import tokenizers

    from mslm_data.encode.tokenizer import library_errors

    # Read the file here, because errors of the library do not name it.
    path = shards.tokenizer
    data = path.read_bytes()
    with library_errors(f"{path}: expected a tokenizer of the tokenizers library: "):
        return tokenizers.Tokenizer.from_buffer(data)
