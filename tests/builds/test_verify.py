from __future__ import annotations

import json
import math
import os
import re
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
    first_shard,
    flip,
    forge,
    rows_in,
    set_value,
)

Change = Callable[[Examples], Examples | None]
Manifest = dict[str, Any]


def problems(folder: Path) -> list[Problem]:
    return verify(folder)[1]


def places(folder: Path) -> list[str]:
    return [problem.place for problem in problems(folder)]


@pytest.mark.parametrize("encode", [{}, {"keep_text": True}, {"max_tokens": 9}])
def test_verify__accepts_a_new_build(tmp_path: Path, encode: dict[str, object]) -> None:
    made.built(tmp_path / "out", pipeline=made.pipeline_of(unit_bytes=4000, encode=encode))

    manifest, found = verify(tmp_path / "out")

    assert found == []
    assert list(manifest.splits) == ["train", "validation", "test"]
    check_folder(tmp_path / "out")


@pytest.mark.parametrize("name", sorted(made.TOKENIZERS))
def test_verify__accepts_any_tokenizer(tmp_path: Path, name: str) -> None:
    pipeline = made.pipeline_of(encode={"keep_text": True, "max_tokens": 12})
    build(pipeline, [made.SAMPLE / "bc2gm"], made.TOKENIZERS[name](), tmp_path / "out", workers=1)

    assert problems(tmp_path / "out") == []


# Damaged files ------------------------------------------------------------------------------------


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


def truncate(size: int) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(path.read_bytes()[:size])


def reformat(path: Path) -> None:
    """Write JSON in another form than the canonical one."""
    path.write_text(json.dumps(json.loads(path.read_bytes())), encoding="utf-8")


def pipe(path: Path) -> None:
    """Replace a file by a pipe. Opening it would wait forever."""
    path.unlink()
    os.mkfifo(path)


BESIDE = [
    "tokenizer.json",
    "set_aside.jsonl",
    "dataset_dict.json",
    "train/state.json",
    "train/dataset_info.json",
]
DAMAGES: list[tuple[str, Callable[[Path], object]]] = [
    *[(name, Path.unlink) for name in (*BESIDE, "README.md", "tokenizer_config.json")],
    *[
        (name, lambda path, data=data: path.write_bytes(data))
        for name in BESIDE
        for data in (b"[]\n", b'"\xff"\n', b"[" * 9999, b"{}\n")
    ],
    *[(name, pipe) for name in BESIDE[1:]],
    *[(name, reformat) for name in ("manifest.json", *BESIDE[2:])],
    ("train/state.json", lambda path: path.write_bytes(path.read_bytes().replace(b"train", b"x"))),
    *[("train/data-00000-of-*.arrow", truncate(size)) for size in (0, 1, 100, -1)],
    ("train/data-00000-of-*.arrow", Path.unlink),
]


@pytest.mark.parametrize(("name", "damage"), DAMAGES)
def test_verify__names_a_damaged_file(
    name: str, damage: Callable[[Path], object], folder: Path
) -> None:
    (path,) = folder.glob(name)
    damage(path)

    (problem,) = problems(folder)

    assert problem.place == path.relative_to(folder).as_posix()
    assert ("the shard is missing" in problem.what) == (damage is Path.unlink and "data-" in name)


def test_verify__names_each_damaged_shard(folder: Path) -> None:
    paths = sorted(folder.rglob("*.arrow"))
    first, second = (path.read_bytes() for path in paths[:2])
    paths[0].write_bytes(second)
    paths[1].write_bytes(first)
    for path in paths[2:]:
        flip(path, 50)

    assert sorted(places(folder)) == [path.relative_to(folder).as_posix() for path in paths]
    assert len(paths) > 4


REMAINS = ".manifest.json.7.tmp", "train/.data-00000-of-00004.arrow.7.tmp"


