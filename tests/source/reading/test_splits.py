from __future__ import annotations

import errno
import os
import re
import tomllib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from mslm_data.errors import SourceError
from mslm_data.source.formats.conll import Conll
from mslm_data.source.reading.splits import (
    Candidate,
    Unread,
    assign,
    check_one_form,
    parse_split,
    sort_by_split,
    unread,
)


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train.tsv", "train"),
        ("bc2GMtrain_1.1", "train"),
        ("NCBI_devel.txt", "validation"),
        ("val.tsv", "validation"),
        ("Valid.conll", "validation"),
        ("interval.tsv", None),
        ("test.tsv", "test"),
        ("Genia4EReval1.iob2", "test"),
        ("Genia4ERtraining", "train"),
        ("NCBItestset_corpus.txt", "test"),
        ("NCBIdevelopset_corpus.txt", "validation"),
        ("CDR_TrainingSet.PubTator.txt", "train"),
        ("GENETest.tsv", "test"),
        ("wnut17train.conll", "train"),
        ("scienceie2017_dev", "validation"),
        ("training-PHI-Gold-Set1", "train"),
        ("validation_matched", "validation"),
        ("TEST.TSV", "test"),
        ("corpus_eval.iob2", "test"),
        ("latest.tsv", None),
        ("contest.tsv", None),
        ("eng.testa", "validation"),
        ("eng.testb", "test"),
        ("testa", "validation"),
        ("testable.tsv", None),
        ("gastrointestinal.ann", None),
        ("testicular.txt", None),
        ("blood-tests.txt", None),
        ("fastest.txt", None),
        ("unvalidated.txt", None),
        ("validity.txt", None),
        ("developer-notes.txt", None),
        ("protest.tsv", None),
        ("muscle-strain.txt", None),
        ("restraints.txt", None),
        ("medical-devices.txt", None),
        ("ds-train.txt", "train"),
        ("newstrain.txt", None),
        ("notes.txt", None),
        ("SemEval2017", None),
        ("GermEval2014", None),
        ("Eval2019", "test"),
        ("trn.bio", "train"),
        ("tst.bio", "test"),
        ("pretest.tsv", None),
    ],
)
def test_parse_split__finds_split_words_in_names(name: str, split: str | None) -> None:
    assert parse_split(name) == split


@pytest.mark.parametrize("name", ["train_test.tsv", "traintest.tsv", "TestTrain"])
def test_parse_split__rejects_a_name_with_two_splits(name: str) -> None:
    expected = f"{name}: expected one split in the name, got train and test; assign"
    with pytest.raises(SourceError, match=re.escape(expected)):
        parse_split(name)


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def names(by_split: dict[str, list[Path]], root: Path) -> dict[str, list[str]]:
    return {
        split: [path.relative_to(root).as_posix() for path in paths]
        for split, paths in by_split.items()
    }


def test_sort_by_split__uses_the_file_then_the_nearest_folder(tmp_path: Path) -> None:
    write(
        tmp_path,
        "test/b.tsv",
        "train/a.tsv",
        "more/dev.tsv",
        "other.tsv",
        "x.json",
        "devel/train/c.tsv.gz",
    )

    by_split = sort_by_split([tmp_path], suffixes=[".tsv"], splits={})

    assert names(by_split, tmp_path) == {
        "train": ["devel/train/c.tsv.gz", "train/a.tsv"],
        "validation": ["more/dev.tsv"],
        "test": ["test/b.tsv"],
    }
    assert list(by_split) == ["train", "validation", "test"]


@pytest.mark.parametrize(
    ("below", "message"),
    [
        (["train/ecg-test.ann"], "the file name says test and its folder says train"),
        (["test/x.ann", "y.ann"], "y.ann: expected a split in the name, as test in x.ann, got 1"),
        (["ecg-test.ann", "a.ann", "train.ann", "b.ann", "c.ann"], "got 3 file(s) without one"),
    ],
)
def test_sort_by_split__raises_for_files_likely_to_be_wanted(
    tmp_path: Path, below: list[str], message: str
) -> None:
    write(tmp_path, *below)

    with pytest.raises(SourceError, match=re.escape(message)):
        sort_by_split([tmp_path], suffixes=[".ann"], splits={})

    by_split = sort_by_split([tmp_path], suffixes=[".ann"], splits={"train": ["*"]})
    assert names(by_split, tmp_path) == {"train": sorted(below)}


