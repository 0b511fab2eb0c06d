"""Find the decoder of a masked language model, to project only masked tokens.

Hugging Face has no common attribute for it: `get_output_embeddings` is only the last layer of most
heads, and another one in DeBERTa. Families that are not listed here can be wrapped if it is the
whole head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from mslm_data.torch.model.forward import evaluating
from mslm_data.torch.model.loss import Decoder

_ROW = 8
"""Tokens of the rows with which the head of an unlisted family is checked."""


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


def find_decoder(masked_lm: Any) -> Decoder:
    """Return a model's decoder, from hidden states `[M, H]` to logits `[M, V]`."""
    make = FAMILIES.get(masked_lm.config.model_type)
    decoder: Decoder = masked_lm.get_output_embeddings() if make is None else make(masked_lm)
    return decoder


def check_decoder(masked_lm: Any) -> None:
    """Check that a model has a language modeling head, and that the decoder is all of it.

    Raises:
        TypeError: The model has no such head, for example an encoder or a classifier.
        ValueError: The family is not listed, and its head has more layers.
    """
    try:
        decoder = find_decoder(masked_lm)
    except AttributeError:
        decoder = None
    if decoder is None:
        raise TypeError(
            "MslmModel: expected a masked language model, as loaded by AutoModelForMaskedLM, got "
            f"{type(masked_lm).__name__}, which has no language modelling head"
        )

    family = masked_lm.config.model_type
    if family not in FAMILIES and not _gives_own_logits(masked_lm, decoder):
        raise ValueError(
            f"MslmModel: expected one of the model families {', '.join(FAMILIES)}, or one whose "
            f"head is a single layer, got '{family}'; compute the loss with MaskSpecificLoss"
        )


def _gives_own_logits(masked_lm: Any, decoder: Decoder) -> bool:
    """Return whether the decoder gives the model's own logits, on two rows."""
    ids_N = torch.arange(2 * _ROW, device=masked_lm.device) % masked_lm.config.vocab_size
    ids_BL = ids_N.view(2, _ROW)

    with evaluating(masked_lm), torch.no_grad():
        logits_BLV = decoder(masked_lm.base_model(input_ids=ids_BL)[0])
        own_BLV = masked_lm(input_ids=ids_BL).logits
    return logits_BLV.shape == own_BLV.shape and torch.allclose(logits_BLV, own_BLV, atol=1e-3)