def test_verify__detects_what_builds_leave_and_ignores_other_files(folder: Path) -> None:
    assert find_other_files(folder, read_manifest(folder)) == []
    strange = "train/data-00009-of-00001.arrow"
    for name in (strange, *REMAINS, ".build/pieces/x", "train/notes.tmp", "vocab/x"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"any bytes")

    found = find_other_files(folder, read_manifest(folder))

    assert found == ["train/notes.tmp", "vocab/x"]
    *left, unlisted = problems(folder)
    assert [problem.place for problem in left] == [".build", *REMAINS]
    assert {problem.what.partition(";")[0] for problem in left} == {
        "expected nothing left of an unfinished build"
    }
    assert unlisted == Problem(strange, "expected no shard that the manifest does not name")


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


# Manifests and files that disagree ----------------------------------------------------------------


def update(**values: int) -> Callable[[Manifest], None]:
    """Add numbers to counts of the training split."""

    def change(manifest: Manifest) -> None:
        for name, number in values.items():
            manifest["splits"]["train"][name] += number
            if name in ("tokens", "mentions"):
                manifest["splits"]["train"]["shards"][0][name] += number

    return change


def rename_labels(manifest: Manifest) -> None:
    manifest["labels"] = ["Chemical"]
    manifest["tags"] = ["O", "B-Chemical", "I-Chemical"]


@pytest.mark.parametrize(
    ("change", "place", "what"),
    [
        (update(written=1, read=1), "train", r"expected rows of (\d+) documents, got \d+"),
        (update(tokens=1), "train/data-0.*", r"expected \d+ tokens, got \d+"),
        (update(mentions=1, given_mentions=1), "train/data-0.*", r"expected \d+ mentions, got \d+"),
        (
            rename_labels,
            "(train|validation|test)/data-.*",
            "expected the schema that the manifest's labels and options give",
        ),
        (
            lambda manifest: manifest["splits"]["train"]["shards"].reverse(),
            "train",
            "expected shards numbered from 0 in the manifest's order",
        ),
        (
            lambda manifest: manifest["pipeline"]["encode"].update(max_tokens=8),
            ".*/data-.*",
            r"row \d+: expected rows of at most 8 tokens; \d+ are not",
        ),
    ],
)
def test_verify__detects_a_manifest_that_contradicts_the_rows(
    change: Callable[[Manifest], Any], place: str, what: str, folder: Path
) -> None:
    edit_manifest(folder, change)

    # Files beside the shards name their order too.
    found = [problem for problem in problems(folder) if problem.place != "train/state.json"]

    assert found
    for problem in found:
        assert re.fullmatch(place, problem.place)
        assert re.fullmatch(what, problem.what)


def aside(split: str) -> bytes:
    line = {"split": split, "id": "x", "place": "x:1", "reason": "expected x, got y"}
    return json.dumps(line).encode() + b"\n"


def test_verify__counts_the_set_aside_documents_of_each_split(folder: Path) -> None:
    edit_manifest(
        folder,
        lambda m: m["splits"]["train"].update(
            set_aside={"x": 2}, read=m["splits"]["train"]["written"] + 2
        ),
    )
    lines = aside("train"), aside("test"), aside("nucleus"), b"nucleus\n"
    (folder / "set_aside.jsonl").write_bytes(b"".join(lines))

    assert problems(folder) == [
        Problem(
            "set_aside.jsonl", "expected split, id, place and reason in each line, got 2 others"
        ),
        Problem("set_aside.jsonl", "expected 2 documents of train, got 1"),
        Problem("set_aside.jsonl", "expected 0 documents of test, got 1"),
    ]


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

    assert {*places(folder)} & {"tokenizer_config.json", "manifest.json"}


SWITCHED_OFF = "expected truncation and padding switched off"
UNREADABLE = "expected a tokenizer that can be read"
TRUNCATION = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
PADDING = {
    "strategy": {"Fixed": 3},
    "direction": "Right",
    "pad_to_multiple_of": None,
    "pad_id": 0,
    "pad_type_id": 0,
    "pad_token": "[PAD]",
}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda value: json.dumps(value | {"truncation": TRUNCATION}), SWITCHED_OFF),
        (lambda value: json.dumps(value | {"padding": PADDING}), SWITCHED_OFF),
        (lambda _: "[]", UNREADABLE),
        (lambda _: "{}", UNREADABLE),
        (lambda _: '{"model": {"vocab": 1}}', UNREADABLE),
        (lambda _: '{"model": {"vocab": {"a": "b"}}}', UNREADABLE),
        (lambda _: '{"model": {"vocab": {"a": 0, "a": 1}}}', UNREADABLE),
    ],
)
def test_verify__detects_an_invalid_tokenizer_with_a_correct_checksum(
    change: Callable[[dict[str, Any]], str], what: str, folder: Path
) -> None:
    path = folder / "tokenizer.json"
    path.write_text(change(json.loads(path.read_bytes())))
    digest = hash_file(path)
    edit_manifest(folder, lambda manifest: manifest["tokenizer"].update(sha256=digest))

    assert problems(folder) == [Problem("tokenizer.json", what)]