def test_sort_by_split__raises_for_a_file_given_directly_without_a_split(tmp_path: Path) -> None:
    write(tmp_path, "train.tsv", "dev.tsv", "batch2.tsv")
    given = [tmp_path / "train.tsv", tmp_path / "dev.tsv", tmp_path / "batch2.tsv"]

    with pytest.raises(SourceError, match=r"batch2.tsv: expected a split in the name, as"):
        sort_by_split(given, suffixes=[".tsv"], splits={})

    assert sort_by_split([tmp_path], suffixes=[".tsv"], splits={}).keys() == {"train", "validation"}


@pytest.mark.parametrize(
    ("below", "splits"),
    [
        (["engtrain.bio", "engtest.bio"], "{ train = ['engtrain.bio'], test = ['engtest.bio'] }"),
        (["corpus.bio", "nertest.bio"], "{ train = ['corpus.bio'], test = ['nertest.bio'] }"),
        (
            ["train.bio", "a/nertrain.bio", "a/nerdev.bio"],
            "{ train = ['a/nertrain.bio', 'train.bio'], validation = ['a/nerdev.bio'] }",
        ),
    ],
)
def test_sort_by_split__asks_about_a_split_word_within_a_word(
    tmp_path: Path, below: list[str], splits: str
) -> None:
    write(tmp_path, *below)

    with pytest.raises(SourceError, match="cannot tell whether") as asked:
        sort_by_split([tmp_path], suffixes=[".bio"], splits={})
    _, _, line = str(asked.value).partition("such as ")

    assert line == f"splits = {splits}"
    answer = tomllib.loads(line)["splits"]
    found = sort_by_split([tmp_path], suffixes=[".bio"], splits=answer)
    assert names(found, tmp_path) == answer


@pytest.mark.parametrize(
    "below", [["pretest.bio"], [f"{number}-nertest.bio" for number in range(13)]]
)
def test_sort_by_split__asks_about_no_single_file_and_no_folder_of_documents(
    tmp_path: Path, below: list[str]
) -> None:
    write(tmp_path, *below)

    by_split = sort_by_split([tmp_path], suffixes=[".bio"], splits={})

    assert names(by_split, tmp_path) == {"train": sorted(below)}


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        ("train-test-split/train.tsv", "train"),
        ("train-test-split/test/a.tsv", "test"),
        ("train-test-split/dev.tsv", None),
        ("train-test-split/a.tsv", None),
        ("SemEval2017/train.tsv", "train"),
        ("dev_set/testament.tsv", "validation"),
    ],
)
def test_sort_by_split__lets_the_nearest_name_decide(
    tmp_path: Path, below: str, expected: str | None
) -> None:
    write(tmp_path, below)

    if expected is None:
        with pytest.raises(SourceError, match=r"got train and test; .* splits = \{ train = "):
            sort_by_split([tmp_path], suffixes=[".tsv"], splits={})
    else:
        assert [*sort_by_split([tmp_path], suffixes=[".tsv"], splits={})] == [expected]


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize(
    ("train", "dev", "name"),
    [
        ("corpus_train/all", "corpus_dev/all", "SeeDev-{}.ann"),
        ("SeeDev_train/all", "SeeDev_dev/all", "SeeDev-{}.ann"),
        ("train", "dev", "dev-{}.ann"),
    ],
)
def test_sort_by_split__takes_no_word_of_all_names_for_a_split(
    tmp_path: Path, train: str, dev: str, name: str, within: bool
) -> None:
    write(tmp_path, f"{train}/{name.format(1)}", f"{dev}/{name.format(2)}")
    inputs = [tmp_path] if within else [tmp_path / dev, tmp_path / train]

    by_split = sort_by_split(inputs, suffixes=[".ann"], splits={})

    assert names(by_split, tmp_path) == {
        "train": [f"{train}/{name.format(1)}"],
        "validation": [f"{dev}/{name.format(2)}"],
    }


