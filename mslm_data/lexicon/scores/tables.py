"""Make lexicons from known numbers: a table of words, or counts of token ids."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.encode.word_table import WordTable
from mslm_data.errors import VocabularyError
from mslm_data.lexicon.scores.encoding import encode_words
from mslm_data.lexicon.store import Lexicon
from mslm_data.lexicon.text_files import read_lines

By = Literal["words", "pieces", "ids"]
_LINES_AT_ONCE = 1 << 12
_LONGEST_ID = 20

Entry = tuple[tuple[int, ...], tuple[int, ...]]
"""Token ids, and the first token of each word."""


def read_table(
    path: Path, tokenizer: Tokenizer, *, by: By, given_words: bool, about: dict[str, Any]
) -> tuple[Lexicon, Counter[str]]:
    """Read a table with an entry, TAB and number per line.

    Entries keep their order. Lines are skipped, and counted by reason: without a finite number, as
    a header is; without an entry; if the entry contains `[UNK]`, or is not a piece or id of the
    tokenizer; if it is a special token; or if an earlier line has the same ids, such as `Word` and
    `word` in an uncased vocabulary.

    Args:
        path: A UTF-8 file.
        tokenizer: The folder's tokenizer.
        by: `words`: words or phrases, encoded like the words of rows; `pieces`: pieces of the
            vocabulary; `ids`: token ids.
        given_words: Whether words are separated by spaces only, as in sources of words. Otherwise
            they are those of running text, in which `IL-2` has three.
        about: Metadata, see `Lexicon`.

    Returns:
        The lexicon, and for each reason the number of lines that were skipped.

    Raises:
        VocabularyError: The file is missing, not UTF-8, or has no usable line; or all entries are
            numbers, although words or pieces are expected.
    """
    table = WordTable(tokenizer)
    skipped: Counter[str] = Counter()
    numbers_by_entry: dict[Entry, float] = {}
    known_ids: set[tuple[int, ...]] = set()
    has_words = False

    # Encode in chunks: the word table takes many words in one call.
    lines = _read_lines(path, skipped)
    while chunk := list(islice(lines, _LINES_AT_ONCE)):
        entries = [text for text, _ in chunk]
        has_words = has_words or not all(map(str.isdecimal, entries))

        if by == "words":
            encoded = _encode_phrases(entries, table, tokenizer.ids.unk, given_words=given_words)
        else:
            encoded = [_encode_token(text, tokenizer, by) for text in entries]

        for (_, number), entry in zip(chunk, encoded, strict=True):
            if isinstance(entry, str):
                skipped[entry] += 1
            elif entry[0] in known_ids:
                skipped["repeated"] += 1
            else:
                known_ids.add(entry[0])
                numbers_by_entry[entry] = number

    if not numbers_by_entry:
        raise VocabularyError(
            f"{path}: no usable line; expected an entry, a tab and a number per line"
        )

    # Only numbers: probably a table of token ids, whose digits would be encoded as words.
    if by != "ids" and not has_words:
        raise VocabularyError(
            f"{path}: expected {by}, got whole numbers alone; if they are token ids, pass --by ids"
        )
    lexicon = Lexicon(
        tokens=Ragged.from_rows([ids for ids, _ in numbers_by_entry], np.int32),
        word_starts=Ragged.from_rows([starts for _, starts in numbers_by_entry], np.int32),
        scores=np.array(list(numbers_by_entry.values()), np.float64),
        about=about,
    )
    return lexicon, skipped


def count_ids(chunks: Iterable[Examples], about: dict[str, Any]) -> Lexicon:
    """Count token ids; most frequent first, ties by id.

    Counts divided by their sum are a unigram distribution. Special tokens, `[UNK]` and ids that do
    not occur are skipped.

    Args:
        chunks: Rows, such as `Split.chunks()`.
        about: Metadata, see `Lexicon`; `size` is the number of ids.
    """
    counts = np.zeros(about["size"], np.int64)
    for examples in chunks:
        ids = examples.input_ids.values
        counts += np.bincount(ids[examples.word_ids.values >= 0], minlength=len(counts))
        counts[list(examples.ids.special)] = 0

    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    tokens = Ragged(order.astype(np.int32), np.arange(len(order) + 1))
    return Lexicon.from_words(tokens, counts[order].astype(np.float64), about)


def _read_lines(path: Path, skipped: Counter[str]) -> Iterator[tuple[str, float]]:
    """Yield entry and number of each usable line."""
    if not path.is_file():
        raise VocabularyError(f"{path}: no such file; pass a table of entries and numbers")

    for text in read_lines(path, VocabularyError, newline="\n"):
        entry, tab, rest = text.rstrip("\r\n").partition("\t")
        number = _parse_number(rest.partition("\t")[0])

        if not entry.strip() and not tab:
            continue

        if number is None:
            skipped["no number"] += 1
        else:
            yield entry.strip(), number


def _parse_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _encode_phrases(
    entries: list[str], table: WordTable, unk: int, *, given_words: bool
) -> list[Entry | str]:
    """Encode phrases; unusable phrases are replaced by the reason."""
    phrases = [entry.split() for entry in entries]
    ids, numbers = encode_words([word for phrase in phrases for word in phrase], table)

    encoded: list[Entry | str] = []
    first = 0  # index of the phrase's first word in all words
    for phrase in phrases:
        tokens: list[int] = []
        starts: list[int] = []
        # Concatenate the pieces of the phrase's words.
        for word in range(first, first + len(phrase)):
            starts += [
                len(tokens) + t for t in _find_word_starts(numbers[word].tolist(), given_words)
            ]
            tokens += ids[word].tolist()
        first += len(phrase)

        if not tokens:
            encoded.append("no entry")
        elif unk in tokens:
            encoded.append("unknown")
        else:
            encoded.append((tuple(tokens), tuple(starts)))

    return encoded


def _find_word_starts(numbers: list[int], given_words: bool) -> list[int]:
    """Return the first piece of each word in a string, by the word numbers of its pieces."""
    if given_words:
        return [0] if numbers else []
    return [t for t, number in enumerate(numbers) if t == 0 or number != numbers[t - 1]]


def _encode_token(text: str, tokenizer: Tokenizer, by: By) -> Entry | str:
    """Encode a piece or an id; return the entry, or the reason why it is unusable."""
    if not text:
        return "no entry"

    if by == "ids":
        id_ = int(text) if text.isdecimal() and len(text) < _LONGEST_ID else -1
    else:
        piece_id = tokenizer.core.token_to_id(text)
        id_ = -1 if piece_id is None else piece_id

    if not 0 <= id_ < tokenizer.ids.size:
        return "unknown"
    if id_ in tokenizer.ids.special:
        return "special"
    return ((id_,), (0,))
