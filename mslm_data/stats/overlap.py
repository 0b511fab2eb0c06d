"""Find the sentences that two splits share, exactly or nearly, for any tokenizers.

Sentences are compared by their *normal words*: the runs of letters and digits in the decoded text,
in lower case and without accents. Punctuation, case and white space do not matter, and running text
equals text cut into words. A word that contains `[UNK]` is ignored.

* Two sentences are equal if they have the same normal words in the same order.
* A sentence is nearly in a split if the split has a sentence with the same 13 consecutive normal
  words. Brown et al. 2020 (appendix C) search test sets in training text by this rule. A sentence
  of fewer than 13 words can only be found exactly.

A row is a sentence. A row of several joined sentences is several. Words are compared by 64-bit
hashes, so two different words are equal with probability 2^-64.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tokenizers

from mslm_data.data.examples import Examples, TokenIds
from mslm_data.data.ragged import Array, Ragged, make_offsets
from mslm_data.encode.word_table import Growing
from mslm_data.kernels.hashing import hash_ngrams, hash_rows
from mslm_data.lexicon.word_types import WordNumbers, word_strings
from mslm_data.shard.split import Split

WORDS = 13
"""Number of consecutive normal words that nearly equal sentences share."""

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_WORD = re.compile(r"[^\W_]+")
_MAX_TYPES = 500_000
"""Maximum number of cached word types. Above it, the cache is cleared, which bounds memory."""


# Normal words -------------------------------------------------------------------------------------


def normal_words(text: str) -> list[str]:
    """Return the runs of letters and digits of a text, in lower case and without accents."""
    if not text.isascii():
        apart = unicodedata.normalize("NFKD", text)
        text = "".join(char for char in apart if not unicodedata.combining(char))
    return _WORD.findall(text.casefold())


class NormalWords:
    """Converts the tokens of a tokenizer to hashes of normal words. Each word type is decoded once.

    Memory holds at most half a million word types.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer, ids: TokenIds) -> None:
        """Start without words.

        Args:
            tokenizer: The tokenizer of the rows.
            ids: Its special ids.
        """
        self._tokenizer = tokenizer
        self._ids = ids
        self._clear()

    def hashes(self, ids: Ragged, words: Array) -> Ragged:
        """Return the hashes of the normal words in N rows, uint64.

        Args:
            ids: int32, T tokens in N rows.
            words: int32 `[T]`, the word number of each token; -1 for special tokens.
        """
        if len(self._offsets.values) > _MAX_TYPES:
            self._clear()
        numbers = self._numbers.number_tokens(ids, words, size=self._ids.size)
        self._learn()

        # Look up the normal words of each token word, then regroup them by row.
        hashes = Ragged(self._hashes.values, self._offsets.values).take(
            numbers.values.astype(np.int64)
        )
        return Ragged(hashes.values, hashes.offsets[numbers.offsets])

    def _split(self, text: str, *, is_unknown: bool) -> list[str]:
        # A word with [UNK] has no known text, so it has no normal words.
        return [] if is_unknown else normal_words(text)

    def _clear(self) -> None:
        self._numbers = WordNumbers()
        self._offsets = Growing(np.zeros(1, np.int64))
        self._hashes = Growing(np.empty(0, np.uint64))

    def _learn(self) -> None:
        """Decode and hash the new word types."""
        types = self._numbers.tokens_from(len(self._offsets.values) - 1)
        if not len(types):
            return

        texts = word_strings(types, self._tokenizer)
        words = [
            self._split(text, is_unknown=self._ids.unk in tokens)
            for text, tokens in zip(texts, types.tolist(), strict=True)
        ]

        before = len(self._hashes.values)
        counts = np.fromiter(map(len, words), np.int64, len(words))
        self._offsets.extend(before + np.cumsum(counts))
        self._hashes.extend(
            np.array([_hash(word) for type_words in words for word in type_words], "<u8")
        )


@lru_cache(1 << 16)
def _hash(word: str) -> int:
    """Return a 64-bit hash of a word, equal on all machines."""
    digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


# Fingerprints -------------------------------------------------------------------------------------


class Places(NamedTuple):
    """Indices of sentences and 13-grams in a `Fingerprints`.

    Attributes:
        sentences: int64 `[N]`, the index of each sentence in `Fingerprints.sentences`, or -1.
        grams: int64, N rows: the index of each 13-gram in `Fingerprints.grams`, or -1.
    """

    sentences: Ints
    grams: Ragged


