"""Reads mentions in the various forms used in rows, and detects values that look like mentions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, cast

from mslm_data.data.reason import Reason
from mslm_data.source.form import Findings
from mslm_data.source.reading import cells, tags
from mslm_data.source.reading.cells import Cells, parse_json_text
from mslm_data.source.reading.occurrences import is_within_word, place_words
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.standoff import Annotation

if TYPE_CHECKING:
    from mslm_data.source.reading.shapes.base import RowsFile

# Keys of mentions. The first one in a mention is used. Others are found by their words, as in
# `startOffset` and `end_char`; see `_guess_fragments`.
STARTS = ("start", "begin", "start_offset", "start_position", "start_char", "start_byte")
ENDS = ("end", "end_offset", "end_position", "end_char", "end_byte", "limit_byte")
_RANGES = ("offsets", "span", "position", "range", "indices")
"""Keys of a range, or of several."""
_PARTS = ("offsets", "fragments", "parts", "pieces")
_GROUPS = ("mentions", "points", "instances", "occurrences", "spans", "entities", "annotations")
"""Keys of the ranges of one mention, and of several mentions. Under another key, ranges are those
of one mention if their object is in a group that has the label."""
CONCEPTS = ("concept", "cui", "normalized", "kb_id")
WORDS = ("text", "entity_value", "lexical_variant")
_WORDS_ALONE = (
    *WORDS,
    *("words", "word", "mention", "value", "surface", "surface_form", "entity_text", "span"),
    *("phrase", "term", "name", "entity"),
)
"""Keys of the words of a mention without offsets."""

_USUAL_WORDS = ("tokens", "words")
_OTHER_WORDS = ("token", "sentence", "text", "tokenized_text")
WORDS_COLUMNS = (*_USUAL_WORDS, *_OTHER_WORDS)
"""Columns of words. The other ones may hold something else."""
USUAL_TAGS = ("ner_tags", "tags", "labels")
OTHER_TAGS = ("ner", "ner_tag", "bio_tags", "iob_tags", "word_labels", "tag", "label")
"""Columns of a tag for each word. The other ones may hold something else."""

_OF_MENTIONS = re.compile(r"ent|ner|mention|annot|label|tag|span|gold|output|answer")
"""Parts of the names of columns of mentions."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_OF_TIME = frozenset({"year", "month", "date", "day", "time", "timestamp", "seconds", "ms"})
"""Words in field names that show that the field does not count characters."""
_OTHERS = _OF_TIME | {"token", "tok", "word", "sentence", "sent", "line", "page", "paragraph"}
"""Words in field names that show that the field counts something else."""
_DEEPEST = 4
"""Maximum depth of lists and objects searched for mentions."""
_FIRST = ("start", "begin", "offset")
_LAST = ("end", "stop", "limit")
_LENGTH = ("length",)
"""Words in names of the first and the last character of a mention, and of its length."""
_PLACES = frozenset({*STARTS, *_RANGES})
_KEYS = frozenset({*_PLACES, *ENDS, *cells.LABELS})
"""Keys of mentions with offsets, and keys that show that an object is a mention."""
_TOKEN = frozenset({"entity", "index", "word", "start", "end"})
"""Keys of a tagged token, as transformers' pipelines give it unless they aggregate tokens."""
_NO_PLACES = "expected start and end of tagged tokens, got none; a fast tokenizer gives them"

CONVERT = 'else convert the files: docs/forms.md has code for "Formats without a source"'
"""Advice for files that no option makes readable."""


class Item(NamedTuple):
    """A mention as written.

    Attributes:
        value: An object, a list, or the words of the mention.
        label: Its label, if an object or a key around it has one, else None.
        words: Its words, if they are the key around it.
    """

    value: Any
    label: Any = None
    words: str | None = None


def read_mentions(value: object, column: str, file: RowsFile, found: Findings) -> list[Annotation]:
    """Read the mentions in a column.

    Args:
        value: The value of the column, as for `flatten`.
        column: Name of the column, for messages and for names of integers.
        file: The file, for names of integers and of keys.
        found: The record. Mentions without offsets are searched in its text, and counted if they
            cannot be placed. The unit of offsets is set if the keys name it.

    Raises:
        RecordError: The mentions have another form.
        SourceError: As for `RowsFile.name`.
    """
    annotations: list[Annotation] = []
    items = [*flatten(_decoded(value, column, file), _own_keys(file))]
    if all(isinstance(item.value, Mapping) and item.value.keys() >= _TOKEN for item in items):
        items = _join_tokens([item.value for item in items], file, found.text)
    for item in items:
        if isinstance(item.value, list):
            annotations += _read_list(item, column, file, found.text)
        elif isinstance(item.value, str):
            annotations += _labelled(Annotation((), "", item.value), item.label, column, file)
        else:
            annotations += _read_object(item, column, file, found)
    return find_places(annotations, file, found)


