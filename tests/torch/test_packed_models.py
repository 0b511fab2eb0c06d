"""Packed rows in models, heads and metrics: the same results as for single rows, without leaks between rows.

tests/gpu/test_packed.py tests the attentions, which differ between CPU and GPU.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import mslm_data as md  # noqa: E402
from mslm_data.torch import MslmModel, encoder_inputs, perplexity  # noqa: E402
from tests.generate import IDS  # noqa: E402
from tests.torch.families import OF_FAMILY, losses_and_gradients, masked_lm  # noqa: E402
from tests.torch.shards import dictionaries, packed_batch  # noqa: E402

pytestmark = pytest.mark.long

NOT_TOLD = ["deberta", "deberta-new", "deberta-v2", "deberta-v2-new", "deberta-v2-conv", "mpnet"]
"""Encoders without an argument that separates packed rows. `MslmModel` unpacks the rows for them."""
FAMILIES = sorted(set(OF_FAMILY) - set(NOT_TOLD))
SHAPES: dict[str, dict[str, Any]] = {"flat": {"flat": True}}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """Return rows of 2 to 54 tokens, with mentions of two labels."""
    return dictionaries()


def collated(rows: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    """Return a batch of rows, masked with a fixed strategy and seed."""
    return packed_batch(rows, md.strategy("joint", elm=0.5, blm=0.3), **options)


def model_of(family: str, attention: str, **options: Any) -> Any:
    # With two layers, a leak in the first reaches all tokens in the second.
    more: dict[str, Any] = {
        "attn_implementation": attention,
        "num_hidden_layers": 2,
        "pad_token_id": IDS.pad,  # RoBERTa-like models give it no position
    }
    if family.startswith("deberta"):
        more["max_relative_positions"] = 64
    if family == "distilbert":
        more["n_layers"] = 2
    if family == "modernbert":
        more |= {"local_attention": 8, "global_attn_every_n_layers": 2}
    return masked_lm(family, **more, **options)


def wrapped(family: str, attention: str = "sdpa") -> Any:
    """Return a model with heads and special ids, without dropout."""
    if family not in FAMILIES:
        attention = "eager"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mpnet's head is unknown to us
        return MslmModel.wrap(
            model_of(family, attention),
            labels=["Drug", "Gene"],
            dropout=0.0,
            special_ids=[id_ for id_ in IDS.special if id_ != IDS.unk],
        )


def rows_of_packed(x: Any, batch: dict[str, Any]) -> list[Any]:
    """Split packed `[B, L, ...]` tensors into one tensor per row, in the order of the batch's keys."""
    found = []
    for line, numbers in enumerate(batch["sequence_ids"]):
        found += [x[line][numbers == n] for n in range(int(numbers.max()) + 1)]
    return found


