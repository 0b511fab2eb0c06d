from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import tokenizers
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tokenizers import models, processors

from mslm_data.api.loading import Shards, load
from mslm_data.data.examples import Examples
from mslm_data.encode.tokenizer import Tokenizer, parse_tokenizer
from mslm_data.errors import PipelineError, VocabularyError
from mslm_data.io import resources
from mslm_data.lexicon.ngrams import listing
from mslm_data.lexicon.ngrams.ranking import (
    RECIPES,
    NgramChoice,
    ngram_strings,
    rank_ngrams,
)
from mslm_data.lexicon.store import Lexicon
from mslm_data.lexicon.text_files import read_stop_words
from mslm_data.registry import from_options
from tests import made
from tests.generate import IDS, Row, examples_of, random_examples, rows_of
from tests.lexicon.test_counting import of_words
from tests.made import build
from tests.reference import ngrams as reference
from tests.support.cases import long
from tests.support.properties import fewer

EASY = NgramChoice(lengths=(2, 3), min_counts=(1,))


def word_level(words: set[str]) -> Tokenizer:
    """Create a tokenizer with one token per word."""
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    core = tokenizers.Tokenizer(
        models.WordLevel({word: i for i, word in enumerate([*specials, *sorted(words)])}, "[UNK]")
    )
    core.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    core.add_special_tokens(specials)
    return parse_tokenizer(core.to_str())


LETTERS = word_level(
    {*"abcdefghijklmnopqrstuvwxyzABCDE", "of", "Of", "ab", "cd", "ef", *map(str, range(10, 13))}
)


def ranked(rows: list[str], choice: NgramChoice = EASY) -> Lexicon:
    ids = [[LETTERS.core.token_to_id(word) for word in row.split()] for row in rows]
    return rank_ngrams([of_words(ids)], LETTERS.core, LETTERS.ids, choice, about={})


def listed(rows: list[str], **choice: object) -> list[str]:
    return ngram_strings(ranked(rows, replace(EASY, **choice)), LETTERS.core)


ROWS = ["a b c", "a b c", "a b", "d e", "d e f", "d b"]
OF = ["ab cd ef", "ab Of cd", "ab a cd", "of ab"]


@pytest.mark.parametrize(
    ("rows", "choice", "expected"),
    [
        (ROWS, {"min_counts": (2,)}, "d e, a b, b c, a b c"),
        (ROWS, {"min_counts": (3, 2)}, "a b, a b c"),
        (ROWS, {"min_counts": (2, 3)}, "d e, a b, b c"),
        (ROWS, {"min_counts": (2,), "lengths": (3, 3)}, "a b c"),
        (OF, {"drop_short_words": True, "lengths": (2, 2)}, "Of cd, cd ef, ab Of, of ab, ab cd"),
        (
            OF,
            {"drop_short_words": True, "stop_words": frozenset({"of"})},
            "cd ef, ab cd, ab cd ef",
        ),
        (["a b", "c"], {}, "a b"),
        (["a b", "c"], {"across_sentences": True}, "a b, b c, a b c"),
        (["a b", "a b [UNK] c"], {}, "a b"),
    ],
)
def test_rank_ngrams__lists_the_chosen_ones(
    rows: list[str], choice: dict[str, Any], expected: str
) -> None:
    assert listed(rows, **choice) == expected.split(", ")


def test_rank_ngrams__sorts_by_length_then_score_then_words() -> None:
    lexicon = ranked(["a b", "c d", "c d", "f e", "e f", "g g g"])

    texts = ngram_strings(lexicon, LETTERS.core)

    assert texts == ["a b", "c d", "e f", "f e", "g g", "g g g"]
    assert lexicon.scores[:5].tolist() == sorted(lexicon.scores[:5], reverse=True)
    assert lexicon.scores[2] == lexicon.scores[3]


def test_rank_ngrams__orders_of_use() -> None:
    rows = ["a b c", "a b c", "a d", "d b"]
    by_length, by_score, longest = (
        listed(rows, order=order) for order in ("length", "score", "longest")
    )
    scores = ranked(rows, replace(EASY, order="score")).scores

    assert [len(text) for text in by_length] == [3] * 4 + [5]
    assert scores.tolist() == sorted(scores, reverse=True)
    assert sorted(by_score) == sorted(by_length)
    assert longest == [by_length[-1], *by_length[:-1]]


def test_rank_ngrams__unknown_words_count() -> None:
    choice = replace(EASY, measure="plain", lengths=(2, 2))

    known, unknown = (ranked(["a b", second], choice) for second in ("a b c", "a b [UNK] c"))

    assert known.scores[-1] == pytest.approx(np.log2(2 * 5 / 4))
    assert unknown.scores[0] == pytest.approx(np.log2(2 * 6 / 4))


