"""Joined sentences of a document, from the pipeline file to a mask."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mslm_data as md
from mslm_data.builds.verify import verify
from mslm_data.errors import ShardError
from mslm_data.lexicon.trie import open_trie
from mslm_data.shard.manifest import read_manifest
from tests import made
from tests.cli.running import run
from tests.shard.damage import edit_manifest

SENTENCES = (
    "Warfarin causes haemorrhage .",
    "kinase inhibitors help .",
    "the nucleus",
    "colorectal anaemia was seen in the nucleus of kinase inhibitors .",
)
"""Sentences made of words of the shipped vocabulary."""


def corpus(folder: Path, documents: int = 40) -> Path:
    """Write documents of one to seven tagged sentences, each with a marker line before it."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number in range(documents):
        lines += [f"-DOCSTART- ({number})\tO", ""]
        for sentence in range(1 + number % 7):
            words = SENTENCES[(number + sentence) % len(SENTENCES)].split()
            lines += [f"{word}\t{'B-X' if len(word) > 6 else 'O'}" for word in words]
            lines.append("")
    (folder / "train.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def joined(max_tokens: int = 40, **options: Any) -> Any:
    encode = {"join": "document", "max_tokens": max_tokens, **options.pop("encode", {})}
    return made.pipeline_of(encode=encode, **options)


def tokens_of(rows: Any) -> dict[str, list[int]]:
    """Return the token ids of each document without special tokens."""
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(row["doc_id"], []).extend(row["input_ids"][1:-1])
    return found


def test_build__joins_sentences_of_a_document_up_to_the_limit(tmp_path: Path) -> None:
    inputs = corpus(tmp_path / "in")
    made.built(tmp_path / "plain", inputs, made.pipeline_of(encode={"max_tokens": 40}))
    made.built(tmp_path / "joined", inputs, joined())
    plain, rows = (list(md.load(tmp_path / name)["train"]) for name in ("plain", "joined"))

    assert len(rows) < len(plain)
    assert tokens_of(rows) == tokens_of(plain)
    assert sum(len(row["sentence_starts"]) for row in rows) == len(plain)
    assert max(len(row["input_ids"]) for row in rows) <= 40
    assert sum(len(row["span_starts"]) for row in rows) == sum(
        len(row["span_starts"]) for row in plain
    )
    # No row has room for the first sentence of the next row.
    for row, following in pairwise(rows):
        if row["doc_id"] == following["doc_id"]:
            starts = [*following["sentence_starts"], len(following["input_ids"]) - 1]
            assert len(row["input_ids"]) + starts[1] - starts[0] > 40


def test_build__writes_all_columns_of_a_joined_row(tmp_path: Path) -> None:
    text = "-DOCSTART-\tO\n\nWarfarin\tB-X\ncauses\tO\n\nhaemorrhage\tB-X\n.\tO\n"
    (tmp_path / "train.tsv").write_text(text)
    made.built(tmp_path / "out", tmp_path / "train.tsv", joined(encode={"keep_text": True}))
    made.built(tmp_path / "plain", tmp_path / "train.tsv", made.pipeline_of())

    (row,) = md.load(tmp_path / "out")["train"]

    first, second = md.load(tmp_path / "plain")["train"]
    assert row["key"] == first["key"]
    assert row["input_ids"] == first["input_ids"][:-1] + second["input_ids"][1:]
    assert row["word_ids"] == first["word_ids"][:-1] + [w + 2 for w in second["word_ids"][1:-1]] + [
        -1
    ]
    assert row["bio"] == first["bio"][:-1] + second["bio"][1:]
    shift = len(first["input_ids"]) - 2
    assert row["sentence_starts"] == [1, 1 + shift]
    assert row["span_starts"] == first["span_starts"] + [s + shift for s in second["span_starts"]]
    assert row["span_ends"] == first["span_ends"] + [s + shift for s in second["span_ends"]]
    assert "".join(row["text"].split()) == "Warfarincauseshaemorrhage."
    words = [row["text"][a:b] for a, b in zip(row["token_starts"], row["token_ends"], strict=True)]
    assert "".join(words[1:-1]) == "Warfarincauseshaemorrhage."


def test_build__does_not_join_a_split_sentence_with_others(tmp_path: Path) -> None:
    lines = ["-DOCSTART-\tO", "", "the\tO", "", *["kinase\tO"] * 30, "", "the\tO", "", "the\tO"]
    (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n")
    annotate = {"use": "none"}
    made.built(tmp_path / "out", tmp_path / "train.tsv", joined(16, annotate=annotate))
    made.built(
        tmp_path / "plain",
        tmp_path / "train.tsv",
        made.pipeline_of(encode={"max_tokens": 16}, annotate=annotate),
    )

    rows, plain = (list(md.load(tmp_path / name)["train"]) for name in ("out", "plain"))

    assert [row["input_ids"] for row in rows[:-1]] == [row["input_ids"] for row in plain[:-2]]
    assert [row["key"] for row in rows] == [row["key"] for row in plain[:-1]]
    assert [row["sentence_starts"] for row in rows[:-1]] == [[1]] * (len(rows) - 1)
    assert len(rows[-1]["sentence_starts"]) == 2
    assert verify(tmp_path / "out")[1] == []


def test_read_manifest__rejects_an_unknown_join_option(tmp_path: Path) -> None:
    made.built(tmp_path / "out", corpus(tmp_path / "in", 3))
    edit_manifest(tmp_path / "out", lambda m: m["pipeline"]["encode"].update(join="paragraph"))

    with pytest.raises(ShardError, match="expected a manifest of mslm-data"):
        read_manifest(tmp_path / "out")


# Masks of joined rows -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Joined rows in several shards, with a lexicon of n-grams within sentences."""
    out = tmp_path_factory.mktemp("joined")
    made.built(out / "shards", corpus(out / "in", 60), joined(unit_bytes=1500))
    done = run("vocab", "pmi", out / "shards", "--min-count", 2, "--lengths", "2-3")
    assert done.code == 0, done.err
    return out / "shards"


@pytest.mark.parametrize("name", ["pmi", "pmi-levine", "joint"])
def test_strategies__mask_a_row_alike_wherever_it_is_read(folder: Path, name: str) -> None:
    shards = md.load(folder)
    strategy = shards.strategy(name)
    train = shards["train"]
    rows = np.arange(len(train))
    together = strategy.plan(train.examples(), seed=3, epoch=1).kinds.tolist()

    shuffled = np.random.default_rng(0).permutation(rows)
    kinds = strategy.plan(train.take(shuffled), seed=3, epoch=1).kinds

    assert any(map(any, together))
    assert kinds.tolist() == [together[row] for row in shuffled]


def test_pmi__has_no_ngram_across_a_sentence_end(folder: Path) -> None:
    shards = md.load(folder)
    examples = shards["train"].examples()
    assert examples.sentence_starts is not None

    starts, ends, _ = open_trie(folder / "vocab" / "pmi.arrow").matches(examples)

    assert len(starts.values) > 50
    for row in range(len(examples)):
        bounds = examples.sentence_starts[row]
        for start, end in zip(starts[row], ends[row], strict=True):
            assert not ((start < bounds) & (bounds < end)).any()


# Real documents -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "path", "documents", "mentions"),
    [
        ("pubtator", "pubtator/ncbi/NCBIdevelopset_corpus.txt", 100, 787),
        ("conll", "blurb/JNLPBA", 200, 4551),
    ],
)
def test_build__joins_real_documents_without_losing_mentions(
    real: Path, tmp_path: Path, source: str, path: str, documents: int, mentions: int
) -> None:
    segment = "given" if source == "conll" else "clinical"
    pipeline = joined(256, source={"use": source}, segment=segment)

    manifest = made.built(tmp_path / "out", real / path, pipeline)

    (split,) = manifest.splits
    record = manifest.splits[split]
    examples = md.load(tmp_path / "out")[split].examples()
    assert (record.written, record.mentions, record.given_mentions) == (
        documents,
        mentions,
        mentions,
    )
    assert examples.sentence_starts is not None
    assert len(examples.sentence_starts.values) > 3 * len(examples)
    assert verify(tmp_path / "out")[1] == []
