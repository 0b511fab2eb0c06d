"""Flat batches made from padded ones, row by row."""

from __future__ import annotations

import itertools
from typing import Any

from torch.nn.functional import pad

import mslm_data as md
from mslm_data.torch import MaskingCollator
from tests.generate import IDS

_PADDING = {"input_ids": IDS.pad, "attention_mask": 0, "labels": -100, "mask_kinds": 0, "bio": -100}
"""Column with a value per token -> value on padding."""


def collated(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a padded batch of rows, masked with a fixed strategy and seed."""
    return MaskingCollator(md.strategy("joint", elm=0.5, blm=0.3), IDS, epoch=0)(rows)


def flattened(batch: dict[str, Any], width: int = 0) -> dict[str, Any]:
    """Return the same rows as a flat batch, like that of a loader with `flat=True`.

    Args:
        batch: A padded batch.
        width: Number of tokens, with padding at the end. Default: those of the rows.
    """
    present = batch["attention_mask"].bool()
    lengths = present.sum(1)
    bounds = pad(lengths.cumsum(0), (1, 0))
    missing = max(0, width - int(bounds[-1]))

    # Columns with a value per token.
    numbers, positions = present.nonzero().unbind(1)
    flat = {
        name: pad(batch[name][present], (0, missing), value=fill)[None]
        for name, fill in _PADDING.items()
    }
    flat["position_ids"] = pad(positions, (0, missing))[None]
    flat["sequence_ids"] = pad(numbers, (0, missing), value=-1)[None]

    # Mentions are ranges of the flat row.
    is_mention = batch["span_starts"] >= 0
    shifts = bounds[:-1, None].expand_as(is_mention)[is_mention]
    for name in ("span_starts", "span_ends"):
        flat[name] = (batch[name][is_mention] + shifts)[None]
    flat["span_labels"] = batch["span_labels"][is_mention][None]

    longest = lengths.max()
    return flat | {
        "keys": batch["keys"],
        "cu_seq_lens_q": bounds.int(),
        "cu_seq_lens_k": bounds.int(),
        "max_length_q": longest,
        "max_length_k": longest,
    }


def rows_of(x: Any, batch: dict[str, Any]) -> list[Any]:
    """Split a flat `[1, T, ...]` tensor into one tensor per row."""
    bounds = batch["cu_seq_lens_q"].tolist()
    return list(x[0, : bounds[-1]].split([b - a for a, b in itertools.pairwise(bounds)]))