def test_rank_ngrams__sizes_and_shares() -> None:
    rows = ["a b c d e", "a b c d e", "a c", "e b d"]
    every = ranked(rows, replace(EASY, order="score"))
    texts = ngram_strings(every, LETTERS.core)

    assert listed(rows, size=3, order="score") == texts[:3]
    assert sorted(listed(rows, size=3)) == sorted(texts[:3])
    pairs = [text for text in texts if len(text) == 3]
    triples = [text for text in texts if len(text) == 5]
    assert listed(rows, size=4, shares=(50, 50)) == pairs[:2] + triples[:2]
    assert (
        listed(rows, size=5, shares=(50, 50)) == pairs[:2] + triples[:2]
    )  # 2.5 of each, rounded down
    assert listed(rows, size=3, shares=(0, 100)) == triples[:3]
    assert listed(rows, size=1000, shares=(50, 50)) == pairs + triples


@given(
    random_examples(max_rows=8),
    st.sampled_from([0.1, 0.5, 1.0]),
    st.sampled_from([(), (50.0, 50.0), (12.5, 87.5)]),
    st.integers(1, 40),
)
def test_rank_ngrams__coverage_is_reached_and_counted(
    examples: Examples, coverage: float, shares, places: int
) -> None:
    rows = reference.rows_of(examples)
    choice = replace(EASY, coverage=coverage, shares=shares)
    try:
        with patch.object(listing, "_PLACES_AT_ONCE", places):
            lexicon = rank_ngrams([examples], LETTERS.core, IDS, choice, about={})
    except VocabularyError:
        assert all(IDS.unk in sum(gram, ()) for row in rows for gram in reference.grams_of(row, 2))
        assume(False)
    counts = lexicon.about["counts"]
    every = rank_ngrams([examples], LETTERS.core, IDS, EASY, about={})

    assert counts["tokens"] == sum(len(word) for row in rows for word in row)
    assert counts["covered_tokens"] == reference.covered(rows, grams_of(lexicon))
    reached = counts["covered_tokens"] >= coverage * counts["tokens"]
    assert reached or len(lexicon) == len(every)


def test_rank_ngrams__covers_less_with_one_entry_less() -> None:
    rows = ["a b c d e", "a b c d e", "f g", "h i"]
    choice = replace(EASY, lengths=(2, 2), coverage=0.5)

    found = ranked(rows, choice)
    less = ranked(rows, replace(choice, coverage=None, size=len(found) - 1))

    assert found.about["counts"]["covered_tokens"] >= 7 > less.about["counts"]["covered_tokens"]


def grams_of(lexicon: Lexicon) -> set[reference.Gram]:
    found = set()
    for tokens, starts in zip(lexicon.tokens.tolist(), lexicon.word_starts.tolist(), strict=True):
        stops = [*starts[1:], len(tokens)]
        found.add(
            tuple(tuple(tokens[start:stop]) for start, stop in zip(starts, stops, strict=True))
        )
    return found


@fewer(0.5)  # of several rows each
@given(random_examples(max_rows=8), st.integers(1, 3), st.sampled_from(list(RECIPES)))
def test_rank_ngrams__chunks_change_no_byte(examples: Examples, size: int, recipe: str) -> None:
    rows = rows_of(examples)
    chunks = [examples_of(rows[start : start + size]) for start in range(0, len(rows), size)]
    choice = replace(RECIPES[recipe], min_counts=(1,), drop_short_words=False)
    try:
        one = rank_ngrams([examples], LETTERS.core, IDS, choice, about={})
    except VocabularyError:
        assume(False)
    other = rank_ngrams(chunks, LETTERS.core, IDS, choice, about={})

    assert grams_of(one) == grams_of(other)
    assert np.array_equal(one.tokens.values, other.tokens.values)
    assert np.array_equal(one.scores, other.scores)
    assert one.about == other.about


def test_rank_ngrams__entries_of_several_pieces_know_where_words_begin() -> None:
    row = Row(key=0, ids=[2, 10, 11, 12, 13, 14, 15, 3], word_ids=[-1, 0, 0, 1, 2, 2, 2, -1])

    lexicon = rank_ngrams(
        [examples_of([row])], LETTERS.core, IDS, replace(EASY, order="longest"), about={}
    )

    assert lexicon.tokens.tolist()[0] == [10, 11, 12, 13, 14, 15]
    assert lexicon.word_starts.tolist()[0] == [0, 2, 3]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"min_counts": (9,)}, "2 to 3 words occur 9 times among 15 words; lower --min-count"),
        (
            {"size": 1, "shares": (50, 50)},
            "no entries: each share of 1 n-grams is less than one; use a larger",
        ),
    ],
)
def test_rank_ngrams__refuses_an_empty_list(choice: dict[str, Any], message: str) -> None:
    with pytest.raises(VocabularyError, match=message):
        listed(ROWS, **choice)


