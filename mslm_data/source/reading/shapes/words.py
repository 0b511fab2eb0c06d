"""Shapes with words: a tag for each word, or mentions as ranges of words."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mslm_data.errors import SourceError
from mslm_data.source.form import Findings
from mslm_data.source.reading import cells, tags
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes.base import RowsFile, Shape
from mslm_data.source.reading.shapes.mention_forms import (
    OTHER_TAGS,
    USUAL_TAGS,
    WORDS_COLUMNS,
    find_tags,
    find_words,
    look_like_mentions,
)
from mslm_data.source.reading.standoff import misplaced
from mslm_data.source.reading.tags import WordSpan

_SENTENCES = ("tokens", "words", "sentence", "text")
_SPANS = ("entities", "ner", "spans", "mentions", "annotations", "ents", "entity_mentions")
_TAGS = (*USUAL_TAGS, *OTHER_TAGS)
"""Columns of words in a text, of mentions, and of a tag for each word."""
_RANGES = ("index", "pos", "position", "span")
"""Keys of the first and the last word of a mention, or of all its words."""


def _set_words(found: Findings, sentences: Sequence[object]) -> None:
    """Set the words of each sentence.

    Raises:
        RecordError: A sentence is no list of words, or a word is empty or another value.
    """
    found.words = []
    for words in sentences:
        if not isinstance(words, list) or not words:
            raise RecordError("expected at least one token, got no tokens")
        if set(map(type, words)) != {str} or "" in words:
            raise RecordError(
                "expected tokens that are text, got an empty one or a value that is not text"
            )
        found.words.append(words)


def _words_of(row: Cells) -> Any:
    return row.get(find_words(row))


# A tag for each word ------------------------------------------------------------------------------


class _Texts(NamedTuple):
    """Words in a text, their tags, and the column of the tags."""

    words: list[str]
    tags: list[str]
    column: str


def _texts_of(row: Cells) -> _Texts | None:
    """Return the words and the tags of a row whose words are in a text, divided by blanks.

    Tags are in a list, or in a text, divided by blanks or commas.
    """
    text = row.get(cells.first_filled(row, _SENTENCES) or "")
    if not isinstance(text, str):
        return None
    words = text.split()
    for column in _TAGS:
        value = row.get(column)
        if isinstance(value, str):
            row_tags = re.split(r"\s*,\s*|\s+", value.strip())
        else:
            row_tags = value if isinstance(value, list) else []
        # A single word may be the label of a text.
        if row_tags and all(map(_is_tag, row_tags)) and (len(row_tags) > 1 or len(words) == 1):
            return _Texts(words, row_tags, column)
    return None


def _is_tag(value: object) -> bool:
    return isinstance(value, str) and tags.is_tag(value)


def _has_words_alone(row: Cells) -> bool:
    words = _words_of(row)
    # Tokens that are objects accompany a text with mentions in characters.
    if words is None or (isinstance(words, list) and words and isinstance(words[0], Mapping)):
        return False
    if words == [] and not _tag_columns(row):
        return False
    return not isinstance(row.get("text"), str) or bool(_tag_columns(row))


def _tag_columns(row: Cells) -> list[str]:
    words = _words_of(row)
    return find_tags(row, len(words) if isinstance(words, list) else 0)


def _read_tags(row: Cells, file: RowsFile, found: Findings) -> None:
    """Read words and tags, each in a list or in a text."""
    texts = _texts_of(row)
    if texts:
        _set_words(found, [texts.words])
        _set_tags(found, texts.words, texts.tags, texts.column, file)
        return
    words = cells.column_list(row, find_words(row))
    _set_words(found, [words])

    option = file.options.mentions_column
    columns = _tag_columns(row) or [file.tag_column] if option == "auto" else [option]
    column = next((name for name in columns if cells.lookup(row, name) is not None), None)
    if column is None:
        _check_no_mentions(row, file)
        names = ", ".join(USUAL_TAGS) if option == "auto" else option
        raise RecordError(f"expected tags in one of the columns {names}, got none")
    values = cells.lookup(row, column)
    if not isinstance(values, list):
        raise RecordError(f"expected a list in column '{column}', got another value")
    _set_tags(found, words, values, column, file)


def _set_tags(
    found: Findings, words: Sequence[str], values: Sequence[Any], column: str, file: RowsFile
) -> None:
    """Set the mentions of words by their tags.

    Raises:
        RecordError: There is another number of tags than of words, or a value is no tag.
    """
    if values and all(isinstance(tag, str) and tag.isdecimal() for tag in values):
        values = [*map(int, values)]
    # Nearly all files have names alone or integers alone, and `RowsFile.name` takes its time.
    kinds = set(map(type, values))
    if kinds <= {str}:
        row_tags = values
    elif kinds == {int}:
        names = {number: file.name(number, column) for number in dict.fromkeys(values)}
        _check_go_on(values, names, column, file)
        if _are_labels(file.options.tag_names):
            names = {number: _without_beginning(name) for number, name in names.items()}
        row_tags = [names[number] for number in values]
    else:
        row_tags = [file.name(tag, column) for tag in values]
    if len(words) != len(row_tags):
        raise RecordError(
            f"expected a tag for each token, got {len(words)} token(s) and {len(row_tags)} tag(s)",
            code="a tag for each token",
        )
    try:
        found.spans = found.decode(row_tags, untyped=file.options.untyped)
    except ValueError as error:
        raise RecordError(f"expected tags, got another item: {error}") from None


def _are_labels(names: Sequence[str]) -> bool:
    """Return whether names are O and labels, of which equal neighbours form one mention."""
    others = [name for name in names if name != "O"]
    return bool(others) and len(others) < len(names) and not any(map(tags.is_tag, others))


def _without_beginning(name: str) -> str:
    """Return a label as a tag that continues mentions, and a tag as it is."""
    return name if tags.is_tag(name) else f"I-{name}"


def _check_go_on(
    values: Sequence[int], names: Mapping[int, str], column: str, file: RowsFile
) -> None:
    """Raise if neighbours have a tag that begins a mention, and no name of the user goes on.

    Raises:
        SourceError: Names the option.
    """
    given = file.options.tag_names
    for before, number in itertools.pairwise(values):
        if before != number or names[number] not in given:
            continue
        prefix, label = tags.parse(names[number]) or ("O", "")
        if prefix == "B" and not any(
            other != prefix and own == label for other, own in filter(None, map(tags.parse, given))
        ):
            label = label or "X"
            raise SourceError(
                f"expected a name such as I-{label} beside B-{label}, as neighbours have the same "
                f'number in column {file.quote(column)}; set [source] tag_names = ["O", '
                f'"{label}"] if they are one mention, and add "I-{label}" at the end if each of '
                "them is a mention"
            )


def _check_no_mentions(row: Cells, file: RowsFile) -> None:
    """Raise if a row of words without tags has mentions, whose unit is unknown."""
    for column, value in row.items():
        if look_like_mentions(value):
            raise SourceError(
                "expected a tag for each token, in one of the columns "
                f"{', '.join(USUAL_TAGS)}, got column {file.quote(column)}, which looks like "
                "mentions; give each row its text and offsets in characters, or GLiNER's "
                "tokenized_text and ner"
            )


def _show_tags(row: Cells) -> bool:
    """Return whether a row certainly has words and tags. Rows of one word are tables of tokens."""
    texts = _texts_of(row)
    if texts:
        return len(texts.words) == len(texts.tags) > 1
    return isinstance(_words_of(row), list) and bool(_tag_columns(row))


WORDS_WITH_TAGS = Shape(  # tokens, ner_tags; sentence "Had gout", labels "O B-X"
    name="words with tags",
    fits=lambda row: _texts_of(row) is not None or _has_words_alone(row),
    read=_read_tags,
    texts=frozenset(WORDS_COLUMNS),
    columns=frozenset(_TAGS),
    why="its rows have words with tags",
    shows=_show_tags,
)


# Mentions as ranges of words ----------------------------------------------------------------------


class _GivenSpan(NamedTuple):
    """A mention as written in a row. `words` are its text, "" if it is not repeated."""

    start: int
    end: int
    label: str | int
    words: str = ""


def _as_span(item: object) -> _GivenSpan | None:
    """Return a mention of two integers and a label, None for anything else."""
    if isinstance(item, Mapping):
        label = item.get(cells.first_filled(item, cells.LABELS) or "")
        indices = item.get(cells.first_filled(item, _RANGES) or "")
        values = [item.get("start"), item.get("end"), label]
        if isinstance(indices, list) and indices:
            values = [indices[0], indices[-1], label]
            # All words of a mention may be listed, unless one is missing.
            if len(indices) > 2 and not _are_consecutive(indices):
                return None
    elif isinstance(item, list) and len(item) >= 3:
        values = item
    else:
        return None
    start, end, label = values[:3]
    # `type` instead of `isinstance`, because True is an int.
    if type(start) is not int or type(end) is not int or not isinstance(label, str | int):
        return None
    words = item.get("text") if isinstance(item, Mapping) else None
    return _GivenSpan(start, end, label, words if isinstance(words, str) else "")


def _are_consecutive(numbers: Sequence[Any]) -> bool:
    are_integers = all(type(number) is int for number in numbers)
    return are_integers and all(right == left + 1 for left, right in itertools.pairwise(numbers))


def _given_spans(items: Iterable[object]) -> Iterator[_GivenSpan]:
    """Yield mentions, and raise for other values."""
    for item in items:
        span = _as_span(item)
        if span is None:
            raise RecordError("expected mentions of first word, last word and label, got others")
        yield span


def _span_column(row: Cells) -> str:
    """Return the first column of mentions in words, "" if there is none."""
    for name in _SPANS:
        value = row.get(name)
        if isinstance(value, list) and all(map(_as_span, value)):
            return name
    return ""


def _has_words_and_spans(row: Cells) -> bool:
    if isinstance(row.get("text"), str) or any(row.get(name) for name in USUAL_TAGS):
        return False
    words = _words_of(row)
    are_words = isinstance(words, list) and bool(words) and isinstance(words[0], str)
    return are_words and bool(_span_column(row))


def _read_spans(row: Cells, file: RowsFile, found: Findings) -> None:
    """Read a list of words, and mentions `{start, end, type}` or `[start, end, label]` in words.

    `index` and similar keys have the first and the last word, or all words, of a mention.

    Ends are inclusive or exclusive as set by `source.ends`. With "auto", ends in SpERT's format (a
    type beside relations) are exclusive; otherwise the file's first rows decide: ends are inclusive
    if a mention has equal start and end, exclusive if a mention ends after the last word, and as
    the texts of mentions show.
    """
    words = _words_of(row)
    _set_words(found, [words])
    column = _span_column(row)
    spans = [*_given_spans(row[column])]
    past = int(bool(spans) and _find_ends(row, file) == "inclusive")
    found.spans = [
        WordSpan(span.start, span.end + past, file.name(span.label, column)) for span in spans
    ]

    # SciREX has the ranges of its sentences in words.
    ranges = row.get("sentences")
    if isinstance(ranges, list) and ranges:
        found.words = [words[start:stop] for start, stop in _cuts(ranges, words)]


def _find_ends(row: Cells, file: RowsFile) -> str:
    """Return whether ends are "exclusive" or "inclusive".

    Raises:
        SourceError: Neither the options nor the file decide it.
    """
    if file.options.ends != "auto":
        return file.options.ends
    if _is_spert(row):
        return "exclusive"

    if file.word_ends == "auto":
        raise SourceError(
            "cannot tell whether the end index of a mention in column "
            f"{file.quote(_span_column(row))} includes its last word; set [source] ends to "
            '"inclusive" if it does, otherwise to "exclusive"'
        )
    return file.word_ends


def _show_ends(row: Cells) -> tuple[bool, bool]:
    """Return whether a row shows that ends are inclusive, and that they are exclusive."""
    words = _words_of(row)
    spans = [*_given_spans(row[_span_column(row)])]
    is_inclusive = any(span.start == span.end or _repeats(span, words, 1) for span in spans)
    return is_inclusive, any(span.end == len(words) or _repeats(span, words, 0) for span in spans)


def _repeats(span: _GivenSpan, words: Sequence[str], past: int) -> bool:
    """Return whether a mention repeats the words up to its end and `past` more."""
    stop = span.end + past
    return stop <= len(words) and span.words.split() == [*words[span.start : stop]] != []


def _is_spert(row: Cells) -> bool:
    entities = row.get("entities")
    return (
        isinstance(row.get("relations"), list)
        and isinstance(entities, list)
        and all(isinstance(entity, Mapping) and "type" in entity for entity in entities)
    )


def _cuts(ranges: Sequence[object], words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the words of each sentence. Words between sentences form sentences of their own."""
    # Consecutive bounds are sentences and the gaps between them. Empty ones are dropped.
    bounds = [0, *itertools.chain.from_iterable(cells.pairs([*ranges])), len(words)]
    if any(left > right for left, right in itertools.pairwise(bounds)):
        raise RecordError(
            "expected sentences in order and within the words, got overlapping or longer ranges"
        )
    return (pair for pair in itertools.pairwise(bounds) if pair[0] < pair[1])


