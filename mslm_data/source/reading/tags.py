"""Decodes tags of any scheme (IOB1, IOB2, IO, IOBES, BILOU …) into mentions.

The schemes differ only in which prefixes they leave out, so one decoder reads all of them.
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

TAG = re.compile(
    r"(?:(?P<prefix>[BIESLUMW]|[bieslumw](?=[-_]))"
    r"(?:(?:[-_]|[ :](?=[^\W\d_]))(?P<label>.+))?|(?P<outside>[Oo]))\Z"
)
"""A tag: O, or a prefix, alone or followed by `-`, `_`, `:` or a space and a label. O and a prefix
with a label may be in lower case."""

SUFFIXED = re.compile(r"(?P<label>.+)[-_](?P<prefix>[BIESLUMW])\Z")
"""A tag that ends with its prefix, such as `LOC-B`."""
OUTSIDE = frozenset({"O", "-", "0"})
"""Tags outside mentions in files with such tags."""
_SEVERAL = re.compile(r"[,|]")
"""Separators of several tags of one word, such as `B-LOC,B-ORG`."""

BRACKET = re.compile(r"\((?P<label>[^()*\s]+)(?P<both>\*?\))?\*?\Z|(?P<outside>\*)(?P<close>\))?\Z")
"""A tag of CoNLL-2012: `(ORG*` opens a mention, `*)` closes it, `(ORG)` does both; else `*`."""

Ints: TypeAlias = npt.NDArray[np.signedinteger[Any]]

_GOES_ON = frozenset("IEML")
"""Prefixes that continue an open mention."""
_CLOSES = frozenset("ESLUW")
"""Prefixes that close their mention."""


class WordSpan(NamedTuple):
    """A mention, as a half-open range of words `[start, end)`."""

    start: int
    end: int
    label: str

    def shifted(self, num_words: int) -> WordSpan:
        """Return the mention in a document with `num_words` words before the sentence."""
        return WordSpan(self.start + num_words, self.end + num_words, self.label)


@functools.lru_cache(maxsize=4096)
def parse(tag: str) -> tuple[str, str] | None:
    """Split a tag into prefix and label.

    Returns:
        `("O", "")` for O, an empty label for a bare prefix, None for a word that is not a tag.
    """
    match = TAG.match(tag)
    if match is None:
        return None
    return (match["prefix"] or "O").upper(), match["label"] or ""


def is_tag(tag: str) -> bool:
    """Return whether a word is a valid tag of any scheme with prefixes."""
    return parse(tag) is not None


def label_of_several(tag: str) -> str | None:
    """Return the label of one of a word's tags, "" for O.

    Returns:
        None if it is no tag with a label, or could not be split from others after it is joined.
    """
    prefix, label = parse(tag) or ("", "")
    if prefix == "O":
        return ""
    return label if label and not _SEVERAL.search(tag) else None


def is_suffixed(tag: str) -> bool:
    """Return whether a word is a valid tag whose prefix is at its end, such as `LOC-B`."""
    return tag in OUTSIDE or SUFFIXED.match(tag) is not None


def turn_suffix(tag: str) -> str:
    """Return a tag such as `LOC-B` as `B-LOC`."""
    match = SUFFIXED.match(tag)
    return f"{match['prefix']}-{match['label']}" if match else "O"


def is_bracket(tag: str) -> bool:
    """Return whether a word is a valid tag of CoNLL-2012 without nested mentions."""
    return BRACKET.match(tag) is not None


def convert_brackets(
    tags: Ints, offsets: Ints, names: Sequence[str]
) -> tuple[Ints, list[str], list[int]]:
    """Convert tags of CoNLL-2012 to IOB2.

    Args:
        tags: `[W]`, index of each word's tag in `names`; -1 for words without a tag.
        offsets: `[S + 1]`, word range of each sentence.
        names: Distinct tags.

    Returns:
        Tag indices `[W]`, the distinct tags, and the words with an unmatched bracket.
    """
    matches = [BRACKET.match(name) for name in names]
    labels = [match["label"] or "" if match else "" for match in matches]
    ends = [bool(match and (match["both"] or match["close"])) for match in matches]

    distinct = [label for label in dict.fromkeys(labels) if label]
    new_names = ["O", *(f"{prefix}-{label}" for label in distinct for prefix in "BI")]
    begin = {label: 1 + 2 * number for number, label in enumerate(distinct)}
    new = np.zeros(len(tags), np.int64)
    new[tags < 0] = -1

    # Nearly all words have `*` and are skipped. So are words without a tag: -1 indexes the last
    # element, which is False.
    has_bracket = [bool(label) or closes for label, closes in zip(labels, ends, strict=True)]
    words = np.flatnonzero(np.array([*has_bracket, False])[tags])
    sentences = np.searchsorted(offsets, words, side="right")

    alone: list[int] = []
    opened = -1  # word with the open bracket
    opened_sentence = -1
    for word, sentence in zip(words.tolist(), sentences.tolist(), strict=True):
        label = labels[tags[word]]
        closes = ends[tags[word]]

        # An open bracket is unmatched if another bracket opens, or the sentence ends.
        if opened >= 0 and (label or sentence != opened_sentence):
            alone.append(opened)
            opened = -1
        if label:
            opened = word
            opened_sentence = sentence

        if not closes:
            continue
        if opened < 0:
            alone.append(word)
            continue

        # The mention runs from the opening bracket to this word: one B, then I.
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
        table: int64 `[M + 1, 4]`, a row per tag and a last row for words without a tag. See
            `data.bio.find` for the columns.
        labels: Labels, indexed by the table's first column.
    """

    table: npt.NDArray[np.int64]
    labels: list[str]


