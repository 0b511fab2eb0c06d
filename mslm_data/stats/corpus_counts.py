"""Count a corpus before masking: lengths, labels, mentions, terms, and lost data.

A *term* is the text of a mention without case and white space, as `metrics.KnownMentions` compares
mentions. "IL-2" and "il - 2" are the same term.

Splits are read chunk by chunk. Besides a chunk, memory holds histograms and a table of at most
`MAX_TERMS` terms per split, so it does not grow with the number of rows.
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
from mslm_data.data.ragged import Ragged, count_up, make_offsets
from mslm_data.encode.word_table import Growing
from mslm_data.kernels.hashing import EMPTY
from mslm_data.kernels.term_counts import find_terms, move_terms, number_terms
from mslm_data.kernels.tokens import count_words
from mslm_data.lexicon.word_types import word_strings
from mslm_data.shard.split import CHUNK
from mslm_data.stats.overlap import NormalWords, sentence_hashes
from mslm_data.stats.tally import count_row_words

if TYPE_CHECKING:
    from mslm_data.shard.manifest import SplitRecord
    from mslm_data.shard.split import Split

TRAINING = "train"
"""The split whose terms count as seen in other splits."""
MAX_TERMS = 500_000
"""Maximum number of terms to count in a split. Mentions of further terms are counted together."""
LONGEST_MENTION = 16
"""Last bin of the histogram of words per mention, which also counts longer mentions."""
MAX_MENTIONS = 32
"""Last bin of the histogram of mentions per row, which also counts rows with more."""
TOP = 20
"""Default number of terms to list."""

_SAMPLE_CHUNK = 1024
"""Number of consecutive rows in a sample."""
_NUMBER = re.compile(r"\d+")

Ints = npt.NDArray[np.int64]


class LabelMentions(NamedTuple):
    """The mentions of one label.

    Attributes:
        mentions: Number of mentions.
        tokens: Number of tokens in mentions.
        by_words: At k, number of mentions of k words; at `LONGEST_MENTION`, of that length or more.
    """

    mentions: int
    tokens: int
    by_words: tuple[int, ...]


class TermCount(NamedTuple):
    """A term, and the position of its first mention, from which its text can be decoded.

    Attributes:
        mentions: Number of mentions.
        label: Label of the first mention.
        is_ambiguous: Whether other mentions have other labels.
        row: Row of the first mention.
        start: First token of that mention, counted from the start of the row.
        end: Token after its last.
    """

    mentions: int
    label: str
    is_ambiguous: bool
    row: int
    start: int
    end: int


class Unseen(NamedTuple):
    """The terms of a split that do not occur in the training split.

    Attributes:
        terms: Number of unseen terms.
        mentions: Number of their mentions.
        by_label: Label -> number of its mentions with an unseen term.
        top: The most frequent unseen terms.
    """

    terms: int
    mentions: int
    by_label: Mapping[str, int]
    top: tuple[TermCount, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitCounts:
    """Counts of the rows of a split, or of a sample of its rows.

    Attributes:
        rows: Number of counted rows.
        all_rows: Number of rows in the split. Above `rows` for a sample.
        tokens: Number of tokens, with special tokens.
        words: Number of words.
        row_lengths: At k, number of rows of k tokens, with special tokens.
        mentions_per_row: At k, number of rows with k mentions; at `MAX_MENTIONS`, with that number
            or more. Without trailing zeros.
        labels: Label -> its mentions.
        terms: Number of different terms, at most `MAX_TERMS`.
        overflow: Number of mentions of further terms.
        top: The most frequent terms.
        unseen: Terms that do not occur in the training split. None for the training split, for a
            sample, and without a training split.
    """

    rows: int
    all_rows: int
    tokens: int
    words: int
    row_lengths: tuple[int, ...]
    mentions_per_row: tuple[int, ...]
    labels: Mapping[str, LabelMentions]
    terms: int
    overflow: int
    top: tuple[TermCount, ...]
    unseen: Unseen | None = None

    @property
    def mentions(self) -> int:
        """Number of mentions."""
        return sum(label.mentions for label in self.labels.values())

    @property
    def mention_tokens(self) -> int:
        """Number of tokens in mentions."""
        return sum(label.tokens for label in self.labels.values())

    @property
    def is_sample(self) -> bool:
        """Whether only some rows were counted."""
        return self.rows < self.all_rows


def count_corpus(
    splits: Mapping[str, Split],
    characters: TermCharacters,
    *,
    max_rows: int | None = None,
    top: int = TOP,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, SplitCounts]:
    """Count the rows, mentions and terms of the splits of one folder.

    Splits besides the training split are read twice, because their unseen terms are known only
    after the training split has been read.

    Args:
        splits: Name -> split.
        characters: Characters of the folder's tokenizer.
        max_rows: Maximum number of rows per split. Of a larger split, a sample of ranges spread
            over the split is counted, without unseen terms. Default: no limit.
        top: Number of terms to list. Default: 20.
        progress: Callback with the number of rows read and the number of rows to read. An exception
            raised by it ends the count.

    Raises:
        ShardError: A shard is missing or damaged.
    """
    sampled = max_rows is not None and any(len(split) > max_rows for split in splits.values())
    held_out = [name for name in splits if name != TRAINING]
    compares = TRAINING in splits and not sampled

    sizes = {name: min(len(split), max_rows or len(split)) for name, split in splits.items()}
    total = sum(sizes.values()) + compares * sum(sizes[name] for name in held_out)
    done = 0

    def chunks(name: str) -> Iterator[tuple[int, Examples]]:
        nonlocal done
        for first, examples in _chunks(splits[name], max_rows):
            yield first, examples
            done += len(examples)
            progress(done, total)

    # First pass: count the other splits before the training split. Each training mention is then
    # looked up in their tables, so none is missed if the table of the training split is full.
    progress(0, total)
    tallies = {name: _Tally(split.labels) for name, split in splits.items()}
    for name in held_out:
        for first, examples in chunks(name):
            tallies[name].add(first, examples, characters)

    seen = {name: np.zeros(len(tallies[name].terms), np.bool_) for name in held_out}
    if TRAINING in splits:
        for first, examples in chunks(TRAINING):
            hashes = tallies[TRAINING].add(first, examples, characters)
            for name, is_seen in seen.items() if compares else ():
                numbers = tallies[name].terms.find(hashes)
                is_seen[numbers[numbers >= 0]] = True

    # Second pass over the other splits: count mentions of unseen terms by label.
    unseen = {}
    for name in held_out if compares else ():
        by_label = np.zeros(len(splits[name].labels), np.int64)
        for _, examples in chunks(name):
            numbers = tallies[name].terms.find(term_hashes(examples, characters))
            is_unseen = (numbers >= 0) & ~seen[name][numbers]
            labels = examples.span_labels.values[is_unseen]
            by_label += np.bincount(labels, minlength=len(by_label))
        unseen[name] = tallies[name].unseen(~seen[name], by_label, top)

    return {
        name: tallies[name].counts(len(split), top, unseen.get(name))
        for name, split in splits.items()
    }


def _chunks(split: Split, max_rows: int | None) -> Iterator[tuple[int, Examples]]:
    """Yield chunks of a split, or of a sample of it, with the index of their first row."""
    if max_rows is None or len(split) <= max_rows:
        first = 0
        for examples in split.chunks(CHUNK):
            yield first, examples
            first += len(examples)
        return

    # Ranges of equal size, spread evenly over the split.
    parts = -(-max_rows // _SAMPLE_CHUNK)
    size = max_rows // parts
    for part in range(parts):
        first = part * (len(split) - size) // max(parts - 1, 1)
        yield first, split.examples(first, first + size)


# Terms --------------------------------------------------------------------------------------------


class TermCharacters(NormalWords):
    """Converts the tokens of mentions to hashes of characters, without case and white space.

    Characters, unlike words, do not depend on how a corpus divides its text into words.
    """

    def _split(self, text: str, *, is_unknown: bool) -> list[str]:  # noqa: ARG002
        # An unknown word stays `[UNK]`. Without it, the term would equal another one.
        return list("".join(text.split()).casefold())


def term_hashes(examples: Examples, characters: TermCharacters) -> npt.NDArray[np.uint64]:
    """Hash the term of each mention in some rows, uint64 `[S]`."""
    return sentence_hashes(characters.hashes(*_mention_tokens(examples)))


def _mention_tokens(examples: Examples) -> tuple[Ragged, npt.NDArray[np.int32]]:
    """Return the tokens of each mention, and their word numbers."""
    starts = examples.span_starts
    firsts = starts.values + np.repeat(examples.input_ids.offsets[:-1], starts.lengths)
    lengths = examples.span_ends.values - starts.values
    places = count_up(firsts, lengths)
    tokens = Ragged(examples.input_ids.values[places], make_offsets(lengths))
    return tokens, examples.word_ids.values[places]


class TermTable:
    """Counts up to `MAX_TERMS` terms, with the position of each first mention.

    Attributes:
        overflow: Number of mentions of further terms.
    """

    def __init__(self) -> None:
        """Start without terms."""
        self._keys = np.full(1024, EMPTY, np.uint64)
        self._numbers = np.zeros(1024, np.int32)
        self._counts = Growing(np.zeros(0, np.int64))
        self._first = Growing(np.zeros((0, 4), np.int64))
        self._is_ambiguous = Growing(np.zeros(0, np.bool_))
        self.overflow = 0

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def counts(self) -> Ints:
        """Number of mentions of each term, int64 `[n]`."""
        return self._counts.values

    def add(self, hashes: npt.NDArray[np.uint64], mentions: Ints) -> None:
        """Count mentions.

        Args:
            hashes: uint64 `[M]`, the hash of each mention's term.
            mentions: int64 `[M, 4]`: row, first token, token after the last, and label.
        """
        known = len(self)
        self._grow(min(known + len(hashes), MAX_TERMS))
        # Number the terms. New terms get the numbers from `known` on, terms beyond MAX_TERMS -1.
        firsts = np.empty(len(hashes), np.int64)
        numbers = np.empty(len(hashes), np.int64)
        now = number_terms(hashes, self._keys, self._numbers, known, MAX_TERMS, firsts, numbers)

        self._first.extend(mentions[firsts[: now - known]])
        self._counts.extend(np.zeros(now - known, np.int64))
        self._is_ambiguous.extend(np.zeros(now - known, np.bool_))

        is_counted = numbers >= 0
        self.overflow += int(np.count_nonzero(~is_counted))
        numbers = numbers[is_counted]
        np.add.at(self._counts.values, numbers, 1)

        differs = mentions[is_counted, 3] != self._first.values[numbers, 3]
        self._is_ambiguous.values[numbers[differs]] = True

    def find(self, hashes: npt.NDArray[np.uint64]) -> Ints:
        """Return the number of each term; -1 for unknown terms."""
        numbers = np.empty(len(hashes), np.int64)
        find_terms(hashes, self._keys, self._numbers, numbers)
        return numbers

    def top(
        self, count: int, labels: Sequence[str], eligible: npt.NDArray[np.bool_] | None = None
    ) -> tuple[TermCount, ...]:
        """Return the most frequent terms. Ties in order of first mention.

        Args:
            count: Maximum number of terms.
            labels: Labels, by index.
            eligible: bool `[n]`, the terms to choose from. Default: all.
        """
        counts = self.counts if eligible is None else np.where(eligible, self.counts, 0)
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

    def _grow(self, count: int) -> None:
        """Make room for a number of terms, with at least half of the hash table empty."""
        if len(self._keys) >= 2 * count:
            return
        keys = np.full(1 << (4 * count - 1).bit_length(), EMPTY, np.uint64)
        numbers = np.zeros(len(keys), np.int32)
        move_terms(self._keys, self._numbers, keys, numbers)
        self._keys = keys
        self._numbers = numbers


class _Tally:
    """Accumulates the counts of one split."""

    def __init__(self, labels: Sequence[str]) -> None:
        self._labels = labels
        self._rows = 0
        self._words = 0
        self._row_lengths = np.zeros(1, np.int64)
        self._per_row = np.zeros(MAX_MENTIONS + 1, np.int64)
        self._by_words = np.zeros((len(labels), LONGEST_MENTION + 1), np.int64)
        self._tokens = np.zeros(len(labels), np.int64)
        self.terms = TermTable()

    def add(
        self, first: int, examples: Examples, characters: TermCharacters
    ) -> npt.NDArray[np.uint64]:
        """Add rows, and return the hashes of their terms.

        Args:
            first: Index of the first row in the split.
            examples: The rows.
            characters: Characters of the tokenizer.
        """
        self._rows += len(examples)
        lengths = np.bincount(examples.input_ids.lengths, minlength=len(self._row_lengths))
        lengths[: len(self._row_lengths)] += self._row_lengths
        self._row_lengths = lengths

        self._words += int(count_row_words(examples).sum())

        mentions = np.minimum(examples.span_starts.lengths, MAX_MENTIONS)
        self._per_row += np.bincount(mentions, minlength=MAX_MENTIONS + 1)

        tokens, word_ids = _mention_tokens(examples)
        words_per_mention = np.empty(len(tokens), np.int64)
        count_words(tokens.offsets, word_ids, words_per_mention)
        labels = examples.span_labels.values.astype(np.int64)
        np.add.at(self._by_words, (labels, np.minimum(words_per_mention, LONGEST_MENTION)), 1)
        np.add.at(self._tokens, labels, tokens.lengths)

        hashes = sentence_hashes(characters.hashes(tokens, word_ids))
        rows = np.repeat(np.arange(len(examples)), examples.span_starts.lengths) + first
        columns = (rows, examples.span_starts.values, examples.span_ends.values, labels)
        self.terms.add(hashes, np.stack(columns, axis=1))
        return hashes

    def unseen(self, is_unseen: npt.NDArray[np.bool_], by_label: Ints, top: int) -> Unseen:
        """Return the counts of unseen terms.

        Args:
            is_unseen: bool `[n]`, whether each term is unseen.
            by_label: int64 `[L]`, number of mentions of unseen terms.
            top: Number of terms to list.
        """
        return Unseen(
            terms=int(np.count_nonzero(is_unseen)),
            mentions=int(self.terms.counts[is_unseen].sum()),
            by_label=dict(zip(self._labels, by_label.tolist(), strict=True)),
            top=self.terms.top(top, self._labels, is_unseen),
        )

    def counts(self, all_rows: int, top: int, unseen: Unseen | None) -> SplitCounts:
        """Return the counts of all rows added so far."""
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
            overflow=self.terms.overflow,
            top=self.terms.top(top, self._labels),
            unseen=unseen,
        )


def term_texts(
    split: Split, terms: Iterable[TermCount], tokenizer: tokenizers.Tokenizer
) -> list[str]:
    """Return the text of each term's first mention, decoded word by word.

    Raises:
        ShardError: A shard is missing or damaged.
    """
    texts = []
    for term in terms:
        examples = split.examples(term.row, term.row + 1)
        ids = examples.input_ids.values[term.start : term.end]
        word_ids = examples.word_ids.values[term.start : term.end]
        words = np.split(ids, np.flatnonzero(np.diff(word_ids)) + 1)
        texts.append(" ".join(word_strings(Ragged.from_rows(words, np.int32), tokenizer)))
    return texts


# What was lost ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Documents and mentions that a build read, kept and lost in a split, by reason.

    Attributes:
        read: Number of documents read.
        written: Number of documents with at least one row.
        given_mentions: Number of mentions from the source or annotator.
        mentions: Number of mentions in rows.
        not_chosen: Reason -> number of records that the pipeline did not choose.
        set_aside: Reason -> number of documents without rows. Numbers in reasons are replaced by
            "…".
        left_out: Reason -> number of mentions in no row.
        changed: Reason -> number of mentions that differ from the source's.
        copies: `exact` and `near` -> number of documents that are copies of others, if counted.
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
    """The counted fields of a line in `set_aside.jsonl`."""

    split: str
    reason: str


def count_losses(
    records: Mapping[str, SplitRecord], set_aside: Iterable[bytes]
) -> dict[str, Losses]:
    """Count the documents and mentions that a build lost in each split.

    Args:
        records: Name of a split -> its record in the manifest.
        set_aside: Lines of `set_aside.jsonl`.

    Raises:
        msgspec.DecodeError: A line is not valid.
    """
    decode = msgspec.json.Decoder(_SetAside).decode
    reasons: dict[str, Counter[str]] = {name: Counter() for name in records}
    for line in set_aside:
        # Numbers in reasons are replaced, so that reasons such as "line 3: …" count as one.
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
            copies=record.copies,
        )
        for name, record in records.items()
    }


def _changed(record: SplitRecord) -> dict[str, int]:
    """Return the number of mentions changed by encoding, by reason, without zeros."""
    changed = {
        "longer than a row, and cut": record.cut_mentions,
        "widened to whole tokens": record.widened_mentions,
    }
    return {reason: count for reason, count in changed.items() if count}
