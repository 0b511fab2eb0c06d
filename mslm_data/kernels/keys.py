"""Compute the keys of rows, which seed their random numbers."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.hashing import hash_item
from mslm_data.kernels.rng import fold_in, mix


@kernel
def name_rows(digests: Array, sentences: Array, windows: Array, out: Array) -> None:
    """Compute the key of each row from its document, sentence and window.

    Args:
        digests: uint64 `[N]`, digest of the document of each row.
        sentences: int64 `[N]`, number of the sentence within the document.
        windows: int64 `[N]`, number of the window within the sentence.
        out: uint64 `[N]`, written: the keys.
    """
    for i in range(len(out)):
        out[i] = fold_in(fold_in(digests[i], sentences[i]), windows[i])


@kernel
def digest_rows(offsets: Array, ids: Array, out: Array) -> None:
    """Compute the key of each row from its token ids, so equal rows have equal keys.

    Args:
        offsets: int64 `[N + 1]`.
        ids: int32 `[T]`, token ids.
        out: uint64 `[N]`, written: the keys.
    """
    for i in range(len(out)):
        out[i] = mix(hash_item(ids, offsets[i], offsets[i + 1]))
