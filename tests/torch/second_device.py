"""A simulated second device, for machines without a GPU.

Code that mixes devices works on a machine with only a CPU, and fails on a GPU. Here it fails too: all tensors are in
CPU memory, but moves between devices are recorded, tensors report their device, and functions reject tensors of both
devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

HERE = torch.device("cpu")

_CROSSES = {"aten::copy_"}
"""Functions that take tensors of both devices."""
_INDEXES = {"aten::index", "aten::index_put_"}
"""Functions that take indices on the CPU for a tensor on any device."""
_TO_NUMPY = {"numpy", "__array__"}


@contextmanager
def second_device(kind: str = "cuda") -> Iterator[torch.device]:
    """Let `to(device)` move tensors and modules to another device, as far as code can tell.

    Args:
        kind: Name of the device. No real GPU is used. "mps", of Apple's processors, has no float64.

    Yields:
        The device.

    Raises:
        RuntimeError: Within the block, a function gets tensors of both devices.
        TypeError: Within the block, a tensor of the device is converted to an array, or to float64 on "mps".
    """
    there = _There(torch.device(kind, 0))
    with _Computing(there), _Calling(there):
        yield there.device


class _There:
    """The memory of the second device.

    Attributes:
        device: The device.
        creates: Whether tensors created without inputs belong to the device. True within a function with arguments on
            the device.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        # A weak reference prevents that another storage gets the same address.
        self._held: dict[int, StorageWeakRef] = {}
        self.creates = False

    def holds(self, tensor: Tensor) -> bool:
        return address(tensor) in self._held

    def keep(self, tensor: Tensor) -> None:
        if self.device.type == "mps" and tensor.dtype == torch.float64:
            raise TypeError("mps: expected no float64, which it lacks")
        self._held[address(tensor)] = StorageWeakRef(tensor.untyped_storage())

    def find_device(self, tensor: Tensor) -> torch.device:
        return self.device if self.holds(tensor) else tensor.device


class _Computing(TorchDispatchMode):
    """Intercepts all operations, including those of gradients; these must not mix devices."""

    def __init__(self, there: _There) -> None:
        super().__init__()
        self._there = there

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = tensors((args, kwargs))
        name = func._schema.name
        # A CPU tensor without dimensions may be an argument on any device.
        weighing = [tensor for tensor in given if tensor.dim()] or given
        if name in _INDEXES:
            weighing = given[:1]
        devices = {self._there.find_device(tensor) for tensor in weighing}
        if len(devices) > 1 and name not in _CROSSES:
            raise RuntimeError(f"{name}: expected tensors of one device, got {devices}")

        made = func(*args, **(kwargs or {}))
        if self._there.device in devices or (not given and self._there.creates):
            old = {address(tensor) for tensor in given}
            for tensor in tensors(made):
                if address(tensor) not in old:
                    self._there.keep(tensor)
        return made


class _Calling(TorchFunctionMode):
    """Intercepts all calls from Python; replaces those that name devices."""

    def __init__(self, there: _There) -> None:
        super().__init__()
        self._there = there

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "__get__" and func.__self__ is Tensor.device:
            return self._there.find_device(args[0])
        if name == "__get__" and func.__self__ is Tensor.is_cuda:
            return self._there.find_device(args[0]).type == "cuda"
        if name in _TO_NUMPY and self._there.holds(args[0]):
            raise TypeError(f"can't convert {self._there.device} device type tensor to numpy")
        if name == "_parse_to":
            return func(*args, **kwargs)
        if name == "to":
            return self._to(*args, **kwargs)
        if name == "cpu":
            return self._moved(args[0], HERE)
        if kwargs.get("device") is not None and self._is_known(kwargs["device"]):
            made = self._called(func, args, {**kwargs, "device": HERE})
            wanted = torch.device(kwargs["device"])
            if tensors(args):
                return self._moved(made, wanted)
            # A new tensor without a history, so gradients end here.
            return _copied(made, self._there, wanted.type).requires_grad_(made.requires_grad)
        return self._called(func, args, kwargs)

    def _is_known(self, device: Any) -> bool:
        """Return whether a device is one of the two, and not torch's "meta" device without memory."""
        return torch.device(device).type in (HERE.type, self._there.device.type)

    def _called(self, func: Any, args: Any, kwargs: Any) -> Any:
        before = self._there.creates
        self._there.creates = any(map(self._there.holds, tensors((args, kwargs))))
        try:
            return func(*args, **kwargs)
        finally:
            self._there.creates = before

    def _to(self, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        like = args[0] if args else kwargs.get("other")
        if isinstance(like, Tensor):
            device, dtype = self._there.find_device(like), like.dtype
        else:
            device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)

        if device is not None:
            tensor = self._moved(tensor, device) if self._is_known(device) else tensor.to(device)
        return tensor if dtype is None else tensor.to(dtype)

    def _moved(self, tensor: Tensor, device: torch.device) -> Tensor:
        if device.type == self._there.find_device(tensor).type:
            return tensor
        return _Move.apply(tensor, self._there, device.type)  # type: ignore[no-any-return]


class _Move(torch.autograd.Function):
    """Moves a tensor, and its gradient back."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, there: _There, to: str) -> Tensor:
        ctx.there = there
        ctx.back = there.find_device(tensor).type
        return _copied(tensor, there, to)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return _copied(gradients[0], ctx.there, ctx.back), None, None


def _copied(tensor: Tensor, there: _There, to: str) -> Tensor:
    # An array has no device, so the copy does not belong to one yet.
    with torch.utils._python_dispatch._disable_current_modes():
        made = tensor.detach().clone()
    if to == there.device.type:
        there.keep(made)
    return made


def tensors(parts: Any) -> list[Tensor]:
    """Return the tensors in nested lists, tuples and dictionaries."""
    return [part for part in tree_leaves(parts) if isinstance(part, Tensor)]


def address(tensor: Tensor) -> int:
    """Return the identity of a tensor's storage, shared by views."""
    return tensor.untyped_storage()._cdata
