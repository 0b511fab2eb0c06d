"""Run a model for evaluation: no gradients, no dropout, batches of rows of similar length.

Dimensions: B rows, L tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.errors import AnnotateError
from mslm_data.kernels.pad import IGNORED, pad_rows
from mslm_data.shard.row_protocol import Rows

Model: TypeAlias = Callable[..., Any]
"""A module, a method of one, or any callable with `input_ids` and `attention_mask`, int64 `[B, L]`,
by name."""


def padded(rows: Ragged, fill: int, *, width: int = 0) -> npt.NDArray[np.int64]:
    """Pad rows to a rectangle, int64 `[B, L]`.

    Args:
        rows: Any.
        fill: What stands behind a row's values.
        width: L, where no row is longer; else L is the longest row's length.
    """
    out = np.empty((len(rows), max(width, int(rows.lengths.max(initial=0)))), np.int64)
    pad_rows(np.arange(len(rows)), rows.offsets, rows.values, fill, out)
    return out


def unmasked(input_ids_BL: Tensor, labels_BL: Tensor) -> Tensor:
    """Restore the ids before masking, int64 `[B, L]`, from the labels."""
    return torch.where(labels_BL == IGNORED, input_ids_BL, labels_BL)


def check_batches(batches: object) -> None:
    """Check that an argument yields batches, not rows.

    Raises:
        TypeError: A split, a dataset, or rows of one.
    """
    if isinstance(batches, Dataset | Rows | Examples):
        raise TypeError(
            "batches: expected batches, such as MaskedDataset(split, "
            f"strategy).loader(batch_size=32), got {type(batches).__name__}, which yields rows"
        )


def check_numbers(scores: npt.NDArray[np.floating[Any]]) -> None:
    """Check that scores are not NaN; argmax of NaN would silently pick the first tag.

    Args:
        scores: Logits or probabilities of words, of any shape.

    Raises:
        AnnotateError: One is not a number.
    """
    if np.isnan(scores).any():
        raise AnnotateError(
            "model: its scores are NaN; the weights are damaged, or training diverged: train it "
            "again, with a lower learning rate if the loss was NaN"
        )


def places_by_length(
    lengths: npt.NDArray[np.int64], batch_size: int
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the row indices of each batch, longest rows first. Empty rows are left out.

    Raises:
        ValueError: The batch size is below 1.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size: expected at least 1, got {batch_size}")

    order = np.argsort(-lengths, kind="stable")
    order = order[lengths[order] > 0]

    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


def run(
    model: Model, input_ids: Tensor | npt.NDArray[Any], attention_mask: Tensor | npt.NDArray[Any]
) -> Any:
    """Run a model on a batch without gradients, on the device of its parameters."""
    device = find_device(model)
    ids = torch.as_tensor(input_ids).to(device)
    present = torch.as_tensor(attention_mask).to(device)
    with torch.inference_mode():
        return model(input_ids=ids, attention_mask=present)


def get_logits(output: Any, *names: str) -> Tensor:
    """Return the logits `[B, L, .]` of a model's output.

    Args:
        output: A tensor, or a mapping or object that holds one under a name.
        *names: Names to look for, the first found counts.

    Raises:
        ValueError: There are no logits.
    """
    candidates = [output] if isinstance(output, Tensor) else [_named(output, n) for n in names]
    for candidate in candidates:
        if isinstance(candidate, Tensor) and candidate.dim() == 3:
            return candidate

    raise ValueError(
        f"model: expected logits [B, L, .] as a tensor or as {' or '.join(names)} of an output, "
        f"got {type(output).__name__}"
    )


def language_model(model: Model) -> Model:
    """Return the model inside an `MslmModel`; any other model is returned unchanged."""
    wrapped: Model = getattr(model, "masked_lm", model)
    return wrapped


def find_device(model: Model) -> torch.device:
    """Return the device of a module's first parameter; the CPU if it has none."""
    module = find_module(model)
    parameters = iter(()) if module is None else module.parameters()
    return next((parameter.device for parameter in parameters), torch.device("cpu"))


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Set a module to evaluation mode within a `with` block, then restore the mode of each part."""
    module = find_module(model)
    with nullcontext() if module is None else in_mode(module, training=False):
        yield


@contextmanager
def in_mode(module: nn.Module, *, training: bool) -> Iterator[None]:
    """Set all parts of a module to one mode within a `with` block, then restore them."""
    parts = list(module.modules())
    modes = [part.training for part in parts]

    try:
        for part in parts:
            part.training = training
        yield
    finally:
        for part, mode in zip(parts, modes, strict=True):
            part.training = mode


def find_module(model: Model) -> nn.Module | None:
    """Return a model that is a module, or the module of a bound method; None otherwise."""
    owner = getattr(model, "__self__", model)
    return owner if isinstance(owner, nn.Module) else None


def _named(output: Any, name: str) -> Any:
    return output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
