"""The plan: units cover every input byte, and inputs that cannot be built are refused."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mslm_data import builds
from mslm_data.builds import plan
from mslm_data.builds.plan import Plan, find
from mslm_data.data.document import Part
from mslm_data.errors import PipelineError, SourceError
from mslm_data.pipeline import read
from tests import made

NCBI = made.SAMPLE / "ncbi-disease"


def plan_of(inputs: Path = NCBI, **options: object) -> Plan:
    found = find(made.pipeline_of(**options), [inputs])
    return builds.plan_build(found, made.word_piece(), inputs.with_name("nothing there")).plan


def assert_covered(parts: list[Part], path: Path) -> None:
    assert {part.path for part in parts} == {str(path)}
    assert parts[0].start == 0
    assert all(before.stop == after.start for before, after in pairwise(parts))
    assert parts[-1].stop in (-1, path.stat().st_size)


@pytest.mark.parametrize("unit_bytes", [300, 1 << 20])
def test_plan_build__divides_files_into_units_that_cover_them(
    unit_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "UNIT_BYTES", unit_bytes)

    made_plan = plan_of(unit_bytes=1500)

    for split, name in (("train", "train"), ("validation", "devel"), ("test", "test")):
        units = [unit for unit in made_plan.units if unit.split == split]
        assert_covered([part for unit in units for part in unit.parts], NCBI / f"{name}.tsv")
        # Shards are runs of units.
        numbers = [(unit.shard, unit.number) for unit in units]
        assert numbers == sorted(numbers)
        assert [number for _, number in numbers if number == 0] == [0] * len({*dict(numbers)})
    assert sum(unit.bytes for unit in made_plan.units) == pytest.approx(
        sum(path.stat().st_size for path in NCBI.glob("*.tsv")), abs=len(made_plan.units)
    )
    shards = made_plan.shards()
    assert (len(made_plan.units) > 2 * len(shards)) == (unit_bytes == 300)
    for members in shards.values():
        assert sum(unit.bytes for unit in members) < 2 * 1500


def test_plan_build__groups_small_files(tmp_path: Path) -> None:
    for name in ("train-a.tsv", "train-b.tsv", "train-c.tsv"):
        (tmp_path / name).write_text("kinase\tB-X\n" * 10)
    size = (tmp_path / "train-a.tsv").stat().st_size

    units = plan_of(tmp_path, unit_bytes=2 * size).units

    assert [[Path(part.path).name for part in unit.parts] for unit in units] == [
        ["train-a.tsv", "train-b.tsv"],
        ["train-c.tsv"],
    ]
    assert [unit.bytes for unit in units] == [2 * size, size]


# Inputs that cannot be built ----------------------------------------------------------------------


def test_find__names_a_split_without_documents(tmp_path: Path) -> None:
    for name in ("train/a", "test/b"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / f"{name}.txt").write_text("Had gout.")
        (tmp_path / f"{name}.ann").touch()
    splits = {"train": ["train/*"], "test": ["test/*.ann"]}
    pipeline = made.pipeline_of(source={"use": "brat", "splits": splits}, segment="clinical")

    with pytest.raises(SourceError, match="split 'test': expected files of documents"):
        find(pipeline, [tmp_path])


def test_find__lists_the_labels_of_an_annotator(tmp_path: Path) -> None:
    (tmp_path / "terms.csv").write_text("name,label\nasthma,Illness\naspirin,Drug\n")
    annotate = {
        "use": "terms",
        "table": str(tmp_path / "terms.csv"),
        "rename": {"Illness": "Disease"},
    }

    with pytest.raises(PipelineError, match=r'expected labels, got none; .*\["Disease", "Drug"\]'):
        find(made.pipeline_of(annotate=annotate), [NCBI])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["..", "a/b", ".hidden"], "expected names of letters, digits, .* got '{name}'"),
        (
            [
                "manifest.json",
                "README.md",
                "readme.MD",
                "tokenizer.json",
                "set_aside.jsonl",
                "vocab",
            ],
            "of its own named '{name}'; rename the split",
        ),
    ],
)
def test_find__rejects_names_of_splits(names: list[str], message: str) -> None:
    for name in names:
        pipeline = made.pipeline_of(source={"splits": {"train": ["train.tsv"], name: ["test.tsv"]}})

        with pytest.raises(PipelineError, match=message.format(name=re.escape(name))):
            find(pipeline, [NCBI])


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("encode.join", ["documents", "", 1]),
        ("source.duplicates", ["thin"]),
        ("source.duplicate_similarity", [0, 2]),
        ("source.decontaminate", ["shards/test", [""], [3], {"a": 1}]),
    ],
)
def test_read__rejects_values(option: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(PipelineError, match=option.partition(".")[2]):
            read({"name": "test", "source": {"use": "jsonl"}}, options={option: value})
