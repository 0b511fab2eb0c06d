"""`MaskSpecificLoss` against dense cross-entropy: time and peak memory, forward and backward.

And `weighted_loss` of a decoder with a large vocabulary, against the loss of transformers and the
fused one of torch.

`python -m benchmarks loss`

Dimensions: B sequences, L tokens, H hidden size, V vocabulary size.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import cross_entropy

from benchmarks.harness import Contestant, Results, Row, in_turn, left_out, make_row, same
from benchmarks.inputs import ROOT, Inputs
from mslm_data.mask.plan import MaskKind
from mslm_data.torch import MaskSpecificLoss, weighted_loss

B, L, H, V = 16, 128, 384, 30_522
_WORDS = 128_000  # vocabulary of the decoder
_ENTITY, _ANY = 0.08, 0.15  # shares of tokens masked as part of a mention, and in total
_ROADS = {"hidden": "from hidden states", "logits": "from logits"}


def run(inputs: Inputs, scratch: Path) -> Results:  # noqa: ARG001 - hidden states are random
    """Time a step of the LM head and the loss, and measure peak memory."""
    # First, as a child process starts with the peak of its parent (ru_maxrss).
    roads = [road for road in (*ROADS, *CAUSAL) if road != "fused" or _HAS_FUSED]
    peaks = {road: [peak(road) for _ in range(2)] for road in roads}

    step = Step()
    for road in _ROADS:
        _check(step, road, "dense")
    rates = _rates(step, ROADS, rounds=5)

    rows = []
    for road, caption in _ROADS.items():
        what = (
            f"`MaskSpecificLoss` {caption}, forward and backward, the head's projection included, "
            "both weights 1; the peer is the head and `cross_entropy(ignore_index=-100)` over all "
            "positions. Values and gradients were equal."
        )
        rows.append(make_row(f"loss {caption}", _pair(rates, road), unit="steps", what=what))
        rows.append(_memory(f"loss {caption}, peak memory", _pair(peaks, road), what))
    masked = f"{step.masked} of {B * L} tokens masked"
    del step

    rows += _causal_rows(peaks)
    return Results(
        rows=rows,
        inputs=[
            f"Loss: B = {B}, L = {L}, H = {H}, V = {V}, float32, {masked}",
            f"Causal loss: B = {B}, L = {L}, H = {H}, V = {_WORDS}, float32",
        ],
    )


def _causal_rows(peaks: Mapping[str, list[float]]) -> list[Row]:
    """Time `weighted_loss` and its peers at a large vocabulary."""
    step = CausalStep()
    peers = {"transformers": "`ForCausalLMLoss` of transformers on the logits of all positions"}
    rows = []
    if _HAS_FUSED:
        peers["fused"] = "`linear_cross_entropy` of torch, in chunks of its choice"
    else:
        rows.append(left_out("causal loss beside torch", "torch is older than 2.13"))
    for peer in peers:
        _check(step, "weighted", peer)
    rates = _rates(step, ["weighted", *peers], rounds=3)

    for peer, theirs in peers.items():
        name = f"causal loss beside {'torch' if peer == 'fused' else peer}"
        what = (
            "`weighted_loss` from hidden states, forward and backward, the head's projection "
            f"included, all weights 1; the peer is the head and {theirs}. Values and gradients "
            "were equal."
        )
        rows.append(make_row(name, _pair(rates, "weighted", peer), unit="steps", what=what))
        rows.append(_memory(f"{name}, peak memory", _pair(peaks, "weighted", peer), what))
    return rows


def _rates(step: Step, roads: Iterable[str], *, rounds: int) -> dict[str, list[float]]:
    def stepping(road: str) -> Contestant:
        return Contestant(call=lambda _: step(road), work=1)

    return in_turn({road: stepping(road) for road in roads}, rounds=rounds)


class Step:
    """A step of the LM head and the loss by one of `ROADS`. Gradients are allocated in advance."""

    words = V

    def __init__(self, length: int = L) -> None:
        """Make random hidden states, labels and a head with a fixed seed.

        Args:
            length: Tokens of a sequence. Default: `L`.
        """
        torch.manual_seed(20240)

        self.head = nn.Linear(H, self.words)
        self.hidden_BLH = torch.randn(B, length, H, requires_grad=True)

        ids_BL = torch.randint(0, self.words, (B, length))
        draws_BL = torch.rand(B, length)
        self.kinds_BL = torch.zeros(B, length, dtype=torch.uint8)
        self.kinds_BL[draws_BL < _ANY] = int(MaskKind.BASE)
        self.kinds_BL[draws_BL < _ENTITY] = int(MaskKind.ENTITY)
        self.labels_BL = torch.where(self.kinds_BL > 0, ids_BL, -100)

        self.loss = MaskSpecificLoss(1, 1)
        self.leaves = [self.hidden_BLH, *self.head.parameters()]
        for leaf in self.leaves:
            leaf.grad = torch.zeros_like(leaf)

    @property
    def masked(self) -> int:
        """Number of masked tokens."""
        return int((self.labels_BL != -100).sum())

    def __call__(self, road: str) -> float:
        """Run forward and backward by a key of `ROADS` or `CAUSAL`, and return the loss."""
        for leaf in self.leaves:
            assert leaf.grad is not None  # noqa: S101
            leaf.grad.zero_()

        loss = (ROADS | CAUSAL)[road](self)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()


class CausalStep(Step):
    """A step by one of `CAUSAL`: each token but the first of a sequence is predicted."""

    words = _WORDS

    def __init__(self, length: int = L) -> None:
        """Make random hidden states, labels and a head with a fixed seed; see `Step`."""
        super().__init__(length)
        self.labels_BL = torch.randint(0, self.words, (B, length))
        self.labels_BL[:, 0] = -100


def _hidden(step: Step) -> Tensor:
    loss = step.loss.from_hidden(step.hidden_BLH, step.head, step.labels_BL, step.kinds_BL)
    return loss / (step.labels_BL != -100).sum()


def _logits(step: Step) -> Tensor:
    loss: Tensor = step.loss(step.head(step.hidden_BLH), step.labels_BL, step.kinds_BL)
    return loss / (step.labels_BL != -100).sum()


def _dense(step: Step) -> Tensor:
    logits_BLV = step.head(step.hidden_BLH)
    return cross_entropy(logits_BLV.flatten(0, 1), step.labels_BL.flatten(), ignore_index=-100)


ROADS: dict[str, Callable[[Step], Tensor]] = {"hidden": _hidden, "logits": _logits, "dense": _dense}


def _weighted(step: Step) -> Tensor:
    weights_BL = torch.ones_like(step.labels_BL, dtype=torch.float32)
    loss = weighted_loss(
        step.hidden_BLH, step.labels_BL, weights_BL, decoder=step.head, causal=True
    )
    return loss / (step.labels_BL != -100).sum()


def _transformers(step: Step) -> Tensor:
    from transformers.loss.loss_utils import ForCausalLMLoss

    loss: Tensor = ForCausalLMLoss(step.head(step.hidden_BLH), step.labels_BL, step.words)
    return loss


def _fused(step: Step) -> Tensor:
    fused: Any = functional.linear_cross_entropy
    options = torch.nn.LinearCrossEntropyOptions()
    hidden_NH, labels_N = step.hidden_BLH[:, :-1].flatten(0, 1), step.labels_BL[:, 1:].flatten()
    loss: Tensor = fused(
        hidden_NH, step.head.weight, labels_N, linear_bias=step.head.bias, options=options
    )
    return loss


CAUSAL: dict[str, Callable[[Step], Tensor]] = {
    "weighted": _weighted,
    "transformers": _transformers,
    "fused": _fused,
}
_HAS_FUSED = hasattr(functional, "linear_cross_entropy")


def peak(road: str) -> float:
    """Return the peak memory of a step in MiB, above that of its process before the step."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.loss", road],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    return float(done.stdout)


