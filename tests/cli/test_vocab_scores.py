"""`mslm-data vocab scores`: each kind, from the command line to the strategy that reads it."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest

from mslm_data.api.loading import load
from mslm_data.cli import progress
from mslm_data.data.ragged import Ragged
from mslm_data.errors import VocabularyError
from mslm_data.lexicon.score_columns import open_scores
from mslm_data.lexicon.store import Lexicon, read_lexicon, write_lexicon
from tests.cli.running import run
from tests.lexicon.models import sample_vocab, saved
from tests.made import build, built, byte_level, pipeline_of, unigram, word_piece


@pytest.fixture
def folder(tmp_path):
    built(tmp_path / "d", pipeline=pipeline_of(unit_bytes=3000))
    return tmp_path / "d"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("models") / "bert", vocab=sample_vocab())


def with_anchors(folder, tokenizer=None):
    """Use the first two words of the folder as anchors."""
    row = load(folder)["train"].examples(0, 1)
    tokens = Ragged.from_rows(
        [row.input_ids.values[row.word_ids.values == word] for word in (0, 1)], np.int32
    )
    about = {
        "tokenizer": tokenizer or load(folder).manifest.tokenizer.sha256,
        "size": word_piece().ids.size,
    }
    starts = Ragged.from_rows([[0], [0]], np.int32)
    write_lexicon(
        folder / "vocab" / "anchors.arrow",
        Lexicon(tokens=tokens, word_starts=starts, scores=np.ones(2), about=about),
    )
    return [tuple(row) for row in tokens.tolist()]


def half(rows, keys):
    """Return a confidence for half of all rows, and none for the others."""
    return [0.5 if key % 2 else math.nan for key in keys]


def test_anchors__writes_a_lexicon_of_all_words(folder, encoder):
    anchors = with_anchors(folder)

    done = run("vocab", "scores", "anchors", folder, "--encoder", encoder, "--json")

    assert done.code == 0, done.err
    lexicon = read_lexicon(folder / "vocab" / "difference.arrow")
    entries = [tuple(row) for row in lexicon.tokens.tolist()]
    examples = load(folder)["train"].examples()
    assert set(entries[:2]) == set(anchors)
    np.testing.assert_allclose(lexicon.scores[:2], 1, atol=1e-6)
    assert done.json["entries"] == len(entries) == done.json["words"] - done.json["left_out"]
    assert set(examples.input_ids.values) - set(word_piece().ids.special) <= {
        id_ for row in entries for id_ in row
    }
    assert lexicon.about["tokenizer"] == load(folder).manifest.tokenizer.sha256
    made = lexicon.about["made"]
    assert (made["of"], made["embedding"], made["combine"]) == ("anchors", "pooler", "max")


def test_anchors__second_run_gives_equal_bytes(folder, encoder):
    with_anchors(folder)
    run("vocab", "scores", "anchors", folder, "--encoder", encoder)
    first = (folder / "vocab" / "difference.arrow").read_bytes()

    run("vocab", "scores", "anchors", folder, "--encoder", encoder)
    run(
        "vocab",
        "scores",
        "anchors",
        folder,
        "--encoder",
        encoder,
        "--combine",
        "min",
        "--out",
        folder / "m.arrow",
    )

    assert (folder / "vocab" / "difference.arrow").read_bytes() == first
    assert (
        read_lexicon(folder / "m.arrow").scores.mean()
        < read_lexicon(folder / "vocab" / "difference.arrow").scores.mean()
    )


def test_anchors__rejects_another_tokenizer(folder, encoder):
    with_anchors(folder, "0" * 64)

    done = run("vocab", "scores", "anchors", folder, "--encoder", encoder)

    assert done.code == 1
    assert (
        f"anchors.arrow: made with another tokenizer than that of {folder}; make it with"
        in done.err
    )


@pytest.mark.parametrize("made_by", ["pmi", "scores frequency", "scores anchors"])
def test_anchors__rejects_lexicons_of_other_commands(folder, encoder, tmp_path, made_by):
    with_anchors(folder)
    other = tmp_path / "other.arrow"
    needed = {"pmi": ["--min-count", "2"], "scores anchors": ["--encoder", encoder]}
    made = run("vocab", *made_by.split(), folder, *needed.get(made_by, []), "--out", other)
    assert made.code == 0, made.err

    done = run(
        "vocab", "scores", "anchors", folder, "--encoder", encoder, "--anchors", other, "--json"
    )

    assert done.code == 1
    assert f"other.arrow: expected anchors, got a lexicon of `mslm-data vocab {made_by}`" in (
        done.err
    )


def test_anchors__reports_a_missing_anchor_lexicon(folder, encoder, tmp_path):
    done = run(
        "vocab", "scores", "anchors", folder, "--encoder", encoder, "--anchors", tmp_path / "none"
    )

    assert done.code == 1
    assert "none: expected a lexicon, found none" in done.err


@pytest.mark.parametrize("name", ["pmi", "pmi-levine", "keywords", "difference"])
@pytest.mark.parametrize("command", ["frequency", "table"])
def test_strategies__word_scores_reject_id_lexicons(folder, tmp_path, name, command):
    table = tmp_path / "ids.tsv"
    table.write_text("300\t1\n301\t2\n")
    of_table = ["--from", table, "--by", "ids"] if command == "table" else []
    ids = tmp_path / "ids.arrow"
    assert run("vocab", "scores", command, folder, *of_table, "--out", ids).code == 0

    done = run("mask-stats", folder, "--strategy", name, "--set", f"lexicon={ids}")

    assert done.code == 1
    assert "ids.arrow: expected a lexicon of words, got token ids" in done.err


@pytest.mark.parametrize("name", ["keywords", "difference"])
def test_strategies__word_scores_reject_ngram_lexicons(folder, name):
    assert run("vocab", "pmi", folder, "--min-count", "2").code == 0

    done = run("mask-stats", folder, "--strategy", name, "--set", "lexicon=pmi.arrow")

    assert done.code == 1
    assert "pmi.arrow: expected entries of one word, because words are looked up" in done.err


def test_strategies__word_scores_accept_an_empty_lexicon(folder):
    about = {
        "tokenizer": load(folder).manifest.tokenizer.sha256,
        "size": word_piece().ids.size,
    }
    nothing = Ragged.from_rows([], np.int32)
    empty = Lexicon(tokens=nothing, word_starts=nothing, scores=np.empty(0), about=about)
    write_lexicon(folder / "vocab" / "none.arrow", empty)

    done = run("mask-stats", folder, "--strategy", "keywords", "--set", "lexicon=none.arrow")

    assert (done.code, done.err) == (0, "")


def test_attention__resumes_a_column(folder, encoder):
    done = run("vocab", "scores", "attention", folder, "--encoder", encoder, "--json")
    path = next((folder / "vocab" / "attention" / "train").glob("*.arrow"))
    first = path.read_bytes()
    path.unlink()
    again = run("vocab", "scores", "attention", folder, "--encoder", encoder, "--json")

    assert (done.code, again.code) == (0, 0), done.err
    assert path.read_bytes() == first
    assert done.json["kept"] == 0
    assert again.json["kept"] == again.json["shards"] - 1
    examples = load(folder)["validation"].examples()
    scores = open_scores(folder / "vocab" / "attention").gather(examples)
    assert np.all((scores.values > 0) == (examples.word_ids.values >= 0))


def test_attention__rejects_another_encoder(folder, encoder, tmp_path):
    run("vocab", "scores", "attention", folder, "--encoder", encoder, "--split", "test")
    other = saved(tmp_path / "other", initializer_range=0.3)

    done = run("vocab", "scores", "attention", folder, "--encoder", other)

    assert done.code == 1
    assert "made with another encoder; remove" in done.err


def test_attention__rejects_another_vocabulary(folder, tmp_path):
    done = run(
        "vocab", "scores", "attention", folder, "--encoder", saved(tmp_path / "m", vocab_size=900)
    )

    assert done.code == 1
    assert "its vocabulary differs from that of the shards" in done.err


def test_attention__rejects_long_rows_before_any_work(folder, tmp_path):
    small = saved(tmp_path / "m", max_position_embeddings=16)

    done = run("vocab", "scores", "attention", folder, "--encoder", small)

    assert done.code == 1
    assert "expected rows of at most 16 tokens, got " in done.err
    assert not (folder / "vocab").exists()


def test_logits__writes_a_column_for_a_class(folder, tmp_path):
    labels = {"id2label": {0: "other", 1: "important"}, "label2id": {"other": 0, "important": 1}}
    model = saved(tmp_path / "m", "BertForTokenClassification", **labels)
    arguments = (
        "vocab",
        "scores",
        "logits",
        folder,
        "--encoder",
        model,
        "--split",
        "train",
        "--value",
        "margin",
    )

    done = run(*arguments, "--class", "important", "--json")
    other = run(*arguments, "--class", "0", "--out", tmp_path / "other", "--json")

    assert (done.code, other.code) == (0, 0), done.err
    assert list(done.json["splits"]) == ["train"]
    examples = load(folder)["train"].examples()
    one, two = (
        open_scores(path).gather(examples).values
        for path in (folder / "vocab" / "logits", tmp_path / "other")
    )
    np.testing.assert_allclose(one, -two, atol=1e-6)
    assert 0 < (one > 0).sum() < len(one)


def test_confidence__writes_a_column_of_a_callable(folder):
    done = run(
        "vocab",
        "scores",
        "confidence",
        folder,
        "--callable",
        "tests.cli.test_vocab_scores:half",
        "--json",
    )

    assert done.code == 0, done.err
    examples = load(folder)["train"].examples()
    scores = open_scores(folder / "vocab" / "confidence").gather(examples).values
    odd = np.repeat(examples.keys % 2 == 1, examples.input_ids.lengths)
    assert np.array_equal(scores > 0, odd & (examples.word_ids.values >= 0))
    report = done.json
    assert report["scanned_rows"] + report["left_out_rows"] == sum(report["splits"].values())
    assert report["important"] == report["scanned_tokens"]


def broken(rows, keys):
    raise RuntimeError("no answer")


def test_confidence__failing_callable_leaves_no_scores(folder):
    name = "tests.cli.test_vocab_scores:broken"

    done = run("vocab", "scores", "confidence", folder, "--callable", name)

    assert done.code == 1
    assert "from the function, got RuntimeError" in done.err
    with pytest.raises(VocabularyError, match="expected a score column, found none"):
        open_scores(folder / "vocab" / "confidence")


def test_confidence__rejects_a_missing_callable(folder):
    done = run(
        "vocab", "scores", "confidence", folder, "--callable", "tests.cli.test_vocab_scores:hlf"
    )

    assert done.code == 1
    assert "has no attribute 'hlf'" in done.err


def test_table__writes_a_lexicon_and_reports_counts(folder, tmp_path):
    (tmp_path / "rates.tsv").write_text(
        "word\trate\nkinase\t0.5\nKINASE 7\tmuch\ntumour cells\t0.25\n"
    )

    done = run("vocab", "scores", "table", folder, "--from", tmp_path / "rates.tsv", "--json")
    said = run("vocab", "scores", "table", folder, "--from", tmp_path / "rates.tsv")

    lexicon = read_lexicon(folder / "vocab" / "table.arrow")
    assert lexicon.scores.tolist() == [0.5, 0.25]
    assert lexicon.words.tolist() == [1, 2]
    assert (done.json["read"], done.json["kept"], done.json["left_out"]) == (4, 2, {"no number": 2})
    assert "left out: no number" in said.out
    assert "kinase" not in (said.out + said.err + done.out).lower()


def test_table__rejects_a_table_of_numbers_only(folder, tmp_path):
    table = tmp_path / "rates.tsv"
    table.write_text("id\trate\n12\t0.5\n3\t0.25\n")

    done = run("vocab", "scores", "table", folder, "--from", table)

    assert done.code == 1
    assert "rates.tsv: expected words, got whole numbers alone; if they are token ids" in done.err
    assert not (folder / "vocab").exists()


@pytest.mark.parametrize("kind", ["frequency", "attention"])
def test_scores__rejects_foreign_files_at_out_before_any_work(folder, encoder, tmp_path, kind):
    there = tmp_path / "there"
    if kind == "frequency":
        there.mkdir()
    else:
        there.write_text("")
    of_encoder = [] if kind == "frequency" else ["--encoder", encoder]

    done = run("vocab", "scores", kind, folder, *of_encoder, "--out", there)

    assert done.code == 2
    assert f"{there}' is a {'directory' if kind == 'frequency' else 'file'}" in done.err


@pytest.mark.parametrize("tokenizer", [word_piece, byte_level, unigram])
@pytest.mark.parametrize("given", [True, False])
def test_table__uses_the_word_boundaries_of_the_rows(tmp_path, tokenizer, given):
    """One source reads words and running text: the rows say where words begin."""
    words = ["Had", "tumour-cell", "kinase", "."]
    row = {"tokens": words, "ner_tags": ["O", "B-X", "O", "O"]}
    if not given:
        row = {"text": " ".join(words), "entities": [[4, 15, "X"]]}
    (tmp_path / "train.jsonl").write_text(json.dumps(row))
    pipeline = pipeline_of(source={"use": "jsonl"})
    build(pipeline, [tmp_path / "train.jsonl"], tokenizer(), tmp_path / "d", workers=1)
    (tmp_path / "t.tsv").write_text("tumour-cell\t1\nkinase\t2\n")

    done = run("vocab", "scores", "table", tmp_path / "d", "--from", tmp_path / "t.tsv")

    assert done.code == 0, done.err
    assert read_lexicon(tmp_path / "d" / "vocab" / "table.arrow").words.tolist() == [
        1 if given else 3,
        1,
    ]


def test_frequency__writes_a_lexicon_of_the_training_split(folder):
    done = run("vocab", "scores", "frequency", folder, "--json")

    lexicon = read_lexicon(folder / "vocab" / "frequency.arrow")
    examples = load(folder)["train"].examples()
    inner = examples.input_ids.values[examples.word_ids.values >= 0]
    assert done.json["tokens"] == lexicon.scores.sum() == (inner != word_piece().ids.unk).sum()
    assert lexicon.tokens.values[0] == np.bincount(inner).argmax()


def test_scores__rejects_a_folder_with_another_tokenizer_file(folder, tmp_path):
    (folder / "tokenizer.json").write_text(
        (folder / "tokenizer.json").read_text().replace("kinase", "kinasf")
    )
    (tmp_path / "t.tsv").write_text("kinase\t1\n")

    done = run("vocab", "scores", "table", folder, "--from", tmp_path / "t.tsv")

    assert done.code == 1
    assert "tokenizer.json: not the tokenizer that the folder was built with" in done.err


def test_scores__rejects_unknown_kinds_and_splits(folder):
    assert "did you mean 'attention'" in run("vocab", "scores", "atention", folder).err
    done = run("vocab", "scores", "frequency", folder, "--split", "trian")
    assert (done.code, "did you mean 'train'" in done.err) == (1, True)


def test_counting__prints_plain_progress_lines(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_EVERY_S", 0)

    with progress.counting("scores", "tokens") as show:
        show(500, 2000)
        show(1000, 2000)

    first, second = capsys.readouterr().err.splitlines()
    assert first == "scores: 500 of 2,000 tokens, 0/s"
    assert re.fullmatch(r"scores: 1,000 of 2,000 tokens, [\d,]+/s, [\d,]+ s left", second)


def test_counting__works_without_a_total(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_EVERY_S", 0)

    with progress.counting("annotate", "documents") as show:
        show(500, None)
        show(1000, None)

    first, second = capsys.readouterr().err.splitlines()
    assert first == "annotate: 500 documents, 0/s"
    assert re.fullmatch(r"annotate: 1,000 documents, [\d,]+/s", second)
