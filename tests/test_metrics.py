from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.scheme import IOB2

import mslm_data as md
from mslm_data.data.ragged import Ragged
from mslm_data.io import resources
from mslm_data.metrics import (
    CLASSES,
    MEMORISED,
    NEW,
    KnownMentions,
    MentionCounts,
    MentionScores,
    RecallOfUnseen,
    macro_f1,
    resample,
    row_concepts,
    span_numbers,
    word_mentions,
)
from tests.reference import mentions as twin

LABELS = ("X", "Y")
O, BX, IX, BY, IY = range(5)  # noqa: E741
NAMES = ("hits", "gold", "predicted", "recall", "precision", "micro_f1", "macro_f1")


def rectangle(rows: Sequence[Sequence[int]], fill: int) -> np.ndarray:
    out = np.full((len(rows), max((len(row) for row in rows), default=0)), fill, np.int64)
    for number, row in enumerate(rows):
        out[number, : len(row)] = row
    return out


def scored(
    rows: Sequence[tuple[Sequence[int], Sequence[int]]], labels: Sequence[str] = LABELS
) -> MentionScores:
    """Score rows of words with one sub-word each, from gold and predicted tags."""
    scores = MentionScores(labels)
    gold, predicted = (rectangle([row[side] for row in rows], -100) for side in (0, 1))
    scores.add(gold, predicted, rectangle([range(len(row[0])) for row in rows], -1))
    return scores


tags = st.integers(0, 2 * len(LABELS))
pairs = st.lists(tags, max_size=8).flatmap(
    lambda gold: st.tuples(st.just(gold), st.lists(tags, min_size=len(gold), max_size=len(gold)))
)
some_rows = st.lists(pairs, max_size=6)


@st.composite
def sub_words(draw: st.DrawFn) -> tuple[list[int], list[int], list[int]]:
    """Draw a row: gold and predicted tags of sub-words, and word ids between special tokens."""
    sizes = draw(st.lists(st.integers(1, 3), max_size=6))
    words = (
        [-1]
        + [word for word, size in enumerate(sizes) for _ in range(size)]
        + [-1] * draw(st.integers(0, 2))
    )
    anything = st.lists(tags, min_size=len(words), max_size=len(words))
    return draw(anything), draw(anything), words


def test_word_mentions__reads_first_sub_words_and_repairs_an_invalid_i() -> None:
    words = np.array([[-1, 0, 0, 1, 2, 2, 3, -1], [-1, 0, 1, 2, 3, 4, 5, -1]])
    tags_of = np.array([[BX, BX, IX, IX, O, BX, BY, BY], [O, IX, IY, IY, BY, O, IX, O]])

    mentions = word_mentions(tags_of, words)

    assert mentions.tolist() == [
        [0, 0, 2, 0],
        [0, 3, 4, 1],
        [1, 0, 1, 0],
        [1, 1, 3, 1],
        [1, 3, 4, 1],
        [1, 5, 6, 0],
    ]


def test_word_mentions__end_with_their_row() -> None:
    words = np.array([[-1, 0], [0, 1], [-1, -1]])

    mentions = word_mentions(np.array([[O, BX], [IX, IX], [IX, IX]]), words)

    assert mentions.tolist() == [[0, 0, 1, 0], [1, 0, 2, 0]]


@given(st.lists(sub_words(), max_size=5))
def test_word_mentions__equal_their_twin(
    rows: list[tuple[list[int], list[int], list[int]]],
) -> None:
    given_tags, words = (
        rectangle([row[0] for row in rows], -100),
        rectangle([row[2] for row in rows], -1),
    )

    mentions = word_mentions(given_tags, words)

    expected = [
        [number, *mention]
        for number, (row, _, of) in enumerate(rows)
        for mention in sorted(twin.mentions_of(twin.words_of(row, of)))
    ]
    assert mentions.tolist() == expected


def test_mention_scores__worked_example() -> None:
    rows = [
        ([BX, IX, O, BX, BX], [BX, IX, O, BX, IX]),  # A hit; adjacent mentions predicted as one.
        ([BY, O, BX], [BX, O, BX]),  # A wrong type; a hit.
        ([O, BY, IY], [IY, IY, IY]),  # Begins too early.
        ([BY, IY], [IY, IY]),  # A hit: the first I is repaired.
    ]

    result = scored(rows).result()

    assert (result["hits"], result["gold"], result["predicted"]) == (3, 7, 6)
    assert result["recall"] == pytest.approx(3 / 7)
    assert result["precision"] == pytest.approx(3 / 6)
    assert result["micro_f1"] == pytest.approx(6 / 13)
    assert result["types"]["X"] == pytest.approx(
        {"recall": 2 / 4, "precision": 2 / 4, "f1": 0.5, "hits": 2, "gold": 4, "predicted": 4}
    )
    assert result["types"]["Y"]["f1"] == pytest.approx(2 / 5)
    assert result["macro_f1"] == pytest.approx((0.5 + 0.4) / 2)


