from __future__ import annotations

import shlex
from pathlib import Path

import click
import numpy as np
import pytest

from mslm_data.cli.vocab import command as vocab
from mslm_data.data.ragged import Ragged
from mslm_data.errors import VocabularyError
from mslm_data.lexicon.artefacts import (
    LEXICON,
    MAKERS,
    SCORE_COLUMN,
    ArtefactKind,
    find_artefact,
    how_to_make,
)
from mslm_data.lexicon.score_columns import write_scores
from mslm_data.lexicon.store import Lexicon, write_lexicon

TOKENIZER = "7" * 64
ABOUT = {"tokenizer": TOKENIZER, "size": 40, "made": {"command": "vocab scores", "of": "table"}}


def lexicon(path: Path, **changes: object) -> Path:
    made = Lexicon(
        tokens=Ragged.from_rows([[9]], np.int32),
        word_starts=Ragged.from_rows([[0]], np.int32),
        scores=np.ones(1),
        about={**ABOUT, **changes},
    )
    write_lexicon(path, made)
    return path


def column(folder: Path) -> Path:
    keys, scores = np.array([1], np.uint64), Ragged.from_rows([[1.0, 2.0]], np.float32)
    write_scores(folder / "train" / "data.arrow", keys, scores, ABOUT)
    return folder


def find(folder: Path, name: str, kind: ArtefactKind = LEXICON) -> Path:
    return find_artefact(folder, name, kind, tokenizer=TOKENIZER)


def test_find_artefact__prefers_the_folder_to_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = lexicon(tmp_path / "mine.arrow")

    assert find(tmp_path / "built", "mine.arrow") == Path("mine.arrow")
    assert find(tmp_path / "built", str(elsewhere)) == elsewhere
    inside = lexicon(tmp_path / "built" / "vocab" / "mine.arrow")
    assert find(tmp_path / "built", "mine.arrow") == inside


def test_find_artefact__of_a_score_column_returns_its_folder(tmp_path: Path) -> None:
    inside = column(tmp_path / "vocab" / "attention")

    assert find(tmp_path, "attention", SCORE_COLUMN) == inside
    assert SCORE_COLUMN.read_about(inside) == {**ABOUT, "format": 1}


@pytest.mark.parametrize("name", MAKERS)
def test_find_artefact__names_the_command_that_makes_a_missing_file(
    name: str, tmp_path: Path
) -> None:
    kind = LEXICON if name.endswith(".arrow") else SCORE_COLUMN

    with pytest.raises(VocabularyError) as caught:
        find(tmp_path / "built", name, kind)

    path = tmp_path / "built" / "vocab" / name
    command = MAKERS[name].replace("DIR", str(tmp_path / "built"))
    assert str(caught.value) == (
        f"{path}: expected {kind.name}, found none; make it with `{command}`"
    )


@pytest.mark.parametrize("name", ["mine", "mine.arrow"])
def test_find_artefact__expects_the_kind_regardless_of_the_name(name: str, tmp_path: Path) -> None:
    for kind in (LEXICON, SCORE_COLUMN):
        with pytest.raises(
            VocabularyError,
            match=f"expected {kind.name}, found none; make it with `mslm-data vocab`",
        ):
            find(tmp_path, name, kind)


def test_how_to_make__knows_the_files_of_a_score_column() -> None:
    known = how_to_make(Path("my data/vocab/logits/train/data-00000-of-00001.arrow"))

    command = MAKERS["logits"].replace("DIR", "'my data'")
    assert known == f"make it with `{command}`"


def test_find_artefact__of_the_other_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lexicon(tmp_path / "mine.arrow")
    column(tmp_path / "vocab" / "attention")

    with pytest.raises(VocabularyError, match="expected a lexicon, which is a file, got a folder"):
        find(tmp_path, "attention")
    with pytest.raises(VocabularyError, match="a score column, which is a folder, got a file"):
        find(tmp_path, "mine.arrow", SCORE_COLUMN)


def test_find_artefact__of_another_tokenizer(tmp_path: Path) -> None:
    lexicon(tmp_path / "vocab" / "pmi.arrow", tokenizer="another")

    with pytest.raises(
        VocabularyError,
        match=r"made with another tokenizer than that of .*; make it with `mslm-data vocab pmi .*`",
    ):
        find(tmp_path, "pmi.arrow")


def test_find_artefact__another_file(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no artefact")

    with pytest.raises(VocabularyError, match="expected a lexicon, got a file that cannot be read"):
        find(tmp_path, str(tmp_path / "notes.txt"))


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_makers__are_commands_with_all_required_options(maker: str) -> None:
    program, group, *words = shlex.split(maker)
    assert (program, group) == ("mslm-data", "vocab")

    found: click.Command | None = vocab
    context = click.Context(vocab)
    while isinstance(found, click.Group):
        found = found.get_command(context, words.pop(0))

    assert found is not None
    found.make_context("x", words)
