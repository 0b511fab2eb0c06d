"""`md.build(documents=)`: the same result as JSON lines, and errors that name a document."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mslm_data as md
from mslm_data.api.building import _spooled
from mslm_data.errors import BuildError, CallError, MslmDataError
from mslm_data.source.inputs.spool import spool
from tests import made

VOCAB = made.SAMPLE / "vocab.txt"
SECRET = "Zyxwvut"


def rows() -> list[dict[str, Any]]:
    """Sixty documents with one mention each, in three splits."""
    splits = ["train"] * 40 + ["validation"] * 10 + ["test"] * 10
    return [
        {
            "id": f"d{number}",
            "text": f"Aspirin no. {number} helps in dystrophy\N{LATIN SMALL LETTER E WITH ACUTE}.",
            "entities": [[0, 7, "Chemical"]],
            "split": split,
        }
        for number, split in enumerate(splits)
    ]


def as_files(folder: Path) -> Path:
    """Write the rows as JSON lines."""
    folder.mkdir()
    for row in rows():
        with open(folder / f"{row.pop('split')}.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return folder


@dataclass
class Entity:
    start: int
    end: int
    label: str


@dataclass
class Note:
    text: str
    id: str | None = None
    entities: list[Entity] = field(default_factory=list)
    split: str | None = None


def notes() -> Iterator[Note]:
    for row in rows():
        yield Note(row["text"], row["id"], [Entity(*row["entities"][0])], row["split"])


def of_table() -> Iterator[dict[str, Any]]:
    """Rows as a table of pandas or NumPy has them."""
    for row in rows():
        entity = (np.int64(0), np.int32(7), np.str_("Chemical"))
        yield {**row, "text": np.str_(row["text"]), "entities": (entity,)}


@pytest.mark.parametrize("documents", [rows, lambda: iter(rows()), notes, of_table])
def test_build__documents_equal_their_files(documents: Any, tmp_path: Path) -> None:
    files = as_files(tmp_path / "files")
    of_files = md.build("jsonl", input=files, tokenizer=VOCAB, out=tmp_path / "a", workers=1)

    shards = md.build(documents=documents(), tokenizer=VOCAB, out=tmp_path / "b", workers=1)

    assert made.tree(tmp_path / "b") == made.tree(tmp_path / "a")
    assert {name: len(split) for name, split in shards.items()} == {
        name: len(split) for name, split in of_files.items()
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "files"]


def test_spool__writes_numbers_of_numpy(tmp_path: Path) -> None:
    spool([{"id": np.int64(7), "text": "a", "age": np.float32(0.5), "entities": []}], tmp_path)

    assert (tmp_path / "train.jsonl").read_text() == (
        '{"id": 7, "text": "a", "age": 0.5, "entities": []}\n'
    )


def test_build__documents_are_counted_and_set_aside(tmp_path: Path) -> None:
    documents: list[Any] = [Note("A tumour."), *rows()[:38]]
    documents += [{"id": "beyond", "text": "short", "entities": [[0, 99, "Chemical"]]}]
    documents += [{"id": "word", "text": "short", "entities": [SECRET]}]

    shards = md.build(
        documents=documents,
        tokenizer=VOCAB,
        out=tmp_path / "out",
        options={"source.max_loss": 0.5},
        workers=1,
    )

    train = shards.manifest.splits["train"]
    assert train.read == 41 == train.written + sum(train.set_aside.values())
    assert train.mentions == 38
    aside = (tmp_path / "out" / "set_aside.jsonl").read_text(encoding="utf-8")
    assert sum(train.set_aside.values()) == len(aside.splitlines())
    assert SECRET not in aside


def test_build__documents_resume_and_open_a_finished_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = {"shard.input_bytes": 1_000}
    whole = md.build(
        documents=rows(), tokenizer=VOCAB, out=tmp_path / "whole", options=options, workers=1
    )

    md.build_part(
        documents=rows(), tokenizer=VOCAB, out=out, options=options, part=(1, 2), workers=1
    )
    assert not (out / "manifest.json").exists()
    md.build(documents=notes(), tokenizer=VOCAB, out=out, options=options, workers=1)
    before = made.tree(out)
    again = md.build(documents=rows(), tokenizer=VOCAB, out=out, options=options, workers=1)

    assert made.tree(out) == before == made.tree(tmp_path / "whole")
    assert len(again["train"]) == len(whole["train"])
    with pytest.raises(BuildError):
        md.build(documents=rows()[1:], tokenizer=VOCAB, out=out, options=options, workers=1)


def test_build__documents_accept_a_pipeline_of_json_lines(tmp_path: Path) -> None:
    tables = {"name": "mine", "source": {"use": "jsonl"}, "annotate": {"labels": ["Chemical"]}}

    shards = md.build(tables, documents=rows(), tokenizer=VOCAB, out=tmp_path / "out", workers=1)

    assert shards.manifest.name == "mine"
    with pytest.raises(CallError, match="'conll'"):
        md.build("conll", documents=rows(), tokenizer=VOCAB, out=tmp_path / "other")


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (SECRET, "documents[1]: "),
        (None, "documents[1]: "),
        ({"text": 7}, "documents[1].text: "),
        ({"text": SECRET, "id": 1.5}, "documents[1].id: "),
        ({"text": SECRET, "entities": SECRET}, "documents[1].entities: "),
        ({"text": SECRET, "entities": [Path(SECRET)]}, "documents[1]: "),
        ({"text": SECRET, "split": "dev"}, "documents[1].split: "),
        ({"text": SECRET, "split": SECRET * 9}, "documents[1].split: "),
        ({"text": SECRET + "\ud800"}, "documents[1]: "),
        ({"text": SECRET, "score": float("nan")}, "documents[1]: "),
        ({"text": SECRET, "date": Path(SECRET)}, "documents[1]: "),
        ({"text": SECRET, (1, 2): SECRET}, "documents[1]: "),
    ],
)
def test_build__invalid_documents_are_named_by_number(
    wrong: Any, named: str, tmp_path: Path
) -> None:
    with pytest.raises(CallError) as raised:
        md.build(documents=[rows()[0], wrong], tokenizer=VOCAB, out=tmp_path / "out")

    assert str(raised.value).startswith(named)
    assert SECRET not in str(raised.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"documents": []}, "^documents: expected at least one document, got none$"),
        ({"documents": "text"}, "^documents: expected an iterable of documents, .*, got str$"),
        ({"documents": rows()[0]}, "^documents: expected an iterable of documents, .*, got dict$"),
        ({"documents": rows(), "input": "files"}, "^documents: cannot be combined with an input;"),
        ({"documents": rows(), "sample": True}, "^documents: cannot be combined with a sample;"),
        ({"documents": rows(), "out": None}, "^out: expected the folder to build from documents,"),
        ({}, "^source: expected a name, a file or documents=, got neither$"),
    ],
)
def test_build__documents_reject_conflicting_arguments(
    options: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(CallError, match=message):
        md.build(**{"tokenizer": VOCAB, "out": tmp_path / "out", **options})

    assert not list(tmp_path.iterdir())


def test_build__documents_without_their_keyword_are_not_shown(tmp_path: Path) -> None:
    with pytest.raises(CallError, match=r"got list; pass documents as documents=$"):
        md.build([{"text": SECRET}], tokenizer=VOCAB, out=tmp_path / "out")  # type: ignore[call-overload]


def test_build__documents_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; import mslm_data as md\n"
        "def documents():\n"
        f"    yield {{'text': '{SECRET}'}}\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "md.build(documents=documents(), tokenizer=sys.argv[1], out=sys.argv[2])\n"
    )
    subprocess.run([sys.executable, "-c", program, str(VOCAB), str(tmp_path / "a")], check=False)
    (left,) = tmp_path.iterdir()

    md.build(documents=rows(), tokenizer=VOCAB, out=tmp_path / "a", workers=1)

    assert left.name == ".a.mslm.tmp"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_build__documents_of_parts_are_built_at_the_same_time(tmp_path: Path) -> None:
    def documents() -> Iterator[dict[str, Any]]:
        yield from rows()
        md.build_part(documents=rows(), tokenizer=VOCAB, out=tmp_path / "a", part=(2, 2), workers=1)

    md.build_part(
        documents=documents(), tokenizer=VOCAB, out=tmp_path / "a", part=(1, 2), workers=1
    )
    md.build(documents=rows(), tokenizer=VOCAB, out=tmp_path / "a", workers=1)

    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_build__documents_of_one_folder_are_refused_twice(tmp_path: Path) -> None:
    def documents() -> Iterator[dict[str, Any]]:
        yield from rows()
        with pytest.raises(BuildError, match="another build of documents is running"):
            md.build(documents=rows(), tokenizer=VOCAB, out=tmp_path / "a", workers=1)

    md.build(documents=documents(), tokenizer=VOCAB, out=tmp_path / "a", workers=1)


def test_build__documents_raise_errors_of_the_iterable(tmp_path: Path) -> None:
    def failing() -> Iterator[dict[str, Any]]:
        yield rows()[0]
        raise RuntimeError("of the caller")

    with pytest.raises(RuntimeError, match="of the caller"):
        md.build(documents=failing(), tokenizer=VOCAB, out=tmp_path / "out")
    (tmp_path / "file").touch()
    with pytest.raises(MslmDataError):
        md.build(documents=rows(), tokenizer=VOCAB, out=tmp_path / "file" / "out")

    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_build__documents_are_not_blamed_for_a_full_disk_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="/other/place"), _spooled(rows(), tmp_path / "out"):
        raise OSError(errno.ENOSPC, "No space left on device", "/other/place")
