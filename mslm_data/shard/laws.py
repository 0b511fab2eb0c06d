"""The laws that all rows of a shard keep, as FORMAT.md states them.

`range_laws` are those that keep code that indexes by ids, words and mentions within its arrays.
They are checked whenever a shard is opened. `mslm-data verify` checks `row_laws` too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mslm_data.data.bio import OUTSIDE, count_tags, paint
from mslm_data.data.context import FLAGS
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged
from mslm_data.io.arrow import numbers


class Law(NamedTuple):
    """A law that holds for all rows.

    Attributes:
        column: Column with N rows and T values; None for a law of rows.
        breaks: bool `[T]`, whether a value breaks the law; `[N]` for a law of rows.
        what: Expected state.
    """

    column: Ragged | None
    breaks: Array
    what: str


def broken(laws: Iterable[Law]) -> Iterator[str]:
    """Yield the first row that breaks each law, and the number of violations, without text."""
    for law in laws:
        violations = np.flatnonzero(law.breaks)
        if len(violations):
            row = int(violations[0])
            if law.column is not None:  # the index of a value
                row = int(np.searchsorted(law.column.offsets, row, side="right")) - 1
            yield f"row {row}: expected {law.what}; {len(violations)} are not"


def range_laws(rows: Examples, labels: int, doc_labels: int) -> Iterator[Law]:
    """Yield the laws of numbers that code uses as an index.

    Args:
        rows: All rows of a shard.
        labels: Number of labels in the manifest.
        doc_labels: Number of labels of documents in the manifest.
    """
    ids, starts, ends = rows.input_ids, rows.span_starts, rows.span_ends
    yield Law(ids, _outside(ids, rows.ids.size), "ids of the tokenizer")
    yield Law(ids, rows.word_ids.values < -1, "word numbers of at least -1")
    yield Law(ids, _outside(rows.bio, count_tags(labels)), "tags of the manifest")

    sizes = np.repeat(ids.lengths, starts.lengths)
    within = (starts.values >= 0) & (starts.values < ends.values) & (ends.values <= sizes)
    yield Law(starts, ~within, "mentions with a token, within their row")
    yield Law(starts, _outside(rows.span_labels, labels), "labels of the manifest")

    if rows.doc_labels is not None:
        outside = (rows.doc_labels < -1) | (rows.doc_labels >= doc_labels)
        yield Law(None, outside, "labels of documents of the manifest, or -1")

    sentences = rows.sentence_starts
    if sentences is not None:
        yield Law(None, sentences.lengths == 0, "a sentence in each row")
        sizes = np.repeat(ids.lengths, sentences.lengths)
        outside = (sentences.values < 0) | (sentences.values >= sizes)
        yield Law(sentences, outside, "sentences that begin within their row")


def row_laws(rows: Examples, batch: pa.RecordBatch, max_tokens: int | None) -> Iterator[Law]:
    """Yield the laws of rows that keep the `range_laws`.

    Args:
        rows: All rows of a shard.
        batch: The shard, for the columns that are not in `rows`.
        max_tokens: `encode.max_tokens`; None for no limit.
    """
    ids, words = rows.input_ids, rows.word_ids.values
    if max_tokens is not None:
        yield Law(None, ids.lengths > max_tokens, f"rows of at most {max_tokens} tokens")
    yield from _mention_laws(rows, batch)
    yield Law(ids, _falls(rows), "word numbers that never fall")

    # Text is never encoded as a special token except [UNK]. A tokenizer without [UNK] may encode
    # text as any token, so there is no law.
    special = np.isin(ids.values, np.array(rows.ids.special, np.int64))
    if rows.ids.unk >= 0:
        around = special & (ids.values != rows.ids.unk)
        yield Law(ids, around & (words != -1), "no words on special tokens")
    yield Law(ids, ~special & (words == -1), "a word for each token that is not special")

    row = np.repeat(np.arange(len(ids)), ids.lengths)
    counts = np.bincount(row[words >= 0], minlength=len(ids))
    yield Law(None, counts == 0, "rows with a word")
    if len(ids) and counts.all():
        yield from _window_laws(rows, counts)
    yield from _text_laws(rows, batch)


def _outside(column: Ragged, count: int) -> Array:
    """Return whether each value is outside `[0, count)`, bool `[T]`."""
    # Negative numbers are large when read as unsigned: one comparison checks both ends.
    values = column.values
    outside: Array = values.view(f"u{values.dtype.itemsize}") >= count
    return outside


def _mention_laws(rows: Examples, batch: pa.RecordBatch) -> Iterator[Law]:
    """Yield the laws of mentions, their tags, concepts, scores and contexts."""
    starts, ends = rows.span_starts, rows.span_ends
    row = np.repeat(np.arange(len(rows)), starts.lengths)
    follows = np.diff(row, prepend=-1) == 0
    before = np.append(0, ends.values[:-1])
    overlap = follows & (starts.values < before)
    yield Law(starts, overlap, "sorted mentions that do not overlap")

    tags = rows.bio
    special = rows.word_ids.values == -1
    yield Law(tags, special & (tags.values != OUTSIDE), "O on special tokens")
    expected = paint(starts, ends, rows.span_labels, tags.offsets)
    yield Law(tags, expected != tags.values, "the tags that the mentions give")

    if "span_concepts" in batch.schema.names:
        counts = np.diff(numbers(batch.column("span_concepts").offsets))
        yield Law(None, counts != starts.lengths, "a concept for each mention")
        scores = numbers(batch.column("span_scores").flatten())
        outside = ~((scores >= 0) & (scores <= 1))  # True for NaN
        yield Law(starts, outside, "confidences from 0 to 1")
    if "span_contexts" in batch.schema.names:
        contexts = numbers(batch.column("span_contexts").flatten())
        outside = (contexts < 0) | (contexts >= 1 << len(FLAGS))
        yield Law(starts, outside, f"contexts of {len(FLAGS)} flags")


def _falls(rows: Examples) -> Array:
    """Return whether each token has a lower word number than the word before it in the row."""
    words = rows.word_ids
    row = np.repeat(np.arange(len(rows)), words.lengths)
    inside = np.flatnonzero(words.values >= 0)

    falls = np.zeros(len(words.values), np.bool_)
    falls[inside[1:]] = (np.diff(words.values[inside]) < 0) & (np.diff(row[inside]) == 0)
    return falls


def _window_laws(rows: Examples, counts: Array) -> Iterator[Law]:
    """Yield the laws of a row: the tokenizer's prefix, a window of words, and its suffix.

    Args:
        rows: At least one row.
        counts: `[N]`, number of tokens with a word of each row, at least 1.
    """
    ids, words = rows.input_ids, rows.word_ids.values
    places = np.flatnonzero(words >= 0)
    first = places[np.cumsum(counts) - counts]
    last = places[np.cumsum(counts) - 1]
    yield Law(None, words[first] != 0, "rows that begin with word 0")

    before = first - ids.offsets[:-1]
    behind = ids.offsets[1:] - 1 - last
    different = (before != before[0]) | (behind != behind[0]) | (last - first + 1 != counts)
    if not different.any():
        # Compare the special tokens of all rows with those of the first row.
        for place in range(int(before[0])):
            different |= ids.values[ids.offsets[:-1] + place] != ids.values[place]
        for place in range(1, int(behind[0]) + 1):
            different |= ids.values[ids.offsets[1:] - place] != ids.values[ids.offsets[1] - place]
    yield Law(None, different, "the same special tokens around each row")

    starts = rows.sentence_starts
    if starts is None:
        return
    is_first = np.zeros(len(starts.values), np.bool_)
    is_first[starts.offsets[:-1]] = True
    falls = ~is_first & (np.diff(starts.values, prepend=0) <= 0)
    yield Law(starts, falls, "sentences that begin one after the other")
    late = is_first & (starts.values != np.repeat(before, starts.lengths))
    yield Law(starts, late, "a first sentence that begins at the first token of the text")

    begins = starts.values + np.repeat(ids.offsets[:-1], starts.lengths)
    continues = ~is_first & (words[begins] == words[begins - 1])
    inside = (words[begins] < 0) | continues
    yield Law(starts, inside, "sentences that begin where a word begins")


def _text_laws(rows: Examples, batch: pa.RecordBatch) -> Iterator[Law]:
    """Yield the laws of `text`, `token_starts` and `token_ends`."""
    starts, ends = rows.token_starts, rows.token_ends
    if starts is None or ends is None:
        return

    special = rows.word_ids.values == -1
    none = (starts.values == -1) & (ends.values == -1)
    yield Law(starts, special != none, "characters for each word, -1 on special tokens")

    sizes = numbers(pc.utf8_length(batch.column("text")))
    within = (
        (starts.values >= 0)
        & (starts.values < ends.values)
        & (ends.values <= np.repeat(sizes, starts.lengths))
    )
    yield Law(starts, ~special & ~within, "characters within the row's text")

    # Only white space is around the tokens of a text.
    last_ends = np.zeros(len(starts), np.int64)
    first_starts = sizes.astype(np.int64)
    row = np.repeat(np.arange(len(starts)), starts.lengths)
    np.maximum.at(last_ends, row[~special], ends.values[~special])
    np.minimum.at(first_starts, row[~special], starts.values[~special])
    before = sizes - numbers(pc.utf8_length(pc.utf8_ltrim_whitespace(batch.column("text"))))
    after = numbers(pc.utf8_length(pc.utf8_rtrim_whitespace(batch.column("text"))))
    is_longer = (first_starts > before) | (last_ends < after)
    yield Law(None, is_longer, "texts that their tokens span")
