"""The comparison with peers' corruption: its statistic detects masks with another distribution."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import mslm_data as md  # noqa: E402
from benchmarks import diffusion, variance  # noqa: E402


def test_chi_square__separates_distributions() -> None:
    rng = np.random.default_rng(1)
    rates = rng.uniform(0.001, 1, 4000)
    sizes = np.full(len(rates), 20)
    counts = rng.binomial(sizes, rates)

    _, chance = diffusion.chi_square(rates, counts, sizes)
    _, chance_of_others = diffusion.chi_square(rates * 0.98, counts, sizes)

    assert chance > 0.001
    assert chance_of_others < 0.001


def test_count_peer__reads_the_corruption_of_automodel() -> None:
    corruption = pytest.importorskip("nemo_automodel.components.datasets.dllm.corruption")
    ids = torch.full((4000, 20), 7)
    batches = [(ids, torch.ones_like(ids, dtype=torch.bool))]

    counts = diffusion._count_peer(corruption.corrupt_uniform, batches, 3)

    assert diffusion.chi_square(*counts)[1] > 0.001


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
