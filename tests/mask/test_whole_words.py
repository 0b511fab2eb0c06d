from __future__ import annotations

import json
from collections import Counter
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import mslm_data as md
from mslm_data.data.document import Document
from mslm_data.data.examples import Examples
from mslm_data.mask.units import chunks
from mslm_data.segment.given import Whole
from tests import made
from tests.generate import examples_of, row_of
from tests.kernels.fairness import critical_value, is_fair
from tests.mask.collator import collator_of, compared, features, same_shares, sentences

WORDS = [1, 2, 3, 1, 2]
"""Tokens of each word; with the two special ones, 11 tokens in a row."""


def rows_like(words, num_rows, *, fill=10):
    return examples_of(row_of(words, key=key, fill=fill) for key in range(num_rows))


def words_masked(kinds, words):
    """Return the masked words of each row, and check that each is masked whole."""
    numbers = np.repeat(np.arange(len(words)), words)
    for row in kinds.values.reshape(len(kinds), -1)[:, 1:-1]:
        masked = set(numbers[row > 0].tolist())
        assert (row > 0).tolist() == [number in masked for number in numbers.tolist()]
        yield tuple(sorted(masked))


# How many


def test_whole_word__skips_what_does_not_fit():
    """A budget of 3 of 11 tokens, filled differently by each order of the words."""
    orders = list(permutations(range(len(WORDS))))
    due = Counter(filled(order, 3) for order in orders)
    chosen = Counter(
        words_masked(md.strategy("whole-word", rate=0.25).plan(rows_like(WORDS, 3000)).kinds, WORDS)
    )

    assert set(chosen) == set(due) == {(2,), (0, 1), (0, 3), (0, 4), (1, 3), (3, 4)}
    expected = {words: 3000 * count / len(orders) for words, count in due.items()}
    assert sum((chosen[w] - expected[w]) ** 2 / expected[w] for w in due) < critical_value(
        len(due) - 1
    )


def filled(order, left):
    """Return the words that BERT's loop masks."""
    taken = []
    for word in order:
        if WORDS[word] <= left:
            taken.append(word)
            left -= WORDS[word]
    return tuple(sorted(taken))


def test_whole_word__falls_short_where_nothing_fits():
    plan = md.strategy("whole-word").plan(rows_like([4, 4, 4], 10))

    assert plan.counts() == (0, 0)
    assert plan.unspent.tolist() == [2] * 10  # round(0.15 * 14)


def test_whole_word_hf__every_set_of_words_is_as_likely():
    chosen = words_masked(
        md.strategy("whole-word-hf", rate=0.5).plan(rows_like([2, 1, 3], 2000)).kinds, [2, 1, 3]
    )

    assert is_fair(chosen, [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])


@pytest.mark.parametrize("name", ["whole-word-roberta", "random-word"])
def test_number_of_words__every_pair_is_as_likely_whatever_its_length(name):
    chosen = words_masked(md.strategy(name, rate=0.4).plan(rows_like(WORDS, 3000)).kinds, WORDS)

    assert is_fair(chosen, [(a, b) for b in range(5) for a in range(b)])


# Stretches between white space

TEXT = "The results, of p53-binding (in vitro) show 5.3% tumours."


def built_of(tmp_path: Path, **encode: object) -> Examples:
    (tmp_path / "own.jsonl").write_text(json.dumps({"text": TEXT}), encoding="utf-8")
    pipeline = made.pipeline_of(
        source={"use": "jsonl"}, segment="whole", encode=encode, annotate={"use": "none"}
    )
    made.built(tmp_path / "out", tmp_path / "own.jsonl", pipeline)
    return md.load(tmp_path / "out")["train"].take(np.zeros(400, np.int64))


def together(examples, part):
    """Return whether the tokens of a text range are masked together in each of many epochs."""
    start = TEXT.index(part)
    begins = examples.token_starts[0]
    inside = np.flatnonzero((begins >= start) & (begins < start + len(part)))
    assert len(inside) > 1
    seen = [
        md.strategy("whole-word-hf", rate=0.5).plan(examples, epoch=e).kinds[0][inside]
        for e in range(60)
    ]
    assert any(row.any() for row in seen)
    assert not all(row.any() for row in seen)
    return all(row.all() or not row.any() for row in seen)


@pytest.mark.parametrize("part", ["results,", "p53-binding", "(in", "vitro)", "5.3%", "tumours."])
def test_whole_word_hf__running_text_with_its_characters(tmp_path, part):
    examples = built_of(tmp_path, keep_text=True)

    assert together(examples, part)
    assert not together(examples, "results, of")


@pytest.mark.parametrize("name", sorted(made.TOKENIZERS))
def test_chunks__are_what_stands_between_white_space(name):
    document = Document(id="d", text=TEXT)
    encoder = made.encoder(made.TOKENIZERS[name](), [], keep_text=True)
    examples, _ = made.encoded(encoder, [document], Whole())
    units = chunks(examples)

    found = [
        TEXT[examples.token_starts[0][start] : examples.token_ends[0][end - 1]]
        for start, end in zip(units.starts[0], units.ends[0], strict=True)
    ]
    assert found == TEXT.split()


# Against Hugging Face's own collator


def test_chunks__are_the_words_of_the_collator_of_transformers():
    collator, examples = collator_of(True), sentences()

    for i in range(len(examples)):
        row = features(examples, i, True)
        special = np.array([examples.word_ids[i] < 0], int)
        numbers, _ = collator._calc_word_ids_and_prob_mask(
            np.array([row["offset_mapping"]]), special
        )
        runs = np.flatnonzero(np.diff(numbers[0], prepend=-2) * (numbers[0] >= 0))
        assert chunks(examples).starts[i].tolist() == runs.tolist()


def test_whole_word_hf__as_the_collator_of_transformers():
    ours, theirs = compared("whole-word-hf", whole_word_mask=True)

    assert ours.actions[1:] == theirs.actions[1:] == [0, 0]
    assert same_shares(ours, theirs)
