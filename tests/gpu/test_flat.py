"""Flat rows on a GPU: equal to single rows, no row attends to another, and torch's kernel is used where it can be.

Without a GPU, the kernel's slow twin checks the arguments. With a GPU, the kernel is compared with the twin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("torch.nn.attention.varlen")

from mslm_data.torch import MslmModel, encoder_inputs  # noqa: E402
from mslm_data.torch.model import flat  # noqa: E402
from mslm_data.torch.model.flat import attend_within_rows, find_rows  # noqa: E402
from tests.generate import IDS  # noqa: E402
from tests.gpu.devices import CARD, HAS_CARD, on  # noqa: E402
from tests.torch.families import losses_and_gradients, masked_lm  # noqa: E402
from tests.torch.flat import collated, flattened, rows_of  # noqa: E402
from tests.torch.second_device import second_device  # noqa: E402
from tests.torch.shards import dictionaries  # noqa: E402
from tests.torch.test_flat import (  # noqa: E402
    FAMILIES,
    LENGTHS,
    Layer,
    attended_row_by_row,
    flat_batch,
    model_of,
    states,
)

HALF = torch.bfloat16
DTYPES = [torch.float32, *([HALF] if HAS_CARD else [])]
"""With half precision, a GPU uses the kernel; with float32, groups."""
WIDE = {"hidden_size": 32, "num_attention_heads": 2, "dim": 32, "n_heads": 2}
"""The kernel needs heads of a certain size."""

pytestmark = pytest.mark.usefixtures("kernels")


def model_on_card(family: str, dtype: Any, attention: str = "sdpa") -> Any:
    sizes = {
        name: x
        for name, x in WIDE.items()
        if (name in ("dim", "n_heads")) == (family == "distilbert")
    }
    return model_of(family, attention, **sizes).to(CARD, dtype)


def assert_near(found: Any, expected: Any) -> None:
    """Compare up to rounding: a GPU sums in another order for each shape."""
    if found.dtype == HALF:
        rtol = atol = 0.02
    elif HAS_CARD:
        rtol = atol = 1e-4
    else:
        rtol, atol = 1e-5, 2e-6
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_flat__hidden_states_equal_single_rows_without_leaks(family: str, dtype: Any) -> None:
    model = model_on_card(family, dtype)
    flat.use_flat_attention(model)
    batch = on(CARD, flattened(collated(dictionaries()), 640))
    changed = {**batch, "input_ids": batch["input_ids"].clone()}
    first = batch["sequence_ids"][0] == 0
    changed["input_ids"][0, first] = 7
    alone = [on(CARD, collated([row])) for row in dictionaries()]

    def hidden(rows: dict[str, Any]) -> Any:
        with torch.no_grad():
            return model.base_model(**encoder_inputs(rows, model))[0]

    found = hidden(batch)

    for of_row, single in zip(rows_of(found, batch), alone, strict=True):
        assert_near(of_row, hidden(single)[0])
    assert torch.isfinite(found).all()
    assert torch.equal(found[0, ~first], hidden(changed)[0, ~first])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("two_views", [False, True])
@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_flat__losses_and_gradients_equal_padded_rows(
    family: str, two_views: bool, dtype: Any
) -> None:
    encoder = model_on_card(family, dtype)
    model = MslmModel.wrap(encoder, labels=["Drug", "Gene"], dropout=0.0, special_ids=[0, 1, 2])
    model.config.two_views = two_views
    batch = collated(dictionaries())

    padded, of_padded = losses_and_gradients(model, on(CARD, batch))
    found, of_flat = losses_and_gradients(model, on(CARD, flattened(batch)))

    torch.testing.assert_close(found, padded, rtol=0.02 if dtype == HALF else 1e-5, atol=1e-6)
    assert len(of_flat) == len(of_padded) > 10
    for ours, theirs in zip(of_flat, of_padded, strict=True):
        if dtype == HALF:  # single values are sums of terms that nearly cancel
            assert (ours - theirs).norm() <= 0.05 * theirs.norm() + 1e-3
        else:
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=5e-6)


# The kernel ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaling", [None, 0.3])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("window", [None, 1, 3])
def test_kernel__equals_attention_row_by_row(
    window: int | None, is_causal: bool, scaling: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flat, "_has_kernel", lambda query: True)
    dtype = HALF if HAS_CARD else torch.float32
    given = [x.detach().to(CARD, dtype).requires_grad_() for x in states()]
    rows = find_rows(on(CARD, flat_batch(LENGTHS)))

    found, _ = attend_within_rows(
        Layer(is_causal), *given, None, scaling=scaling, sliding_window=window, flat_rows=rows
    )

    here = [x.detach().float().cpu().requires_grad_() for x in given]
    expected = attended_row_by_row(here, scaling, window, is_causal)
    near = {"rtol": 0.02, "atol": 0.02} if HAS_CARD else {"rtol": 1e-5, "atol": 5e-6}
    torch.testing.assert_close(found.float().cpu(), expected, **near)
    pull = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    ours = torch.autograd.grad((found.float() * pull.to(CARD)).sum(), given)
    theirs = torch.autograd.grad((expected * pull).sum(), here)
    torch.testing.assert_close([x.float().cpu() for x in ours], [*theirs], **near)


@pytest.mark.parametrize("is_causal", [False, True])
def test_kernel__call_matches_torchs_declaration(
    is_causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the "meta" device, the kernel computes nothing but checks the types of its arguments."""
    monkeypatch.undo()
    monkeypatch.setattr(flat, "_has_kernel", lambda query: True)
    given = [torch.empty(1, 3, 22, 16, dtype=HALF, device="meta") for _ in range(3)]
    here = find_rows(flat_batch(LENGTHS))
    rows = here._replace(bounds=here.bounds.to("meta"))

    found, _ = attend_within_rows(
        Layer(is_causal), *given, None, scaling=0.3, sliding_window=65, flat_rows=rows
    )

    assert found.shape == (1, 22, 3, 16)


