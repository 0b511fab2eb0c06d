"""Devices for the tests of this folder: a GPU, or its replacement.

If torch finds a GPU, for example with `make gpu`, tests run on it. Otherwise they run on the CPU or on a simulated
device (tests/torch/second_device.py), with a slow twin of torch's kernel for rows of different lengths.
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
"""The GPU, or the CPU without one."""

Compute = Callable[[torch.device], Any]
"""Computes tensors and numbers on a device."""


def second_devices() -> Iterator[AbstractContextManager[torch.device]]:
    """Yield contexts of devices other than the CPU: the GPU, or simulated "cuda" and "mps"."""
    if HAS_CARD:
        yield nullcontext(CARD)
        return
    yield second_device("cuda")
    yield second_device("mps")


def equal_everywhere(compute: Compute) -> None:
    """Check that a function returns equal tensors and numbers on all devices."""
    here = plain(compute(HERE))
    assert here
    # A simulated device computes like the CPU. A GPU sums in another order.
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if HAS_CARD else {}
    for second in second_devices():
        with second as device:
            there = plain(compute(device))

        assert len(here) == len(there)
        for one, other in zip(here, there, strict=True):
            torch.testing.assert_close(one, other, equal_nan=True, **tolerance)


def plain(found: Any) -> list[Any]:
    """Flatten a result to a list, with its tensors on the CPU."""
    leaves = torch.utils._pytree.tree_leaves(found)
    return [leaf.detach().cpu() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


def on(device: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    """Move a batch to a device."""
    return {name: tensor.to(device) for name, tensor in arrays.items()}
