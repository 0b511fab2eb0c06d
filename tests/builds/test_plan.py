"""The plan: work units cover every input byte, and the record holds all that changes the bytes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from mslm_data import builds
from mslm_data.builds import scan
from mslm_data.builds.plan import Plan, check_unchanged_files, find, take_stamps
from mslm_data.data.document import Part
from mslm_data.errors import PipelineError, SourceError
from tests import made

NCBI = made.SAMPLE / "ncbi-disease"


def plan_of(inputs: Path = NCBI, **options: object) -> Plan:
    found = builds.find(made.pipeline_of(**options), [inputs])
    plan, _ = builds.plan_build(found, made.word_piece(), inputs.with_name("nothing there"))
    return plan


def assert_covered(parts: list[Part], path: Path) -> None:
    assert {part.path for part in parts} == {str(path)}
    assert parts[0].start == 0
    assert all(before.stop == after.start for before, after in pairwise(parts))
    assert parts[-1].stop in (-1, path.stat().st_size)


def test_find__names_a_split_without_documents(tmp_path: Path) -> None:
    for name in ("train/a", "test/b"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / f"{name}.txt").write_text("Had gout.")
        (tmp_path / f"{name}.ann").touch()
    splits = {"train": ["train/*"], "test": ["test/*.ann"]}
    pipeline = made.pipeline_of(source={"use": "brat", "splits": splits}, segment="clinical")

    with pytest.raises(SourceError, match="split 'test': expected files of documents"):
        builds.find(pipeline, [tmp_path])


@pytest.mark.parametrize("small", [300, 1 << 20])
def test_plan__divides_each_file_into_shards_and_units_that_cover_it(
    small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "UNIT_BYTES", small)

    plan = plan_of(unit_bytes=1500)

    for split, name in (("train", "train"), ("validation", "devel"), ("test", "test")):
        path = NCBI / f"{name}.tsv"
        shards = [shard for shard in plan.shards if shard.split == split]
        assert [shard.number for shard in shards] == list(range(len(shards)))
        assert_covered([part for shard in shards for part in shard.parts], path)
        for shard in shards:
            assert [unit.number for unit in shard.units] == list(range(len(shard.units)))
            in_units = [part for unit in shard.units for part in unit.parts]
            assert (in_units[0].start, in_units[-1].stop) == (
                shard.parts[0].start, shard.parts[-1].stop,
            )  # fmt: skip
        assert_covered([p for shard in shards for unit in shard.units for p in unit.parts], path)
    assert (len(plan.units) > 2 * len(plan.shards)) == (small == 300)
    assert sum(plan.sizes.values()) > sum(path.stat().st_size for path in NCBI.glob("*.tsv")) - len(
        plan.units
    ) - len(plan.shards)


def test_plan__records_each_part_of_each_shard_without_folders() -> None:
    plan = plan_of(unit_bytes=1500)

    assert plan.record["units"] == [
        [
            shard.split,
            shard.number,
            [
                [Path(part.path).name, part.start, part.stop, part.first, part.line]
                for part in shard.parts
            ],
        ]
        for shard in plan.shards
    ]
    assert len({(start, stop) for _, _, [[_, start, stop, _, _]] in plan.record["units"]}) > 5
    assert str(made.SAMPLE) not in repr(plan.record)


def test_plan__groups_small_files(tmp_path: Path) -> None:
    for name in ("train-a.tsv", "train-b.tsv", "train-c.tsv"):
        (tmp_path / name).write_text("kinase\tB-X\n" * 10)
    size = (tmp_path / "train-a.tsv").stat().st_size

    plan = plan_of(tmp_path, unit_bytes=2 * size)

    assert [[Path(part.path).name for part in unit.parts] for unit in plan.units] == [
        ["train-a.tsv", "train-b.tsv"],
        ["train-c.tsv"],
    ]
    assert list(plan.sizes.values()) == [2 * size, size]


def test_plan__lists_the_labels_of_an_annotator(tmp_path: Path) -> None:
    (tmp_path / "terms.csv").write_text("name,label\nasthma,Illness\naspirin,Drug\n")
    annotate = {
        "use": "terms",
        "table": str(tmp_path / "terms.csv"),
        "rename": {"Illness": "Disease"},
    }

    with pytest.raises(PipelineError, match=r'expected labels, got none; .*\["Disease", "Drug"\]'):
        plan_of(annotate=annotate)


def test_check_unchanged_files__names_the_file_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text("kinase\tB-X\n")
    stamps = take_stamps(find(made.pipeline_of(), [tmp_path]))
    check_unchanged_files(stamps, [str(path)])

    path.write_text("kinase\tO\n\n")
    with pytest.raises(SourceError, match=f"^{path}: the file has changed since the command began"):
        check_unchanged_files(stamps, [str(path)])

    path.unlink()
    with pytest.raises(SourceError, match=f"^{path}: the file has changed since the command began"):
        check_unchanged_files(stamps, [str(path)])


@pytest.mark.parametrize(
    "name",
    ["manifest.json", "README.md", "readme.MD", "tokenizer.json", "set_aside.jsonl", "vocab"],
)
def test_find__rejects_splits_named_like_files_of_a_built_folder(name: str) -> None:
    pipeline = made.pipeline_of(source={"splits": {"train": ["train.tsv"], name: ["test.tsv"]}})

    with pytest.raises(PipelineError, match=f"of its own named '{name}'; rename the split"):
        find(pipeline, [NCBI])


@pytest.mark.parametrize(
    ("annotate", "expected"),
    [
        ({"use": "gold"}, scan.UNIT_BYTES),
        ({"use": "model", "model": "m", "labels": ["X"]}, scan.SLOW_UNIT_BYTES),
    ],
)
def test_scan__makes_small_units_for_slow_annotators(
    annotate: dict[str, object], expected: int
) -> None:
    pipeline = made.pipeline_of(annotate=annotate)

    assert scan.choose_unit_bytes(pipeline) == expected
