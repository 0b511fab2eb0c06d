"""The suite's options of every registered strategy."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers")

from benchmarks import folders, inputs, strategies
from mslm_data.api.loading import Shards
from mslm_data.mask.table import STRATEGIES

SAMPLE = inputs.ROOT / "vocab" / "sample"


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Shards:
    scratch = tmp_path_factory.mktemp("strategies")
    corpus = inputs.read(SAMPLE / "bc2gm" / "train.tsv")
    inputs.write(scratch / "train.tsv", corpus[:60])
    found = inputs.Inputs(scratch / "train.tsv", SAMPLE / "vocab.txt", "sixty sentences")
    return folders.sentences(found, scratch, copies=1)


@pytest.mark.timeout(900)  # compiles the kernels of all strategies if none are cached
def test_options__make_every_strategy(shards: Shards) -> None:
    examples = strategies.with_sentinels(shards["train"].examples())
    options = strategies.prepare_options(shards, examples)

    for full in STRATEGIES.names():
        made = shards.strategy(full, **options.get(full.removesuffix(".v1"), {}))
        hidden = made.corrupt(examples, made.plan(examples))

        assert len(hidden) == len(examples), full


def test_options__are_of_registered_strategies(shards: Shards) -> None:
    options = strategies.prepare_options(shards, shards["train"].examples())

    assert {f"{name}.v1" for name in options} <= set(STRATEGIES.names())
