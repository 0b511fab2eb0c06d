"""Accelerate, two processes on CPU: python accelerate_two.py SHARDS; or `main` with `accelerate launch`.

The loader knows its rank and its state, so it is registered for checkpoints, and not passed to `prepare`.
"""

from __future__ import annotations

import json
import sys
from tempfile import TemporaryDirectory

import torch
from accelerate import Accelerator, debug_launcher
from tiny import tiny_model

import mslm_data as md
from mslm_data.torch import MaskedDataset

EPOCHS = 2


def main(folder: str, checkpoint: str) -> None:
    """Train for two epochs, with a checkpoint in the middle that is gone back to."""
    accelerator = Accelerator(cpu=True)
    shards = md.load(folder)
    strategy = md.strategy("joint", elm=1.0, blm=0.075)
    loader = MaskedDataset(shards["train"], strategy, seed=7).loader(batch_size=7)
    torch.manual_seed(7)
    model = tiny_model(shards, strategy)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
    accelerator.register_for_checkpointing(loader)

    seen: list[list[int]] = []
    for epoch in range(EPOCHS):
        loader.set_epoch(epoch)
        for batch in loader:
            loss = model(
                **{name: tensor.to(accelerator.device) for name, tensor in batch.items()}
            ).loss
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            seen.append(batch["keys"].tolist())
            if len(seen) == 2:
                accelerator.save_state(checkpoint)
    accelerator.wait_for_everyone()
    accelerator.load_state(checkpoint)  # of epoch 0, after two steps
    again = [batch["keys"].tolist() for batch in loader]
    assert again == seen[2 : len(loader)]
    report = {"rank": accelerator.process_index, "seen": seen, "loss": loss.item()}
    print(json.dumps(report), flush=True)  # noqa: T201
    accelerator.end_training()


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        debug_launcher(main, (sys.argv[1], temporary), num_processes=2)