# Rows that break a law ----------------------------------------------------------------------------

NO_MENTIONS = {"annotate": {"use": "none"}}
CORPORA: dict[str, tuple[str, dict[str, Any]]] = {
    "words": ("kinase\tO\nkinase\tO\n\nthe\tO\n", NO_MENTIONS),
    "text": ("the\tO\nthe\tO\n", {"encode": {"keep_text": True}, **NO_MENTIONS}),
    # A document of three sentences; `causes` has two tokens.
    "joined": (
        "-DOCSTART-\tO\n\nthe\tO\n.\tO\n\ncauses\tO\n\nthe\tO\n.\tO\nthe\tO\n",
        {"encode": {"join": "document"}, **NO_MENTIONS},
    ),
    # As many mentions as rows, all in row 1.
    "mentions": ("kinase\tO\n\nthe\tB-X\nthe\tB-X\nkinase\tI-X\n", {}),
    "contexts": ("no\tO\nkinase\tB-X\n", {"annotate": {"context": True}}),
    "scores": ("the\tO\nkinase\tO\n", {"annotate": {"use": "terms"}, "labels": ["X"]}),
}
"""Name -> the training file, and options of the pipeline."""


def build_corpus(name: str, folder: Path) -> Path:
    text, options = CORPORA[name]
    (folder / "train.tsv").write_text(text)
    if name == "scores":
        (folder / "terms.csv").write_text("name,label\nkinase,X\n")
        options = {**options, "annotate": {"use": "terms", "table": str(folder / "terms.csv")}}
    made.built(folder / "out", folder / "train.tsv", made.pipeline_of(**options))
    return folder / "out"


def later_words(examples: Examples) -> None:
    words = examples.word_ids[0]
    words[words >= 0] += 1


def other_prefix(examples: Examples) -> None:
    examples.input_ids[1][0] = examples.ids.special[-1]


def longer_text(examples: Examples) -> Examples:
    assert examples.texts is not None
    return replace(examples, texts=[text + "x" for text in examples.texts])


def no_sentences(examples: Examples) -> Examples:
    return replace(examples, sentence_starts=Ragged.from_rows([[]], np.int32))


def set_number(column: str, value: float) -> Change:
    def change(examples: Examples) -> None:
        getattr(examples, column)[0] = value

    return change


