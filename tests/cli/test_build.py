from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import mslm_data as md
from mslm_data import _optional
from mslm_data.io import resources
from tests import made
from tests.cli.running import run

SAMPLES = resources.path("vocab", "sample")
VOCAB = SAMPLES / "vocab.txt"


def test_build__sample_returns_the_documented_json(tmp_path: Path) -> None:
    done = run("build", "--source", "blurb/bc2gm", "--sample", "--out", tmp_path / "out", "--json")

    assert done.code == 0
    report = done.json
    assert report["out"] == str(tmp_path / "out")
    assert (report["read"], report["written"], report["set_aside"]) == (100, 100, 0)
    assert set(report["splits"]) == {"train", "validation", "test"}
    assert {"documents", "sequences", "tokens", "mentions", "shards"} <= set(
        report["splits"]["train"]
    )
    assert report["splits"]["train"]["sequences"] == len(md.load(tmp_path / "out")["train"]) == 60


def test_build__second_run_is_already_done(tmp_path: Path) -> None:
    words = ("build", "--source", "blurb/bc2gm", "--sample", "--out", tmp_path / "out")
    first = run(*words)
    before = (tmp_path / "out" / "manifest.json").stat().st_mtime_ns

    second = run(*words)

    assert (second.code, second.out) == (0, first.out)
    assert (tmp_path / "out" / "manifest.json").stat().st_mtime_ns == before


