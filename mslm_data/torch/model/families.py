"""Find the decoder of a masked language model, to project only masked tokens.

Hugging Face has no common attribute for it: `get_output_embeddings` returns another layer in
DeBERTa. Model families that are not listed here can be trained too, but all their positions are
projected to the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from mslm_data.torch.model.loss import Decoder


def _cls(model: Any) -> Decoder:
    return model.cls  # type: ignore[no-any-return]


def _lm_head(model: Any) -> Decoder:
    return model.lm_head  # type: ignore[no-any-return]


def _albert(model: Any) -> Decoder:
    return model.predictions  # type: ignore[no-any-return]


def _electra(model: Any) -> Decoder:
    transform, project = model.generator_predictions, model.generator_lm_head
    return lambda h: project(transform(h))


def _modernbert(model: Any) -> Decoder:
    transform, project = model.head, model.decoder
    return lambda h: project(transform(h))


def _deberta(model: Any) -> Decoder:
    """Return the decoder of DeBERTa.

    Checkpoints from before 2024 are `legacy` and have BERT's head. Others reuse the input
    embeddings.
    """
    if model.legacy:
        return _cls(model)
    predict, words = model.lm_predictions, model.deberta.embeddings.word_embeddings
    return lambda h: predict(h, words)


def _distilbert(model: Any) -> Decoder:
    first, last = model.vocab_transform, model.vocab_projector
    return lambda h: last(model.vocab_layer_norm(model.activation(first(h))))


FAMILIES: Mapping[str, Callable[[Any], Decoder]] = MappingProxyType(
    {
        "albert": _albert,
        "bert": _cls,
        "camembert": _lm_head,
        "deberta": _deberta,
        "deberta-v2": _deberta,
        "distilbert": _distilbert,
        "electra": _electra,
        "modernbert": _modernbert,
        "roberta": _lm_head,
        "xlm-roberta": _lm_head,
    }
)
"""`config.model_type` -> function that returns the decoder."""


def find_decoder(masked_lm: Any) -> Decoder | None:
    """Return a model's decoder, from hidden states `[M, H]` to logits `[M, V]`.

    Returns None if the model family is unknown.

    Raises:
        TypeError: The model has no such head, for example an encoder or a classifier.
    """
    make = FAMILIES.get(masked_lm.config.model_type)
    try:
        return None if make is None else make(masked_lm)
    except AttributeError:
        raise TypeError(
            "MslmModel: expected a masked language model, as loaded by AutoModelForMaskedLM, got "
            f"{type(masked_lm).__name__}, which has no language modelling head"
        ) from None