class Fingerprints:
    """The distinct hashes of sentences and of their 13-grams, the runs of 13 words.

    Each distinct hash takes 8 bytes. While hashes are collected and sorted, each takes up to 24.

    Attributes:
        sentences: uint64 `[S]`, ascending: the hashes of sentences with words.
        grams: uint64 `[G]`, ascending: the hashes of 13-grams.
    """

    def __init__(self, rows: Iterable[Ragged]) -> None:
        """Hash sentences and their 13-grams.

        Args:
            rows: Chunks of hashed normal words, one sentence per row.
        """
        sentences = []
        grams = []
        for words in rows:
            has_words = words.lengths > 0
            sentences.append(sentence_hashes(words)[has_words])
            grams.append(gram_hashes(words).values)
        self.sentences = _each_once(sentences)
        self.grams = _each_once(grams)

    def find(self, words: Ragged) -> Places:
        """Find the indices of sentences and of their 13-grams.

        Args:
            words: Hashed normal words of N sentences.
        """
        sentences = self.sentence_places(words)
        grams = gram_hashes(words)
        return Places(sentences, Ragged(_places(self.grams, grams.values), grams.offsets))

    def sentence_places(self, words: Ragged) -> Ints:
        """Find the indices of whole sentences, int64 `[N]`; see `Places.sentences`."""
        places = _places(self.sentences, sentence_hashes(words))
        places[words.lengths == 0] = -1
        return places


def sentence_hashes(words: Ragged) -> npt.NDArray[np.uint64]:
    """Hash each sentence from its hashed words, uint64 `[N]`."""
    out = np.empty(len(words), np.uint64)
    hash_rows(words.values, words.offsets, out)
    return out


def gram_hashes(words: Ragged) -> Ragged:
    """Hash each 13-gram from its hashed words, uint64, N rows."""
    offsets = make_offsets(np.maximum(words.lengths - WORDS + 1, 0))
    out = np.empty(offsets[-1], np.uint64)
    hash_ngrams(words.values, words.offsets, WORDS, out)
    return Ragged(out, offsets)


def has_any(places: Ragged) -> Bools:
    """Return whether each row has an index other than -1, bool `[N]`."""
    running_total = make_offsets(places.values >= 0)
    return np.diff(running_total[places.offsets]) > 0