@pytest.mark.parametrize("two_views", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("family", sorted(OF_FAMILY))
def test_packed__losses_and_gradients_equal_padded_rows(
    family: str, shape: str, two_views: bool, rows: list[dict[str, Any]]
) -> None:
    model = wrapped(family)
    model.config.two_views = two_views

    padded, of_padded = losses_and_gradients(model, collated(rows))
    packed, of_packed = losses_and_gradients(model, collated(rows, **SHAPES[shape]))

    torch.testing.assert_close(packed, padded, rtol=1e-5, atol=1e-6)
    assert len(of_packed) == len(of_padded) > 10
    for ours, theirs in zip(of_packed, of_padded, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("family", sorted(OF_FAMILY))
def test_packed__head_outputs_equal_single_rows(
    family: str, shape: str, rows: list[dict[str, Any]]
) -> None:
    model = wrapped(family)
    packed = collated(rows, **SHAPES[shape])
    alone = {}
    for row in rows:
        batch = collated([row])
        with torch.no_grad():
            output = model(**batch)
        types = output.span_logits[0][batch["span_starts"][0] >= 0]
        found = model.predict(**batch)
        alone[int(batch["keys"][0])] = output.logits[0], types, found.tags[0], found.mentions()

    with torch.no_grad():
        output = model(**packed)
    found = model.predict(**packed)

    # A packed row has the mentions of its rows in order.
    keys = packed["keys"].tolist()
    types = iter(output.span_logits[packed["span_starts"] >= 0])
    for key, tag_logits, tags, mentions in zip(
        keys,
        rows_of_packed(output.logits, packed),
        rows_of_packed(found.tags, packed),
        found.mentions(),
        strict=True,
    ):
        of_tags, of_types, of_tokens, (of_mentions,) = alone[key]
        torch.testing.assert_close(tag_logits, of_tags, rtol=1e-5, atol=2e-6)
        for logits in of_types:
            torch.testing.assert_close(next(types), logits, rtol=1e-5, atol=2e-6)
        assert torch.equal(tags, of_tokens)
        assert mentions == of_mentions
    assert next(types, None) is None
    assert any(mentions for *_, mentions in alone.values())


@pytest.mark.parametrize("shape", SHAPES)
def test_packed__a_mention_ends_with_its_row(shape: str, rows: list[dict[str, Any]]) -> None:
    """Also if the tags continue in the next row, without special tokens in between."""
    model = wrapped("bert")
    model.config.special_ids = []
    batch = collated(rows, **SHAPES[shape])
    tags = torch.full_like(
        batch["input_ids"], 2
    )  # every token continues a mention of the first type
    logits = torch.nn.functional.one_hot(tags, 5).float()
    model.detection.register_forward_hook(lambda *_: logits)

    found = model.predict(**batch)

    spans = [[mention[:2] for mention in row] for row in found.mentions()]
    lengths = {int(row["key"]): len(row["input_ids"]) for row in rows}
    keys = [key & (2**64 - 1) for key in batch["keys"].tolist()]
    assert spans == [[(0, lengths[key])] for key in keys]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("family", sorted(OF_FAMILY))
def test_perplexity__of_packed_rows_equals_single_rows(
    family: str, shape: str, rows: list[dict[str, Any]]
) -> None:
    model = wrapped(family)
    alone = perplexity(model, [collated([row]) for row in rows])

    packed = perplexity(model, [collated(rows, **SHAPES[shape])])

    assert packed["tokens"] == alone["tokens"] > 20
    assert packed["loss"] == pytest.approx(alone["loss"], rel=1e-6)


def test_perplexity__refuses_packed_rows_for_other_models(
    rows: list[dict[str, Any]],
) -> None:
    def model(input_ids: Any, attention_mask: Any) -> Any:
        return torch.zeros((*input_ids.shape, 100))

    with pytest.raises(
        ValueError, match="perplexity: in a function packed rows would attend to each other; make"
    ):
        perplexity(model, [collated(rows, flat=True)])


def test_packed__without_encoder_inputs_rows_attend_to_each_other(
    rows: list[dict[str, Any]],
) -> None:
    """The reason for `encoder_inputs`: with unconverted columns, rows attend to each other."""
    model = model_of("bert", "sdpa")
    batch = collated(rows, flat=True)
    changed = batch["input_ids"].clone()
    first = batch["sequence_ids"][0] == 0
    changed[0, first] = 7

    with torch.no_grad():
        before, after = (
            model.base_model(ids, position_ids=batch["position_ids"])[0]
            for ids in (batch["input_ids"], changed)
        )

    assert not torch.equal(before[0, ~first], after[0, ~first])


def test_encoder_inputs__of_padded_rows_are_ids_and_attention_mask(
    rows: list[dict[str, Any]],
) -> None:
    batch = collated(rows)

    inputs = encoder_inputs(batch, model_of("deberta-v2", "eager"))

    assert inputs == {name: batch[name] for name in ("input_ids", "attention_mask")}


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_packed__with_gradient_checkpointing_has_the_same_gradients(
    family: str, reentrant: bool, rows: list[dict[str, Any]]
) -> None:
    batch = collated(rows, flat=True)
    weights = []
    for checkpointing in (False, True):
        torch.manual_seed(0)
        model = wrapped(family)
        if checkpointing:
            name = "activation_checkpointing_enable"
            getattr(model, name, model.gradient_checkpointing_enable)({"use_reentrant": reentrant})
        model.train()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        # The backward pass computes the layers again, when the forward pass is over.
        model(**batch).loss.backward()
        weights.append({n: p.grad for n, p in model.named_parameters() if p.grad is not None})

    torch.testing.assert_close(*weights)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own modules
def test_packed__compiled_models_have_the_same_losses(rows: list[dict[str, Any]]) -> None:
    torch.compiler.reset()
    model = wrapped("bert")
    batches = [collated(rows[:count], flat=True) for count in (5, 9, 12, 11, 10)]
    with torch.no_grad():
        expected = [model(**batch).loss for batch in batches]

        compiled = torch.compile(model, backend="eager", dynamic=True)

        torch.testing.assert_close([compiled(**batch).loss for batch in batches], expected)


def test_encoder_inputs__of_a_flat_row_for_flash_attention(rows: list[dict[str, Any]]) -> None:
    """The arguments documented by transformers; FlashAttention itself needs a GPU."""
    batch = collated(rows, flat=True)
    model = model_of("bert", "sdpa")
    model.config._attn_implementation_internal = "flash_attention_2"

    inputs = encoder_inputs(batch, model)

    lengths = [len(row["input_ids"]) for row in rows]
    assert inputs["attention_mask"] is None
    assert inputs["cu_seq_lens_q"].tolist() == np.cumsum([0, *lengths]).tolist()
    assert inputs["cu_seq_lens_k"].dtype == torch.int32
    assert inputs["max_length_q"] == inputs["max_length_k"] == max(lengths)
    assert isinstance(inputs["max_length_q"], int)
    assert inputs["position_ids"].tolist() == batch["position_ids"].tolist()

    # Padding forms a row, because kernels leave memory outside rows uninitialised.
    wide = collated(rows, flat=True, multiple_of=1024)
    inputs = encoder_inputs(wide, model)
    assert inputs["cu_seq_lens_q"].tolist() == [*np.cumsum([0, *lengths]).tolist(), 1024]
    assert inputs["max_length_q"] == inputs["max_length_k"] == 1024 - sum(lengths)


@pytest.mark.parametrize("family", ["deberta", "deberta-v2", "mpnet"])
def test_encoder_inputs__refuse_a_family_by_name(family: str, rows: list[dict[str, Any]]) -> None:
    message = f"packed rows: expected an encoder of .*, got '{family}'.*use MslmModel"

    with pytest.raises(ValueError, match=message):
        encoder_inputs(collated(rows, flat=True), model_of(family, "eager"))


def test_encoder_inputs__refuse_an_attention_by_name(rows: list[dict[str, Any]]) -> None:
    model = model_of("bert", "sdpa")
    model.config._attn_implementation_internal = "another"

    with pytest.raises(ValueError, match="got 'another'; load it with attn_implementation"):
        encoder_inputs(collated(rows, flat=True), model)
