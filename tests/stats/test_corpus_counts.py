"""Counts of a corpus, compared with a twin over rows and with the files of a real corpus."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mslm_data as md
from mslm_data.encode.tokenizer import load_tokenizer
from mslm_data.stats import corpus_counts as corpus_module
from mslm_data.stats.corpus_counts import (
    TermCharacters,
    TermCounts,
    count_corpus,
    term_texts,
)
from tests import made
from tests.reference import corpus_counts as twin


@pytest.fixture(scope="module", params=made.TOKENIZERS)
def shards(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> md.Shards:
    out = tmp_path_factory.mktemp("built") / "ncbi"
    inputs = made.SAMPLE / "ncbi-disease"
    made.build(made.pipeline_of(), [inputs], made.TOKENIZERS[request.param](), out, workers=1)
    return md.load(out)


def characters_of(shards: md.Shards) -> TermCharacters:
    return TermCharacters(load_tokenizer(str(shards.tokenizer)).core, shards.manifest.token_ids)


def counted(shards: md.Shards, **options: Any) -> dict[str, corpus_module.SplitCounts]:
    return count_corpus(dict(shards), characters_of(shards), **options)


def test_count_corpus__lengths_and_labels_are_the_twins(shards: md.Shards) -> None:
    counts = counted(shards)

    for name, split in shards.items():
        rows = [split[number] for number in range(len(split))]
        lengths = Counter(len(row["input_ids"]) for row in rows)
        mentions = [(row, *mention) for row in rows for mention in twin.mentions(row)]
        of_split = counts[name]
        assert (of_split.rows, of_split.all_rows) == (len(rows), len(rows))
        assert of_split.tokens == split.tokens
        assert of_split.words == sum(twin.num_words(row, 0, len(row["word_ids"])) for row in rows)
        assert {k: n for k, n in enumerate(of_split.row_lengths) if n} == lengths
        assert of_split.mentions == split.record.mentions
        assert of_split.labels
        for label, found in of_split.labels.items():
            own = [(row, a, b) for row, a, b, index in mentions if split.labels[index] == label]
            assert found.mentions == len(own)
            assert found.tokens == sum(b - a for _, a, b in own)
            assert found.single_words == sum(twin.num_words(*one) == 1 for one in own)


def test_count_corpus__terms_are_the_twins(shards: md.Shards) -> None:
    counts = counted(shards, top=10**6)

    tokenizer = load_tokenizer(str(shards.tokenizer)).core
    in_training: set[str] = set()
    for name, split in shards.items():  # training comes first
        rows = [split[number] for number in range(len(split))]
        expected = twin.terms(rows, tokenizer)
        of_split = counts[name]
        assert of_split.terms == len(expected)
        assert of_split.overflow == 0

        top = {
            twin.term(split[one.row], one.start, one.end, tokenizer): one.mentions
            for one in of_split.top
        }
        assert top == expected
        assert [one.mentions for one in of_split.top] == sorted(expected.values(), reverse=True)

        if name == "train":
            in_training = set(expected)
            assert of_split.unseen is None
        else:
            new = {term: n for term, n in expected.items() if term not in in_training}
            assert of_split.unseen is not None
            assert of_split.unseen.terms == len(new) == len(of_split.unseen.top)
            assert of_split.unseen.mentions == sum(new.values())
            assert sum(of_split.unseen.by_label.values()) == sum(new.values())


def folder_of(out: Path, splits: dict[str, list[list[tuple[str, str]]]]) -> md.Shards:
    """Build a folder with one document per split, from sentences of tagged words."""
    inputs = out.with_name(f"{out.name}-in")
    inputs.mkdir()
    for name, sentences in splits.items():
        lines = ["\n".join(f"{word}\t{tag}" for word, tag in one) + "\n" for one in sentences]
        (inputs / f"{name}.tsv").write_text("\n".join(lines))
    pipeline = made.pipeline_of(source={"use": "conll"})
    made.build(pipeline, [inputs], made.word_piece(), out, workers=1)
    return md.load(out)


def test_count_corpus__a_term_does_not_depend_on_case_and_spaces(tmp_path: Path) -> None:
    shards = folder_of(
        tmp_path / "out",
        {
            "train": [[("Colorectal-", "B-A"), ("Cancer", "I-A"), ("and", "O"), ("gene", "B-A")]],
            "test": [
                [("colorectal", "B-A"), ("-", "I-A"), ("cancer", "I-A"), ("(", "B-B")],
                [("gene", "B-B"), ("gene", "O"), ("and", "B-A")],
            ],
        },
    )

    counts = counted(shards)

    test = counts["test"]
    assert test.terms == 4
    assert test.unseen is not None
    assert (test.unseen.terms, test.unseen.mentions) == (2, 2)
    assert test.unseen.by_label == {"A": 1, "B": 1}
    tokenizer = load_tokenizer(str(shards.tokenizer)).core
    assert term_texts(shards["test"], test.top, tokenizer) == [
        "colorectal - cancer",
        "(",
        "gene",
        "and",
    ]


def test_count_corpus__says_which_terms_have_several_labels(tmp_path: Path) -> None:
    rows = [[("gene", "B-B"), ("and", "B-A"), ("gene", "B-A"), ("Gene", "B-A")]]
    shards = folder_of(tmp_path / "out", {"train": rows})

    top = counted(shards)["train"].top

    assert [(term.label, term.is_ambiguous, term.mentions) for term in top] == [
        ("B", True, 3),
        ("A", False, 1),
    ]


def test_count_corpus__does_not_depend_on_the_size_of_chunks(
    shards: md.Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = counted(shards)

    monkeypatch.setattr(corpus_module, "CHUNK", 3)

    assert counted(shards) == expected


def test_count_corpus__of_a_sample_says_so(
    shards: md.Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_module, "_SAMPLE_CHUNK", 4)
    read: list[tuple[int, int]] = []

    counts = counted(shards, max_rows=8, progress=lambda *counts: read.append(counts))

    train = counts["train"]
    assert train.is_sample
    assert (train.rows, train.all_rows) == (8, len(shards["train"]))
    assert sum(train.row_lengths) == 8
    assert counts["test"].unseen is None
    assert read[-1] == (read[-1][1], read[-1][1])
    assert all(0 <= term.row < len(shards["train"]) for term in train.top)


def test_count_corpus__ends_where_progress_raises(shards: md.Shards) -> None:
    def cancel(done: int, _: int) -> None:
        if done:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        counted(shards, progress=cancel)


def test_count_corpus__of_more_terms_than_there_is_room(
    shards: md.Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = counted(shards)["train"]
    monkeypatch.setattr(corpus_module, "MAX_TERMS", 3)

    train = counted(shards)["train"]

    assert train.terms == 3
    assert train.overflow > 0
    counted_mentions = sum(term.mentions for term in train.top)
    assert counted_mentions + train.overflow == train.mentions == whole.mentions


@given(st.lists(st.lists(st.integers(0, 40), max_size=60), max_size=8), st.integers(1, 50))
def test_term_counts__equals_the_twin(chunks: list[list[int]], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus_module, "MAX_TERMS", most)
        table = TermCounts()
        place = 0
        for chunk in chunks:
            hashes = np.array(chunk, np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            rows = place + np.arange(len(chunk))
            label = rows % 2
            table.add(hashes, np.stack([rows, rows, rows + 1, label], axis=1))
            place += len(chunk)

    given_terms = [term for chunk in chunks for term in chunk]
    known = list(dict.fromkeys(given_terms))[:most]
    expected = Counter(term for term in given_terms if term in known)
    assert len(table) == len(known)
    assert table.overflow == len(given_terms) - sum(expected.values())
    by_row = sorted(table.top(most, "AB"), key=lambda term: term.row)
    assert [term.row for term in by_row] == [given_terms.index(term) for term in known]
    assert [term.mentions for term in by_row] == [expected[term] for term in known]
    for term, found in zip(known, by_row, strict=True):
        labels = {place % 2 for place, one in enumerate(given_terms) if one == term}
        assert found.is_ambiguous == (len(labels) == 2)


@pytest.mark.parametrize("corpus", ["NCBI-disease-IOB", "BC5CDR-chem-IOB"])
def test_count_corpus__of_a_real_corpus_is_that_of_its_files(
    corpus: str, real: Path, tmp_path: Path
) -> None:
    name = f"blurb/{corpus.removesuffix('-IOB').lower()}"
    tokenizer = real / "tokenizers" / "PubMedBERT_BiomedBERT.vocab.txt"
    inputs = real / "blurb" / corpus
    shards = md.build(name, input=inputs, tokenizer=tokenizer, out=tmp_path / "out", workers=1)

    counts = counted(shards)

    files = {
        split: _mentions_of(inputs / file)
        for split, file in (
            ("train", "train.tsv"),
            ("validation", "devel.tsv"),
            ("test", "test.tsv"),
        )
    }
    seen = set(map(_normalise, files["train"]))
    for split, texts in files.items():
        terms = Counter(map(_normalise, texts))
        assert counts[split].mentions == len(texts)
        assert counts[split].terms == len(terms)
        if split != "train":
            unseen = sum(count for term, count in terms.items() if term not in seen)
            assert counts[split].unseen is not None
            assert counts[split].unseen.mentions == unseen


def _normalise(text: str) -> str:
    return "".join(text.split()).casefold()


def _mentions_of(file: Path) -> list[str]:
    """Return the text of each mention in a file of words and tags, with words joined by spaces."""
    mentions: list[list[str]] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        word, _, tag = line.partition("\t")
        if tag.startswith("B"):
            mentions.append([word])
        elif tag.startswith("I"):
            mentions[-1].append(word)
    return [" ".join(words) for words in mentions]