def test_mention_scores__longer_prediction_is_no_match() -> None:
    result = scored([([BX, O], [BX, IX])]).result()

    assert (result["hits"], result["predicted"], result["recall"]) == (0, 1, 0.0)
    # The released code counts this as exact.
    assert twin.released_exact_match([[BX, O]], [[BX, IX]]) == 1.0


def test_mention_scores__macro_mean_ignores_types_without_mentions() -> None:
    result = scored([([BX], [BX])], labels=("X", "Y", "Z")).result()

    assert result["macro_f1"] == 1.0
    assert set(result["types"]["Z"].values()) == {0}


@given(some_rows)
def test_mention_scores__equal_their_twin(rows: list[tuple[list[int], list[int]]]) -> None:
    result = scored(rows).result()

    assert {name: result[name] for name in NAMES} == pytest.approx(
        twin.scores(rows, LABELS), abs=1e-12
    )


@given(some_rows)
def test_mention_scores__equal_seqeval(rows: list[tuple[list[int], list[int]]]) -> None:
    result = scored(rows).result()

    repaired = [[twin.repaired(row[side], LABELS) for row in rows] for side in (0, 1)]
    as_given = [[twin.names_of(row[side], LABELS) for row in rows] for side in (0, 1)]
    for (gold, found), how in ((repaired, {"mode": "strict", "scheme": IOB2}), (as_given, {})):
        if not any(tag != "O" for row in [*gold, *found] for tag in row):
            continue  # seqeval's strict mode fails if there is no mention at all.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Warnings about divisions by zero.
            expected = {
                "recall": recall_score(gold, found, zero_division=0, **how),
                "precision": precision_score(gold, found, zero_division=0, **how),
                "micro_f1": f1_score(gold, found, zero_division=0, **how),
                "macro_f1": f1_score(gold, found, average="macro", zero_division=0, **how),
            }
        assert {name: result[name] for name in expected} == pytest.approx(expected, abs=1e-12)


@given(st.lists(sub_words(), max_size=6), st.data())
def test_mention_scores__do_not_depend_on_the_batches(
    rows: list[tuple[list[int], list[int], list[int]]], data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, 6))
    results = []
    for batches in ([rows], [rows[first : first + size] for first in range(0, len(rows), size)]):
        scores = MentionScores(LABELS)
        for batch in batches:
            columns = [
                rectangle([row[k] for row in batch], fill)
                for k, fill in ((0, -100), (1, 7), (2, -1))
            ]
            scores.add(*columns)
        results.append(scores.result())

    assert results[0] == results[1]


def test_mention_scores__handle_gold_mentions_that_begin_within_a_word() -> None:
    words = np.array([[0, 0, 1, 2, 2]])
    scores = MentionScores(LABELS)

    scores.add(np.array([[O, BX, IX, O, BY]]), np.array([[O, O, BX, O, O]]), words)

    result = scores.result()
    assert result["gold_inside_words"] == 2
    # The first counts from its next word, the second not at all.
    assert (result["hits"], result["gold"]) == (1, 1)


@pytest.mark.parametrize("rows", [[], [([], [])], [([O, O], [O, O])]])
def test_mention_scores__are_0_without_mentions(
    rows: list[tuple[list[int], list[int]]],
) -> None:
    result = scored(rows).result()

    assert {name: result[name] for name in NAMES} == dict.fromkeys(NAMES, 0)
    assert result["rows"] == len(rows)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert rows or result == MentionScores(LABELS).result()


@pytest.mark.parametrize(("gold", "predicted"), [(BX, O), (O, BX)])
def test_mention_scores__are_0_without_gold_or_predictions(gold: int, predicted: int) -> None:
    result = scored([([gold], [predicted])]).result()

    assert [result[name] for name in ("recall", "precision", "micro_f1", "macro_f1")] == [0] * 4


