"""Decodes tags of any scheme into mentions.

One decoder does for all schemes (IOB1, IOB2, IO, IOBES, BILOU …), as they differ only in which
prefixes may be left out.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mslm_data.data import bio

TAG = re.compile(r"(?:(?P<prefix>[BIESLUMW])(?:[-_](?P<label>.+))?|(?P<outside>O))\Z")
"""A tag: a prefix, alone or with a label behind `-` or `_`; or O."""

BRACKET = re.compile(r"\((?P<label>[^()*\s]+)(?P<both>\*?\))?\*?\Z|(?P<outside>\*)(?P<close>\))?\Z")
"""A tag of CoNLL-2012: `(ORG*` begins a mention, `*)` ends it, `(ORG)` is one; else `*`."""

Ints: TypeAlias = npt.NDArray[np.signedinteger[Any]]

_GOES_ON = frozenset("IEML")
"""Prefixes of words that go on with an open mention."""
_CLOSES = frozenset("ESLUW")
"""Prefixes of words that end their mention."""


class WordSpan(NamedTuple):
    """A mention in words `[start, end)`."""

    start: int
    end: int
    label: str


@functools.lru_cache(maxsize=4096)
def parse(tag: str) -> tuple[str, str] | None:
    """Split a tag into prefix and label.

    Returns:
        `("O", "")` for outside, a label of "" for a bare prefix, None for a word that cannot be a
        tag.
    """
    match = TAG.match(tag)
    if match is None:
        return None
    return match["prefix"] or "O", match["label"] or ""


def is_tag(tag: str) -> bool:
    """Return whether a word can be a tag of any of the schemes."""
    return parse(tag) is not None


def is_bracket(tag: str) -> bool:
    """Return whether a word can be a tag of CoNLL-2012, without a mention in another."""
    return BRACKET.match(tag) is not None


def convert_brackets(
    tags: Ints, offsets: Ints, names: Sequence[str]
) -> tuple[Ints, list[str], list[int]]:
    """Turn tags of CoNLL-2012 into those of IOB2.

    Args:
        tags: `[W]`, the number of each word's tag in `names`; -1 where a word has none.
        offsets: `[S + 1]`, the words of each sentence.
        names: Distinct tags.

    Returns:
        Numbers, their tags, and the words whose bracket has no other end in its sentence.
    """
    matches = [BRACKET.match(name) for name in names]
    labels = [match["label"] or "" if match else "" for match in matches]
    ends = [bool(match and (match["both"] or match["close"])) for match in matches]

    distinct = [label for label in dict.fromkeys(labels) if label]
    new_names = ["O", *(f"{prefix}-{label}" for label in distinct for prefix in "BI")]
    begin = {label: 1 + 2 * number for number, label in enumerate(distinct)}
    new = np.zeros(len(tags), np.int64)
    new[tags < 0] = -1

    # Nearly all words have `*`, and are passed over. So are words without a tag: -1 looks up the
    # last place.
    has_bracket = [bool(label) or closes for label, closes in zip(labels, ends, strict=True)]
    words = np.flatnonzero(np.array([*has_bracket, False])[tags])
    sentences = np.searchsorted(offsets, words, side="right")

    alone: list[int] = []
    opened = -1  # the word whose bracket is open
    of_opened = -1  # its sentence
    for word, sentence in zip(words.tolist(), sentences.tolist(), strict=True):
        label = labels[tags[word]]
        closes = ends[tags[word]]

        # An open bracket is alone if another opens, or its sentence ends.
        if opened >= 0 and (label or sentence != of_opened):
            alone.append(opened)
            opened = -1
        if label:
            opened = word
            of_opened = sentence

        if not closes:
            continue
        if opened < 0:
            alone.append(word)
            continue
        number = begin[labels[tags[opened]]]
        new[opened] = number
        new[opened + 1 : word + 1] = number + 1
        opened = -1

    if opened >= 0:
        alone.append(opened)
    return new, new_names, alone


@dataclass(frozen=True, slots=True, eq=False)
class TagMeanings:
    """The meanings of M distinct tags, for `decode_sentences`.

    Attributes:
        table: int64 `[M + 1, 4]`, a row for each tag, and a last one for words without a tag. The
            columns are those of `data.bio.find`.
        labels: The label of each number in the table's first column.
    """

    table: npt.NDArray[np.int64]
    labels: list[str]


@functools.lru_cache(maxsize=256)
def meanings(tags: tuple[str, ...], *, untyped: str, i_opens: bool = False) -> TagMeanings:
    """Return the meanings of tags of IOB1, IOB2, IO, IOBES or BILOU, typed or bare.

    B, S and U open a mention. I, E, M and L go on with an open mention of the same label; where
    there is none they open one, which is how MSLM reads tags, and what IOB1 and IO need. E, S, L, U
    and W close their mention, and so does O.

    Args:
        tags: Distinct tags. A word that cannot be a tag means the same as O.
        untyped: Label of tags without a type.
        i_opens: Whether I may open a mention, as in IOB1 and IO; if not, `late` counts it.
    """
    labels: dict[str, int] = {}
    table = []
    for prefix, label in (parse(tag) or ("O", "") for tag in tags):
        number = -1
        if prefix != "O":
            number = labels.setdefault(label or untyped, len(labels))
        goes_on = prefix in _GOES_ON
        opens_late = goes_on and not (i_opens and prefix == "I")
        table.append((number, goes_on, prefix in _CLOSES, opens_late))
    return TagMeanings(np.array([*table, bio.NO_TAG], np.int64), list(labels))


def make_label_meanings(tags: Sequence[str], *, outside: str) -> TagMeanings:
    """Return the meanings of tags that are labels: equal neighbours make one mention.

    Args:
        tags: Distinct labels.
        outside: The one of words in no mention.
    """
    table = [(-1 if tag == outside else number, 1, 0, 0) for number, tag in enumerate(tags)]
    return TagMeanings(np.array([*table, bio.NO_TAG], np.int64), list(tags))


@dataclass(frozen=True, slots=True, eq=False)
class TaggedMentions:
    """The mentions of S sentences.

    Attributes:
        spans: int64 `[N, 3]`: first word, word after the last (both counted over all sentences),
            number of the label.
        offsets: int64 `[S + 1]`, the mentions of each sentence.
        late: int64 `[S]`, how many of them began with a tag that should have continued one.
        labels: The label of each number.
    """

    spans: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    late: npt.NDArray[np.int64]
    labels: list[str]

    def in_sentence(self, sentence: int) -> list[WordSpan]:
        """Return the mentions of one sentence, in words counted over all sentences."""
        spans = self.spans[self.offsets[sentence] : self.offsets[sentence + 1]].tolist()
        return [WordSpan(start, end, self.labels[label]) for start, end, label in spans]


def decode_sentences(tags: Ints, offsets: Ints, means: TagMeanings) -> TaggedMentions:
    """Decode the tags of S sentences.

    Args:
        tags: `[W]`, the number of each word's tag in `means`; -1 where a word has none.
        offsets: `[S + 1]`, the words of each sentence.
        means: What the tags mean.
    """
    found = bio.find(tags, offsets, means.table)
    return TaggedMentions(found.spans, found.offsets, found.late, means.labels)


def united(layers: Sequence[TaggedMentions]) -> TaggedMentions:
    """Return the mentions of several layers of the same sentences together."""
    if len(layers) == 1:
        return layers[0]
    labels = list(dict.fromkeys(label for layer in layers for label in layer.labels))
    sentences = [np.repeat(np.arange(len(one.offsets) - 1), np.diff(one.offsets)) for one in layers]
    spans = []
    for layer in layers:
        number = np.array([labels.index(label) for label in layer.labels], np.int64)
        of_layer = layer.spans.copy()
        of_layer[:, 2] = number[of_layer[:, 2]] if len(of_layer) else of_layer[:, 2]
        spans.append(of_layer)

    order = np.argsort(np.concatenate(sentences), kind="stable")
    counts = np.sum([np.diff(one.offsets) for one in layers], axis=0)
    return TaggedMentions(
        np.concatenate(spans)[order],
        np.append(0, np.cumsum(counts)),
        np.sum([one.late for one in layers], axis=0),
        labels,
    )


def decode(
    tags: Sequence[str], *, untyped: str, i_opens: bool = False
) -> tuple[list[WordSpan], int]:
    """Decode the tags of one sentence; see `meanings`.

    Args:
        tags: One tag a word.
        untyped: Label of tags without a type.
        i_opens: As of `meanings`.

    Returns:
        The mentions in order, and how many began with a tag that should have continued one.

    Raises:
        ValueError: A word cannot be a tag. The message names its position from 0, not the word.
    """
    if tags.count("O") == len(tags):
        return [], 0

    numbers = {tag: number for number, tag in enumerate(dict.fromkeys(tags))}
    for tag in numbers:
        if not is_tag(tag):
            raise ValueError(f"position {tags.index(tag)}: expected a tag such as O, B-X or I-X")

    found = decode_sentences(
        np.array([numbers[tag] for tag in tags]),
        np.array([0, len(tags)]),
        meanings(tuple(numbers), untyped=untyped, i_opens=i_opens),
    )
    return found.in_sentence(0), int(found.late[0])


def opens_with_i(*, mentions: int, late: int) -> bool:
    """Return whether tags follow a scheme in which I opens mentions (IOB1, IO).

    In IOB1, B stands only where a mention follows one of the same label; in IOB2, all mentions
    begin with B. So the majority tells the schemes apart, whatever accidents a file has.

    Args:
        mentions: Mentions of a file's beginning.
        late: How many of them began with a tag that continues one in IOB2.
    """
    return 2 * late > mentions


def runs(labels: Sequence[str], *, outside: str) -> list[WordSpan]:
    """Turn one label a word into mentions: equal neighbours make one.

    Args:
        labels: One label a word.
        outside: The label of words in no mention.
    """
    spans: list[WordSpan] = []
    start = 0
    for i in range(1, len(labels) + 1):
        if i == len(labels) or labels[i] != labels[start]:
            if labels[start] != outside:
                spans.append(WordSpan(start, i, labels[start]))
            start = i
    return spans
