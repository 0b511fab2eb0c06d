"""Sentences in both of two splits, compared with a twin of Python sets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.encode.tokenizer import Tokenizer, load_tokenizer
from mslm_data.shard.built_folder import load_splits
from mslm_data.stats.overlap import (
    WORDS,
    Fingerprints,
    NormalWords,
    normal_words,
    overlap,
    shared_rows,
)
from tests import made
from tests.reference import overlap as reference
from tests.support.properties import fewer

FILLER = " ".join("abcdefghijklmnopqrstuvw")
"""More than 13 words that every tokenizer here knows."""


def folder_of(
    out: Path, texts: Sequence[str], tokenizer: Tokenizer | None = None, *, split: str = "train"
) -> Path:
    """Build a folder of one split with a row per text."""
    inputs = out.with_name(f"{out.name}-in")
    inputs.mkdir()
    rows = [json.dumps({"id": str(number), "text": text}) for number, text in enumerate(texts)]
    (inputs / f"{split}.jsonl").write_text("\n".join(rows), encoding="utf-8")

    pipeline = made.pipeline_of(source={"use": "jsonl"}, annotate={"use": "none"})
    made.build(pipeline, [inputs], tokenizer or made.word_piece(), out, workers=1)
    return out


def both(first: Path, second: Path):
    """Return the overlap of two folders with one split each."""
    (one, (a,)), (other, (b,)) = load_splits(first), load_splits(second)
    words = [
        NormalWords(load_tokenizer(str(shards.tokenizer)).core, shards.manifest.token_ids)
        for shards in (one, other)
    ]
    return overlap(one[a], other[b], *words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("COX-2 (and  IL_6), 12.5%", ["cox", "2", "and", "il", "6", "12", "5"]),
        ("Café NA\u00cfVE cafe\u0301", ["cafe", "naive", "cafe"]),
        ("ﬁbrosis m²", ["fibrosis", "m2"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("腫瘍 … 🧬 --", ["腫瘍"]),
        ("", []),
    ],
)
def test_normal_words__are_runs_of_letters_and_digits(text: str, words: list[str]) -> None:
    assert normal_words(text) == words


@given(st.text())
def test_normal_words__are_those_of_the_twin(text: str) -> None:
    assert tuple(normal_words(text)) == reference.normal_words(text)


@pytest.mark.parametrize("one", made.TOKENIZERS)
@pytest.mark.parametrize("other", made.TOKENIZERS)
def test_overlap__does_not_depend_on_the_tokenizers(one: str, other: str, tmp_path: Path) -> None:
    texts = ["The p53 gene, in colorectal cancer.", f"{FILLER} x", "kinase inhibitors"]
    others = ["the P53 Gene in colorectal cancer", f"y z {FILLER}", "inhibitors kinase"]
    first = folder_of(tmp_path / "first", texts, made.TOKENIZERS[one]())
    second = folder_of(tmp_path / "second", others, made.TOKENIZERS[other]())

    of_first, of_second = both(first, second)

    for found in (of_first, of_second):
        assert found.sentences == 3
        assert found.exact.tolist() == [0]
        assert found.near.tolist() == [1]
        assert (found.short, round(found.share, 4)) == (1, 0.6667)


def test_overlap__needs_13_words_side_by_side_in_one_sentence(tmp_path: Path) -> None:
    twelve = " ".join("abcdefghijkl")
    first = folder_of(tmp_path / "first", [f"{twelve} m", f"{twelve} n n n n", "a . b", "? !"])
    second = folder_of(
        tmp_path / "second", [f"x {twelve} m", f"{twelve}", "m", "b a", "! ?", "a", "b"]
    )

    of_first, of_second = both(first, second)

    assert (of_first.exact.tolist(), of_first.near.tolist()) == ([], [0])
    assert (of_second.exact.tolist(), of_second.near.tolist()) == ([], [0])


def test_overlap__sentences_of_fewer_than_13_words_are_short(tmp_path: Path) -> None:
    twelve = " ".join("abcdefghijkl")
    first = folder_of(tmp_path / "first", [twelve, f"{twelve} m", f"{twelve} n n"])
    second = folder_of(tmp_path / "second", [f"{twelve} m", twelve])

    of_first, of_second = both(first, second)

    assert (of_first.exact.tolist(), of_first.short) == ([0, 1], 1)
    assert (of_second.exact.tolist(), of_second.short) == ([0, 1], 1)


def test_overlap__words_that_a_tokenizer_does_not_know_are_not_compared(tmp_path: Path) -> None:
    first = folder_of(tmp_path / "first", ["kinase 🧬 gene", "🧬", "腫"])
    second = folder_of(tmp_path / "second", ["kinase gene", "☃"])

    of_first, of_second = both(first, second)

    assert of_first.exact.tolist() == [0]
    assert of_second.exact.tolist() == [0]


def test_overlap__tells_the_sentences_of_a_joined_row_apart(tmp_path: Path) -> None:
    inputs = tmp_path / "in"
    inputs.mkdir()
    (inputs / "train.jsonl").write_text(
        json.dumps({"id": "a", "text": "The kinase helps. It does. A gene is here.\n"}) + "\n"
        + json.dumps({"id": "b", "text": "It does not."})
    )  # fmt: skip
    pipeline = made.pipeline_of(
        source={"use": "jsonl"},
        annotate={"use": "none"},
        segment="clinical",
        encode={"join": "document"},
    )
    made.built(tmp_path / "joined", inputs, pipeline)
    second = folder_of(tmp_path / "second", ["it does", "kinase helps", "a gene is here"])

    of_first, of_second = both(tmp_path / "joined", second)

    assert of_first.sentences == 4
    assert of_first.exact.tolist() == [0, 0]
    assert of_second.exact.tolist() == [0, 2]


def test_overlap__of_a_split_without_words_is_nothing(tmp_path: Path) -> None:
    first = folder_of(tmp_path / "first", ["?", "--"])
    second = folder_of(tmp_path / "second", ["kinase", f"{FILLER}", "?"])

    for found in both(first, second):
        assert (len(found.exact), len(found.near), found.share) == (0, 0, 0)


words = st.lists(st.sampled_from("abc"), max_size=6).map(" ".join)


@fewer(0.5)
@given(st.lists(words, max_size=12), st.lists(words, max_size=12))
def test_fingerprints__find_what_the_twin_finds(of: list[str], within: list[str]) -> None:
    # Every letter stands for 3 words, so that the twin's 5-grams of letters need 13 words and more.
    longer = [" ".join(3 * [*text.split()]) for text in of]
    known = [" ".join(3 * [*text.split()]) for text in within]
    exact, near = reference.overlap(longer, known)

    fingerprints = Fingerprints([hashed(known[:4]), hashed(known[4:])])

    is_exact = fingerprints.has_sentences(hashed(longer))
    assert np.flatnonzero(is_exact).tolist() == exact
    assert np.flatnonzero(fingerprints.has_grams(hashed(longer)) & ~is_exact).tolist() == near


def hashed(texts: Sequence[str]) -> Ragged:
    """Hash the letters of texts."""
    return Ragged.from_rows([[ord(word) for word in text.split()] for text in texts], np.uint64)


def test_overlap__of_the_samples_is_the_twins(tmp_path: Path) -> None:
    options = {"pipeline": made.pipeline_of(encode={"keep_text": True}, unit_bytes=2000)}
    made.built(tmp_path / "out", **options)
    shards, names = load_splits(tmp_path / "out")
    tokens = NormalWords(load_tokenizer(str(shards.tokenizer)).core, shards.manifest.token_ids)

    assert len(names) == 3
    for a, b in [("train", "test"), ("validation", "train"), ("test", "test")]:
        texts = [list(shards[name].texts()) for name in (a, b)]

        of_a, of_b = overlap(shards[a], shards[b], tokens, tokens)

        assert (of_a.exact.tolist(), of_a.near.tolist()) == reference.overlap(*texts)
        assert (of_b.exact.tolist(), of_b.near.tolist()) == reference.overlap(*texts[::-1])
    assert len(of_a.exact) == len(shards["test"])


def test_shared_rows__name_the_documents_over_all_shards(tmp_path: Path) -> None:
    made.built(tmp_path / "out", pipeline=made.pipeline_of(unit_bytes=500))
    shards, _ = load_splits(tmp_path / "out")
    tokens = NormalWords(load_tokenizer(str(shards.tokenizer)).core, shards.manifest.token_ids)
    train = shards["train"]

    of_train, _ = overlap(train, train, tokens, tokens)
    rows = shared_rows(train, of_train)

    assert len(train.shard_rows) > 1
    assert [row.row for row in rows] == of_train.exact.tolist()
    assert [row.doc_id for row in rows] == [train[row.row]["doc_id"] for row in rows]
    assert {row.how for row in rows} == {"exact"}


def test_normal_words__begin_anew_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    examples, _ = made.encoded(
        made.encoder(made.word_piece(), []),
        [made.of_words(list(f"{FILLER} kinase".split()), doc_id=str(n)) for n in range(3)],
    )
    tokens = NormalWords(made.word_piece().core, made.word_piece().ids)
    expected = hashes_of(tokens, examples)

    monkeypatch.setattr("mslm_data.stats.overlap._MAX_TYPES", 2)

    assert hashes_of(tokens, examples) == expected
    assert len(expected[0]) == 24 > WORDS


def hashes_of(tokens: NormalWords, examples: Examples) -> list[list[int]]:
    return tokens.hashes(examples.input_ids, examples.word_ids.values).tolist()