@functools.lru_cache(maxsize=256)
def meanings(tags: tuple[str, ...], *, untyped: str, i_opens: bool = False) -> TagMeanings:
    """Make the meanings of tags of IOB1, IOB2, IO, IOBES or BILOU, typed or bare.

    B, S and U open a mention. I, E, M and L continue an open mention with the same label, and open
    a new one otherwise: MSLM's code reads tags like this, and IOB1 and IO require it. Without a
    label, they continue any open mention. E, S, L, U, W and O close the open mention.

    Args:
        tags: Distinct tags. Invalid tags are read as O.
        untyped: Label for tags without a label.
        i_opens: Whether I may open a mention, as in IOB1 and IO. Otherwise `late` counts such
            mentions.
    """
    labels: dict[str, int] = {}
    table = []
    for prefix, label in (parse(tag) or ("O", "") for tag in tags):
        number = -1
        if prefix != "O":
            number = labels.setdefault(label or untyped, len(labels))

        # "Late" is a mention opened by a continuing prefix, except I in IOB1 and IO.
        goes_on = prefix in _GOES_ON
        opens_late = goes_on and not (i_opens and prefix == "I")
        of_any = goes_on and not label
        table.append((number, 2 if of_any else goes_on, prefix in _CLOSES, opens_late))
    return TagMeanings(np.array([*table, bio.NO_TAG], np.int64), list(labels))


def make_label_meanings(tags: Sequence[str], *, outside: str) -> TagMeanings:
    """Make the meanings of labels without prefixes: equal neighbours form one mention.

    Args:
        tags: Distinct labels.
        outside: Label outside mentions.
    """
    table = [(-1 if tag == outside else number, 1, 0, 0) for number, tag in enumerate(tags)]
    return TagMeanings(np.array([*table, bio.NO_TAG], np.int64), list(tags))


@dataclass(frozen=True, slots=True, eq=False)
class TaggedMentions:
    """The mentions of S sentences.

    Attributes:
        spans: int64 `[N, 3]`: first word, last word + 1, index into `labels`. Words are counted
            over all sentences.
        offsets: int64 `[S + 1]`, mention range of each sentence.
        late: int64 `[S]`, number of mentions that begin with a continuing tag, such as I.
        labels: Distinct labels.
    """

    spans: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    late: npt.NDArray[np.int64]
    labels: list[str]


def _split_layers(names: Sequence[str]) -> list[list[str]]:
    """Return the tags of each label, if some words have several tags, such as `B-LOC,B-ORG`.

    Args:
        names: Distinct tags.

    Returns:
        One list, `names` itself, in the usual case. Otherwise a list per label, with the tag of
        that label in place of each name, O if it has none.
    """
    parts = [_split_several(name) for name in names]
    if all(len(tags) == 1 for tags in parts):
        return [[*names]]
    layers: dict[str, list[str]] = {}
    for number, tags in enumerate(parts):
        for tag in tags:
            prefix, label = parse(tag) or ("O", "")
            if prefix != "O":
                layers.setdefault(label, ["O"] * len(names))[number] = tag
    return [*layers.values()] or [["O"] * len(names)]


@functools.lru_cache(maxsize=4096)
def _split_several(name: str) -> tuple[str, ...]:
    """Split `B-LOC,B-ORG` into tags. A name stays whole if a part of it is no tag with a label."""
    parts = _SEVERAL.split(name)
    are_tags = all(part == "O" or (len(part) > 1 and is_tag(part)) for part in parts)
    return tuple(parts) if are_tags else (name,)


def decode_tags(
    tags: Ints, offsets: Ints, names: Sequence[str], *, untyped: str, i_opens: bool = False
) -> TaggedMentions:
    """Decode the tags of S sentences; see `meanings` and `decode_sentences`.

    Args:
        tags: `[W]`, index of each word's tag in `names`; -1 for words without a tag.
        offsets: `[S + 1]`, word range of each sentence.
        names: Distinct tags. Words with several tags, such as `B-LOC,B-ORG`, are in a mention of
            each label.
        untyped: Label for tags without a label.
        i_opens: Whether I may open a mention.
    """
    layers = [
        meanings(tuple(layer), untyped=untyped, i_opens=i_opens) for layer in _split_layers(names)
    ]
    return united([decode_sentences(tags, offsets, means) for means in layers])


