"""The comparison with peers' corruption: its statistic detects masks with another distribution."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import mslm_data as md  # noqa: E402
from benchmarks import diffusion, variance  # noqa: E402


@pytest.mark.parametrize("corrupt", [diffusion.as_dllm, diffusion.as_automodel])
def test_chi_square__separates_distributions(corrupt: diffusion.Corruption) -> None:
    torch.manual_seed(1)
    ids = torch.full((4000, 20), 7)
    maskable = torch.ones_like(ids, dtype=torch.bool)

    corrupted, masked, rates = corrupt(ids, maskable, 3)
    counts = masked.sum(1).numpy()
    sizes = np.full(len(ids), 20)
    _, chance = diffusion.chi_square(rates.double().numpy(), counts, sizes)
    _, chance_of_others = diffusion.chi_square(rates.double().numpy() * 0.98, counts, sizes)

    assert ((corrupted == 3) == masked).all()
    assert chance > 0.001
    assert chance_of_others < 0.001


def test_variances__equal_those_of_draws() -> None:
    """The strategy masks rows. A table gives the loss of a row with k masked tokens."""
    size, rows, seeds = 5, 32, 3000
    cost = np.linspace(1.0, 3.0, size + 1) * np.arange(size + 1)
    losses = np.stack([np.stack([cost, cost[::-1]], axis=-1)] * 2, axis=1)
    found = variance.variances([variance.RowLosses.from_draws(losses)] * rows)

    examples = md.examples([size] * rows * seeds, keys=np.arange(rows * seeds))
    for name, options in [
        ("independent: `uniform`", {"sampling": "uniform"}),
        ("`kronecker`, the default", {}),
        ("`uniform`, `complement`", {"sampling": "uniform", "complement": True}),
        ("`kronecker`, `complement`", {"complement": True}),
    ]:
        strategy = md.strategy("diffusion", **options)
        drawn = []
        for epoch in range(8):
            plan = strategy.plan(examples, epoch=epoch)
            assert plan.rates is not None
            masked = plan.kinds.values.reshape(-1, size).sum(1)
            drawn.append((cost[masked] / plan.rates / size).reshape(seeds, rows).mean(1))
        for epochs in (1, 2, 8):
            of_draws = np.mean(drawn[:epochs], axis=0).var()
            assert found[name][epochs] == pytest.approx(of_draws, rel=0.25), (name, epochs)
    antithetic = found["antithetic over a batch (MDLM)"]
    assert antithetic[1] < found["independent: `uniform`"][1]
