"""Batches of encoder-decoders: two sides of a row, each with a width of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mslm_data as md
from mslm_data.data.examples import take
from mslm_data.data.ragged import Ragged
from mslm_data.errors import CallError
from mslm_data.kernels.pad import IGNORED
from mslm_data.mask.plan import Objective
from mslm_data.mask.sentinels import merge, put_sentinels
from mslm_data.shard.split import Split
from mslm_data.testing import assert_resumes
from tests import made

STRATEGIES = {
    "t5": md.strategy("t5", rate=0.3),
    "salient-t5": md.strategy("salient-t5"),
    "joint": md.strategy("joint", blm=0.1, corruption="sentinels"),
}


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Split:
    folder = tmp_path_factory.mktemp("folder") / "shards"
    pipeline = made.pipeline_of(encode={"max_tokens": 32})
    made.built(folder, pipeline=pipeline, tokenizer=made.t5())
    return md.load(folder)["train"]


def unpadded(batch: dict[str, Any], name: str, is_there: Any) -> list[list[int]]:
    return [row[there].tolist() for row, there in zip(batch[name], is_there, strict=True)]


@pytest.mark.parametrize("name", STRATEGIES)
def test_batches__have_both_sides_of_each_row(train: Split, name: str) -> None:
    strategy, seed = STRATEGIES[name], 3
    examples = train.examples()
    plan = strategy.plan(examples, seed=seed)
    rows = put_sentinels(examples, plan.kinds.values)
    places = {key: place for place, key in enumerate(examples.keys.tolist())}

    seen = 0
    for batch in md.Batches(train, strategy, batch_size=8, seed=seed, weights=(3, 0.5)):
        here = [places[key] for key in batch["keys"].tolist()]
        seen += len(here)
        inputs = unpadded(batch, "input_ids", batch["attention_mask"] == 1)
        labels = [row[row != IGNORED].tolist() for row in batch["labels"]]
        assert inputs == [rows.inputs.tolist()[place] for place in here]
        is_masked = [any(rows.kinds[place]) for place in here]
        assert labels == [
            rows.labels.tolist()[place] if masked else []
            for place, masked in zip(here, is_masked, strict=True)
        ]

        kinds = batch["mask_kinds"]
        weights = np.array([0, 0.5, 3], np.float32)[kinds]
        assert kinds.shape == batch["labels"].shape
        assert np.array_equal(batch["loss_weights"], weights)
        assert np.array_equal(kinds != 0, batch["labels"] != IGNORED)
        # Tags and mentions are those of the rows before they were masked.
        assert batch["bio"].shape[1] == max(examples.input_ids.lengths[here])
        tagged = (batch["bio"] > 0).sum(axis=1)
        assert tagged.tolist() == [int((examples.bio[place] > 0).sum()) for place in here]
        assert int(batch["objective"]) == Objective.SENTINELS
    assert seen == len(train)


def test_scaled_weights__have_a_mean_of_one_by_the_kinds_of_batches(train: Split) -> None:
    strategy = STRATEGIES["joint"]
    kinds = np.concatenate([b["mask_kinds"].ravel() for b in md.Batches(train, strategy)])
    counts = {"n_elm": int((kinds == 2).sum()), "n_blm": int((kinds == 1).sum())}

    weights = md.scaled_weights(4, 1, **counts)
    batches = list(md.Batches(train, strategy, weights=weights))

    total = sum(batch["loss_weights"].sum() for batch in batches)
    assert total == pytest.approx(sum(counts.values()), rel=1e-5)


def test_batches__merge_to_the_rows(train: Split) -> None:
    (batch,) = md.Batches(train, STRATEGIES["t5"], batch_size=len(train), shuffle=False)

    inputs = unpadded(batch, "input_ids", batch["attention_mask"] == 1)
    labels = [row[row != IGNORED].tolist() for row in batch["labels"]]
    whole = merge(
        Ragged.from_rows(inputs, np.int32), Ragged.from_rows(labels, np.int32), train.token_ids
    )

    assert whole.tolist() == train.examples().input_ids.tolist()


@pytest.mark.parametrize("tokens", [40, 100, 256])
@pytest.mark.parametrize("rate", [0.15, 1.0])
def test_batches__neither_side_exceeds_their_tokens(train: Split, tokens: int, rate: float) -> None:
    name = "t5" if rate < 1 else "token"
    strategy = md.strategy(name, rate=rate, corruption="sentinels")

    batches = list(md.Batches(train, strategy, batch_tokens=tokens))

    assert max(batch["input_ids"].size for batch in batches) <= tokens
    assert max(batch["labels"].size for batch in batches) <= tokens
    assert sum(len(batch["keys"]) for batch in batches) == len(train)


def test_batches__resume(train: Split) -> None:
    few = train.subset(documents=6)

    assert_resumes(lambda: md.Batches(few, STRATEGIES["t5"], batch_tokens=100))


def test_batches__refuse_flat_rows(train: Split) -> None:
    with pytest.raises(ValueError, match=r"^flat: expected False with sentinels"):
        md.Batches(train, "t5", batch_tokens=256, flat=True)


@pytest.mark.parametrize(
    "strategy",
    [
        md.strategy("token", rate=0.3, corruption="sentinels"),
        md.strategy(
            "curriculum",
            epochs=[1],
            parts=[{"use": "causal"}, {"use": "token", "rate": 0.3, "corruption": "sentinels"}],
        ),
    ],
)
def test_batches__refuse_too_many_runs_before_the_first(train: Split, strategy: Any) -> None:
    batches = md.Batches(train, strategy)

    message = r"masked runs, of at most 8 for the 10 sentinels .*; use a rate of at most 0\.25"
    with pytest.raises(CallError, match=message):
        next(iter(batches))


def test_batches__refuse_a_tokenizer_without_sentinels(tmp_path: Any) -> None:
    made.built(tmp_path / "shards")
    split = md.load(tmp_path / "shards")["train"]

    with pytest.raises(CallError, match="the tokenizer has none, such as <extra_id_0>"):
        next(iter(md.Batches(split, "t5")))


def test_take__keeps_the_masks(train: Split) -> None:
    """A row's sides do not depend on the rows beside it."""
    examples = train.examples()
    some = take(examples, np.array([5, 2]))
    strategy = STRATEGIES["t5"]
    whole = put_sentinels(examples, strategy.plan(examples).kinds.values)
    part = put_sentinels(some, strategy.plan(some).kinds.values)

    assert part.labels.tolist() == [whole.labels.tolist()[row] for row in (5, 2)]


@pytest.mark.parametrize("strategy", ["t5", "causal"])
def test_mix__has_the_masks_of_its_parts(tmp_path: Any, strategy: str) -> None:
    for name in ("ncbi-disease", "bc5cdr-chem"):
        pipeline = made.pipeline_of(name=name, encode={"max_tokens": 32})
        made.built(tmp_path / name, made.SAMPLE / name, pipeline, made.t5())
    folders = [tmp_path / name for name in ("ncbi-disease", "bc5cdr-chem")]

    def labels_of(rows: Any) -> dict[int, list[int]]:
        return {
            key: [label for label in labels if label != IGNORED]
            for batch in md.Batches(rows, strategy, seed=1, batch_size=16)
            for key, labels in zip(batch["keys"].tolist(), batch["labels"].tolist(), strict=True)
        }

    mixed = labels_of(md.mix(folders, split="train"))

    alone = labels_of(md.load(folders[0])["train"]) | labels_of(md.load(folders[1])["train"])
    assert mixed == alone
