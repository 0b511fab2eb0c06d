"""`mslm-data vocab`: where its commands write, what they print, and what they refuse."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

from mslm_data.api.loading import load
from mslm_data.data.ragged import Ragged
from mslm_data.lexicon.score_columns import open_scores
from mslm_data.lexicon.store import Lexicon, read_lexicon, write_lexicon
from tests import made
from tests.cli.running import run
from tests.lexicon.models import saved


@pytest.fixture
def folder(ncbi: Path, tmp_path: Path) -> Path:
    """A folder for the lexicons of a test."""
    return shutil.copytree(ncbi, tmp_path / "folder")


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words of general text."""
    path = tmp_path_factory.mktemp("general") / "counts.tsv"
    path.write_text("the\t1000\nof\t900\nwas\t500\npatient\t3\n")
    return path


# Lexicons -----------------------------------------------------------------------------------------


def test_vocab__writes_private_lexicons_into_the_folder(folder: Path, counts: Path) -> None:
    for words in (
        ("pmi", folder, "--min-count", 2),
        ("anchors", folder, "--general", counts, "--min-count", 2),
        ("scores", "frequency", folder),
    ):
        done = run("vocab", *words)
        path = folder / "vocab" / f"{words[0]}.arrow"
        if words[0] == "scores":
            path = folder / "vocab" / "frequency.arrow"
        about = read_lexicon(path).about
        assert done.out.splitlines()[-1] == str(path)
        assert about["tokenizer"] == load(folder).manifest.tokenizer.sha256
        assert str(folder) not in str(about)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    assert run("verify", folder).code == 0


def test_pmi__prints_counts_without_words(ncbi: Path, tmp_path: Path) -> None:
    done = run("vocab", "pmi", ncbi, "--min-count", 2, "--out", tmp_path / "a" / "pmi.arrow")

    lines = done.out.splitlines()
    assert lines[0] == "train: paper, measure levine"
    assert [line.rsplit("  ", 2)[0].strip() for line in lines[1:-1]] == [
        "entries of 2 words", "entries of 3 words", "entries of 4 words", "entries",
        "tokens", "in an entry",
    ]  # fmt: skip


def test_pmi__options_override_a_recipe(ncbi: Path, tmp_path: Path) -> None:
    (tmp_path / "stop").write_text("the\n")
    words = [
        "--recipe", "released", "--split", "train", "--lengths", "3-3", "--min-count", "1", "--size", "4",
        "--order", "score", "--keep-short-words", "--stop-words", tmp_path / "stop",
        "--within-sentences", "--out", tmp_path / "x", "--json",
    ]  # fmt: skip

    done = run("vocab", "pmi", ncbi, *words)

    options = {
        "splits": ["train"],
        "stop_words": 1,
        "across_sentences": False,
        "drop_short_words": False,
        "lengths": [3, 3],
        "order": "score",
    }
    assert done.json["entries"] == {"3": 4}
    assert {name: done.json[name] for name in options} == options


def test_pmi__writes_a_text_list_on_request(ncbi: Path, tmp_path: Path) -> None:
    listed = tmp_path / "new" / "list"
    words = ("--min-count", 2, "--coverage", 0.99, "--out", tmp_path / "x", "--list", listed)

    done = run("vocab", "pmi", ncbi, *words)

    lines = [line.split("\t") for line in listed.read_text().splitlines()]
    assert done.code == 0
    assert "warning: all n-grams together cover less than --coverage" in done.err
    assert [float(score) for _, score in lines] == pytest.approx(
        read_lexicon(tmp_path / "x").scores, abs=1e-7
    )
    assert all(2 <= len(text.split(" ")) <= 4 for text, _ in lines)
    assert stat.S_IMODE(listed.stat().st_mode) == 0o600


def test_anchors__shows_patients_words_only_on_request(
    ncbi: Path, notes: Path, counts: Path, tmp_path: Path
) -> None:
    words = ("--general", counts, "--min-count", 2, "--stop-words", "english")
    anchors = ("vocab", "anchors", notes, *words, "--out", tmp_path / "a.arrow")

    public = run("vocab", "anchors", ncbi, *words, "--out", tmp_path / "b.arrow")
    hidden = run(*anchors)
    shown = run(*anchors, "--show-text")

    head, *rows, _ = public.out.splitlines()
    table = hidden.out.splitlines()[:-2]
    assert head.split() == ["word", "count", "general", "score"]
    columns = [line.split() for line in rows]
    assert [line.split() for line in table[1:]] == [[rank, *rest] for rank, _, *rest in columns]
    assert "pass --show-text" in hidden.out
    assert shown.out.splitlines()[:-1] == [head, *rows]
    assert read_lexicon(tmp_path / "a.arrow").about["protected"] is True


def test_anchors__compares_with_wordfreq(ncbi: Path, tmp_path: Path) -> None:
    pytest.importorskip("wordfreq")

    done = run("vocab", "anchors", ncbi, "--general", "wordfreq", "--out", tmp_path / "a", "--json")

    assert done.json["general"]["source"] == "wordfreq"


# Scores -------------------------------------------------------------------------------------------


def test_logits__value_and_class_choose_the_scores(ncbi: Path, tmp_path: Path) -> None:
    labels = {"id2label": {0: "other", 1: "important"}, "label2id": {"other": 0, "important": 1}}
    model = saved(tmp_path / "m", "BertForTokenClassification", **labels)
    logits = ("vocab", "scores", "logits", ncbi, "--encoder", model, "--split", "train")

    done = [
        run(*logits, "--class", label, "--value", value, "--out", tmp_path / name)
        for name, label, value in (
            ("important", "important", "margin"),
            ("other", "0", "margin"),
            ("raw", "important", "logit"),
        )
    ]

    assert [each.code for each in done] == [0, 0, 0], done
    examples = load(ncbi)["train"].examples()
    important, other, raw = (
        open_scores(tmp_path / name).gather(examples).values
        for name in ("important", "other", "raw")
    )
    np.testing.assert_allclose(important, -other, atol=1e-6)
    assert 0 < (important > 0).sum() < len(important)
    assert not np.allclose(raw, important)