WRONG = [
    ({"lengths": (1, 3)}, "`int` >= 2 for option 'lengths[0]'"),
    ({"lengths": (2, 6)}, "`int` <= 5 for option 'lengths[1]'"),
    ({"lengths": (4, 3)}, "lengths: expected LOW-HIGH in ascending order, got 4-3"),
    ({"min_counts": (0,)}, "`int` >= 1 for option 'min_counts[0]'"),
    ({"min_counts": (2, 2)}, "min_counts: expected one number or 3, got 2"),
    ({"measure": "levin"}, "invalid value for option 'measure'; did you mean 'levine'?"),
    ({"order": "scores"}, "invalid value for option 'order'; did you mean 'score'?"),
    ({"size": 0}, "`int` >= 1 for option 'size'"),
    ({"size": 5, "coverage": 0.5}, "size: expected a size or a coverage, got both"),
    ({"coverage": 1.5}, "`float` <= 1.0 for option 'coverage'"),
    ({"coverage": float("nan")}, "`float` > 0.0 for option 'coverage'"),
    ({"size": 9, "shares": (50, 40, 9)}, "3 percentages that sum to 100, got 50, 40, 9"),
    ({"size": 9, "shares": (-50, 100, 50)}, "`float` >= 0.0 for option 'shares[0]'"),
    ({"size": 9, "shares": (float("nan"), 50, 50)}, "`float` >= 0.0 for option 'shares[0]'"),
    ({"size": 9, "shares": (50, 50)}, "3 percentages that sum to 100, got 50, 50"),
    ({"shares": (50, 25, 25)}, "shares: the total is unknown; pass a size or a coverage too"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_choice__refuses(options: dict[str, object], message: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(message)):
        from_options(NgramChoice, options, where="vocab pmi")


def test_read_stop_words__the_shipped_ones() -> None:
    words = read_stop_words("english")
    shipped = resources.path("vocab", "stop-words-english.txt").read_text()

    assert len(words) == 179
    assert {"the", "don't", "yourselves"} <= words
    assert shipped.split() == sorted(words)


def test_read_stop_words__a_file(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("\ufeffPatient\n\n noted \n", encoding="utf-8")

    assert read_stop_words(str(tmp_path / "words")) == {"patient", "noted"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "none: no such file of stop words"),
        ("bytes", "bytes: not valid UTF-8"),
        ("counts.tsv", r"counts\.tsv:2: expected one stop word a line, got"),
    ],
)
def test_read_stop_words__refuses_other_files(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "counts.tsv").write_text("the\nof\t9\n")

    with pytest.raises(VocabularyError, match=message):
        read_stop_words(str(tmp_path / name))


GOLD = {  # measured on the authors' published lists, and with the paper's definition
    "BC2GM-IOB": ((13273, 2194, 320), (14944, 7165, 2018), (9166, 3867, 933)),
    "NCBI-disease-IOB": ((5583, 1098, 167), (5902, 2691, 838), (4250, 1812, 540)),
    "BC5CDR-chem-IOB": ((10285, 2107, 338), (11001, 5516, 1936), None),
}


@pytest.fixture(scope="module", params=[*long("BC2GM-IOB"), *list(GOLD)[1:]])
def corpus(
    request: pytest.FixtureRequest, real: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Shards]:
    """Build a corpus with a tokenizer of one token per word."""
    source = real / "blurb" / request.param
    lines = [
        line
        for path in source.glob("*.tsv")
        for line in path.read_text(encoding="utf-8").split("\n")
    ]
    tokenizer = word_level({line.split("\t")[0] for line in lines if line.strip()})
    out = tmp_path_factory.mktemp("built") / "out"
    build(made.pipeline_of(), [source], tokenizer, out, workers=1)
    return request.param, load(out)


def entries(shards: Shards, splits: tuple[str, ...], choice: NgramChoice) -> tuple[int, ...]:
    core = tokenizers.Tokenizer.from_file(str(shards.folder / "tokenizer.json"))
    chunks = (chunk for split in splits for chunk in shards[split].chunks())
    lexicon = rank_ngrams(chunks, core, shards.manifest.token_ids, choice, about={})
    return tuple(lexicon.about["counts"]["entries"].values())


@pytest.mark.long
def test_rank_ngrams__reproduces_the_released_lists(corpus: tuple[str, Shards]) -> None:
    name, shards = corpus
    released, _, _ = GOLD[name]
    choice = replace(RECIPES["released"], stop_words=read_stop_words("english"))

    sizes = entries(shards, shards.splits, choice)

    assert shards.splits == ("train", "validation", "test")
    assert sizes == released


def test_rank_ngrams__the_papers_definition(corpus: tuple[str, Shards]) -> None:
    name, shards = corpus
    _, everything, train = GOLD[name]

    assert entries(shards, shards.splits, RECIPES["paper"]) == everything
    if train:
        assert entries(shards, ("train",), RECIPES["paper"]) == train
