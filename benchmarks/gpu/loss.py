"""`MaskSpecificLoss.from_hidden` against dense and fused cross-entropies on a GPU.

Dimensions: T tokens, H hidden size, V vocabulary size.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from benchmarks.gpu.part import Numbers, Part
from benchmarks.gpu.scale import Scale
from benchmarks.harness import AbsentError
from mslm_data.mask.plan import MaskKind
from mslm_data.torch import MaskSpecificLoss

HIDDEN, DENSE = "from hidden states", "dense cross-entropy"
_MASKED = 0.15
_ROUNDS = 20
_IGNORED = -100

Loss = Callable[[Tensor, nn.Linear, Tensor], Tensor]
"""Hidden states `[T, H]`, LM head and labels `[T]` -> mean loss of masked tokens."""


def part(scale: Scale, folder: Path) -> Part:  # noqa: ARG001 - hidden states are random
    """Return the part that times head and loss, forward and backward."""
    tokens, width, vocabulary = scale.loss
    step = Step(scale)
    methods: dict[str, Loss] = {
        DENSE: dense,
        HIDDEN: from_hidden,
        "torch's linear_cross_entropy": linear_cross_entropy,
        "Liger's fused linear cross-entropy": liger,
        "Apple's cut cross-entropy": cut_cross_entropy,
    }
    return Part(
        title="Loss",
        about=[
            f"{tokens:,} tokens of {width:,} numbers, {vocabulary:,} words, bfloat16; "
            f"{_MASKED:.0%} of the tokens are masked",
            "peak memory above what hidden states, head and gradients take",
        ],
        runs={name: partial(step, method) for name, method in methods.items()},
        goals={"faster than dense cross-entropy": _faster},
    )


def _faster(rows: Mapping[str, Numbers]) -> tuple[str, bool]:
    times = rows[DENSE]["ms"] / rows[HIDDEN]["ms"]
    return f"{times:.1f}x", times > 1


class Step:
    """A step of the LM head and the loss."""

    def __init__(self, scale: Scale) -> None:
        """Make random hidden states, labels and a head with a fixed seed."""
        tokens, width, vocabulary = scale.loss
        self.device = scale.device
        torch.manual_seed(0)
        half: dict[str, Any] = {"device": self.device, "dtype": torch.bfloat16}
        self.head = nn.Linear(width, vocabulary, **half)
        self.hidden = torch.randn(tokens, width, **half).requires_grad_()
        labels = torch.randint(0, vocabulary, (tokens,), device=self.device)
        masked = torch.rand(tokens, device=self.device) < _MASKED
        self.labels = torch.where(masked, labels, _IGNORED)
        self.expected = float(dense(self.hidden, self.head, self.labels).detach())

    def __call__(self, method: Loss) -> Numbers:
        """Return median time, peak memory, and the relative error against dense cross-entropy."""
        loss = self._go(method)  # warm-up; compiles kernels
        times = [self._timed(method) for _ in range(_ROUNDS)]
        return {
            "ms": 1000 * statistics.median(times),
            "MiB": self._peak(method),
            "off by": abs(loss - self.expected) / self.expected,
        }

    def _go(self, method: Loss) -> float:
        for leaf in (self.hidden, *self.head.parameters()):
            leaf.grad = torch.zeros_like(leaf)
        loss = method(self.hidden, self.head, self.labels)
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def _timed(self, method: Loss) -> float:
        begun = time.perf_counter()
        self._go(method)  # returns a Python float, which synchronises the GPU
        return time.perf_counter() - begun

    def _peak(self, method: Loss) -> float | None:
        if self.device != "cuda":
            return None
        self._go(method)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        self._go(method)
        return (torch.cuda.max_memory_allocated() - before) / 2**20


def dense(hidden: Tensor, head: nn.Linear, labels: Tensor) -> Tensor:
    """Compute the loss from float32 logits of all tokens, like transformers' models."""
    return F.cross_entropy(head(hidden).float(), labels, ignore_index=_IGNORED)


def from_hidden(hidden: Tensor, head: nn.Linear, labels: Tensor) -> Tensor:
    """Compute the loss by `MaskSpecificLoss`, from logits of masked tokens only."""
    kinds = torch.where(labels != _IGNORED, int(MaskKind.BASE), 0).to(torch.uint8)
    loss = MaskSpecificLoss(1, 1).from_hidden(hidden, head, labels, kinds)
    return loss / (labels != _IGNORED).sum()


def linear_cross_entropy(hidden: Tensor, head: nn.Linear, labels: Tensor) -> Tensor:
    """Compute the loss by torch's fused function.

    Raises:
        AbsentError: torch is older than 2.13.
    """
    fused: Any = getattr(F, "linear_cross_entropy", None)
    if fused is None:
        raise AbsentError("this torch has none")
    loss: Tensor = fused(hidden, head.weight, labels, linear_bias=head.bias, ignore_index=_IGNORED)
    return loss


def liger(hidden: Tensor, head: nn.Linear, labels: Tensor) -> Tensor:
    """Compute the loss by liger-kernel."""
    module = _import("liger_kernel.transformers")
    fused: Any = module.LigerFusedLinearCrossEntropyLoss(ignore_index=_IGNORED)
    loss: Tensor = fused(head.weight, hidden, labels, head.bias)
    return loss


def cut_cross_entropy(hidden: Tensor, head: nn.Linear, labels: Tensor) -> Tensor:
    """Compute the loss by cut-cross-entropy."""
    cut: Any = _import("cut_cross_entropy").linear_cross_entropy
    loss: Tensor = cut(hidden, head.weight, labels, bias=head.bias, ignore_index=_IGNORED)
    return loss


def _import(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise AbsentError(f"not installed: {error.name}") from error
