"""Whole builds beside a user's script. Times count only if the rows are equal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("datasets")
pytest.importorskip("transformers")

from benchmarks import build, inputs, script
from benchmarks.build import Encoded

SAMPLE = inputs.ROOT / "vocab" / "sample"
ENCODED = Encoded(lengths=np.array([2, 1]), ids=np.array([5, 6, 7]), tags=np.array([0, 1, 0]))


@pytest.mark.long
@pytest.mark.timeout(900)  # compiles the kernels of a build if none are cached
def test_measure__makes_rows_of_equal_builds_and_scripts(tmp_path: Path) -> None:
    sentences = inputs.read(SAMPLE / "bc5cdr-chem" / "train.tsv")
    inputs.write(tmp_path / "train.tsv", sentences[:40])
    found = inputs.Inputs(tmp_path / "train.tsv", SAMPLE / "vocab.txt", "forty sentences")

    rows = build.measure(found, tmp_path, rounds=1)

    assert [row.name for row in rows] == [
        "build, one process",
        "build, two workers",
        "build, one process, a second of a core",
        "build, one process, peak memory",
        "build, two workers, a second of a core",
        "build, two workers, peak memory",
    ]
    assert all(row.ours and row.peer for row in rows)
    assert [row.goal for row in rows[:2]] == ["10x peer", "0.85x limit"]


@pytest.mark.parametrize(
    "made",
    [
        ENCODED._replace(lengths=np.array([1, 2])),
        ENCODED._replace(ids=np.array([5, 6, 8])),
        ENCODED._replace(tags=np.array([0, 1, 2])),
        ENCODED._replace(ids=np.array([5, 6])),
    ],
)
def test_check__refuses_other_rows_ids_or_tags(made: Encoded) -> None:
    with pytest.raises(RuntimeError, match=r"ours: \w+: expected ours and the peer's to be equal"):
        build.check("ours", made, ENCODED)


def test_check__accepts_the_same_rows() -> None:
    build.check("ours", Encoded(*(column.copy() for column in ENCODED)), ENCODED)


def test_label_names__has_b_and_i_of_every_label(tmp_path: Path) -> None:
    inputs.write(tmp_path / "train.tsv", [[("a", "B-X"), ("b", "O")], [("c", "B-Y")]])

    names = script.label_names(tmp_path / "train.tsv")

    assert names == ["B-X", "B-Y", "I-X", "I-Y", "O"]
    assert [names[i] for i in script.continued_labels(names)] == [
        "I-X",
        "I-Y",
        "I-X",
        "I-Y",
        "O",
    ]


def test_read_sentences__reads_files_of_inputs(tmp_path: Path) -> None:
    inputs.write(tmp_path / "train.tsv", [[("a", "B-X"), ("b", "O")], [("c", "O")]])

    rows = list(script.read_sentences(str(tmp_path / "train.tsv"), {"B-X": 0, "O": 1}))

    assert rows == [{"tokens": ["a", "b"], "ner_tags": [0, 1]}, {"tokens": ["c"], "ner_tags": [1]}]
