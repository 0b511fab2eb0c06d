"""Converts the user's rows, dicts of lists, arrays or tensors, to `Examples`."""

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
CHARACTERS = ("token_starts", "token_ends")
_ENCODER = msgspec.msgpack.Encoder()


def token_ids(tokenizer: Any) -> TokenIds:
    """Return the special ids and the vocabulary size of a tokenizer.

    Args:
        tokenizer: A tokenizer of Hugging Face or of this package, a split, or `TokenIds`.

    Raises:
        TypeError: Anything else, such as a tokenizer's name.
    """
    wrapped = (getattr(tokenizer, "token_ids", None), getattr(tokenizer, "ids", None))
    for known in (tokenizer, *wrapped):
        if isinstance(known, TokenIds):
            return known
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
    if hasattr(tokenizer, "backend_tokenizer"):
        return parse_tokenizer(tokenizer.backend_tokenizer.to_str(), names).ids

    ids = {kind: tokenizer.convert_tokens_to_ids(token) for kind, token in names.items()}
    special = {*tokenizer.all_special_ids, *ids.values()}
    return TokenIds(size=len(tokenizer), special=tuple(sorted(special)), **ids)


def make_examples(
    rows: Sequence[Row], ids: TokenIds, *, tags: Sequence[str] | None = None
) -> Examples:
    """Convert rows to `Examples`. Tokens with an `attention_mask` of 0 are dropped.

    Args:
        rows: One or more, all of the same columns; `MaskingCollator` says which are read.
        ids: The tokenizer's.
        tags: Names of the tags in `labels`; None if `labels` does not hold tags.

    Raises:
        ValueError: No `input_ids`, columns that do not fit each other, mentions that are not in
            order, or `token_type_ids` that are not 0.
    """
    first = rows[0]
    if "input_ids" not in first:
        raise ValueError(
            f"rows: expected input_ids, got {', '.join(sorted(first)) or 'no column'}; tokenise "
            "the rows first, or, if the Trainer drops columns, pass remove_unused_columns=False"
        )

    if "token_type_ids" in first and flat(rows, "token_type_ids", np.int32).values.any():
        raise ValueError(
            "rows: token_type_ids: expected only 0, got others; batches have no such column: leave "
            "it out to treat a text pair as one text"
        )

    tokens = flat(rows, "input_ids", np.int32)
    words = _words(rows, tokens, ids)
    columns: dict[str, Any] = {"input_ids": tokens, "word_ids": words}
    if all(name in first for name in CHARACTERS):
        columns |= {name: _like(tokens, rows, name, np.int32) for name in CHARACTERS}
    spans = _mentions(rows, tokens, words, tags)
    sentences = _sentences(rows, tokens)

    kept = np.ones(len(tokens.values), np.bool_)
    if "attention_mask" in first:
        kept = _like(tokens, rows, "attention_mask", np.bool_).values
    _check_within_text(spans, Ragged(kept & (words.values >= 0), tokens.offsets))
    if not kept.all():
        columns, spans, sentences = _without_padding(columns, spans, sentences, kept)
        tokens = columns["input_ids"]

    if "doc_label" in first:
        columns["doc_labels"] = np.array([row["doc_label"] for row in rows], np.int16)

    starts, ends, labels = spans
    return Examples(
        keys=_keys(rows, tokens),
        bio=Ragged(paint(starts, ends, labels, tokens.offsets), tokens.offsets),
        span_starts=starts,
        span_ends=ends,
        span_labels=labels,
        ids=ids,
        sentence_starts=sentences,
        **columns,
    )


def flat(rows: Sequence[Row], name: str, dtype: npt.DTypeLike) -> Ragged:
    """Concatenate a column of lists, arrays or tensors.

    None or NaN within one, as for special tokens' words, is -1.

    Raises:
        ValueError: A row without this column.
        OverflowError: A number that the type does not have.
    """
    lists = [row.get(name) for row in rows]
    for number, items in enumerate(lists):
        if items is None:
            raise ValueError(
                f"rows: expected {name} in each row of a batch, got none in row {number} of it"
            )

    return _flat(lists, dtype)


