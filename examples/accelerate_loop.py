r"""Train an encoder on a shard folder with Accelerate, and resume after an interruption.

    python examples/accelerate_loop.py shards/ncbi out/accelerate --model bert-base-cased
    accelerate launch --multi_gpu --num_processes 2 examples/accelerate_loop.py shards/ncbi \
        out/accelerate --model bert-base-cased
    torchrun --nproc_per_node 2 examples/accelerate_loop.py shards/ncbi out/accelerate \
        --model bert-base-cased

Run the same command again to resume from the last checkpoint. `--multi_gpu` starts several
processes on CPUs too; `accelerate launch --cpu --num_processes 2` silently starts one.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from accelerate import Accelerator

import mslm_data as md
from mslm_data.torch import MaskedDataset, MslmModel, loss_weights


def main() -> None:
    """Train for `--steps` steps, then save the model, and its encoder separately."""
    parser = argparse.ArgumentParser()
    parser.add_argument("shards", help="folder that mslm-data build wrote")
    parser.add_argument("out", type=Path, help="folder for the trained model")
    parser.add_argument("--model", default="bert-base-cased", help="hub name, or folder")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--save-steps", type=int, default=10)
    parser.add_argument("--batch-tokens", type=int, default=4096, help="of each process and step")
    arguments = parser.parse_args()

    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    shards = md.load(arguments.shards)
    strategy = md.strategy("joint", elm=0.5, blm=0.15)
    data = MaskedDataset(shards["train"], strategy, seed=0)

    # The loader divides rows among processes itself. Register it for checkpoints; `prepare` would
    # return it unchanged.
    loader = data.loader(batch_tokens=arguments.batch_tokens)

    torch.manual_seed(0)
    weights = loss_weights(md.Batches(shards["train"], strategy, batch_size=64))
    model = MslmModel.wrap(
        arguments.model,
        tokenizer=shards.tokenizer,
        labels=shards.labels,
        **weights,
    )
    model.train()  # from_pretrained returns a model in evaluation mode, without dropout
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    trained, optimizer = accelerator.prepare(model, optimizer)
    steps = Steps()
    accelerator.register_for_checkpointing(loader, steps)

    checkpoint = arguments.out / "checkpoint"
    if checkpoint.is_dir():
        accelerator.load_state(str(checkpoint))
    rank, ranks = accelerator.process_index, accelerator.num_processes
    print(f"process {rank} of {ranks}: from step {steps.done}", flush=True)

    while steps.done < arguments.steps:
        for batch in loader:  # each pass is a new epoch, with new masks
            placed = {name: tensor.to(accelerator.device) for name, tensor in batch.items()}
            loss = trained(**placed).loss
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            steps.done += 1

            if steps.done % arguments.save_steps == 0 or steps.done == arguments.steps:
                accelerator.save_state(str(checkpoint))
                mean = accelerator.reduce(loss.detach(), "mean")  # over processes
                accelerator.print(f"step {steps.done}: loss {mean.item():.3f}", flush=True)
            if steps.done == arguments.steps:
                break

    if accelerator.is_main_process:
        model.save_pretrained(arguments.out)  # with heads, for MslmModel.from_pretrained
        model.save_encoder(arguments.out / "encoder")  # the encoder alone, for AutoModel
    accelerator.wait_for_everyone()  # until the model is written
    # The distributed model must go first: it keeps threads of Gloo, which may hang a process's end.
    trained, optimizer = accelerator.free_memory(trained, optimizer)
    accelerator.end_training()


class Steps:
    """Number of finished steps, saved in Accelerate's checkpoints."""

    done = 0

    def state_dict(self) -> dict[str, int]:
        """Return the state to save."""
        return {"done": self.done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Restore the state."""
        self.done = state["done"]


if __name__ == "__main__":
    main()
