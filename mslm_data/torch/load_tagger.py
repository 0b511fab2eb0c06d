"""Load a tagger from a folder or the hub: safetensors only, no code of others, no pickles."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, NamedTuple

import torch

from mslm_data import _optional
from mslm_data.encode import tokenizer as tokenizers
from mslm_data.errors import AnnotateError
from mslm_data.io import json_once
from mslm_data.io.files import sha256_of
from mslm_data.shard.manifest import NAME as MANIFEST
from mslm_data.torch.tagger import Tagger

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_WANTED = ("*.safetensors", "*.json", "vocab.txt", "merges.txt")
"""Files of a model on the hub that are fetched."""


class Loaded(NamedTuple):
    """A tagger, and a digest of the files that it was loaded from."""

    tagger: Tagger
    digest: str


def load_tagger(name: str) -> Loaded:
    """Load a model and its tokenizer, onto a GPU if there is one.

    Args:
        name: A folder that `MslmModel` saved, or one of a token-classification model of
            transformers, or a hub name.

    Raises:
        AnnotateError: There is no such model, or it needs code or pickles to be loaded.
        TokenizerError: It has no tokenizer.
        MissingExtraError: transformers is not installed.
    """
    transformers: Any = _optional.load("transformers", wanted_by="`mslm-data annotate`")
    folder = _folder(name)
    kind = _kind(folder)
    if not any(folder.glob("*.safetensors")):
        raise AnnotateError(
            f"{folder}: expected weights as safetensors, found none; load the model where you "
            "trust it, and save it with save_pretrained"
        )
    tokenizer = tokenizers.load(str(folder))

    if kind == "mslm":
        from mslm_data.torch.model import MslmModel

        load: Any = MslmModel.from_pretrained
    else:
        load = transformers.AutoModelForTokenClassification.from_pretrained
    from safetensors import SafetensorError

    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    try:
        model, report = load(
            folder, use_safetensors=True, trust_remote_code=False, output_loading_info=True
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise AnnotateError(
            f"{folder}: expected a token-classification model that transformers knows, got "
            f"{type(error).__name__} from it"
        ) from None
    missing = sorted(report["missing_keys"])
    if missing:
        raise AnnotateError(
            f"{folder}: expected a model trained for token classification, got one without "
            f"{missing[0]}; train it first"
        )

    model.to("cuda" if torch.cuda.is_available() else "cpu")
    return Loaded(Tagger(model, tokenizer), _digest(folder))


def _folder(name: str) -> Path:
    """Return a model's folder, fetched from the hub if it is not here."""
    folder = Path(name)
    if folder.is_dir():
        return folder
    if folder.exists() or not _HUB_ID.fullmatch(name):
        raise AnnotateError(
            f"{name}: expected a model's folder or a hub name, "
            f"{'got a file' if folder.exists() else 'found nothing there'}"
        )

    _optional.load("huggingface_hub", wanted_by="a model of the hub")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return Path(snapshot_download(name, allow_patterns=list(_WANTED)))
    except (OSError, ValueError, HfHubHTTPError) as error:
        raise AnnotateError(
            f"{name}: no such folder here, and the hub could not be asked "
            f"({type(error).__name__}); pass the path of a model's folder"
        ) from None


def _kind(folder: Path) -> str:
    """Return the `model_type` of a model's folder."""
    if (folder / MANIFEST).is_file() and not (folder / "config.json").is_file():
        raise AnnotateError(
            f"{folder}: expected a model's folder, got a built corpus; pass the folder of a model "
            "that was trained on it"
        )
    try:
        config = json_once.decode((folder / "config.json").read_bytes())
    except (OSError, *json_once.DECODE_ERRORS):
        config = None
    kind = config.get("model_type") if isinstance(config, dict) else None
    if not isinstance(kind, str):
        raise AnnotateError(
            f"{folder}: expected a model's folder with a config.json that names its model_type, "
            "found none; pass what save_pretrained wrote"
        )
    return kind


def _digest(folder: Path) -> str:
    """Return a digest of the files that decide what a model finds."""
    names = sorted(path.name for wanted in _WANTED for path in folder.glob(wanted))
    every = "".join(f"{name} {sha256_of(folder / name)}\n" for name in names)
    return hashlib.sha256(every.encode()).hexdigest()