def find_places(
    annotations: Sequence[Annotation], file: RowsFile, found: Findings
) -> list[Annotation]:
    """Give mentions without offsets the place of their words in the text."""
    num_alone = sum(bool(one.words and not one.fragments) for one in annotations)
    if num_alone:
        found.is_exact = num_alone == len(annotations)
    return place_words(annotations, found, file.options.occurrences)


def _read_list(item: Item, column: str, file: RowsFile, text: str) -> Sequence[Annotation]:
    """Read a list of a start and an end, a label, and words, some of which may be missing.

    As `[start, end, label]`, or `[label, start, end]` in Argilla 1. An integer may be the label,
    last. Of two texts, the words are the one that the text has.
    """
    values: list[Any] = item.value
    texts = [value for value in values if isinstance(value, str)]
    places = [value for value in values if not isinstance(value, str)]
    label = item.label
    if len(places) == 3 and not texts and label is None:
        label = places.pop()
    if len(texts) == 1 and label is None and places:
        label = texts.pop()
    if len(texts) == 2 and label is None:
        fragment = cells.pair(places) if places else (0, len(text))
        copies = [one for one in texts if one in text[slice(fragment[0], fragment[1] + 1)]]
        if len(copies) == 1:
            texts = copies
            [label] = {*item.value} - {*copies, *places}
    if label is None or len(texts) > 1 or not (places or texts):
        raise RecordError(
            f"expected mentions of start, end and label, got {len(values)} value(s)",
            code="values of a mention",
        )
    annotation = Annotation(
        (cells.pair(places),) if places else (), "", item.words or "".join(texts)
    )
    return _labelled(annotation, label, column, file)


def _read_object(item: Item, column: str, file: RowsFile, found: Findings) -> Sequence[Annotation]:
    """Read an object. A mention with several labels becomes several annotations.

    Forms are start, end and label under any of the known keys, `{span: [start, end]}`, BigBio's
    `{offsets, text, type}`, and words without offsets.
    """
    row: Cells = item.value
    if _KEYS.isdisjoint(row):
        named = {name: value for name, value in row.items() if name in _own_keys(file)}
        row = {f"{name[:1].lower()}{name[1:]}": value for name, value in row.items()} | named
    option = file.options.label_key
    key = option or cells.first_filled(row, cells.LABELS) or ""
    fragments = _fragments(row, file, found)
    words = cells.joined(_value(row, WORDS))
    if fragments is None:
        words = next(
            (row[name] for name in _WORDS_ALONE if name != key and isinstance(row.get(name), str)),
            None,
        )
        if not words:
            raise RecordError(_no_offsets(row, column, file))
    annotation = Annotation(
        fragments or (),
        label="",
        words=words or item.words,
        concept=cells.concept(_value(row, CONCEPTS)),
    )
    label = row.get(key)
    return _labelled(annotation, item.label if label is None else label, column, file)


def _join_tokens(tokens: Iterable[Cells], file: RowsFile, text: str) -> list[Item]:
    """Join tagged tokens to mentions, as transformers' pipelines do by their strategy "simple".

    Pieces of a word with the same label are one mention, whatever their tags begin.
    """
    mentions: list[dict[str, Any]] = []
    before = None
    for token in tokens:
        prefix, label = tags.parse(str(token["entity"])) or ("I", str(token["entity"]))
        if prefix == "O":
            continue
        if token["start"] is None:
            raise RecordError(_NO_PLACES)
        start, end = cells.pair([token["start"], token["end"]])
        mention = {"label": label or file.options.untyped, "start": start, "end": end}
        last = mentions[-1] if mentions and token["index"] == before else {}
        goes_on = last.get("label") == mention["label"]
        if goes_on and (
            prefix not in "BSU" or (last["end"] == start and is_within_word(text, start))
        ):
            last["end"] = end
        else:
            mentions.append(mention)
        before = token["index"] + 1
    return [Item(mention) for mention in mentions]


def _labelled(
    annotation: Annotation, label: object, column: str, file: RowsFile
) -> Sequence[Annotation]:
    """Return an annotation for each of its labels, as given in a mention."""
    if isinstance(label, str):
        return (annotation._replace(label=label),)
    labels = label if isinstance(label, list) else [label]
    labels = [one.get("value", "") if isinstance(one, Mapping) else one for one in labels]
    names = ["" if name is None else file.name(name, column) for name in labels]
    return [annotation._replace(label=name) for name in names or [""]]


