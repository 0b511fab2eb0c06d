from __future__ import annotations

import math
from collections import Counter
from functools import cache, partial
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mslm_data as md
from mslm_data.data.examples import TokenIds
from mslm_data.encode.tokenizer import load_tokenizer
from mslm_data.io import resources
from mslm_data.mask.pick import Listed
from mslm_data.mask.rng import RowRng
from tests.generate import IDS, Row, examples_of, rows_of
from tests.kernels.fairness import is_fair
from tests.mask import artifacts
from tests.reference import grams as twins

RATES = st.sampled_from([0.0, 0.07, 0.075, 0.15, 0.225, 0.55, 1.0])


@pytest.fixture
def listed(tmp_path):
    """Write lists of n-grams; see `artifacts.write_list`."""
    return partial(artifacts.write_list, tmp_path / "pmi.arrow")


def one_row(ids, word_ids=None, *, copies=1, mentions=()):
    words = range(len(ids)) if word_ids is None else word_ids
    return examples_of(
        [Row(key=key, ids=ids, word_ids=words, mentions=mentions) for key in range(copies)]
    )


def masked(name, examples, **options):
    """Return the mask of the first row as a string of 0 and 1."""
    return "".join(str(kind) for kind in md.strategy(name, **options).plan(examples).kinds[0])


@given(st.lists(st.integers(5, 7), max_size=60), RATES)
def test_pmi__equals_twin_where_matches_are_many(ids, rate):
    """Rows with more overlapping matches than insertion sort handles."""
    entries = [entry for entry in artifacts.grams() if set(entry) <= {5, 6, 7}] or [(5, 6)]
    examples = examples_of([Row(key=1, ids=ids, word_ids=range(len(ids)))])
    made = md.strategy("pmi", lexicon=str(artifacts.grams_lexicon()), rate=rate)

    assert made.plan(examples).kinds.tolist() == [
        twins.pmi(rows_of(examples)[0], rate=rate, entries=entries)
    ]


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (0.2, "0000110000"),  # the list's first, at its left-most place
        (0.4, "1100110000"),  # then the second
        (0.5, "1100111000"),  # then the first pass's third, cut to one token
        (0.6, "1100111100"),
        (0.7, "1100111110"),  # the second pass begins at the top of the list: its second place, cut
        (1.0, "1100111111"),  # a pass that masks nothing is the last
    ],
)
def test_pmi__passes_over_the_list(listed, rate, expected):
    path = listed((7, 8), (5, 6), (9, 10))
    examples = one_row([5, 6, 11, 11, 7, 8, 9, 10, 7, 8])
    plan = md.strategy("pmi", lexicon=path, rate=rate).plan(examples)

    assert "".join(map(str, plan.kinds[0])) == expected
    assert plan.unspent.tolist() == [round(rate * 10) - expected.count("1")]


@pytest.mark.parametrize(
    ("word_ids", "expected"),
    [
        (range(4), "0110"),
        ([0, 1, 1, 2], "0110"),
        ([0, 0, 1, 2], "0000"),  # begins within a word
        ([0, 1, 2, 2], "0000"),  # ends within one
        ([0, 1, -1, 2], "0000"),  # a special token
    ],
)
def test_pmi__an_occurrence_is_of_whole_words(listed, word_ids, expected):
    assert (
        masked("pmi", one_row([9, 5, 6, 9], word_ids), lexicon=listed((5, 6)), rate=1.0) == expected
    )


def test_pmi__is_exact_where_floats_are_not(listed):
    """`ceil(0.14 * 50)` is 8 in floats."""
    examples = one_row([5, 6] * 25)

    assert md.strategy("pmi", lexicon=listed((5, 6)), rate=0.14).plan(examples).counts() == (
        0,
        7,
    )


def levine_units(path, examples):
    """Return the units of each row as `start-end` in a string."""
    rng = RowRng(keys=examples.keys, seed=0, epoch=0, path=(0,))
    units = Listed(path).find(examples, rng, generic=False)
    pairs = zip(units.starts.tolist(), units.ends.tolist(), strict=True)
    return [" ".join(f"{start}-{end}" for start, end in zip(*pair, strict=True)) for pair in pairs]