@pytest.mark.parametrize("given", [True, False])
def test_table__uses_the_word_boundaries_of_the_rows(tmp_path: Path, given: bool) -> None:
    """One source reads words and running text: the rows say where words begin."""
    words = ["Had", "tumour-cell", "kinase", "."]
    row: dict[str, object] = {"tokens": words, "ner_tags": ["O", "B-X", "O", "O"]}
    if not given:
        row = {"text": " ".join(words), "entities": [[4, 15, "X"]]}
    (tmp_path / "train.jsonl").write_text(json.dumps(row))
    pipeline = made.pipeline_of(source={"use": "jsonl"})
    made.built(tmp_path / "d", tmp_path / "train.jsonl", pipeline)
    (tmp_path / "t.tsv").write_text("word\trate\ntumour-cell\t1\nkinase\t2\nKINASE 7\tmuch\n")

    done = run("vocab", "scores", "table", tmp_path / "d", "--from", tmp_path / "t.tsv")

    assert done.code == 0, done.err
    assert "left out: no number" in done.out
    assert "kinase" not in (done.out + done.err).lower()
    lexicon = read_lexicon(tmp_path / "d" / "vocab" / "table.arrow")
    assert lexicon.words.tolist() == [1 if given else 3, 1]


# Refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("made_by", ["pmi", "scores frequency", "scores anchors"])
def test_scores_anchors__rejects_lexicons_of_other_commands(
    folder: Path, tmp_path: Path, counts: Path, made_by: str
) -> None:
    encoder = saved(tmp_path / "bert")
    assert run("vocab", "anchors", folder, "--general", counts, "--min-count", 2).code == 0
    other = tmp_path / "other.arrow"
    needed = {"pmi": ["--min-count", 2], "scores anchors": ["--encoder", encoder]}
    written = run("vocab", *made_by.split(), folder, *needed.get(made_by, []), "--out", other)
    assert written.code == 0, written.err

    done = run("vocab", "scores", "anchors", folder, "--encoder", encoder, "--anchors", other)

    assert done.code == 1
    assert f"other.arrow: expected anchors, got a lexicon of `mslm-data vocab {made_by}`" in (
        done.err
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 900}, "its vocabulary differs from that of the shards"),
        ({"max_position_embeddings": 16}, "expected rows of at most 16 tokens, got "),
    ],
)
def test_attention__rejects_other_models_before_any_work(
    ncbi: Path, tmp_path: Path, changes: dict[str, int], message: str
) -> None:
    words = ("--encoder", saved(tmp_path / "m", **changes), "--out", tmp_path / "out")

    done = run("vocab", "scores", "attention", ncbi, *words)

    assert done.code == 1
    assert message in done.err
    assert not (tmp_path / "out").exists()


def test_table__rejects_a_table_of_numbers_only(ncbi: Path, tmp_path: Path) -> None:
    table = tmp_path / "rates.tsv"
    table.write_text("id\trate\n12\t0.5\n3\t0.25\n")
    words = ("vocab", "scores", "table", ncbi, "--from", table, "--out", tmp_path / "t.arrow")

    done = run(*words)

    assert done.code == 1
    assert "rates.tsv: expected words, got whole numbers alone; if they are token ids" in done.err


def test_scores__rejects_a_folder_with_another_tokenizer_file(folder: Path, counts: Path) -> None:
    tokenizer = folder / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace("kinase", "kinasf"))

    done = run("vocab", "scores", "table", folder, "--from", counts)

    assert done.code == 1
    assert "tokenizer.json: not the tokenizer that the folder was built with" in done.err


# Lexicons in strategies ---------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["pmi", "pmi-levine", "keywords", "difference"])
def test_strategies__of_words_reject_lexicons_of_ids(
    ncbi: Path, tmp_path: Path, strategy: str
) -> None:
    ids = tmp_path / "ids.arrow"
    assert run("vocab", "scores", "frequency", ncbi, "--out", ids).code == 0

    done = run("mask-stats", ncbi, "--strategy", strategy, "--set", f"lexicon={ids}")

    assert done.code == 1
    assert "ids.arrow: expected a lexicon of words, got token ids" in done.err


@pytest.mark.parametrize("strategy", ["keywords", "difference"])
def test_strategies__of_single_words_reject_ngrams(
    ncbi: Path, tmp_path: Path, strategy: str
) -> None:
    ngrams = tmp_path / "pmi.arrow"
    assert run("vocab", "pmi", ncbi, "--min-count", 2, "--out", ngrams).code == 0

    done = run("mask-stats", ncbi, "--strategy", strategy, "--set", f"lexicon={ngrams}")

    assert done.code == 1
    assert "pmi.arrow: expected entries of one word, because words are looked up" in done.err


def test_strategies__accept_an_empty_lexicon(ncbi: Path, tmp_path: Path) -> None:
    about = {
        "tokenizer": load(ncbi).manifest.tokenizer.sha256,
        "size": load(ncbi).manifest.token_ids.size,
    }
    none = Ragged.from_rows([], np.int32)
    empty = Lexicon(tokens=none, word_starts=none, scores=np.empty(0), about=about)
    write_lexicon(tmp_path / "none.arrow", empty)

    lexicon = ("--set", f"lexicon={tmp_path / 'none.arrow'}")
    done = run("mask-stats", ncbi, "--strategy", "keywords", *lexicon)

    assert (done.code, done.err) == (0, "")