def _fragments(row: Cells, file: RowsFile, found: Findings) -> Sequence[tuple[int, int]] | None:
    """Return the ranges of a mention, None if it has none, and set their unit if keys name it."""
    start = _value(row, STARTS, file.options.start_key)
    end = _value(row, ENDS, file.options.end_key)
    # `type` instead of `isinstance`, because True is an int.
    if type(start) is int and type(end) is int:
        if row.get("start_byte") == start:
            found.unit = "bytes"
        return ((start, end),)
    for name in _RANGES:
        value = row.get(name)
        if isinstance(value, list) and value:
            return cells.pairs(value if isinstance(value[0], list) else [value])
    if start is None or end is None:
        guessed = _guess_fragments(row)
        if guessed or start is end:
            return guessed
    return cells.pairs([[start, end]])


def _guess_fragments(row: Cells) -> Sequence[tuple[int, int]] | None:
    """Return the range of a mention with unusual keys, such as `offset` and `length`."""
    names = _names_of_places(row)
    lengths = [row[name] for name, words in names.items() if _begins(words, _LENGTH)]
    ends = [row[name] for name, words in names.items() if _begins(words, _LAST)]
    starts = [
        row[name]
        for name, words in names.items()
        if _begins(words, _FIRST) and not _begins(words, (*_LAST, *_LENGTH))
    ]
    if len(starts) == len(ends) == 1:
        return (cells.pair([*starts, *ends]),)
    if len(starts) == len(lengths) == 1:
        start, length = cells.pair([*starts, *lengths])
        return ((start, start + length),)
    return None


def _names_of_places(row: Cells) -> dict[str, list[str]]:
    """Return the keys that may count characters, with the words in their names."""
    words_of = {name: _split_name(str(name)) for name in row}
    return {name: words for name, words in words_of.items() if _OTHERS.isdisjoint(words)}


def _no_offsets(row: Cells, column: str, file: RowsFile) -> Reason:
    """Make the reason for objects that are not mentions. Without numbers, they have no offsets."""
    if not any(map(_has_number, row.values())):
        return Reason(
            f"expected mentions in column {file.quote(column)}, got objects without offsets, with "
            f"{file.show_keys(row, column)}",
            code="keys of mentions without offsets",
            advice={
                "label_key": "if they hold words and a label, name the key of the label with "
                f"source.label_key; {CONVERT}"
            },
        )
    return Reason(
        f"expected mentions with start and end in column {file.quote(column)}, got objects "
        f"with {file.show_keys(row, column)}",
        code="keys of mentions",
        advice={
            "start_key": "name the keys of a mention with source.start_key, "
            "source.end_key and source.label_key"
        },
    )


def _has_number(value: object) -> bool:
    values = value if isinstance(value, list) else [value]
    return any(str(one).lstrip("-").isdecimal() for one in values)


def _value(row: Cells, names: Sequence[str], option: str = "") -> object:
    """Return the value of a key, or of the first of some keys that has one."""
    if option:
        return row.get(option)
    for name in names:
        value = row.get(name)
        if value is not None:
            return value
    return None


def _decoded(value: object, column: str, file: RowsFile) -> object:
    """Return the mentions in a column, which may be JSON in a text, for tables without lists."""
    value = parse_json_text(value)
    # Usually a label of the whole document.
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        kind = "text" if isinstance(value, str) else "number"
        raise RecordError(
            Reason(
                f"expected a list of mentions in column {file.quote(column)}, got a {kind}",
                advice={
                    "mentions_column": "{set} source.doc_label=… with that name if it holds a "
                    "label of each document, or name the column of mentions with "
                    "source.mentions_column"
                },
            )
        )
    return value


def _own_keys(file: RowsFile) -> frozenset[str]:
    options = file.options
    return _KEYS.union(filter(None, (options.start_key, options.end_key, options.label_key)))


