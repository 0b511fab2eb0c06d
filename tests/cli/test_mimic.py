"""End-to-end tests of weakly supervised notes."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest

import mslm_data as md
from benchmarks import mimic_iv
from mslm_data.annotate.terms.annotator import Terms
from mslm_data.data.document import Document, Part
from mslm_data.io import resources
from mslm_data.source.formats.notes import Notes
from tests import made
from tests.cli.running import Done, run

CONCEPTS = resources.path("vocab", "sample/concepts.csv")
SAMPLE = resources.path("vocab", "sample/mimic/NOTEEVENTS.csv")
VOCAB = resources.path("vocab", "sample/vocab.txt")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("mimic")
    done = run(
        "build",
        "--source",
        "mimic",
        "--sample",
        "--out",
        out,
        "--json",
        "--set",
        "encode.keep_text=true",
    )
    assert done.code == 0
    return out


def test_concepts__accepts_spaces_between_types(tmp_path: Path) -> None:
    words = ("vocab", "concepts", "--from", CONCEPTS, "--common-words", "keep", "--json")
    close = run(*words, "--types", "T047,T121", "--out", tmp_path / "a.csv")
    apart = run(*words, "--types", "T047, T121", "--out", tmp_path / "b.csv")

    assert apart.code == 0, apart.err
    assert apart.json["types"] == close.json["types"]


def test_build__sample_has_weak_mentions_of_three_labels(built: Path) -> None:
    shards = md.load(built)

    rows = [shards[split][i] for split in shards for i in range(len(shards[split]))]
    assert shards.labels == ("Treatment", "Disease", "Symptom")
    assert {label for row in rows for label in row["span_labels"]} == {0, 1, 2}
    assert all(concept.startswith("C99") for row in rows for concept in row["span_concepts"])
    assert all(0 <= score <= 1 for row in rows for score in row["span_scores"])
    assert run("verify", built).code == 0


def test_build__assigns_each_patient_to_one_split(built: Path) -> None:
    patients: dict[str, set[str]] = {}
    with SAMPLE.open(newline="", encoding="utf-8") as file:
        of_note = {row["ROW_ID"]: row["SUBJECT_ID"] for row in csv.DictReader(file)}

    for split, rows in md.load(built).items():
        patients[split] = {of_note[rows[i]["doc_id"]] for i in range(len(rows))}

    assert all(patients.values())
    assert sum(map(len, patients.values())) == len(set().union(*patients.values()))


def test_build__missing_input_or_model_is_explained(tmp_path: Path) -> None:
    words = ("build", "--source", "mimic", "--out", tmp_path / "out", "--tokenizer", VOCAB)

    nothing = run(*words)
    no_model = run(*words, "--input", SAMPLE)

    assert nothing.code == no_model.code == 1
    assert "--input" in nothing.err
    for answer in ("annotate.model_pack=PACK", "annotate.use=terms", "annotate.use=none"):
        assert answer in no_model.err
    assert not (tmp_path / "out").exists()


def test_build__gives_the_same_bytes_with_two_workers_and_small_units(tmp_path: Path) -> None:
    words = ("build", "--source", "mimic", "--sample", "--set", "shard.input_bytes=20000")

    run(*words, "--out", tmp_path / "one", "--workers", "1")
    run(*words, "--out", tmp_path / "two", "--workers", "2")

    files = [path for path in (tmp_path / "one").rglob("*") if path.is_file()]
    assert len([path for path in files if path.suffix == ".arrow"]) > 3
    for path in files:
        assert (
            tmp_path / "two" / path.relative_to(tmp_path / "one")
        ).read_bytes() == path.read_bytes()


def test_build__counts_and_records_a_sample_of_patients(tmp_path: Path) -> None:
    done = run(
        "build",
        "--source",
        "mimic",
        "--sample",
        "--out",
        tmp_path,
        "--json",
        "--set",
        "source.patients=4",
        "--set",
        "source.max_loss=1",
    )

    manifest = json.loads((tmp_path / "manifest.json").read_text())
    not_chosen = sum(sum(split["not_chosen"].values()) for split in manifest["splits"].values())
    assert done.json["read"] == done.json["written"] + done.json["set_aside"]
    assert done.json["read"] + not_chosen == 40
    assert not_chosen > 0


@pytest.fixture(scope="module")
def notes_of_iv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("note")
    mimic_iv.write(SAMPLE, folder)
    return folder


def build_iv(notes: Path, out: Path, *words: object) -> Done:
    return run(
        "build", "--source", "mimic-iv", "--input", notes, "--tokenizer", VOCAB, "--set",
        "annotate.use=terms", "--set", f"annotate.table={CONCEPTS}", "--out", out, *words,
    )  # fmt: skip


@pytest.mark.parametrize("source", ["mimic", "mimic-iv"])
@pytest.mark.parametrize("how", ["keep", "token", "drop"])
def test_build__placeholders_are_never_mentions(
    notes_of_iv: Path, tmp_path: Path, how: str, source: str
) -> None:
    words = ("--set", f"source.placeholders={how}", "--set", "encode.keep_text=true")
    if source == "mimic":
        run("build", "--source", source, "--sample", "--out", tmp_path, *words)
    else:
        build_iv(notes_of_iv, tmp_path, *words)

    pieces = []
    for rows in md.load(tmp_path).values():
        for i in range(len(rows)):
            row = rows[i]
            for start, end in zip(row["span_starts"], row["span_ends"], strict=True):
                piece = row["text"][row["token_starts"][start] : row["token_ends"][end - 1]]
                pieces.append(piece)

    assert pieces
    assert not any(mark in piece for piece in pieces for mark in ("[**", "**]", "_"))


def test_build__lists_unread_files_of_mimic_iv(notes_of_iv: Path, tmp_path: Path) -> None:
    done = build_iv(notes_of_iv, tmp_path)

    assert done.code == 0
    assert (
        "not read: discharge_detail.csv, radiology_detail.csv: its name does not fit [source] "
        "pattern"
    ) in done.out + done.err
    assert md.load(tmp_path).manifest.protected


def test_build__writes_no_words_of_notes_outside_the_shards(tmp_path: Path) -> None:
    canary = "Zebulonkanarie"
    with SAMPLE.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["TEXT"] = f"{canary} {row['TEXT']} {canary}"
    rows[3]["ISERROR"] = "1"
    with (tmp_path / "NOTEEVENTS.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)

    done = run(
        "build", "--source", "mimic", "--input", tmp_path / "NOTEEVENTS.csv", "--out",
        tmp_path / "out", "--tokenizer", VOCAB, "--set", "annotate.use=terms",
        "--set", f"annotate.table={CONCEPTS}", "--set", "source.max_loss=1",
    )  # fmt: skip

    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert done.code == 0
    assert canary not in done.out + done.err
    assert not any(canary.encode() in path.read_bytes() for path in files)
    assert str(tmp_path) not in (tmp_path / "out" / "manifest.json").read_text()


def test_build__rejects_a_folder_built_with_another_model(built: Path, tmp_path: Path) -> None:
    lines = CONCEPTS.read_text(encoding="utf-8").splitlines()
    (tmp_path / "fewer.csv").write_text("\n".join(lines[:50]) + "\n", encoding="utf-8")

    done = run(
        "build", "--source", "mimic", "--sample", "--out", built, "--set", "encode.keep_text=true",
        "--set", "annotate.use=terms", "--set", "annotate.plurals=true", "--set", "annotate.case=short",
        "--set", f"annotate.table={tmp_path / 'fewer.csv'}",
    )  # fmt: skip

    assert done.code == 1
    assert "different: annotator" in done.err


def test_build__terms_and_other_annotators_work_without_medcat(tmp_path: Path) -> None:
    (tmp_path / "terms.csv").write_text("name,label\nnausea,Symptom\ninsulin,Treatment\n")

    done = run("build", "--source", "mimic", "--sample", "--out", tmp_path / "out", "--json",
               "--set", "annotate.use=terms", "--set", f"annotate.table={tmp_path / 'terms.csv'}")  # fmt: skip

    assert done.code == 0
    assert done.json["splits"]["train"]["mentions"] > 0


def test_build__counts_of_real_notes_are_correct(real: Path, tmp_path: Path) -> None:
    notes = real / "clinical" / "notes" / "NOTEEVENTS.csv.gz"

    done = run(
        "build", "--source", "mimic", "--input", notes, "--out", tmp_path, "--json", "--tokenizer",
        real / "tokenizers" / "bert-base-cased__Bio_ClinicalBERT.vocab.txt", "--set",
        "annotate.use=terms", "--set", f"annotate.table={CONCEPTS}",
        "--set", "encode.keep_text=true",
    )  # fmt: skip

    assert (done.json["read"], done.json["set_aside"], done.json["written"]) == (1345, 21, 1324)
    with gzip.open(notes, "rt", newline="", encoding="utf-8") as file:
        texts = {row["ROW_ID"]: row["TEXT"] for row in csv.DictReader(file)}
    annotator = Terms(table=str(CONCEPTS)).start()
    names: dict[str, set[str]] = {}
    for part in Notes(pattern="*").cut(Part(str(notes)), target_bytes=1 << 30):
        for record in Notes(pattern="*", placeholders="token").read(part):
            if isinstance(record, Document):
                (found,) = made.annotated(annotator, [record])
                names[record.id] = {
                    " ".join(record.text[span.start : span.end].split()) for span in found.spans
                }
    for rows in md.load(tmp_path).values():
        for i in range(len(rows)):
            row = rows[i]
            assert row["text"] in texts[row["doc_id"]]
            for start, end in zip(row["span_starts"], row["span_ends"], strict=True):
                piece = row["text"][row["token_starts"][start] : row["token_ends"][end - 1]]
                assert " ".join(piece.split()) in names[row["doc_id"]]


def test_build__leaves_nothing_when_it_refuses_a_pack(tmp_path: Path) -> None:
    pytest.importorskip("medcat")
    from mslm_data.annotate.medcat.pack import digest
    from tests.annotate.medcat_made import make_pack

    pack = make_pack(CONCEPTS, tmp_path / "pack")
    out = tmp_path / "out"
    words = (
        "build",
        "--source",
        "mimic",
        "--sample",
        "--out",
        out,
        "--set",
        f"annotate.model_pack={pack}",
    )
    advice = f"annotate.sha256={digest(pack)}"

    refused = run(*words)
    there = out.exists()
    taken = run(*words, "--set", advice, "--json")

    assert (refused.code, there) == (1, False)
    assert f"--set {advice}" in refused.err
    assert taken.code == 0, taken.err
    assert taken.json["splits"]["train"]["mentions"] > 0
    assert advice.partition("=")[2] not in (out / "manifest.json").read_text()