def _each_once(parts: list[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    """Return the distinct hashes, sorted. The list is emptied to free memory."""
    # Free the parts before sorting, so that memory holds two copies at most.
    hashes = np.concatenate([np.empty(0, np.uint64), *parts])
    parts.clear()
    hashes.sort()
    is_first = np.ones(len(hashes), np.bool_)
    np.not_equal(hashes[1:], hashes[:-1], out=is_first[1:])
    return hashes[is_first]


def _places(known: npt.NDArray[np.uint64], hashes: npt.NDArray[np.uint64]) -> Ints:
    """Return the index of each hash in a sorted array, or -1."""
    if not len(known):
        return np.full(len(hashes), -1, np.int64)

    # Search in ascending order: consecutive searches then read the same memory.
    order = np.argsort(hashes)
    ascending = hashes[order]
    places = np.searchsorted(known, ascending)
    places[places == len(known)] = 0
    places[known[places] != ascending] = -1

    out = np.empty(len(hashes), np.int64)
    out[order] = places
    return out


# Two splits ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Overlap:
    """The sentences of one split that another split contains too.

    Attributes:
        sentences: Number of sentences in the first split.
        short: Number of sentences in `exact` with fewer than 13 words, which are often
            uninformative.
        exact: int64, ascending: the row of each sentence that equals a sentence of the other split.
        near: int64, ascending: the row of each other sentence that shares 13 consecutive words with
            a sentence of the other split.
    """

    sentences: int
    short: int
    exact: Ints
    near: Ints

    @property
    def share(self) -> float:
        """Share of the sentences that the other split contains, exactly or nearly."""
        return (len(self.exact) + len(self.near)) / max(self.sentences, 1)


def overlap(
    first: Split,
    second: Split,
    words_of_first: NormalWords,
    words_of_second: NormalWords,
    *,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> tuple[Overlap, Overlap]:
    """Find the sentences that two splits share.

    Memory holds the hashes of the smaller split only. The larger split is read once. The smaller
    split is read twice: to hash its sentences, and to look up which of them the larger split
    contains.

    Args:
        first: A split.
        second: Another split, with any tokenizer.
        words_of_first: Normal words of the tokenizer of `first`.
        words_of_second: Normal words of the tokenizer of `second`.
        progress: Callback with the number of rows read and the number of rows to read.

    Returns:
        The overlap of `first` with `second`, and of `second` with `first`.

    Raises:
        ShardError: A shard is missing or damaged.
    """
    if first.record.tokens > second.record.tokens:
        return overlap(second, first, words_of_second, words_of_first, progress=progress)[::-1]

    total = 2 * len(first) + len(second)
    done = 0
    progress(done, total)

    def rows(split: Split, words: NormalWords) -> Iterator[tuple[Ints, Ragged]]:
        """Yield the rows and words of sentences, chunk by chunk, and report progress."""
        nonlocal done
        before = done
        for row_of, sentences in hash_sentences(split, words):
            yield row_of, sentences
            done = before + int(row_of[-1]) + 1
            progress(done, total)

    known = Fingerprints(words for _, words in rows(first, words_of_first))

    # One item more than there are fingerprints: place -1, an unknown fingerprint, reads this last
    # item, which stays False.
    is_shared = np.zeros(len(known.sentences) + 1, np.bool_)
    is_shared_gram = np.zeros(len(known.grams) + 1, np.bool_)

    # Look up the larger split, and mark its fingerprints.
    second_counter = _OverlapCounter()
    for row_of, words in rows(second, words_of_second):
        places = known.find(words)
        is_shared[places.sentences[places.sentences >= 0]] = True
        is_shared_gram[places.grams.values[places.grams.values >= 0]] = True
        second_counter.add(row_of, words, places)

    # Read the smaller split again, and keep only marked fingerprints.
    first_counter = _OverlapCounter()
    for row_of, words in rows(first, words_of_first):
        places = known.find(words)
        places.sentences[~is_shared[places.sentences]] = -1
        places.grams.values[~is_shared_gram[places.grams.values]] = -1
        first_counter.add(row_of, words, places)
    return first_counter.overlap(), second_counter.overlap()


def hash_sentences(split: Split, words: NormalWords) -> Iterator[tuple[Ints, Ragged]]:
    """Yield the rows and the hashed words of a split's sentences, chunk by chunk.

    Raises:
        ShardError: A shard is missing or damaged.
    """
    start = 0
    for examples in split.chunks():
        row_of, sentences = _sentences(examples)
        yield row_of + start, words.hashes(sentences, examples.word_ids.values)
        start += len(examples)


class _OverlapCounter:
    """Accumulates the `Overlap` of one split with another."""

    def __init__(self) -> None:
        self._sentences = 0
        self._short = 0
        self._exact: list[Ints] = []
        self._near: list[Ints] = []

    def add(self, row_of: Ints, words: Ragged, places: Places) -> None:
        """Add sentences.

        Args:
            row_of: int64 `[N]`, the row of each sentence.
            words: N rows, the hashed words of each sentence.
            places: Indices of the sentences and their 13-grams in the other split's fingerprints,
                -1 if absent.
        """
        is_exact = places.sentences >= 0
        is_near = has_any(places.grams) & ~is_exact

        self._sentences += len(row_of)
        self._short += int((is_exact & (words.lengths < WORDS)).sum())
        self._exact.append(row_of[is_exact])
        self._near.append(row_of[is_near])

    def overlap(self) -> Overlap:
        """Return the overlap of all sentences added so far."""
        nothing = np.empty(0, np.int64)
        return Overlap(
            sentences=self._sentences,
            short=self._short,
            exact=np.concatenate([nothing, *self._exact]),
            near=np.concatenate([nothing, *self._near]),
        )


def _sentences(examples: Examples) -> tuple[Ints, Ragged]:
    """Return the row and the tokens of each sentence."""
    rows = np.arange(len(examples))
    if examples.sentence_starts is not None:
        rows = np.repeat(rows, examples.sentence_starts.lengths)
    return rows, Ragged(examples.input_ids.values, examples.sentence_offsets)


def doc_ids(split: Split, rows: Ints) -> list[str]:
    """Return the document id of each row.

    Args:
        split: The split.
        rows: int64, ascending.

    Raises:
        ShardError: A shard is missing or damaged.
    """
    ids: list[str] = []
    start = 0
    for batch in split.batches():
        first, past = np.searchsorted(rows, [start, start + len(batch)])
        ids += batch.column("doc_id").take(pa.array(rows[first:past] - start)).to_pylist()
        start += len(batch)
    return ids


def shared_rows(split: Split, shared: Overlap) -> Sequence[dict[str, int | str]]:
    """Return the row, document id and kind (`exact` or `near`) of each shared sentence."""
    rows = np.concatenate([shared.exact, shared.near])
    is_near = np.arange(len(rows)) >= len(shared.exact)
    order = np.argsort(rows, kind="stable")
    ids = doc_ids(split, rows[order])
    return [
        {"row": row, "doc_id": doc_id, "how": "near" if near else "exact"}
        for row, doc_id, near in zip(
            rows[order].tolist(), ids, is_near[order].tolist(), strict=True
        )
    ]
