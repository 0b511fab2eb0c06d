"""Word counts of general text: from shards, a table, or wordfreq."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from mslm_data import _optional
from mslm_data.errors import VocabularyError
from mslm_data.io.files import hash_file
from mslm_data.lexicon.text_files import read_lines
from mslm_data.lexicon.word_types import WordTypes, word_strings

_LONGEST_COUNT = 19
WORDFREQ_WORDS = 10**9
"""Total of the counts that wordfreq's probabilities are converted to; its rarest word gets 10."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frequencies:
    """Word counts of a general text.

    Attributes:
        counts: Normalised word -> number of occurrences, at least 1.
        about: Origin of the counts, as JSON values.
    """

    counts: Mapping[str, int]
    about: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Spelling:
    """The forms of a word, which differ in case or sub-words.

    Attributes:
        count: Number of occurrences of all forms.
        form: Word type of the most frequent form; the first of equally frequent ones.
    """

    count: int
    form: int


def normalise_word(text: str) -> str:
    """Lower-case a word; "" unless it has at least two characters, all of them letters."""
    word = text.lower()
    return word if len(word) >= 2 and word.isalpha() else ""


def spellings(words: WordTypes, tokenizer: tokenizers.Tokenizer) -> dict[str, Spelling]:
    """Group the words of rows by lower-cased text.

    Args:
        words: Word types of the rows.
        tokenizer: The folder's tokenizer.
    """
    texts = word_strings(words.tokens, tokenizer)
    by_word: dict[str, Spelling] = {}
    max_counts: dict[str, int] = {}  # count of each word's most frequent form

    for form, (text, count) in enumerate(zip(texts, words.counts.tolist(), strict=True)):
        word = normalise_word(text)
        if not word:
            continue

        previous = by_word.get(word, Spelling(0, form))
        best = previous.form
        if count > max_counts.get(word, 0):
            max_counts[word] = count
            best = form
        by_word[word] = Spelling(previous.count + count, best)

    return by_word


def from_words(words: WordTypes, tokenizer: tokenizers.Tokenizer, *, manifest: Path) -> Frequencies:
    """Count the words of a built folder, which may have another tokenizer than the corpus.

    Args:
        words: Word types of its rows.
        tokenizer: Its tokenizer.
        manifest: Its `manifest.json`, whose digest identifies it.
    """
    counts = {word: spelling.count for word, spelling in spellings(words, tokenizer).items()}
    return Frequencies(
        counts=counts, about={"source": "shards", "manifest_sha256": hash_file(manifest)}
    )


def from_file(path: Path) -> Frequencies:
    """Read a table with a word, TAB and count per line, such as Norvig's of the Web 1T corpus.

    Counts of words that differ only in case are added. Words with other characters than letters are
    skipped.

    Raises:
        VocabularyError: The file is unreadable or not UTF-8, or a line has no word and integer.
    """
    counts: dict[str, int] = {}
    for number, line in enumerate(read_lines(path, VocabularyError, newline="\n"), start=1):
        text, _, count = line.rstrip("\r\n").partition("\t")
        if not (count.isascii() and count.isdigit() and len(count) < _LONGEST_COUNT):
            raise VocabularyError(
                f"{path}:{number}: expected a word, a tab and a whole number; correct or remove "
                "the line"
            )

        word = normalise_word(text)
        if word and int(count):
            counts[word] = counts.get(word, 0) + int(count)

    return Frequencies(counts=counts, about={"source": "file", "sha256": hash_file(path)})


def from_wordfreq() -> Frequencies:
    """Load the English words of the package wordfreq; see `WORDFREQ_WORDS`.

    Raises:
        MissingExtraError: The package is not installed.
    """
    wordfreq = _optional.load("wordfreq", wanted_by="`--general wordfreq`")

    counts: dict[str, int] = {}
    for text, probability in wordfreq.get_frequency_dict("en", wordlist="best").items():
        word = normalise_word(text)
        if word:
            counts[word] = counts.get(word, 0) + round(probability * WORDFREQ_WORDS)

    version = importlib.metadata.version("wordfreq")
    return Frequencies(
        counts={word: count for word, count in counts.items() if count},
        about={
            "source": "wordfreq",
            "version": version,
            "language": "en",
            "words": WORDFREQ_WORDS,
        },
    )
