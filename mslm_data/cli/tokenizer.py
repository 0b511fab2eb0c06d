"""Opens the tokenizer of a built folder, to show tokens as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from mslm_data.shard.built_folder import BuiltFolder


def open_tokenizer(shards: BuiltFolder) -> Tokenizer:
    """Return the tokenizer of a built folder.

    Raises:
        ShardError: There is none.
        OSError: The file cannot be read. The library alone would not name it.
        TokenizerError: It is damaged.
    """
    import tokenizers

    from mslm_data.encode.tokenizer import library_errors

    path = shards.tokenizer
    data = path.read_bytes()
    with library_errors(f"{path}: expected a tokenizer of the tokenizers library: "):
        return tokenizers.Tokenizer.from_buffer(data)
