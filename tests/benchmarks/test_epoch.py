"""Training steps on the sample. Nothing is timed."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers")
from benchmarks import epoch, folders, inputs
from mslm_data.api.loading import Shards


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Shards:
    scratch = tmp_path_factory.mktemp("epoch")
    sample = inputs.ROOT / "vocab" / "sample"
    return folders.sentences(
        inputs.Inputs(sample / "bc2gm" / "train.tsv", sample / "vocab.txt", "sample"),
        scratch,
        copies=1,
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("who", "shape"),
    [
        ("peer", {}),
        ("trainer", {"batch_tokens": 400, "flat": True}),
        ("loop", {"batch_size": 8, "bucketed": True}),
        ("loop", {"batch_tokens": 400, "flat": True}),
    ],
)
def test_take__trains_and_measures(
    who: str, shape: dict[str, Any], shards: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epoch.torch, "set_num_threads", lambda _: None)
    turn = epoch.Turn(
        who=who, folder=str(shards.folder), encoder="small BERT", steps=3, rows=8, shape=shape
    )

    measured = epoch.take(turn)

    assert measured.tokens_per_second > 0
    assert measured.peak > 100
    assert len(measured.losses) == 3
    assert all(0 < loss < 20 for loss in measured.losses)
    assert (measured.ours > 0) == (who == "loop")
