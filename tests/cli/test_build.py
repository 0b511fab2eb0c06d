"""Output of `mslm-data build`; the folder that it makes is tested in tests/builds and tests/api."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from mslm_data import _optional
from mslm_data.builds import row_sink
from tests import made
from tests.cli.running import Done, run

VOCAB = made.SAMPLE / "vocab.txt"
BC2GM = made.SAMPLE / "bc2gm"
SAMPLED = ("build", "--source", "blurb/bc2gm", "--sample")


def build(folder: Path, *words: object, source: object = "jsonl") -> Done:
    """Build `in` of a folder to its `out`."""
    where = ("--input", folder / "in", "--out", folder / "out", "--tokenizer", VOCAB)
    return run("build", "--source", source, *where, *words)


def write_rows(folder: Path, *rows: Mapping[str, Any] | str) -> None:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "in").mkdir()
    (folder / "in" / "train.jsonl").write_text("\n".join(lines), encoding="utf-8")


# The six corpora ----------------------------------------------------------------------------------


def test_build__blurb_builds_all_six_corpora(tmp_path: Path) -> None:
    done = run("build", "--source", "blurb", "--sample", "--out", tmp_path, "--json")

    names = {"bc2gm", "bc5cdr-chem", "bc5cdr-disease", "ebm-nlp", "jnlpba", "ncbi-disease"}
    datasets = done.json["datasets"]
    assert {path.name for path in tmp_path.iterdir()} == names
    assert set(datasets) == {f"blurb/{name}" for name in names}
    for number in ("read", "written", "set_aside"):
        assert done.json[number] == sum(dataset[number] for dataset in datasets.values())


def test_build__says_which_parts_of_the_six_corpora_are_done(tmp_path: Path) -> None:
    done = run("build", "--source", "blurb", "--sample", "--out", tmp_path, "--part", "1/9")

    lines = done.out.splitlines()
    assert done.code == 0
    assert len(lines) == 6
    assert all("part 1 of 9 is done; the same command without --part" in line for line in lines)


# Plans --------------------------------------------------------------------------------------------


def test_build__dry_run_rejects_the_folder_of_another_build(tmp_path: Path) -> None:
    words = (*SAMPLED, "--out", tmp_path / "out")
    assert run(*words).code == 0
    before = made.tree(tmp_path / "out")

    same = run(*words, "--dry-run")
    other = run(*words, "--dry-run", "--set", "encode.max_tokens=64")

    assert same.code == 0, same.err
    assert other.code == 1
    assert "holds what was built from something else; different: pipeline.encode" in other.err
    assert made.tree(tmp_path / "out") == before


def test_build__dry_run_says_why_documents_would_be_set_aside(tmp_path: Path) -> None:
    write_rows(tmp_path, *[{"text": f"A cold {n}."} for n in range(9)], "{")
    words = ("--dry-run", "--set", "annotate.use=none")

    accepted = build(tmp_path, *words, "--set", "source.max_loss=0.5")
    refused = build(tmp_path, *words, "--set", "source.max_loss=0.05")

    assert accepted.code == 0, accepted.err
    assert re.search(r"^1 would be set aside, first at train\.jsonl:10: ", accepted.out, re.M)
    assert refused.code == 1
    assert "at most 5% of the documents set aside (source.max_loss), got 1 of 10" in refused.err
    assert "first at train.jsonl:10" in refused.err
    assert not (tmp_path / "out").exists()


# Inputs -------------------------------------------------------------------------------------------


def test_build__lists_all_input_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("train.tsv", "eng.testa.tsv", "extra.tsv", "README.md"):
        shutil.copy(BC2GM / "train.tsv", tmp_path / "in" / name)

    done = build(tmp_path, "--set", "source.duplicates=keep", source="blurb/bc2gm")

    assert "train: read train.tsv\n" in done.out
    assert "validation: read eng.testa.tsv\n" in done.out
    assert "not read: extra.tsv: its name has no split" in done.out
    assert "not read: README.md: its name does not end with .tsv" in done.out


def test_build__takes_several_inputs_by_one_option_or_several(tmp_path: Path) -> None:
    files = [BC2GM / "train.tsv", BC2GM / "test.tsv"]
    words = ("build", "--source", "blurb/bc2gm", "--tokenizer", VOCAB, "--json", "--dry-run")
    words = (*words, "--out", tmp_path / "out")

    spread = run(*words, "--input", *files)
    repeated = run(*words, "--input", files[0], "--input", files[1])

    assert spread.json["files"] == {"train": ["train.tsv"], "test": ["test.tsv"]}
    assert repeated.json == spread.json


def test_build__second_run_below_its_input_prints_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "Fever."}\n{"text": ""}\n')
    words = ("build", "--source", "text", "--input", tmp_path, "--tokenizer", VOCAB, "--json")
    words = (*words, "--out", tmp_path / "shards" / "a", "--set", "source.max_loss=1")

    first = run(*words)
    second = run(*words)

    assert first.json["files"] == {"train": ["a.jsonl"]}
    assert first.json["unread"] == {}
    assert (second.code, second.out) == (0, first.out)


def test_build__asks_the_hub_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "set-train.arrow"
    rows = pa.table({"tokens": [["Had", "gout"]], "ner_tags": [["O", "B-Disease"]]})
    with pa.ipc.new_stream(str(path), rows.schema) as writer:
        writer.write_table(rows)
    asked = []

    def load_dataset(*args: object, **options: object) -> object:
        asked.append((*args, options))
        return {"train": SimpleNamespace(cache_files=[{"filename": str(path)}])}

    fetching = SimpleNamespace(load_dataset=load_dataset)
    monkeypatch.setattr(_optional, "load", lambda name, *, wanted_by: fetching)
    (tmp_path / "my.toml").write_text('[source]\nuse = "hub"\ndataset = "own/set"\n')
    words = ("--source", tmp_path / "my.toml", "--tokenizer", VOCAB, "--out", tmp_path / "out")

    done = run("build", *words, "--json")

    assert done.json["files"] == {"train": ["set-train.arrow"]}
    assert asked == [("own/set", None, {"revision": None})]


# Results ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("past", "warned"), [(0, False), (-1, True)])
def test_build__warns_about_mentions_that_end_within_tokens(
    tmp_path: Path, past: int, warned: bool
) -> None:
    spans = [[0, 7 + past, "Drug"], [12, 20 + past, "Drug"]]
    write_rows(tmp_path, {"text": "aspirin and morphine", "entities": spans})

    done = build(tmp_path)

    assert done.code == 0
    assert ("warning: train: 2 of 2 mentions begin or end within a token" in done.out) == warned
    assert ("source.ends (inclusive)" in done.out) == warned


def test_build__lists_labels_of_mentions_and_documents(tmp_path: Path) -> None:
    write_rows(tmp_path, *[{"text": f"helps {x}", "label": x} for x in ("yes", "no", "maybe")])
    of_documents = ("--set", "source.doc_label=label")

    planned = build(tmp_path, *of_documents, "--dry-run")
    done = build(tmp_path, *of_documents)

    assert planned.out.splitlines()[0].endswith("would be built; labels none")
    labels = "labels none; labels of documents maybe, no, yes"
    assert done.out.splitlines()[0].endswith(f"; {labels}")


def test_build__reports_records_that_are_not_chosen(tmp_path: Path) -> None:
    write_rows(tmp_path, *[{"text": f"a {x}", "answer": x} for x in ("accept", "reject")])

    done = build(tmp_path, "--set", "annotate.use=none", source="prodigy")

    assert "train: 1 of 2 records not chosen: rejected by the annotator\n" in done.out


def test_build__interrupt_exits_with_130_and_the_same_command_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, calls = row_sink.write_piece, []

    def interrupted(*args: Any, **options: Any) -> object:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return write(*args, **options)

    monkeypatch.setattr(row_sink, "write_piece", interrupted)

    stopped = run(*SAMPLED, "--out", tmp_path)
    done = run(*SAMPLED, "--out", tmp_path)

    assert stopped.code == 130
    assert "run the same command again" in stopped.err
    assert done.code == 0
    assert len(calls) == 4  # the first of three units is kept
