"""Token rows with their tags and mentions, flat: what `encode` makes, shards hold and masking reads."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.data.ragged import Ragged, take_alike


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenIds:
    """The ids of a tokenizer that masking and padding must know.

    Attributes:
        size: Number of ids; valid ids are in `[0, size)`.
        mask: The id of `[MASK]`, -1 where the tokenizer has none; so with pad and unk.
        pad: The id of `[PAD]`.
        unk: The id of `[UNK]`.
        special: All special ids, rising; never drawn as a random replacement.
    """

    size: int
    mask: int = -1
    pad: int = -1
    unk: int = -1
    special: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Examples:
    """N rows of T tokens with S mentions, as ragged columns; `shard/FORMAT.md` has each column's law.

    Attributes:
        keys: uint64 `[N]`, one digest a row; seeds the row's draws.
        input_ids: int32, T tokens in N rows, special tokens included.
        word_ids: int32, same offsets: number of the word within the row; -1 on special tokens.
        bio: int16, same offsets: tags, numbered as `mslm_data.data.bio` says.
        span_starts: int32, S mentions in N rows: first token of the mention, counted within the row; rising.
        span_ends: int32, same offsets: half open.
        span_labels: int16, same offsets.
        ids: The tokenizer's special ids.
        doc_ids: `[N]`, the document each row comes from.
        span_concepts: `[S]`, CUIs; weak supervision only.
        span_scores: float32 `[S]`, confidences in `[0, 1]`; weak supervision only.
        texts: `[N]`, only with `keep_text`.
        token_starts: int32, offsets as input_ids: first character of the token in the row's text; -1 on specials.
        token_ends: int32, likewise, half open.
    """

    keys: npt.NDArray[np.uint64]
    input_ids: Ragged
    word_ids: Ragged
    bio: Ragged
    span_starts: Ragged
    span_ends: Ragged
    span_labels: Ragged
    ids: TokenIds
    doc_ids: Sequence[str] | None = None
    span_concepts: Sequence[str] | None = None
    span_scores: npt.NDArray[np.float32] | None = None
    texts: Sequence[str] | None = None
    token_starts: Ragged | None = None
    token_ends: Ragged | None = None

    def __len__(self) -> int:
        return len(self.keys)


def take(examples: Examples, rows: npt.NDArray[np.int64]) -> Examples:
    """Return any rows, in any order, with what masking reads: no documents, concepts, scores or texts."""
    ids, words, bio = take_alike((examples.input_ids, examples.word_ids, examples.bio), rows)
    starts, ends, labels = take_alike(
        (examples.span_starts, examples.span_ends, examples.span_labels), rows
    )
    return Examples(
        keys=examples.keys[rows],
        input_ids=ids,
        word_ids=words,
        bio=bio,
        span_starts=starts,
        span_ends=ends,
        span_labels=labels,
        ids=examples.ids,
        token_starts=None if examples.token_starts is None else examples.token_starts.take(rows),
        token_ends=None if examples.token_ends is None else examples.token_ends.take(rows),
    )


def concatenate(parts: Sequence[Examples]) -> Examples:
    """Put the rows of several one after the other; at least one is needed, and all must have the same fields."""
    together: dict[str, Any] = {}
    for field in dataclasses.fields(Examples):
        values = [getattr(part, field.name) for part in parts]
        if values[0] is None or field.name == "ids":
            together[field.name] = values[0]
        elif isinstance(values[0], Ragged):
            together[field.name] = Ragged.concatenate(values)
        elif isinstance(values[0], np.ndarray):
            together[field.name] = np.concatenate(values)
        else:
            together[field.name] = list(itertools.chain.from_iterable(values))
    return Examples(**together)
