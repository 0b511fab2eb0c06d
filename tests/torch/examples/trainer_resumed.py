"""Hugging Face's Trainer: python trainer_resumed.py SHARDS OUT. Run it again to resume from the last checkpoint.

Two lines differ from other uses of the Trainer: its class, and the loaders in place of datasets. `MslmTrainer` makes
gradient accumulation exact, and logs the three losses.
"""

from __future__ import annotations

import json
import sys

from tiny import tiny_model
from transformers import TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

import mslm_data as md
from mslm_data.torch import MaskedDataset, MslmTrainer

PARTS = ("mslm_loss", "detection_loss", "classification_loss")


def main(folder: str, out: str) -> None:
    """Train for two epochs, and evaluate after each."""
    shards = md.load(folder)
    strategy = md.strategy("joint", elm=0.5, blm=0.15)
    arguments = TrainingArguments(
        out,
        num_train_epochs=2,
        gradient_accumulation_steps=2,
        save_steps=5,
        eval_strategy="epoch",
        label_names=["labels"],
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    )
    trainer = MslmTrainer(
        model=tiny_model(shards, strategy),
        args=arguments,
        train_dataset=MaskedDataset(shards["train"], strategy, seed=7).loader(batch_size=4),
        eval_dataset=MaskedDataset(shards["validation"], strategy, seed=7, static=True).loader(),
    )
    trainer.train(resume_from_checkpoint=get_last_checkpoint(out))
    evaluations = [entry for entry in trainer.state.log_history if "eval_loss" in entry]
    losses = [entry["eval_loss"] for entry in evaluations]
    parts = {name: evaluations[-1][f"eval_{name}"] for name in PARTS}
    report = {"steps": trainer.state.global_step, "eval_loss": losses, "parts": parts}
    print(json.dumps(report))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