NO_WORD = "no words on special tokens"
A_WORD = "a word for each token that is not special"
CHARACTERS = "characters for each word, -1 on special tokens"
SPANNED = "texts that their tokens span"
FIRST = "a first sentence that begins at the first token of the text"
AT_WORD = "sentences that begin where a word begins"
TAGS = "the tags that the mentions give"
LAWS: list[tuple[str, Change, int, str]] = [
    ("words", set_value("input_ids", 3, 10**6), 0, "ids of the tokenizer"),
    ("words", set_value("input_ids", 3, -1), 0, "ids of the tokenizer"),
    ("words", set_value("word_ids", 0, -2), 0, "word numbers of at least -1"),
    ("words", set_value("word_ids", 1, 30), 0, "word numbers that never fall"),
    ("words", set_value("word_ids", 0, 0), 0, NO_WORD),
    ("words", set_value("input_ids", 1, 2), 0, NO_WORD),
    ("words", set_value("input_ids", 0, 9), 0, A_WORD),
    ("words", set_value("word_ids", 1, -1), 0, A_WORD),
    ("words", later_words, 0, "rows that begin with word 0"),
    ("words", other_prefix, 1, "the same special tokens around each row"),
    ("text", set_value("token_starts", 0, 0), 0, CHARACTERS),
    ("text", set_value("token_ends", 0, 1), 0, CHARACTERS),
    ("text", set_value("token_ends", 1, 10**6), 0, "characters within the row's text"),
    ("text", set_value("token_starts", 1, 5), 0, "characters within the row's text"),
    ("text", set_value("token_starts", 1, 1), 0, SPANNED),
    ("text", longer_text, 0, SPANNED),
    ("joined", set_value("sentence_starts", 2, 3), 0, "sentences that begin one after the other"),
    ("joined", set_value("sentence_starts", 0, 2), 0, FIRST),
    ("joined", set_value("sentence_starts", 0, 0), 0, FIRST),
    ("joined", set_value("sentence_starts", 1, 4), 0, AT_WORD),
    ("joined", set_value("sentence_starts", 2, 8), 0, AT_WORD),
    ("mentions", set_value("span_labels", 0, 5), 1, "labels of the manifest"),
    ("mentions", set_value("span_labels", 0, -1), 1, "labels of the manifest"),
    ("mentions", set_value("bio", 0, 1), 0, "O on special tokens"),
    ("mentions", set_value("bio", 4, 0), 1, TAGS),
    ("mentions", set_value("bio", 4, 2), 1, TAGS),
    ("mentions", set_value("bio", 1, 1), 0, TAGS),
    ("mentions", set_value("bio", 4, -1), 1, "tags of the manifest"),
    ("mentions", set_value("bio", 4, 100), 1, "tags of the manifest"),
    ("mentions", set_value("span_ends", 0, 3), 1, "sorted mentions that do not overlap"),
    *[
        ("scores", set_number("span_scores", score), 0, "confidences from 0 to 1")
        for score in (-0.5, 1.5, math.nan)
    ],
    *[
        ("contexts", set_number("span_contexts", context), 0, "contexts of 5 flags")
        for context in (-1, 32)
    ],
]


@pytest.mark.parametrize(("corpus", "change", "row", "law"), LAWS)
def test_verify__detects_rows_that_break_a_law_with_a_correct_checksum(
    corpus: str, change: Change, row: int, law: str, tmp_path: Path
) -> None:
    out = build_corpus(corpus, tmp_path)
    assert problems(out) == []
    if corpus == "joined":
        rows = rows_in(out)
        assert rows.sentence_starts is not None
        assert rows.sentence_starts.tolist() == [[1, 3, 5]]
        assert rows.word_ids.tolist() == [[-1, 0, 1, 2, 2, 3, 4, 5, -1]]

    forge(out, change)

    assert {*places(out)} == {f"train/{first_shard(out).name}"}
    (found,) = [problem.what for problem in problems(out) if f" expected {law}; " in problem.what]
    assert found.startswith(f"row {row}: expected {law}; 1 are not")


@pytest.mark.parametrize(
    "change",
    [no_sentences, *[set_value("sentence_starts", 1, value) for value in (-1, 9, 2**31 - 1)]],
)
def test_load__rejects_sentences_outside_their_rows(change: Change, tmp_path: Path) -> None:
    out = build_corpus("joined", tmp_path)
    forge(out, change)

    with pytest.raises(
        ShardError, match=r"row 0: expected (sentences that begin within|a sentence in)"
    ):
        load(out)["train"].examples()


def test_verify__detects_rows_with_equal_keys(folder: Path) -> None:
    def change(examples: Examples) -> None:
        examples.keys[1] = examples.keys[0]

    forge(folder, change)

    assert problems(folder) == [
        Problem("train", "expected a unique key for each row, got 1 duplicates")
    ]


def test_verify__never_shows_text(tmp_path: Path) -> None:
    out = tmp_path / "out"
    made.built(out, pipeline=made.pipeline_of(encode={"keep_text": True}))
    text = first_shard(out).read_bytes()
    for change in (b"", b"{}", text.replace(b"the", b"eht"), text[:-100]):
        claim_bytes(out, change)

        said = str(problems(out))

        assert "nucleus" not in said
        assert "eht" not in said
