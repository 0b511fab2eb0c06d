"""The plan: every byte of the input in one work unit, and all that decides bytes in the record."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from mslm_data.builds.plan import Plan, make_plan, refuse_changed
from mslm_data.errors import PipelineError, SourceError
from tests import made

NCBI = made.SAMPLE / "ncbi-disease"


def plan_of(inputs: Path = NCBI, **options: object) -> Plan:
    return make_plan(made.pipeline_of(**options), [inputs], made.word_piece())


def test_make_plan__cuts_each_file_into_units_that_cover_it() -> None:
    plan = plan_of(unit_bytes=1500)

    for split, name in (("train", "train"), ("validation", "devel"), ("test", "test")):
        path = NCBI / f"{name}.tsv"
        units = [unit for unit in plan.units if unit.split == split]
        parts = [part for unit in units for part in unit.parts]
        assert [unit.number for unit in units] == list(range(len(units)))
        assert {part.path for part in parts} == {str(path)}
        assert parts[0].start == 0
        assert all(before.stop == after.start for before, after in pairwise(parts))
        assert parts[-1].stop in (-1, path.stat().st_size)
    assert sum(plan.sizes) > sum(path.stat().st_size for path in NCBI.glob("*.tsv")) - len(
        plan.units
    )


def test_make_plan__records_each_part_of_each_unit_without_folders() -> None:
    plan = plan_of(unit_bytes=1500)

    assert plan.record["units"] == [
        [
            unit.split,
            unit.number,
            [
                [Path(part.path).name, part.start, part.stop, part.first, part.line]
                for part in unit.parts
            ],
        ]
        for unit in plan.units
    ]
    assert len({(start, stop) for _, _, [[_, start, stop, _, _]] in plan.record["units"]}) > 5
    assert str(made.SAMPLE) not in repr(plan.record)


def test_make_plan__puts_small_files_together(tmp_path: Path) -> None:
    for name in ("train-a.tsv", "train-b.tsv", "train-c.tsv"):
        (tmp_path / name).write_text("kinase\tB-X\n" * 10)
    size = (tmp_path / "train-a.tsv").stat().st_size

    plan = plan_of(tmp_path, unit_bytes=2 * size)

    assert [[Path(part.path).name for part in unit.parts] for unit in plan.units] == [
        ["train-a.tsv", "train-b.tsv"],
        ["train-c.tsv"],
    ]
    assert plan.sizes == (2 * size, size)


def test_make_plan__says_which_labels_an_annotator_finds(tmp_path: Path) -> None:
    (tmp_path / "terms.csv").write_text("name,label\nasthma,Illness\naspirin,Drug\n")
    annotate = {
        "use": "terms",
        "table": str(tmp_path / "terms.csv"),
        "rename": {"Illness": "Disease"},
    }

    with pytest.raises(PipelineError, match=r"expected labels, got none; .*\['Disease', 'Drug'\]"):
        plan_of(annotate=annotate)


def test_refuse_changed__names_the_file_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text("kinase\tB-X\n")
    plan = plan_of(tmp_path)
    refuse_changed(plan.stamps, plan.units[0])

    path.write_text("kinase\tO\n\n")
    with pytest.raises(SourceError, match=f"^{path}: expected a file that stays as it is"):
        refuse_changed(plan.stamps, plan.units[0])

    path.unlink()
    with pytest.raises(SourceError, match=f"^{path}: expected a file that stays as it is"):
        refuse_changed(plan.stamps, plan.units[0])
