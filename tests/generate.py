"""Examples for tests: from lists, from hypothesis strategies, and fixed ones for golden digests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from mslm_data.data.examples import Examples, TokenIds
from mslm_data.data.ragged import Ragged, make_offsets
from tests.reference import rng

IDS = TokenIds(
    size=40, mask=4, pad=0, unk=1, sentinels=tuple(range(200, 100, -1)), special=(0, 1, 2, 3, 4)
)
"""Sentinels are beyond the vocabulary, so that no drawn id is one."""
CLS, SEP = 2, 3


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row as lists. Mentions are half-open token ranges `(start, end, label)`."""

    key: int
    ids: Sequence[int]
    word_ids: Sequence[int]
    mentions: Sequence[tuple[int, int, int]] = ()

    @property
    def bio(self) -> list[int]:
        tags = [0] * len(self.ids)
        for start, end, label in self.mentions:
            tags[start:end] = [1 + 2 * label] + [2 + 2 * label] * (end - start - 1)
        return tags


def row_of(
    words: Sequence[int], mentions: Sequence[tuple[int, int]] = (), *, key: int = 0, fill: int = 10
) -> Row:
    """Make a row between [CLS] and [SEP].

    Args:
        words: Number of sub-words of each word.
        mentions: Half-open word ranges.
        key: Key of the row.
        fill: Token id of all sub-words.
    """
    begins = 1 + np.concatenate([[0], np.cumsum(words, dtype=int)])
    numbers = [number for number, size in enumerate(words) for _ in range(size)]
    return Row(
        key=key,
        ids=[CLS, *[fill] * len(numbers), SEP],
        word_ids=[-1, *numbers, -1],
        mentions=[(int(begins[first]), int(begins[stop]), 0) for first, stop in mentions],
    )


def examples_of(rows: Iterable[Row], ids: TokenIds = IDS) -> Examples:
    """Concatenate rows."""
    rows = list(rows)
    spans = [row.mentions for row in rows]
    return Examples(
        keys=np.array([row.key for row in rows], np.uint64),
        input_ids=Ragged.from_rows([row.ids for row in rows], np.int32),
        word_ids=Ragged.from_rows([row.word_ids for row in rows], np.int32),
        bio=Ragged.from_rows([row.bio for row in rows], np.int16),
        span_starts=Ragged.from_rows([[start for start, _, _ in row] for row in spans], np.int32),
        span_ends=Ragged.from_rows([[end for _, end, _ in row] for row in spans], np.int32),
        span_labels=Ragged.from_rows([[label for _, _, label in row] for row in spans], np.int16),
        ids=ids,
    )


def rows_of(examples: Examples) -> list[Row]:
    """Convert Examples to rows."""
    columns = (
        examples.input_ids,
        examples.word_ids,
        examples.span_starts,
        examples.span_ends,
        examples.span_labels,
    )
    return [
        Row(
            key=int(key),
            ids=ids,
            word_ids=words,
            mentions=list(zip(starts, ends, labels, strict=True)),
        )
        for key, ids, words, starts, ends, labels in zip(
            examples.keys, *(column.tolist() for column in columns), strict=True
        )
    ]


def take(examples: Examples, rows: Sequence[int]) -> Examples:
    """Return the given rows, in the given order."""

    def pick(column: Ragged) -> Ragged:
        parts = [column[row] for row in rows]
        values = np.concatenate(parts) if parts else column.values[:0]
        return Ragged(values, make_offsets(np.array([len(part) for part in parts], np.int64)))

    names = ("input_ids", "word_ids", "bio", "span_starts", "span_ends", "span_labels")
    return replace(
        examples,
        keys=examples.keys[np.array(rows, np.int64)],
        **{name: pick(getattr(examples, name)) for name in names},
    )


@st.composite
def random_rows(draw: st.DrawFn, *, labels: int = 2) -> Row:
    """Draw a row of up to 8 words with up to 4 sub-words each, some of them [UNK].

    Mentions cover complete words and are often adjacent. Some rows have no mention, no special
    token at an end, no word, or no token at all. Each part uses the bytes of one draw, as
    Hypothesis is several times slower with as many integers.
    """
    sizes = [1 + byte % 4 for byte in draw(st.binary(max_size=8))]
    numbers = [number for number, size in enumerate(sizes) for _ in range(size)]
    prefix, suffix = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    begins = prefix + np.concatenate([[0], np.cumsum(sizes, dtype=int)])
    cuts = sorted({byte % (len(sizes) + 1) for byte in draw(st.binary(max_size=6))})
    pieces = list(pairwise(cuts))
    # The lowest bit marks a mention, the others are its label.
    choices = draw(st.binary(min_size=len(pieces), max_size=len(pieces)))
    return Row(
        key=draw(st.integers(0, 2**64 - 1)),
        ids=[CLS] * prefix + _random_ids(draw, len(numbers)) + [SEP] * suffix,
        word_ids=[-1] * prefix + numbers + [-1] * suffix,
        mentions=[
            (int(begins[a]), int(begins[b]), (choice >> 1) % labels)
            for (a, b), choice in zip(pieces, choices, strict=True)
            if choice & 1
        ],
    )


def _random_ids(draw: st.DrawFn, count: int) -> list[int]:
    """Draw token ids, a quarter of them [UNK]."""
    usual = range(len(IDS.special), IDS.size)
    return [
        usual[byte % len(usual)] if byte < 192 else IDS.unk
        for byte in draw(st.binary(min_size=count, max_size=count))
    ]


def random_examples(*, max_rows: int = 6, labels: int = 2) -> st.SearchStrategy[Examples]:
    """Draw Examples of zero or more `random_rows` with distinct keys, as in a split."""
    return st.lists(
        random_rows(labels=labels), max_size=max_rows, unique_by=lambda row: row.key
    ).map(examples_of)


def fixed_examples(num_rows: int = 64, *, labels: int = 2) -> Examples:
    """Return constant rows, made from integers alone: 0 to 19 words, 0 to 4 mentions, some [UNK]."""
    return examples_of(_fixed_row(number, labels) for number in range(num_rows))


def _fixed_row(number: int, labels: int) -> Row:
    stream = rng.fold_in(number, 2**40)
    words = [1 + rng.below(stream, 100 + k, 4) for k in range(rng.below(stream, 0, 20))]
    row = row_of(
        words,
        [(first, first + 1 + first % 3) for first in range(number % 5, len(words) - 3, 5)],
        key=stream,
    )
    ids = [
        id_
        if word < 0
        else IDS.unk
        if rng.below(stream, 200 + t, 20) == 0
        else 5 + rng.below(stream, 400 + t, 35)
        for t, (id_, word) in enumerate(zip(row.ids, row.word_ids, strict=True))
    ]
    return replace(
        row, ids=ids, mentions=[(start, end, start % labels) for start, end, _ in row.mentions]
    )
