"""Count a corpus before masking: lengths, labels, mentions and terms.

A *term* is the text of a mention without case and white space, as `metrics.KnownMentions` compares
mentions. "IL-2" and "il - 2" are the same term.

Splits are read chunk by chunk. Besides a chunk, memory holds histograms, up to `MAX_TERMS` terms
per split, and a hash of each term of the training split.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import tokenizers

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged, count_up, make_offsets
from mslm_data.kernels.tokens import count_words
from mslm_data.lexicon.word_types import word_strings
from mslm_data.shard.split import CHUNK
from mslm_data.stats.overlap import NormalWords, sentence_hashes
from mslm_data.stats.tally import count_row_words

if TYPE_CHECKING:
    from mslm_data.shard.split import Split

TRAINING = "train"
"""The split whose terms count as seen in other splits."""
MAX_TERMS = 500_000
"""Maximum number of terms to count in a split. Mentions of further terms are counted together."""
TOP = 20
"""Default number of terms to list."""

_SAMPLE_CHUNK = 1024
"""Number of consecutive rows in a sample."""

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]


class LabelMentions(NamedTuple):
    """The mentions of one label.

    Attributes:
        mentions: Number of mentions.
        tokens: Number of tokens in mentions.
        single_words: Number of mentions of a single word.
    """

    mentions: int
    tokens: int
    single_words: int


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
        maskable_tokens: Number of non-special tokens.
        words: Number of words.
        row_lengths: At k, number of rows of k tokens, with special tokens.
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
    maskable_tokens: int
    words: int
    row_lengths: tuple[int, ...]
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
    is_sampled = max_rows is not None and any(len(split) > max_rows for split in splits.values())
    total = sum(min(len(split), max_rows or len(split)) for split in splits.values())
    done = 0
    progress(done, total)

    # Count the training split first: its terms are then known in the others.
    seen: Hashes | None = None
    counts = {}
    for name in sorted(splits, key=lambda name: name != TRAINING):
        tally = _Tally(splits[name].labels, seen)
        hashes = []
        for first, examples in _chunks(splits[name], max_rows):
            hashes.append(np.unique(tally.add(first, examples, characters)))
            done += len(examples)
            progress(done, total)

        if name == TRAINING and not is_sampled:
            seen = np.unique(np.concatenate([np.empty(0, np.uint64), *hashes]))
        counts[name] = tally.counts(len(splits[name]), top)
    return {name: counts[name] for name in splits}


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


def term_hashes(examples: Examples, characters: TermCharacters) -> Hashes:
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


class TermCounts:
    """Counts up to `MAX_TERMS` terms, with the position of each first mention.

    Attributes:
        overflow: Number of mentions of further terms.
    """

    def __init__(self) -> None:
        """Start without terms."""
        # By hash, in order of first mention: number of mentions, and row, first token, token after
        # the last and label of the first mention.
        self._mentions: Counter[int] = Counter()
        self._first: dict[int, list[int]] = {}
        self._ambiguous: set[int] = set()
        self.overflow = 0

    def __len__(self) -> int:
        return len(self._first)

    def add(self, hashes: Hashes, mentions: Ints) -> None:
        """Count mentions.

        Args:
            hashes: uint64 `[M]`, the hash of each mention's term.
            mentions: int64 `[M, 4]`: row, first token, token after the last, and label.
        """
        terms, firsts, places, counts = np.unique(
            hashes, return_index=True, return_inverse=True, return_counts=True
        )
        labels = mentions[:, 3]
        has_others = np.zeros(len(terms), np.bool_)
        has_others[places[labels != labels[firsts][places]]] = True

        order = np.argsort(firsts)
        columns = (terms, mentions[firsts], counts, has_others)
        listed = [column[order].tolist() for column in columns]
        for term, first, count, is_ambiguous in zip(*listed, strict=True):
            if term not in self._first and len(self) >= MAX_TERMS:
                self.overflow += count
                continue

            self._mentions[term] += count
            label = self._first.setdefault(term, first)[3]
            if is_ambiguous or first[3] != label:
                self._ambiguous.add(term)

    def top(self, count: int, labels: Sequence[str]) -> tuple[TermCount, ...]:
        """Return the most frequent terms. Ties in order of first mention.

        Args:
            count: Maximum number of terms.
            labels: Labels, by index.
        """
        terms = []
        for term, mentions in self._mentions.most_common(count):
            row, start, end, label = self._first[term]
            terms.append(
                TermCount(
                    mentions=mentions,
                    label=labels[label],
                    is_ambiguous=term in self._ambiguous,
                    row=row,
                    start=start,
                    end=end,
                )
            )
        return tuple(terms)


class _Tally:
    """Accumulates the counts of one split."""

    def __init__(self, labels: Sequence[str], seen: Hashes | None) -> None:
        """Start without rows.

        Args:
            labels: Labels, by `span_labels`.
            seen: uint64, the terms of the training split. None to count no unseen terms.
        """
        self._labels = labels
        self._seen = seen
        self._rows = 0
        self._maskable = 0
        self._words = 0
        self._row_lengths = np.zeros(1, np.int64)
        self._mentions = np.zeros(len(labels), np.int64)
        self._single_words = np.zeros(len(labels), np.int64)
        self._tokens = np.zeros(len(labels), np.int64)
        self._terms = TermCounts()
        self._unseen = TermCounts()
        self._unseen_labels = np.zeros(len(labels), np.int64)

    def add(self, first: int, examples: Examples, characters: TermCharacters) -> Hashes:
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

        self._maskable += int(np.count_nonzero(examples.word_ids.values >= 0))
        self._words += int(count_row_words(examples).sum())

        tokens, word_ids = _mention_tokens(examples)
        words_per_mention = np.empty(len(tokens), np.int64)
        count_words(tokens.offsets, word_ids, words_per_mention)
        labels = examples.span_labels.values.astype(np.int64)
        np.add.at(self._mentions, labels, 1)
        np.add.at(self._single_words, labels, words_per_mention == 1)
        np.add.at(self._tokens, labels, tokens.lengths)

        hashes = sentence_hashes(characters.hashes(tokens, word_ids))
        rows = np.repeat(np.arange(len(examples)), examples.span_starts.lengths) + first
        columns = (rows, examples.span_starts.values, examples.span_ends.values, labels)
        mentions = np.stack(columns, axis=1)
        self._terms.add(hashes, mentions)
        if self._seen is not None:
            is_unseen = ~np.isin(hashes, self._seen)
            self._unseen.add(hashes[is_unseen], mentions[is_unseen])
            self._unseen_labels += np.bincount(labels[is_unseen], minlength=len(self._labels))
        return hashes

    def counts(self, all_rows: int, top: int) -> SplitCounts:
        """Return the counts of all rows added so far."""
        lengths = self._row_lengths
        counts = np.stack([self._mentions, self._tokens, self._single_words], axis=1).tolist()
        labels = {
            label: LabelMentions(*row) for label, row in zip(self._labels, counts, strict=True)
        }
        unseen = None
        if self._seen is not None:
            unseen = Unseen(
                terms=len(self._unseen),
                mentions=int(self._unseen_labels.sum()),
                by_label=dict(zip(self._labels, self._unseen_labels.tolist(), strict=True)),
                top=self._unseen.top(top, self._labels),
            )
        return SplitCounts(
            rows=self._rows,
            all_rows=all_rows,
            tokens=int(lengths @ np.arange(len(lengths))),
            maskable_tokens=self._maskable,
            words=self._words,
            row_lengths=tuple(lengths.tolist()),
            labels=labels,
            terms=len(self._terms),
            overflow=self._terms.overflow,
            top=self._terms.top(top, self._labels),
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
