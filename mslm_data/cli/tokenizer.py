"""Opens the tokenizer of a built folder, to show tokens as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from mslm_data.loading import Shards


def open_tokenizer(shards: Shards) -> Tokenizer:
    """Return the tokenizer of a built folder.

    Raises:
        OSError: The file cannot be read. The library alone would not name it.
    """
    import tokenizers

    text = shards.tokenizer.read_text(encoding="utf-8")
    return tokenizers.Tokenizer.from_str(text)


def readable(tokenizer: Tokenizer, token: int) -> str:
    """Return a token without the marks of its tokenizer, bytes as characters."""
    text: str = tokenizer.decode([token], skip_special_tokens=False).strip().removeprefix("##")
    return text or str(tokenizer.id_to_token(token))
