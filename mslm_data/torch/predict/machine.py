"""Packages, threads, devices and memory of annotators that run torch, without importing it."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from contextlib import contextmanager

from mslm_data import _optional
from mslm_data.errors import AnnotateError

_NO_MEMORY = ("can't allocate memory", "not enough memory")
"""Parts of torch's messages for lack of memory."""


def versions(*packages: str, wanted_by: str) -> list[str]:
    """Return the name and version of each package, such as `torch 2.4.0`.

    Packages are not imported, and a local tag such as `+cpu` is removed.

    Raises:
        MissingExtraError: A package is not installed.
    """
    lines = []
    for package in packages:
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            _optional.load(package, wanted_by=wanted_by)
            raise
        lines.append(f"{package} {version.partition('+')[0]}")
    return lines


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Set torch's number of threads within a `with` block."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_gpu(wanted_by: str) -> None:
    """Check that torch finds a GPU.

    Raises:
        AnnotateError: There is no GPU.
    """
    import torch

    if not torch.cuda.is_available():
        raise AnnotateError(
            f"{wanted_by}: torch finds no GPU; pass --set annotate.device=cpu, "
            "or install a build of torch for your GPU"
        )


@contextmanager
def machine_errors(wanted_by: str) -> Iterator[None]:
    """Convert errors of the machine, so that they are not attributed to a document.

    Raises:
        AnnotateError: The GPU failed, or is out of memory.
        MemoryError: The machine is out of memory.
    """
    import torch

    try:
        yield
    except torch.OutOfMemoryError:
        raise AnnotateError(
            f"{wanted_by}: out of GPU memory; build with fewer --workers or a "
            "smaller annotate.batch_size"
        ) from None
    except RuntimeError as error:
        message = str(error)
        if any(phrase in message for phrase in _NO_MEMORY):
            raise MemoryError from None
        if "CUDA error" in message:
            raise AnnotateError(
                f"{wanted_by}: the GPU failed ({type(error).__name__}); run the same command again"
            ) from None
        raise
