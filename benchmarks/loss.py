"""`MaskSpecificLoss` against dense cross-entropy: time and peak memory, forward and backward.

`python -m benchmarks loss`

Dimensions: B sequences, L tokens, H hidden size, V vocabulary size.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.harness import Contestant, Results, Row, in_turn, make_row, same
from benchmarks.inputs import ROOT, Inputs
from mslm_data.mask.plan import MaskKind
from mslm_data.torch import MaskSpecificLoss

B, L, H, V = 16, 128, 384, 30_522
_ENTITY, _ANY = 0.08, 0.15  # shares of tokens masked as part of a mention, and in total
_ROADS = {"hidden": "from hidden states", "logits": "from logits"}


def run(inputs: Inputs, scratch: Path) -> Results:  # noqa: ARG001 - hidden states are random
    """Time a step of the LM head and the loss, and measure peak memory."""
    # First, as a child process starts with the peak of its parent (ru_maxrss).
    peaks = {road: [peak(road) for _ in range(2)] for road in ROADS}

    step = Step()
    for road in _ROADS:
        _check(step, road)

    def stepping(road: str) -> Contestant:
        return Contestant(call=lambda _: step(road), work=1)

    rates = in_turn({road: stepping(road) for road in ROADS}, rounds=5)

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
    return Results(
        rows=rows, inputs=[f"Loss: B = {B}, L = {L}, H = {H}, V = {V}, float32, {masked}"]
    )


class Step:
    """A step of the LM head and the loss by one of `ROADS`. Gradients are allocated in advance."""

    def __init__(self, length: int = L) -> None:
        """Make random hidden states, labels and a head with a fixed seed.

        Args:
            length: Tokens of a sequence. Default: `L`.
        """
        torch.manual_seed(20240)

        self.head = nn.Linear(H, V)
        self.hidden_BLH = torch.randn(B, length, H, requires_grad=True)

        ids_BL = torch.randint(0, V, (B, length))
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
        """Run forward and backward by a key of `ROADS`, and return the loss."""
        for leaf in self.leaves:
            assert leaf.grad is not None  # noqa: S101
            leaf.grad.zero_()

        loss = ROADS[road](self)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()


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
    Step(length=4)(road)

    step = Step()
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


def _pair(measured: dict[str, list[float]], road: str) -> dict[str, list[float]]:
    return {"ours": measured[road], "peer": measured["dense"]}


def _check(step: Step, road: str) -> None:
    """Check that loss and gradients equal those of dense cross-entropy."""
    outcomes = []
    for name in (road, "dense"):
        value = torch.tensor(step(name))
        outcomes.append(
            [value, *(leaf.grad.clone() for leaf in step.leaves if leaf.grad is not None)]
        )

    close = [torch.allclose(a, b, rtol=1e-4, atol=1e-7) for a, b in zip(*outcomes, strict=True)]
    same(f"loss by {road}: value, gradients", close, [True] * (1 + len(step.leaves)))


if __name__ == "__main__":
    _measure(sys.argv[1])
