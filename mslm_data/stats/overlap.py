"""Finds the sentences that two splits share, exactly or nearly, whatever tokenizers made them.

Sentences are compared by their *normal words*: the runs of letters and digits of what the tokenizer
decodes, in small letters and without accents. So punctuation, capitals and spaces do not count,
and neither does whether a corpus came as running text or cut into words. A word of which the
tokenizer knows nothing is left out.

* Two sentences are equal if they have the same normal words in the same order.
* A sentence is nearly in a split if 13 of its normal words, side by side, stand side by side in a
  sentence of that split too. Brown et al. 2020 (appendix C) look for test sets in training text by
  this rule. A sentence of fewer words can only be in a split exactly.

A row counts as a sentence, and so does each sentence of a row that joins several. Hashes of 64 bits
stand for the words, so two that differ count as equal with a chance of 2^-64.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
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
"""Normal words that stand side by side in both of two sentences that are nearly equal."""

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_WORD = re.compile(r"[^\W_]+")
_MOST_TYPES = 500_000
"""Word types after which they are numbered anew, so that memory stays bounded."""


# Normal words -------------------------------------------------------------------------------------


def normal_words(text: str) -> list[str]:
    """Return the runs of letters and digits of a text, in small letters and without accents."""
    if not text.isascii():
        apart = unicodedata.normalize("NFKD", text)
        text = "".join(char for char in apart if not unicodedata.combining(char))
    return _WORD.findall(text.casefold())


class NormalWords:
    """Turns the tokens of a tokenizer into hashes of normal words; each word type is decoded once.

    It holds at most half a million word types.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer, ids: TokenIds) -> None:
        """Begin with no word.

        Args:
            tokenizer: Made the tokens.
            ids: Its special ids.
        """
        self._tokenizer = tokenizer
        self._ids = ids
        self._clear()

    def hashes(self, ids: Ragged, words: Array) -> Ragged:
        """Return the hash of each normal word, uint64, in N rows.

        Args:
            ids: int32, T tokens in N rows.
            words: int32 `[T]`, the number of each token's word; -1 on special tokens.
        """
        if len(self._offsets.values) > _MOST_TYPES:
            self._clear()
        numbers = self._numbers.number_tokens(ids, words, size=self._ids.size)
        self._learn()

        of_words = Ragged(self._hashes.values, self._offsets.values).take(
            numbers.values.astype(np.int64)
        )
        return Ragged(of_words.values, of_words.offsets[numbers.offsets])

    def _clear(self) -> None:
        self._numbers = WordNumbers()
        self._offsets = Growing(np.zeros(1, np.int64))
        self._hashes = Growing(np.empty(0, np.uint64))

    def _learn(self) -> None:
        """Decode the word types that are new."""
        types = self._numbers.tokens_from(len(self._offsets.values) - 1)
        if not len(types):
            return

        words = [normal_words(text) for text in word_strings(types, self._tokenizer)]
        for number, tokens in enumerate(types.tolist()):
            if self._ids.unk in tokens:
                words[number] = []

        before = len(self._hashes.values)
        counts = np.fromiter(map(len, words), np.int64, len(words))
        self._offsets.extend(before + np.cumsum(counts))
        self._hashes.extend(np.array([_hash(word) for of_type in words for word in of_type], "<u8"))


def _hash(word: str) -> int:
    """Return 64 bits that stand for a word, on every machine the same."""
    digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


# Fingerprints -------------------------------------------------------------------------------------


class Places(NamedTuple):
    """Where the hashes of some sentences and their 13-grams stand in a `Fingerprints`.

    Attributes:
        sentences: int64 `[N]`, the place of each sentence in `Fingerprints.sentences`; -1 where it
            is not there.
        grams: int64, N rows: the place of each 13-gram in `Fingerprints.grams`, or -1.
    """

    sentences: Ints
    grams: Ragged