def test_sort_by_split__asks_about_a_part_of_all_names(tmp_path: Path) -> None:
    write(tmp_path, "SeeDev-1.ann", "SeeDev-2.ann")

    with pytest.raises(SourceError, match=r"SeeDev-1.ann: cannot tell .* all 2 files, is a split"):
        sort_by_split([tmp_path], suffixes=[".ann"], splits={})

    by_split = sort_by_split([tmp_path], suffixes=[".ann"], splits={"train": ["*"]})
    assert [*by_split] == ["train"]


@pytest.mark.parametrize("name", ["dev-{}.ann", "seedev-{}-dev.ann"])
def test_sort_by_split__takes_a_word_of_its_own_for_a_split(tmp_path: Path, name: str) -> None:
    write(tmp_path, name.format(1), name.format(2))

    assert [*sort_by_split([tmp_path], suffixes=[".ann"], splits={})] == ["validation"]


def test_sort_by_split__ignores_files_about_the_corpus(tmp_path: Path) -> None:
    write(tmp_path, "test.txt", "README.txt", "LICENCE.txt")

    by_split = sort_by_split([tmp_path], suffixes=[".txt"], splits={})

    assert names(by_split, tmp_path) == {"test": ["test.txt"]}


def test_sort_by_split__assigns_all_to_train_without_splits_in_names(tmp_path: Path) -> None:
    write(tmp_path, "b.tsv", "a.tsv")

    assert names(sort_by_split([tmp_path], suffixes=[".tsv"], splits={}), tmp_path) == {
        "train": ["a.tsv", "b.tsv"]
    }


def test_sort_by_split__ignores_output_of_this_package(tmp_path: Path) -> None:
    notes = ["a.jsonl", "old/b.jsonl", "old/manifest.json"]
    built = ["x/manifest.json", "x/dataset_dict.json", "x/set_aside.jsonl", "x/train/c.jsonl"]
    unfinished = ["y/.build/locks/part-1", "y/train/d.jsonl"]
    write(tmp_path, *notes, *built, *unfinished)

    by_split = sort_by_split([tmp_path], suffixes=[".jsonl"], splits={})

    assert names(by_split, tmp_path) == {"train": ["a.jsonl", "old/b.jsonl"]}
    why = "a build made it"
    others = unread([tmp_path], by_split["train"], suffixes=[".jsonl"], splits={})
    made = {below for below, reason in others if reason == why}
    assert made == {*built, *unfinished}


def test_sort_by_split__reads_a_built_folder_given_directly(tmp_path: Path) -> None:
    write(tmp_path, "manifest.json", "dataset_dict.json", "train/data.arrow")

    by_split = sort_by_split([tmp_path], suffixes=[".arrow"], splits={})

    assert by_split == {"train": [tmp_path / "train" / "data.arrow"]}


def test_sort_by_split__ignores_hidden_files_and_folders(tmp_path: Path) -> None:
    write(tmp_path, "a.tsv", ".b.tsv", ".git/c.tsv", "__MACOSX/d.tsv")

    assert names(sort_by_split([tmp_path], suffixes=[".tsv"], splits={}), tmp_path) == {
        "train": ["a.tsv"]
    }


@pytest.mark.parametrize(
    ("folder", "is_read"), [("2019", True), (".trash", False), ("lost+found", False)]
)
def test_sort_by_split__names_a_folder_that_cannot_be_listed(
    tmp_path: Path, folder: str, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "2018/a.tsv", f"{folder}/b.tsv")
    scandir = os.scandir

    def refuse(path: str) -> Any:
        if Path(path) == tmp_path / folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    raised = (
        pytest.raises(SourceError, match=f"{folder}: cannot list the folder")
        if is_read
        else nullcontext()
    )

    with raised:
        sort_by_split([tmp_path], suffixes=[".tsv"], splits={})


def test_sort_by_split__follows_links_out_of_the_input(tmp_path: Path) -> None:
    write(tmp_path, "in/train/a.tsv", "elsewhere/b.tsv", "elsewhere/deep/c.tsv")
    links = {
        "in/test": "elsewhere",
        # None of these links leads to further files.
        "in/test-too": "elsewhere",
        "in/newest": "in/train",
        "in/up": ".",
        "elsewhere/deep/round": "elsewhere",
        "elsewhere/back": "in",
    }
    for link, target in links.items():
        (tmp_path / link).symlink_to(tmp_path / target, target_is_directory=True)

    by_split = sort_by_split([tmp_path / "in"], suffixes=[".tsv"], splits={})

    every = [path for paths in by_split.values() for path in paths]
    assert sorted(path.name for path in every) == ["a.tsv", "b.tsv", "c.tsv"]
    assert [path.name for path in by_split["train"]] == ["a.tsv"]