def decode_sentences(tags: Ints, offsets: Ints, means: TagMeanings) -> TaggedMentions:
    """Decode the tags of S sentences.

    Args:
        tags: `[W]`, index of each word's tag in `means`; -1 for words without a tag.
        offsets: `[S + 1]`, word range of each sentence.
        means: Meanings of the tags.
    """
    mentions = bio.find(tags, offsets, means.table)
    return TaggedMentions(mentions.spans, mentions.offsets, mentions.late, means.labels)


def united(layers: Sequence[TaggedMentions]) -> TaggedMentions:
    """Merge the mentions of several layers of the same sentences, in the order of sentences."""
    if len(layers) == 1:
        return layers[0]
    labels = list(dict.fromkeys(label for layer in layers for label in layer.labels))
    sentences = [
        np.repeat(np.arange(len(layer.offsets) - 1), np.diff(layer.offsets)) for layer in layers
    ]
    spans = []
    for layer in layers:
        number = np.array([labels.index(label) for label in layer.labels], np.int64)
        renumbered = layer.spans.copy()
        renumbered[:, 2] = number[renumbered[:, 2]] if len(renumbered) else renumbered[:, 2]
        spans.append(renumbered)

    # A stable sort keeps the layers in order within a sentence.
    order = np.argsort(np.concatenate(sentences), kind="stable")
    counts = np.sum([np.diff(layer.offsets) for layer in layers], axis=0)
    return TaggedMentions(
        np.concatenate(spans)[order],
        np.append(0, np.cumsum(counts)),
        np.sum([layer.late for layer in layers], axis=0),
        labels,
    )


def decode(
    tags: Sequence[str], *, untyped: str, i_opens: bool = False
) -> tuple[list[WordSpan], int]:
    """Decode the tags of one sentence; see `meanings`.

    Args:
        tags: One tag per word.
        untyped: Label for tags without a label.
        i_opens: Whether I may open a mention.

    Returns:
        The mentions in order, and the number of mentions that begin with a continuing tag.

    Raises:
        ValueError: A word is not a tag. The message gives its position from 0, not the word.
    """
    if tags.count("O") == len(tags):
        return [], 0

    numbers = {tag: number for number, tag in enumerate(dict.fromkeys(tags))}
    for tag in numbers:
        if not is_tag(tag):
            raise ValueError(f"position {tags.index(tag)}: expected a tag such as O, B-X or I-X")

    spans: list[WordSpan] = []
    late = 0
    for layer in _split_layers([*numbers]):
        layer_tags = [layer[numbers[tag]] for tag in tags]
        layer_spans, layer_late = _decode_layer(layer_tags, untyped=untyped, i_opens=i_opens)
        spans += layer_spans
        late += layer_late
    return spans, late


def _decode_layer(
    tags: Sequence[str], *, untyped: str, i_opens: bool
) -> tuple[list[WordSpan], int]:
    """Decode valid tags of one sentence, as `decode_sentences` does for many in arrays."""
    spans: list[WordSpan] = []
    late = 0
    start = -1  # of the open mention
    open_label = ""
    for word, tag in enumerate(tags):
        prefix, label = parse(tag) or ("O", "")
        goes_on = prefix in _GOES_ON

        if start >= 0 and not (goes_on and label in ("", open_label)):
            spans.append(WordSpan(start, word, open_label))
            start = -1
        if start < 0 and prefix != "O":
            start = word
            open_label = label or untyped
            is_regular = not goes_on or (i_opens and prefix == "I")
            late += not is_regular
        if start >= 0 and prefix in _CLOSES:
            spans.append(WordSpan(start, word + 1, open_label))
            start = -1

    if start >= 0:
        spans.append(WordSpan(start, len(tags), open_label))
    return spans, late


def opens_with_i(*, mentions: int, late: int) -> bool:
    """Return whether tags follow a scheme in which I opens mentions (IOB1, IO).

    In IOB1, B only separates adjacent mentions with the same label. In IOB2, every mention begins
    with B. The majority decides, because files contain stray I tags.

    Args:
        mentions: Number of mentions at a file's beginning.
        late: Number of mentions among them that begin with a continuing tag.
    """
    return 2 * late > mentions


def runs(labels: Sequence[str], *, outside: str) -> list[WordSpan]:
    """Convert one label per word into mentions: equal neighbours form one mention.

    Args:
        labels: One label per word.
        outside: Label outside mentions.
    """
    spans: list[WordSpan] = []
    start = 0
    for i in range(1, len(labels) + 1):
        if i == len(labels) or labels[i] != labels[start]:
            if labels[start] != outside:
                spans.append(WordSpan(start, i, labels[start]))
            start = i
    return spans
