from __future__ import annotations

import shutil

import numpy as np
import pytest

from mslm_data.api.loading import load
from mslm_data.errors import VocabularyError
from mslm_data.lexicon.score_columns import open_scores
from mslm_data.lexicon.scores.making import about, longest_row, write_column
from tests.made import built, pipeline_of, tree


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with three splits, the first with several shards."""
    folder = tmp_path_factory.mktemp("rows") / "d"
    built(folder, pipeline=pipeline_of(unit_bytes=1500))
    return folder


def by_ids(examples, advance):
    advance(len(examples.input_ids.values))
    return (examples.input_ids.values * 0.5).astype(np.float32)


def stopping_after(shards):
    """Score like `by_ids`, and raise KeyboardInterrupt after a number of shards."""
    calls = []

    def score(examples, advance):
        calls.append(len(examples))
        if len(calls) > shards:
            raise KeyboardInterrupt
        return by_ids(examples, advance)

    return score


def write(out, shards, score=by_ids, progress=None, **made):
    about_scores = about(shards.manifest, of="test", **made)
    return write_column(out, dict(shards), about_scores, score, progress=progress)


def test_write_column__scores_every_row(tmp_path, folder):
    shards, seen = load(folder), []

    report = write(tmp_path / "c", shards, progress=lambda *done: seen.append(done))

    total = sum(split.record.tokens for split in shards.values())
    files = sum(len(split.record.shards) for split in shards.values())
    assert files > 4
    for split in shards.values():
        examples = split.examples()
        found = open_scores(tmp_path / "c").gather(examples)
        assert np.array_equal(found.values, examples.input_ids.values * np.float32(0.5))
    assert report.splits == {name: len(split) for name, split in shards.items()}
    assert (report.tokens, report.shards, report.kept) == (total, files, 0)
    assert (seen[0], seen[-1]) == ((0, total), (total, total))


@pytest.mark.parametrize("shards_done", [0, 1, 3])
def test_write_column__resumes_after_an_interruption(tmp_path, folder, shards_done):
    shards, seen = load(folder), []
    write(tmp_path / "whole", shards)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "c", shards, stopping_after(shards_done))

    def score(examples, advance):
        seen.append(len(examples))
        return by_ids(examples, advance)

    report = write(tmp_path / "c", shards, score)

    assert tree(tmp_path / "c") == tree(tmp_path / "whole")
    assert report.kept == shards_done
    assert len(seen) == report.shards - shards_done


def copy_shard(path):
    shutil.copy(path, path.with_name("data-00000-of-00099.arrow"))


@pytest.mark.parametrize(
    ("change", "made", "message"),
    [
        (None, {"threshold": 0.2}, r"with another threshold; remove .*/c or pass another --out"),
        (None, {"more": 1}, "made with another more, threshold;"),
        (copy_shard, {"threshold": 0.1}, r"c/train: has scores of 1 other shards"),
        (
            lambda path: path.write_bytes(path.read_bytes()[:300]),
            {"threshold": 0.1},
            "expected a score column, got a file that cannot be read",
        ),
    ],
)
def test_write_column__refuses_other_scores_before_any_work(
    tmp_path, folder, change, made, message
):
    shards = load(folder)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "c", shards, stopping_after(2), threshold=0.1)
    if change is not None:
        change(next((tmp_path / "c" / "train").glob("*.arrow")))
    before = tree(tmp_path / "c")

    with pytest.raises(VocabularyError, match=message):
        write(tmp_path / "c", shards, **made)

    assert tree(tmp_path / "c") == before


def test_write_column__scores_of_another_build_refused(tmp_path, folder):
    write(tmp_path / "c", load(folder))
    other = tmp_path / "d"
    built(other, pipeline=pipeline_of(unit_bytes=1500, name="another", segment="whole"))

    with pytest.raises(VocabularyError, match=r"made with another plan;|has scores of"):
        write(tmp_path / "c", load(other))


def test_write_column__checks_the_folder_before_work(tmp_path, folder):
    (tmp_path / "file").write_text("")

    with pytest.raises(OSError, match="exists"):
        write(tmp_path / "file" / "c", load(folder), stopping_after(0))


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_write_column__infinite_scores_refused(tmp_path, folder, number):
    def score(examples, advance):
        return np.full(len(examples.input_ids.values), number, np.float32)

    with pytest.raises(VocabularyError, match="expected a finite number for each token, got NaN"):
        write(tmp_path / "c", load(folder), score)

    assert not list((tmp_path / "c").rglob("*.arrow"))


def test_longest_row__over_splits(folder):
    shards = load(folder)
    rows = [split[i]["input_ids"] for split in shards.values() for i in range(len(split))]

    assert longest_row(dict(shards)) == max(map(len, rows))
    assert longest_row({}) == 0
