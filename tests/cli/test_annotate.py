from __future__ import annotations

import io
import json
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
from mslm_data.cli import progress
from mslm_data.torch import MslmModel
from tests.cli.running import run
from tests.torch.trained import Gold, trained_on_sample


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained model in `model` and the built corpus in `ncbi`."""
    folder = tmp_path_factory.mktemp("annotate")
    trained = trained_on_sample(folder / "ncbi")
    trained.model.save_pretrained(folder / "model")
    with_mention = [gold for gold in trained.gold if gold.mentions]
    (folder / "gold.json").write_text(json.dumps(with_mention))
    return folder


@pytest.fixture(scope="module")
def gold(home: Path) -> list[Gold]:
    read: list[Any] = json.loads((home / "gold.json").read_text())
    return [Gold(text, [(s, e, label) for s, e, label in mentions]) for text, mentions in read]


@pytest.fixture
def notes(gold: list[Gold], tmp_path: Path) -> Path:
    """A folder of five notes from the model's training data."""
    folder = tmp_path / "notes"
    (folder / "ward").mkdir(parents=True)
    for number, name in enumerate(["a", "b", "c", "ward/a", "ward/b"]):
        (folder / f"{name}.txt").write_text(gold[number].text)
    return folder


def lines_of(text: str) -> dict[str, list[tuple[int, int, str]]]:
    rows = [json.loads(line) for line in text.splitlines()]
    assert all(set(row) == {"id", "entities"} for row in rows)
    assert all(
        set(entity) == {"start", "end", "label", "score"}
        for row in rows
        for entity in row["entities"]
    )
    return {
        row["id"]: [(e["start"], e["end"], e["label"]) for e in row["entities"]] for row in rows
    }


def of_notes(gold: list[Gold]) -> dict[str, list[tuple[int, int, str]]]:
    names = ["a", "b", "c", "ward/a", "ward/b"]
    return {name: gold[number].mentions for number, name in enumerate(names)}


@pytest.mark.long
def test_annotate__finds_mentions_in_raw_text(home: Path, gold: list[Gold], notes: Path) -> None:
    done = run("annotate", home / "model", "--input", notes)

    assert done.code == 0
    assert lines_of(done.out) == of_notes(gold)


def test_annotate__counts_all_characters_of_a_file(
    home: Path, gold: list[Gold], tmp_path: Path
) -> None:
    first, second = gold[0], gold[1]
    lead = "\r\n\r\n \U0001f600 e\u0301\r\n"
    text = f"{lead}{first.text}\r\n"
    path = tmp_path / "note.txt"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    table = tmp_path / "table.jsonl"
    table.write_text(json.dumps({"text": f"\u00e9{chr(0x1F600)} {second.text}"}))

    # A model that tags every word as a mention.
    model = MslmModel.from_pretrained(home / "model")
    model.detection.f[-1].bias.data[1] += 100
    model.save_pretrained(tmp_path / "model")

    done = run("annotate", tmp_path / "model", "--input", path, "--input", table, "--show-text")
    rows = {row["id"]: row["entities"] for row in map(json.loads, done.out.splitlines())}

    assert rows.keys() == {"note", "table:0"}
    texts = {"note": text, "table:0": json.loads(table.read_text())["text"]}
    for name, entities in rows.items():
        assert all(texts[name][e["start"] : e["end"]] == e["text"] for e in entities)
        assert "".join(e["text"] for e in entities) == "".join(texts[name].split())


@pytest.mark.parametrize(
    ("options", "names"),
    [((), ["stdin"]), (("--set", "source.documents=line"), ["stdin:0", "stdin:1"])],
)
def test_annotate__reads_standard_input(
    home: Path,
    gold: list[Gold],
    options: tuple[str, ...],
    names: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = f"{gold[0].text}\r\n\r\n{gold[1].text}\n".encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))

    done = run("annotate", home / "model", "--input", "-", *options)

    found = lines_of(done.out)
    assert list(found) == names
    assert found[names[0]][: len(gold[0].mentions)] == gold[0].mentions