def test_pmi_levine__the_larger_is_the_unit(listed):
    path = listed((5, 6), (5, 6, 7), (6, 7), (8, 9))

    assert levine_units(path, one_row([5, 6, 7, 8, 9, 10, 10], [0, 1, 2, 3, 4, 5, 5])) == [
        "0-3 3-5 5-7"
    ]


def test_pmi_levine__of_overlapping_ones_each_is_as_likely(listed):
    units = levine_units(listed((5, 6), (6, 7)), one_row([5, 6, 7], copies=2000))

    assert is_fair(units, ["0-2 2-3", "0-1 1-3"])


def test_pmi_levine__of_three_in_a_chain_in_random_order(listed):
    """The middle n-gram is visited first in a third of the orders; otherwise both others are kept."""
    units = levine_units(listed((5, 6), (6, 7, 8), (8, 9)), one_row([5, 6, 7, 8, 9], copies=3000))
    middle = units.count("0-1 1-4 4-5")

    assert set(units) == {"0-1 1-4 4-5", "0-2 2-3 3-5"}
    assert abs(middle - 1000) < 4 * math.sqrt(3000 * 2 / 9)


def test_pmi_levine__units_are_equally_likely(listed):
    """One of six units is masked: the n-gram as often as a word, so with more tokens."""
    examples = one_row([5, 6, 7, 8, 9, 10, 11], copies=3000)
    made = md.strategy("pmi-levine", lexicon=listed((5, 6)), rate=2 / 7, overrun="stop")
    firsts = [tuple(np.flatnonzero(row)) for row in made.plan(examples).kinds.tolist()]

    assert abs(sum(found == (0, 1) for found in firsts) - 500) < 4 * math.sqrt(3000 * 5 / 36)


def test_pmi_levine__a_unit_that_is_too_long_is_skipped_or_the_last(listed):
    examples = one_row([5, 6, 7], copies=300)
    path = listed((5, 6))
    skip, stop = (
        md.strategy("pmi-levine", lexicon=path, rate=0.3, overrun=how) for how in ("skip", "stop")
    )

    assert {tuple(row) for row in skip.plan(examples).kinds.tolist()} == {(0, 0, 1)}
    assert {tuple(row) for row in stop.plan(examples).kinds.tolist()} == {(0, 0, 1), (0, 0, 0)}
    assert skip.plan(examples).unspent.sum() == 0
    assert stop.plan(examples).unspent.sum() == 300 - stop.plan(examples).counts()[1]


def test_pmi_levine__a_unit_has_one_action(listed):
    examples = one_row([5, 6], copies=2000)
    made = md.strategy("pmi-levine", lexicon=listed((5, 6)), rate=1.0)
    ids = made.corrupt(examples, made.plan(examples)).values.reshape(-1, 2)
    masked, kept = (ids == IDS.mask).all(axis=1), (ids == [5, 6]).all(axis=1)

    assert not ((ids == IDS.mask).any(axis=1) & ~masked).any()
    assert abs(masked.sum() - 1600) < 4 * math.sqrt(2000 * 0.16)
    assert 100 < kept.sum() < 300


@cache
def sentences(folder: Path, *, lower: bool = False) -> tuple[list[list[str]], list[list[str]]]:
    """Return the training sentences of BC2GM, and all sentences."""
    splits = []
    for split in ("train", "devel", "test"):
        text = (folder / f"{split}.tsv").read_text(encoding="utf-8").strip()
        blocks = (text.lower() if lower else text).split("\n\n")
        splits.append([[line.split("\t")[0] for line in block.splitlines()] for block in blocks])
    return splits[0], list(chain(*splits))