def _flat(lists: Sequence[Any], dtype: npt.DTypeLike) -> Ragged:
    """Concatenate lists, arrays or tensors.

    None among the items is -1, and so is NaN, as which `datasets` gives None in arrays and tensors.

    Lists of Python's ints, the usual case, are encoded and decoded in compiled code, which is 8
    times as fast as going through them item by item.
    """
    column = _unpacked(lists)
    if column is not None:
        values = column.values.astype(dtype, copy=False)

        # Numbers that the narrower type would change are left to NumPy below, which raises
        # OverflowError.
        fits = values.dtype in (np.int32, np.bool_) or np.array_equal(values, column.values)
        if fits:
            return Ragged(values, column.offsets)

    offsets = make_offsets(np.array([len(items) for items in lists], np.int64))
    if not all(isinstance(items, list) for items in lists):
        flat = np.concatenate([np.asarray(items) for items in lists])
        return Ragged(_integers(flat, dtype), offsets)

    known = (-1 if item is None else item for item in chain.from_iterable(lists))
    return Ragged(np.fromiter(known, dtype, count=int(offsets[-1])), offsets)


def _unpacked(lists: Sequence[Any]) -> Ragged | None:
    """Concatenate lists of ints as int32; None becomes -1.

    Returns None for lists of anything else, and for arrays and tensors.
    """
    try:
        packed = np.frombuffer(_ENCODER.encode(lists), np.uint8)
    except (TypeError, OverflowError):  # arrays and tensors, or lists of their numbers
        return None

    # A number takes a byte or more in MessagePack, so there are at most as many numbers as bytes.
    values = np.empty(len(packed), np.int32)
    offsets = np.empty(len(lists) + 1, np.int64)
    if not unpack_lists(packed, values, offsets):
        return None

    return Ragged(values[: offsets[-1]], offsets)


def _integers(values: Array, dtype: npt.DTypeLike) -> Array:
    """Convert numbers of any type to integers; None and NaN become -1.

    Raises:
        OverflowError: A number that the integers do not have.
    """
    if values.dtype.kind == "O":
        values = np.array([-1 if item is None else item for item in values.tolist()])
    if values.dtype.kind == "f":
        # A cast makes 0 of NaN on some processors, and the least integer on others.
        values = np.where(np.isnan(values), -1, values)

    with np.errstate(invalid="ignore"):
        whole = values.astype(dtype)
    if whole.dtype == np.bool_:
        return whole

    changed = values[whole != values]
    if len(changed):
        raise OverflowError(f"rows: expected whole numbers of {whole.dtype}, got {changed[0]}")
    return whole


def _like(tokens: Ragged, rows: Sequence[Row], name: str, dtype: npt.DTypeLike) -> Ragged:
    """Return a column that must have one item per token.

    Raises:
        ValueError: A row with more or fewer items.
    """
    found = flat(rows, name, dtype)
    if not np.array_equal(found.offsets, tokens.offsets):
        row = int(np.flatnonzero(found.lengths != tokens.lengths)[0])
        raise ValueError(
            f"rows: {name}: expected {tokens.lengths[row]} items, one a token, got "
            f"{found.lengths[row]} in row {row} of a batch"
        )

    return found


def _words(rows: Sequence[Row], tokens: Ragged, ids: TokenIds) -> Ragged:
    """Return the word number of each token, rising within a row; -1 on special tokens.

    Words are those that the rows name or, without any, each token by itself.
    """
    if "word_ids" in rows[0]:
        words = _like(tokens, rows, "word_ids", np.int32)
    elif getattr(rows[0], "encodings", None):  # a BatchEncoding of one text
        words = _flat([row.word_ids() for row in rows], np.int32)  # type: ignore[attr-defined]
    else:
        special = _special(rows, tokens, ids)
        words = Ragged(np.empty(len(special), np.int32), tokens.offsets)
        number_tokens(words.offsets, special, words.values)
        return words

    # The array may be the caller's own: change a copy. A tokenizer gives special tokens that stand
    # in the text itself a word there.
    numbers = np.array(words.values)
    numbers[_are_special(tokens, ids)] = -1

    # In a pair of texts the numbers of the second begin at 0 again.
    continue_words(words.offsets, numbers)
    return Ragged(numbers, words.offsets)


def _special(rows: Sequence[Row], tokens: Ragged, ids: TokenIds) -> npt.NDArray[np.bool_]:
    """Return which tokens are special, by their ids or by `special_tokens_mask`.

    A tokenizer's mask leaves out special tokens that stand in the text itself.
    """
    special = _are_special(tokens, ids)
    if "special_tokens_mask" in rows[0]:
        special |= _like(tokens, rows, "special_tokens_mask", np.bool_).values
    return special


