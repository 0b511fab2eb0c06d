"""Joined sentences of a document, from the pipeline file to a mask."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import mslm_data as md
from mslm_data.builds.verify import verify
from mslm_data.lexicon.trie import open_trie
from tests import made
from tests.cli.running import run

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


# Masks of joined rows -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Joined rows in several shards, with a lexicon of n-grams within sentences."""
    out = tmp_path_factory.mktemp("joined")
    made.built(out / "shards", corpus(out / "in", 60), joined(unit_bytes=1500))
    done = run("vocab", "pmi", out / "shards", "--min-count", 2, "--lengths", "2-3")
    assert done.code == 0, done.err
    return out / "shards"


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
