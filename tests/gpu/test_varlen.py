"""Attention by torch's kernel for rows of different lengths: its arguments, its results, and the choice of the kernel.

Without a GPU, the kernel's slow twin checks the arguments. With a GPU, the kernel is compared with the twin.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("torch.nn.attention.varlen")

from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

import mslm_data as md  # noqa: E402
from mslm_data.torch import MslmModel  # noqa: E402
from mslm_data.torch.model import varlen  # noqa: E402
from mslm_data.torch.model.by_row import BY_ROW  # noqa: E402
from mslm_data.torch.model.varlen import VARLEN, attention_by_bounds, row_bounds  # noqa: E402
from tests.generate import IDS  # noqa: E402
from tests.gpu.devices import CARD, HAS_CARD, on  # noqa: E402
from tests.torch.families import masked_lm  # noqa: E402
from tests.torch.second_device import second_device  # noqa: E402
from tests.torch.shards import dictionaries, packed_batch  # noqa: E402

B, L, H, D = 2, 12, 3, 16
SEQUENCES = [[0] * 5 + [1] + [2] * 4 + [-1] * 2, [0] * 2 + [1] * 7 + [2] * 3]
"""Two packed rows of three rows each, and padding at the end of the first."""
BOUNDS = [0, 5, 6, 10, 12, 14, 21, 24]


def states(seed: int = 0) -> list[Any]:
    """Return queries, keys and values `[B, H, L, D]`, in memory `[B, L, H, D]` as layers make them."""
    draw = torch.Generator().manual_seed(seed)
    dtype = torch.bfloat16 if HAS_CARD else torch.float32
    made = [torch.randn(B, L, H, D, generator=draw).to(CARD, dtype) for _ in range(3)]
    return [x.requires_grad_().transpose(1, 2) for x in made]


def attended_row_by_row(given: list[Any], scaling: float | None, window: int | None) -> Any:
    """Compute attention row by row in float32, `[B, L, H, D]`."""
    query, key, value = (x.float().transpose(1, 2).reshape(B * L, H, D) for x in given)
    rows = []
    for start, end in pairwise(BOUNDS):
        at = torch.arange(end - start, device=CARD)
        near = (at[:, None] - at[None, :]).abs() < (window or L)
        q, k, v = (x[start:end].transpose(0, 1)[None] for x in (query, key, value))
        found = scaled_dot_product_attention(q, k, v, attn_mask=near, scale=scaling)
        rows.append(found[0].transpose(0, 1))
    return torch.cat(rows).view(B, L, H, D)


def test_row_bounds__include_packed_rows_and_padding() -> None:
    bounds, longest = row_bounds(torch.tensor(SEQUENCES, device=CARD))

    assert bounds.tolist() == BOUNDS
    assert bounds.dtype == torch.int32
    assert bounds.device == CARD
    assert longest == 7


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("scaling", [None, 0.3])
@pytest.mark.parametrize("window", [None, 1, 3])
def test_attention_by_bounds__equals_attention_row_by_row(
    window: int | None, scaling: float | None
) -> None:
    given = states()
    bounds, longest = row_bounds(torch.tensor(SEQUENCES, device=CARD))

    found, weights = attention_by_bounds(
        torch.nn.Identity(),
        *given,
        None,
        scaling=scaling,
        sliding_window=window,
        row_bounds=bounds,
        longest_row=longest,
    )

    assert weights is None
    expected = attended_row_by_row(given, scaling, window)
    near = {"rtol": 0.02, "atol": 0.02} if HAS_CARD else {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(found.float(), expected, **near)

    pull = torch.randn(found.shape, generator=torch.Generator().manual_seed(1)).to(CARD)
    ours, theirs = (torch.autograd.grad((x.float() * pull).sum(), given) for x in (found, expected))
    torch.testing.assert_close(ours, theirs, **near)


def test_attention_by_bounds__call_matches_torchs_declaration() -> None:
    """On the "meta" device, the kernel computes nothing but checks the types of its arguments."""
    given = [torch.empty(B, H, L, D, dtype=torch.bfloat16, device="meta") for _ in range(3)]

    found, _ = attention_by_bounds(
        torch.nn.Identity(),
        *given,
        None,
        scaling=0.3,
        sliding_window=65,
        row_bounds=torch.empty(8, dtype=torch.int32, device="meta"),
        longest_row=7,
    )

    assert found.shape == (B, L, H, D)


def test_attention_by_bounds__refuses_dropout() -> None:
    with pytest.raises(ValueError, match="expected no dropout of attention weights, got"):
        attention_by_bounds(
            torch.nn.Identity(),
            *states(),
            None,
            dropout=0.1,
            row_bounds=torch.tensor(BOUNDS, dtype=torch.int32, device=CARD),
            longest_row=7,
        )


def test_attention_by_bounds__equals_sdpa_for_unpacked_rows() -> None:
    given = states()
    mask = torch.ones(B, 1, L, L, dtype=torch.bool, device=CARD).tril()

    found, _ = attention_by_bounds(torch.nn.Identity(), *given, mask)

    expected = scaled_dot_product_attention(*given, attn_mask=mask).transpose(1, 2)
    torch.testing.assert_close(found, expected)


# Choice of the kernel -----------------------------------------------------------------------------


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
    kernel = varlen.varlen_attn
    longest: list[int] = []

    def counted(*given: Any, **options: Any) -> Any:
        longest.append(given[5])
        return kernel(*given, **options)

    monkeypatch.setattr(varlen, "varlen_attn", counted)
    return longest


def flat(**options: Any) -> dict[str, Any]:
    return packed_batch(dictionaries(), md.strategy("joint"), **({"flat": True} | options))


def mslm(dtype: Any = torch.bfloat16, **options: Any) -> Any:
    given = {"max_position_embeddings": 512, "num_hidden_layers": 2, "pad_token_id": IDS.pad}
    model = MslmModel.wrap(
        masked_lm("bert", **given, **options), labels=["Drug", "Gene"], two_views=False
    )
    return model.to(dtype)


def test_mslm_model__uses_the_kernel_for_packed_rows_on_cuda(
    calls: list[int],
) -> None:
    batch = flat()
    model = mslm()

    def use(device: Any) -> None:
        model.to(device)(**on(device, batch))

    on_cuda(use)

    longest = max(len(row["input_ids"]) for row in dictionaries())
    assert calls == [longest, longest]  # a call per layer
    assert model.masked_lm.config._attn_implementation == "sdpa"


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        pytest.param({"dtype": torch.float32}, {}, id="float32"),
        pytest.param({"attn_implementation": BY_ROW}, {}, id="another attention"),
        pytest.param({}, {"flat": False}, id="padded rows"),
    ],
)
def test_mslm_model__does_not_use_the_kernel_for_other_batches(
    model: dict[str, Any], shape: dict[str, Any], calls: list[int]
) -> None:
    batch = flat(**shape)

    on_cuda(lambda device: mslm(**model).to(device)(**on(device, batch)))

    assert calls == []


@pytest.mark.parametrize(("dropout", "expected"), [(0.0, 2), (0.1, 0)])
def test_mslm_model__attends_by_row_with_attention_dropout(
    dropout: float, expected: int, calls: list[int]
) -> None:
    model = mslm(attention_probs_dropout_prob=dropout).train()
    batch = flat()

    def use(device: Any) -> None:
        model.to(device)(**on(device, batch)).loss.backward()

    on_cuda(use)

    assert len(calls) == expected


@pytest.mark.skipif(not HAS_CARD, reason="autocast of CUDA needs a card")
def test_mslm_model__uses_the_kernel_under_autocast(calls: list[int]) -> None:
    model = mslm(torch.float32).to(CARD)

    with torch.autocast("cuda", torch.bfloat16):
        model(**on(CARD, flat()))

    assert len(calls) == 2


def test_mslm_model__has_no_kernel_on_a_cpu(calls: list[int]) -> None:
    mslm()(**flat())

    assert calls == []


@pytest.mark.skipif(not HAS_CARD, reason="the kernel is compiled around on a card alone")
@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_varlen__compiled_encoders_compute_the_same(family: str) -> None:
    model = masked_lm(family, max_position_embeddings=512, pad_token_id=IDS.pad)
    model = MslmModel.wrap(model, labels=["Drug", "Gene"]).to(CARD, torch.bfloat16)
    batches = [on(CARD, flat()), on(CARD, flat(multiple_of=512)), on(CARD, flat(multiple_of=64))]
    expected = [model(**batch).loss for batch in batches]

    model.masked_lm.base_model.compile()

    torch.testing.assert_close(
        [model(**batch).loss for batch in batches], expected, rtol=0.02, atol=0.02
    )


def test_set_attn_implementation__accepts_its_name() -> None:
    model = masked_lm("bert")

    model.set_attn_implementation(VARLEN)

    assert model.config._attn_implementation == VARLEN