@cache
def released_list(folder: Path, *, lower: bool = False) -> list[tuple[str, ...]]:
    """Make the paper's released list as its code does: PMI of n-grams with a count of 2 or more, over all splits."""
    stop = set(
        resources.path("vocab", "stop-words-english.txt").read_text(encoding="utf-8").split()
    )
    text = list(chain(*sentences(folder, lower=lower)[1]))
    counts = Counter(text)
    usable = {word for word in counts if len(word) > 1 and word.lower() not in stop}
    ranked = []
    for n in (2, 3, 4):
        places = zip(*(text[k:] for k in range(n)), strict=False)
        grams = Counter(gram for gram in places if usable.issuperset(gram))
        scored = [
            (
                math.log2(math.prod(counts[word] for word in gram))
                - math.log2(count * len(text) ** (n - 1)),
                gram,
            )
            for gram, count in grams.items()
            if count > 1
        ]
        ranked += [gram for _, gram in sorted(scored)]
    return ranked


def spent(examples, path, rate):
    """Return masked tokens as shares of all tokens and of the budget, and the shares of rows under
    budget and without masks."""
    plan = md.strategy("pmi", lexicon=path, rate=rate).plan(examples)
    rows = np.add.reduceat(plan.kinds.values, plan.kinds.offsets[:-1])
    total = int(rows.sum())
    real = np.count_nonzero(examples.word_ids.values >= 0)
    return (
        total / real,
        total / (total + plan.unspent.sum()),
        (plan.unspent > 0).mean(),
        (rows == 0).mean(),
    )


@pytest.mark.long
def test_pmi__leaves_budget_unspent_as_measured_on_words(real, listed):
    """Numbers measured before this implementation: BC2GM, one token per word, the released list."""
    folder = real / "blurb" / "BC2GM-IOB"
    train, grams = sentences(folder)[0], released_list(folder)
    assert [sum(len(gram) == n for gram in grams) for n in (2, 3, 4)] == [13_273, 2_194, 320]
    ids = {word: number for number, word in enumerate(dict.fromkeys(chain(*sentences(folder)[1])))}
    rows = [
        Row(key=key, ids=[ids[w] for w in line], word_ids=range(len(line)))
        for key, line in enumerate(train)
    ]
    examples = examples_of(rows, TokenIds(size=len(ids)))
    path = listed(*(tuple(ids[word] for word in gram) for gram in grams), size=len(ids))

    measured = [spent(examples, path, rate) for rate in (0.075, 0.15, 0.225)]
    assert [round(share, 4) for share, _, _, _ in measured] == [0.0752, 0.1168, 0.1398]
    assert [round(100 * under, 1) for _, _, under, _ in measured] == [28.5, 52.7, 75.1]
    assert [round(100 * none, 1) for _, _, _, none in measured] == [20.2, 20.2, 20.2]


@pytest.mark.long
def test_pmi__leaves_budget_unspent_as_measured_on_pieces(real, listed):
    """The same with BERT's uncased vocabulary and a lower-case list: 82, 72 and 61 % of the budget."""
    folder = real / "blurb" / "BC2GM-IOB"
    train, every = sentences(folder, lower=True)
    core = load_tokenizer(str(real / "tokenizers" / "bert-base-uncased__BlueBERT.vocab.txt")).core
    words = list(dict.fromkeys(chain(*every)))
    encodings = core.encode_batch(
        [[word] for word in words], is_pretokenized=True, add_special_tokens=False
    )
    pieces = {word: tuple(encoding.ids) for word, encoding in zip(words, encodings, strict=True)}
    rows = [
        Row(
            key=key,
            ids=[id_ for word in line for id_ in pieces[word]],
            word_ids=[number for number, word in enumerate(line) for _ in pieces[word]],
        )
        for key, line in enumerate(train)
    ]
    size = core.get_vocab_size()
    examples = examples_of(rows, TokenIds(size=size, unk=core.token_to_id("[UNK]")))
    grams = released_list(folder, lower=True)
    path = listed(*(tuple(pieces[word] for word in gram) for gram in grams), size=size)

    measured = [spent(examples, path, rate) for rate in (0.075, 0.15, 0.225)]
    assert [int(100 * budget) for _, budget, _, _ in measured] == [82, 72, 61]
    assert [int(100 * none) for _, _, _, none in measured] == [18, 18, 18]
