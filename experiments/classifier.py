"""A linear text classifier on an encoder's first token, fine-tuned together with the encoder.

It is also the task model of Selective Masking: `mslm-data vocab scores confidence --callable
experiments.classifier:p_true`. The command runs in a process of its own, so it gets the folders of
the task and of the model from environment variables.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from experiments.training import reading
from mslm_data.api.loading import Shards, load
from mslm_data.data.ragged import Ragged, make_offsets
from mslm_data.shard.split import Split
from mslm_data.torch.model.forward import batch_by_length, padded

TASK = "MSLM_DATA_EXPERIMENTS_TASK"
"""Environment variable with the folder of a task's rows."""
MODEL = "MSLM_DATA_EXPERIMENTS_MODEL"
"""Environment variable with the folder of a classifier written by `save`."""
BATCH = 64
DROPOUT = 0.1

_WEIGHTS = "classifier.safetensors"


class Output(NamedTuple):
    """Loss and logits of a classifier's forward pass.

    Attributes:
        loss: Mean cross-entropy; None without labels.
        logits: `[B, C]`.
    """

    loss: Tensor | None
    logits: Tensor


class Classifier(nn.Module):
    """Dropout and a linear layer on the last hidden state of the first token."""

    def __init__(self, encoder: Any, classes: int) -> None:
        """Add a new layer to a Hugging Face encoder."""
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(DROPOUT)
        self.out = nn.Linear(encoder.config.hidden_size, classes)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, doc_labels: Tensor | None = None
    ) -> Output:
        """Classify rows.

        Args:
            input_ids: int64 `[B, L]`.
            attention_mask: `[B, L]`.
            doc_labels: int64 `[B]`.
        """
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask)[0]
        logits = self.out(self.dropout(hidden[:, 0])).float()
        loss = None if doc_labels is None else nn.functional.cross_entropy(logits, doc_labels)
        return Output(loss, logits)


def on_texts(batch: Mapping[str, Any]) -> Sequence[dict[str, Tensor]]:
    """Return the arguments of the single forward pass of a batch."""
    names = ("input_ids", "attention_mask", "doc_labels")
    return [{name: torch.from_numpy(batch[name]) for name in names}]


def probabilities(model: Classifier, rows: Sequence[Any], *, pad: int) -> Tensor:
    """Return the class probabilities of rows of token ids, `[R, C]`."""
    lengths = np.array([len(row) for row in rows])
    ids = Ragged(np.concatenate([np.asarray(row) for row in rows]), make_offsets(lengths))
    probs = torch.zeros(len(rows), model.out.out_features)
    with reading(model) as device:
        for places in batch_by_length(lengths, BATCH):
            input_ids = torch.from_numpy(padded(ids.take(places), pad))
            present = torch.arange(input_ids.shape[1]) < torch.from_numpy(lengths[places])[:, None]
            logits = model(input_ids.to(device), present.long().to(device)).logits
            probs[torch.from_numpy(places)] = logits.softmax(-1).float().cpu()
    return probs


def predictions(model: Classifier, split: Split) -> tuple[list[int], list[int]]:
    """Return the true and the predicted class of each row."""
    examples = split.examples()
    ids = examples.input_ids
    rows = [ids.values[start:end] for start, end in itertools.pairwise(ids.offsets)]
    probs = probabilities(model, rows, pad=max(examples.ids.pad, 0))
    return _labels(split), probs.argmax(-1).tolist()


def save(model: Classifier, folder: Path) -> None:
    """Save a classifier's weights for `p_true`. Its encoder's folder is saved separately."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: value.contiguous() for name, value in model.state_dict().items()}
    save_file(weights, folder / _WEIGHTS)


def p_true(rows: list[list[int]], keys: list[int]) -> list[float]:
    """Return the classifier's probability of each row's true label.

    Args:
        rows: Token ids, including special tokens; parts of the task's rows.
        keys: Key of the task's row, for each row.
    """
    shards, labels, model = _load_from_environment()
    probs = probabilities(model, rows, pad=max(shards["train"].token_ids.pad, 0))
    return [float(probs[row, labels[key]]) for row, key in enumerate(keys)]


@functools.cache
def _load_from_environment() -> tuple[Shards, dict[int, int], Classifier]:
    """Load the rows, the label of each key, and the classifier from the environment variables."""
    from experiments.encoder import masked_lm

    torch.set_num_threads(1)
    shards = load(os.environ[TASK])
    labels: dict[int, int] = {}
    for split in shards.values():
        labels |= dict(zip(split.examples().keys.tolist(), _labels(split), strict=True))

    folder = Path(os.environ[MODEL])
    model = Classifier(masked_lm(folder).base_model, len(shards.doc_labels))
    model.load_state_dict(load_file(folder / _WEIGHTS))
    return shards, labels, model


def _labels(split: Split) -> list[int]:
    """Return the label of each row's document."""
    labels = split.examples().doc_labels
    assert labels is not None  # noqa: S101 # tasks are built with them
    return [int(label) for label in labels]
