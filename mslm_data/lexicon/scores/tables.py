"""Make lexicons from known numbers: a table of words, or counts of token ids."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.encode.word_table import WordTable
from mslm_data.errors import VocabularyError
from mslm_data.io.limits import iter_lines
from mslm_data.lexicon.scores.encoding import encode_words
from mslm_data.lexicon.store import Lexicon

By = Literal["words", "pieces", "ids"]
_LINES_AT_ONCE = 1 << 12
_LONGEST_ID = 20

Line = tuple[int, str, float]
Entry = tuple[tuple[int, ...], tuple[int, ...]]
"""Ids, and where each word begins among them; empty where there is none."""


@dataclass(slots=True)
class TableReport:
    """Counts of table lines by what became of them.

    Attributes:
        read: Lines, but for a header and empty ones.
        kept: Entries of the lexicon.
        header: Whether the first line is one.
        left_out: Reason -> lines; `read = kept + sum(left_out)`.
        first: Reason -> number of the first such line, from 1.
    """

    read: int = 0
    kept: int = 0
    header: bool = False
    left_out: dict[str, int] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)

    def leave_out(self, reason: str, line: int) -> None:
        """Count a line that cannot be used."""
        self.left_out[reason] = self.left_out.get(reason, 0) + 1
        self.first.setdefault(reason, line)


def read_table(
    path: Path, tokenizer: Tokenizer, *, by: By, given_words: bool, about: dict[str, Any]
) -> tuple[Lexicon, TableReport]:
    """Read a table of entry, TAB and number per line.

    Entries keep the table's order.

    A first line without a number in its second column is a header. A line is left out, and counted,
    that has no finite number; no entry; an entry that becomes `[UNK]` in part or is not a piece or
    id of the tokenizer; a special token; or the ids of an earlier line, as a vocabulary of small
    letters makes of `Word` and `word`.

    Args:
        path: UTF-8.
        tokenizer: The folder's.
        by: `words`: words or phrases, encoded as the rows' words are; `pieces`: pieces of the
            vocabulary as they are spelled there; `ids`: token ids.
        given_words: Whether the folder's words are those between spaces, as a source of words gives
            them, or those that running text is found to have, where `IL-2` is three.
        about: See `Lexicon`.

    Raises:
        VocabularyError: No such file, not in UTF-8, without a line that can be used, or with
            numbers alone where words or pieces are expected.
    """
    report = TableReport()
    table = WordTable(tokenizer)
    seen: dict[Entry, float] = {}
    known: set[tuple[int, ...]] = set()
    has_words = False

    lines = _lines(path, report)
    while chunk := list(islice(lines, _LINES_AT_ONCE)):
        entries = [text for _, text, _ in chunk]
        has_words = has_words or not all(map(str.isdecimal, entries))
        if by == "words":
            found = _encode_phrases(entries, table, tokenizer.ids.unk, given_words=given_words)
        else:
            found = [_encode_token(text, tokenizer, by) for text in entries]

        for (line, _, number), entry in zip(chunk, found, strict=True):
            if isinstance(entry, str):
                report.leave_out(entry, line)
            elif entry[0] in known:
                report.leave_out("repeated", line)
            else:
                known.add(entry[0])
                seen[entry] = number

    report.kept = len(seen)
    if not seen:
        raise VocabularyError(
            f"{path}: no usable line; expected an entry, a tab and a number per line"
        )
    if by != "ids" and not has_words:
        raise VocabularyError(
            f"{path}: expected {by}, got whole numbers alone; if they are token ids, pass --by ids"
        )
    lexicon = Lexicon(
        tokens=Ragged.from_rows([ids for ids, _ in seen], np.int32),
        word_starts=Ragged.from_rows([starts for _, starts in seen], np.int32),
        scores=np.array(list(seen.values()), np.float64),
        about=about,
    )
    return lexicon, report


def count_ids(chunks: Iterable[Examples], about: dict[str, Any]) -> Lexicon:
    """Count token ids; most frequent first, ties by id.

    Divided by their sum the counts are a unigram distribution.

    Special tokens are left out, `[UNK]` among them, and ids that do not occur.

    Args:
        chunks: Rows, such as `Split.chunks()`.
        about: See `Lexicon`; its `size` is the number of ids.
    """
    counts = np.zeros(about["size"], np.int64)
    for examples in chunks:
        ids = examples.input_ids.values
        counts += np.bincount(ids[examples.word_ids.values >= 0], minlength=len(counts))
        counts[list(examples.ids.special)] = 0

    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    return Lexicon(
        tokens=Ragged(order.astype(np.int32), np.arange(len(order) + 1)),
        word_starts=Ragged(np.zeros(len(order), np.int32), np.arange(len(order) + 1)),
        scores=counts[order].astype(np.float64),
        about=about,
    )


def _lines(path: Path, report: TableReport) -> Iterator[Line]:
    """Yield line number (from 1), entry and number of each usable line."""
    if not path.is_file():
        raise VocabularyError(f"{path}: no such file; pass a table of entries and numbers")

    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            for line, text in enumerate(iter_lines(file, path, VocabularyError), start=1):
                entry, tab, rest = text.rstrip("\r\n").partition("\t")
                number = _number(rest.partition("\t")[0])

                if not entry.strip() and not tab:
                    continue
                if line == 1 and number is None:
                    report.header = True
                    continue

                report.read += 1
                if number is None:
                    report.leave_out("no number", line)
                else:
                    yield line, entry.strip(), number
    except UnicodeDecodeError:
        raise VocabularyError(f"{path}: not valid UTF-8; save the table as UTF-8") from None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _encode_phrases(
    entries: list[str], table: WordTable, unk: int, *, given_words: bool
) -> list[Entry | str]:
    """Encode phrases; the reason takes the place of a phrase that cannot be an entry."""
    phrases = [entry.split() for entry in entries]
    ids, numbers = encode_words([word for phrase in phrases for word in phrase], table)

    found: list[Entry | str] = []
    first = 0  # number of the phrase's first word among the words of all phrases
    for phrase in phrases:
        tokens: list[int] = []
        starts: list[int] = []
        for word in range(first, first + len(phrase)):
            starts += [len(tokens) + t for t in _word_starts(numbers[word].tolist(), given_words)]
            tokens += ids[word].tolist()
        first += len(phrase)

        if not tokens:
            found.append("no entry")
        elif unk in tokens:
            found.append("unknown")
        else:
            found.append((tuple(tokens), tuple(starts)))

    return found


def _word_starts(numbers: list[int], given_words: bool) -> list[int]:
    """Return the word starts of a string from the word numbers of its pieces."""
    if given_words:
        return [0] if numbers else []
    return [t for t, number in enumerate(numbers) if t == 0 or number != numbers[t - 1]]


def _encode_token(text: str, tokenizer: Tokenizer, by: By) -> Entry | str:
    """Encode a piece or an id; return the entry, or why it cannot be one."""
    if not text:
        return "no entry"

    if by == "ids":
        id_ = int(text) if text.isdecimal() and len(text) < _LONGEST_ID else -1
    else:
        found = tokenizer.core.token_to_id(text)
        id_ = -1 if found is None else found

    if not 0 <= id_ < tokenizer.ids.size:
        return "unknown"
    if id_ in tokenizer.ids.special:
        return "special"
    return ((id_,), (0,))