WORDS_WITH_SPANS = Shape(  # tokens, entities [{start, end, type}] in words
    name="words with mentions",
    fits=_has_words_and_spans,
    read=_read_spans,
    texts=frozenset(WORDS_COLUMNS),
    columns=frozenset(_SPANS),
    show_ends=_show_ends,
)


def _read_gliner(row: Cells, file: RowsFile, found: Findings) -> None:
    """Read words, and mentions `[first, last, label]`. `last` is inclusive."""
    _set_words(found, [cells.column_list(row, "tokenized_text")])
    found.spans = [
        WordSpan(start, last + 1, file.name(label, "ner"))
        for start, last, label, _ in _given_spans(cells.column_list(row, "ner"))
    ]


GLINER = Shape(  # tokenized_text, ner [[first, last, label]]
    name="GLiNER",
    fits=lambda row: row.get("tokenized_text") is not None,
    read=_read_gliner,
    texts=frozenset({"tokenized_text"}),
    columns=frozenset({"ner"}),
)


def _is_scierc(row: Cells) -> bool:
    sentences = row.get("sentences")
    return (
        isinstance(sentences, list)
        and isinstance(row.get("ner"), list)
        and bool(sentences)
        and all(
            isinstance(words, list) and words and isinstance(words[0], str) for words in sentences
        )
    )


