"""Fixtures of the tests on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("torch"):
    import torch

    if not torch.cuda.is_available():
        # With such tiny models, threads wait for each other longer than they compute.
        torch.set_num_threads(1)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use the kernel for rows of different lengths, or its slow twin without a GPU."""
    from mslm_data.torch.model import flat
    from tests.reference.varlen import varlen_attn

    if torch.cuda.is_available():
        yield
        return
    monkeypatch.setattr(flat, "varlen_attn", varlen_attn)
    monkeypatch.setattr(flat, "_is_ampere_or_later", lambda: True)
    yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without a GPU, mark all but the first case of each test as long.

    The cases then compare the CPU with a simulated device, which computes on the CPU, too, and
    tests/torch has the same cases on a CPU.
    """
    if not find_spec("torch") or torch.cuda.is_available():
        return

    seen = set()
    for item in items:
        if item.path.parent == Path(__file__).parent:
            name = item.path, getattr(item, "originalname", item.name)
            if name in seen:
                item.add_marker(pytest.mark.long)
            seen.add(name)