def test_sort_by_split__reads_a_file_given_twice_once(tmp_path: Path) -> None:
    write(tmp_path, "a.tsv")

    by_split = sort_by_split([tmp_path, tmp_path / "a.tsv"], suffixes=[".tsv"], splits={})

    assert names(by_split, tmp_path) == {"train": ["a.tsv"]}


def test_sort_by_split__reads_a_file_given_directly_with_any_suffix(tmp_path: Path) -> None:
    write(tmp_path, "words.column")

    by_split = sort_by_split([tmp_path / "words.column"], suffixes=[".tsv"], splits={})

    assert names(by_split, tmp_path) == {"train": ["words.column"]}


def test_sort_by_split__follows_patterns(tmp_path: Path) -> None:
    write(tmp_path, "train.tsv", "part/one.tsv", "part/two.tsv")

    by_split = sort_by_split(
        [tmp_path], suffixes=[".tsv"], splits={"held_out": ["train.tsv"], "train": ["part/*"]}
    )

    assert names(by_split, tmp_path) == {
        "train": ["part/one.tsv", "part/two.tsv"],
        "held_out": ["train.tsv"],
    }
    assert list(by_split) == ["train", "held_out"]


def test_sort_by_split__ignores_the_names_of_files_that_the_pattern_excludes(
    tmp_path: Path,
) -> None:
    write(tmp_path, "train.csv", "dev.csv.gz", "a.txt", "b.txt", "traintest.txt")

    by_split = sort_by_split([tmp_path], suffixes=[".csv", ".txt"], splits={}, pattern="*.csv")

    assert names(by_split, tmp_path) == {"train": ["train.csv"], "validation": ["dev.csv.gz"]}


def test_sort_by_split__rejects_a_file_in_two_splits(tmp_path: Path) -> None:
    write(tmp_path, "a.tsv")

    with pytest.raises(
        SourceError,
        match=r"a.tsv: expected one split, got x and y; change the patterns of \[source\] splits",
    ):
        sort_by_split([tmp_path], suffixes=[".tsv"], splits={"x": ["*"], "y": ["a*"]})


@pytest.mark.parametrize(
    ("splits", "wanted"),
    [
        ({}, "files ending with .tsv, found"),
        ({"x": ["*"]}, "files ending with .tsv, found"),
        ({"x": ["b*"]}, "files ending with .tsv that .source. splits names, found"),
    ],
)
def test_sort_by_split__names_the_expected_suffixes(
    tmp_path: Path, splits: dict[str, list[str]], wanted: str
) -> None:
    folder = tmp_path / "corpus"
    write(folder, "a.txt")

    with pytest.raises(SourceError, match=f"corpus: expected {wanted} none; check --input"):
        sort_by_split([folder], suffixes=[".tsv"], splits=splits)


def test_sort_by_split__names_a_missing_input(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="absent: expected a file or a folder"):
        sort_by_split([tmp_path / "absent"], suffixes=[".tsv"], splits={})


def test_assign__sorts_names_without_files() -> None:
    by_split = [Candidate(Path("b"), "test/gold/2"), Candidate(Path("a"), "train/1")]

    assert assign(by_split, splits={}) == {"train": [Path("a")], "test": [Path("b")]}
    assert assign(by_split, splits={"mine": ["*/2"]}) == {"mine": [Path("b")]}
    assert assign([], splits={}) == {}


@pytest.mark.parametrize(("folder", "split"), [("test", "test"), ("Devel", "validation")])
def test_sort_by_split__uses_the_name_of_an_input_folder(
    tmp_path: Path, folder: str, split: str
) -> None:
    write(tmp_path, f"{folder}/a.tsv", "train/b.tsv", f"{folder}/train-c.tsv")

    by_split = sort_by_split([tmp_path / "train", tmp_path / folder], suffixes=[".tsv"], splits={})

    assert names(by_split, tmp_path) == {
        "train": [f"{folder}/train-c.tsv", "train/b.tsv"],
        split: [f"{folder}/a.tsv"],
    }