def _measure(road: str) -> None:
    """Print the peak of a step. A small step first starts threads and fills caches."""
    make = CausalStep if road in CAUSAL else Step
    make(length=4)(road)

    step = make()
    before = _peak()
    step(road)
    print(_peak() - before)


def _peak() -> float:
    """Return the peak memory of this process in MiB (ru_maxrss is KiB on Linux, bytes on macOS)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        2**10 if sys.platform != "darwin" else 2**20
    )


def _memory(name: str, peaks: dict[str, list[float]], what: str) -> Row:
    return make_row(
        name,
        peaks,
        unit="MiB",
        what=f"{what} Memory above what the process had before: less is better.",
    )


def _pair(
    measured: Mapping[str, list[float]], road: str, peer: str = "dense"
) -> dict[str, list[float]]:
    return {"ours": measured[road], "peer": measured[peer]}


def _check(step: Step, road: str, peer: str) -> None:
    """Check that loss and gradients equal those of a peer."""
    outcomes = []
    for name in (road, peer):
        value = torch.tensor(step(name))
        outcomes.append(
            [value, *(leaf.grad.clone() for leaf in step.leaves if leaf.grad is not None)]
        )

    close = [torch.allclose(a, b, rtol=1e-4, atol=1e-7) for a, b in zip(*outcomes, strict=True)]
    same(f"loss by {road} and {peer}: value, gradients", close, [True] * (1 + len(step.leaves)))


if __name__ == "__main__":
    _measure(sys.argv[1])
