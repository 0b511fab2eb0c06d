"""Detects the context of mentions: negated, hypothetical, historical, family.

The idea is that of NegEx and ConText (Chapman et al. 2001, Harkema et al. 2009): cues such as
`denies` or `was ruled out` say something of the mentions that they reach in their sentence. The
cues are those of `vocab/clinical-context.toml`, in English; `kernels.cues` says how far they
reach. They are found as the terms of a term table are, longest match first, so `no increase in`
hides the `no` in it. No cue overlaps a mention.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.annotate.terms.matcher import TermTrie, leftmost
from mslm_data.annotate.terms.texts import TAKEN_OUT, Texts, find_text_words, set_apart, taken_out
from mslm_data.data.context import FLAGS, REASONS, encode_flags
from mslm_data.data.documents import Documents, Mentions, Ranges
from mslm_data.data.ragged import Array, make_offsets
from mslm_data.data.reason import Reason
from mslm_data.io import resources
from mslm_data.kernels.cues import AND, COMMA, reach

_CHOICE = re.compile(r"\(([^()]*)\)")
_AND = ("and", "or", "/", "&")
_ALL = (1 << len(FLAGS)) - 1


def contexts(documents: Documents, sentences: Ranges) -> npt.NDArray[np.int8]:
    """Return the context flags of each mention, `[S]`; see `data.context`.

    Args:
        documents: Documents with flat mentions, those of a document rising.
        sentences: Their sentences; no mention crosses from one to the next.
    """
    mentions = documents.mentions
    flags = np.zeros(len(mentions), np.uint8)
    if not len(mentions):
        return flags.astype(np.int8)

    texts = _with_short_placeholders(
        find_text_words(documents.codes(), documents.starts, taken_out(documents))
    )
    words = texts.words
    for places in (documents.ends, sentences.starts, mentions.starts, mentions.ends):
        set_apart(words, places)

    # A word belongs to a mention if they share a character.
    word_mentions = np.full(len(words), -1, np.int64)
    firsts = np.searchsorted(words[:, 1], mentions.starts, side="right")
    pasts = np.searchsorted(words[:, 0], mentions.ends, side="left")
    lengths = np.maximum(pasts - firsts, 0)
    shifts = np.repeat(firsts - make_offsets(lengths)[:-1], lengths)
    word_mentions[np.arange(len(shifts)) + shifts] = np.repeat(np.arange(len(mentions)), lengths)

    # Only sentences with a mention matter.
    bounds = np.searchsorted(words[:, 0], np.stack([sentences.starts, sentences.ends], axis=1))
    with_mentions = make_offsets(word_mentions >= 0)
    has_mention = with_mentions[bounds[:, 1]] > with_mentions[bounds[:, 0]]

    before, after, ends = _cues_in(texts)
    reach(bounds[has_mention], word_mentions, before, after, ends, _kinds(texts), flags)
    return flags.astype(np.int8)


def without(mentions: Mentions, flags: Sequence[str]) -> tuple[Mentions, Counter[Reason]]:
    """Drop mentions that have any of the given flags.

    Args:
        mentions: Mentions with contexts.
        flags: Flags; a mention with several is counted under the first of them.

    Returns:
        The other mentions, and reason -> number of those left out.
    """
    left_out = Counter[Reason]()
    if mentions.contexts is None:
        return mentions, left_out

    kept = np.ones(len(mentions), np.bool_)
    for flag in flags:
        has_flag = kept & ((mentions.contexts & encode_flags([flag])) != 0)
        left_out[REASONS[flag]] += int(has_flag.sum())
        kept &= ~has_flag
    return mentions.choose(np.flatnonzero(kept)), +left_out


def _with_short_placeholders(texts: Texts) -> Texts:
    """Return texts in which each placeholder counts as one word.

    So a cue reaches as far over `[**2101-10-12**]` as over what stood there.
    """
    words = texts.words
    is_taken_out = texts.codes[words[:, 0]] == TAKEN_OUT
    goes_on = np.zeros(len(words), np.bool_)
    goes_on[1:] = is_taken_out[1:] & is_taken_out[:-1] & (words[1:, 0] == words[:-1, 1])
    return replace(texts, words=words[~goes_on])


class _Cues(NamedTuple):
    """The cues in memory.

    Attributes:
        trie: Finds them.
        flags: uint8 `[C, 3]`, of each cue: what it says of mentions after it, of mentions before
            it, and which flags it ends.
    """

    trie: TermTrie
    flags: npt.NDArray[np.uint8]


def _cues_in(texts: Texts) -> tuple[Array, Array, Array]:
    """Return the flags of the cue that begins at each word, uint8 `[W]` each."""
    cues = _cues()
    longest = cues.trie.longest(texts)
    firsts = leftmost(longest[:, 0])
    numbers, owners = cues.trie.terms(longest[firsts, 1])

    found = np.zeros((3, len(texts.words)), np.uint8)
    found[:, firsts[owners]] = cues.flags[numbers].T

    # A full stop before white space ends everything: sentences may be longer than clauses.
    first_words = texts.words[:, 0]
    gap_after = np.append(texts.words[1:, 2], 1)
    found[2, (texts.codes[first_words] == ord(".")) & (gap_after > 0)] = _ALL
    return found[0], found[1], found[2]


def _kinds(texts: Texts) -> npt.NDArray[np.uint8]:
    """Return the kind of each word, `[W]`, as defined in `kernels.cues`."""
    starts = texts.words[:, 0]
    lengths = texts.words[:, 1] - starts
    kinds = np.zeros(len(starts), np.uint8)
    kinds[texts.codes[starts] == ord(",")] = COMMA
    for word in _AND:
        is_word = lengths == len(word)
        for place, character in enumerate(word):
            at = np.minimum(starts + place, len(texts.codes) - 1)
            is_word &= texts.folded[at] == ord(character)
        kinds[is_word] = AND
    return kinds


@cache
def _cues() -> _Cues:
    """Load the shipped cues, once per process."""
    text = resources.path("vocab", "clinical-context.toml").read_text(encoding="utf-8")
    flags = _cue_flags(tomllib.loads(text))
    names = sorted(flags)

    line = "\n".join(names)
    lengths = np.fromiter(map(len, names), np.int64, len(names))
    codes = np.frombuffer(line.encode("utf-32-le"), np.uint32)
    trie = TermTrie(find_text_words(codes, make_offsets(lengths + 1)[:-1]), match_case=False)
    return _Cues(trie, np.array([flags[name] for name in names], np.uint8))


def _cue_flags(tables: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return cue -> its row of `_Cues.flags`, from the tables of the file."""
    flags: dict[str, list[int]] = {}

    def add(cues: Sequence[str], column: int, bits: int) -> None:
        for cue in itertools.chain.from_iterable(map(_spelled_out, cues)):
            flags.setdefault(cue, [0, 0, 0])[column] |= bits

    add(tables["none"], 0, 0)
    add(tables["ends"], 2, _ALL)
    for flag in FLAGS:
        for column, name in enumerate(("before", "after", "ends")):
            add(tables[flag].get(name, ()), column, encode_flags([flag]))
    return flags


def _spelled_out(cue: str) -> Iterator[str]:
    """Expand the choices in a cue: `(a|b|) c` yields `a c`, `b c` and `c`."""
    # Odd parts are choices.
    parts = _CHOICE.split(cue)
    forms = [part.split("|") if number % 2 else [part] for number, part in enumerate(parts)]
    for chosen in itertools.product(*forms):
        yield " ".join("".join(chosen).split())
