from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from mslm_data.errors import SourceError
from mslm_data.source.formats.ebm import EbmNlp


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_labels(root: Path, labels: Mapping[str, str], *, phase: str = "starting_spans") -> None:
    for name, text in labels.items():
        element, _, below = name.partition("/")
        write(root, f"annotations/aggregated/{phase}/{element}/{below}", text)


def test_find__gives_each_document_once_and_test_first(tmp_path: Path) -> None:
    write_labels(
        tmp_path,
        {
            "participants/train/1.AGGREGATED.ann": "0\n",
            "outcomes/train/1.AGGREGATED.ann": "0\n",
            "outcomes/train/2.AGGREGATED.ann": "0\n",
            "participants/train/3.AGGREGATED.ann": "0\n",
            "participants/test/gold/3.AGGREGATED.ann": "0\n",
            "participants/test/crowd/4.AGGREGATED.ann": "0\n",
        },
    )

    found = EbmNlp().find([tmp_path])
    chosen = EbmNlp(splits={"validation": ("train/2",), "train": ("train/[!2]",)}).find([tmp_path])

    def ids(paths: list[Path]) -> list[str]:
        return sorted(path.name[0] for path in paths)

    assert {split: ids(paths) for split, paths in found.items()} == {
        "train": ["1", "2"],
        "test": ["3"],
    }
    assert {split: ids(paths) for split, paths in chosen.items()} == {
        "train": ["1"],
        "validation": ["2"],
    }


def test_find__names_the_missing_folder(tmp_path: Path) -> None:
    write_labels(tmp_path, {"participants/train/1.AGGREGATED.ann": "0\n"})

    with pytest.raises(
        SourceError,
        match=r"expected annotations/aggregated/hierarchical_labels/.*found none; check",
    ):
        EbmNlp(phase="hierarchical_labels").find([tmp_path])
