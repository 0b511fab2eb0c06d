"""Write the files beside the weights of a saved model, and upload them."""

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
from mslm_data.io.hub import uploading
from mslm_data.log import LOGGER

_FILE = "tokenizer.json"
_FILES = (_FILE, "vocab.txt", "vocab.json")
"""Of these a folder with a tokenizer has one."""
_KINDS = ("mask", "pad", "unk")
_CARD = "README.md"
_UPLOADED = ("config.json", "model*.safetensors*", _FILE, "tokenizer_config.json")
"""Files of a saved model, beside its card."""
_MESSAGE = "Upload a model adapted by mask-specific language modeling"
UPLOAD_OPTIONS = (
    "private",
    "token",
    "revision",
    "create_pr",
    "commit_message",
    "commit_description",
)
"""Options of `push_to_hub` that are not of `save_pretrained`."""


def as_tokenizer(given: Any) -> Tokenizer:
    """Load a tokenizer from a path, a hub name or a tokenizer of transformers.

    Args:
        given: A tokenizer of this package or a fast one of transformers; or the path of a
            `tokenizer.json` or `vocab.txt`, a folder, or a hub name.

    Raises:
        TokenizerError: It cannot be loaded, or it is not a tokenizer.
    """
    if isinstance(given, Tokenizer):
        return given
    if isinstance(given, str | os.PathLike):
        # A folder's own file has the names of unusual special tokens beside it.
        path = Path(given)
        return tokenizers.load_tokenizer(str(path.parent if path.name == _FILE else given))

    core = getattr(given, "backend_tokenizer", None)
    if core is None:
        raise TokenizerError(
            f"tokenizer: expected a path, a hub name, or a fast tokenizer of transformers, got "
            f"{type(given).__name__}"
        )
    found = {kind: getattr(given, f"{kind}_token", None) for kind in _KINDS}
    names = {kind: str(name) for kind, name in found.items() if name is not None}
    return tokenizers.parse_tokenizer(core.to_str(), names)


def find_tokenizer(model: str | os.PathLike[str]) -> Tokenizer | None:
    """Load the tokenizer in a model's folder; None if there is none.

    Args:
        model: A folder or hub name, "" for none.
    """
    name = str(model)
    folder = Path(name)
    if not name or (folder.is_dir() and not any((folder / file).is_file() for file in _FILES)):
        return None

    try:
        return tokenizers.load_tokenizer(name)
    except TokenizerError as error:
        LOGGER.info("%s", error)
        return None


def check_size(tokenizer: Tokenizer, model: Any) -> None:
    """Check that a model has an embedding for each id of a tokenizer.

    Raises:
        TokenizerError: It has not.
    """
    known = model.get_input_embeddings().num_embeddings
    if tokenizer.ids.size > known:
        raise TokenizerError(
            f"tokenizer: expected at most the {known} ids of the model, got {tokenizer.ids.size}; "
            "pass the tokenizer that the model was trained with, or resize the model's embeddings"
        )


def special_ids(tokenizer: Tokenizer) -> list[int]:
    """Return the special ids that can be in no mention."""
    ids = {*tokenizer.prefix, *tokenizer.suffix, tokenizer.ids.pad}
    return sorted(id_ for id_ in ids if id_ >= 0)


def longest_row(model: nn.Module) -> int | None:
    """Return the maximum number of tokens of a row; None if the model has no limit.

    Families whose positions begin after that of padding have fewer positions than embeddings.
    """
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            before = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - before

    config: Any = model.config
    longest = getattr(config, "max_position_embeddings", None)
    return longest if isinstance(longest, int) and longest > 0 else None


def upload(folder: Path, repo_id: str, options: dict[str, Any]) -> Any:
    """Upload a saved model with its tokenizer and card. A card on the hub is kept.

    The upload of transformers replaces the folder's card by an empty one. Ours may have to say that
    the model learns from patients' text.

    Args:
        folder: Where the model was saved; other files in it stay here.
        repo_id: `OWNER/NAME` on the hub, or `NAME` for the user's own; made if it is missing.
        options: Those of `UPLOAD_OPTIONS`, as in `push_to_hub` of transformers.

    Returns:
        What the hub's client says of the commit.

    Raises:
        PushError: The hub refused, or could not be asked.
    """
    private, token = options.pop("private", None), options.pop("token", None)
    revision = options.get("revision")

    with uploading(repo_id, wanted_by="MslmModel.push_to_hub", token=token) as api:
        made = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        if revision is not None and not revision.startswith("refs/pr"):
            api.create_branch(made, branch=revision, exist_ok=True)
        has_card = api.file_exists(made, _CARD, revision=revision)
        return api.upload_folder(
            repo_id=made,
            folder_path=str(folder),
            allow_patterns=[*_UPLOADED, *([] if has_card else [_CARD])],
            **{"commit_message": _MESSAGE} | options,
        )


def write_tokenizer(folder: Path, tokenizer: Tokenizer, model: nn.Module) -> None:
    """Write a tokenizer in the form that `AutoTokenizer` reads."""
    config = tokenizer.config(max_tokens=longest_row(model))
    write_whole(folder / _FILE, [tokenizer.json.encode()])
    write_whole(folder / "tokenizer_config.json", [canonical_json(config)])


def write_card(folder: Path, config: Any) -> None:
    """Write a model card, unless the folder has one.

    Args:
        folder: Where the model was saved.
        config: The `MslmConfig` of the model.
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
