"""`md.mix`: shares and epoch sizes for all options, and rejected options."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import fsspec
import pytest

import mslm_data as md
from mslm_data.errors import ShardError
from tests import made


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sample corpora; the second has more and shorter rows."""
    folder = tmp_path_factory.mktemp("folders")
    for name, max_tokens in (("ncbi-disease", 512), ("bc5cdr-chem", 16)):
        pipeline = made.pipeline_of(name=name, encode={"max_tokens": max_tokens})
        made.built(folder / name, made.SAMPLE / name, pipeline)

    return folder


@pytest.fixture
def small(base: Path) -> md.Split:
    return md.load(base / "ncbi-disease")["train"]


@pytest.fixture
def large(base: Path) -> md.Split:
    return md.load(base / "bc5cdr-chem")["train"]


def rows_of(mix: Any) -> list[int]:
    return [part.rows for part in mix.splits]


def test_mix__default_epoch_has_each_row_once(small: md.Split, large: md.Split) -> None:
    for by in ("tokens", "rows"):
        mix = md.mix([small, large], by=by)  # type: ignore[arg-type]

        assert rows_of(mix) == [len(small), len(large)]
        assert mix.tokens == small.tokens + large.tokens
        keys = mix.examples().keys.tolist()
        assert Counter(keys) == Counter([*small.examples().keys, *large.examples().keys])


def test_mix__rejects_strategies_that_read_score_columns(small: md.Split, large: md.Split) -> None:
    mix = md.mix([small, large], epoch_size="shortest")
    strategy = md.strategy("attention-high", scores="vocab/attention")

    # A repeated row has another key, so the error would come in a later epoch only.
    with pytest.raises(
        ValueError, match=r"^strategy: expected one without score columns for a mix"
    ):
        md.Batches(mix, strategy, batch_size=8)


def test_mix__counts_shares_in_tokens_or_rows(small: md.Split, large: md.Split) -> None:
    weights = {small: 7, large: 3}

    of_rows = md.mix(weights, by="rows", epoch_size=1000)
    of_tokens = md.mix(weights, epoch_size=100_000)

    assert rows_of(of_rows) == [700, 300]
    for part, tokens in zip(of_tokens.splits, (70_000, 30_000), strict=True):
        assert abs(part.rows * part.source.tokens / len(part.source) - tokens) < 50
    assert [part.share for part in of_tokens.splits] == [0.7, 0.3]


def test_mix__epoch_has_the_requested_size(small: md.Split, large: md.Split) -> None:
    """With equal shares, the folder with fewer rows is exhausted first."""
    few, many = len(small), len(large)
    assert few < many
    equal = {small: 1, large: 1}

    assert rows_of(md.mix(equal, by="rows", epoch_size="longest")) == [many, many]
    assert rows_of(md.mix(equal, by="rows", epoch_size="shortest")) == [few, few]
    assert sum(rows_of(md.mix(equal, by="rows"))) in range(few + many - 1, few + many + 2)
    assert rows_of(md.mix({small: 1e-9, large: 1}, by="rows", epoch_size=40)) == [1, 40]


def test_mix__temperature_oversamples_small_folders(small: md.Split, large: md.Split) -> None:
    """The exponent is the inverse of the temperature: XLM-R and mT5 use 0.3."""
    sizes = [small.tokens, large.tokens]

    for temperature in (1, 2, 1 / 0.3, 1e6):
        mix = md.mix([small, large], temperature=temperature)
        powers = [size ** (1 / temperature) for size in sizes]
        assert [part.share for part in mix.splits] == pytest.approx(
            [power / sum(powers) for power in powers]
        )
    assert [part.share for part in mix.splits] == pytest.approx([0.5, 0.5], abs=1e-5)


def test_mix__accepts_paths_urls_folders_and_splits(base: Path, small: md.Split) -> None:
    store = fsspec.filesystem("memory")
    store.put(str(base / "ncbi-disease"), "/mixed/ncbi", recursive=True)
    path = base / "bc5cdr-chem"
    expected = md.mix({base / "ncbi-disease": 2, path: 1}).examples().keys.tolist()

    for first in (
        str(base / "ncbi-disease"),
        "memory://mixed/ncbi",
        small,
        md.load(base / "ncbi-disease"),
    ):
        for second in (path, md.load(path)):
            assert md.mix({first: 2, second: 1}).examples().keys.tolist() == expected
    with_validation = md.mix([small, md.load(base / "ncbi-disease")["validation"]])
    assert [part.source.name for part in with_validation.splits] == ["train", "validation"]


def test_mix__accepts_other_splits(base: Path) -> None:
    mix = md.mix([base / "ncbi-disease", base / "bc5cdr-chem"], split="test")

    assert [part.source.name for part in mix.splits] == ["test", "test"]
    with pytest.raises(ShardError, match="no split 'tset'; did you mean 'test'"):
        md.mix([base / "ncbi-disease"], split="tset")


