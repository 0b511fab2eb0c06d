from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mslm_data.api.loading import load
from mslm_data.builds.verify import Problem, find_other_files, verify
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.errors import ShardError
from mslm_data.io.files import canonical_json, hash_file
from mslm_data.shard.manifest import read_manifest
from mslm_data.testing import check_folder
from tests import made
from tests.cli.running import run
from tests.made import build
from tests.shard.damage import (
    claim_bytes,
    edit_manifest,
    first_mention,
    first_shard,
    flip,
    forge,
    rows_in,
    set_value,
)

JOINED = "-DOCSTART-\tO\n\nthe\tO\n.\tO\n\ncauses\tO\n\nthe\tO\n.\tO\nthe\tO\n"
"""A document of three sentences; `causes` has two tokens."""


def problems(folder: Path) -> list[Problem]:
    return verify(folder)[1]


@pytest.mark.parametrize("encode", [{}, {"keep_text": True}, {"max_tokens": 9}])
def test_verify__accepts_a_new_build(tmp_path: Path, encode: dict[str, object]) -> None:
    made.built(tmp_path / "out", pipeline=made.pipeline_of(unit_bytes=4000, encode=encode))

    manifest, found = verify(tmp_path / "out")

    assert found == []
    assert list(manifest.splits) == ["train", "validation", "test"]
    check_folder(tmp_path / "out")


@pytest.mark.parametrize(("part", "bit"), [(0.0, 0), (0.5, 3), (1.0, 7)])
def test_verify__detects_any_flipped_bit(folder: Path, part: float, bit: int) -> None:
    path = first_shard(folder)
    flip(path, int((path.stat().st_size - 1) * part), bit)

    assert problems(folder) == [
        Problem(
            f"train/{path.name}",
            "the checksum differs from the manifest's; the file is damaged",
        )
    ]


def test_verify__detects_a_missing_shard(folder: Path) -> None:
    path = first_shard(folder)
    path.unlink()

    (problem,) = problems(folder)

    assert problem.place == f"train/{path.name}"
    assert "the shard is missing" in problem.what


@pytest.mark.parametrize("size", [0, 1, 100, -1])
def test_verify__detects_a_truncated_shard(folder: Path, size: int) -> None:
    path = first_shard(folder)
    path.write_bytes(path.read_bytes()[:size])

    (problem,) = problems(folder)

    assert problem.place == f"train/{path.name}"


BESIDE = [
    "tokenizer.json",
    "set_aside.jsonl",
    "dataset_dict.json",
    "train/state.json",
    "train/dataset_info.json",
]


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("data", [None, b"[]\n", b'"\xff"\n', b"[" * 9999, b"{}\n"])
def test_verify__detects_errors_outside_the_shards(
    folder: Path, name: str, data: bytes | None
) -> None:
    path = folder / name
    path.unlink()
    if data is not None:
        path.write_bytes(data)

    (problem,) = problems(folder)

    assert problem.place == name


def test_verify__detects_an_unlisted_shard(folder: Path) -> None:
    strange = folder / "train" / "data-00009-of-00001.arrow"
    strange.write_bytes(first_shard(folder).read_bytes())

    assert problems(folder) == [
        Problem(
            "train/data-00009-of-00001.arrow", "expected no shard that the manifest does not name"
        )
    ]


def aside(split: str) -> bytes:
    return (
        json.dumps(
            {"split": split, "id": "x", "place": "x:1", "reason": "expected x, got y"}
        ).encode()
        + b"\n"
    )


def test_verify__counts_the_set_aside_documents_of_each_split(folder: Path) -> None:
    edit_manifest(
        folder,
        lambda m: m["splits"]["train"].update(
            set_aside={"x": 2}, read=m["splits"]["train"]["written"] + 2
        ),
    )
    (folder / "set_aside.jsonl").write_bytes(aside("train") + aside("test"))

    assert problems(folder) == [
        Problem("set_aside.jsonl", "expected 2 documents of train, got 1"),
        Problem("set_aside.jsonl", "expected 0 documents of test, got 1"),
    ]


