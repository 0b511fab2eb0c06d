from __future__ import annotations

import copy
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

import mslm_data as md
from mslm_data.api.loading import load
from mslm_data.errors import ShardError, VocabularyError
from tests import made
from tests.cli.running import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out)
    return out


def test_load__is_a_function_whatever_was_imported_before() -> None:
    code = "import mslm_data.api.loading, mslm_data as md, mslm_data.stats; print(callable(md.load), callable(md.strategy))"

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout == "True True\n"


def test_load__is_a_mapping_of_splits(folder: Path) -> None:
    shards = load(str(folder))

    assert shards.splits == tuple(shards) == ("train", "validation", "test")
    assert (len(shards), shards.labels, shards.tags) == (
        3,
        ("Disease",),
        ("O", "B-Disease", "I-Disease"),
    )
    assert shards.manifest.splits["test"].sequences == len(shards["test"])


def test_load__survives_a_change_of_the_working_directory(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = load(folder)["train"].examples().keys.tolist()
    monkeypatch.chdir(folder.parent)
    shards = load(folder.name)
    monkeypatch.chdir(tmp_path)

    sent = copy.deepcopy(shards["train"])  # As pickling does.

    assert shards["train"].examples().keys.tolist() == expected
    assert sent.examples().keys.tolist() == expected
    assert shards.tokenizer == folder / "tokenizer.json"
    assert '<p class="s"' in shards._repr_html_()
    assert str(shards.folder) == folder.name  # The given name.


def test_get__returns_a_default_for_a_missing_split(folder: Path) -> None:
    shards = load(folder)

    assert "train" in shards
    assert "trian" not in shards
    assert shards.get("train") is shards["train"]
    assert shards.get("trian") is None
    assert shards.get("trian", "none") == "none"
    with pytest.raises(ShardError, match=r"no split 'trian'; did you mean 'train'\?"):
        shards["trian"]


def test_repr__shows_place_and_contents(folder: Path) -> None:
    shards = load(folder)
    rows = ", ".join(f"{name} {len(shards[name]):,}" for name in shards.splits)

    assert repr(shards) == f"Shards('{folder}': rows {rows}; labels 'Disease')"


def test_repr_html__escapes_corpus_text(folder: Path) -> None:
    shards = load(folder)
    shards.manifest = msgspec.structs.replace(shards.manifest, labels=("<script>", "x"))

    table = shards._repr_html_()

    assert "labels: &lt;script&gt;, x" in table
    assert "<script>" not in table
    assert [name for name in shards.splits if f'<th scope="row">{name}</th>' in table] == list(
        shards.splits
    )


def test_load__writes_to_the_log(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", "mslm_data"):
        load(folder)

    assert caplog.messages == [f"opened {folder}: train, validation, test"]


def test_strategy__loads_the_lexicon_of_a_strategy_that_is_made(
    folder: Path, tmp_path: Path
) -> None:
    copied = shutil.copytree(folder, tmp_path / "built")
    assert run("vocab", "pmi", copied, "--min-count", 1).code == 0
    split = load(copied)["train"]
    score = {"lexicon": "pmi.arrow", "missing": 0.5}
    order = {"by": "highest", "score": score}
    strategy = md.strategy(
        "picks", picks=[{"units": "mentions", "budget": {"rate": 0.4}, "order": order}]
    )

    with pytest.raises(VocabularyError, match=r"shards\.strategy\("):
        strategy.plan(split.examples())
    loaded = load(copied).strategy(strategy)

    assert loaded.plan(split.examples()).counts() > (0, 0)
    one, other = (
        next(iter(md.Batches(split, each, batch_size=60, shuffle=False)))
        for each in (strategy, loaded)
    )
    for name, array in one.items():
        assert np.array_equal(array, other[name]), name
    assert md.show(split, strategy, rows=1).html
    with pytest.raises(TypeError, match="no options"):
        load(copied).strategy(strategy, elm=0.5)