def flatten(
    value: object,
    keys: Set[str],
    *,
    label: object = None,
    words: str | None = None,
    depth: int = _DEEPEST,
) -> Iterator[Item]:
    """Yield the mentions in a value.

    Mentions may be within an object that has their label, as in `{type, mentions: […]}`, and under
    their label, as in `{PER: [[0, 3]]}` and `{PER: ["Ada"]}`, also with their words between them,
    as in `{PER: {Ada: [[0, 3]]}}`. `datasets` stores a list of objects as an object of lists.

    Args:
        value: A list or an object.
        keys: Keys that show that an object is a mention, and not one of labels.
        label: Label around the value, None if there is none.
        words: Words around the value.
        depth: Maximum depth.

    Raises:
        RecordError: There is something else.
    """
    if depth == 0:
        raise RecordError("expected a list of mentions, got more levels")
    if label is None and _has_entities(value):
        value = value["entities"]
    if isinstance(value, Mapping) and keys.isdisjoint(value):
        for key, inner in value.items():
            around = {"label": key} if label is None else {"label": label, "words": key}
            yield from flatten(_listed(inner, keys), keys, depth=depth - 1, **around)
        return
    for item in cells.objects(value):
        name, within = _find_within(item)
        if within is not None:
            own = _value(item, cells.LABELS) if isinstance(item, Mapping) else None
            if name and name not in _GROUPS and (name in _PARTS or own is None is not label):
                yield Item({**item, _PARTS[0]: [*map(_read_range, within)]}, label, words)
                continue
            inherited = label if own is None else own
            yield from flatten(within, keys, label=inherited, words=words, depth=depth - 1)
        elif isinstance(item, Mapping | list) or (isinstance(item, str) and label is not None):
            yield Item(item, label, words)
        else:
            raise RecordError(
                Reason(
                    f"expected mentions, got a list of {_kind(item)}s",
                    advice={
                        "mentions_column": "if these are tags, each row also needs a list of its "
                        f"words or characters, in column tokens; {CONVERT}"
                    },
                )
            )


