"""The simulated device itself: it fails like a GPU, and records moves."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.torch.second_device import second_device  # noqa: E402

HERE = torch.device("cpu")


def test_second_device__refuses_mixed_devices() -> None:
    layer = torch.nn.Linear(4, 3)

    with second_device() as device:
        layer.to(device)
        x = torch.ones(2, 4)

        assert layer(x.to(device)).device == device
        with pytest.raises(RuntimeError, match="expected tensors of one device"):
            layer(x)
        with pytest.raises(TypeError, match="cuda:0 device type tensor to numpy"):
            layer(x.to(device)).detach().numpy()


def test_second_device__keeps_results_of_its_tensors() -> None:
    with second_device() as device:
        x = torch.ones(2, 4, device=device, requires_grad=True)
        (x * torch.tensor(2.0)).sum().backward()

        assert x.is_cuda
        for made in (x + 1, x[0], x.grad, torch.zeros_like(x), x.new_zeros(3), x.to(torch.int64)):
            assert made is not None
            assert made.device == device
        assert torch.zeros(2).device == x.cpu().device == HERE
        assert x.cpu().sum().item() == 8


def test_second_device__of_apple_has_no_float64() -> None:
    with second_device("mps") as device:
        x = torch.ones(2, device=device)

        assert not x.is_cuda
        with pytest.raises(TypeError, match="expected no float64"):
            x.double()