def test_verify__detects_set_aside_documents_of_unknown_splits(folder: Path) -> None:
    (folder / "set_aside.jsonl").write_bytes(aside("nucleus") + b"nucleus\n")

    assert problems(folder) == [
        Problem(
            "set_aside.jsonl", "expected split, id, place and reason in each line, got 2 others"
        )
    ]


def test_verify__detects_counted_documents_without_rows(folder: Path) -> None:
    written = json.loads((folder / "manifest.json").read_bytes())["splits"]["train"]["written"]
    edit_manifest(
        folder, lambda m: m["splits"]["train"].update(written=written + 1, read=written + 1)
    )

    assert problems(folder) == [
        Problem("train", f"expected rows of {written + 1} documents, got {written}")
    ]


@pytest.mark.parametrize(
    "name", [".build", ".manifest.json.7.tmp", "train/.data-00000-of-00004.arrow.7.tmp"]
)
def test_verify__detects_leftovers_of_a_build(folder: Path, name: str) -> None:
    if name == ".build":
        (folder / name).mkdir()
    else:
        (folder / name).write_bytes(b"")

    (problem,) = problems(folder)

    assert problem.place == name
    assert problem.what.startswith("expected nothing left of an unfinished build")


def test_verify__detects_a_pipe_in_place_of_a_file(folder: Path) -> None:
    """Opening the pipe would wait forever."""
    for name in (
        "dataset_dict.json",
        "train/state.json",
        "train/dataset_info.json",
        "set_aside.jsonl",
    ):
        (folder / name).unlink()
        os.mkfifo(folder / name)

    assert len(problems(folder)) == 4


def test_verify__detects_rows_with_equal_keys(folder: Path) -> None:
    def change(examples: Examples) -> None:
        examples.keys[1] = examples.keys[0]

    forge(folder, change)

    assert problems(folder) == [
        Problem("train", "expected a unique key for each row, got 1 duplicates")
    ]


def test_verify__detects_swapped_shards(folder: Path) -> None:
    paths = sorted((folder / "train").glob("*.arrow"))
    first, second = (path.read_bytes() for path in paths[:2])
    paths[0].write_bytes(second)
    paths[1].write_bytes(first)

    assert {problem.place for problem in problems(folder)} == {
        f"train/{path.name}" for path in paths[:2]
    }


