"""Output of `mslm-data overlap` for folders and single splits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mslm_data.api.loading import load
from mslm_data.shard.built_folder import load_splits
from tests import made
from tests.cli.running import run
from tests.reference import overlap as reference
from tests.stats.test_overlap import FILLER, folder_of

CORPORA = {
    "ncbi-disease": "NCBI-disease-IOB",
    "bc5cdr-disease": "BC5CDR-disease-IOB",
    "bc5cdr-chem": "BC5CDR-chem-IOB",
    "bc2gm": "BC2GM-IOB",
}
"""Corpora with all three splits available, and their folders."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out)
    return out


def test_overlap__counts_sentences_of_other_in_dir(tmp_path: Path) -> None:
    here = folder_of(tmp_path / "here", ["Kinase inhibitors.", f"{FILLER} x", "a gene"])
    there = folder_of(
        tmp_path / "there", ["none", "kinase inhibitors", f"y {FILLER}"], split="test"
    )

    done = run("overlap", here, there, "--json")

    assert done.code == 0
    assert done.json == {
        "words": 13,
        "pairs": [
            {
                "of": {"folder": str(there), "split": "test"},
                "in": {"folder": str(here), "split": "train"},
                "sentences": 3,
                "exact": 1,
                "exact_short": 1,
                "near": 1,
                "share": 2 / 3,
                "found": [
                    {"row": 1, "doc_id": "1", "how": "exact"},
                    {"row": 2, "doc_id": "2", "how": "near"},
                ],
            }
        ],
    }


def test_overlap__prints_one_line_per_pair_without_text(tmp_path: Path) -> None:
    here = folder_of(tmp_path / "here", ["Kinase inhibitors.", f"{FILLER} x", "a gene"])
    there = folder_of(tmp_path / "there", ["kinase inhibitors", f"y {FILLER}"])

    done = run("overlap", here, there)

    head, line = done.out.splitlines()
    assert head.split("  ")[0] == "sentences of"
    assert line.split() == [
        f"{there}/train", f"{here}/train", "2", "1", "1", "1", "1.0000"
    ]  # fmt: skip
    assert "kinase" not in (done.out + done.err).lower()


def test_overlap__without_other_compares_all_splits(folder: Path) -> None:
    found = run("overlap", folder, "--json").json["pairs"]

    names = load(folder).splits
    pairs = [(pair["of"]["split"], pair["in"]["split"]) for pair in found]
    assert len(names) == 3
    assert sorted(pairs) == sorted((a, b) for a in names for b in names if a != b)


def test_overlap__single_split_is_compared_with_the_others(folder: Path) -> None:
    found = run("overlap", folder / "train", "--json").json["pairs"]

    assert {pair["in"]["split"] for pair in found} == {"train"}
    assert {pair["of"]["split"] for pair in found} == {"validation", "test"}
    assert {pair["of"]["folder"] for pair in found} == {str(folder)}


def test_overlap__never_compares_a_split_with_itself(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)

    done = run("overlap", "ncbi/test", folder / ".." / "ncbi", folder / "train", "--json")

    pairs = [(pair["of"]["split"], pair["in"]["split"]) for pair in done.json["pairs"]]
    assert sorted(pairs) == [("train", "test"), ("train", "test"), ("validation", "test")]
    assert done.json["pairs"][0]["in"]["folder"] == "ncbi"

    monkeypatch.chdir(folder / "test")
    inside = run("overlap", ".", "--json").json["pairs"]
    assert {pair["in"]["split"] for pair in inside} == {"test"}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nothing"], 1, "no such folder"),
        (["{folder}/dev"], 1, "no split 'dev'"),
        (["{folder}", "{folder}/tests"], 1, "no split 'tests'; did you mean 'test'?"),
        (["{folder}/test", "{folder}/test"], 2, "expected another split to compare with"),
        (["{alone}"], 2, "expected another split to compare with, got only this one"),
        ([], 2, "Missing argument 'DIR'"),
    ],
)
def test_overlap__rejects_folders_that_cannot_be_compared(
    words: list[str], code: int, said: str, folder: Path, tmp_path: Path
) -> None:
    alone = folder_of(tmp_path / "alone", ["kinase"])

    done = run("overlap", *(word.format(folder=folder, alone=alone) for word in words))

    assert done.code == code
    assert said in done.err
    assert done.out == ""


def test_load_splits__accepts_a_folder_or_one_split(folder: Path) -> None:
    assert load_splits(folder)[1] == load(folder).splits
    assert load_splits(folder / "test")[1] == ("test",)
    assert load_splits(f"file://{folder}/test")[1] == ("test",)


@pytest.mark.long
@pytest.mark.skipif("MSLM_DATA_REAL" not in os.environ, reason="needs MSLM_DATA_REAL")
@pytest.mark.parametrize("name", CORPORA)
def test_overlap__equals_its_twin_and_the_page_on_blurb(name: str, tmp_path: Path) -> None:
    real = Path(os.environ["MSLM_DATA_REAL"])
    run(
        "build", "--source", f"blurb/{name}", "--input", real / "blurb" / CORPORA[name],
        "--tokenizer", real / "tokenizers" / "bert-base-cased__Bio_ClinicalBERT.vocab.txt",
        "--set", "encode.keep_text=true", "--out", tmp_path / "out",
    )  # fmt: skip
    texts = {split: list(rows.texts()) for split, rows in load(tmp_path / "out").items()}
    page = (Path(__file__).parents[2] / "docs" / "overlap.md").read_text(encoding="utf-8")

    for pair in run("overlap", tmp_path / "out", "--json").json["pairs"]:
        of, within = pair["of"]["split"], pair["in"]["split"]
        exact, near = reference.overlap(texts[of], texts[within])
        found = {how: [of_one["row"] for of_one in pair["found"] if of_one["how"] == how]
                 for how in ("exact", "near")}  # fmt: skip
        assert found == {"exact": exact, "near": near}

        counts = (pair["sentences"], pair["exact"], pair["exact_short"], pair["near"])
        row = f"| {name} | {of} | {within} | {' | '.join(f'{count:,}' for count in counts)} |"
        assert row in page
