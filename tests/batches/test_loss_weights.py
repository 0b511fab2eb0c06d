"""`loss_weights` of batches, and the objective that a batch says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mslm_data as md
from mslm_data.kernels.pad import IGNORED
from mslm_data.mask.plan import MaskKind, Objective
from mslm_data.shard.split import Split
from mslm_data.stats import mask_stats
from mslm_data.testing import assert_resumes
from tests import made

WEIGHTS = (2.5, 0.5)
FORMS: list[dict[str, Any]] = [
    {"batch_size": 4},
    {"batch_tokens": 128, "flat": True, "multiple_of": 8},
]
SOME = ["causal", "joint", "diffusion"]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> md.Shards:
    folder = tmp_path_factory.mktemp("folder") / "shards"
    made.built(folder)
    return md.load(folder)


@pytest.fixture(scope="module")
def train(shards: md.Shards) -> Split:
    return shards["train"]


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("name", SOME)
def test_loss_weights__are_those_of_the_labels_and_change_nothing_else(
    train: Split, name: str, form: dict[str, Any]
) -> None:
    plain = list(md.Batches(train, name, **form))
    weighed = list(md.Batches(train, name, weights=WEIGHTS, **form))

    assert plain
    for before, batch in zip(plain, weighed, strict=True):
        weights = batch.pop("loss_weights")
        assert batch.keys() == before.keys()
        assert all(np.array_equal(batch[column], before[column]) for column in batch)
        assert weights.dtype == np.float32
        assert weights.shape == batch["labels"].shape
        assert set(weights[batch["mask_kinds"] == MaskKind.ENTITY]) <= {2.5}
        assert set(weights[batch["mask_kinds"] == MaskKind.BASE]) <= {0.5}
        assert not weights[batch["labels"] == IGNORED].any()


@pytest.mark.parametrize("name", ["causal", "joint"])
def test_scaled_weights__have_a_mean_of_one_over_an_epoch(shards: md.Shards, name: str) -> None:
    train, strategy = shards["train"], md.strategy(name)
    stats = mask_stats(train.chunks, strategy, labels=shards.labels)
    assert stats.n_elm
    weights = md.scaled_weights(4, 1, n_elm=stats.n_elm, n_blm=stats.n_blm)

    batches = list(md.Batches(train, strategy, weights=weights))

    targets = sum(np.count_nonzero(batch["labels"] != IGNORED) for batch in batches)
    assert weights[0] == pytest.approx(4 * weights[1])
    assert sum(batch["loss_weights"].sum() for batch in batches) == pytest.approx(targets, rel=1e-5)


def test_loss_weights__of_each_part_of_a_curriculum(train: Split) -> None:
    parts = [{"use": "causal"}, {"use": "joint"}]
    strategy = md.strategy("curriculum", epochs=[1], parts=parts)
    batches = md.Batches(train, strategy, weights=[(3, 1), (0.6, 0.4)])

    first, second = list(batches), list(batches)

    for epoch, (w_elm, w_blm) in ((first, (3, 1)), (second, (0.6, 0.4))):
        found = np.unique(np.concatenate([batch["loss_weights"].ravel() for batch in epoch]))
        assert found.tolist() == np.array(sorted([0, w_blm, w_elm]), np.float32).tolist()
    assert {int(batch["objective"]) for batch in first} == {Objective.CAUSAL}
    assert not any("objective" in batch for batch in second)


def test_batches__of_objectives_resume(train: Split) -> None:
    parts = [{"use": "causal"}, {"use": "joint"}]
    strategy = md.strategy("curriculum", steps=[3], parts=parts)
    few = train.subset(documents=8)

    assert_resumes(lambda: md.Batches(few, strategy, batch_size=2, weights=[(3, 1), (2, 1)]))


def test_causal__rows_are_unchanged_and_flat_ones_have_no_attention_mask(train: Split) -> None:
    (padded,) = md.Batches(train, "causal", batch_size=len(train))
    (flat,) = md.Batches(train, "causal", batch_size=len(train), flat=True)

    targets = padded["labels"] != IGNORED
    assert np.array_equal(padded["labels"][targets], padded["input_ids"][targets])
    assert not targets[:, 0].any()
    assert "attention_mask" in padded
    assert "attention_mask" not in flat
    assert "position_ids" in flat


@pytest.mark.parametrize(
    ("name", "weights", "message"),
    [
        ("joint", (1, 2, 3), r"expected \(w_elm, w_blm\), got \(1, 2, 3\)"),
        ("joint", 2.0, r"expected \(w_elm, w_blm\), got 2\.0"),
        ("joint", ("a", "b"), r"expected \(w_elm, w_blm\), got \('a', 'b'\)"),
        ("curriculum", [(1, 1), (1,)], "or 2 such pairs, one for each part"),
        ("joint", (1, -1), r"expected numbers of at least 0, got \(1, -1\)"),
        ("joint", (float("nan"), 1), "expected numbers of at least 0"),
        ("curriculum", [(1, 1)] * 3, "or 2 such pairs, one for each part"),
    ],
)
def test_loss_weights__refuse(train: Split, name: str, weights: Any, message: str) -> None:
    parts = {"epochs": [1], "parts": [{"use": "causal"}, {"use": "joint"}]}
    strategy = md.strategy(name, **(parts if name == "curriculum" else {}))

    with pytest.raises(ValueError, match=f"^weights: .*{message}"):
        md.Batches(train, strategy, weights=weights)


@pytest.mark.parametrize(
    "numbers", [{"n_elm": -1, "n_blm": 2}, {"n_elm": 0, "n_blm": 0}, {"n_elm": 0, "n_blm": 4}]
)
def test_scaled_weights__refuse(numbers: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"^weights: expected"):
        md.scaled_weights(1, 0, **numbers)
