"""Converts user rows (dicts of lists, arrays or tensors) to `Examples`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from mslm_data.data.bio import paint
from mslm_data.data.examples import Examples, TokenIds, check_spans
from mslm_data.data.ragged import Array, Ragged, make_offsets
from mslm_data.encode.tokenizer import parse_tokenizer
from mslm_data.kernels.keys import digest_rows
from mslm_data.kernels.messagepack import unpack_lists
from mslm_data.kernels.user_rows import continue_words, number_tokens
from mslm_data.torch.data.mentions import Spans, no_spans, read_tag_spans

Row: TypeAlias = Mapping[str, Any]
SPANS = ("span_starts", "span_ends", "span_labels")
"""Columns of mentions; lists of one number per mention."""
CHARACTERS = ("token_starts", "token_ends")
"""Columns of character ranges; lists of one number per token."""
_ENCODER = msgspec.msgpack.Encoder()


def token_ids(tokenizer: Any) -> TokenIds:
    """Return the special ids and the vocabulary size of a tokenizer.

    Args:
        tokenizer: A Hugging Face tokenizer, a tokenizer of this package, a split, or `TokenIds`.

    Raises:
        TypeError: The argument is something else, such as the name of a tokenizer.
    """
    # `token_ids` of a split, `ids` of a tokenizer of this package.
    attributes = (getattr(tokenizer, "token_ids", None), getattr(tokenizer, "ids", None))
    for candidate in (tokenizer, *attributes):
        if isinstance(candidate, TokenIds):
            return candidate
    if not hasattr(tokenizer, "all_special_ids"):
        raise TypeError(
            "tokenizer: expected a Hugging Face tokenizer or a split, got "
            f"{type(tokenizer).__name__}; load it first with AutoTokenizer.from_pretrained"
        )

    names = {}
    for kind in ("mask", "pad", "unk"):
        token = getattr(tokenizer, f"{kind}_token", None)
        if token:
            names[kind] = token

    # Fast tokenizers are parsed like those of a build, so that both have the same special ids.
    if hasattr(tokenizer, "backend_tokenizer"):
        return parse_tokenizer(tokenizer.backend_tokenizer.to_str(), names).ids

    ids = {kind: tokenizer.convert_tokens_to_ids(token) for kind, token in names.items()}
    special = {*tokenizer.all_special_ids, *ids.values()}
    return TokenIds(size=len(tokenizer), special=tuple(sorted(special)), **ids)


def make_examples(
    rows: Sequence[Row], ids: TokenIds, *, tags: Sequence[str] | None = None
) -> Examples:
    """Convert rows to `Examples`. Tokens with an `attention_mask` of 0 are removed.

    Args:
        rows: At least one row, all with the same columns; see `MaskingCollator`.
        ids: Token ids of the tokenizer.
        tags: Names of the tags in `labels`. Default: ignore `labels`.

    Raises:
        ValueError: `input_ids` are missing, columns differ in length, mentions overlap or are not
            sorted, or `token_type_ids` are not 0.
    """
    first = rows[0]
    if "input_ids" not in first:
        raise ValueError(
            f"rows: expected input_ids, got {', '.join(sorted(first)) or 'no column'}; tokenise "
            "the rows first, or, if the Trainer drops columns, pass remove_unused_columns=False"
        )

    if "token_type_ids" in first and read_column(rows, "token_type_ids", np.int32).values.any():
        raise ValueError(
            "rows: token_type_ids: expected only 0, got others; batches have no such column: leave "
            "it out to treat a text pair as one text"
        )

    # Read the columns, as token indices of the user's rows.
    tokens = read_column(rows, "input_ids", np.int32)
    words = _read_words(rows, tokens, ids)
    columns: dict[str, Any] = {"input_ids": tokens, "word_ids": words}
    if all(name in first for name in CHARACTERS):
        columns |= {name: _read_token_column(tokens, rows, name, np.int32) for name in CHARACTERS}
    spans = _read_mentions(rows, tokens, words, tags)
    sentences = _read_sentences(rows, tokens)

    # Remove padding, which may be on either side. Mentions are checked before their indices shift.
    kept = np.ones(len(tokens.values), np.bool_)
    if "attention_mask" in first:
        kept = _read_token_column(tokens, rows, "attention_mask", np.bool_).values
    _check_within_text(spans, Ragged(kept & (words.values >= 0), tokens.offsets))

    if not kept.all():
        columns, spans, sentences = _drop_padding(columns, spans, sentences, kept)
        tokens = columns["input_ids"]

    if "doc_label" in first:
        columns["doc_labels"] = np.array([row["doc_label"] for row in rows], np.int16)

    starts, ends, labels = spans
    return Examples(
        keys=_read_keys(rows, tokens),
        bio=Ragged(paint(starts, ends, labels, tokens.offsets), tokens.offsets),
        span_starts=starts,
        span_ends=ends,
        span_labels=labels,
        ids=ids,
        sentence_starts=sentences,
        **columns,
    )


def read_column(rows: Sequence[Row], name: str, dtype: npt.DTypeLike) -> Ragged:
    """Concatenate a column of lists, arrays or tensors.

    None and NaN in a row, such as the `word_ids` of special tokens, become -1.

    Raises:
        ValueError: A row lacks the column.
        OverflowError: A number does not fit the dtype.
    """
    lists = [row.get(name) for row in rows]
    for number, items in enumerate(lists):
        if items is None:
            raise ValueError(
                f"rows: expected {name} in each row of a batch, got none in row {number} of it"
            )

    return _concatenate(lists, dtype)


def _concatenate(lists: Sequence[Any], dtype: npt.DTypeLike) -> Ragged:
    """Concatenate lists, arrays or tensors.

    None becomes -1, and NaN too: `datasets` converts None to NaN in arrays and tensors.

    Lists of Python ints, the usual case, are encoded as MessagePack and decoded in compiled code, 8
    times as fast as item by item.
    """
    column = _concatenate_lists(lists)
    if column is not None:
        values = column.values.astype(dtype, copy=False)

        # NumPy below raises OverflowError for numbers that do not fit the narrower dtype.
        fits = values.dtype in (np.int32, np.bool_) or np.array_equal(values, column.values)
        if fits:
            return Ragged(values, column.offsets)

    # Arrays and tensors, or lists with large or missing numbers.
    offsets = make_offsets(np.array([len(items) for items in lists], np.int64))
    if not all(isinstance(items, list) for items in lists):
        numbers = np.concatenate([np.asarray(items) for items in lists])
        return Ragged(_as_integers(numbers, dtype), offsets)

    integers = (-1 if item is None else item for item in chain.from_iterable(lists))
    return Ragged(np.fromiter(integers, dtype, count=int(offsets[-1])), offsets)


def _concatenate_lists(lists: Sequence[Any]) -> Ragged | None:
    """Concatenate lists of ints as int32, None as -1.

    Returns None for lists of other types, arrays and tensors.
    """
    try:
        packed = np.frombuffer(_ENCODER.encode(lists), np.uint8)
    except (TypeError, OverflowError):  # arrays and tensors, or lists of their numbers
        return None

    # In MessagePack a number has at least one byte, so there are at most as many numbers as bytes.
    values = np.empty(len(packed), np.int32)
    offsets = np.empty(len(lists) + 1, np.int64)
    if not unpack_lists(packed, values, offsets):
        return None

    return Ragged(values[: offsets[-1]], offsets)


def _as_integers(values: Array, dtype: npt.DTypeLike) -> Array:
    """Convert numbers of any dtype to integers; None and NaN become -1.

    Raises:
        OverflowError: A number does not fit the dtype, or has a fraction.
    """
    if values.dtype.kind == "O":
        values = np.array([-1 if item is None else item for item in values.tolist()])
    if values.dtype.kind == "f":
        # The result of casting NaN differs between processors: 0, or the minimum.
        values = np.where(np.isnan(values), -1, values)

    with np.errstate(invalid="ignore"):
        integers = values.astype(dtype)
    if integers.dtype == np.bool_:
        return integers

    changed = values[integers != values]
    if len(changed):
        raise OverflowError(f"rows: expected whole numbers of {integers.dtype}, got {changed[0]}")
    return integers


def _read_token_column(
    tokens: Ragged, rows: Sequence[Row], name: str, dtype: npt.DTypeLike
) -> Ragged:
    """Return a column with one item per token.

    Raises:
        ValueError: A row has more or fewer items than tokens.
    """
    column = read_column(rows, name, dtype)
    if not np.array_equal(column.offsets, tokens.offsets):
        row = int(np.flatnonzero(column.lengths != tokens.lengths)[0])
        raise ValueError(
            f"rows: {name}: expected {tokens.lengths[row]} items, one a token, got "
            f"{column.lengths[row]} in row {row} of a batch"
        )

    return column


def _read_words(rows: Sequence[Row], tokens: Ragged, ids: TokenIds) -> Ragged:
    """Return the word number of each token, increasing within a row, -1 on special tokens.

    Without `word_ids`, each token is a word.
    """
    if "word_ids" in rows[0]:
        words = _read_token_column(tokens, rows, "word_ids", np.int32)
    elif getattr(rows[0], "encodings", None):  # a BatchEncoding of one text
        words = _concatenate([row.word_ids() for row in rows], np.int32)  # type: ignore[attr-defined]
    else:
        special = _find_special(rows, tokens, ids)
        words = Ragged(np.empty(len(special), np.int32), tokens.offsets)
        number_tokens(words.offsets, special, words.values)
        return words

    # Copy, as the array may be the user's. Tokenizers give special tokens in the text itself a word
    # number, so remove it by id.
    numbers = np.array(words.values)
    numbers[_have_special_ids(tokens, ids)] = -1

    # In a text pair, numbers of the second text start at 0 again: continue those of the first.
    continue_words(words.offsets, numbers)
    return Ragged(numbers, words.offsets)


def _find_special(rows: Sequence[Row], tokens: Ragged, ids: TokenIds) -> npt.NDArray[np.bool_]:
    """Find special tokens, by their ids and by `special_tokens_mask`.

    Ids are needed too: the mask is 0 for special tokens in the text itself.
    """
    special = _have_special_ids(tokens, ids)
    if "special_tokens_mask" in rows[0]:
        special |= _read_token_column(tokens, rows, "special_tokens_mask", np.bool_).values
    return special


def _have_special_ids(tokens: Ragged, ids: TokenIds) -> npt.NDArray[np.bool_]:
    """Find special tokens by their ids; `[UNK]` does not count as special."""
    return np.isin(tokens.values, [id_ for id_ in ids.special if id_ != ids.unk])


def _read_mentions(
    rows: Sequence[Row], tokens: Ragged, words: Ragged, tags: Sequence[str] | None
) -> Spans:
    """Return the mentions of rows, from spans or tags; none if the rows have neither."""
    tagged = "bio" if tags is None else "labels"
    if all(name in rows[0] for name in SPANS):
        spans: Spans = (
            read_column(rows, SPANS[0], np.int32),
            read_column(rows, SPANS[1], np.int32),
            read_column(rows, SPANS[2], np.int16),
        )
        check_spans(*spans, tokens.lengths)
        return spans

    if tagged in rows[0]:
        return read_tag_spans(_read_token_column(tokens, rows, tagged, np.int64), words, tags)

    if given := [name for name in SPANS if name in rows[0]]:
        raise ValueError(
            f"rows: expected {', '.join(SPANS)} together, got {' and '.join(given)} only; without "
            "labels, pass span_labels of 0"
        )
    return no_spans(len(rows))


def _check_within_text(spans: Spans, is_text: Ragged) -> None:
    """Check that no mention contains special tokens or padding.

    Args:
        spans: The mentions.
        is_text: bool, False on special tokens and padding.

    Raises:
        ValueError: A mention contains special tokens or padding.
    """
    starts, ends, _ = spans
    first = np.repeat(is_text.offsets[:-1], starts.lengths)
    # Prefix sums of non-text tokens give the number of them in each mention.
    other_counts = make_offsets(~is_text.values)
    contained = other_counts[first + ends.values] - other_counts[first + starts.values]
    if contained.any():
        mention = int(np.flatnonzero(contained)[0])
        row = int(np.searchsorted(starts.offsets, mention, side="right")) - 1
        raise ValueError(
            f"rows: a mention contains {contained[mention]} special token(s) or padding in row "
            f"{row} of a batch, tokens [{starts.values[mention]}, "
            f"{ends.values[mention]}); shorten the mention, or leave it out"
        )


def _read_sentences(rows: Sequence[Row], tokens: Ragged) -> Ragged | None:
    """Return the first token of each sentence; None without the column.

    Raises:
        ValueError: A row has no sentences, or `sentence_starts` are not increasing or outside the
            row.
    """
    if "sentence_starts" not in rows[0]:
        return None

    starts = read_column(rows, "sentence_starts", np.int32)
    counts = starts.lengths

    # Differences within rows must be positive; those across rows are set to 1.
    steps = np.diff(starts.values, prepend=-1)
    steps[starts.offsets[:-1][counts > 0]] = 1
    outside = (starts.values < 0) | (starts.values >= np.repeat(tokens.lengths, counts))
    if np.any(counts == 0) or np.any(outside | (steps < 1)):
        raise ValueError(
            "rows: sentence_starts: expected at least one token position per row, within the row "
            "and rising"
        )
    return starts


def _drop_padding(
    columns: Mapping[str, Ragged], spans: Spans, sentences: Ragged | None, kept: Array
) -> tuple[dict[str, Ragged], Spans, Ragged | None]:
    """Remove padding tokens, and shift mentions and sentences accordingly."""
    offsets = columns["input_ids"].offsets

    # Number of removed tokens before each token of the batch.
    removed = np.concatenate([[0], np.cumsum(~kept)])
    kept_offsets = offsets - removed[offsets]
    kept_columns = {
        name: Ragged(column.values[kept], kept_offsets) for name, column in columns.items()
    }

    starts, ends, labels = spans

    def shift(places: Ragged) -> Ragged:
        first = np.repeat(offsets[:-1], places.lengths)
        removed_before = removed[places.values + first] - removed[first]
        return Ragged((places.values - removed_before).astype(np.int32), places.offsets)

    places = None if sentences is None else shift(sentences)
    return kept_columns, (shift(starts), shift(ends), labels), places


def _read_keys(rows: Sequence[Row], tokens: Ragged) -> npt.NDArray[np.uint64]:
    """Return the keys of rows, uint64 `[N]`; without the column, hashes of their ids."""
    if "key" in rows[0]:
        # Torch has no uint64: keys from tensors may be negative, with the same bits.
        return np.array([int(row["key"]) & 0xFFFF_FFFF_FFFF_FFFF for row in rows], np.uint64)

    keys = np.empty(len(tokens), np.uint64)
    digest_rows(tokens.offsets, tokens.values, keys)
    return keys
