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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

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
Hashes = npt.NDArray[np.uint64]
Sentences: TypeAlias = tuple[Ints, Ragged]
"""Rows of N sentences, int64 `[N]`, and their hashed normal words, N rows."""

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


class Fingerprints:
    """The distinct hashes of sentences and of their 13-grams, the runs of 13 words.

    Each distinct hash takes 8 bytes. While hashes are collected and sorted, each takes up to 24.
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
        self._sentences = _each_once(sentences)
        self._grams = _each_once(grams)

    def has_sentences(self, words: Ragged) -> Bools:
        """Return whether each sentence is known, bool `[N]`; False for those without words.

        Args:
            words: Hashed normal words of N sentences.
        """
        return _are_in(self._sentences, sentence_hashes(words)) & (words.lengths > 0)

    def has_grams(self, words: Ragged) -> Bools:
        """Return whether each sentence has a known 13-gram, bool `[N]`.

        Args:
            words: Hashed normal words of N sentences.
        """
        grams = gram_hashes(words)
        running_total = make_offsets(_are_in(self._grams, grams.values))
        return np.diff(running_total[grams.offsets]) > 0


def sentence_hashes(words: Ragged) -> Hashes:
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


def _each_once(parts: list[Hashes]) -> Hashes:
    """Return the distinct hashes, sorted. The list is emptied to free memory."""
    # Free the parts before sorting, so that memory holds two copies at most.
    hashes = np.concatenate([np.empty(0, np.uint64), *parts])
    parts.clear()
    hashes.sort()
    is_first = np.ones(len(hashes), np.bool_)
    np.not_equal(hashes[1:], hashes[:-1], out=is_first[1:])
    return hashes[is_first]


def _are_in(known: Hashes, hashes: Hashes) -> Bools:
    """Return whether each hash is in a sorted array."""
    if not len(known):
        return np.zeros(len(hashes), np.bool_)

    # Search in ascending order: consecutive searches then read the same memory.
    order = np.argsort(hashes)
    ascending = hashes[order]
    places = np.searchsorted(known, ascending)
    places[places == len(known)] = 0

    out = np.empty(len(hashes), np.bool_)
    out[order] = known[places] == ascending
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

    Each split is read once. Memory holds the hashed words of the smaller split, and of the shared
    sentences of the larger one.

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

    total = len(first) + len(second)
    done = 0
    progress(done, total)

    def read(split: Split, words: NormalWords) -> Iterator[Sentences]:
        nonlocal done
        before = done
        for rows, sentences in hash_sentences(split, words):
            yield rows, sentences
            done = before + int(rows[-1]) + 1
            progress(done, total)

    smaller = [*read(first, words_of_first)]
    known = Fingerprints(words for _, words in smaller)
    of_second, shared = _compare(read(second, words_of_second), known)

    # All that the larger split shares is in these sentences.
    of_first, _ = _compare(smaller, Fingerprints(shared))
    return of_first, of_second


def _compare(chunks: Iterable[Sentences], known: Fingerprints) -> tuple[Overlap, list[Ragged]]:
    """Find known sentences.

    Args:
        chunks: The sentences of a split.
        known: Fingerprints of another split.

    Returns:
        The overlap, and the words of all sentences that are known or have a known 13-gram.
    """
    sentences = 0
    short = 0
    exact = [np.empty(0, np.int64)]
    near = [np.empty(0, np.int64)]
    shared = []
    for rows, words in chunks:
        is_exact = known.has_sentences(words)
        has_grams = known.has_grams(words)

        sentences += len(rows)
        short += int((is_exact & (words.lengths < WORDS)).sum())
        exact.append(rows[is_exact])
        near.append(rows[has_grams & ~is_exact])
        shared.append(words.take(np.flatnonzero(is_exact | has_grams)))

    return Overlap(sentences, short, np.concatenate(exact), np.concatenate(near)), shared


def hash_sentences(split: Split, words: NormalWords) -> Iterator[Sentences]:
    """Yield the rows and the hashed words of a split's sentences, chunk by chunk.

    Raises:
        ShardError: A shard is missing or damaged.
    """
    start = 0
    for examples in split.chunks():
        row_of, sentences = _sentences(examples)
        yield row_of + start, words.hashes(sentences, examples.word_ids.values)
        start += len(examples)


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


@dataclass(frozen=True)
class SharedRow:
    """A row with a shared sentence.

    Attributes:
        row: Number of the row in its split.
        doc_id: Id of its document.
        how: Whether the sentence is shared exactly or nearly.
    """

    row: int
    doc_id: str
    how: Literal["exact", "near"]


def shared_rows(split: Split, shared: Overlap) -> list[SharedRow]:
    """Return the rows of the shared sentences, in order."""
    rows = np.concatenate([shared.exact, shared.near])
    is_near = np.arange(len(rows)) >= len(shared.exact)
    order = np.argsort(rows, kind="stable")
    ids = doc_ids(split, rows[order])
    return [
        SharedRow(row, doc_id, "near" if near else "exact")
        for row, doc_id, near in zip(
            rows[order].tolist(), ids, is_near[order].tolist(), strict=True
        )
    ]
