r"""Train an encoder on a shard folder in a plain PyTorch loop, and resume after an interruption.

    python examples/plain_torch.py shards/ncbi out/plain --model bert-base-cased
    torchrun --nproc_per_node 2 examples/plain_torch.py shards/ncbi out/plain \
        --model bert-base-cased

The loader divides rows among processes, in batches of about equal numbers of tokens, so that no
process waits for another. The model divides its loss by the tokens of all processes, so gradients
equal those of one large batch. Run the same command again to resume.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

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

    rank, ranks, device = start_process()
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
    ).to(device)
    model.train()  # from_pretrained returns a model in evaluation mode, without dropout
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)

    arguments.out.mkdir(parents=True, exist_ok=True)
    checkpoint, step = arguments.out / "checkpoint.pt", 0
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])
        step = state["step"]
    print(f"process {rank} of {ranks}: from step {step}", flush=True)

    trained = DistributedDataParallel(model) if distributed.is_initialized() else model
    while step < arguments.steps:
        for batch in loader:  # each pass is a new epoch, with new masks
            loss = trained(**{name: tensor.to(device) for name, tensor in batch.items()}).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            step += 1

            if step % arguments.save_steps == 0 or step == arguments.steps:
                loss_of_step = mean_over_processes(loss)
                if rank == 0:
                    state = {
                        "model": model.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "loader": loader.state_dict(),
                        "step": step,
                    }
                    save(state, checkpoint)
                    print(f"step {step}: loss {loss_of_step:.3f}", flush=True)
            if step == arguments.steps:
                break

    if rank == 0:
        model.save_pretrained(arguments.out)  # with heads, for MslmModel.from_pretrained
        model.save_encoder(arguments.out / "encoder")  # the encoder alone, for AutoModel
    if distributed.is_initialized():
        distributed.barrier()  # wait until the model is written
        del trained  # it keeps threads of Gloo, which may hang a process's end
        distributed.destroy_process_group()


def save(state: dict[str, Any], checkpoint: Path) -> None:
    """Write a checkpoint. An interruption leaves the earlier one."""
    torch.save(state, checkpoint.with_suffix(".part"))
    os.replace(checkpoint.with_suffix(".part"), checkpoint)


def mean_over_processes(loss: torch.Tensor) -> float:
    """Return the loss of the step: the mean of the losses of all processes."""
    mean = loss.detach().clone()
    if distributed.is_initialized():
        distributed.all_reduce(mean)
        mean /= distributed.get_world_size()
    return mean.item()


def start_process() -> tuple[int, int, torch.device]:
    """Initialise the process group if torchrun started this process.

    Returns:
        Rank, number of processes, and device.
    """
    on_gpu = torch.cuda.is_available()
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    if "WORLD_SIZE" not in os.environ:
        return 0, 1, device
    distributed.init_process_group("nccl" if on_gpu else "gloo")
    return distributed.get_rank(), distributed.get_world_size(), device


if __name__ == "__main__":
    main()
