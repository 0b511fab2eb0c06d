from __future__ import annotations

from pathlib import Path

import pytest

from mslm_data.errors import SourceError
from mslm_data.source.formats.bc2gm import Bc2gm


def test_find__pairs_by_folder_and_name(tmp_path: Path) -> None:
    for name in ("devel-split/train/train.in", "devel-split/devel/devel.in", "flat/my_test.in"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("S1 a\n")
    for name in ("devel-split/train/GENE.eval", "devel-split/devel/GENE.eval", "flat/my_test.eval"):
        (tmp_path / name).write_text("")

    found = Bc2gm().find([tmp_path])

    assert {split: [path.name for path in paths] for split, paths in found.items()} == {
        "train": ["train.in"],
        "validation": ["devel.in"],
        "test": ["my_test.in"],
    }
    assert Bc2gm().files(found["test"][0])[1].name == "my_test.eval"
    elsewhere = Bc2gm(mentions=("../devel-split/train/GENE.eval",))
    assert elsewhere.files(tmp_path / "flat" / "x.in")[1].is_file()


def test_find__names_the_missing_file_of_mentions(tmp_path: Path) -> None:
    (tmp_path / "train.in").write_text("S1 a\n")

    with pytest.raises(
        SourceError,
        match=r"^/.*/train.in: expected GENE.eval or train.eval beside it, found none; set",
    ):
        Bc2gm().find([tmp_path])