def test_annotate__writes_a_new_file(
    home: Path, gold: list[Gold], notes: Path, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "found.jsonl"
    words = ("annotate", home / "model", "--input", notes, "--out", out, "--json")
    done = run(*words)
    every = out.read_text()
    again = run(*words)

    assert done.json == {
        "out": str(out),
        "documents": 5,
        "entities": sum(len(gold[number].mentions) for number in range(5)),
        "left_out": {},
        "set_aside": 0,
    }
    assert lines_of(every) == of_notes(gold)
    assert not any(text.text[:20] in every for text in gold)
    assert out.stat().st_mode & 0o777 == 0o600
    assert again.code == 1
    assert f"{out}: the file exists; name another --out, or remove it" in again.err
    assert out.read_text() == every


def test_annotate__prints_counts_on_stderr_when_lines_go_to_stdout(
    home: Path, gold: list[Gold], notes: Path
) -> None:
    done = run("annotate", home / "model", "--input", notes, "--json")

    assert lines_of(done.out) == of_notes(gold)
    assert json.loads(done.err.splitlines()[-1]) == {
        "out": None,
        "documents": 5,
        "entities": sum(len(gold[number].mentions) for number in range(5)),
        "left_out": {},
        "set_aside": 0,
    }


def test_annotate__reports_omitted_mentions(home: Path, tmp_path: Path) -> None:
    table = tmp_path / "notes.csv"
    table.write_text(
        "ROW_ID,SUBJECT_ID,CATEGORY,ISERROR,TEXT\n"
        "1,1,Nursing,,Seen by [**Last Name**]\n"
        "2,2,Nursing,1,Withdrawn\n"
    )
    model = MslmModel.from_pretrained(home / "model")
    model.detection.f[-1].bias.data[1] += 100
    model.save_pretrained(tmp_path / "model")
    options = ("--source", "notes", "--json")

    done = run("annotate", tmp_path / "model", "--input", table, *options)

    # The model sees one word for the placeholder, not its characters.
    assert done.code == 0, done.err
    assert [found[:2] for found in lines_of(done.out)["1"]] == [(0, 4), (5, 7)]
    assert "1 found and left out: in a placeholder\n" in done.err
    assert "1 set aside, the first at notes.csv:3: expected a valid note" in done.err
    assert json.loads(done.err.splitlines()[-1])["left_out"] == {"in a placeholder": 1}


def test_annotate__reports_progress(
    home: Path, notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_EVERY_S", 0)

    done = run("annotate", home / "model", "--input", notes, "--out", tmp_path / "found.jsonl")

    assert re.search(r"5 documents, [\d,]+/s, 1/1 work units\n", done.err)


def test_annotate__sets_aside_non_text_documents(home: Path, notes: Path, gold: list[Gold]) -> None:
    (notes / "bad.txt").write_bytes(b"caf\xe9")
    (notes / "empty.txt").write_bytes(b"")

    refused = run("annotate", home / "model", "--input", notes)
    taken = run("annotate", home / "model", "--input", notes, "--set", "source.max_loss=1")

    assert (refused.code, taken.code) == (1, 0)
    assert "got 1 of 7\n  1: expected UTF-8" in refused.err
    assert "first at bad.txt:1; set the encoding, such as --set source.encoding" in refused.err
    assert lines_of(taken.out) == {**of_notes(gold), "empty": []}


def test_annotate__reads_files_of_a_source(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text('{"id": "one", "text": "Warfarin causes haemorrhage.", "spans": []}\n')

    done = run("annotate", home / "model", "--input", path, "--source", "jsonl")

    assert done.code == 0, done.err
    assert list(lines_of(done.out)) == ["one"]


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        (
            "annotate.min_scor=0.99",
            "--set annotate.min_scor: expected an option for reading documents",
        ),
        (
            "source.duplicates=drop",
            "--set source.duplicates: expected an option for reading documents",
        ),
        ("sorce.documents=line", "unknown stage 'sorce'"),
        ("source.document=line", "unknown option 'document'"),
        ("source.max_los=1", "unknown option 'max_los'"),
    ],
)
def test_annotate__rejects_options_without_effect(
    home: Path, notes: Path, assignment: str, message: str
) -> None:
    done = run("annotate", home / "model", "--input", notes, "--set", assignment)

    assert done.code == 1
    assert message in done.err
    assert not done.out


WRONG = [
    ("nowhere/at/all", "expected a model's folder or a hub name, found nothing there"),
    ("ncbi", "this is a built corpus, not a model"),
    ("gold.json", "expected a model's folder or a hub name, got a file"),
    ("plain", "not trained for token classification"),
    ("pickle", "no safetensors weights found"),
    ("no-tokenizer", "no tokenizer.json, vocab.txt, or vocab.json"),
    ("no-labels", "it has no labels"),
    ("strange", "transformers cannot load it as a token-classification model"),
]


@pytest.mark.parametrize(("name", "message"), WRONG)
def test_annotate__rejects_non_model_folder(
    home: Path, notes: Path, name: str, message: str
) -> None:
    folder = home / name
    if name in ("plain", "pickle", "no-tokenizer", "no-labels", "strange") and not folder.exists():
        shutil.copytree(home / "model", folder)
        if name == "plain":
            MslmModel.from_pretrained(home / "model").masked_lm.save_pretrained(folder)
        elif name == "pickle":
            (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
        elif name == "no-tokenizer":
            (folder / "tokenizer.json").unlink()
        elif name == "no-labels":
            whole = MslmModel.from_pretrained(home / "model")
            MslmModel.wrap(whole.masked_lm, tokenizer=whole.tokenizer).save_pretrained(folder)
        else:
            (folder / "config.json").write_text('{"model_type": "strange"}')

    done = run("annotate", folder, "--input", notes)

    assert done.code == 1
    assert message in done.err
    assert "Traceback" not in done.err
    assert not done.out


def test_annotate__rejects_missing_input(home: Path, tmp_path: Path) -> None:
    done = run("annotate", home / "model", "--input", tmp_path / "none.txt")
    both = run("annotate", home / "model", "--input", "-", "--input", tmp_path)
    source = run("annotate", home / "model", "--input", tmp_path, "--source", "txet")

    assert (done.code, both.code, source.code) == (1, 2, 1)
    assert "none.txt" in done.err
    assert "standard input is read as plain text" in both.err
    assert "txet" in source.err


def test_annotate__cleans_labels(home: Path, notes: Path, tmp_path: Path) -> None:
    model = MslmModel.from_pretrained(home / "model")
    model.config.labels = ["\x1b[31mred\u202e"]
    model.save_pretrained(tmp_path / "model")

    done = run("annotate", tmp_path / "model", "--input", notes / "a.txt")

    assert "\x1b" not in done.out
    assert "\u202e" not in done.out
    assert json.loads(done.out)["entities"][0]["label"] == "\x1b[31mred\u202e"


def test_annotate__accepts_a_transformers_model(home: Path, notes: Path, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForTokenClassification

    encoder = MslmModel.from_pretrained(home / "model")
    encoder.save_encoder(tmp_path / "encoder")
    torch.manual_seed(0)
    plain = AutoModelForTokenClassification.from_pretrained(
        tmp_path / "encoder", id2label={0: "O", 1: "B-Pain", 2: "I-Pain"}
    )
    torch.nn.init.normal_(plain.classifier.weight, std=2.0)
    plain.save_pretrained(tmp_path / "encoder")

    done = run("annotate", tmp_path / "encoder", "--input", notes / "a.txt")

    assert done.code == 0, done.err
    assert {label for _, _, label in lines_of(done.out)["a"]} == {"Pain"}
