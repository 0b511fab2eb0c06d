"""Plain torch with checkpoints: python plain_resume.py SHARDS CHECKPOINT. Run it again to resume.

A checkpoint has the states of model, optimizer and loader. The program can be killed at any time.
"""

from __future__ import annotations

import json
import os
import sys

import torch
from tiny import tiny_model

import mslm_data as md
from mslm_data.torch import MaskedDataset

EPOCHS, EVERY = 2, 3


def main(folder: str, checkpoint: str) -> None:
    """Train for two epochs; print the rows and the loss of each step."""
    shards = md.load(folder)
    strategy = md.strategy("joint", elm=0.5, blm=0.15)
    data = MaskedDataset(shards["train"], strategy, seed=7)
    loader = data.loader(batch_size=4, multiple_of=8)
    torch.manual_seed(7)
    model = tiny_model(shards, strategy, dropout=0.0)  # makes losses of two runs comparable
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = epoch = 0
    if os.path.exists(checkpoint):
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])
        step, epoch = state["step"], state["loader"]["epoch"]

    for epoch in range(epoch, EPOCHS):  # noqa: B020
        loader.set_epoch(epoch)  # no effect within the epoch of the checkpoint
        for batch in loader:
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            seen = {"step": step, "keys": batch["keys"].tolist(), "loss": loss.item()}
            print(json.dumps(seen), flush=True)  # noqa: T201
            if step % EVERY == 0:
                state = {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "step": step,
                }
                torch.save(state | {"loader": loader.state_dict()}, checkpoint + ".part")
                os.replace(checkpoint + ".part", checkpoint)  # atomic


if __name__ == "__main__":
    main(*sys.argv[1:])
