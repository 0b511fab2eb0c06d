"""Accelerate with two processes on the CPU: python accelerate_two.py SHARDS; or call `main` with `accelerate launch`.

The loader knows its rank and its position, so it is registered for checkpointing instead of passed to `prepare`.
"""

from __future__ import annotations

import json
import sys
from tempfile import TemporaryDirectory
from typing import Any

import torch
from accelerate import Accelerator, debug_launcher
from tiny import tiny_model

import mslm_data as md
from mslm_data.torch import MaskedDataset
from mslm_data.torch.data.loader import MaskedLoader

EPOCHS = 2
LOSSES = ("loss", "mslm_loss", "detection_loss", "classification_loss")


def main(folder: str, checkpoint: str) -> None:
    """Train for two epochs; save a checkpoint in the middle, and restore it."""
    accelerator = Accelerator(cpu=True)
    shards = md.load(folder)
    strategy = md.strategy("joint", elm=0.5, blm=0.15)
    loader = MaskedDataset(shards["train"], strategy, seed=7).loader(batch_size=7)
    torch.manual_seed(7)
    model = tiny_model(shards, strategy)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
    accelerator.register_for_checkpointing(loader)

    held_out = MaskedDataset(shards["validation"], strategy, seed=7, static=True).loader()
    seen: list[list[int]] = []
    for epoch in range(EPOCHS):
        loader.set_epoch(epoch)
        for batch in loader:
            output = model(
                **{name: tensor.to(accelerator.device) for name, tensor in batch.items()}
            )
            accelerator.backward(output.loss)
            optimizer.step()
            optimizer.zero_grad()
            seen.append(batch["keys"].tolist())
            if len(seen) == 2:
                accelerator.save_state(checkpoint)
    accelerator.wait_for_everyone()
    accelerator.load_state(checkpoint)  # of epoch 0, after two steps
    again = [batch["keys"].tolist() for batch in loader]
    assert again == seen[2 : len(loader)]
    report = {
        "rank": accelerator.process_index,
        "seen": seen,
        "train": mean_losses(accelerator, [output]),
        "eval": evaluate(accelerator, model, held_out),
    }
    print(json.dumps(report), flush=True)  # noqa: T201
    accelerator.end_training()


def mean_losses(accelerator: Accelerator, outputs: list[Any]) -> dict[str, float]:
    """Return the mean losses over the batches of all processes."""
    losses = torch.stack([torch.stack([out[name].detach() for name in LOSSES]) for out in outputs])
    means = accelerator.reduce(losses.mean(0), "mean")
    return dict(zip(LOSSES, means.tolist(), strict=True))


@torch.no_grad()
def evaluate(accelerator: Accelerator, model: Any, held_out: MaskedLoader) -> dict[str, float]:
    """Return the losses of rows with static masks."""
    model.eval()
    outputs = [
        model(**{name: tensor.to(accelerator.device) for name, tensor in batch.items()})
        for batch in held_out
    ]
    model.train()
    return mean_losses(accelerator, outputs)


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        debug_launcher(main, (sys.argv[1], temporary), num_processes=2)
