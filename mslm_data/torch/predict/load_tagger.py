"""Load a tagger from a folder or the hub: safetensors only, no code of others, no pickles."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from mslm_data import _optional
from mslm_data.encode import tokenizer as tokenizers
from mslm_data.errors import AnnotateError
from mslm_data.torch.predict.model_files import OURS, ModelFiles, find_model
from mslm_data.torch.predict.tagger import Tagger


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
    _optional.load("transformers", wanted_by="`mslm-data annotate`")
    files = find_model(name)
    tagger = load_files(files)
    tagger.move("cuda" if torch.cuda.is_available() else "cpu")
    return Loaded(tagger, files.digest())


def load_files(files: ModelFiles) -> Tagger:
    """Load a model and its tokenizer into memory; no GPU is looked for.

    Raises:
        AnnotateError: The model needs code or pickles to be loaded, or was not trained to tag.
        TokenizerError: It has no tokenizer.
    """
    import transformers
    from safetensors import SafetensorError

    folder = files.folder
    tokenizer = tokenizers.load(str(folder))

    if files.kind == OURS:
        from mslm_data.torch.model.model import MslmModel

        load: Any = MslmModel.from_pretrained
    else:
        load = transformers.AutoModelForTokenClassification.from_pretrained

    said: Any = transformers.utils.logging
    said.disable_progress_bar()
    said.set_verbosity_error()
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
    return Tagger(model, tokenizer)
