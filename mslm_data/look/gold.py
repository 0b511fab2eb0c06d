"""Compares a folder's mentions with gold mentions of the same text in a second folder.

Documents are matched by id, and a row by its tokens, special ones aside: gold has the row if they
stand side by side in its document. So the folders may differ in sentences, windows and splits, but
need one tokenizer, and a sentence that gold lacks costs only itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.api.loading import Shards
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged, make_offsets
from mslm_data.errors import ShardError
from mslm_data.look.background import Progress
from mslm_data.look.reading import read_chunks, read_column, rows_with
from mslm_data.metrics import MentionCounts
from mslm_data.shard.split import Split

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

FOUND, MISSED, WRONG = "found", "missed", "wrong"
_CHUNK = 8192


class GoldText(NamedTuple):
    """All documents of the gold folder, one after another, without special tokens.

    Attributes:
        documents: Split -> document id -> the document's tokens `[start, end)`.
        tokens: int32 `[T]`.
        starts: `[S]`, first token of each gold mention, rising.
        ends: `[S]`, half open.
        labels: `[S]`, index into the compared labels.
    """

    documents: Mapping[str, Mapping[str, tuple[int, int]]]
    tokens: npt.NDArray[np.int32]
    starts: Ints
    ends: Ints
    labels: Ints

    def find_document(self, split: str, doc_id: str) -> tuple[int, int]:
        """Return a document's tokens `[start, end)`, none if there is no such document.

        A document of the same split comes first, as splits may number their documents alike.
        """
        for name in (split, *self.documents):
            tokens = self.documents.get(name, {}).get(doc_id)
            if tokens is not None:
                return tokens
        return 0, 0


class Comparison(NamedTuple):
    """The mentions of N rows, compared with gold.

    Attributes:
        is_compared: `[N]`, whether gold has the row's text.
        spans: The rows' own mentions, S in N rows; values are not used.
        gold: The rows, with the gold mentions in place of their own: G in N rows.
        is_found: `[G]`, whether an own mention equals the gold mention.
        is_wrong: `[S]`, whether no gold mention equals the own mention.
        is_known: `[S]`, whether the own mention is compared: gold has its text and its label.
    """

    is_compared: Bools
    spans: Ragged
    gold: Examples
    is_found: Bools
    is_wrong: Bools
    is_known: Bools

    def rows_with(self, status: str) -> Bools:
        """Return which rows have a found, missed or wrong mention, `[N]`."""
        if status == WRONG:
            return rows_with(self.spans, self.is_wrong)
        return rows_with(self.gold.span_starts, self.is_found == (status == FOUND))

    def statuses(self) -> tuple[list[str], list[str]]:
        """Return the status of each own mention, "" if it is not compared, and each gold one."""
        own = np.where(self.is_known, np.where(self.is_wrong, WRONG, FOUND), "")
        gold = np.where(self.is_found, FOUND, MISSED)
        return own.tolist(), gold.tolist()


class Alignment(NamedTuple):
    """The place of each row of a split in the gold folder, with counts of mentions.

    Attributes:
        text: The gold folder's text and mentions.
        own_labels: `[L]`, number of each of the first folder's labels among the compared ones, or
            -1.
        positions: `[R]`, each row's first token in `text.tokens`; -1 for rows that gold lacks.
        counts: Label -> found, gold and own mentions in the rows that gold has.
    """

    text: GoldText
    own_labels: Ints
    positions: Ints
    counts: Mapping[str, MentionCounts]

    def compare(self, examples: Examples, rows: Ints | slice) -> Comparison:
        """Compare the mentions of rows with gold: equal boundaries and label.

        Args:
            examples: N rows of the split.
            rows: Their numbers.
        """
        return _compare(examples, self.positions[rows], self.text, self.own_labels)

    def rows_of_gold_split(self, split: str) -> Bools:
        """Return which rows have the text of a document of one gold split, `[R]`.

        Args:
            split: Name of the gold split.
        """
        bounds = [*self.text.documents.get(split, {}).values()] or [(0, 0)]
        # The documents of a split follow one another.
        is_in: Bools = (bounds[0][0] <= self.positions) & (self.positions < bounds[-1][1])
        return is_in

    @property
    def rows(self) -> int:
        """Number of rows whose text gold has."""
        return int(np.count_nonzero(self.positions >= 0))

    @property
    def total(self) -> MentionCounts:
        """The counts of all labels together."""
        counts = [(label.hits, label.gold, label.predicted) for label in self.counts.values()]
        return MentionCounts(*map(sum, zip(*counts, strict=True)))


class GoldFolder:
    """A second folder, whose mentions are gold.

    Attributes:
        shards: The folder.
        labels: Compared labels, named as in the first folder: those that both folders have, or the
            only label of each.
    """

    def __init__(self, shards: Shards, first: Shards) -> None:
        """Check that two folders can be compared; no row is read.

        Args:
            shards: The folder with gold mentions.
            first: The folder whose mentions are compared with them.

        Raises:
            ShardError: They have different tokenizers, or no label in common.
        """
        if shards.manifest.tokenizer.sha256 != first.manifest.tokenizer.sha256:
            raise ShardError(
                f"{shards.folder}: built with another tokenizer than {first.folder}, so their "
                "tokens cannot be compared; build both with the same --tokenizer"
            )
        if len(shards.labels) == len(first.labels) == 1:
            self.labels: tuple[str, ...] = first.labels
            names = dict(zip(shards.labels, first.labels, strict=True))
        else:
            self.labels = tuple(label for label in first.labels if label in shards.labels)
            names = {label: label for label in self.labels}
        if not self.labels:
            raise ShardError(
                f"{shards.folder}: expected a label of {first.folder} "
                f"({', '.join(first.labels) or 'none'}), got {', '.join(shards.labels) or 'none'}; "
                "build one of them again with annotate.rename"
            )

        self.shards = shards
        self._own = _number_labels(first.labels, self.labels, {})
        self._gold = _number_labels(shards.labels, self.labels, names)
        self._text: GoldText | None = None

    def align(self, split: Split, progress: Progress) -> Alignment:
        """Find the text of each row of a split in the gold folder, and count the mentions.

        Both are read once; the gold folder's tokens stay in memory.

        Args:
            split: A split of the first folder.
            progress: Called with the number of rows read and the number to read.

        Raises:
            ShardError: A shard is missing or damaged.
        """
        # The gold text is read for the first split and kept for the others.
        gold_rows = sum(map(len, self.shards.values()))
        total = gold_rows + len(split)
        text = self._text or self._read_text(lambda done: progress(done, total))
        self._text = text

        positions = np.full(len(split), -1, np.int64)
        counts = np.zeros((len(self.labels), 3), np.int64)
        finder = _RowFinder(text, split.name)
        for start, examples, doc_ids in _read_chunks(split):
            progress(gold_rows + start, total)
            tokens, _ = _without_specials(examples)
            found = positions[start : start + len(examples)]
            found[:] = finder.find(tokens, doc_ids)
            comparison = _compare(examples, found, text, self._own)
            counts += _count(examples, comparison, self._own, len(self.labels))

        by_label = [MentionCounts(*row) for row in counts.tolist()]
        counts_by_label = dict(zip(self.labels, by_label, strict=True))
        return Alignment(text, self._own, positions, counts_by_label)

    def _read_text(self, progress: Callable[[int], None]) -> GoldText:
        """Read the tokens and the compared mentions of all splits."""
        documents: dict[str, dict[str, tuple[int, int]]] = {}
        parts: list[tuple[Ints, ...]] = []
        rows_read = position = 0
        for split in self.shards.values():
            bounds = documents[split.name] = {}
            document = None
            for start, examples, doc_ids in _read_chunks(split):
                progress(rows_read + start)
                tokens, places = _without_specials(examples)

                # The rows of a document are neighbours.
                row_bounds = (position + tokens.offsets).tolist()
                for doc_id, first, end in zip(doc_ids, row_bounds, row_bounds[1:], strict=False):
                    if doc_id != document:
                        bounds.setdefault(doc_id, (first, end))
                    elif bounds[doc_id][1] == first:
                        bounds[doc_id] = (bounds[doc_id][0], end)
                    document = doc_id

                # Token of the chunk -> its place among the tokens that are not special.
                order = np.zeros(len(examples.input_ids.values) + 1, np.int64)
                order[places] = np.arange(len(places))
                row_starts = np.repeat(
                    examples.input_ids.offsets[:-1], examples.span_starts.lengths
                )
                labels = self._gold[examples.span_labels.values]
                is_kept = labels >= 0
                starts = order[(examples.span_starts.values + row_starts)[is_kept]]
                ends = order[(examples.span_ends.values + row_starts - 1)[is_kept]] + 1
                parts.append((tokens.values, starts + position, ends + position, labels[is_kept]))
                position += len(places)
            rows_read += len(split)

        if not parts:
            empty = np.empty(0, np.int64)
            return GoldText(documents, np.empty(0, np.int32), empty, empty, empty)
        columns = map(np.concatenate, zip(*parts, strict=True))
        return GoldText(documents, *columns)


class _RowFinder:
    """Finds the rows of a split in the gold text, one after another."""

    def __init__(self, text: GoldText, split: str) -> None:
        self._text = text
        self._split = split
        self._doc_id: str | None = None
        self._first = 0
        self._document = b""
        """The document's tokens, as bytes."""
        self._next = 0
        """Byte behind the last row found."""

    def find(self, tokens: Ragged, doc_ids: Sequence[str]) -> Ints:
        """Return the place of each row's first token in `text.tokens`, `[N]`; -1 without one.

        Args:
            tokens: N rows without special tokens.
            doc_ids: `[N]`, their documents.
        """
        values = tokens.values.astype(np.int32).tobytes()
        bounds = (4 * tokens.offsets).tolist()
        positions = np.full(len(tokens), -1, np.int64)
        for row, doc_id in enumerate(doc_ids):
            if doc_id != self._doc_id:
                self._open(doc_id)
            words = values[bounds[row] : bounds[row + 1]]

            # A sentence may occur twice: the one behind the row before comes first.
            place = _find_aligned(self._document, words, self._next)
            if place < 0:
                place = _find_aligned(self._document, words, 0)
            if place >= 0:
                positions[row] = self._first + place // 4
                self._next = place + len(words)
        return positions

    def _open(self, doc_id: str) -> None:
        """Take the next document."""
        self._doc_id = doc_id
        self._first, end = self._text.find_document(self._split, doc_id)
        self._document = self._text.tokens[self._first : end].astype(np.int32).tobytes()
        self._next = 0