def test_sort_by_split__uses_the_name_of_an_input_folder_for_files_told_by_content(
    tmp_path: Path,
) -> None:
    row = "Aspirin B-Drug\nhelps O\n\n" * 5
    for name, text in (("train/a.conll", row), ("dev/b.annotated", row), ("test/c.conll", "x\n")):
        write(tmp_path, name)
        (tmp_path / name).write_text(text)
    whole = Conll().find([tmp_path])

    assert whole == Conll().find([tmp_path / name for name in ("train", "dev", "test")])
    assert names(dict(whole), tmp_path) == {
        "train": ["train/a.conll"],
        "validation": ["dev/b.annotated"],
        "test": ["test/c.conll"],
    }


@pytest.mark.parametrize(
    ("files", "read"),
    [
        (
            {"test/train.tsv": True, "test/devel.tsv": True, "test/README.txt": False},
            {"train": ["train.tsv"], "validation": ["devel.tsv"]},
        ),
        ({"train/notes.tsv": False, "train/a.csv": True}, {"train": ["a.csv"]}),
    ],
    ids=["other splits", "told by content"],
)
def test_sort_by_split__leaves_out_strays_below_an_input_folder_named_like_a_split(
    tmp_path: Path, files: dict[str, bool], read: dict[str, list[str]]
) -> None:
    for name, is_in_format in files.items():
        write(tmp_path, name)
        text = "Aspirin B-Drug\nhelps O\n\n" * 5 if is_in_format else "Some prose here.\n" * 9
        (tmp_path / name).write_text(text)
    (root,) = tmp_path.iterdir()

    assert names(dict(Conll().find([root])), root) == read


def test_sort_by_split__ignores_the_path_of_the_input(tmp_path: Path) -> None:
    write(tmp_path, "test-run-3/a.tsv")

    assert [*sort_by_split([tmp_path / "test-run-3"], suffixes=[".tsv"], splits={})] == ["train"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("test.tsv", "original-data/test/X.iob2"),
        ("test.tsv", "test.tsv.gz"),
        ("test/a.iob2", "test/a.tsv"),
    ],
)
def test_check_one_form__names_both_files(tmp_path: Path, first: str, second: str) -> None:
    write(tmp_path, first, second, "train.tsv")
    suffixes = [".tsv", ".iob2"]
    by_split = sort_by_split([tmp_path], suffixes=suffixes, splits={})

    with pytest.raises(SourceError) as caught:
        check_one_form([tmp_path], by_split, suffixes=suffixes)

    assert str(tmp_path / first) in str(caught.value)
    assert str(tmp_path / second) in str(caught.value)
    assert "split 'test'" in str(caught.value)


def test_check_one_form__suggests_a_pattern_if_the_source_has_one(tmp_path: Path) -> None:
    write(tmp_path, "a.csv", "readme.txt")
    suffixes = [".csv", ".txt"]
    by_split = sort_by_split([tmp_path], suffixes=suffixes, splits={"all": ["*"]})

    with pytest.raises(
        SourceError, match=r"select files with \[source\] pattern, such as '\*\.csv'"
    ):
        check_one_form([tmp_path], by_split, suffixes=suffixes, by_pattern=True)


def test_check_one_form__accepts_files_given_directly_or_of_one_suffix(tmp_path: Path) -> None:
    write(tmp_path, "test.tsv", "more-test.tsv", "train.iob2")
    suffixes = [".tsv", ".iob2"]
    check_one_form(
        [tmp_path], sort_by_split([tmp_path], suffixes=suffixes, splits={}), suffixes=suffixes
    )

    write(tmp_path, "test.iob2")
    given = [tmp_path / "test.tsv", tmp_path / "test.iob2"]
    check_one_form(given, sort_by_split(given, suffixes=suffixes, splits={}), suffixes=suffixes)