def _read_scierc(row: Cells, file: RowsFile, found: Findings) -> None:
    """Read sentences of words, and for each the mentions `[first, last, label, …]`.

    Words are counted over the document, and `last` is inclusive.
    """
    sentences = cells.column_list(row, "sentences")
    _set_words(found, sentences)
    by_sentence = cells.column_list(row, "ner")
    if len(by_sentence) != len(sentences):
        raise RecordError(
            f"expected a list of mentions for each sentence, got {len(by_sentence)} for "
            f"{len(sentences)}",
            code="mentions for each sentence",
        )
    found.spans = [
        WordSpan(start, last + 1, file.name(label, "ner"))
        for items in by_sentence
        for start, last, label, _ in _given_spans(cells.objects(items))
    ]


SCIERC = Shape(  # sentences [[word]], ner [[[first, last, label]]]
    name="SciERC",
    fits=_is_scierc,
    read=_read_scierc,
    texts=frozenset({"sentences"}),
    columns=frozenset({"ner"}),
)


def _read_docred(row: Cells, file: RowsFile, found: Findings) -> None:
    """Read sentences of words, and entities, which are lists of `{sent_id, pos, type}`.

    `pos` is a half-open range in words of the sentence. Relations are ignored.
    """
    sentences = cells.column_list(row, "sents")
    _set_words(found, sentences)
    firsts = [0, *itertools.accumulate(map(len, sentences))]
    for entity in cells.column_list(row, "vertexSet"):
        for mention in map(cells.mapping, cells.objects(entity)):
            ((start, stop),) = cells.pairs([mention.get("pos")])
            sentence = mention.get("sent_id")
            label = file.name(mention.get("type"), "type")
            if type(sentence) is not int or not 0 <= sentence < len(sentences):
                raise RecordError("expected the number of a sentence in 'sent_id', got another")
            # A mention beyond its sentence would end up in the next one.
            if reason := misplaced(start, stop, length=len(sentences[sentence])):
                found.left_out[reason] += 1
            else:
                found.spans.append(WordSpan(start, stop, label).shifted(firsts[sentence]))


DOCRED = Shape(  # sents [[word]], vertexSet [[{sent_id, pos, type}]]
    name="DocRED",
    fits=lambda row: isinstance(row.get("sents"), list) and isinstance(row.get("vertexSet"), list),
    read=_read_docred,
    texts=frozenset({"sents"}),
    columns=frozenset({"vertexSet"}),
)
