"""Load a tagger from the files of a model.

A module of its own, since `MslmModel` imports the tagger.
"""

from __future__ import annotations

from typing import Any

import transformers
from safetensors import SafetensorError

from mslm_data._optional import quiet_transformers
from mslm_data.encode.tokenizer import load_tokenizer
from mslm_data.errors import AnnotateError
from mslm_data.torch.model.model import MslmModel
from mslm_data.torch.predict.model_files import OURS, ModelFiles
from mslm_data.torch.predict.tagger import Tagger


def load_tagger(files: ModelFiles) -> Tagger:
    """Load a model and its tokenizer into CPU memory: safetensors only, no pickles, no remote code.

    Raises:
        AnnotateError: transformers cannot load the model safely, or it was not trained for token
            classification.
        TokenizerError: The model has no tokenizer.
    """
    folder = files.folder
    tokenizer = load_tokenizer(str(folder))

    if files.kind == OURS:
        load: Any = MslmModel.from_pretrained
    else:
        load = transformers.AutoModelForTokenClassification.from_pretrained

    try:
        with quiet_transformers():
            model, report = load(
                folder, use_safetensors=True, trust_remote_code=False, output_loading_info=True
            )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise AnnotateError(
            f"{folder}: transformers cannot load it as a token-classification model "
            f"({type(error).__name__})"
        ) from None

    # Weights missing in the files are random, usually those of the classification layer.
    missing = sorted(report["missing_keys"])
    if missing:
        raise AnnotateError(
            f"{folder}: not trained for token classification, the weights {missing[0]} are "
            "missing; train it first"
        )
    return Tagger(model, tokenizer)