def _has_entities(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether an object has its mentions in `entities`, as results of GLiNER2."""
    entities = value.get("entities") if isinstance(value, Mapping) else None
    return isinstance(entities, Mapping) or (
        isinstance(entities, list) and all(isinstance(one, Mapping) for one in entities)
    )


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "text"
    return "number" if isinstance(value, int | float) else "value"


def _listed(value: object, keys: Set[str]) -> object:
    """Return the mentions under a label as a list or an object of lists."""
    if value is None:
        return []
    is_mention = isinstance(value, Mapping) and (
        isinstance(value.get("text"), str)
        or not (keys.isdisjoint(value) or all(isinstance(one, list) for one in value.values()))
    )
    return [value] if is_mention or isinstance(value, str) or _are_pair(value) else value


def _find_within(item: object) -> tuple[str, Any]:
    """Return the ranges or mentions in a list of them, or in an object without offsets.

    Returns:
        Their key, "" in a list, and the values; None if there are none.
    """
    if isinstance(item, list):
        are_lists = bool(item) and all(isinstance(inner, list | Mapping) for inner in item)
        return "", item if are_lists else None
    if not isinstance(item, Mapping) or not _PLACES.isdisjoint(item):
        return "", None
    # What a mention with a place has within it are its attributes.
    if _has_range({name: item[name] for name in _names_of_places(item)}, _is_integer):
        return "", None
    found = [
        (name, value)
        for name, value in item.items()
        if look_like_mentions(value) or _are_pairs(value)
    ]
    if not found:
        found = [
            (name, [value])
            for name, value in item.items()
            if isinstance(value, Mapping) and _has_range(value, _is_integer)
        ]
    return found[0] if len(found) == 1 else ("", None)


def _read_range(part: object) -> list[int]:
    """Return the range of a part of a mention."""
    if isinstance(part, Mapping):
        return [*cells.pair([_value(part, STARTS), _value(part, ENDS)])]
    return [*cells.pair(part)]


# Values that look like mentions -------------------------------------------------------------------


def look_like_mentions(value: object, *, depth: int = _DEEPEST) -> bool:
    """Return whether a value looks like mentions.

    Looks for objects with integers for start and end or length, and lists of two integers and a
    text, at any depth up to `depth`.
    """
    if depth == 0:
        return False
    value = parse_json_text(value)
    if isinstance(value, Mapping):
        # `datasets` stores a list of objects as an object of lists.
        is_table = all(isinstance(values, list) for values in value.values())
        if is_table and (_has_range(value, _are_integers) or any(map(_are_pairs, value.values()))):
            return True
        return any(look_like_mentions(inner, depth=depth - 1) for inner in value.values())
    if not isinstance(value, list):
        return False
    return any(
        (isinstance(item, Mapping) and _has_range_within(item))
        or _is_triple(item)
        or look_like_mentions(item, depth=depth - 1)
        for item in value
    )


def may_list_words(value: object, column: str) -> bool:
    """Return whether a value may be mentions without offsets: each has words and a label.

    An object of texts may be anything, unless the name of its column says that it is of mentions.
    """
    value = parse_json_text(value)
    try:
        found = [*flatten(value, _KEYS)]
    except RecordError:
        return False
    is_named = _OF_MENTIONS.search(column.lower()) is not None or _has_entities(value)
    are_alone = any(isinstance(item.value, str) for item in found)
    return bool(found) and (is_named or not are_alone) and all(map(_has_words_and_label, found))


def _has_words_and_label(item: Item) -> bool:
    value = item.value
    if isinstance(value, str):
        return True
    if isinstance(value, list):
        return len(value) == 2 and all(isinstance(one, str) for one in value)
    key = cells.first_filled(value, cells.LABELS)
    names = [name for name in _WORDS_ALONE if name != key and isinstance(value.get(name), str)]
    return bool(names) and (key is not None or item.label is not None)


def find_words(row: Cells) -> str:
    """Return the column of words, "" if there is none."""
    usual = cells.first_filled(row, _USUAL_WORDS)
    return usual or next((name for name in _OTHER_WORDS if _are_words(row.get(name))), "")


def _are_words(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def find_tags(row: Cells, num_words: int) -> list[str]:
    """Return columns that may hold a tag for each word, in order of preference.

    Columns of known names come first. If there are none, a single other column is accepted if its
    values are tags and not all O.
    """
    usual = [name for name in USUAL_TAGS if row.get(name) is not None]
    if usual:
        return usual
    others = [
        name
        for name, value in row.items()
        if isinstance(value, list) and len(value) == num_words and all(map(_is_tag, value))
    ]
    named = [name for name in OTHER_TAGS if name in others]
    # Integers, also as texts, are tags in columns with known names only.
    named += [name for name in OTHER_TAGS if _are_numbers(row.get(name), num_words)]
    unnamed = [name for name in others if any(len(tag) > 1 for tag in row[name])]
    return named[:1] or (unnamed if len(unnamed) == 1 else [])


def _are_numbers(value: object, length: int) -> bool:
    are_as_many = isinstance(value, list) and len(value) == length > 0
    return are_as_many and all(map(str.isdecimal, map(str, cast("list[Any]", value))))


def count_mentions(row: object) -> int:
    """Estimate the number of mentions in a row that cannot be read, -1 if it seems to have none."""
    if not isinstance(row, Mapping):
        return -1
    for value in map(parse_json_text, row.values()):
        if look_like_mentions(value):
            return len(value) if isinstance(value, list) else 1
        items = value.split() if isinstance(value, str) else value
        if isinstance(items, list) and items and all(map(_is_tag, items)):
            return sum(tag[0] in "BSU" for tag in items)
    return -1


def _is_tag(value: object) -> bool:
    return isinstance(value, str) and tags.is_tag(value)


def _has_range_within(item: Mapping[Any, Any]) -> bool:
    """Return whether an object has a start and an end, or has an object with them."""
    objects = [item, *(inner for inner in item.values() if isinstance(inner, Mapping))]
    return any(_has_range(values, _is_integer) for values in objects)


def _has_range(values: Mapping[Any, Any], is_place: Any) -> bool:
    """Return whether an object has a start, and an end or a length."""
    if _are_pair(values.get("span")):
        return True
    pieces = values.get("offsets")
    if isinstance(pieces, list) and pieces and all(map(_are_pair, pieces)):
        return True
    names = [str(name) for name, value in values.items() if is_place(value)]
    places = [words for name in names if _OF_TIME.isdisjoint(words := _split_name(name))]
    starts = any(_begins(words, _FIRST) for words in places)
    ends = any(_begins(words, (*_LAST, *_LENGTH)) for words in places)
    return starts and ends


def _are_pair(value: Any) -> bool:
    return _are_integers(value) and len(value) == 2


def _are_pairs(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_are_pair, value))


def _split_name(name: str) -> list[str]:
    """Split a name such as `startOffset` or `end_char` into words."""
    return [word.lower() for word in _WORD.findall(name)]


def _begins(words: Sequence[str], wanted: Sequence[str]) -> bool:
    """Return whether one of the words is wanted, or the first begins with one, as `endoffset`."""
    return any(word in wanted for word in words) or "".join(words).startswith(tuple(wanted))


def _is_integer(value: object) -> bool:
    return cells.is_number(value)


def _are_integers(values: object) -> bool:
    return isinstance(values, list) and bool(values) and all(map(_is_integer, values))


def _is_triple(item: object) -> bool:
    if not isinstance(item, list) or not 3 <= len(item) <= 5:
        return False
    # `type` instead of `isinstance`, because True is an int.
    num_integers = sum(type(value) is int for value in item)
    return num_integers == 2 and any(isinstance(value, str) for value in item)