TEMPERATURE = "temperature: expected a number above 0, got "
EPOCH_SIZE = "epoch_size: expected 'total', .* got "
WRONG_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"by": "words"}, "by: expected 'tokens' or 'rows', got 'words'"),
    ({"temperature": 0}, f"{TEMPERATURE}0"),
    ({"temperature": float("nan")}, f"{TEMPERATURE}nan"),
    ({"temperature": True}, f"{TEMPERATURE}True"),
    ({"temperature": "2"}, f"{TEMPERATURE}'2'"),
    ({"temperature": 1e-9}, "temperature: 1e-09 gives small folders"),
    ({"temperature": 1e-320}, "temperature: 1e-320 gives small folders"),
    ({"epoch_size": "longer"}, f"{EPOCH_SIZE}'longer'"),
    ({"epoch_size": 0}, f"{EPOCH_SIZE}0"),
    ({"epoch_size": 1.5}, f"{EPOCH_SIZE}1.5"),
    ({"epoch_size": True}, f"{EPOCH_SIZE}True"),
]


@pytest.mark.parametrize(("options", "message"), WRONG_OPTIONS)
def test_mix__rejects_invalid_options(
    small: md.Split, large: md.Split, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        md.mix([small, large], **options)


TOO_LONG = "epoch_size: expected at most .* rows .* and "
WRONG_WEIGHTS: list[tuple[Any, dict[str, Any], str]] = [
    *((weight, {}, "folders: expected weights above 0, got ")
      for weight in (0, -1, float("inf"), float("nan"), "0.5", True, None)),
    (1, {"temperature": 2}, "temperature: cannot be combined with weights"),
    (1e-300, {"epoch_size": "longest"}, f"{TOO_LONG}'longest'"),
    (1e-16, {"epoch_size": "longest"}, f"{TOO_LONG}'longest'"),
    (1, {"epoch_size": 10**30}, f"{TOO_LONG}1{'0' * 30}"),
]  # fmt: skip


@pytest.mark.parametrize(("weight", "options", "message"), WRONG_WEIGHTS)
def test_mix__rejects_invalid_weights(
    small: md.Split, large: md.Split, weight: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        md.mix({small: 1, large: weight}, **options)


def test_mix__rejects_values_that_are_no_folders(base: Path, small: md.Split) -> None:
    wrong: list[Any] = ["shards", Path("shards"), small, md.load(base / "ncbi-disease"), 3, {1, 2}]
    for folders in wrong:
        with pytest.raises(TypeError, match="folders: expected folders with their weights"):
            md.mix(folders)
    with pytest.raises(TypeError, match=r"folders: expected paths, URLs, .* got int"):
        md.mix([small, 3])  # type: ignore[list-item]
    for nothing in ([], {}):
        with pytest.raises(ValueError, match="folders: expected one or more, got none"):
            md.mix(nothing)


def test_mix__rejects_a_repeated_split(base: Path, small: md.Split) -> None:
    with pytest.raises(
        ValueError, match=r"ncbi-disease/train is of the same split as .*ncbi-disease/train"
    ):
        md.mix([small, base / "ncbi-disease"])


def test_mix__rejects_folders_whose_rows_would_have_the_same_masks(
    base: Path, tmp_path: Path
) -> None:
    """The same documents in two folders of one corpus name, once in smaller rows."""
    again = made.pipeline_of(name="ncbi-disease", encode={"max_tokens": 64})
    made.built(tmp_path / "again", made.SAMPLE / "ncbi-disease", again)
    other = made.pipeline_of(name="other")
    made.built(tmp_path / "other", made.SAMPLE / "ncbi-disease", other)

    with pytest.raises(ValueError, match=r"corpus 'ncbi-disease' .* rows in common.*name=other"):
        md.mix([base / "ncbi-disease", tmp_path / "again"])

    assert len(md.mix([base / "ncbi-disease", tmp_path / "other"]))


def test_mix__rejects_different_tokenizers(base: Path, tmp_path: Path, small: md.Split) -> None:
    made.built(tmp_path / "other", pipeline=made.pipeline_of(), tokenizer=made.byte_level())

    with pytest.raises(ValueError, match=r"mix: .* has tokenizer .*, .* has .*; build one") as info:
        md.mix([small, tmp_path / "other"])

    assert str(base / "ncbi-disease") in str(info.value)
    assert str(tmp_path / "other") in str(info.value)


def test_mix__rejects_an_empty_split(base: Path, tmp_path: Path, small: md.Split) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "train.tsv").write_text("")
    (tmp_path / "in" / "test.tsv").write_text("aspirin\tB-Chemical\n\n")
    made.built(tmp_path / "out", tmp_path / "in", made.pipeline_of())

    with pytest.raises(
        ValueError, match=r"mix: expected rows in each split, got none in .*out/train"
    ):
        md.mix([small, tmp_path / "out"])
