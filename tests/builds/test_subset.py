"""Subsets written as built folders; which documents they draw is tested in tests/shard/test_subset.py."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import datasets
import pytest

import mslm_data as md
from mslm_data.builds.subset import write_subset
from mslm_data.builds.verify import verify
from mslm_data.errors import BuildError, ShardError
from tests import made
from tests.builds.inputs import jsonl
from tests.shard import damage

PIPELINE = made.pipeline_of(unit_bytes=300, encode={"max_tokens": 8, "keep_text": True})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many documents in several shards, with all optional text columns."""
    out = tmp_path_factory.mktemp("built") / "many"
    made.built(out, pipeline=PIPELINE)
    return out


def write(
    folder: Path, out: Path, *, split: str = "train", seed: int = 0, **size: Any
) -> md.Shards:
    shards = md.load(folder)
    draw = {**size, "seed": seed}
    write_subset(shards, shards[split].subset(**draw), draw, out)
    return md.load(out)


def test_write_subset__has_the_rows_of_the_view_and_complete_other_splits(
    folder: Path, tmp_path: Path
) -> None:
    few = write(folder, tmp_path / "few", documents=4, seed=3)

    whole = md.load(folder)
    assert list(few["train"]) == list(whole["train"].subset(documents=4, seed=3))
    for split in ("validation", "test"):
        assert list(few[split]) == list(whole[split])
    assert few.labels == whole.labels
    assert verify(few.folder)[1] == []
    assert datasets.load_from_disk(str(few.folder))["train"].num_rows == len(few["train"])


def test_write_subset__digest_and_bytes_are_those_of_the_drawn_documents(
    folder: Path, tmp_path: Path
) -> None:
    first, again, other = (
        write(folder, tmp_path / name, documents=5, seed=seed)
        for name, seed in (("first", 0), ("again", 0), ("other", 1))
    )

    whole = md.load(folder)
    assert made.tree(first.folder) == made.tree(again.folder)
    assert len({shards["train"].digest for shards in (whole, first, other)}) == 3
    assert len({shards["test"].digest for shards in (whole, first, other)}) == 1


def test_write_subset__of_a_subset_records_both_draws(folder: Path, tmp_path: Path) -> None:
    write(folder, tmp_path / "train", documents=5)
    both = write(tmp_path / "train", tmp_path / "both", split="test", documents=2)

    draws = [(draw["split"], draw["documents"]) for draw in both.manifest.draws]
    assert draws == [("train", 5), ("test", 2)]
    card = (tmp_path / "both" / "README.md").read_text()
    assert "A subset: " in card
    assert "5 documents of train by seed 0, then 2 documents of test by seed 0" in card
    assert verify(tmp_path / "both")[1] == []


def test_write_subset__keeps_set_aside_documents_of_other_splits(tmp_path: Path) -> None:
    for split in ("train", "test"):
        lines = [{"id": f"{split}-a", "text": "A cold."}, {"id": f"{split}-b", "text": ""}]
        jsonl(tmp_path / "in", f"{split}.jsonl", *lines)
    none = {"use": "none"}
    pipeline = made.pipeline_of(source={"use": "jsonl", "max_loss": 1}, annotate=none)
    made.built(tmp_path / "all", tmp_path / "in", pipeline)

    write(tmp_path / "all", tmp_path / "few", documents=1)

    aside = (tmp_path / "few" / "set_aside.jsonl").read_text().splitlines()
    assert [json.loads(line)["split"] for line in aside] == ["test"]
    assert verify(tmp_path / "few")[1] == []


def test_write_subset__rejects_a_damaged_or_missing_shard_of_another_split(
    folder: Path, tmp_path: Path
) -> None:
    copied = shutil.copytree(folder, tmp_path / "copy")
    shard = sorted((copied / "test").glob("*.arrow"))[-1]

    damage.flip(shard, 100)
    with pytest.raises(ShardError, match=f"{shard.name}: "):
        write(copied, tmp_path / "few", documents=4)
    shard.unlink()
    with pytest.raises(ShardError):
        write(copied, tmp_path / "few", documents=4)
    assert not (tmp_path / "few").exists()


def test_write_subset__does_not_overwrite_a_folder(folder: Path) -> None:
    before = made.tree(folder)

    with pytest.raises(BuildError, match="expected a new folder"):
        write(folder, folder, documents=1)
    assert made.tree(folder) == before


def test_build__does_not_take_a_subset_for_the_whole_corpus(folder: Path, tmp_path: Path) -> None:
    write(folder, tmp_path / "few", documents=4)

    with pytest.raises(BuildError, match=r"few: holds .*; different: subset; choose another --out"):
        made.built(tmp_path / "few", pipeline=PIPELINE)


def test_mix__rejects_subsets_with_rows_in_common(folder: Path, tmp_path: Path) -> None:
    """Rows of another build of the same files have the same keys, so they are masked alike."""
    made.built(tmp_path / "other", pipeline=made.pipeline_of(encode={"max_tokens": 9}))
    two = write(folder, tmp_path / "2", documents=2)
    five = write(folder, tmp_path / "5", documents=5)
    others = write(tmp_path / "other", tmp_path / "few", documents=2)

    for folders in ((folder, five), (two, five)):
        with pytest.raises(ValueError, match=r"is of the same split as .*; pass one of them"):
            md.mix(folders)
    with pytest.raises(ValueError, match="have rows in common"):
        md.mix([folder, others])
