from __future__ import annotations

import copy
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from mslm_data.api.loading import load
from mslm_data.data.ragged import Ragged
from mslm_data.errors import ShardError, VocabularyError
from mslm_data.lexicon.store import Lexicon, write_lexicon
from mslm_data.mask.artefacts import iter_artefacts
from tests import made


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

    assert shards.get("train") is shards["train"]
    assert shards.get("trian") is None
    assert shards.get("trian", "none") == "none"


def test_load__suggests_a_similar_split_name(folder: Path) -> None:
    with pytest.raises(ShardError, match=r"no split 'trian'; did you mean 'train'\?"):
        load(folder)["trian"]


def test_load__supports_membership_tests(folder: Path) -> None:
    shards = load(folder)

    assert "train" in shards
    assert "trian" not in shards


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


def test_strategy__loads_its_lexicon_from_the_folder(folder: Path, tmp_path: Path) -> None:
    copied = tmp_path / "built"
    shutil.copytree(folder, copied)
    shards = load(copied)
    order = {"by": "highest", "score": {"lexicon": "mine.arrow"}}
    picks = [{"units": "words", "budget": {"rate": 1.0}, "order": order}]
    lexicon = Lexicon(
        tokens=Ragged.from_rows([[9]], np.int32),
        word_starts=Ragged.from_rows([[0]], np.int32),
        scores=np.ones(1),
        about={
            "tokenizer": shards.manifest.tokenizer.sha256,
            "size": shards.manifest.token_ids.size,
        },
    )
    write_lexicon(copied / "vocab" / "mine.arrow", lexicon)

    made = shards.strategy("picks", picks=picks)
    assert list(iter_artefacts(made)) == [str(copied / "vocab" / "mine.arrow")]
    write_lexicon(
        copied / "vocab" / "mine.arrow",
        replace(lexicon, about={**lexicon.about, "tokenizer": "another"}),
    )
    with pytest.raises(
        VocabularyError,
        match=r"mine.arrow: made with another tokenizer than that of",
    ):
        shards.strategy("picks", picks=picks)
