"""The devices that tests of this folder run on: the graphics card, or what stands for it.

Where torch sees a card, as under `make gpu`, tests run on it. Elsewhere the same tests run on the CPU, or on a
pretended device (tests/torch/second_device.py), and torch's kernel for rows of different lengths has a slow twin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from tests.torch.second_device import second_device

HERE = torch.device("cpu")
HAS_CARD = torch.cuda.is_available()
CARD = torch.device("cuda", 0) if HAS_CARD else HERE
"""The card, or the CPU in its place."""

Compute = Callable[[torch.device], Any]
"""Computes something on a device."""


def second_devices() -> Iterator[AbstractContextManager[torch.device]]:
    """Yield the devices beside the CPU: the card, or a pretended one of NVIDIA and one of Apple."""
    if HAS_CARD:
        yield nullcontext(CARD)
        return
    yield second_device("cuda")
    yield second_device("mps")


def equal_everywhere(compute: Compute) -> None:
    """Check that the tensors and numbers that a function returns are the same on all devices."""
    here = plain(compute(HERE))
    assert here
    # A pretended device computes as the CPU does; a card adds up in another order.
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if HAS_CARD else {}
    for second in second_devices():
        with second as device:
            there = plain(compute(device))

        assert len(here) == len(there)
        for one, other in zip(here, there, strict=True):
            torch.testing.assert_close(one, other, equal_nan=True, **tolerance)


def plain(found: Any) -> list[Any]:
    """Return what a function returned as a flat list, its tensors on the CPU."""
    leaves = torch.utils._pytree.tree_leaves(found)
    return [leaf.detach().cpu() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


def on(device: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    """Move a batch."""
    return {name: tensor.to(device) for name, tensor in arrays.items()}
