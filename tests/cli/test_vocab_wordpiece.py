from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import mslm_data as md
from mslm_data.encode.tokenizer import load
from tests import made
from tests.cli.running import run

SAMPLE = ("vocab", "wordpiece", "--source", "blurb/bc2gm", "--sample", "--size", "400")


def test_wordpiece__reports_and_what_it_makes_can_build(tmp_path: Path) -> None:
    done = run(*SAMPLE, "--held-out", "test", "--out", tmp_path / "words", "--json")

    tokenizer = load(str(tmp_path / "words"))
    report = done.json
    assert done.code == 0
    assert (report["size"], report["documents"], report["protected"]) == (400, 60, False)
    assert report["sha256"] == tokenizer.digest
    assert report["held_out"] == "test"
    assert 1 < report["pieces_per_word"] < 3
    assert report["held_out_words"] > 0
    build = ("build", "--source", "blurb/bc2gm", "--sample", "--out", tmp_path / "built")
    assert run(*build, "--tokenizer", tmp_path / "words").code == 0
    assert md.load(tmp_path / "built").manifest.tokenizer["sha256"] == tokenizer.digest


def test_wordpiece__learns_from_a_split_once(tmp_path: Path) -> None:
    once = run(*SAMPLE, "--out", tmp_path / "a", "--json").json
    twice = run(*SAMPLE, "--split", "train", "--split", "train", "--out", tmp_path / "b", "--json")

    assert twice.json == once | {"out": str(tmp_path / "b")}


def test_wordpiece__holds_out_no_split_that_it_learns_from(tmp_path: Path) -> None:
    done = run(*SAMPLE, "--held-out", "train", "--out", tmp_path / "a")

    assert done.code == 2
    assert "--held-out: expected a split that is not learned from, got 'train'" in done.err
    assert not (tmp_path / "a").exists()


