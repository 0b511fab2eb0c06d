r"""Train an encoder on a shard folder with transformers' Trainer, and resume.

    python examples/hf_trainer.py shards/ncbi out/trainer --model bert-base-cased
    torchrun --nproc_per_node 2 examples/hf_trainer.py shards/ncbi out/trainer \
        --model bert-base-cased

`MslmTrainer` is a Trainer that takes finished batches, makes gradient accumulation exact, and logs
the parts of the loss. Run the same command again to resume from the last checkpoint.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from transformers import TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

import mslm_data as md
from mslm_data.torch import MaskedDataset, MslmModel, MslmTrainer, loss_weights


def main() -> None:
    """Train for `--steps` steps, evaluate, then save the model, and its encoder separately."""
    parser = argparse.ArgumentParser()
    parser.add_argument("shards", help="folder that mslm-data build wrote")
    parser.add_argument("out", type=Path, help="folder for the trained model")
    parser.add_argument("--model", default="bert-base-cased", help="hub name, or folder")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--save-steps", type=int, default=10)
    parser.add_argument("--batch-tokens", type=int, default=4096, help="of each process and step")
    arguments = parser.parse_args()

    shards = md.load(arguments.shards)
    strategy = md.strategy("joint", elm=0.5, blm=0.15)
    data = MaskedDataset(shards["train"], strategy, seed=0)
    held_out = MaskedDataset(shards["validation"], strategy, seed=0, static=True)

    weights = loss_weights(md.Batches(shards["train"], strategy, batch_size=64))
    model = MslmModel.wrap(
        arguments.model,
        tokenizer=shards.tokenizer,
        labels=shards.labels,
        **weights,
    )

    trainer = MslmTrainer(
        model=model,
        args=TrainingArguments(
            str(arguments.out),
            max_steps=arguments.steps,
            save_steps=arguments.save_steps,
            learning_rate=5e-5,
            # On CPUs, processes otherwise train separate models, each on all rows.
            use_cpu=not torch.cuda.is_available(),
            report_to=[],
        ),
        train_dataset=data.loader(batch_tokens=arguments.batch_tokens),
        eval_dataset=held_out.loader(batch_tokens=arguments.batch_tokens),
    )
    last = get_last_checkpoint(str(arguments.out)) if arguments.out.is_dir() else None
    rank, ranks = trainer.args.process_index, trainer.args.world_size
    print(f"process {rank} of {ranks}: from {last or 'the beginning'}", flush=True)
    trainer.train(resume_from_checkpoint=last)
    scores = trainer.evaluate()

    if trainer.is_world_process_zero():
        print(f"step {trainer.state.global_step}: eval_loss {scores['eval_loss']:.3f}", flush=True)
        model.save_pretrained(arguments.out)  # with heads, for MslmModel.from_pretrained
        model.save_encoder(arguments.out / "encoder")  # the encoder alone, for AutoModel
    # The distributed model must go first: it keeps threads of Gloo, which may hang a process's end.
    (trainer.model_wrapped,) = trainer.accelerator.free_memory(trainer.model_wrapped)
    trainer.accelerator.end_training()


if __name__ == "__main__":
    main()
