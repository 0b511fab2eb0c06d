"""Counts a corpus before anything is masked: lengths, labels, mentions, terms, and what was lost.

A *term* is what a mention says: its normal words, as `stats.overlap` compares sentences. So "IL-2"
and "il 2" are one term, and a mention of nothing but punctuation is none.

Splits are read chunk by chunk. What is held besides are histograms and a table of at most
`MOST_TERMS` terms for each split, so that memory does not grow with the number of rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import tokenizers

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged, make_offsets
from mslm_data.encode.word_table import Growing
from mslm_data.kernels.hashing import EMPTY
from mslm_data.kernels.term_counts import find_terms, move_terms, number_terms
from mslm_data.kernels.tokens import count_words
from mslm_data.lexicon.word_types import word_strings
from mslm_data.shard.row_protocol import CHUNK
from mslm_data.stats.overlap import NormalWords, sentence_hashes

if TYPE_CHECKING:
    from mslm_data.shard.manifest import SplitRecord
    from mslm_data.shard.split import Split

TRAINING = "train"
"""The split in which terms are seen before those of other splits."""
MOST_TERMS = 500_000
"""Maximum number of terms that are told apart in a split; mentions of others are counted as one."""
LONGEST_MENTION = 16
"""The last place of the histograms of mentions, which counts longer ones too."""
MOST_MENTIONS = 32
"""The last place of the histogram of mentions in a row, which counts rows with more too."""
TOP = 20
"""Default number of terms that are named."""

_SAMPLE_CHUNK = 1024
"""Rows that a sample takes side by side."""
_NUMBER = re.compile(r"\d+")

Ints = npt.NDArray[np.int64]


class LabelMentions(NamedTuple):
    """The mentions of one label.

    Attributes:
        mentions: Number of mentions.
        tokens: Sub-words in them.
        by_words: At k, number of mentions of k words; at `LONGEST_MENTION`, of that many or more.
    """

    mentions: int
    tokens: int
    by_words: tuple[int, ...]


class TermCount(NamedTuple):
    """A term, how often it is mentioned, and where first, so that its text can be looked up.

    Attributes:
        mentions: Number of its mentions.
        label: The label of its first mention.
        is_ambiguous: Whether other mentions have other labels.
        row: The row of its first mention.
        start: The first token of that mention, counted within the row.
        end: Half open.
    """

    mentions: int
    label: str
    is_ambiguous: bool
    row: int
    start: int
    end: int


class Unseen(NamedTuple):
    """The terms of a split that no mention of the training split has.

    Attributes:
        terms: Number of these terms.
        mentions: Number of their mentions.
        by_label: Label -> number of its mentions whose term is unseen.
        top: The most frequent of these terms.
    """

    terms: int
    mentions: int
    by_label: Mapping[str, int]
    top: tuple[TermCount, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitCounts:
    """Counts of the rows of a split, or of a sample of them.

    Attributes:
        rows: Number of rows that were counted.
        all_rows: Number of rows of the split; more than `rows` in a sample.
        tokens: Sub-words, special tokens included.
        words: Words.
        row_lengths: At k, number of rows of k tokens, special ones included.
        mentions_per_row: At k, number of rows with k mentions; at `MOST_MENTIONS`, with that many
            or more. Zeros at the end are left out.
        labels: Label -> its mentions.
        terms: Number of different terms, at most `MOST_TERMS`.
        untold: Mentions of further terms, which are not told apart.
        wordless: Mentions without a letter or digit that the tokenizer knows.
        top: The most frequent terms.
        unseen: What the training split lacks; None for the training split itself, in a sample, and
            where there is no training split.
    """

    rows: int
    all_rows: int
    tokens: int
    words: int
    row_lengths: tuple[int, ...]
    mentions_per_row: tuple[int, ...]
    labels: Mapping[str, LabelMentions]
    terms: int
    untold: int
    wordless: int
    top: tuple[TermCount, ...]
    unseen: Unseen | None = None

    @property
    def mentions(self) -> int:
        """Number of mentions."""
        return sum(label.mentions for label in self.labels.values())

    @property
    def mention_tokens(self) -> int:
        """Sub-words in mentions."""
        return sum(label.tokens for label in self.labels.values())

    @property
    def is_sample(self) -> bool:
        """Whether rows were left out."""
        return self.rows < self.all_rows


def count_corpus(
    splits: Mapping[str, Split],
    words: NormalWords,
    *,
    most_rows: int | None = None,
    top: int = TOP,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, SplitCounts]:
    """Count the rows, mentions and terms of the splits of one folder.

    Splits besides the training split are read twice: which of their terms are unseen is known only
    after the training split.

    Args:
        splits: Name -> split.
        words: Of the folder's tokenizer.
        most_rows: Maximum number of rows of a split; of a larger split, ranges of rows spread over
            it are counted, and nothing is unseen, as most of training is not looked at. None: all.
        top: Number of terms that are named.
        progress: Called with the rows that are read, and all rows to read. What it raises ends the
            counting.

    Raises:
        ShardError: A shard is missing or damaged, or has changed meanwhile.
    """
    sampled = most_rows is not None and any(len(split) > most_rows for split in splits.values())
    held_out = [name for name in splits if name != TRAINING]
    compares = TRAINING in splits and not sampled

    sizes = {name: min(len(split), most_rows or len(split)) for name, split in splits.items()}
    total = sum(sizes.values()) + compares * sum(sizes[name] for name in held_out)
    done = 0

    def chunks(name: str) -> Iterator[tuple[int, Examples]]:
        nonlocal done
        for first, examples in _chunks(splits[name], most_rows):
            yield first, examples
            done += len(examples)
            progress(done, total)

    progress(0, total)
    tallies = {name: _Tally(split.labels) for name, split in splits.items()}
    for name in held_out:
        for first, examples in chunks(name):
            tallies[name].add(first, examples, words)

    seen = {name: np.zeros(len(tallies[name].terms), np.bool_) for name in held_out}
    if TRAINING in splits:
        for first, examples in chunks(TRAINING):
            hashes = tallies[TRAINING].add(first, examples, words)
            for name, is_seen in seen.items() if compares else ():
                numbers = tallies[name].terms.find(hashes)
                is_seen[numbers[numbers >= 0]] = True

    unseen = {}
    for name in held_out if compares else ():
        by_label = np.zeros(len(splits[name].labels), np.int64)
        for _, examples in chunks(name):
            mentions = mention_hashes(examples, words)
            numbers = tallies[name].terms.find(mentions.hashes)
            is_unseen = (numbers >= 0) & ~seen[name][numbers]
            labels = examples.span_labels.values[mentions.places[is_unseen]]
            by_label += np.bincount(labels, minlength=len(by_label))
        unseen[name] = tallies[name].unseen(~seen[name], by_label, top)

    return {
        name: tallies[name].counts(len(split), top, unseen.get(name))
        for name, split in splits.items()
    }


def _chunks(split: Split, most_rows: int | None) -> Iterator[tuple[int, Examples]]:
    """Give chunks of a split, or of a sample of it, each with the number of its first row."""
    if most_rows is None or len(split) <= most_rows:
        first = 0
        for examples in split.chunks(CHUNK):
            yield first, examples
            first += len(examples)
        return

    parts = -(-most_rows // _SAMPLE_CHUNK)
    size = most_rows // parts
    for part in range(parts):
        first = part * (len(split) - size) // max(parts - 1, 1)
        yield first, split.examples(first, first + size)


# Terms --------------------------------------------------------------------------------------------


class MentionHashes(NamedTuple):
    """The terms of the mentions of some rows, those without words left out.

    Attributes:
        hashes: uint64 `[M]`, a hash of the term of each.
        places: int64 `[M]`, where each stands among all mentions of the rows.
    """

    hashes: npt.NDArray[np.uint64]
    places: Ints


def mention_hashes(examples: Examples, words: NormalWords) -> MentionHashes:
    """Hash the term of each mention of some rows."""
    tokens, word_ids = _mention_tokens(examples)
    normal = words.hashes(tokens, word_ids)
    places = np.flatnonzero(normal.lengths)
    return MentionHashes(sentence_hashes(normal)[places], places)


def _mention_tokens(examples: Examples) -> tuple[Ragged, npt.NDArray[np.int32]]:
    """Return the tokens of each mention, and the numbers of their words."""
    starts = examples.span_starts
    firsts = starts.values + np.repeat(examples.input_ids.offsets[:-1], starts.lengths)
    lengths = examples.span_ends.values - starts.values
    offsets = make_offsets(lengths)
    places = np.arange(offsets[-1]) + np.repeat(firsts - offsets[:-1], lengths)
    tokens = Ragged(examples.input_ids.values[places], offsets)
    return tokens, examples.word_ids.values[places]


class TermTable:
    """Counts at most `MOST_TERMS` terms, and remembers where each was mentioned first.

    Attributes:
        untold: Number of mentions of terms that found no room.
    """

    def __init__(self) -> None:
        """Begin with no term."""
        self._keys = np.full(1024, EMPTY, np.uint64)
        self._numbers = np.zeros(1024, np.int32)
        self._counts = Growing(np.zeros(0, np.int64))
        self._first = Growing(np.zeros((0, 4), np.int64))
        self._is_ambiguous = Growing(np.zeros(0, np.bool_))
        self.untold = 0

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def counts(self) -> Ints:
        """Number of mentions of each term, `[n]`."""
        return self._counts.values

    def add(self, hashes: npt.NDArray[np.uint64], mentions: Ints) -> None:
        """Count mentions.

        Args:
            hashes: uint64 `[M]`, of their terms.
            mentions: int64 `[M, 4]`: row, first token, token after the last, and label of each.
        """
        known = len(self)
        self._grow(min(known + len(hashes), MOST_TERMS))
        firsts = np.empty(len(hashes), np.int64)
        numbers = np.empty(len(hashes), np.int64)
        now = number_terms(hashes, self._keys, self._numbers, known, MOST_TERMS, firsts, numbers)

        self._first.extend(mentions[firsts[: now - known]])
        self._counts.extend(np.zeros(now - known, np.int64))
        self._is_ambiguous.extend(np.zeros(now - known, np.bool_))

        told = numbers >= 0
        self.untold += int(np.count_nonzero(~told))
        numbers = numbers[told]
        np.add.at(self._counts.values, numbers, 1)

        differs = mentions[told, 3] != self._first.values[numbers, 3]
        self._is_ambiguous.values[numbers[differs]] = True

    def find(self, hashes: npt.NDArray[np.uint64]) -> Ints:
        """Return the number of each term, -1 for one that is not here."""
        numbers = np.empty(len(hashes), np.int64)
        find_terms(hashes, self._keys, self._numbers, numbers)
        return numbers

    def top(
        self, count: int, labels: Sequence[str], among: npt.NDArray[np.bool_] | None = None
    ) -> tuple[TermCount, ...]:
        """Return the most frequent terms; of equals, the first in the split comes first.

        Args:
            count: Maximum number of terms.
            labels: The label of each index.
            among: bool `[n]`, the terms to choose from; None for all.
        """
        counts = self.counts if among is None else np.where(among, self.counts, 0)
        order = np.argsort(-counts, kind="stable")[:count]
        return tuple(
            TermCount(
                mentions=int(counts[number]),
                label=labels[label],
                is_ambiguous=bool(self._is_ambiguous.values[number]),
                row=row,
                start=start,
                end=end,
            )
            for number, (row, start, end, label) in zip(
                order.tolist(), self._first.values[order].tolist(), strict=True
            )
            if counts[number]
        )

    def _grow(self, most: int) -> None:
        """Make room for as many terms: half of the places stay empty."""
        if len(self._keys) >= 2 * most:
            return
        keys = np.full(1 << (4 * most - 1).bit_length(), EMPTY, np.uint64)
        numbers = np.zeros(len(keys), np.int32)
        move_terms(self._keys, self._numbers, keys, numbers)
        self._keys = keys
        self._numbers = numbers


class _Tally:
    """Adds up the rows of one split."""

    def __init__(self, labels: Sequence[str]) -> None:
        self._labels = labels
        self._rows = 0
        self._words = 0
        self._wordless = 0
        self._row_lengths = np.zeros(1, np.int64)
        self._per_row = np.zeros(MOST_MENTIONS + 1, np.int64)
        self._by_words = np.zeros((len(labels), LONGEST_MENTION + 1), np.int64)
        self._tokens = np.zeros(len(labels), np.int64)
        self.terms = TermTable()

    def add(self, first: int, examples: Examples, words: NormalWords) -> npt.NDArray[np.uint64]:
        """Add rows from number `first` on, and return the hashes of their terms."""
        self._rows += len(examples)
        lengths = np.bincount(examples.input_ids.lengths, minlength=len(self._row_lengths))
        lengths[: len(self._row_lengths)] += self._row_lengths
        self._row_lengths = lengths

        of_rows = np.empty(len(examples), np.int64)
        count_words(examples.word_ids.offsets, examples.word_ids.values, of_rows)
        self._words += int(of_rows.sum())

        mentions = np.minimum(examples.span_starts.lengths, MOST_MENTIONS)
        self._per_row += np.bincount(mentions, minlength=MOST_MENTIONS + 1)

        tokens, word_ids = _mention_tokens(examples)
        in_words = np.empty(len(tokens), np.int64)
        count_words(tokens.offsets, word_ids, in_words)
        labels = examples.span_labels.values.astype(np.int64)
        np.add.at(self._by_words, (labels, np.minimum(in_words, LONGEST_MENTION)), 1)
        np.add.at(self._tokens, labels, tokens.lengths)

        found = mention_hashes(examples, words)
        rows = np.repeat(np.arange(len(examples)), examples.span_starts.lengths) + first
        columns = (rows, examples.span_starts.values, examples.span_ends.values, labels)
        self.terms.add(found.hashes, np.stack(columns, axis=1)[found.places])
        self._wordless += len(tokens) - len(found.places)
        return found.hashes

    def unseen(self, is_unseen: npt.NDArray[np.bool_], by_label: Ints, top: int) -> Unseen:
        """Return what is unseen.

        Args:
            is_unseen: bool `[n]`, of each term.
            by_label: int64 `[L]`, mentions of unseen terms.
            top: Number of terms that are named.
        """
        return Unseen(
            terms=int(np.count_nonzero(is_unseen)),
            mentions=int(self.terms.counts[is_unseen].sum()),
            by_label=dict(zip(self._labels, by_label.tolist(), strict=True)),
            top=self.terms.top(top, self._labels, is_unseen),
        )

    def counts(self, all_rows: int, top: int, unseen: Unseen | None) -> SplitCounts:
        """Return the counts of all rows that were added."""
        lengths = self._row_lengths
        labels = {
            label: LabelMentions(int(by_words.sum()), int(tokens), tuple(by_words.tolist()))
            for label, tokens, by_words in zip(
                self._labels, self._tokens, self._by_words, strict=True
            )
        }
        return SplitCounts(
            rows=self._rows,
            all_rows=all_rows,
            tokens=int(lengths @ np.arange(len(lengths))),
            words=self._words,
            row_lengths=tuple(lengths.tolist()),
            mentions_per_row=tuple(np.trim_zeros(self._per_row, "b").tolist()),
            labels=labels,
            terms=len(self.terms),
            untold=self.terms.untold,
            wordless=self._wordless,
            top=self.terms.top(top, self._labels),
            unseen=unseen,
        )


def term_texts(
    split: Split, terms: Iterable[TermCount], tokenizer: tokenizers.Tokenizer
) -> list[str]:
    """Return the text of the first mention of each term, as the tokenizer decodes its words.

    Raises:
        ShardError: A shard is missing or damaged.
    """
    texts = []
    for term in terms:
        examples = split.examples(term.row, term.row + 1)
        ids = examples.input_ids.values[term.start : term.end]
        of_words = examples.word_ids.values[term.start : term.end]
        words = np.split(ids, np.flatnonzero(np.diff(of_words)) + 1)
        texts.append(" ".join(word_strings(Ragged.from_rows(words, np.int32), tokenizer)))
    return texts


# What was lost ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """What a build read of a split, and what became of it, by reason.

    Attributes:
        read: Documents that were read.
        written: Documents with a row.
        given_mentions: Mentions that the source or the annotator gave.
        mentions: Mentions in rows.
        not_chosen: Reason -> records that the pipeline did not choose.
        set_aside: Reason -> documents without a row. Numbers within reasons are left out.
        left_out: Reason -> mentions that are in no row.
        changed: Reason -> mentions that differ from the source's.
        copies: `exact` and `near` -> documents that are copies of others, where they are counted.
    """

    read: int
    written: int
    given_mentions: int
    mentions: int
    not_chosen: Mapping[str, int]
    set_aside: Mapping[str, int]
    left_out: Mapping[str, int]
    changed: Mapping[str, int]
    copies: Mapping[str, int] = field(default_factory=dict)


class _SetAside(msgspec.Struct):
    """A line of `set_aside.jsonl`, as far as it is counted."""

    split: str
    reason: str


def count_losses(
    records: Mapping[str, SplitRecord], set_aside: Iterable[bytes]
) -> dict[str, Losses]:
    """Count what a build lost of each split.

    Args:
        records: Name of a split -> what the manifest says of it.
        set_aside: The lines of `set_aside.jsonl`.

    Raises:
        msgspec.DecodeError: A line that is not one of `set_aside.jsonl`.
    """
    decode = msgspec.json.Decoder(_SetAside).decode
    reasons: dict[str, Counter[str]] = {name: Counter() for name in records}
    for line in set_aside:
        aside = decode(line)
        if aside.split in reasons:
            reasons[aside.split][_NUMBER.sub("…", aside.reason)] += 1

    return {
        name: Losses(
            read=record.read,
            written=record.written,
            given_mentions=record.given_mentions,
            mentions=record.mentions,
            not_chosen=dict(record.not_chosen),
            set_aside=dict(reasons[name].most_common()),
            left_out=dict(record.left_out),
            changed={**record.adjusted, **_changed(record)},
            copies=dict(record.duplicates),
        )
        for name, record in records.items()
    }


def _changed(record: SplitRecord) -> dict[str, int]:
    """Return the mentions that encoding changed, by reason, none of them 0."""
    changed = {
        "longer than a row, and cut": record.cut_mentions,
        "widened to whole tokens": record.widened_mentions,
    }
    return {reason: count for reason, count in changed.items() if count}
