"""Flat rows in encoders, heads and losses: the same results as for single rows, and no row attends to another.

tests/gpu/test_flat.py compares the attention on a GPU with the one here.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

import mslm_data as md  # noqa: E402
from mslm_data.torch import MslmModel, encoder_inputs, perplexity  # noqa: E402
from mslm_data.torch.model.flat import FLAT, attend_within_rows, find_rows  # noqa: E402
from tests import made  # noqa: E402
from tests.generate import IDS  # noqa: E402
from tests.support.cases import long  # noqa: E402
from tests.torch.families import OF_FAMILY, losses_and_gradients, masked_lm  # noqa: E402
from tests.torch.flat import collated, flattened, rows_of  # noqa: E402
from tests.torch.shards import dictionaries  # noqa: E402

REFUSED = ["deberta", "deberta-new", "deberta-v2", "deberta-v2-new", "deberta-v2-conv", "mpnet"]
"""Encoders without arguments that separate flat rows."""
FAMILIES = [*long(*sorted(set(OF_FAMILY) - {*REFUSED, "bert", "modernbert"})), "bert", "modernbert"]


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    """Return rows of 2 to 54 tokens, with mentions of two labels."""
    return dictionaries()


def model_of(family: str, attention: str = FLAT, **options: Any) -> Any:
    # With two layers, a leak in the first reaches all tokens in the second.
    more: dict[str, Any] = {
        "attn_implementation": attention,
        "num_hidden_layers": 2,
        "pad_token_id": IDS.pad,  # RoBERTa-like models give it no position
    }
    if family == "distilbert":
        more["n_layers"] = 2
    if family == "modernbert":
        more |= {"local_attention": 8, "global_attn_every_n_layers": 2}
    return masked_lm(family, **more, **options)


def wrapped(family: str) -> Any:
    """Return a model with heads and special ids, without dropout."""
    return MslmModel.wrap(
        model_of(family, "sdpa"),
        labels=["Drug", "Gene"],
        dropout=0.0,
        special_ids=[id_ for id_ in IDS.special if id_ != IDS.unk],
    )


@pytest.mark.parametrize("two_views", [False, *long(True)])
@pytest.mark.parametrize("family", FAMILIES)
def test_flat__losses_and_gradients_equal_padded_rows(
    family: str, two_views: bool, rows: list[dict[str, Any]]
) -> None:
    model = wrapped(family)
    model.config.two_views = two_views
    batch = collated(rows)

    padded, of_padded = losses_and_gradients(model, batch)
    found, of_flat = losses_and_gradients(model, flattened(batch))

    torch.testing.assert_close(found, padded, rtol=1e-5, atol=1e-6)
    assert len(of_flat) == len(of_padded) > 10
    for ours, theirs in zip(of_flat, of_padded, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("width", [0, *long(1024)])
@pytest.mark.parametrize("family", FAMILIES)
def test_flat__head_outputs_equal_single_rows(
    family: str, width: int, rows: list[dict[str, Any]]
) -> None:
    model = wrapped(family)
    alone = []
    for row in rows:
        batch = collated([row])
        with torch.no_grad():
            output = model(**batch)
        types = output.span_logits[0][batch["span_starts"][0] >= 0]
        found = model.predict(**batch)
        alone.append((output.logits[0], types, found.tags[0], found.mentions()[0]))

    batch = flattened(collated(rows), width)
    with torch.no_grad():
        output = model(**batch)
    found = model.predict(**batch)

    tag_logits, types, tags, mentions = zip(*alone, strict=True)
    near = {"rtol": 1e-5, "atol": 2e-6}
    torch.testing.assert_close(rows_of(output.logits, batch), [*tag_logits], **near)
    torch.testing.assert_close(output.span_logits[0], torch.cat(types), **near)
    assert all(map(torch.equal, rows_of(found.tags, batch), tags))
    assert found.mentions()[: len(rows)] == [*mentions]
    assert any(mentions)


@pytest.mark.parametrize("family", FAMILIES)
def test_flat__changing_a_row_changes_no_other(family: str, rows: list[dict[str, Any]]) -> None:
    model = model_of(family)
    batch = flattened(collated(rows), 640)
    changed = {**batch, "input_ids": batch["input_ids"].clone()}
    first = batch["sequence_ids"][0] == 0
    changed["input_ids"][0, first] = 7

    with torch.no_grad():
        before, after = (model.base_model(**encoder_inputs(b, model))[0] for b in (batch, changed))

    assert torch.equal(before[0, ~first], after[0, ~first])
    assert not torch.equal(before[0, first], after[0, first])
    assert torch.isfinite(before).all()


@pytest.mark.parametrize("family", ["bert", *long("roberta")])
def test_flat__in_a_causal_model_tokens_see_those_before_in_their_row(
    family: str, rows: list[dict[str, Any]]
) -> None:
    model = model_of(family, is_decoder=True, use_cache=False).base_model
    batch = flattened(collated(rows))

    with torch.no_grad():
        found = model(**encoder_inputs(batch, model))[0]
        alone = [model(**encoder_inputs(collated([row]), model))[0][0] for row in rows]

    torch.testing.assert_close(rows_of(found, batch), alone, rtol=1e-5, atol=2e-6)


def test_flat__a_mention_ends_with_its_row(rows: list[dict[str, Any]]) -> None:
    """Also if the tags continue in the next row, without special tokens in between."""
    model = wrapped("bert")
    model.config.special_ids = []
    batch = flattened(collated(rows))
    tags = torch.full_like(batch["input_ids"], 2)  # each token continues a mention of one type
    logits = torch.nn.functional.one_hot(tags, 5).float()
    model.detection.register_forward_hook(lambda *_: logits)

    found = model.predict(**batch)

    spans = [[mention[:2] for mention in row] for row in found.mentions()]
    assert spans == [[(0, len(row["input_ids"]))] for row in rows]


def test_flat__without_encoder_inputs_rows_attend_to_each_other(
    rows: list[dict[str, Any]],
) -> None:
    """The reason for `encoder_inputs`: with unconverted columns, rows attend to each other."""
    model = model_of("bert", "sdpa")
    batch = flattened(collated(rows))
    changed = batch["input_ids"].clone()
    first = batch["sequence_ids"][0] == 0
    changed[0, first] = 7

    with torch.no_grad():
        before, after = (
            model.base_model(ids, position_ids=batch["position_ids"])[0]
            for ids in (batch["input_ids"], changed)
        )

    assert not torch.equal(before[0, ~first], after[0, ~first])


@pytest.mark.long
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_flat__with_gradient_checkpointing_has_the_same_gradients(
    family: str, reentrant: bool, rows: list[dict[str, Any]]
) -> None:
    batch = flattened(collated(rows))
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


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own modules
def test_flat__compiled_models_have_the_same_losses(rows: list[dict[str, Any]]) -> None:
    torch.compiler.reset()
    model = wrapped("bert")
    batches = [flattened(collated(rows[:count])) for count in (5, 9, 12, 11, 10)]
    with torch.no_grad():
        expected = [model(**batch).loss for batch in batches]

        compiled = torch.compile(model, backend="eager", dynamic=True)

        torch.testing.assert_close([compiled(**batch).loss for batch in batches], expected)


def test_flat__batches_of_a_loader_are_those_of_these_tests(tmp_path: Path) -> None:
    made.built(tmp_path / "built")
    train = md.load(tmp_path / "built")["train"]
    options: dict[str, Any] = {"seed": 0, "shuffle": False}
    (found,) = md.Batches(train, "joint", batch_tokens=100_000, flat=True, **options)
    (padded,) = md.Batches(train, "joint", batch_size=len(train), **options)

    tested = flattened({name: torch.from_numpy(np.array(x)) for name, x in padded.items()})

    assert found.keys() == tested.keys()
    for name, x in tested.items():
        assert np.array_equal(found[name], x.numpy()), name
        assert found[name].dtype == x.numpy().dtype, name


# Attention ----------------------------------------------------------------------------------------

HEADS, DEPTH = 3, 16
LENGTHS = [5, 1, 4, 2, 7, 3]
"""Lengths of rows; the last is padding."""


def states(tokens: int = sum(LENGTHS)) -> list[Any]:
    """Return queries, keys and values `[1, H, T, D]`, in memory `[1, T, H, D]` as layers make them."""
    draw = torch.Generator().manual_seed(0)
    made = [torch.randn(1, tokens, HEADS, DEPTH, generator=draw) for _ in range(3)]
    return [x.requires_grad_().transpose(1, 2) for x in made]


def flat_batch(lengths: list[int]) -> dict[str, Any]:
    numbers = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    bounds = torch.tensor(np.cumsum([0, *lengths[:-1]]), dtype=torch.int32)
    return {
        "input_ids": numbers[None],
        "sequence_ids": torch.where(numbers == len(lengths) - 1, -1, numbers)[None],
        "cu_seq_lens_q": bounds,
    }


def attended_row_by_row(
    given: list[Any], scaling: float | None, window: int | None, is_causal: bool
) -> Any:
    """Compute attention row by row, `[1, T, H, D]`."""
    rows = []
    parts = zip(*(x.split(LENGTHS, dim=2) for x in given), strict=True)
    for query, key, value in parts:
        t = torch.arange(query.shape[2])
        distance = t[:, None] - t[None, :]
        seen = distance.abs() < (window or sum(LENGTHS))
        if is_causal:
            seen &= distance >= 0
        rows.append(scaled_dot_product_attention(query, key, value, attn_mask=seen, scale=scaling))
    return torch.cat(rows, dim=2).transpose(1, 2)


class Layer(torch.nn.Module):
    def __init__(self, is_causal: bool = False) -> None:
        super().__init__()
        self.is_causal = is_causal


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("window", [None, 1, 3])
def test_attend_within_rows__equals_attention_row_by_row(
    window: int | None, is_causal: bool, dtype: Any
) -> None:
    given = [x.detach().to(dtype).requires_grad_() for x in states()]
    rows = find_rows(flat_batch(LENGTHS))

    found, weights = attend_within_rows(
        Layer(is_causal), *given, None, scaling=0.3, sliding_window=window, flat_rows=rows
    )

    assert weights is None
    expected = attended_row_by_row(given, 0.3, window, is_causal)
    near = {"rtol": 0.02, "atol": 0.03} if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 5e-6}
    torch.testing.assert_close(found, expected, **near)
    pull = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    ours, theirs = (torch.autograd.grad((x * pull).sum(), given) for x in (found, expected))
    torch.testing.assert_close(ours, theirs, **near)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attend_within_rows__drops_weights(dtype: Any) -> None:
    given = [x.to(dtype) for x in states()]
    rows = find_rows(flat_batch(LENGTHS))

    dropped, _ = attend_within_rows(Layer(), *given, None, dropout=1.0, flat_rows=rows)

    assert dropped.abs().max() == 0


@pytest.mark.parametrize("lengths", [[3], [5, 0, 1, 4, 4, 9, 2], [1] * 9])
def test_find_rows__each_token_is_in_one_group(lengths: list[int]) -> None:
    rows = find_rows(flat_batch(lengths))

    bounds = sorted({*np.cumsum([0, *lengths]).tolist()})
    assert rows.bounds.tolist() == bounds
    assert rows.bounds.dtype == torch.int32
    assert rows.longest == max(lengths)
    found = [
        row[seen].tolist() for group in rows.groups for row, seen in zip(*group[:2], strict=True)
    ]
    assert sorted(found) == [[*range(*pair)] for pair in itertools.pairwise(bounds)]
    for group in rows.groups:
        assert torch.equal(group.places.flatten()[group.inner], group.places[group.is_token])


@pytest.mark.parametrize("family", FAMILIES)
def test_mslm_model__gets_the_same_hidden_states_for_padded_rows(
    family: str, rows: list[dict[str, Any]]
) -> None:
    batch = encoder_inputs(collated(rows), model_of(family))

    with torch.no_grad():
        plain = model_of(family, "sdpa").base_model(**batch)[0]
        found = wrapped(family).encoder()(**batch)[0]

    assert torch.equal(found, plain)


def test_mslm_model__chooses_the_attention_once() -> None:
    sdpa, eager = model_of("bert", "sdpa"), model_of("bert", "eager")

    for model in (sdpa, eager):
        MslmModel.wrap(model)(**collated(dictionaries()))

    assert sdpa.config._attn_implementation == FLAT
    assert eager.config._attn_implementation == "eager"
    assert FLAT not in sdpa.config.to_json_string(use_diff=False)


# Arguments of encoders ----------------------------------------------------------------------------


def test_encoder_inputs__of_padded_rows_are_ids_and_attention_mask(
    rows: list[dict[str, Any]],
) -> None:
    batch = collated(rows)

    inputs = encoder_inputs(batch, masked_lm("deberta-v2", attn_implementation="eager"))

    assert inputs == {name: batch[name] for name in ("input_ids", "attention_mask")}


def test_encoder_inputs__of_a_flat_row_for_flash_attention(rows: list[dict[str, Any]]) -> None:
    """The arguments documented by transformers; FlashAttention itself needs a GPU."""
    batch = flattened(collated(rows))
    model = model_of("roberta", "sdpa")
    model.config._attn_implementation_internal = "flash_attention_2"

    inputs = encoder_inputs(batch, model)

    lengths = [len(row["input_ids"]) for row in rows]
    assert inputs["attention_mask"] is None
    assert inputs["cu_seq_lens_q"].tolist() == np.cumsum([0, *lengths]).tolist()
    assert inputs["cu_seq_lens_k"].dtype == torch.int32
    assert inputs["max_length_q"] == inputs["max_length_k"] == max(lengths)
    assert isinstance(inputs["max_length_q"], int)
    assert torch.equal(inputs["position_ids"], batch["position_ids"] + IDS.pad + 1)

    # Padding forms a row, because kernels leave memory outside rows uninitialised.
    inputs = encoder_inputs(flattened(collated(rows), 1024), model)
    assert inputs["cu_seq_lens_q"].tolist() == [*np.cumsum([0, *lengths]).tolist(), 1024]
    assert inputs["max_length_q"] == inputs["max_length_k"] == 1024 - sum(lengths)


@pytest.mark.parametrize("family", ["deberta", "deberta-v2", "mpnet"])
def test_flat__a_family_is_refused_by_name(family: str, rows: list[dict[str, Any]]) -> None:
    message = f"flat rows: expected an encoder of .*, got '{family}'.*leave out flat=True"
    model = masked_lm(family, attn_implementation="eager")
    batch = flattened(collated(rows))

    with pytest.raises(ValueError, match=message):
        encoder_inputs(batch, model)
    if family != "mpnet":  # which `wrap` itself refuses
        with pytest.raises(ValueError, match=message):
            MslmModel.wrap(model)(**batch)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_encoder_inputs__refuse_an_attention_by_name(
    attention: str, rows: list[dict[str, Any]]
) -> None:
    model = model_of("bert", attention)

    with pytest.raises(
        ValueError, match=rf"got '{attention}'; call model.set_attn_impl.*mslm_flat"
    ):
        encoder_inputs(flattened(collated(rows)), model)


def test_perplexity__refuses_flat_rows(rows: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match=r"perplexity: expected padded rows, got a flat batch"):
        perplexity(wrapped("bert"), [flattened(collated(rows))])
