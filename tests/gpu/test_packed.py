"""Packed rows in encoders, heads and losses on a GPU: equal to single rows, and no row attends to another."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import mslm_data as md  # noqa: E402
from mslm_data.torch import MslmModel, encoder_inputs  # noqa: E402
from mslm_data.torch.model.by_row import BY_ROW  # noqa: E402
from mslm_data.torch.model.varlen import VARLEN  # noqa: E402
from tests.gpu.devices import CARD, HAS_CARD, on  # noqa: E402
from tests.support.cases import long  # noqa: E402
from tests.torch.families import losses_and_gradients  # noqa: E402
from tests.torch.shards import dictionaries, packed_batch  # noqa: E402
from tests.torch.test_packed_models import (  # noqa: E402
    FAMILIES,
    SHAPES,
    model_of,
    rows_of_packed,
)

OTHERS = [family for family in FAMILIES if family not in ("bert", "modernbert")]
ATTENTIONS = [
    *itertools.product(("bert", "modernbert"), ("eager", "sdpa", BY_ROW, VARLEN)),
    *long(*itertools.product(OTHERS, ("eager", "sdpa", BY_ROW, VARLEN))),
]
WIDE = {"hidden_size": 32, "num_attention_heads": 2}

pytestmark = pytest.mark.usefixtures("kernels")


def collated(rows: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    """Return a batch of rows on the GPU, masked with a fixed strategy and seed."""
    return on(CARD, packed_batch(rows, md.strategy("joint", elm=0.5, blm=0.3), **options))


def model_on_card(family: str, attention: str) -> Any:
    """Return a model without dropout, in half precision if a GPU's kernel requires it."""
    dtype = torch.bfloat16 if attention == VARLEN and HAS_CARD else torch.float32
    sizes = {"dim": 32, "n_heads": 2} if family == "distilbert" else WIDE
    return model_of(family, attention, **sizes).to(CARD, dtype)


def assert_near(found: Any, expected: Any) -> None:
    """Compare up to rounding: a GPU sums in another order for each shape."""
    if found.dtype == torch.bfloat16:
        rtol = atol = 0.02
    elif HAS_CARD:
        rtol = atol = 1e-4
    else:
        rtol, atol = 1e-5, 2e-6
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("family", "attention"), ATTENTIONS)
def test_packed__hidden_states_equal_single_rows(family: str, attention: str, shape: str) -> None:
    rows = dictionaries()
    model = model_on_card(family, attention)
    encoder = model.base_model
    packed = collated(rows, **SHAPES[shape])
    with torch.no_grad():
        output = encoder(**encoder_inputs(packed, model))[0]

    # A single row needs no mask, so its attention is the simplest.
    model.set_attn_implementation("sdpa")
    alone = {}
    for row in rows:
        batch = collated([row])
        with torch.no_grad():
            alone[int(batch["keys"][0])] = encoder(**encoder_inputs(batch, model))[0][0]

    found = rows_of_packed(output, packed)
    assert len(found) == len(rows)
    for key, hidden in zip(packed["keys"].tolist(), found, strict=True):
        assert_near(hidden, alone[key])
    assert torch.isfinite(output).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("family", "attention"), ATTENTIONS)
def test_packed__changing_a_row_changes_no_other(family: str, attention: str, shape: str) -> None:
    model = model_on_card(family, attention)
    batch = collated(dictionaries(), **SHAPES[shape])
    changed = {**batch, "input_ids": batch["input_ids"].clone()}
    first = (batch["sequence_ids"][0] == 0).nonzero().flatten()
    changed["input_ids"][0, first] = 7

    with torch.no_grad():
        before = model.base_model(**encoder_inputs(batch, model))[0]
        after = model.base_model(**encoder_inputs(changed, model))[0]

    same = torch.ones_like(batch["input_ids"], dtype=torch.bool)
    same[0, first] = False
    assert torch.equal(before[same], after[same])
    assert not torch.equal(before[~same], after[~same])


@pytest.mark.parametrize("two_views", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("attention", ["sdpa", VARLEN])
@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_packed__losses_and_gradients_equal_padded_rows(
    family: str, attention: str, shape: str, two_views: bool
) -> None:
    rows = dictionaries()
    encoder = model_on_card(family, attention)
    model = MslmModel.wrap(encoder, labels=["Drug", "Gene"], dropout=0.0, special_ids=[0, 1, 2])
    model.config.two_views = two_views

    padded, of_padded = losses_and_gradients(model, collated(rows))
    packed, of_packed = losses_and_gradients(model, collated(rows, **SHAPES[shape]))

    half = encoder.dtype == torch.bfloat16
    torch.testing.assert_close(packed, padded, rtol=0.02 if half else 1e-5, atol=1e-6)
    assert len(of_packed) == len(of_padded) > 10
    for ours, theirs in zip(of_packed, of_padded, strict=True):
        if half:  # single values are sums of terms that nearly cancel
            assert (ours - theirs).norm() <= 0.05 * theirs.norm() + 1e-3
        else:
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=5e-6)