class Fingerprints:
    """The hashes of some sentences, and of all runs of 13 words in them (13-grams).

    Each hash is there once, in 8 bytes. While hashes are collected and sorted, each takes up to 24.

    Attributes:
        sentences: uint64 `[S]`, rising: a hash of each sentence that has words.
        grams: uint64 `[G]`, rising: a hash of each 13-gram.
    """

    def __init__(self, rows: Iterable[Ragged]) -> None:
        """Hash sentences and their 13-grams.

        Args:
            rows: The hashes of the normal words of some sentences at a time, one sentence a row.
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
        """Find the places of sentences and of their 13-grams.

        Args:
            words: The hashes of the normal words of N sentences.
        """
        sentences = self.sentence_places(words)
        grams = gram_hashes(words)
        return Places(sentences, Ragged(_places(self.grams, grams.values), grams.offsets))

    def sentence_places(self, words: Ragged) -> Ints:
        """Find the places of sentences as wholes, `[N]`; see `Places.sentences`."""
        places = _places(self.sentences, sentence_hashes(words))
        places[words.lengths == 0] = -1
        return places


def sentence_hashes(words: Ragged) -> npt.NDArray[np.uint64]:
    """Return a hash of each sentence, `[N]`, of the hashes of its words."""
    out = np.empty(len(words), np.uint64)
    hash_rows(words.values, words.offsets, out)
    return out


def gram_hashes(words: Ragged) -> Ragged:
    """Return a hash of each 13-gram, uint64, N rows, of the hashes of words."""
    offsets = make_offsets(np.maximum(words.lengths - WORDS + 1, 0))
    out = np.empty(offsets[-1], np.uint64)
    hash_ngrams(words.values, words.offsets, WORDS, out)
    return Ragged(out, offsets)


def has_any(places: Ragged) -> Bools:
    """Return whether a row has a place other than -1, `[N]`."""
    found = make_offsets(places.values >= 0)
    return np.diff(found[places.offsets]) > 0


def _each_once(parts: list[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    """Return hashes sorted, each once; the list is emptied on the way."""
    together = np.concatenate([np.empty(0, np.uint64), *parts])
    parts.clear()
    together.sort()
    is_first = np.ones(len(together), np.bool_)
    np.not_equal(together[1:], together[:-1], out=is_first[1:])
    return together[is_first]


def _places(known: npt.NDArray[np.uint64], asked: npt.NDArray[np.uint64]) -> Ints:
    """Return the place of each hash in a sorted array, -1 where it is not there."""
    if not len(known):
        return np.full(len(asked), -1, np.int64)

    # In rising order, neighbouring searches look at the same memory.
    order = np.argsort(asked)
    rising = asked[order]
    places = np.searchsorted(known, rising)
    places[places == len(known)] = 0
    places[known[places] != rising] = -1

    out = np.empty(len(asked), np.int64)
    out[order] = places
    return out


# Two splits ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Overlap:
    """The sentences of one split that stand in another too.

    Attributes:
        sentences: Number of sentences of the first split.
        short: How many sentences of `exact` have fewer than 13 words, and so often say little.
        exact: int64, rising: the row of each sentence that equals a sentence of the other split.
        near: int64, rising: the row of each sentence that shares a run of 13 words with a sentence
            of the other split, and equals none.
    """

    sentences: int
    short: int
    exact: Ints
    near: Ints

    @property
    def share(self) -> float:
        """Return the share of the sentences that stand in the other split, exactly or nearly."""
        return (len(self.exact) + len(self.near)) / max(self.sentences, 1)


def overlap(
    first: Split,
    second: Split,
    words_of_first: NormalWords,
    words_of_second: NormalWords,
    *,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> tuple[Overlap, Overlap]:
    """Find the sentences of each of two splits that stand in the other.

    Only the hashes of the smaller split are held in memory. So the larger split is read once and
    the smaller one twice: to hash it, and to look its sentences up by what the larger one has.

    Args:
        first: A split.
        second: Another, of any tokenizer.
        words_of_first: Of the tokenizer of `first`.
        words_of_second: Of that of `second`.
        progress: Called with the rows that are read, and all rows to read.

    Raises:
        ShardError: A shard is missing or damaged.
    """
    if first.record.tokens > second.record.tokens:
        return overlap(second, first, words_of_second, words_of_first, progress=progress)[::-1]

    total = 2 * len(first) + len(second)
    done = 0
    progress(done, total)

    def rows(split: Split, words: NormalWords) -> Iterator[tuple[Ints, Ragged]]:
        """Give the row and the words of each sentence, some rows at a time."""
        nonlocal done
        before = done
        for row_of, sentences in words_of_rows(split, words):
            yield row_of, sentences
            done = before + int(row_of[-1]) + 1
            progress(done, total)

    known = Fingerprints(words for _, words in rows(first, words_of_first))

    # Place -1, which stands for a fingerprint that is not known, leads to an item that stays False.
    is_shared = np.zeros(len(known.sentences) + 1, np.bool_)
    is_shared_gram = np.zeros(len(known.grams) + 1, np.bool_)

    of_second = _Finding()
    for row_of, words in rows(second, words_of_second):
        places = known.find(words)
        is_shared[places.sentences[places.sentences >= 0]] = True
        is_shared_gram[places.grams.values[places.grams.values >= 0]] = True
        of_second.add(row_of, words, places)

    of_first = _Finding()
    for row_of, words in rows(first, words_of_first):
        places = known.find(words)
        places.sentences[~is_shared[places.sentences]] = -1
        places.grams.values[~is_shared_gram[places.grams.values]] = -1
        of_first.add(row_of, words, places)
    return of_first.overlap(), of_second.overlap()


def words_of_rows(split: Split, words: NormalWords) -> Iterator[tuple[Ints, Ragged]]:
    """Give the row and the hashed words of each sentence of a split, some rows at a time.

    Raises:
        ShardError: A shard is missing or damaged.
    """
    start = 0
    for examples in split.chunks():
        row_of, sentences = _sentences(examples)
        yield row_of + start, words.hashes(sentences, examples.word_ids.values)
        start += len(examples)


class _Finding:
    """Adds up the `Overlap` of one split with another, some sentences at a time."""

    def __init__(self) -> None:
        self._sentences = 0
        self._short = 0
        self._exact: list[Ints] = []
        self._near: list[Ints] = []

    def add(self, row_of: Ints, words: Ragged, places: Places) -> None:
        """Add sentences.

        Args:
            row_of: int64 `[N]`, the row of each.
            words: Their words.
            places: Where they stand in the other split.
        """
        is_exact = places.sentences >= 0
        is_near = has_any(places.grams) & ~is_exact

        self._sentences += len(row_of)
        self._short += int((is_exact & (words.lengths < WORDS)).sum())
        self._exact.append(row_of[is_exact])
        self._near.append(row_of[is_near])

    def overlap(self) -> Overlap:
        """Return all that was found."""
        nothing = np.empty(0, np.int64)
        return Overlap(
            sentences=self._sentences,
            short=self._short,
            exact=np.concatenate([nothing, *self._exact]),
            near=np.concatenate([nothing, *self._near]),
        )


def _sentences(examples: Examples) -> tuple[Ints, Ragged]:
    """Return the row of each sentence, and the tokens of each sentence."""
    rows = np.arange(len(examples))
    if examples.sentence_starts is not None:
        rows = np.repeat(rows, examples.sentence_starts.lengths)
    return rows, Ragged(examples.input_ids.values, examples.sentence_offsets)


def doc_ids(split: Split, rows: Ints) -> list[str]:
    """Return the document of each of some rows.

    Args:
        split: Their split.
        rows: int64, rising.

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


def shared_rows(split: Split, found: Overlap) -> Sequence[dict[str, int | str]]:
    """Return the row, the document and the kind of overlap, `exact` or `near`, of each sentence."""
    rows = np.concatenate([found.exact, found.near])
    is_near = np.arange(len(rows)) >= len(found.exact)
    order = np.argsort(rows, kind="stable")
    ids = doc_ids(split, rows[order])
    return [
        {"row": row, "doc_id": doc_id, "how": "near" if near else "exact"}
        for row, doc_id, near in zip(
            rows[order].tolist(), ids, is_near[order].tolist(), strict=True
        )
    ]