def _find_aligned(document: bytes, words: bytes, start: int) -> int:
    """Return the first place of some tokens in a document at or after a byte, or -1."""
    place = document.find(words, start) if words else -1
    while place % 4 and place >= 0:  # in the middle of a token
        place = document.find(words, place + 1)
    return place


def _compare(examples: Examples, positions: Ints, text: GoldText, own_labels: Ints) -> Comparison:
    """Compare the mentions of N rows with gold; see `Alignment`.

    Args:
        examples: The rows.
        positions: `[N]`, their first tokens in `text.tokens`, or -1.
        text: The gold text.
        own_labels: See `Alignment`.
    """
    # Only mentions that gold could have are compared: of its text and with one of its labels.
    gold = _gold_rows(examples, positions, text)
    labels = own_labels[examples.span_labels.values]
    rows = np.repeat(np.arange(len(examples)), examples.span_starts.lengths)
    is_known = (labels >= 0) & (positions[rows] >= 0)

    own_keys = _keys(examples, labels, len(own_labels))
    gold_keys = _keys(gold, gold.span_labels.values, len(own_labels))
    is_hit = is_known & np.isin(own_keys, gold_keys)
    return Comparison(
        is_compared=positions >= 0,
        spans=examples.span_starts,
        gold=gold,
        is_found=np.isin(gold_keys, own_keys[is_hit]),
        is_wrong=is_known & ~is_hit,
        is_known=is_known,
    )


