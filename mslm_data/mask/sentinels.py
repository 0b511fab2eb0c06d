"""Sentinels: what an encoder-decoder sees of a plan, as in T5 (Raffel et al. 2020, section 3.1.4).

Each run of masked tokens becomes a sentinel in the input of the encoder. The labels of the decoder
are the runs, each after its sentinel, and the end of the text. With `HAD` and `SEVERE PAIN` masked,
and the sentinels `<0>` and `<1>`::

    row     she HAD no SEVERE PAIN today </s>
    inputs  she <0> no <1> today </s>
    labels  <0> HAD <1> SEVERE PAIN </s>

Mentions, tags and special tokens are those of the row: `span_starts` and `bio` count its tokens,
not those of the inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mslm_data.data.examples import Examples, TokenIds
from mslm_data.data.ragged import Array, Ragged, make_offsets
from mslm_data.errors import CallError
from mslm_data.kernels.sentinels import count_runs, merge_runs, split_runs
from mslm_data.mask.plan import MaskKind

MARGIN = 2
"""Number of tokens by which labels, or inputs, may be longer than their row.

R runs of M tokens have at least R - 1 other tokens between them, so that the M + R + 1 labels are
at most 2 more than the tokens of the row.
"""


@dataclass(frozen=True, slots=True, eq=False)
class SentinelRows:
    """N rows as an encoder-decoder sees them.

    Attributes:
        inputs: int32, inputs of the encoder: the rows, with a sentinel for each masked run.
        labels: int32, labels of the decoder: for each run its sentinel and its tokens, then the end
            of the text, if the tokenizer has one.
        kinds: uint8 `MaskKind` of each label. A token keeps its kind. A sentinel has that of the
            first token of its run. The end is BASE, as in causal rows: it is a token of no mention.
            In a row without masked tokens it is NONE, so that the row bears no loss.
    """

    inputs: Ragged
    labels: Ragged
    kinds: Ragged


def put_sentinels(examples: Examples, kinds: Array) -> SentinelRows:
    """Replace each run of masked tokens by a sentinel, and write the runs as labels.

    A row with M masked tokens in R runs is `M - R` tokens shorter as an input, and has `M + R`
    labels, or one more with the end of the text.

    Args:
        examples: N rows of T tokens.
        kinds: uint8 `[T]`, `MaskKind` of each token.

    Raises:
        CallError: The tokenizer has no sentinels, or fewer than a row has runs.
    """
    ids = examples.ids
    offsets = examples.input_ids.offsets
    masked, runs = _count(examples, kinds)
    _check_runs(examples, runs, len(ids.sentinels))

    has_end = ids.eos >= 0
    input_offsets = make_offsets(examples.input_ids.lengths - masked + runs)
    label_offsets = make_offsets(masked + runs + has_end)
    inputs = np.empty(input_offsets[-1], np.int32)
    labels = np.empty(label_offsets[-1], np.int32)
    label_kinds = np.empty(len(labels), np.uint8)
    split_runs(
        offsets,
        examples.input_ids.values,
        kinds,
        np.array(ids.sentinels, np.int32),
        input_offsets,
        inputs,
        label_offsets,
        labels,
        label_kinds,
    )
    if has_end:
        ends = label_offsets[1:] - 1
        labels[ends] = ids.eos
        label_kinds[ends] = np.where(runs > 0, MaskKind.BASE, MaskKind.NONE)
    return SentinelRows(
        inputs=Ragged(inputs, input_offsets),
        labels=Ragged(labels, label_offsets),
        kinds=Ragged(label_kinds, label_offsets),
    )


def sentinels_in_place(examples: Examples, kinds: Array) -> Ragged:
    """Return the rows with a sentinel at the first token of each run, -1 at its others, int32.

    Without the -1 it is the input of the encoder.

    Args:
        examples: N rows of T tokens.
        kinds: uint8 `[T]`, `MaskKind` of each token.

    Raises:
        CallError: See `put_sentinels`.
    """
    ids = examples.input_ids
    inputs = put_sentinels(examples, kinds).inputs
    is_masked = kinds != MaskKind.NONE
    continues = np.zeros(len(kinds), np.bool_)
    continues[1:] = is_masked[1:] & is_masked[:-1]
    continues[ids.offsets[:-1][ids.lengths > 0]] = False

    out = np.full(len(kinds), -1, np.int32)
    out[~continues] = inputs.values
    return Ragged(out, ids.offsets)


def merge(inputs: Ragged, labels: Ragged, ids: TokenIds) -> Ragged:
    """Return the rows of which `put_sentinels` made inputs and labels.

    Args:
        inputs: int32, N rows.
        labels: int32, N rows, without padding.
        ids: Special ids of the tokenizer.

    Raises:
        CallError: Inputs and labels have other sentinels, or labels have no end of the text.
    """
    is_sentinel = np.isin(inputs.values, ids.sentinels)
    ends_run = np.isin(labels.values, ids.sentinels)
    runs = _count_rows(inputs, is_sentinel)
    is_same = len(inputs) == len(labels) and np.array_equal(runs, _count_rows(labels, ends_run))
    if not is_same or not np.array_equal(inputs.values[is_sentinel], labels.values[ends_run]):
        raise CallError("labels: expected the sentinels of the inputs, in the same order")

    lengths = inputs.lengths + labels.lengths - 2 * runs
    if ids.eos >= 0:
        ends = labels.offsets[1:] - 1
        if not labels.lengths.all() or (labels.values[ends] != ids.eos).any():
            raise CallError(f"labels: expected the end of the text ({ids.eos}) at the end of a row")
        ends_run[ends] = True
        lengths -= 1

    offsets = make_offsets(lengths)
    out = np.empty(offsets[-1], np.int32)
    merge_runs(
        inputs.offsets,
        inputs.values,
        is_sentinel,
        labels.offsets,
        labels.values,
        ends_run,
        offsets,
        out,
    )
    return Ragged(out, offsets)


def _count_rows(rows: Ragged, flags: Array) -> Array:
    """Count the flags of each row, int64 `[N]`."""
    return np.diff(make_offsets(flags)[rows.offsets])


def check_sentinels(examples: Examples, kinds: Array, *, share: float) -> None:
    """Check that rows need only a share of the sentinels.

    Args:
        examples: N rows of T tokens.
        kinds: uint8 `[T]`, `MaskKind` of each token.
        share: In `[0, 1]`. The rest is left for masks of other epochs, which may have more runs.

    Raises:
        CallError: The tokenizer has no sentinels, or a row has more runs.
    """
    _, runs = _count(examples, kinds)
    _check_runs(examples, runs, int(share * len(examples.ids.sentinels)))


def _count(examples: Examples, kinds: Array) -> tuple[Array, Array]:
    """Count the masked tokens and the masked runs of each row, int64 `[N]` each."""
    masked = np.empty(len(examples), np.int64)
    runs = np.empty(len(examples), np.int64)
    count_runs(examples.input_ids.offsets, kinds, masked, runs)
    return masked, runs


def _check_runs(examples: Examples, runs: Array, most: int) -> None:
    """Check that no row has more than a number of runs.

    Raises:
        CallError: The tokenizer has no sentinels, or a row has more runs.
    """
    sentinels = len(examples.ids.sentinels)
    if runs.max(initial=0) <= most:
        return
    if not sentinels:
        raise CallError(
            "sentinels: the tokenizer has none, such as <extra_id_0>; use T5's, or "
            "corruption = 'mask' for an encoder"
        )

    row = int(runs.argmax())
    tokens = int(examples.input_ids.lengths[row])
    raise CallError(
        f"sentinels: a row of {tokens:,} tokens has {runs[row]:,} masked runs, of at most {most} "
        f"for the {sentinels} sentinels of the tokenizer; use a rate of at most "
        f"{most / tokens:.2f}, a strategy that masks spans, such as 't5', or shorter rows "
        "(encode.max_tokens)"
    )