def test_build__second_run_below_its_input_is_already_done(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "Fever."}\n{"text": ""}\n')
    words = ("build", "--source", "text", "--input", tmp_path, "--tokenizer", VOCAB)
    words = (*words, "--out", tmp_path / "shards" / "a", "--set", "source.max_loss=1")
    first = run(*words)

    second = run(*words)

    assert (first.code, second.code, second.out) == (0, 0, first.out)


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text elsewhere")
def test_build__rejects_a_name_that_is_not_text(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/n\xe4.txt")).write_text("Fever.")

    done = run(
        "build",
        "--source",
        "text",
        "--input",
        tmp_path,
        "--tokenizer",
        VOCAB,
        "--out",
        tmp_path / "o",
    )

    assert done.code == 1
    assert "n\\udce4.txt: expected names of files and folders in UTF-8, got other bytes" in done.err


def test_build__reports_which_of_the_six_corpora_are_done(tmp_path: Path) -> None:
    done = run("build", "--source", "blurb", "--sample", "--out", tmp_path, "--part", "1/9")

    lines = done.out.splitlines()
    assert done.code == 0
    assert len(lines) == 6
    assert all("part 1 of 9 is done; the same command without --part" in line for line in lines)


def test_build__blurb_builds_all_six_corpora(tmp_path: Path) -> None:
    done = run("build", "--source", "blurb", "--sample", "--out", tmp_path, "--json")

    names = {"bc2gm", "bc5cdr-chem", "bc5cdr-disease", "ebm-nlp", "jnlpba", "ncbi-disease"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert set(done.json["datasets"]) == {f"blurb/{name}" for name in names}
    assert done.json["read"] == done.json["written"] + done.json["set_aside"]


def test_build__dry_run_writes_nothing(tmp_path: Path) -> None:
    done = run(
        "build",
        "--source",
        "blurb/bc2gm",
        "--sample",
        "--out",
        tmp_path / "out",
        "--dry-run",
        "--json",
    )

    assert done.code == 0
    assert done.json["splits"]["train"] == {
        "files": 1,
        "bytes": (SAMPLES / "bc2gm" / "train.tsv").stat().st_size,
        "shards": 1,
        "documents": 60,
        "set_aside": 0,
    }
    assert not (tmp_path / "out").exists()


def test_build__dry_run_rejects_the_folder_of_another_build(tmp_path: Path) -> None:
    words = ("build", "--source", "blurb/bc2gm", "--sample", "--out", tmp_path / "out")
    assert run(*words).code == 0
    before = made.tree(tmp_path / "out")

    same = run(*words, "--dry-run")
    other = run(*words, "--dry-run", "--set", "encode.max_tokens=64")

    assert same.code == 0, same.err
    assert other.code == 1
    assert "holds what was built from something else; different: pipeline.encode" in other.err
    assert made.tree(tmp_path / "out") == before


def test_build__dry_run_says_why_documents_would_be_set_aside(tmp_path: Path) -> None:
    rows = ['{"text": "A cold."}\n'] * 9
    (tmp_path / "a.jsonl").write_text("".join([*rows, "{\n"]), encoding="utf-8")
    words = ["build", "--source", "text", "--input", tmp_path / "a.jsonl", "--tokenizer", VOCAB]
    words += ["--out", tmp_path / "out", "--dry-run", "--set", "source.duplicates=keep"]

    accepted = run(*words, "--set", "source.max_loss=0.5")
    listed = run(*words, "--set", "source.max_loss=0.5", "--json")
    refused = run(*words, "--set", "source.max_loss=0.05")

    assert accepted.code == 0, accepted.err
    assert re.search(r"^1 would be set aside, first at a\.jsonl:10: expected ", accepted.out, re.M)
    (reason,) = listed.json["reasons"]
    assert (reason["documents"], reason["first"]) == (1, "a.jsonl:10")
    assert refused.code == 1
    assert "at most 5% of the documents set aside (source.max_loss), got 1 of 10" in refused.err
    assert "first at a.jsonl:10" in refused.err


@pytest.mark.parametrize("dry", [True, False])
def test_build__lists_all_input_files(tmp_path: Path, dry: bool) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("train.tsv", "eng.testa.tsv", "extra.tsv", "README.md", ".hidden.tsv"):
        shutil.copy(SAMPLES / "bc2gm" / "train.tsv", folder / name)
    words = ["build", "--source", "blurb/bc2gm", "--tokenizer", VOCAB, "--input", folder]
    words += ["--out", tmp_path / "out", *(["--dry-run"] if dry else [])]
    words += ["--set", "source.duplicates=keep"]

    report = run(*words, "--json").json
    shown = run(*words).out

    assert report["files"] == {"train": ["train.tsv"], "validation": ["eng.testa.tsv"]}
    assert sorted(name for names in report["unread"].values() for name in names) == [
        ".hidden.tsv",
        "README.md",
        "extra.tsv",
    ]
    assert "train: read train.tsv\n" in shown
    assert "validation: read eng.testa.tsv\n" in shown
    assert "not read: extra.tsv: its name has no split" in shown
    assert "not read: README.md: its name does not end with .tsv" in shown


def test_build__excludes_its_own_folder_from_the_list(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "bc2gm" / "train.tsv", tmp_path / "train.tsv")
    words = ["build", "--source", "blurb/bc2gm", "--tokenizer", VOCAB, "--input", tmp_path]
    words += ["--out", tmp_path / "out", "--json"]

    first = run(*words)
    again = run(*words)

    assert first.json["files"] == {"train": ["train.tsv"]}
    assert first.json["unread"] == {}
    assert again.out == first.out


@pytest.mark.parametrize("dry", [True, False])
def test_build__queries_the_hub_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dry: bool
) -> None:
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

    done = run(
        "build", "--source", tmp_path / "my.toml", "--tokenizer", VOCAB, "--out", tmp_path / "out",
        "--json", *(["--dry-run"] if dry else []),
    )  # fmt: skip

    assert done.json["files"] == {"train": ["set-train.arrow"]}
    assert asked == [("own/set", None, {"revision": None})]


@pytest.mark.parametrize(("past", "warned"), [(0, False), (-1, True)])
def test_build__warns_about_mentions_that_end_within_tokens(
    tmp_path: Path, past: int, warned: bool
) -> None:
    text = "aspirin and morphine"
    spans = [[0, 7 + past, "Drug"], [12, 20 + past, "Drug"]]
    (tmp_path / "train.jsonl").write_text(json.dumps({"text": text, "entities": spans}))
    (tmp_path / "my.toml").write_text('[source]\nuse = "jsonl"\n')

    done = run(
        "build", "--source", tmp_path / "my.toml", "--input", tmp_path / "train.jsonl",
        "--tokenizer", VOCAB, "--out", tmp_path / "out",
    )  # fmt: skip

    assert done.code == 0
    assert ("warning: train: 2 of 2 mentions begin or end within a token" in done.out) == warned
    assert ("source.ends (inclusive)" in done.out) == warned


def test_build__without_labels_reports_none(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("Aspirin helps .\n")
    words = (
        "build",
        "--source",
        "text",
        "--input",
        tmp_path / "text.txt",
        "--out",
        tmp_path / "out",
    )
    words += ("--tokenizer", VOCAB)

    planned = run(*words, "--dry-run")
    done = run(*words)

    assert planned.out.splitlines()[0].endswith("would be built; labels none")
    assert done.out.splitlines()[0].endswith("; labels none")
    assert repr(md.load(tmp_path / "out")).endswith("; labels none)")


def test_build__lists_document_labels(tmp_path: Path) -> None:
    rows = [{"text": "aspirin helps", "label": label} for label in ("yes", "no", "yes")]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = ("build", "--source", "jsonl", "--set", "source.doc_label=label")
    words += ("--input", tmp_path / "train.jsonl", "--out", tmp_path / "out", "--tokenizer", VOCAB)

    done = run(*words)

    assert done.out.splitlines()[0].endswith("; labels none; labels of documents no, yes")
    assert "* Labels of documents: no, yes" in (tmp_path / "out" / "README.md").read_text()
    shards = md.load(tmp_path / "out")
    assert repr(shards).endswith("; labels none; labels of documents 'no', 'yes')")
    assert "labels of documents: no, yes" in shards._repr_html_()


def test_build__reports_unselected_records(tmp_path: Path) -> None:
    rows = [{"text": f"aspirin {answer}", "answer": answer} for answer in ("accept", "reject")]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "my.toml").write_text('[source]\nuse = "prodigy"\n[annotate]\nuse = "none"\n')
    words = ("build", "--source", tmp_path / "my.toml", "--input", tmp_path / "train.jsonl",
             "--tokenizer", VOCAB, "--out")  # fmt: skip

    done = run(*words, tmp_path / "out")
    again = run(*words, tmp_path / "again", "--json")

    assert "train: 1 of 2 records not chosen: rejected by the annotator\n" in done.out
    assert again.json["splits"]["train"]["not_chosen"] == {"rejected by the annotator": 1}


def test_build__accepts_several_inputs(tmp_path: Path) -> None:
    files = [SAMPLES / "bc2gm" / "train.tsv", SAMPLES / "bc2gm" / "test.tsv"]
    words = ("build", "--source", "blurb/bc2gm", "--tokenizer", VOCAB, "--json")

    spread = run(*words, "--out", tmp_path / "a", "--input", *files)
    repeated = run(*words, "--out", tmp_path / "b", "--input", files[0], "--input", files[1])

    assert spread.code == repeated.code == 0
    assert set(spread.json["splits"]) == {"train", "test"}
    assert (tmp_path / "a" / "manifest.json").read_bytes() == (
        tmp_path / "b" / "manifest.json"
    ).read_bytes()


def test_build__full_command_finishes_parts(tmp_path: Path) -> None:
    words = ("build", "--source", "blurb/bc2gm", "--sample")
    run(*words, "--out", tmp_path / "whole")

    first = run(*words, "--out", tmp_path / "parts", "--part", "1/2")
    assert first.code == 0
    assert run("verify", tmp_path / "parts").code == 1
    run(*words, "--out", tmp_path / "parts", "--part", "2/2")
    last = run(*words, "--out", tmp_path / "parts")

    assert last.code == 0
    for path in (tmp_path / "whole").rglob("*"):
        if path.is_file():
            assert (
                tmp_path / "parts" / path.relative_to(tmp_path / "whole")
            ).read_bytes() == path.read_bytes()


def test_build__set_changes_the_pipeline(tmp_path: Path) -> None:
    done = run(
        "build", "--source", "blurb/bc2gm", "--sample", "--out", tmp_path, "--json", "--set",
        "encode.max_tokens=16",
    )  # fmt: skip

    assert done.json["splits"]["train"]["sequences"] > 60
    assert max(md.load(tmp_path)["train"].examples().input_ids.lengths) == 16


def test_build__builds_a_pipeline_file_of_another_domain(tmp_path: Path) -> None:
    rows = [
        {
            "id": "a",
            "text": "Acme owes Bolt 5 Euro.",
            "entities": [[0, 4, "Party"], [10, 14, "Party"]],
        }
    ]
    (tmp_path / "deals.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "deals.toml").write_text('[source]\nuse = "jsonl"\n')

    done = run(
        "build", "--source", tmp_path / "deals.toml", "--input", tmp_path / "deals.jsonl",
        "--tokenizer", VOCAB, "--out", tmp_path / "out", "--json",
    )  # fmt: skip

    assert done.code == 0
    assert done.json["labels"] == ["Party"]
    assert done.json["splits"]["train"]["mentions"] == 2


WRONG_CALLS = [
    (["build"], "Missing option '--source'"),
    (["build", "--source", "blurb/bc2gm", "--part", "3/2"], "expected I/N with 1 <= I <= N"),
    (["build", "--source", "blurb/bc2gm", "--part", "\u00b2/3"], "expected I/N with 1 <= I <= N"),
    (["build", "--source", "blurb/bc2gm", "--part", "1/" + "9" * 5000], "expected I/N with"),
    (
        ["build", "--source", "blurb/bc2gm", "--sample", "--input", "x"],
        "expected a sample or an input, got both",
    ),
    (["build", "--source", "blurb", "--input", "x"], "with --input name one of them"),
    (["build", "--source", "blurb/bc2gm", "--workers", "0"], "--workers"),
    (["biuld"], "did you mean 'build'?"),
]


@pytest.mark.parametrize(("words", "expected"), WRONG_CALLS)
def test_build__invalid_calls_exit_with_2(words: list[str], expected: str) -> None:
    done = run(*words)

    assert done.code == 2
    assert expected in done.err
    assert done.out == ""


WRONG_DATA = [
    (["--source", "blurb/bc2gn"], "did you mean 'blurb/bc2gm'?"),
    (["--source", "nope.toml"], "nope.toml: expected a pipeline file, found none"),
    (["--source", "blurb/bc2gm", "--input", "nowhere"], "it needs a tokenizer; pass a"),
    (
        ["--source", "blurb/bc2gm", "--input", "nowhere", "--tokenizer", "v.txt"],
        "v.txt: no such file or folder; pass a tokenizer.json, a vocab.txt or a folder with one",
    ),
    (
        ["--source", "blurb/bc2gm", "--input", "nowhere", "--tokenizer", VOCAB],
        "nowhere: expected a file or a folder",
    ),
    (["--source", "blurb/bc2gm", "--sample", "--set", "encode.max=3"], "unknown option 'max'"),
    (["--source", "blurb/bc2gm", "--sample", "--set", "source.use=conl"], "did you mean 'conll'?"),
    (
        ["--source", "blurb/bc2gm", "--sample", "--set", "source.wordcolumn=1"],
        "did you mean 'word_column'?",
    ),
    (
        ["--source", "blurb/bc2gm", "--sample", "--set", "annotate.label=[]"],
        "did you mean 'labels'?",
    ),
    (
        ["--source", "blurb/bc2gm", "--sample", "--set", "annotate.use=medct"],
        "did you mean 'medcat'?",
    ),
    (["--source", "blurb/bc2gm", "--sample", "--engine", "locl"], "did you mean 'local'?"),
]


@pytest.mark.parametrize(("words", "expected"), WRONG_DATA)
def test_build__invalid_data_exits_with_1_and_one_message(
    words: list[str], expected: str, tmp_path: Path
) -> None:
    done = run("build", *words, "--out", tmp_path / "out")

    assert done.code == 1
    assert expected in done.err
    assert done.err.count("\n") == 1
    assert done.out == ""


def test_build__rejects_a_folder_built_by_another_pipeline(tmp_path: Path) -> None:
    run("build", "--source", "blurb/bc2gm", "--sample", "--out", tmp_path)

    done = run(
        "build",
        "--source",
        "blurb/bc2gm",
        "--sample",
        "--out",
        tmp_path,
        "--set",
        "encode.max_tokens=64",
    )

    assert done.code == 1
    assert "different: pipeline.encode.max_tokens" in done.err


def test_build__interrupt_exits_with_130_and_the_same_command_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mslm_data.builds import row_sink

    write, calls = row_sink.write_piece, []

    def interrupted(*args: object, **options: object) -> object:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return write(*args, **options)  # type: ignore[arg-type]

    words = ("build", "--source", "blurb/bc2gm", "--sample", "--out", tmp_path, "--json")
    monkeypatch.setattr(row_sink, "write_piece", interrupted)
    stopped = run(*words)
    assert stopped.code == 130
    assert "run the same command again" in stopped.err
    done = run(*words)

    assert done.code == 0
    assert (
        len(calls) == 4
    )  # 1 for the kept shard of the first unit, then the interrupted unit and the last two.


CANARY = "Zebulonkanarie"


def test_build__writes_no_corpus_text_outside_the_shards(tmp_path: Path) -> None:
    lines = [
        f"{CANARY}\tO",
        f"{CANARY} {CANARY}",
        "",
        "Fine\tO",
        f"{CANARY}\tB-X",
        "",
        f"a\t{CANARY}",
        "",
        "b\tO",
    ]
    (tmp_path / "train.tsv").write_text("\n".join(lines))
    out = tmp_path / "out"

    done = run(
        "build", "--source", "blurb/bc2gm", "--input", tmp_path / "train.tsv", "--tokenizer", VOCAB,
        "--out", out, "--set", "annotate.labels=[]", "--set", "source.max_loss=1",
    )  # fmt: skip

    assert done.code == 0
    assert "2 of 4 documents set aside" in done.out
    shown = [
        done.out,
        done.err,
        *(p.read_text() for p in out.rglob("*") if p.suffix in (".json", ".jsonl", ".md")),
    ]
    assert CANARY not in "".join(shown)
    aside = [json.loads(line) for line in (out / "set_aside.jsonl").read_text().splitlines()]
    assert [(one["place"], one["id"]) for one in aside] == [
        ("train.tsv:2", "train:0"),
        ("train.tsv:7", "train:2"),
    ]


TRUE_COUNTS = {
    "bc2gm": ("BC2GM-IOB", (12574, 2519, 5038), (15197, 3061, 6325)),
    "bc5cdr-chem": ("BC5CDR-chem-IOB", (4560, 4581, 4797), (5203, 5347, 5385)),
    "bc5cdr-disease": ("BC5CDR-disease-IOB", (4560, 4581, 4797), (4182, 4246, 4424)),
    "ncbi-disease": ("NCBI-disease-IOB", (5424, 923, 940), (5134, 787, 960)),
}


@pytest.mark.parametrize("name", TRUE_COUNTS)
def test_build__counts_of_real_corpora_are_correct(name: str, real: Path, tmp_path: Path) -> None:
    folder, sequences, mentions = TRUE_COUNTS[name]
    tokenizer = real / "tokenizers" / "bert-base-cased__Bio_ClinicalBERT.vocab.txt"

    done = run(
        "build", "--source", f"blurb/{name}", "--input", real / "blurb" / folder, "--tokenizer",
        tokenizer, "--out", tmp_path, "--json",
    )  # fmt: skip

    splits = [done.json["splits"][split] for split in ("train", "validation", "test")]
    assert tuple(split["sequences"] for split in splits) == sequences
    assert tuple(split["mentions"] for split in splits) == mentions
    assert done.json["read"] == done.json["written"] == sum(sequences)
    assert run("verify", tmp_path).code == 0


def test_build__counts_of_jnlpba_are_correct(real: Path, tmp_path: Path) -> None:
    tokenizer = real / "tokenizers" / "PubMedBERT_BiomedBERT.vocab.txt"

    done = run(
        "build", "--source", "blurb/jnlpba", "--input", real / "blurb" / "JNLPBA", "--tokenizer",
        tokenizer, "--out", tmp_path, "--json",
    )  # fmt: skip

    validation = done.json["splits"]["validation"]
    assert (validation["documents"], validation["sequences"], validation["mentions"]) == (
        200,
        1739,
        4551,
    )