def _count(examples: Examples, comparison: Comparison, own_labels: Ints, num_labels: int) -> Ints:
    """Return the number of found, gold and own mentions of each label, `[L, 3]`."""
    gold = comparison.gold.span_labels.values
    own = own_labels[examples.span_labels.values[comparison.is_known]]
    columns = (gold[comparison.is_found], gold, own)
    counts = [np.bincount(labels, minlength=num_labels) for labels in columns]
    return np.stack(counts, axis=1)


def _gold_rows(examples: Examples, positions: Ints, text: GoldText) -> Examples:
    """Return rows with the gold mentions in place of their own."""
    tokens, places = _without_specials(examples)

    # Gold mentions that start in each row's text.
    firsts = np.searchsorted(text.starts, positions)
    lasts = np.searchsorted(text.starts, positions + tokens.lengths)
    offsets = make_offsets(np.where(positions < 0, 0, lasts - firsts))
    rows = np.repeat(np.arange(len(examples)), np.diff(offsets))
    mentions = np.arange(offsets[-1]) - offsets[rows] + firsts[rows]

    # Positions in the text become tokens of the row, special tokens included. A mention that goes
    # on in the next row ends with this one.
    shift = tokens.offsets[rows] - positions[rows]
    row_starts = examples.input_ids.offsets[rows]
    starts = places[text.starts[mentions] + shift] - row_starts
    ends = np.minimum(text.ends[mentions] + shift, tokens.offsets[rows + 1])
    ends = places[ends - 1] + 1 - row_starts
    return dataclasses.replace(
        examples,
        span_starts=Ragged(starts, offsets),
        span_ends=Ragged(ends, offsets),
        span_labels=Ragged(text.labels[mentions], offsets),
    )


def _number_labels(
    labels: Sequence[str], compared: Sequence[str], names: Mapping[str, str]
) -> Ints:
    """Return the number of each label among the compared ones, -1 for a label that is not."""
    numbers = {label: number for number, label in enumerate(compared)}
    return np.array([numbers.get(names.get(label, label), -1) for label in labels], np.int64)


def _read_chunks(split: Split) -> Iterator[tuple[int, Examples, list[str]]]:
    """Yield the number of a chunk's first row, its rows and their document ids."""
    for start, examples in read_chunks(split, _CHUNK):
        rows = np.arange(start, start + len(examples))
        yield start, examples, read_column(split, "doc_id", rows)


def _without_specials(examples: Examples) -> tuple[Ragged, Ints]:
    """Return the tokens that are not special, and the place of each among all tokens."""
    places = np.flatnonzero(examples.word_ids.values >= 0)
    offsets = np.searchsorted(places, examples.input_ids.offsets)
    return Ragged(examples.input_ids.values[places], offsets), places


def _keys(examples: Examples, labels: Ints, num_labels: int) -> Ints:
    """Return a number for each mention that only equal mentions of the same row share."""
    size = int(examples.input_ids.lengths.max(initial=0)) + 1
    rows = np.repeat(np.arange(len(examples)), examples.span_starts.lengths)
    starts = examples.span_starts.values.astype(np.int64)
    ends = examples.span_ends.values.astype(np.int64)
    return ((rows * size + starts) * size + ends) * num_labels + labels
