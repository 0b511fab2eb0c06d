"""Settings of the tests of `mslm_data.torch`."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("torch"):
    import torch

    # With such tiny models, threads wait for each other longer than they compute.
    torch.set_num_threads(1)