def test_wordpiece__reads_what_a_source_reads(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Fever, fever and fever.")
    words = ("vocab", "wordpiece", "--source", "text", "--input", tmp_path / "a.txt", "--json")

    done = run(*words, "--out", tmp_path / "words")

    assert done.code == 0, done.err
    assert done.json["documents"] == 1


def test_wordpiece__tells_of_documents_that_it_cannot_read(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.txt").write_text("Fever, fever and fever.")
    (notes / "b.txt").write_bytes(b"F\xe9brile \xff")
    words = ("vocab", "wordpiece", "--source", "text", "--input", notes)

    refused = run(*words, "--out", tmp_path / "refused")
    done = run(*words, "--set", "source.max_loss=1", "--out", tmp_path / "words")
    told = run(*words, "--set", "source.max_loss=1", "--out", tmp_path / "told", "--json").json

    assert refused.code == 1
    assert "split 'train': expected at most 5% of the documents set aside" in refused.err
    assert "got 1 of 2" in refused.err
    assert "first at b.txt:1" in refused.err
    assert not (tmp_path / "refused").exists()
    [line] = [line for line in done.out.splitlines() if line.startswith("set aside: ")]
    assert (done.code, line.split()[-1]) == (0, "1")
    assert (told["documents"], list(told["set_aside"].values())) == (1, [1])


def test_wordpiece__counts_what_is_set_aside_once(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / f"{split}.jsonl").write_text('{"text": "Fever and cough."}\n{"words": 1}\n')
    words = ("vocab", "wordpiece", "--source", "jsonl", "--input", tmp_path)
    sets = ("--set", "source.max_loss=1", "--held-out", "test")

    done = run(*words, *sets, "--out", tmp_path / "words", "--json")

    assert done.code == 0, done.err
    assert done.json["documents"] == 1
    assert sum(done.json["set_aside"].values()) == 2


def test_wordpiece__twice_is_the_same_and_another_folder_is_needed(tmp_path: Path) -> None:
    first = run(*SAMPLE, "--out", tmp_path / "a", "--json").json
    second = run(*SAMPLE, "--out", tmp_path / "b", "--json").json
    refused = run(*SAMPLE, "--out", tmp_path / "a")

    assert first["sha256"] == second["sha256"]
    assert (tmp_path / "a" / "vocab.txt").read_bytes() == (
        tmp_path / "b" / "vocab.txt"
    ).read_bytes()
    assert refused.code == 1
    assert "expected a new or an empty folder" in refused.err


def test_wordpiece__for_people(tmp_path: Path) -> None:
    done = run(
        *SAMPLE,
        "--held-out",
        "test",
        "--split",
        "train",
        "--split",
        "validation",
        "--out",
        tmp_path / "a",
    )

    lines = dict(line.rsplit(maxsplit=1) for line in done.out.splitlines()[:-1])
    assert (lines["size"], lines["documents"]) == ("400", "80")
    assert set(lines) >= {
        "words",
        "characters left out",
        "held out words",
        "held out unknown",
        "pieces per word",
    }
    assert done.out.splitlines()[-1].startswith(f"{tmp_path / 'a'}: sha256 ")


def test_wordpiece__of_notes_says_so_and_shows_none(tmp_path: Path) -> None:
    done = run(
        "vocab",
        "wordpiece",
        "--source",
        "mimic",
        "--sample",
        "--size",
        "300",
        "--out",
        tmp_path / "a",
    )

    assert done.code == 0
    assert "learned from patients' text" in done.out
    assert "[**" not in (tmp_path / "a" / "vocab.txt").read_text()


def test_wordpiece__from_a_folder_with_texts(tmp_path: Path) -> None:
    build = ("build", "--source", "blurb/bc2gm", "--sample", "--out", tmp_path / "built")
    run(*build, "--set", "encode.keep_text=true")
    options = ("--size", "400", "--json")

    of_folder = run(
        "vocab", "wordpiece", "--from-folder", tmp_path / "built", "--out", tmp_path / "a", *options
    )
    of_corpus = run(*SAMPLE, "--out", tmp_path / "b", "--json")

    assert of_folder.json["sha256"] == of_corpus.json["sha256"]


def test_wordpiece__refuses_a_folder_whose_rows_end_within_a_placeholder(tmp_path: Path) -> None:
    text = "Seen by [**Known lastname of a person who was named at great length here 12**] today."
    (tmp_path / "train.jsonl").write_text(json.dumps({"text": text}))
    folder = tmp_path / "built"
    for max_tokens, code in ((8, 1), (512, 0)):
        shutil.rmtree(folder, ignore_errors=True)
        options = {
            "encode.keep_text": "true",
            "encode.max_tokens": max_tokens,
            "annotate.use": "none",
        }
        sets = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
        made_of = ("--input", tmp_path / "train.jsonl", "--tokenizer", made.SAMPLE / "vocab.txt")
        built = run("build", "--source", "jsonl", *made_of, "--out", folder, *sets)
        assert built.code == 0, built.err

        done = run(
            "vocab", "wordpiece", "--from-folder", folder, "--out", tmp_path / "w", "--size", "60"
        )

        assert done.code == code
        assert "expected rows that do not end within a placeholder" in done.err or not code
    assert "lastname" not in (tmp_path / "w" / "vocab.txt").read_text()


@pytest.mark.parametrize(
    "words",
    [[], ["--source", "blurb/bc2gm", "--from-folder", "x"], ["--from-folder", "x", "--sample"]],
)
def test_wordpiece__either_a_source_or_a_folder(words: list[str], tmp_path: Path) -> None:
    done = run("vocab", "wordpiece", *words, "--out", tmp_path / "a")

    assert done.code == 2
    assert "expected --source with its options, or --from-folder alone" in done.err


def test_wordpiece__set_changes_the_pipeline_and_a_wrong_split_is_named(tmp_path: Path) -> None:
    protected = run(*SAMPLE, "--set", "about.protected=true", "--out", tmp_path / "a", "--json")
    wrong = run(*SAMPLE, "--held-out", "tset", "--out", tmp_path / "b")

    assert protected.json["protected"] is True
    assert wrong.code == 1
    assert "no split 'tset'; did you mean 'test'?" in wrong.err
    assert not (tmp_path / "b").exists()
