"""Give rows the keys that seed their draws."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.hashing import hash_item
from mslm_data.kernels.rng import fold_in, mix


@kernel
def name_rows(digests: Array, sentences: Array, windows: Array, out: Array) -> None:
    """Give each row a key made of its document, its sentence and its window.

    Args:
        digests: uint64 `[N]`, digest of the id of the row's document.
        sentences: int64 `[N]`, number of its sentence within the document.
        windows: int64 `[N]`, number of its window within the sentence.
        out: uint64 `[N]`, written.
    """
    for i in range(len(out)):
        out[i] = fold_in(fold_in(digests[i], sentences[i]), windows[i])


@kernel
def digest_rows(offsets: Array, ids: Array, out: Array) -> None:
    """Give each row a key made of its ids alone, so that rows of equal ids have equal keys.

    Args:
        offsets: int64 `[N + 1]`.
        ids: int32 `[T]`.
        out: uint64 `[N]`, written.
    """
    for i in range(len(out)):
        out[i] = mix(hash_item(ids, offsets[i], offsets[i + 1]))