def on_cuda(use: Callable[[Any], None]) -> None:
    """Call a function with the GPU, or with a simulated one."""
    if HAS_CARD:
        use(CARD)
        return
    with second_device("cuda") as device:
        use(device)


@pytest.fixture
def calls(kernels: None, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Length of the longest row in each call of the kernel."""
    kernel = flat.varlen_attn
    longest: list[int] = []

    def counted(*given: Any, **options: Any) -> Any:
        longest.append(given[5])
        return kernel(*given, **options)

    monkeypatch.setattr(flat, "varlen_attn", counted)
    return longest


def mslm(dtype: Any = HALF, **options: Any) -> Any:
    given = {"max_position_embeddings": 512, "num_hidden_layers": 2, "pad_token_id": IDS.pad}
    model = MslmModel.wrap(
        masked_lm("bert", **given, **options), labels=["Drug", "Gene"], two_views=False
    )
    return model.to(dtype)


def padded() -> dict[str, Any]:
    return collated(dictionaries())


def test_mslm_model__uses_the_kernel_for_flat_rows_on_cuda(calls: list[int]) -> None:
    on_cuda(lambda device: mslm().to(device)(**on(device, flattened(padded()))))

    longest = max(len(row["input_ids"]) for row in dictionaries())
    assert calls == [longest, longest]  # a call per layer


@pytest.mark.parametrize(
    ("options", "is_flat"),
    [
        pytest.param({"dtype": torch.float32}, True, id="float32"),
        pytest.param({"attn_implementation": "eager"}, False, id="another attention"),
        pytest.param({}, False, id="padded rows"),
    ],
)
def test_mslm_model__does_not_use_the_kernel_for_other_batches(
    options: dict[str, Any], is_flat: bool, calls: list[int]
) -> None:
    batch = flattened(padded()) if is_flat else padded()

    on_cuda(lambda device: mslm(**options).to(device)(**on(device, batch)))

    assert calls == []


@pytest.mark.parametrize(("dropout", "expected"), [(0.0, 2), (0.1, 0)])
def test_mslm_model__attends_in_groups_with_attention_dropout(
    dropout: float, expected: int, calls: list[int]
) -> None:
    model = mslm(attention_probs_dropout_prob=dropout).train()
    batch = flattened(padded())

    on_cuda(lambda device: model.to(device)(**on(device, batch)).loss.backward())

    assert len(calls) == expected


def test_mslm_model__has_no_kernel_on_a_cpu(calls: list[int]) -> None:
    mslm()(**flattened(padded()))

    assert calls == []


@pytest.mark.skipif(not HAS_CARD, reason="autocast of CUDA needs a card")
def test_mslm_model__uses_the_kernel_under_autocast(calls: list[int]) -> None:
    model = mslm(torch.float32).to(CARD)

    with torch.autocast("cuda", HALF):
        model(**on(CARD, flattened(padded())))

    assert len(calls) == 2


@pytest.mark.skipif(not HAS_CARD, reason="the kernel is compiled around on a card alone")
@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_kernel__compiled_encoders_compute_the_same(family: str) -> None:
    model = masked_lm(family, max_position_embeddings=512, pad_token_id=IDS.pad)
    model = MslmModel.wrap(model, labels=["Drug", "Gene"]).to(CARD, HALF)
    batches = [on(CARD, flattened(padded(), width)) for width in (0, 640, 1024)]
    expected = [model(**batch).loss for batch in batches]

    model.masked_lm.base_model.compile()

    torch.testing.assert_close(
        [model(**batch).loss for batch in batches], expected, rtol=0.02, atol=0.02
    )
