"""`mask-stats` of several folders: an epoch of their mix, as in training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mslm_data as md
from tests import made
from tests.cli.running import Done, run

NAMES = ("ncbi-disease", "bc5cdr-chem")
SHARES = ("--share", "0.7", "--share", "0.3")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    base = tmp_path_factory.mktemp("folders")
    for name in NAMES:
        made.built(base / name, made.SAMPLE / name, made.pipeline_of(name=name))
    return [base / name for name in NAMES]


def counted(folders: list[Path], *words: object) -> Done:
    return run("mask-stats", *folders, *words)


def masked(mix: md.Split, keys: set[int] | None = None, **options: Any) -> dict[str, int]:
    """Return the masks of an epoch in training, or the masks of the rows with some keys."""
    found = {"sequences": 0, "tokens": 0, "n_elm": 0, "n_blm": 0}
    for batch in md.Batches(mix, md.strategy("joint", elm=0.5, blm=0.2), **options):
        here = [keys is None or key in keys for key in batch["keys"].tolist()]
        kinds = batch["mask_kinds"][here]
        found["sequences"] += sum(here)
        found["tokens"] += int(batch["attention_mask"][here].sum())
        found["n_elm"] += int((kinds == 2).sum())
        found["n_blm"] += int((kinds == 1).sum())
    return found


def test_mask_stats__mix_counts_the_masks_of_training(folders: list[Path]) -> None:
    words = ("--elm", "0.5", "--blm", "0.2", "--seed", "3", "--json")
    stats = counted(folders, *SHARES, "--epoch-size", "2000", *words).json
    opened = [md.load(folder) for folder in folders]
    mix: Any = md.mix(dict(zip(opened, (0.7, 0.3), strict=True)), epoch_size=2000)

    expected = masked(mix, seed=3)

    assert {name: stats[name] for name in expected} == expected
    assert [part["name"] for part in stats["mix"]] == [f"{folder}/train" for folder in folders]
    assert [part["share"] for part in stats["mix"]] == [0.7, 0.3]
    for part, shards in zip(stats["mix"], opened, strict=True):
        assert part["times"] < 1  # Repeated rows would have other keys.
        keys = set(shards["train"].examples().keys.tolist())
        of_part = masked(mix, keys, seed=3)
        assert {name: part[name] for name in of_part} == of_part
        assert part["rows"] == len(shards["train"])
    assert stats["labels"].keys() == {"Disease", "Chemical"}


def test_mask_stats__mix_accepts_the_options_of_md_mix(folders: list[Path]) -> None:
    for words, options in (
        ((), {}),
        (("--by", "rows"), {"by": "rows"}),
        (("--temperature", "3"), {"temperature": 3}),
        (("--epoch-size", "longest"), {"epoch_size": "longest"}),
        (("--by", "rows", "--epoch-size", "90"), {"by": "rows", "epoch_size": 90}),
    ):
        mix = md.mix(folders, **options)  # type: ignore[arg-type]

        found = counted(folders, *words, "--json").json["mix"]

        assert [part["sequences"] for part in found] == [part.rows for part in mix.splits]
        assert [part["times"] for part in found] == [part.times for part in mix.splits]


def test_mask_stats__mix_reports_tokens_per_step(folders: list[Path]) -> None:
    stats = counted(folders, *SHARES, "--batch-tokens", "256", "--flat", "--json").json

    steps = stats["batches"]["steps"]
    assert stats["batches"]["tokens"] == stats["tokens"]
    assert [part["tokens_per_step"] for part in stats["mix"]] == [
        part["tokens"] / steps for part in stats["mix"]
    ]


def test_mask_stats__shows_each_folder_of_a_mix(folders: list[Path]) -> None:
    done = counted(folders, *SHARES, "--batch-size", "4")

    lines = [line.split() for line in done.out.splitlines() if line.startswith(str(folders[0]))]
    assert [line[1] for line in lines] == ["70.0%"]
    assert "tokens a step" in done.out


def test_mask_stats__single_folder_omits_the_mix(folders: list[Path]) -> None:
    assert "mix" not in counted(folders[:1], "--json").json
    assert "of the mix" not in counted(folders[:1]).out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--share", "1"), "--share: expected one for each of 2 folders, got 1"),
        (("--share", "1", "--share", "0"), "--share: expected weights above 0, got 0.0"),
        (("--epochs", "2"), "--epochs: expected 1 for a mix, whose epochs have rows of their own"),
        (("--epoch-size", "all"), "--epoch-size: expected 'total', 'longest', 'shortest', or an"),
        (("--temperature", "0"), "--temperature: expected a number above 0, got 0.0"),
        (
            (*SHARES, "--temperature", "2"),
            "--temperature: cannot be combined with weights; pass a list",
        ),
        (("--batch-tokens", "4"), "--batch-tokens: expected room for a row of"),
    ],
)
def test_mask_stats__rejects_invalid_mix_options(
    words: tuple[str, ...], message: str, folders: list[Path]
) -> None:
    done = counted(folders, *words)

    assert done.code == 2
    assert message in " ".join(done.err.split())


def test_mask_stats__rejects_mix_options_for_a_single_folder(folders: list[Path]) -> None:
    done = counted(folders[:1], "--share", "1", "--by", "rows")

    assert done.code == 2
    assert "--share, --by: expected several folders, got one" in done.err


def test_mask_stats__names_folders_that_cannot_be_mixed(folders: list[Path]) -> None:
    done = counted([folders[0], folders[0]])

    assert done.code == 1
    assert "is of the same split as" in done.err


def test_mask_stats__shows_no_patients_text_without_the_flag(
    folders: list[Path], tmp_path: Path
) -> None:
    done = run("build", "--source", "mimic", "--sample", "--out", tmp_path / "notes")
    assert done.code == 0

    shown = counted([folders[0], tmp_path / "notes"], "--top-words", "3")

    assert shown.code == 1
    assert "notes: holds patients' text, which --top-words shows; pass --show-text" in shown.err


def test_chunks__gives_the_rows_of_one_split(folders: list[Path]) -> None:
    mix = md.mix(folders, epoch_size="longest")

    parts = [
        np.concatenate([examples.keys for examples in mix.chunks(16, part=number, seed=2, epoch=3)])
        for number in range(2)
    ]

    assert [len(part) for part in parts] == [part.rows for part in mix.splits]
    whole = mix.examples(seed=2, epoch=3).keys.tolist()
    assert np.concatenate(parts).tolist() == whole
