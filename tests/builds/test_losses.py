from __future__ import annotations

import json

import pytest

import mslm_data as md
from mslm_data.builds.losses import count_losses
from tests import made


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> md.Shards:
    """A folder of two splits, of which a document of the first has no text."""
    folder = tmp_path_factory.mktemp("losses")
    inputs = folder / "in"
    inputs.mkdir()
    rows = [json.dumps({"id": str(n), "text": "a gene"}) for n in range(3)]
    (inputs / "test.jsonl").write_text(json.dumps({"id": "3", "text": "a gene"}))
    (inputs / "train.jsonl").write_text("\n".join([*rows[:2], json.dumps({"id": "2"})]))
    pipeline = made.pipeline_of(source={"use": "jsonl"}, annotate={"use": "none"})
    made.build(pipeline, [inputs], made.word_piece(), folder / "out", workers=1)
    return md.load(folder / "out")


def test_count_losses__reads_the_lines_of_a_build(shards: md.Shards) -> None:
    with (shards.folder / "set_aside.jsonl").open("rb") as lines:
        losses = count_losses(shards.manifest.splits, lines)

    assert (losses["train"].read, losses["train"].written) == (3, 2)
    assert sum(losses["train"].set_aside.values()) == 1
    assert losses["test"].set_aside == {}


def test_count_losses__groups_reasons_but_for_their_numbers(shards: md.Shards) -> None:
    lines = [
        json.dumps({"split": "train", "id": "a", "place": "x:1", "reason": reason}).encode()
        for reason in ("expected 3 columns, got 2", "expected 3 columns, got 11", "no text")
    ]

    losses = count_losses(shards.manifest.splits, lines)

    assert losses["train"].set_aside == {"expected … columns, got …": 2, "no text": 1}
    assert losses["train"].mentions == shards.manifest.splits["train"].mentions