def test_mention_scores__rows_of_threshold_length_are_neither_short_nor_long() -> None:
    rows = [
        ([BX], [BX]),
        ([BX, O, BX], [BX, O, O]),
        ([BX, O, O, BY, O], [O, O, O, BY, O]),
    ]  # 1, 3 and 5 words.

    at_mean, at_given = scored(rows).result(), scored(rows).result(mean_words=3.5)

    assert (at_mean["mean_words"], at_mean["words"], at_mean["rows"]) == (3.0, 9, 3)
    shorter, longer = at_mean["shorter"], at_mean["longer"]
    assert (shorter["rows"], shorter["hits"], shorter["gold"]) == (1, 1, 1)
    assert (longer["rows"], longer["recall"], longer["macro_f1"]) == (1, 0.5, 0.5)
    assert at_given["mean_words"] == 3.5
    assert (at_given["shorter"]["rows"], at_given["longer"]["rows"]) == (2, 1)
    assert at_given["shorter"]["recall"] == pytest.approx(2 / 3)


@given(some_rows)
def test_mention_scores__short_and_long_equal_scores_of_these_rows_alone(
    rows: list[tuple[list[int], list[int]]],
) -> None:
    result = scored(rows).result()

    total = sum(len(gold) for gold, _ in rows)
    for name, side in (("shorter", -1), ("longer", 1)):
        chosen = [row for row in rows if (len(row[0]) * len(rows) - total) * side > 0]
        assert result[name].pop("rows") == len(chosen)
        assert result[name] == pytest.approx(twin.scores(chosen, LABELS), abs=1e-12)


def test_mention_scores__reject_tags_without_label() -> None:
    scores, words = MentionScores(LABELS), np.array([[0, 1, 2, -1]])

    with pytest.raises(
        ValueError, match=r"predicted: expected tags in \[0, 4\], got -100, 5 on 2 word\(s\)"
    ):
        scores.add(np.array([[0, 0, 0, -100]]), np.array([[5, -100, 4, 9]]), words)
    with pytest.raises(ValueError, match=r"gold: expected tags of shape \(1, 4\), got \(1, 3\)"):
        scores.add(np.array([[0, 0, 0]]), np.array([[0, 0, 0, 0]]), words)


def test_macro_f1__is_0_without_types() -> None:
    assert macro_f1([]) == 0.0
    assert macro_f1([MentionCounts(0, 0, 0), MentionCounts(1, 1, 1)]) == 1.0


def test_metrics__do_not_import_torch() -> None:
    code = "import sys, mslm_data.metrics; print('torch' in sys.modules or 'numba' in sys.modules)"

    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout

    assert said.strip() == "False"


# Memorised, synonymous and new mentions ------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "concept", "expected"),
    [
        ("Lung cancer", "", "memorised"),
        ("LUNG  CANCER", "D9", "memorised"),
        ("pulmonary tumour", "D1", "synonym"),
        ("tumour", "D9|D1", "synonym"),
        ("tumour", "D2", "synonym"),
        ("tumour", "D3+D9", "synonym"),
        ("tumour", "D1|D2", "synonym"),
        ("tumour", "D9", "new"),
        ("tumour", "D", "new"),
        ("tumour", "", "new"),
    ],
)
def test_known_mentions__worked_examples(text: str, concept: str, expected: str) -> None:
    known = KnownMentions()
    known.add(["lung cancer", "tumours of lung and skin"], ["D1", "D2|D3"])

    classes = known.classify([text], [concept])

    assert [CLASSES[number] for number in classes] == [expected]


names = st.sampled_from(["gout", "Gout", "a b", "ab", "flu", "cold", ""])
ids = st.lists(st.sampled_from(["1", "2", "3", ""]), max_size=3).map("|".join)
named = st.lists(st.tuples(names, ids), max_size=6)


@given(named, named)
def test_known_mentions__equal_their_twin(
    train: list[tuple[str, str]], gold: list[tuple[str, str]]
) -> None:
    known = KnownMentions()
    known.add([text for text, _ in train], [concept for _, concept in train])

    classes = known.classify([text for text, _ in gold], [concept for _, concept in gold])

    assert [CLASSES[number] for number in classes] == [twin.class_of(one, train) for one in gold]
    assert known.has_concepts == any(concept.strip("|") for _, concept in train)


def test_known_mentions__are_memorised_or_new_without_concepts() -> None:
    known = KnownMentions()
    known.add(["gout"], ["D1"])

    assert known.classify(["gout", "podagra"]).tolist() == [MEMORISED, NEW]