def test_unread__gives_a_reason_for_each_file(tmp_path: Path) -> None:
    write(tmp_path, "train.tsv", "emerging.test.annotated", "other.tsv", ".x.tsv", "train.txt")
    read = [tmp_path / "train.tsv"]

    assert unread([tmp_path], read, suffixes=[".tsv", ".txt"], splits={}) == [
        Unread(".x.tsv", "hidden"),
        Unread(
            "emerging.test.annotated",
            "its name does not end with .tsv, .txt; --input reads a file that it names itself, "
            "whatever its ending",
        ),
        Unread(
            "other.tsv", "its name has no split, unlike other names; assign it with [source] splits"
        ),
        Unread("train.txt", "it belongs to no document that is read"),
    ]
    assert unread([tmp_path], read, suffixes=[".tsv"], splits={"train": ["train.tsv"]})[
        2
    ] == Unread("other.tsv", "no pattern of [source] splits fits it")
    assert unread([tmp_path], read, suffixes=[".tsv"], splits={}, pattern="t*")[2] == Unread(
        "other.tsv", "its name does not fit [source] pattern, 't*'"
    )


@pytest.mark.parametrize(
    ("root", "splits"), [(".", {}), ("dev", {}), (".", {"train": ["*"]})], ids=str
)
def test_unread__blames_the_split_only_if_other_names_have_one(
    tmp_path: Path, root: str, splits: dict[str, list[str]]
) -> None:
    folder = tmp_path / root
    write(folder, "a.xml", "a.json")

    assert unread([folder], [folder / "a.xml"], suffixes=[".xml", ".json"], splits=splits) == [
        Unread("a.json", "it belongs to no document that is read")
    ]


def test_unread__accepts_companions_with_names_of_several_splits(tmp_path: Path) -> None:
    write(tmp_path, "test/a.tsv", "test/docs/dev_1.txt", "other.tsv", "train/dev.tsv")
    read = [tmp_path / "test/a.tsv", tmp_path / "test/docs/dev_1.txt"]

    assert [file.below for file in unread([tmp_path], read, suffixes=[".tsv"], splits={})] == [
        "other.tsv",
        "train/dev.tsv",
    ]


def test_unread__is_empty_if_all_files_are_read(tmp_path: Path) -> None:
    write(tmp_path, "a.tsv", "b/c.tsv")
    by_split = sort_by_split([tmp_path], suffixes=[".tsv"], splits={})

    assert unread([tmp_path], by_split["train"], suffixes=[".tsv"], splits={}) == []
    assert unread([tmp_path / "a.tsv"], [tmp_path / "a.tsv"], suffixes=[".tsv"], splits={}) == []


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("12_obama-to-test-new-waters-soon.txt", None),
        ("test_what-we-said-of-the-new-waters.txt", "test"),
        ("what-we-said-of-the-new-waters-dev.txt.gz", "validation"),
        ("ncbi-test-set-a-b.txt", "test"),
    ],
)
def test_parse_split__takes_no_word_within_a_title(name: str, split: str | None) -> None:
    assert parse_split(name) == split


def test_sort_by_split__lists_all_of_a_few_files_to_copy(tmp_path: Path) -> None:
    write(tmp_path, "GWtest.crf", "GWtrain.crf", "Ovid.crf", "Pliny.crf", "Caesar.crf")

    with pytest.raises(SourceError) as asked:
        sort_by_split([tmp_path], suffixes=[".crf"], splits={})

    assert str(asked.value).endswith(
        "splits = { train = ['*GWtrain.crf', 'Caesar.crf', 'Ovid.crf', 'Pliny.crf'], test = "
        "['*GWtest.crf'] }"
    )


@pytest.mark.parametrize("end", ["", "/ner", "/ner/a.ann"])
def test_sort_by_split__takes_splits_from_folders_in_which_inputs_differ(
    tmp_path: Path, end: str
) -> None:
    folders = ["train-set", "dev-set1", "dev-set2", "test-set"]
    write(tmp_path, *(f"my-test/{folder}/ner/a.ann" for folder in folders))
    inputs = [Path(f"{tmp_path}/my-test/{folder}{end}") for folder in folders]

    by_split = sort_by_split(inputs, suffixes=[".ann"], splits={})

    assert names(by_split, tmp_path / "my-test") == {
        "train": ["train-set/ner/a.ann"],
        "validation": ["dev-set1/ner/a.ann", "dev-set2/ner/a.ann"],
        "test": ["test-set/ner/a.ann"],
    }
    assert {*sort_by_split(inputs[:1], suffixes=[".ann"], splits={})} == {"train"}
