r"""Train a decoder with more weight on terms, with transformers' Trainer, and resume.

    python examples/weighted_decoder.py shards/ncbi out/decoder --model gpt2
    torchrun --nproc_per_node 2 examples/weighted_decoder.py shards/ncbi out/decoder --model gpt2

Build the shards with the decoder's tokenizer. Run the same command again to resume from the last
checkpoint.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

import mslm_data as md
from mslm_data.stats import mask_stats
from mslm_data.torch import MaskedDataset, MaskEpochCallback, weighted_loss


# [start:trainer]
class WeightedTrainer(Trainer):
    """A Trainer whose loss takes the `loss_weights` of a batch."""

    def get_train_dataloader(self) -> Any:
        """Return the batches of the loader as they are."""
        return self.train_dataset.for_trainer()

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """Divide the weighted losses of a batch by the number of labels of the step."""
        labels, weights = inputs.pop("labels"), inputs.pop("loss_weights")
        outputs = model(**inputs)
        loss = weighted_loss(outputs.logits, labels, weights, causal=True)
        if num_items_in_batch is None:  # in evaluation
            num_items_in_batch = (labels != -100).sum()
        else:  # the labels of all processes, whose gradients are averaged
            loss = loss * self.accelerator.num_processes
        loss = loss / num_items_in_batch
        return (loss, outputs) if return_outputs else loss


# [end:trainer]


def main() -> None:
    """Train for `--steps` steps, then save the model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("shards", help="folder that mslm-data build wrote")
    parser.add_argument("out", type=Path, help="folder for the trained model")
    parser.add_argument("--model", default="gpt2", help="hub name, or folder")
    parser.add_argument("--term-weight", type=float, default=2.0, help="1 for other words")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--save-steps", type=int, default=10)
    parser.add_argument("--batch-tokens", type=int, default=4096, help="of each process and step")
    arguments = parser.parse_args()

    # [start:batches]
    shards = md.load(arguments.shards)
    train, strategy = shards["train"], md.strategy("causal")
    stats = mask_stats(train.chunks, strategy, labels=shards.labels)
    weights = md.scaled_weights(arguments.term_weight, 1, n_elm=stats.n_elm, n_blm=stats.n_blm)
    loader = MaskedDataset(train, strategy, seed=0).loader(
        batch_tokens=arguments.batch_tokens, flat=True, weights=weights
    )
    # [end:batches]

    trainer = WeightedTrainer(
        model=AutoModelForCausalLM.from_pretrained(arguments.model),
        args=TrainingArguments(
            str(arguments.out),
            max_steps=arguments.steps,
            save_steps=arguments.save_steps,
            learning_rate=5e-5,
            # On CPUs, processes otherwise train separate models, each on all rows.
            use_cpu=not torch.cuda.is_available(),
            report_to=[],
        ),
        train_dataset=loader,
        callbacks=[MaskEpochCallback()],
    )
    last = get_last_checkpoint(str(arguments.out)) if arguments.out.is_dir() else None
    rank, ranks = trainer.args.process_index, trainer.args.world_size
    print(f"process {rank} of {ranks}: from {last or 'the beginning'}", flush=True)
    trainer.train(resume_from_checkpoint=last)

    if trainer.is_world_process_zero():
        print(f"step {trainer.state.global_step}: saved in {arguments.out}", flush=True)
        trainer.save_model(str(arguments.out))
    # The distributed model must go first: it keeps threads of Gloo, which may hang a process's end.
    (trainer.model_wrapped,) = trainer.accelerator.free_memory(trainer.model_wrapped)
    trainer.accelerator.end_training()


if __name__ == "__main__":
    main()
