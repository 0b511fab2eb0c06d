"""Read and write the files beside a saved model's weights: tokenizer and card."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from torch import nn

from mslm_data._version import __version__
from mslm_data.encode import tokenizer as tokenizers
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.errors import TokenizerError
from mslm_data.io.cards import markdown, yaml
from mslm_data.io.files import canonical_json, write_whole

_FILE = "tokenizer.json"
_FILES = (_FILE, "vocab.txt", "vocab.json")
"""Files that hold a tokenizer; a folder with a tokenizer has one of them."""
_KINDS = ("mask", "pad", "unk")
_CARD = "README.md"
_OF_TRANSFORMERS = ("config.json", "generation_config.json", "model*.safetensors*")


def as_tokenizer(tokenizer: Any) -> Tokenizer:
    """Load a tokenizer from a path, a hub name or a tokenizer of transformers.

    Args:
        tokenizer: A tokenizer of this package, or a fast tokenizer of transformers; or the path of
            a `tokenizer.json` or `vocab.txt`, a folder, or a hub name.

    Raises:
        TokenizerError: It cannot be loaded, or has another type.
    """
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    if isinstance(tokenizer, str | os.PathLike):
        # Load the folder of a `tokenizer.json`: its other files name unusual special tokens.
        path = Path(tokenizer)
        return tokenizers.load_tokenizer(str(path.parent if path.name == _FILE else tokenizer))

    core = getattr(tokenizer, "backend_tokenizer", None)
    if core is None:
        raise TokenizerError(
            f"tokenizer: expected a path, a hub name, or a fast tokenizer of transformers, got "
            f"{type(tokenizer).__name__}"
        )
    tokens = {kind: getattr(tokenizer, f"{kind}_token", None) for kind in _KINDS}
    names = {kind: str(token) for kind, token in tokens.items() if token is not None}
    return tokenizers.parse_tokenizer(core.to_str(), names)


def find_tokenizer(model: str | os.PathLike[str]) -> Tokenizer | None:
    """Load the tokenizer beside a model; None if its folder has none.

    Args:
        model: A folder or hub name; "" returns None.

    Raises:
        TokenizerError: The tokenizer cannot be loaded.
    """
    name = str(model)
    folder = Path(name)
    if not name or (folder.is_dir() and not any((folder / file).is_file() for file in _FILES)):
        return None
    return tokenizers.load_tokenizer(name)


def special_ids(tokenizer: Tokenizer) -> list[int]:
    """Return the ids of tokens outside of all mentions: prefix, suffix and padding."""
    ids = {*tokenizer.prefix, *tokenizer.suffix, tokenizer.ids.pad}
    return sorted(id_ for id_ in ids if id_ >= 0)


def longest_row(model: nn.Module) -> int | None:
    """Return the maximum number of tokens of a row; None if the model has no limit."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            # RoBERTa-like families number positions from `padding_idx + 1`.
            first = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - first

    config: Any = model.config
    limit = getattr(config, "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else None


def make_private(folder: Path) -> None:
    """Make the files that transformers has written readable only by their owner."""
    for pattern in _OF_TRANSFORMERS:
        for path in folder.glob(pattern):
            path.chmod(0o600)


def write_tokenizer(folder: Path, tokenizer: Tokenizer, model: nn.Module) -> None:
    """Write a tokenizer in the format of `AutoTokenizer`."""
    config = tokenizer.config(max_tokens=longest_row(model))
    write_whole(folder / _FILE, [tokenizer.json.encode()])
    write_whole(folder / "tokenizer_config.json", [canonical_json(config)])


def write_card(folder: Path, config: Any) -> None:
    """Write a model card, unless the folder has one.

    Args:
        folder: Folder of the saved model.
        config: The model's `MslmConfig`.
    """
    path = folder / _CARD
    if path.exists():
        return

    family, labels = config.masked_lm.model_type, config.labels
    lines = [
        "---",
        "tags:",
        "- mslm",
        f"- {yaml(family)}",
        *(["- token-classification"] if labels else []),
        "---",
        "",
        f"# {markdown(family)}, adapted with mask-specific language modeling",
        "",
    ]
    if config.protected:
        lines += [
            "**Trained on patients' text, and may contain pieces of it. Protect this model as you "
            "protect the notes.**",
            "",
        ]
    lines += [
        f"* Labels: {', '.join(map(markdown, labels)) or 'none'}",
        f"* Weights of the loss: {config.w_elm:.4f} for entities, "
        f"{config.w_blm:.4f} for other words",
        f"* Saved by mslm-data {__version__}",
        "",
        "```python",
        "from mslm_data.torch import MslmModel  # AutoModel knows the model after this import",
        "",
        'model = MslmModel.from_pretrained("this folder")',
        *(['found = model.annotate(["some text"])'] if labels else []),
        'model.save_encoder("another folder")  # the plain encoder, for AutoModel',
        "```",
        "",
    ]
    write_whole(path, ["\n".join(lines).encode()])
