"""Find a model's files, and read its type, labels and digest without torch."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mslm_data.errors import AnnotateError
from mslm_data.io import hub
from mslm_data.io.files import JSON_ERRORS, hash_file
from mslm_data.shard.manifest import NAME as MANIFEST
from mslm_data.torch.predict.schemes import check_has_labels, find_labels, read_tag_names

OURS = "mslm"
"""`model_type` of an `MslmModel`."""
CONFIG = "config.json"
"""Configuration of a model of transformers or of an `MslmModel`."""
_WEIGHTS = "*.safetensors"
_FILES = (_WEIGHTS, "*.json", "vocab.txt", "merges.txt")
"""Files to download from the hub."""
_WANTED_BY = "a model of the hub"


class ModelFiles(NamedTuple):
    """The folder of a model.

    Attributes:
        folder: Path of the folder.
        config: Content of the configuration file.
    """

    folder: Path
    config: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """The `model_type`."""
        return str(self.config["model_type"])

    def labels(self) -> tuple[str, ...]:
        """Return the labels of mentions.

        Raises:
            AnnotateError: The model has no labels.
        """
        if self.kind == OURS:
            labels = tuple(map(str, self.config.get("labels") or ()))
        else:
            id2label = self.config.get("id2label")
            labels = find_labels(read_tag_names(id2label if isinstance(id2label, dict) else {}))
        check_has_labels(labels)
        return labels

    def digest(self) -> str:
        """Return a digest of all files that influence the model's predictions."""
        names = {path.name for pattern in _FILES for path in self.folder.glob(pattern)}
        listing = "".join(f"{name} {hash_file(self.folder / name)}\n" for name in sorted(names))
        return hashlib.sha256(listing.encode()).hexdigest()


def find_model(name: str, *, config: str = CONFIG) -> ModelFiles:
    """Find a model's folder: a path, the hub's cache, or the hub.

    Args:
        name: Folder of an `MslmModel` or of a token-classification model of transformers, or a hub
            name.
        config: Name of the configuration file.

    Raises:
        AnnotateError: The model is missing, or its weights are not safetensors.
    """
    folder = Path(name)
    if not folder.is_dir():
        if folder.exists() or not hub.is_repository_name(name):
            raise AnnotateError(
                f"{name}: expected a model's folder or a hub name, "
                f"{'got a file' if folder.exists() else 'found nothing there'}"
            )
        folder = _find_on_hub(name, config)

    content = _read_config(folder, config)
    if not any(folder.glob(_WEIGHTS)):
        raise AnnotateError(
            f"{folder}: no safetensors weights found; if you trust the model, load it and save it "
            "with save_pretrained"
        )
    return ModelFiles(folder, content)


def _find_on_hub(name: str, config: str) -> Path:
    """Return the folder of a hub model; download its newest version if it is not cached.

    A cached version is used without asking the hub, so that all processes of a build, and a resumed
    build, use the same version.
    """
    with suppress(hub.NotFetchedError):  # not cached
        cached = hub.fetch_files(name, _FILES, wanted_by=_WANTED_BY, only_here=True)
        if (cached / config).is_file() and any(cached.glob(_WEIGHTS)):
            return cached

    try:
        return hub.fetch_files(name, _FILES, wanted_by=_WANTED_BY)
    except hub.NotFetchedError as error:
        raise AnnotateError(
            f"{name}: no such folder, and the hub {error}; pass the path of a model's folder"
        ) from None


def _read_config(folder: Path, name: str) -> Mapping[str, Any]:
    """Read the configuration file of a model."""
    if (folder / MANIFEST).is_file() and not (folder / name).is_file():
        raise AnnotateError(
            f"{folder}: this is a built corpus, not a model; pass the folder of a model that was "
            "trained on it"
        )
    try:
        config = msgspec.json.decode((folder / name).read_bytes())
    except (OSError, *JSON_ERRORS):
        config = None
    has_type = isinstance(config, dict) and isinstance(config.get("model_type"), str)
    if not isinstance(config, dict) or (name == CONFIG and not has_type):
        detail = " that names its model_type" if name == CONFIG else ""
        raise AnnotateError(
            f"{folder}: expected a model's folder with a {name}{detail}, found none; pass what "
            "save_pretrained wrote"
        )
    return config
