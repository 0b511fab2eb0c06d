"""Run a model for evaluation: without gradients and dropout, on batches of rows of similar length.

Dimensions: B rows, L tokens, V vocabulary size; T tokens of all rows, M masked tokens of a batch.
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

from mslm_data.data.examples import Examples, TokenIds
from mslm_data.data.ragged import Ragged
from mslm_data.errors import AnnotateError
from mslm_data.kernels.pad import IGNORED, pad
from mslm_data.shard.split import Rows
from mslm_data.torch.data.loader import MaskedDataset
from mslm_data.torch.model.loss import token_losses

Model: TypeAlias = Callable[..., Any]
"""A module, a bound method of one, or any callable.

It is called with `input_ids` and `attention_mask`, int64 `[B, L]`, by name.
"""


def padded(rows: Ragged, fill: int, *, width: int = 0) -> npt.NDArray[np.int64]:
    """Pad rows to a rectangle, int64 `[B, L]`.

    Args:
        rows: The rows.
        fill: Padding value.
        width: Minimum of L. Default: the length of the longest row.
    """
    out = np.empty((len(rows), max(width, int(rows.lengths.max(initial=0)))), np.int64)
    pad(np.arange(len(rows)), np.arange(len(rows) + 1), rows.offsets, rows.values, fill, out)
    return out


def unmasked(input_ids_BL: Tensor, labels_BL: Tensor) -> Tensor:
    """Restore the original ids from the labels, int64 `[B, L]`."""
    return torch.where(labels_BL == IGNORED, input_ids_BL, labels_BL)


def check_batches(batches: object) -> None:
    """Check that an argument yields batches, not rows.

    Raises:
        TypeError: It is a split, a dataset or rows.
    """
    if isinstance(batches, Dataset | MaskedDataset | Rows | Examples):
        raise TypeError(
            "batches: expected batches, such as MaskedDataset(split, "
            f"strategy).loader(batch_size=32), got {type(batches).__name__}, which yields rows"
        )


def check_numbers(scores: npt.NDArray[np.floating[Any]]) -> None:
    """Check that scores are not NaN: their argmax would be the first tag, without an error.

    Args:
        scores: Logits or probabilities, any shape.

    Raises:
        AnnotateError: A score is NaN.
    """
    if np.isnan(scores).any():
        raise AnnotateError(
            "model: its scores are NaN; the weights are damaged, or training diverged: train it "
            "again, with a lower learning rate if the loss was NaN"
        )


def batch_by_length(
    lengths: npt.NDArray[np.int64], batch_size: int
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the row indices of each batch, longest rows first. Empty rows are skipped.

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
    """Run a model on a batch, on its device and without gradients."""
    device = find_device(model)
    ids = torch.as_tensor(input_ids).to(device)
    mask = torch.as_tensor(attention_mask).to(device)
    with torch.inference_mode():
        return model(input_ids=ids, attention_mask=mask)


def run_rows(model: Model, rows: Ragged, ids: TokenIds) -> Any:
    """Run a model on a batch of rows, padded to the longest.

    Args:
        model: The model.
        rows: Token ids of B rows.
        ids: Special ids of the tokenizer.
    """
    input_ids = padded(rows, max(ids.pad, 0))
    attention_mask = np.arange(input_ids.shape[1]) < rows.lengths[:, None]
    return run(model, input_ids, attention_mask.astype(np.int64))


def masked_losses(
    model: Model,
    original: Ragged,
    corrupted: Ragged,
    is_masked: npt.NDArray[np.bool_],
    *,
    ids: TokenIds,
    batch_size: int,
) -> npt.NDArray[np.float64]:
    """Return the cross-entropy of each masked token, in nats; 0 for all others, `[T]`.

    Args:
        model: A masked language model.
        original: Token ids of T tokens in some rows.
        corrupted: The same rows with masks, as the model reads them.
        is_masked: bool `[T]`, the tokens to predict.
        ids: Special ids of the tokenizer.
        batch_size: Number of rows in a batch.
    """
    places = Ragged(np.arange(len(is_masked)), original.offsets)
    losses = np.zeros(len(is_masked))
    for rows in batch_by_length(original.lengths, batch_size):
        # Masked tokens, row by row: in the padded batch, and among all T tokens.
        places_BL = padded(places.take(rows), -1)
        is_masked_BL = (places_BL >= 0) & is_masked[places_BL]
        places_M = places_BL[is_masked_BL]
        if not len(places_M):
            continue

        logits_BLV = get_logits(run_rows(model, corrupted.take(rows), ids), "logits")
        with torch.inference_mode():
            logits_MV = logits_BLV[torch.from_numpy(is_masked_BL).to(logits_BLV.device)]
            labels_M = torch.from_numpy(original.values[places_M].astype(np.int64))
            losses_M = token_losses(logits_MV, labels_M.to(logits_MV.device))
        losses[places_M] = losses_M.cpu().double().numpy()
    return losses


def get_logits(output: Any, *names: str) -> Tensor:
    """Return the logits `[B, L, .]` in a model's output.

    Args:
        output: A tensor, or a mapping or object that contains one.
        *names: Keys or attributes to try, in this order.

    Raises:
        ValueError: The output has no logits.
    """
    candidates = [output] if isinstance(output, Tensor) else [_get(output, n) for n in names]
    for candidate in candidates:
        if isinstance(candidate, Tensor) and candidate.dim() == 3:
            return candidate

    raise ValueError(
        f"model: expected a tensor of logits [B, L, .], or an output with {' or '.join(names)}, "
        f"got {type(output).__name__}"
    )


def language_model(model: Model) -> Model:
    """Return the masked language model inside an `MslmModel`, any other model unchanged."""
    wrapped: Model = getattr(model, "masked_lm", model)
    return wrapped


def find_device(model: Model) -> torch.device:
    """Return the device of a model's first parameter; the CPU if it has no parameters."""
    module = find_module(model)
    parameters = iter(()) if module is None else module.parameters()
    return next((parameter.device for parameter in parameters), torch.device("cpu"))


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Set a module to evaluation mode within a `with` block, then restore its modes."""
    module = find_module(model)
    with nullcontext() if module is None else in_mode(module, training=False):
        yield


@contextmanager
def in_mode(module: nn.Module, *, training: bool) -> Iterator[None]:
    """Set all submodules to one mode within a `with` block, then restore them."""
    submodules = list(module.modules())
    modes = [submodule.training for submodule in submodules]

    try:
        for submodule in submodules:
            submodule.training = training
        yield
    finally:
        for submodule, mode in zip(submodules, modes, strict=True):
            submodule.training = mode


def find_module(model: Model) -> nn.Module | None:
    """Return the module of a model or bound method; None for other callables."""
    owner = getattr(model, "__self__", model)
    return owner if isinstance(owner, nn.Module) else None


def _get(output: Any, name: str) -> Any:
    return output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
