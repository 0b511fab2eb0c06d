"""The causal detour of the manual: an encoder becomes a decoder of equal weights, and an encoder again."""

from __future__ import annotations

import runpy
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from torch import Tensor
from transformers import ModernBertConfig, ModernBertForMaskedLM

from tests.torch import processes

PROGRAM = runpy.run_path(str(processes.SHOWN / "causal_detour.py"))
as_decoder, as_encoder = PROGRAM["as_decoder"], PROGRAM["as_encoder"]
REACH = 4
"""Tokens that a layer with a window sees to each side."""
LENGTH = 24


@pytest.fixture(scope="module")
def encoder() -> Any:
    torch.manual_seed(0)
    config = ModernBertConfig(
        vocab_size=60,
        hidden_size=32,
        num_hidden_layers=6,
        num_attention_heads=4,
        intermediate_size=64,
        local_attention=2 * REACH,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
        cls_token_id=1,
        sep_token_id=2,
    )
    model = ModernBertForMaskedLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # such that no norm is the identity
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@pytest.fixture(scope="module")
def ids() -> Tensor:
    return torch.randint(3, 60, (2, LENGTH), generator=torch.Generator().manual_seed(1))


def test_map__restores_the_encoder_bit_by_bit(encoder: Any) -> None:
    again = as_encoder(as_decoder(encoder), encoder.config)

    before, after = encoder.state_dict(), again.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert again.config.to_dict() == encoder.config.to_dict()


def test_decoder__is_the_encoder_with_what_stands_behind_hidden(encoder: Any, ids: Tensor) -> None:
    """Also in layers with a window: the encoder gets masks of the places before a token, within its reach."""
    places = torch.arange(LENGTH)
    back = places[:, None] - places[None, :]
    hides = torch.finfo(torch.float32).min
    masks = {
        name: torch.where(sees, 0.0, hides)[None, None].expand(2, 1, -1, -1)
        for name, sees in (
            ("full_attention", back >= 0),
            ("sliding_attention", (back >= 0) & (back <= REACH)),
        )
    }

    with torch.no_grad():
        causal = as_decoder(encoder).eval()(ids, use_cache=False).logits
        hidden = encoder.model(ids, attention_mask=masks)[0]
        expected = encoder.decoder(encoder.head(hidden))

    assert (causal - expected).abs().max() < 1e-5


def test_decoder__looks_ahead_and_sees_nothing(encoder: Any, ids: Tensor) -> None:
    other = ids.clone()
    other[:, LENGTH // 2 :] = 3

    def differs(model: Any) -> bool:
        with torch.no_grad():
            outputs = [model(given).logits[:, : LENGTH // 2] for given in (ids, other)]
        return bool((outputs[0] - outputs[1]).abs().max() > 1e-6)

    assert not differs(as_decoder(encoder).eval())
    assert differs(encoder)
