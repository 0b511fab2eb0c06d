"""Count the masked tokens of rows and units, and find masked words."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.rows import begins_word

_ENTITY = 2
"""`MaskKind.ENTITY`."""


@kernel
def tally_rows(offsets: Array, kinds: Array, runs: Array, out: Array) -> None:
    """Count the masked tokens of each row by kind, and the runs of masked tokens by length.

    Args:
        offsets: int64 `[N + 1]`.
        kinds: uint8 `[T]`, `MaskKind` of each token: 0 if not masked, 2 for ENTITY, any other
            number for BASE.
        runs: int64 `[C]`, item k is increased by the number of runs of k masked tokens; the last
            item counts longer runs too. A run may have both kinds, and ends with the row.
        out: int64 `[N, 2]`, written: number of ENTITY tokens and of BASE tokens.
    """
    longest = len(runs) - 1
    for i in range(len(out)):
        row = kinds[offsets[i] : offsets[i + 1]]
        entity = 0
        masked = 0
        run = 0
        for t in range(len(row)):
            if row[t] != 0:
                entity += row[t] == _ENTITY
                masked += 1
                run += 1
            elif run > 0:
                runs[min(run, longest)] += 1
                run = 0
        if run > 0:
            runs[min(run, longest)] += 1

        out[i, 0] = entity
        out[i, 1] = masked - entity


@kernel
def tally_units(
    offsets: Array, unit_offsets: Array, starts: Array, ends: Array, kinds: Array, out: Array
) -> None:
    """Count the masked tokens of each unit, such as a mention.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        unit_offsets: int64 `[N + 1]` of the units.
        starts: int32 `[U]`, first token of each unit, within its row.
        ends: int32 `[U]`, half open.
        kinds: uint8 `[T]`, as in `tally_rows`.
        out: int64 `[U, 2]`, written: number of ENTITY tokens, and of all masked tokens.
    """
    for i in range(len(offsets) - 1):
        for u in range(unit_offsets[i], unit_offsets[i + 1]):
            entity = 0
            masked = 0
            for t in range(offsets[i] + starts[u], offsets[i] + ends[u]):
                entity += kinds[t] == _ENTITY
                masked += kinds[t] != 0
            out[u, 0] = entity
            out[u, 1] = masked


@kernel
def find_masked_words(offsets: Array, word_ids: Array, kinds: Array, out: Array) -> None:
    """Find the words with a masked token, in the order of `word_numbers.find_words`.

    Args:
        offsets: int64 `[N + 1]`.
        word_ids: int32 `[T]`, -1 on special tokens.
        kinds: uint8 `[T]`, nonzero for masked tokens.
        out: uint8 `[W]`, written: 1 if a token of the word is masked, otherwise 0.
    """
    w = -1
    for i in range(len(offsets) - 1):
        before = -1
        for t in range(offsets[i], offsets[i + 1]):
            word = word_ids[t]
            if begins_word(word, before):
                w += 1
                out[w] = 0
            if word >= 0 and kinds[t] != 0:
                out[w] = 1
            before = word