def test_verify__detects_a_label_missing_in_the_schema(folder: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["labels"] = ["Chemical"]
        manifest["tags"] = ["O", "B-Chemical", "I-Chemical"]

    edit_manifest(folder, change)

    assert {problem.what for problem in problems(folder)} == {
        "expected the schema that the manifest's labels and options give"
    }


def test_verify__ignores_files_of_datasets_and_lists_them(folder: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.load_from_disk(str(folder))["train"]
    rows.map(lambda row: {"length": len(row["input_ids"])})
    rows.filter(lambda row: len(row["span_starts"]) > 0).shuffle(seed=1)
    rows.sort("key")
    left = [f"train/{path.name}" for path in sorted((folder / "train").glob("cache-*.arrow"))]
    assert len(left) == 4

    assert problems(folder) == []
    assert find_other_files(folder, read_manifest(folder)) == left
    done = run("verify", folder)
    assert (done.code, len(done.out.splitlines())) == (0, 2)
    assert done.out.endswith(f"{folder}: ignored 4 files that no build writes, such as {left[0]}\n")
    assert run("verify", folder, "--json").json["passed_over"] == left
    assert len(load(folder)["train"].examples()) == len(rows)


def test_find_other_files__is_disjoint_from_the_problems_of_verify(folder: Path) -> None:
    assert find_other_files(folder, read_manifest(folder)) == []
    for name in ("train/data-9.arrow", "train/.x.tmp", ".build/pieces/x", "train/notes", "vocab/x"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"any bytes")

    found = find_other_files(folder, read_manifest(folder))

    assert found == ["train/notes", "vocab/x"]
    assert [problem.place for problem in problems(folder)] == [
        ".build", "train/.x.tmp", "train/data-9.arrow",
    ]  # fmt: skip


@pytest.mark.parametrize("name", sorted(made.TOKENIZERS))
def test_verify__accepts_any_tokenizer(tmp_path: Path, name: str) -> None:
    pipeline = made.pipeline_of(encode={"keep_text": True, "max_tokens": 12})
    build(pipeline, [made.SAMPLE / "bc2gm"], made.TOKENIZERS[name](), tmp_path / "out", workers=1)

    assert problems(tmp_path / "out") == []


@pytest.mark.parametrize(
    "ids",
    [
        {"size": 1000},
        {"size": 1145},
        {"mask": 7},
        {"mask": -1},
        {"pad": 9},
        {"unk": 9},
        {"special": []},
        {"special": [0, 1, 2, 3, 4, 9]},
        {"special": [4, 3, 2, 1, 0]},
    ],
    ids=str,
)
def test_verify__detects_ids_that_contradict_the_tokenizer(
    folder: Path, ids: dict[str, Any]
) -> None:
    edit_manifest(folder, lambda manifest: manifest["tokenizer"]["ids"].update(ids))

    expected = Problem("manifest.json", "expected the special ids of the tokenizer's files")
    assert expected in problems(folder)


@pytest.mark.parametrize("change", [{"mask_token": "[SEP]"}, {"pad_token": None}, {"unk_token": 3}])
def test_verify__detects_wrong_names_of_special_tokens(
    folder: Path, change: dict[str, Any]
) -> None:
    path = folder / "tokenizer_config.json"
    path.write_bytes(canonical_json(json.loads(path.read_bytes()) | change))

    places = {problem.place for problem in problems(folder)}
    assert places & {"tokenizer_config.json", "manifest.json"}


@pytest.mark.parametrize("setting", ["truncation", "padding"])
def test_verify__detects_a_tokenizer_that_truncates_or_pads(folder: Path, setting: str) -> None:
    path = folder / "tokenizer.json"
    settings = {
        "truncation": {
            "direction": "Right",
            "max_length": 3,
            "strategy": "LongestFirst",
            "stride": 0,
        },
        "padding": {
            "strategy": {"Fixed": 3},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
    }
    value = json.loads(path.read_bytes()) | {setting: settings[setting]}
    path.write_bytes(json.dumps(value).encode())
    digest = hash_file(path)
    edit_manifest(folder, lambda manifest: manifest["tokenizer"].update(sha256=digest))

    assert problems(folder) == [
        Problem("tokenizer.json", "expected truncation and padding switched off")
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"{}",
        b'{"model": {"vocab": 1}}',
        b'{"model": {"vocab": {"a": "b"}}}',
        b'{"model": {"vocab": {"a": 0, "a": 1}}}',
    ],
)
def test_verify__detects_an_invalid_tokenizer(folder: Path, data: bytes) -> None:
    (folder / "tokenizer.json").write_bytes(data)
    digest = hash_file(folder / "tokenizer.json")
    edit_manifest(folder, lambda manifest: manifest["tokenizer"].update(sha256=digest))

    assert problems(folder) == [Problem("tokenizer.json", "expected a tokenizer that can be read")]


@pytest.mark.parametrize("name", ["README.md", "tokenizer_config.json"])
def test_verify__detects_a_missing_file(name: str, folder: Path) -> None:
    (folder / name).unlink()

    (problem,) = problems(folder)

    assert problem.place == name


@pytest.mark.parametrize(
    "name", ["manifest.json", "dataset_dict.json", "train/state.json", "train/dataset_info.json"]
)
def test_verify__detects_json_in_non_canonical_form(folder: Path, name: str) -> None:
    value = json.loads((folder / name).read_bytes())
    (folder / name).write_text(json.dumps(value), encoding="utf-8")

    (problem,) = problems(folder)

    assert problem.place == name


def test_verify__detects_the_state_of_another_split(folder: Path) -> None:
    path = folder / "train" / "state.json"
    path.write_bytes(canonical_json(json.loads(path.read_bytes()) | {"_split": "test"}))

    assert [problem.place for problem in problems(folder)] == ["train/state.json"]


def test_verify__detects_shard_numbers_out_of_order(folder: Path) -> None:
    edit_manifest(folder, lambda manifest: manifest["splits"]["train"]["shards"].reverse())

    assert Problem("train", "expected shards numbered from 0 in the manifest's order") in problems(
        folder
    )


LAWS: list[tuple[str, Callable[[Path], Callable[[Examples], Examples | None]]]] = [
    ("ids of the tokenizer", lambda _: set_value("input_ids", 3, 10**6)),
    ("ids of the tokenizer", lambda _: set_value("input_ids", 3, -1)),
    ("word numbers of at least -1", lambda _: set_value("word_ids", 0, -2)),
    ("word numbers that never fall", lambda f: set_value("word_ids", first_mention(f)[1] + 1, 30)),
    ("O on special tokens", lambda _: set_value("bio", 0, 1)),
    ("labels of the manifest", lambda _: set_value("span_labels", 0, 5)),
    ("labels of the manifest", lambda _: set_value("span_labels", 0, -1)),
]


@pytest.mark.parametrize(("law", "change"), LAWS)
def test_verify__detects_invalid_rows_with_a_correct_checksum(
    folder: Path, law: str, change: Callable[[Path], Callable[[Examples], Examples | None]]
) -> None:
    forge(folder, change(folder))

    (place,) = {problem.place for problem in problems(folder)}

    assert place == f"train/{first_shard(folder).name}"
    assert any(f": expected {law}; 1 are not" in problem.what for problem in problems(folder))


def later_words(examples: Examples) -> None:
    words = examples.word_ids[0]
    words[words >= 0] += 1


def other_prefix(examples: Examples) -> None:
    examples.input_ids[1][0] = examples.ids.special[-1]


@pytest.mark.parametrize(
    ("law", "change", "row"),
    [
        ("no words on special tokens", set_value("word_ids", 0, 0), 0),
        ("no words on special tokens", set_value("input_ids", 1, 2), 0),
        ("a word for each token that is not special", set_value("input_ids", 0, 9), 0),
        ("a word for each token that is not special", set_value("word_ids", 1, -1), 0),
        ("rows that begin with word 0", later_words, 0),
        ("the same special tokens around each row", other_prefix, 1),
    ],
)
def test_verify__detects_invalid_words_and_special_tokens(
    tmp_path: Path, law: str, change: Callable[[Examples], None], row: int
) -> None:
    (tmp_path / "train.tsv").write_text("kinase\tO\nkinase\tO\n\nthe\tO\n")
    made.built(tmp_path / "out", tmp_path / "train.tsv", made.pipeline_of(annotate={"use": "none"}))
    forge(tmp_path / "out", change)

    found = [problem.what for problem in problems(tmp_path / "out") if law in problem.what]

    assert [what.partition(":")[0] for what in found] == [f"row {row}"]


def longer_text(examples: Examples) -> Examples:
    assert examples.texts is not None
    return replace(examples, texts=[text + "x" for text in examples.texts])


@pytest.mark.parametrize(
    ("law", "change"),
    [
        ("characters for each word, -1 on special tokens", set_value("token_starts", 0, 0)),
        ("characters for each word, -1 on special tokens", set_value("token_ends", 0, 1)),
        ("characters within the row's text", set_value("token_ends", 1, 10**6)),
        ("characters within the row's text", set_value("token_starts", 1, 5)),
        ("texts that their tokens span", set_value("token_starts", 1, 1)),
        ("texts that their tokens span", longer_text),
    ],
)
def test_verify__detects_wrong_character_offsets(
    tmp_path: Path, law: str, change: Callable[[Examples], Examples | None]
) -> None:
    (tmp_path / "train.tsv").write_text("the\tO\nthe\tO\n")
    pipeline = made.pipeline_of(encode={"keep_text": True}, annotate={"use": "none"})
    made.built(tmp_path / "out", tmp_path / "train.tsv", pipeline)
    forge(tmp_path / "out", change)

    assert any(
        problem.what == f"row 0: expected {law}; 1 are not"
        for problem in problems(tmp_path / "out")
    )


@pytest.mark.parametrize(
    ("law", "changes"),
    [
        ("sentences that begin one after the other", {2: 3}),
        ("a first sentence that begins at the first token of the text", {0: 2}),
        ("a first sentence that begins at the first token of the text", {0: 0}),
        ("sentences that begin where a word begins", {1: 4}),
        ("sentences that begin where a word begins", {2: 8}),
    ],
)
def test_verify__detects_wrong_sentence_starts(
    tmp_path: Path, law: str, changes: dict[int, int]
) -> None:
    (tmp_path / "train.tsv").write_text(JOINED)
    encode = {"join": "document"}
    made.built(
        tmp_path / "out",
        tmp_path / "train.tsv",
        made.pipeline_of(encode=encode, annotate={"use": "none"}),
    )
    assert problems(tmp_path / "out") == []
    starts = rows_in(tmp_path / "out").sentence_starts
    assert starts is not None
    assert (starts.tolist(), rows_in(tmp_path / "out").word_ids.tolist()) == (
        [[1, 3, 5]],
        [[-1, 0, 1, 2, 2, 3, 4, 5, -1]],
    )

    def change(examples: Examples) -> None:
        assert examples.sentence_starts is not None
        for place, value in changes.items():
            examples.sentence_starts.values[place] = value

    forge(tmp_path / "out", change)

    found = problems(tmp_path / "out")
    assert f"row 0: expected {law}; 1 are not" in [problem.what for problem in found]


@pytest.mark.parametrize("value", [-1, 9, 2**31 - 1])
def test_load__rejects_sentences_outside_their_rows(tmp_path: Path, value: int) -> None:
    (tmp_path / "train.tsv").write_text(JOINED)
    pipeline = made.pipeline_of(encode={"join": "document"}, annotate={"use": "none"})
    made.built(tmp_path / "out", tmp_path / "train.tsv", pipeline)
    forge(tmp_path / "out", set_value("sentence_starts", 1, value))

    with pytest.raises(
        ShardError, match=r"row 0: expected (sentences that begin within|a sentence in)"
    ):
        load(tmp_path / "out")["train"].examples()


def test_load__rejects_rows_without_sentences(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text(JOINED)
    pipeline = made.pipeline_of(encode={"join": "document"}, annotate={"use": "none"})
    made.built(tmp_path / "out", tmp_path / "train.tsv", pipeline)

    def change(examples: Examples) -> Examples:
        return replace(examples, sentence_starts=Ragged.from_rows([[]], np.int32))

    forge(tmp_path / "out", change)

    with pytest.raises(
        ShardError, match=r"row 0: expected (sentences that begin within|a sentence in)"
    ):
        load(tmp_path / "out")["train"].examples()


@pytest.mark.parametrize("score", [-0.5, 1.5, math.nan])
def test_verify__detects_invalid_scores(tmp_path: Path, score: float) -> None:
    (tmp_path / "train.tsv").write_text("the\tO\nkinase\tO\n")
    (tmp_path / "terms.csv").write_text("name,label\nkinase,X\n")
    annotate = {"use": "terms", "table": str(tmp_path / "terms.csv")}
    pipeline = made.pipeline_of(labels=["X"], annotate=annotate)
    made.built(tmp_path / "out", tmp_path / "train.tsv", pipeline)
    assert problems(tmp_path / "out") == []

    def change(examples: Examples) -> None:
        assert examples.span_scores is not None
        examples.span_scores[0] = score

    forge(tmp_path / "out", change)

    (problem,) = problems(tmp_path / "out")
    assert problem.what == "row 0: expected confidences from 0 to 1; 1 are not"


@pytest.mark.parametrize("context", [-1, 32])
def test_verify__detects_invalid_contexts(context: int, tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("no\tO\nkinase\tB-X\n")
    made.built(
        tmp_path / "out", tmp_path / "train.tsv", made.pipeline_of(annotate={"context": True})
    )
    assert problems(tmp_path / "out") == []

    def change(examples: Examples) -> None:
        assert examples.span_contexts is not None
        examples.span_contexts[0] = context

    forge(tmp_path / "out", change)

    (problem,) = problems(tmp_path / "out")
    assert problem.what == "row 0: expected contexts of 5 flags; 1 are not"


def test_verify__detects_rows_that_are_too_long(folder: Path) -> None:
    edit_manifest(folder, lambda m: m["pipeline"]["encode"].update(max_tokens=8))

    assert any("expected rows of at most 8 tokens" in problem.what for problem in problems(folder))


@pytest.mark.parametrize("tag", [0, 2, -1, 100])
def test_verify__detects_tags_that_disagree_with_mentions(folder: Path, tag: int) -> None:
    row, begin = first_mention(folder)
    start = int(rows_in(folder).span_starts[row][0])
    forge(folder, set_value("bio", begin + start, tag))

    (problem,) = problems(folder)

    law = "the tags that the mentions give" if tag in (0, 2) else "tags of the manifest"
    assert problem.what.startswith(f"row {row}: expected {law}; 1 are not")


def test_verify__detects_tags_without_mentions(folder: Path) -> None:
    row, begin = first_mention(folder)
    end = int(rows_in(folder).span_ends[row][-1])
    forge(folder, set_value("bio", begin + end, 1))

    (problem,) = problems(folder)

    assert "expected the tags that the mentions give" in problem.what


def test_verify__detects_overlapping_mentions(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("kinase\tO\n\nthe\tB-X\nthe\tB-X\nkinase\tI-X\n")
    made.built(tmp_path / "out", tmp_path / "train.tsv")
    forge(tmp_path / "out", set_value("span_ends", 0, 3))

    assert "row 1: expected sorted mentions that do not overlap; 1 are not" in {
        problem.what for problem in problems(tmp_path / "out")
    }


def test_verify__continues_with_other_shards(folder: Path) -> None:
    for path in folder.rglob("*.arrow"):
        flip(path, 50)

    assert len(problems(folder)) == len(list(folder.rglob("*.arrow"))) > 4


@pytest.mark.parametrize("what", ["tokens", "mentions"])
def test_verify__detects_counts_that_differ_from_the_rows(folder: Path, what: str) -> None:
    def change(manifest: dict[str, Any]) -> None:
        split = manifest["splits"]["train"]
        split["shards"][0][what] += 1
        split[what] += 1
        split["given_mentions"] += what == "mentions"

    edit_manifest(folder, change)

    (problem,) = problems(folder)

    assert f"{what}, got " in problem.what


def test_verify__never_shows_text(tmp_path: Path) -> None:
    out = tmp_path / "out"
    made.built(out, pipeline=made.pipeline_of(encode={"keep_text": True}))
    text = first_shard(out).read_bytes()
    for change in (b"", b"{}", text.replace(b"the", b"eht"), text[:-100]):
        claim_bytes(out, change)

        said = json.dumps(problems(out))

        assert "nucleus" not in said
        assert "eht" not in said