def test_row_concepts__are_those_of_each_row_of_all_shards(tmp_path: Path) -> None:
    lines = []
    for number in range(60):
        entities = [
            {"start": start, "end": start + 3, "label": "X", "concept": f"C{number}"}
            for start in (0, 8)[: number % 3]
        ]
        lines.append({"id": str(number), "text": f"Flu and flu {number}.", "entities": entities})
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, lines)))
    split = md.build(
        "jsonl",
        input=tmp_path / "train.jsonl",
        tokenizer=resources.path("vocab", "sample/vocab.txt"),
        out=tmp_path / "out",
        workers=1,
        options={"annotate.weak": True, "shard.input_bytes": 2000},
    )["train"]
    assert len([*split.batches()]) > 1

    for rows in (split, split.subset(documents=20)):
        expected = [rows[row]["span_concepts"] for row in range(len(rows))]
        assert list(row_concepts(rows) or ()) == expected


@given(st.lists(st.tuples(st.sampled_from("abc"), sub_words()), max_size=6), st.data())
def test_recall_of_unseen__equals_its_twin(
    rows: list[tuple[str, tuple[list[int], list[int], list[int]]]], data: st.DataObject
) -> None:
    """Batches of any size; each token has a class."""
    at_tokens = [
        data.draw(st.lists(st.integers(0, 2), min_size=len(words), max_size=len(words)))
        for _, (_, _, words) in rows
    ]
    size = data.draw(st.integers(1, 6))
    scores, unseen = MentionScores(LABELS), RecallOfUnseen(with_concepts=True)

    for first in range(0, len(rows), size):
        batch = rows[first : first + size]
        gold, predicted, words = (
            rectangle([row[k] for _, row in batch], fill) for k, fill in enumerate((-100, 7, -1))
        )
        matches = scores.add(gold, predicted, words)
        classes = [
            at_tokens[first + row][words[row].tolist().index(word)]
            for row, word, *_ in matches.gold.tolist()
        ]
        unseen.add(matches, np.array(classes, np.int64), [name for name, _ in batch])

    result = unseen.result()
    expected = twin.by_class([row for _, row in rows], at_tokens)
    for number, name in enumerate(CLASSES):
        assert (result[name]["gold"], result[name]["hits"]) == expected[number]
    assert result["documents"] == len({name for name, _ in rows})
    assert json.loads(json.dumps(result, allow_nan=False)) is not None


def test_span_numbers__a_mention_is_of_the_last_span_at_its_first_word() -> None:
    words = np.array([[-1, 0, 0, 1, 2, -1], [-1, 0, 1, 1, 2, 3]])
    # Spans of row 0: words 0 and 2. Row 1: from inside word 1, so it counts from word 2; word 3.
    starts = Ragged.from_rows([[1, 4], [3, 5]], np.int64)
    mentions = np.array([[0, 0, 1, 0], [0, 2, 3, 0], [1, 2, 3, 0], [1, 3, 4, 1]])

    assert span_numbers(mentions, words, starts).tolist() == [0, 1, 2, 3]
    assert span_numbers(mentions[:0], words, starts).tolist() == []


def test_recall_of_unseen__has_no_synonyms_without_concepts() -> None:
    assert "synonym" not in RecallOfUnseen().result()
    assert RecallOfUnseen(with_concepts=True).result()["synonym"]["gold"] == 0


def test_recall_of_unseen__intervals_equal_the_exact_distribution_of_two_documents() -> None:
    """Two documents can be drawn in four ways, so each quantile is one of three known values."""
    unseen = RecallOfUnseen()
    gold, words = np.array([[BX]]), np.array([[0]])
    for document, predicted in (("a", BX), ("b", O)):
        matches = MentionScores(LABELS).add(gold, np.array([[predicted]]), words)
        unseen.add(matches, np.array([NEW]), [document])

    result = unseen.result()

    assert result["new"]["recall_interval"] == (0.0, 1.0)
    assert result["f1_interval"] == (0.0, 1.0)
    drawn = resample(np.array([[1, 1], [1, 0]]))
    shares = np.unique(drawn[:, 1] / drawn[:, 0], return_counts=True)
    assert shares[0].tolist() == [0.0, 0.5, 1.0]
    assert np.allclose(shares[1] / len(drawn), [0.25, 0.5, 0.25], atol=0.04)
