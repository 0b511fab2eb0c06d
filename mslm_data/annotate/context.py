"""Detects the context of mentions: negated, uncertain, hypothetical, historical, family.

The method is that of NegEx and ConText (Chapman et al. 2001, Harkema et al. 2009). Cues such as
`denies` or `was ruled out` set flags of mentions in the same sentence. `kernels.cues` defines the
scope of a cue.

The English cues in `vocab/clinical-context.toml` are matched like terms of a term table, longest
match first: in `no increase in`, `no` is not a cue. A cue never overlaps a mention.
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
from mslm_data.annotate.terms.texts import (
    PLACEHOLDER,
    Texts,
    find_document_words,
    find_name_words,
    set_apart,
)
from mslm_data.data.context import FLAGS, REASONS, encode_flags
from mslm_data.data.documents import Documents, Mentions, Ranges
from mslm_data.data.ragged import Array, count_up, make_offsets
from mslm_data.data.reason import Reason
from mslm_data.io import resources
from mslm_data.kernels.cues import AND, COMMA, reach

_CHOICE = re.compile(r"\(([^()]*)\)")
_AND = ("and", "or", "/", "&")
_ALL = (1 << len(FLAGS)) - 1


def contexts(documents: Documents, sentences: Ranges) -> npt.NDArray[np.int8]:
    """Return the context flags of each mention, int8 `[S]`; see `data.context`.

    Args:
        documents: Documents with sorted, non-overlapping mentions.
        sentences: Sentences of the documents. No mention crosses a boundary.
    """
    mentions = documents.mentions
    flags = np.zeros(len(mentions), np.uint8)
    if not len(mentions):
        return flags.astype(np.int8)

    texts = _with_short_placeholders(find_document_words(documents))
    # No cue may cross the boundary of a document, sentence or mention.
    words = texts.words
    for places in (documents.ends, sentences.starts, mentions.starts, mentions.ends):
        set_apart(words, places)

    # The mention of each word, -1 for none. A word belongs to a mention if they share a character.
    word_mentions = np.full(len(words), -1, np.int64)
    firsts = np.searchsorted(words[:, 1], mentions.starts, side="right")
    pasts = np.searchsorted(words[:, 0], mentions.ends, side="left")
    lengths = np.maximum(pasts - firsts, 0)
    word_mentions[count_up(firsts, lengths)] = np.repeat(np.arange(len(mentions)), lengths)

    # Skip sentences without mentions.
    bounds = np.searchsorted(words[:, 0], np.stack([sentences.starts, sentences.ends], axis=1))
    with_mentions = make_offsets(word_mentions >= 0)
    has_mention = with_mentions[bounds[:, 1]] > with_mentions[bounds[:, 0]]

    before, after, ends = _cues_in(texts)
    reach(bounds[has_mention], word_mentions, before, after, ends, _kinds(texts), flags)
    return flags.astype(np.int8)


def without(mentions: Mentions, flags: Sequence[str]) -> tuple[Mentions, Counter[Reason]]:
    """Leave out mentions with any of the given flags.

    Args:
        mentions: Mentions with context flags.
        flags: Flags. A mention with several flags is counted for the first.

    Returns:
        The other mentions, and reason -> number of mentions left out.
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
    """Return texts in which each placeholder is a single word.

    The scope of a cue is limited by a number of words, and `[**2101-10-12**]` replaces one word.
    """
    words = texts.words
    in_placeholder = texts.codes[words[:, 0]] == PLACEHOLDER
    continues = np.zeros(len(words), np.bool_)
    continues[1:] = in_placeholder[1:] & in_placeholder[:-1] & (words[1:, 0] == words[:-1, 1])
    return replace(texts, words=words[~continues])


class _Cues(NamedTuple):
    """The C cues in memory.

    Attributes:
        trie: Matcher of the cues.
        flags: uint8 `[C, 3]`, flags of each cue: set for mentions after it, set for mentions before
            it, and ended by it.
    """

    trie: TermTrie
    flags: npt.NDArray[np.uint8]


def _cues_in(texts: Texts) -> tuple[Array, Array, Array]:
    """Return the three columns of `_Cues.flags` for the cue that starts at each word, `[W]`."""
    cues = _cues()
    longest = cues.trie.longest(texts)
    firsts = leftmost(longest[:, 0])
    numbers, owners = cues.trie.terms(longest[firsts, 1])

    flags = np.zeros((3, len(texts.words)), np.uint8)
    flags[:, firsts[owners]] = cues.flags[numbers].T

    # A full stop before white space ends all flags: a sentence of the segmenter may have several.
    first_characters = texts.words[:, 0]
    gap_after = np.append(texts.words[1:, 2], 1)
    flags[2, (texts.codes[first_characters] == ord(".")) & (gap_after > 0)] = _ALL
    return flags[0], flags[1], flags[2]


def _kinds(texts: Texts) -> npt.NDArray[np.uint8]:
    """Return the kind of each word for `kernels.cues.reach`, uint8 `[W]`."""
    starts = texts.words[:, 0]
    lengths = texts.words[:, 1] - starts
    kinds = np.zeros(len(starts), np.uint8)
    kinds[texts.codes[starts] == ord(",")] = COMMA
    for word in _AND:
        # Compare character by character. Positions past the text are words of another length.
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
    trie = TermTrie(find_name_words(names), match_case=False)
    return _Cues(trie, np.array([flags[name] for name in names], np.uint8))


def _cue_flags(tables: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return cue -> its row of `_Cues.flags`."""
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
    # `split` with a group returns text and choices alternately.
    parts = _CHOICE.split(cue)
    forms = [part.split("|") if number % 2 else [part] for number, part in enumerate(parts)]
    for chosen in itertools.product(*forms):
        yield " ".join("".join(chosen).split())
