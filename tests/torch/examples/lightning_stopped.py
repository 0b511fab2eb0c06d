"""Lightning: python lightning_stopped.py SHARDS OUT. Run it again to resume, also in mid-epoch.

Lightning saves the loader's state in its checkpoints.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from tiny import tiny_model

import mslm_data as md
from mslm_data.torch import MaskedDataset

LOSSES = ("loss", "mslm_loss", "detection_loss", "classification_loss")


class Module(lightning.LightningModule):
    """A model with the loss of Eq. 12."""

    def __init__(self, shards: md.Shards, strategy: md.Strategy) -> None:
        super().__init__()
        self.model = tiny_model(shards, strategy)
        self.seen: list[tuple[int, list[int]]] = []

    def training_step(self, batch: dict[str, torch.Tensor]) -> Any:
        """Return the loss, log its parts, and record the batch."""
        self.seen.append((self.current_epoch, batch["keys"].tolist()))
        output = self.model(**batch)
        self.log_dict({f"train_{name}": output[name] for name in LOSSES})
        return output.loss

    def validation_step(self, batch: dict[str, torch.Tensor]) -> None:
        """Log the losses; Lightning averages them over batches, weighted by their size."""
        output = self.model(**batch)
        losses = {f"val_{name}": output[name] for name in LOSSES}
        self.log_dict(losses, batch_size=len(batch["keys"]), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return AdamW."""
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main(folder: str, out: str, steps: str = "-1") -> None:
    """Train for two epochs or a number of steps; save a checkpoint every five steps."""
    shards = md.load(folder)
    strategy = md.strategy("joint", elm=0.5, blm=0.15)
    loader = MaskedDataset(shards["train"], strategy, seed=7).loader(batch_size=4)
    held_out = MaskedDataset(shards["validation"], strategy, seed=7, static=True).loader()
    module = Module(shards, strategy)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=2,
        max_steps=int(steps),
        callbacks=[ModelCheckpoint(out, every_n_train_steps=5, save_last=True, save_top_k=-1)],
        logger=False,
        num_sanity_val_steps=0,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    last = Path(out) / "last.ckpt"
    trainer.fit(module, loader, held_out, ckpt_path=str(last) if last.exists() else None)
    losses = {name: value.item() for name, value in trainer.callback_metrics.items()}
    report = {"steps": trainer.global_step, "seen": module.seen, "losses": losses}
    print(json.dumps(report))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
