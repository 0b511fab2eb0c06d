"""Row keys."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.draws import fold, mix
from mslm_data.kernels.words import hash_word


@kernel
def name_rows(digests: Array, sentences: Array, windows: Array, out: Array) -> None:
    """Give each row the key that seeds its draws.

    Args:
        digests: uint64 `[N]`, digest of the row's document's id.
        sentences: int64 `[N]`, number of its sentence within the document.
        windows: int64 `[N]`, number of its window within the sentence.
        out: uint64 `[N]`, written.
    """
    for i in range(len(out)):
        out[i] = fold(fold(digests[i], sentences[i]), windows[i])


@kernel
def digest_rows(offsets: Array, ids: Array, out: Array) -> None:
    """Give each row a key that its ids alone decide, so that rows of equal ids have equal keys.

    Args:
        offsets: int64 `[N + 1]`.
        ids: int32 `[T]`.
        out: uint64 `[N]`, written.
    """
    for i in range(len(out)):
        out[i] = mix(hash_word(ids[offsets[i] : offsets[i + 1]]))
