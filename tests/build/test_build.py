from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from mslm_data.build import Progress, build
from mslm_data.errors import BuildError, MslmDataError, PipelineError, ShardError
from mslm_data.loading import load
from mslm_data.shard.manifest import Manifest
from mslm_data.shard.verify import verify
from tests import made
from tests.build.killed import UNIT_BYTES

NCBI = made.SAMPLE / "ncbi-disease"
SMALL = made.pipeline_of(unit_bytes=UNIT_BYTES)


class StoppedError(Exception):
    pass


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Every byte of a folder built in one go."""
    out = tmp_path_factory.mktemp("expected") / "out"
    made.built(out, pipeline=SMALL)
    return made.tree(out)


def conll(folder: Path, name: str, *sentences: str) -> Path:
    """Write a file of words with a tag after each, sentences between blank lines; return its folder."""
    folder.mkdir(exist_ok=True)
    text = "\n".join("".join(f"{pair.replace('/', chr(9))}\n" for pair in line.split()) for line in sentences)
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def jsonl(folder: Path, name: str, *rows: dict[str, Any] | str) -> Path:
    folder.mkdir(exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def json_pipeline(**options: Any) -> Any:
    return made.pipeline_of(source={"use": "jsonl"}, **options)


def lines_of(out: Path, name: str = "set_aside.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / name).read_text(encoding="utf-8").splitlines()]


# The same bytes ------------------------------------------------------------------------------------------------------


def test_build__gives_the_same_bytes_in_another_folder(tmp_path: Path, expected: dict[str, bytes]) -> None:
    made.built(tmp_path / "a" / "b" / "other", pipeline=SMALL)

    assert made.tree(tmp_path / "a" / "b" / "other") == expected
    assert len([name for name in expected if name.endswith(".arrow")]) >= 6


def test_build__gives_the_same_bytes_with_two_workers(tmp_path: Path, expected: dict[str, bytes]) -> None:
    build(SMALL, [NCBI], made.word_piece(), tmp_path / "out", workers=2)

    assert made.tree(tmp_path / "out") == expected


def test_build__gives_the_same_bytes_from_a_copy_of_the_input(tmp_path: Path, expected: dict[str, bytes]) -> None:
    copy = shutil.copytree(NCBI, tmp_path / "some where" / "else")
    os.utime(copy / "train.tsv", (0, 0))

    made.built(tmp_path / "out", Path(copy), SMALL)

    assert made.tree(tmp_path / "out") == expected


def test_build__gives_the_same_bytes_from_files_named_one_by_one(tmp_path: Path, expected: dict[str, bytes]) -> None:
    files = [NCBI / "test.tsv", NCBI / "devel.tsv", NCBI / "train.tsv"]

    build(SMALL, files, made.word_piece(), tmp_path / "out", workers=1)

    assert made.tree(tmp_path / "out") == expected


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2)])
def test_build__gives_the_same_bytes_in_parts(
    tmp_path: Path, order: tuple[int, ...], expected: dict[str, bytes]
) -> None:
    out = tmp_path / "out"
    for i in order:
        assert build(SMALL, [NCBI], made.word_piece(), out, part=(i, 3)) is None
        with pytest.raises(ShardError, match=r"expected manifest\.json, found none"):
            load(out)

    done: list[Progress] = []
    build(SMALL, [NCBI], made.word_piece(), out, progress=done.append)

    assert made.tree(out) == expected
    assert len(done) == 1  # nothing was left to do


def test_build__does_what_a_part_left(tmp_path: Path, expected: dict[str, bytes]) -> None:
    build(SMALL, [NCBI], made.word_piece(), tmp_path / "out", part=(2, 2))

    made.built(tmp_path / "out", pipeline=SMALL)

    assert made.tree(tmp_path / "out") == expected


def test_build__gives_the_same_rows_for_any_size_of_units(tmp_path: Path) -> None:
    made.built(tmp_path / "one")
    whole = load(tmp_path / "one")
    for unit_bytes in (1, 500, 5000):
        made.built(tmp_path / str(unit_bytes), pipeline=made.pipeline_of(unit_bytes=unit_bytes))
        parts = load(tmp_path / str(unit_bytes))

        assert len(parts["train"].record.shards) > 1
        for split in whole.splits:
            assert [parts[split][i] for i in range(len(parts[split]))] == [
                whole[split][i] for i in range(len(whole[split]))
            ]


def test_build__again_changes_nothing(tmp_path: Path, expected: dict[str, bytes]) -> None:
    out = tmp_path / "out"
    made.built(out, pipeline=SMALL)
    times = {path: path.stat().st_mtime_ns for path in out.rglob("*")}

    manifest = made.built(out, pipeline=SMALL)

    assert isinstance(manifest, Manifest)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == times


# Interruptions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 1, 3])
def test_build__goes_on_where_it_was_stopped(tmp_path: Path, after: int, expected: dict[str, bytes]) -> None:
    datasets = pytest.importorskip("datasets")
    out = tmp_path / "out"

    def stop(progress: Progress) -> None:
        if progress.done == after:
            raise StoppedError

    with pytest.raises(StoppedError):
        made.built(out, pipeline=SMALL, progress=stop)

    with pytest.raises(ShardError, match=r"expected manifest\.json, found none"):
        load(out)
    with pytest.raises(FileNotFoundError):
        datasets.load_from_disk(str(out))
    seen: list[Progress] = []
    made.built(out, pipeline=SMALL, progress=seen.append)
    assert seen[0].done == after
    assert [progress.done for progress in seen] == list(range(after, seen[0].total + 1))
    assert (seen[-1].bytes_done, seen[-1].done) == (seen[-1].bytes_total, seen[-1].total)
    assert made.tree(out) == expected


@pytest.mark.parametrize("moment", [1, 3, 4, 5, 18, 38, 45])
def test_build__goes_on_where_it_was_killed(tmp_path: Path, moment: int, expected: dict[str, bytes]) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "tests.build.killed", str(out), str(moment)]
    killed = subprocess.run(command, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    with pytest.raises(ShardError):
        load(out)

    made.built(out, pipeline=SMALL)

    assert made.tree(out) == expected
    assert verify(out)[1] == []


@pytest.mark.parametrize("damage", [b"", b"{", b"{}", b"[]", b"null"])
def test_build__does_a_unit_again_whose_receipt_is_damaged(
    tmp_path: Path, damage: bytes, expected: dict[str, bytes]
) -> None:
    out = tmp_path / "out"
    build(SMALL, [NCBI], made.word_piece(), out, part=(1, 1))
    (out / ".build" / "receipts" / "train-00001.json").write_bytes(damage)

    made.built(out, pipeline=SMALL)

    assert made.tree(out) == expected


def test_build__does_a_unit_again_whose_shard_is_gone_or_cut_off(tmp_path: Path, expected: dict[str, bytes]) -> None:
    out = tmp_path / "out"
    build(SMALL, [NCBI], made.word_piece(), out, part=(1, 1))
    first, second, *_ = sorted((out / "train").glob("*.arrow"))
    first.unlink()
    second.write_bytes(b"ARROW")

    made.built(out, pipeline=SMALL)

    assert made.tree(out) == expected


def test_build__keeps_a_finished_folder_when_only_clearing_up_was_left(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    out = tmp_path / "out"
    made.built(out, pipeline=SMALL)
    (out / ".build").mkdir()
    (out / ".build" / "plan.json").write_text("{}")

    made.built(out, pipeline=SMALL)

    assert made.tree(out) == expected


# Refusals ------------------------------------------------------------------------------------------------------------


def _input(folder: Path) -> Path:
    copy = Path(shutil.copytree(NCBI, folder / "changed"))
    with (copy / "train.tsv").open("a", encoding="utf-8") as file:
        file.write("\nkinase\tO\n")
    return copy


OTHERS = [
    ({"pipeline": made.pipeline_of(unit_bytes=UNIT_BYTES, encode={"max_tokens": 77})}, "pipeline.encode.max_tokens"),
    ({"pipeline": made.pipeline_of(unit_bytes=2 * UNIT_BYTES)}, "pipeline.shard.unit_bytes"),
    ({"pipeline": made.pipeline_of(unit_bytes=UNIT_BYTES, segment="whole")}, "pipeline.segment.use"),
    ({"tokenizer": "unigram"}, "tokenizer"),
    ({"inputs": True}, "sources.train"),
]


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize(("other", "named"), OTHERS)
def test_build__refuses_a_folder_of_something_else(
    tmp_path: Path, finished: bool, other: dict[str, Any], named: str
) -> None:
    out = tmp_path / "out"
    build(SMALL, [NCBI], made.word_piece(), out, part=None if finished else (1, 2))
    (out / ".build" / "locks" / "build").touch() if not finished else None
    before = made.tree(out)
    inputs = _input(tmp_path) if "inputs" in other else NCBI
    tokenizer = made.TOKENIZERS[other.get("tokenizer", "word_piece")]()

    message = "built from something else" if finished else "an unfinished build of something else"
    with pytest.raises(BuildError, match=rf"{message}; different: (.*, )?{re.escape(named)}[,;].*choose another --out"):
        build(other.get("pipeline", SMALL), [inputs], tokenizer, out)

    assert made.tree(out) == before


def test_build__does_not_take_a_folder_of_another_card_for_its_own(tmp_path: Path) -> None:
    made.built(tmp_path / "out", pipeline=SMALL)
    protected = replace(SMALL, about=replace(SMALL.about, protected=True))

    try:
        manifest = made.built(tmp_path / "out", pipeline=protected)
    except BuildError:
        return

    assert manifest.protected


def test_build__refuses_a_folder_that_another_build_has(tmp_path: Path) -> None:
    out = tmp_path / "out"
    build(SMALL, [NCBI], made.word_piece(), out, part=(1, 2))

    with (
        FileLock(out / ".build" / "locks" / "build"),
        pytest.raises(BuildError, match="another build is at work in this folder; wait for it or choose another"),
    ):
        made.built(out, pipeline=SMALL)

    made.built(out, pipeline=SMALL)
    assert verify(out)[1] == []


@pytest.mark.parametrize("part", [None, (1, 2)])
@pytest.mark.parametrize("name", ["notes.txt", "train/thesis.docx", ".hidden"])
def test_build__refuses_a_folder_with_other_files(tmp_path: Path, name: str, part: tuple[int, int] | None) -> None:
    out = tmp_path / "out"
    (out / name).parent.mkdir(parents=True)
    (out / name).write_text("mine")

    with pytest.raises(BuildError, match="expected an empty folder or an unfinished build, got other files"):
        build(SMALL, [NCBI], made.word_piece(), out, part=part)

    assert (out / name).read_text() == "mine"


def test_build__takes_an_empty_folder_that_is_there(tmp_path: Path, expected: dict[str, bytes]) -> None:
    (tmp_path / "out").mkdir()

    made.built(tmp_path / "out", pipeline=SMALL)

    assert made.tree(tmp_path / "out") == expected


@pytest.mark.parametrize("name", ["..", "a/b", ".hidden"])
def test_build__refuses_splits_that_no_folder_could_hold(tmp_path: Path, name: str) -> None:
    pipeline = made.pipeline_of(source={"splits": {name: ["train*"]}})

    with pytest.raises(MslmDataError):
        made.built(tmp_path / "in" / "out", pipeline=pipeline)

    assert not (tmp_path / "in" / "out").exists() or not list((tmp_path / "in").rglob("*.arrow"))
    assert not list(tmp_path.glob("*.arrow"))


# Documents and mentions ----------------------------------------------------------------------------------------------


def test_build__sets_aside_and_counts_a_repeated_id(tmp_path: Path) -> None:
    inputs = jsonl(
        tmp_path / "in",
        "train.jsonl",
        {"id": "1", "text": "kinase"},
        {"id": "2", "text": "a"},
        {"id": "1", "text": "b"},
    )

    manifest = made.built(tmp_path / "out", inputs, json_pipeline())

    train = manifest.splits["train"]
    assert (train.read, train.written, train.set_aside) == (3, 2, 1)
    (line,) = lines_of(tmp_path / "out")
    assert (line["split"], line["id"], line["place"]) == ("train", "1", "train.jsonl:3")
    assert "expected an id that no document before it has" in line["reason"]


def test_build__refuses_one_id_in_two_files(tmp_path: Path) -> None:
    jsonl(tmp_path / "in", "train-a.jsonl", {"id": "1", "text": "kinase"})
    inputs = jsonl(tmp_path / "in", "train-b.jsonl", {"id": "1", "text": "kinase"})

    for unit_bytes in (1, 1 << 20):
        with pytest.raises(BuildError, match="1"):
            made.built(tmp_path / str(unit_bytes), inputs, json_pipeline(unit_bytes=unit_bytes))
        with pytest.raises(ShardError):
            load(tmp_path / str(unit_bytes))


def test_build__sets_a_repeated_id_aside_whatever_the_units(tmp_path: Path) -> None:
    rows = [{"id": str(n % 7), "text": f"kinase inhibitors {n}"} for n in range(10)]
    inputs = jsonl(tmp_path / "in", "train.jsonl", *rows)

    trees = {}
    for unit_bytes in (1, 90, 1 << 20):
        out = tmp_path / str(unit_bytes)
        manifest = made.built(out, inputs, json_pipeline(unit_bytes=unit_bytes))
        train = manifest.splits["train"]
        trees[unit_bytes] = [load(out)["train"][i] for i in range(len(load(out)["train"]))]

        assert (train.read, train.written, train.set_aside) == (10, 7, 3)
        assert [line["place"] for line in lines_of(out)] == [f"train.jsonl:{n}" for n in (8, 9, 10)]
    assert trees[1] == trees[90] == trees[1 << 20]


def test_build__allows_an_id_in_several_splits(tmp_path: Path) -> None:
    jsonl(tmp_path / "in", "train.jsonl", {"id": "1", "text": "kinase"})
    inputs = jsonl(tmp_path / "in", "test.jsonl", {"id": "1", "text": "kinase"})

    manifest = made.built(tmp_path / "out", inputs, json_pipeline())

    assert [split.set_aside for split in manifest.splits.values()] == [0, 0]


def test_build__sets_aside_documents_without_a_token(tmp_path: Path) -> None:
    inputs = jsonl(
        tmp_path / "in", "train.jsonl", {"id": "a", "text": "kinase"}, {"id": "b", "text": " \u200b "}, "{broken"
    )

    manifest = made.built(tmp_path / "out", inputs, json_pipeline())

    train = manifest.splits["train"]
    assert (train.read, train.written, train.set_aside, train.sequences) == (3, 1, 2, 1)
    assert {(line["id"], line["place"]) for line in lines_of(tmp_path / "out")} == {
        ("b", "train.jsonl:2"),
        ("train:2", "train.jsonl:3"),
    }


def test_build__counts_mentions_without_a_token(tmp_path: Path) -> None:
    inputs = conll(tmp_path / "in", "train.tsv", "kinase/B-X \u200b/B-X", "\u200b/B-X")

    manifest = made.built(tmp_path / "out", inputs)

    train = manifest.splits["train"]
    assert (train.given_mentions, train.mentions) == (3, 1)
    assert train.left_out == {"no token": 2}
    assert train.set_aside == 1
    assert "2 left out (no token)" in (tmp_path / "out" / "README.md").read_text()


def test_build__says_why_when_nothing_can_be_used(tmp_path: Path) -> None:
    inputs = jsonl(tmp_path / "in", "train.jsonl", {"id": "b", "text": "\u200b"}, "{broken")

    with pytest.raises(
        BuildError, match=r"got none that can be used of 2 read; the first is train\.jsonl:\d: expected"
    ):
        made.built(tmp_path / "out", inputs, json_pipeline())

    with pytest.raises(ShardError):
        load(tmp_path / "out")


@pytest.mark.parametrize("encode", [{}, {"keep_text": True}])
def test_build__has_an_empty_split(tmp_path: Path, encode: dict[str, object]) -> None:
    datasets = pytest.importorskip("datasets")
    jsonl(tmp_path / "in", "train.jsonl", {"id": "a", "text": "kinase"})
    inputs = jsonl(tmp_path / "in", "test.jsonl", {"id": "b", "text": "\u200b"})
    jsonl(tmp_path / "in", "dev.jsonl")

    made.built(tmp_path / "out", inputs, json_pipeline(encode=encode))

    shards = load(tmp_path / "out")
    assert [len(shards[split]) for split in ("train", "validation", "test")] == [1, 0, 0]
    assert len(shards["test"].examples()) == len(shards["validation"].examples()) == 0
    assert [len(split) for split in datasets.load_from_disk(str(tmp_path / "out")).values()] == [1, 0, 0]
    assert verify(tmp_path / "out")[1] == []


def test_build__finds_the_labels_that_occur(tmp_path: Path) -> None:
    conll(tmp_path / "in", "train.tsv", "kinase/B-Zeta p53/B-Old")
    inputs = conll(tmp_path / "in", "test.tsv", "kinase/B-Alpha")

    manifest = made.built(tmp_path / "out", inputs, made.pipeline_of(annotate={"rename": {"Old": "New"}}))

    assert manifest.labels == ("Alpha", "New", "Zeta")
    assert load(tmp_path / "out").tags[:3] == ("O", "B-Alpha", "I-Alpha")
    assert load(tmp_path / "out")["train"][0]["span_labels"] == [2, 1]


def test_build__keeps_the_order_of_labels_it_is_given_and_counts_others(tmp_path: Path) -> None:
    inputs = conll(tmp_path / "in", "train.tsv", "kinase/B-Zeta p53/B-Other a/B-Alpha")

    manifest = made.built(tmp_path / "out", inputs, made.pipeline_of(labels=["Zeta", "Alpha"]))

    assert manifest.labels == ("Zeta", "Alpha")
    assert manifest.splits["train"].left_out == {"label not wanted": 1}
    assert load(tmp_path / "out")["train"][0]["span_labels"] == [0, 1]


@pytest.mark.parametrize("number", [63, 64])
def test_build__holds_63_labels_and_refuses_64(tmp_path: Path, number: int) -> None:
    words = " ".join(f"kinase/B-L{n:02d}" for n in range(number))
    inputs = conll(tmp_path / "in", "train.tsv", words)

    if number == 64:
        with pytest.raises(PipelineError, match="expected at most 63 labels, got 64; merge or choose some"):
            made.built(tmp_path / "out", inputs)
    else:
        made.built(tmp_path / "out", inputs)
        assert max(load(tmp_path / "out")["train"][0]["bio"]) == 125
        assert verify(tmp_path / "out")[1] == []


def test_build__counts_mentions_that_do_not_fit_beside_others(tmp_path: Path) -> None:
    row = {
        "id": "1",
        "text": "colon cancer cells",
        "entities": [[0, 12, "X"], [6, 12, "X"], [6, 18, "X"], [0, 12, "Y"]],
    }
    spans = [{"start": a, "end": b, "label": label} for a, b, label in row["entities"]]
    inputs = jsonl(tmp_path / "in", "train.jsonl", {"id": "1", "text": row["text"], "spans": spans})

    manifest = made.built(tmp_path / "out", inputs, json_pipeline())

    train = manifest.splits["train"]
    assert (train.given_mentions, train.mentions) == (4, 1)
    assert (
        train.left_out == {"inside another": 1, "overlaps another": 1, "same place": 1}
        or sum(train.left_out.values()) == 3
    )


@pytest.mark.parametrize("corpus", sorted(path.parent.name for path in made.SAMPLE.glob("*/train.tsv")))
@pytest.mark.parametrize("max_tokens", [8, 512])
def test_build__accounts_for_every_document_and_mention(tmp_path: Path, corpus: str, max_tokens: int) -> None:
    source = {"scheme": "label", "outside": "N"} if corpus == "ebm-nlp" else {}
    pipeline = made.pipeline_of(source=source, encode={"max_tokens": max_tokens})

    manifest = made.built(tmp_path / "out", made.SAMPLE / corpus, pipeline)

    for split in manifest.splits.values():
        assert split.read == split.written + split.set_aside
        assert split.mentions == split.given_mentions - sum(split.left_out.values()) + split.cut_pieces
        assert split.mentions > 0
    assert verify(tmp_path / "out")[1] == []


def test_build__follows_the_paper_where_it_cuts(tmp_path: Path) -> None:
    words = " ".join(["kinase/O"] * 5 + ["kinase/B-X"] + ["kinase/I-X"] * 3)
    inputs = conll(tmp_path / "in", "train.tsv", words)

    ours = made.built(tmp_path / "ours", inputs, made.pipeline_of(encode={"max_tokens": 9}))
    papers = made.built(tmp_path / "papers", inputs, made.pipeline_of(encode={"max_tokens": 9, "split": "paper"}))

    assert (ours.splits["train"].cut_mentions, papers.splits["train"].cut_mentions) == (0, 1)
    assert (ours.splits["train"].mentions, papers.splits["train"].mentions) == (1, 2)


# What a folder says --------------------------------------------------------------------------------------------------


def test_build__writes_nothing_of_where_or_when(tmp_path: Path, expected: dict[str, bytes]) -> None:
    out = tmp_path / "a-telling-name"
    made.built(out, pipeline=SMALL)

    for name, data in made.tree(out).items():
        text = data.decode(errors="replace")
        for telling in (str(tmp_path), "a-telling-name", str(made.SAMPLE), socket.gethostname(), str(os.getpid())):
            assert telling not in text or telling.isdigit(), name
    manifest = json.loads(expected["manifest.json"])
    assert not re.search(r"\d{4}-\d{2}-\d{2}|\d{2}:\d{2}:\d{2}", expected["manifest.json"].decode())
    assert not re.search(r'"/', expected["manifest.json"].decode())
    assert manifest["splits"]["train"]["sources"][0]["name"] == "train.tsv"


def test_build__writes_the_files_of_the_contract(expected: dict[str, bytes]) -> None:
    above = {name for name in expected if "/" not in name}
    beside = {name.split("/")[1] for name in expected if "/" in name and not name.endswith(".arrow")}

    assert above == {
        "manifest.json", "dataset_dict.json", "tokenizer.json", "README.md", "set_aside.jsonl"
    }  # fmt: skip
    assert beside == {"dataset_info.json", "state.json"}
    assert {name.split("/")[0] for name in expected if "/" in name} == {"train", "validation", "test"}


def test_build__tells_of_its_progress(tmp_path: Path) -> None:
    seen: list[Progress] = []

    manifest = made.built(tmp_path / "out", pipeline=SMALL, progress=seen.append)

    total = seen[0].bytes_total
    assert seen[0] == Progress(done=0, total=len(seen) - 1, bytes_done=0, bytes_total=total, documents=0, sequences=0)
    assert seen[-1].documents == sum(split.read for split in manifest.splits.values())
    assert seen[-1].sequences == sum(split.sequences for split in manifest.splits.values())
    size = sum(path.stat().st_size for path in NCBI.glob("*.tsv"))
    assert size - len(seen) <= seen[-1].bytes_total <= size
    assert all(a.bytes_done < b.bytes_done for a, b in zip(seen, seen[1:], strict=False))  # noqa: RUF007


def test_build__keeps_the_text_when_told_to(tmp_path: Path) -> None:
    made.built(tmp_path / "out", pipeline=made.pipeline_of(encode={"keep_text": True}))

    train = load(tmp_path / "out")["train"]

    core = made.word_piece().core
    for i in range(len(train)):
        row = train[i]
        surfaces = [row["text"][a:b] for a, b in zip(row["token_starts"], row["token_ends"], strict=True) if a >= 0]
        pieces = [core.id_to_token(id_) for id_ in row["input_ids"][1:-1]]
        assert [piece.removeprefix("##") for piece in pieces] == surfaces or "[UNK]" in pieces
