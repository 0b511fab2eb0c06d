r"""Train an encoder on a shard folder with Lightning, and resume from the last checkpoint.

    python examples/lightning_fit.py shards/ncbi out/lightning --model bert-base-cased
    python examples/lightning_fit.py shards/ncbi out/lightning --model bert-base-cased \
        --devices 2

Lightning starts the other processes, and saves the loader's state in its checkpoints. Requires
`pip install lightning` and the extra `hf`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

import mslm_data as md
from mslm_data.torch import MaskedDataset, MslmModel, loss_weights


class Encoder(lightning.LightningModule):
    """An `MslmModel` with its optimizer."""

    def __init__(self, model: MslmModel) -> None:
        super().__init__()
        self.model = model

    def on_fit_start(self) -> None:
        """Print the rank and the number of processes."""
        print(f"process {self.global_rank} of {self.trainer.world_size}", flush=True)

    def training_step(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the loss, and log its parts."""
        output = self.model(**batch)
        parts = ("mslm_loss", "detection_loss", "classification_loss")
        losses = {name: output[name] for name in parts if output[name] is not None}
        self.log_dict(losses, sync_dist=True)  # the mean over processes
        loss: torch.Tensor = output.loss
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return AdamW."""
        return torch.optim.AdamW(self.parameters(), lr=5e-5)


def main() -> None:
    """Train for `--steps` steps, then save the model, and its encoder separately."""
    parser = argparse.ArgumentParser()
    parser.add_argument("shards", help="folder that mslm-data build wrote")
    parser.add_argument("out", type=Path, help="folder for the trained model")
    parser.add_argument("--model", default="bert-base-cased", help="hub name, or folder")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--save-steps", type=int, default=10)
    parser.add_argument("--batch-tokens", type=int, default=4096, help="of each process and step")
    parser.add_argument("--devices", type=int, default=1, help="number of processes")
    arguments = parser.parse_args()

    shards = md.load(arguments.shards)
    strategy = md.strategy("joint", elm=0.5, blm=0.15)
    data = MaskedDataset(shards["train"], strategy, seed=0)
    loader = data.loader(batch_tokens=arguments.batch_tokens)

    torch.manual_seed(0)
    weights = loss_weights(md.Batches(shards["train"], strategy, batch_size=64))
    model = MslmModel.wrap(
        arguments.model,
        tokenizer=shards.tokenizer,
        labels=shards.labels,
        **weights,
    )
    model.train()  # Lightning keeps the evaluation mode of from_pretrained, without dropout

    trainer = lightning.Trainer(
        accelerator="auto" if torch.cuda.is_available() else "cpu",
        devices=arguments.devices,
        max_steps=arguments.steps,
        callbacks=[
            ModelCheckpoint(arguments.out, every_n_train_steps=arguments.save_steps, save_last=True)
        ],
        logger=False,
        enable_progress_bar=False,
    )
    last = arguments.out / "last.ckpt"
    trainer.fit(Encoder(model), loader, ckpt_path=str(last) if last.exists() else None)

    if trainer.is_global_zero:
        loss = trainer.callback_metrics["mslm_loss"].item()
        print(f"step {trainer.global_step}: mslm_loss {loss:.3f}", flush=True)
        model.save_pretrained(arguments.out)  # with heads, for MslmModel.from_pretrained
        model.save_encoder(arguments.out / "encoder")  # the encoder alone, for AutoModel


if __name__ == "__main__":
    main()
