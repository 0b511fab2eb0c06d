"""Converts user rows (dicts of lists, arrays or tensors) to `Examples`."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mslm_data.data.bio import paint
from mslm_data.data.examples import Examples, TokenIds, check_spans
from mslm_data.data.ragged import Array, Ragged, make_offsets
from mslm_data.encode.tokenizer import parse_tokenizer
from mslm_data.kernels.keys import digest_rows
from mslm_data.kernels.user_rows import continue_words
from mslm_data.torch.data.mentions import Spans, no_spans, read_tag_spans

Row: TypeAlias = Mapping[str, Any]
SPANS = ("span_starts", "span_ends", "span_labels")
"""Columns of mentions; lists of one number per mention."""
CHARACTERS = ("token_starts", "token_ends")
"""Columns of character ranges; lists of one number per token."""


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
    for kind in ("mask", "pad", "unk", "bos", "eos"):
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
    """Convert rows to `Examples`.

    Args:
        rows: At least one row, all with the same columns; see `MaskingCollator`.
        ids: Token ids of the tokenizer.
        tags: Names of the tags in `labels`. Default: ignore `labels`.

    Raises:
        ValueError: `input_ids` are missing, rows are padded, columns differ in length, mentions
            overlap or are not sorted, or `token_type_ids` are not 0.
    """
    first = rows[0]
    if "input_ids" not in first:
        raise ValueError(
            f"rows: expected input_ids, got {', '.join(sorted(first)) or 'no column'}; tokenise "
            "the rows first, or, if the Trainer drops columns, pass remove_unused_columns=False"
        )

    tokens = read_column(rows, "input_ids")
    _check_unpadded(rows, tokens)
    if "token_type_ids" in first and read_column(rows, "token_type_ids").values.any():
        raise ValueError(
            "rows: token_type_ids: expected only 0, got others; batches have no such column: leave "
            "it out to treat a text pair as one text"
        )

    words = _read_words(rows, tokens, ids)
    spans = _read_mentions(rows, tokens, words, tags)
    _check_within_text(spans, words)

    columns: dict[str, Any] = {}
    if all(name in first for name in CHARACTERS):
        columns |= {name: _read_token_column(tokens, rows, name) for name in CHARACTERS}
    if "doc_label" in first:
        columns["doc_labels"] = np.array([row["doc_label"] for row in rows], np.int16)

    starts, ends, labels = spans
    return Examples(
        keys=_read_keys(rows, tokens),
        input_ids=tokens,
        word_ids=words,
        bio=Ragged(paint(starts, ends, labels, tokens.offsets), tokens.offsets),
        span_starts=starts,
        span_ends=ends,
        span_labels=labels,
        ids=ids,
        sentence_starts=_read_sentences(rows, tokens),
        **columns,
    )


def read_column(rows: Sequence[Row], name: str, dtype: npt.DTypeLike = np.int32) -> Ragged:
    """Concatenate a column of lists, arrays or tensors.

    None and NaN in a row, such as the `word_ids` of special tokens, become -1.

    Raises:
        ValueError: A row lacks the column, or a number is not whole or does not fit the dtype.
    """
    lists = [row.get(name) for row in rows]
    for number, items in enumerate(lists):
        if items is None:
            raise ValueError(
                f"rows: expected {name} in each row of a batch, got none in row {number} of it"
            )

    return _concatenate(lists, name, dtype)


def _concatenate(lists: Sequence[Any], name: str, dtype: npt.DTypeLike = np.int32) -> Ragged:
    """Concatenate the lists, arrays or tensors of a column."""
    invalid = ValueError(f"rows: {name}: expected whole numbers of {np.dtype(dtype)}, got others")
    try:
        if set(map(type, lists)) == {list}:
            numbers = _read_lists(lists)
        else:
            numbers = np.concatenate([np.asarray(items) for items in lists])
        if numbers.dtype.kind not in "biu":
            # None in an array, which `datasets` converts to NaN.
            numbers = numbers.astype(np.float64)
            numbers[np.isnan(numbers)] = -1
    except (TypeError, ValueError, OverflowError):
        raise invalid from None  # other messages may quote text

    with np.errstate(invalid="ignore"):
        values = numbers.astype(dtype, copy=False)
    if np.any(values != numbers):
        raise invalid
    return Ragged(values, make_offsets(np.array([len(items) for items in lists], np.int64)))


def _read_lists(lists: Sequence[list[Any]]) -> Array:
    """Concatenate lists of integers, in which None is -1.

    Raises:
        TypeError: An item is no integer.
        OverflowError: An integer has more than 32 bits.
    """
    # An `array` refuses what NumPy would convert, such as 0.5, and reads lists faster.
    numbers = array("i")
    for items in lists:
        try:
            numbers.fromlist(items)
        except TypeError:
            numbers.fromlist([-1 if item is None else item for item in items])
    return np.array(numbers)


def _read_token_column(tokens: Ragged, rows: Sequence[Row], name: str) -> Ragged:
    """Return a column with one item per token, int32.

    Raises:
        ValueError: A row has more or fewer items than tokens.
    """
    column = read_column(rows, name)
    if not np.array_equal(column.offsets, tokens.offsets):
        row = int(np.flatnonzero(column.lengths != tokens.lengths)[0])
        raise ValueError(
            f"rows: {name}: expected {tokens.lengths[row]} items, one a token, got "
            f"{column.lengths[row]} in row {row} of a batch"
        )

    return column


def _check_unpadded(rows: Sequence[Row], tokens: Ragged) -> None:
    """Check that no token has an `attention_mask` of 0.

    Raises:
        ValueError: A row is padded.
    """
    if "attention_mask" not in rows[0]:
        return

    mask = _read_token_column(tokens, rows, "attention_mask")
    padded = np.flatnonzero(mask.values == 0)
    if len(padded):
        row = int(np.searchsorted(mask.offsets, padded[0], side="right")) - 1
        raise ValueError(
            f"rows: row {row} of a batch has padding, tokens with an attention_mask of 0; tokenise "
            "with padding=False: the collator pads each batch to its longest row"
        )


def _read_words(rows: Sequence[Row], tokens: Ragged, ids: TokenIds) -> Ragged:
    """Return the word number of each token, increasing within a row, -1 on special tokens.

    Without `word_ids`, each token is a word.
    """
    # Ids are needed beside the columns: tokenizers take special tokens in the text itself for
    # words. `[UNK]` does not count as special.
    is_special = np.isin(tokens.values, [id_ for id_ in ids.special if id_ != ids.unk])

    if "word_ids" in rows[0]:
        words = _read_token_column(tokens, rows, "word_ids")
    elif getattr(rows[0], "encodings", None):  # a BatchEncoding of one text
        word_lists = [row.word_ids() for row in rows]  # type: ignore[attr-defined]
        words = _concatenate(word_lists, "word_ids")
    else:
        if "special_tokens_mask" in rows[0]:
            is_special |= _read_token_column(tokens, rows, "special_tokens_mask").values != 0
        return _number_tokens(tokens, is_special)

    # A copy, as the array may be the user's.
    numbers = np.where(is_special, -1, words.values).astype(np.int32)

    # In a text pair, numbers of the second text start at 0 again: continue those of the first.
    continue_words(words.offsets, numbers)
    return Ragged(numbers, words.offsets)


def _number_tokens(tokens: Ragged, is_special: npt.NDArray[np.bool_]) -> Ragged:
    """Number the tokens of each row that are not special, which are -1."""
    running_total = make_offsets(~is_special)
    before_row = np.repeat(running_total[tokens.offsets[:-1]], tokens.lengths)
    numbers = np.where(is_special, -1, running_total[:-1] - before_row)
    return Ragged(numbers.astype(np.int32), tokens.offsets)


def _read_mentions(
    rows: Sequence[Row], tokens: Ragged, words: Ragged, tags: Sequence[str] | None
) -> Spans:
    """Return the mentions of rows, from spans or tags; none if the rows have neither."""
    tagged = "bio" if tags is None else "labels"
    if all(name in rows[0] for name in SPANS):
        spans: Spans = (
            read_column(rows, SPANS[0]),
            read_column(rows, SPANS[1]),
            read_column(rows, SPANS[2], np.int16),
        )
        check_spans(*spans, tokens.lengths)
        return spans

    if tagged in rows[0]:
        return read_tag_spans(_read_token_column(tokens, rows, tagged), words, tags)

    if given := [name for name in SPANS if name in rows[0]]:
        raise ValueError(
            f"rows: expected {', '.join(SPANS)} together, got {' and '.join(given)} only; without "
            "labels, pass span_labels of 0"
        )
    return no_spans(len(rows))


def _check_within_text(spans: Spans, words: Ragged) -> None:
    """Check that no mention contains special tokens.

    Args:
        spans: The mentions.
        words: Word of each token, -1 on special tokens.

    Raises:
        ValueError: A mention contains special tokens.
    """
    starts, ends, _ = spans
    first = np.repeat(words.offsets[:-1], starts.lengths)
    # Prefix sums of special tokens give the number of them in each mention.
    special_counts = make_offsets(words.values < 0)
    contained = special_counts[first + ends.values] - special_counts[first + starts.values]
    if contained.any():
        mention = int(np.flatnonzero(contained)[0])
        row = int(np.searchsorted(starts.offsets, mention, side="right")) - 1
        raise ValueError(
            f"rows: a mention contains {contained[mention]} special token(s) in row {row} of a "
            f"batch, tokens [{starts.values[mention]}, {ends.values[mention]}); shorten the "
            "mention, or leave it out"
        )


def _read_sentences(rows: Sequence[Row], tokens: Ragged) -> Ragged | None:
    """Return the first token of each sentence; None without the column.

    Raises:
        ValueError: A row has no sentences, or `sentence_starts` are not increasing or outside the
            row.
    """
    if "sentence_starts" not in rows[0]:
        return None

    starts = read_column(rows, "sentence_starts")
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


def _read_keys(rows: Sequence[Row], tokens: Ragged) -> npt.NDArray[np.uint64]:
    """Return the keys of rows, uint64 `[N]`; without the column, hashes of their ids."""
    if "key" in rows[0]:
        # Torch has no uint64: keys from tensors may be negative, with the same bits.
        return np.array([int(row["key"]) & 0xFFFF_FFFF_FFFF_FFFF for row in rows], np.uint64)

    keys = np.empty(len(tokens), np.uint64)
    digest_rows(tokens.offsets, tokens.values, keys)
    return keys