def _are_special(tokens: Ragged, ids: TokenIds) -> npt.NDArray[np.bool_]:
    """Return which tokens are special by their ids; `[UNK]` is a token like others."""
    return np.isin(tokens.values, [id_ for id_ in ids.special if id_ != ids.unk])


def _mentions(
    rows: Sequence[Row], tokens: Ragged, words: Ragged, tags: Sequence[str] | None
) -> Spans:
    """Return the mentions of rows: their spans, or spans decoded from tags, or none."""
    tagged = "bio" if tags is None else "labels"
    if all(name in rows[0] for name in SPANS):
        spans: Spans = (
            flat(rows, SPANS[0], np.int32),
            flat(rows, SPANS[1], np.int32),
            flat(rows, SPANS[2], np.int16),
        )
        check_spans(*spans, tokens.lengths)
        return spans

    if tagged in rows[0]:
        return read_tag_spans(_like(tokens, rows, tagged, np.int64), words, tags)

    return no_spans(len(rows))


def _check_within_text(spans: Spans, is_text: Ragged) -> None:
    """Check that no mention contains special tokens or padding.

    Args:
        spans: The mentions.
        is_text: bool, of each token whether it is neither.

    Raises:
        ValueError: One does.
    """
    starts, ends, _ = spans
    first = np.repeat(is_text.offsets[:-1], starts.lengths)
    others = make_offsets(~is_text.values)
    held = others[first + ends.values] - others[first + starts.values]
    if held.any():
        mention = int(np.flatnonzero(held)[0])
        row = int(np.searchsorted(starts.offsets, mention, side="right")) - 1
        raise ValueError(
            f"rows: a mention contains {held[mention]} special token(s) or padding in row {row} of "
            f"a batch, tokens [{starts.values[mention]}, "
            f"{ends.values[mention]}); shorten the mention, or leave it out"
        )


def _sentences(rows: Sequence[Row], tokens: Ragged) -> Ragged | None:
    """Return the first token of each sentence of the rows; None without that column.

    Raises:
        ValueError: A row without a sentence, or with sentences that are not tokens of it in order.
    """
    if "sentence_starts" not in rows[0]:
        return None

    starts = flat(rows, "sentence_starts", np.int32)
    counts = starts.lengths
    steps = np.diff(starts.values, prepend=-1)
    steps[starts.offsets[:-1][counts > 0]] = 1
    outside = (starts.values < 0) | (starts.values >= np.repeat(tokens.lengths, counts))
    if np.any(counts == 0) or np.any(outside | (steps < 1)):
        raise ValueError(
            "rows: sentence_starts: expected at least one token position per row, within the row "
            "and rising"
        )
    return starts


def _without_padding(
    columns: Mapping[str, Ragged], spans: Spans, sentences: Ragged | None, kept: Array
) -> tuple[dict[str, Ragged], Spans, Ragged | None]:
    """Drop padding, and shift mentions and sentences accordingly."""
    offsets = columns["input_ids"].offsets
    left_out = np.concatenate([[0], np.cumsum(~kept)])  # before each token of the batch
    thinned_offsets = offsets - left_out[offsets]
    thinned = {
        name: Ragged(column.values[kept], thinned_offsets) for name, column in columns.items()
    }

    starts, ends, labels = spans

    def moved(places: Ragged) -> Ragged:
        first = np.repeat(offsets[:-1], places.lengths)
        gone = left_out[places.values + first] - left_out[first]
        return Ragged((places.values - gone).astype(np.int32), places.offsets)

    places = None if sentences is None else moved(sentences)
    return thinned, (moved(starts), moved(ends), labels), places


def _keys(rows: Sequence[Row], tokens: Ragged) -> npt.NDArray[np.uint64]:
    """Return the keys of rows, uint64 `[N]`: the column, or else digests of the ids."""
    if "key" in rows[0]:
        # Torch has no uint64: a key from a tensor can be negative, with the same 64 bits.
        return np.array([int(row["key"]) & 0xFFFF_FFFF_FFFF_FFFF for row in rows], np.uint64)

    keys = np.empty(len(tokens), np.uint64)
    digest_rows(tokens.offsets, tokens.values, keys)
    return keys
