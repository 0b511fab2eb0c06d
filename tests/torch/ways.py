"""Ways to train for three epochs on the batches of a loader, in each trainer.

Each runs in one process, or as one of several that train together; from the start, or resumed in the middle of the
second epoch.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn

import mslm_data as md
from mslm_data.torch import (
    MaskedDataset,
    MaskEpochCallback,
    MaskingCollator,
    MslmModel,
    MslmTrainer,
)
from tests.torch.families import masked_lm

STRATEGIES = {
    "sentinels": md.strategy("t5"),
    "masked": md.strategy("token", rate=0.3),
    "causal, then masked": md.strategy(
        "curriculum", epochs=[1], parts=[{"use": "causal"}, {"use": "token", "rate": 0.3}]
    ),
}
SEED = 3
EPOCHS = 3
SHAPES: dict[str, dict[str, Any]] = {
    "rows": {"batch_size": 8},
    "tokens": {"batch_tokens": 256},
    "flat": {"batch_tokens": 256, "flat": True},
}
ROWS_OF_A_BATCH = 8
"""Rows of each rank's batch, where a Trainer makes the batches."""

WAYS: dict[str, Callable[[Run], None]] = {}
"""Name -> way. Filled by `way`."""


@dataclass
class Run:
    """One way in one process.

    Attributes:
        folder: The shards; of a tokenizer with sentinels for the strategy of this name.
        out: Folder for checkpoints.
        rank: Rank of this process.
        world: Number of ranks.
        shape: Name of the options of batches.
        resumed: Whether to resume in the middle of the second epoch.
        strategy: Name of the strategy in `STRATEGIES`.
        seen: Keys and labels of each training batch; after the resume, if there is one.
    """

    folder: str
    out: str
    rank: int
    world: int
    shape: str
    resumed: bool
    strategy: str = "masked"
    seen: list[dict[str, Any]] = field(default_factory=list)
    is_watched: bool = True
    """Whether batches are recorded; False before the resume."""

    def loader(self, **options: Any) -> Any:
        data = MaskedDataset(md.load(self.folder)["train"], STRATEGIES[self.strategy], seed=SEED)
        return data.loader(**SHAPES[self.shape], **options)

    @property
    def stop(self) -> int:
        """Number of steps before the resume."""
        return len(self.loader(rank=self.rank, world=self.world)) + 2

    def see(self, batch: Any) -> None:
        if self.is_watched:
            self.seen.append({name: batch[name].tolist() for name in ("keys", "labels")})

    def model(self) -> nn.Module:
        return Tiny(md.load(self.folder).manifest.token_ids.size)

    def watch(self, model: nn.Module) -> nn.Module:
        """Record the inputs of a model."""
        model.register_forward_pre_hook(lambda _, __, batch: self.see(batch), with_kwargs=True)
        return model


class Tiny(nn.Module):
    """A model that trains quickly, for trainers that accept any model."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size, 1)

    def forward(self, input_ids: Any, labels: Any = None, **others: Any) -> dict[str, Any]:
        return {"loss": self.embedding(input_ids).mean()}


def way(name: str) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    def register(run: Callable[[Run], None]) -> Callable[[Run], None]:
        WAYS[name] = run
        return run

    return register


def run_ways(names: list[str], **options: Any) -> dict[str, Any]:
    """Return the result of each way: the batches seen, and the error, if any."""
    told = {}
    for number, name in enumerate(names):
        run = Run(**{**options, "out": f"{options['out']}/{number}"})
        Path(run.out).mkdir(exist_ok=True, parents=True)
        torch.manual_seed(0)
        refused = None
        try:
            WAYS[name](run)
        except ValueError as error:
            if "epoch: " not in str(error):
                raise
            refused = str(error)
        told[name] = {"seen": run.seen, "refused": refused}
    return told


def run_rank(names: list[str], port: int, told: str, options: dict[str, Any]) -> None:
    """Run ways as one of several processes, and write the results."""
    rank, world = options["rank"], options["world"]
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NODE_RANK": "0"}
    distributed.init_process_group("gloo", rank=rank, world_size=world)

    Path(f"{told}-{rank}.json").write_text(json.dumps(run_ways(names, **options)))
    distributed.destroy_process_group()


def expected_batches(run: Run) -> Iterator[dict[str, Any]]:
    """Yield the batches of a rank, epoch after epoch, without a process group."""
    loader = run.loader(rank=run.rank, world=run.world)
    for _ in range(EPOCHS + 1):
        yield from ({name: batch[name].tolist() for name in ("keys", "labels")} for batch in loader)


# Loops of one's own --------------------------------------------------------------------------------------------------


@way("plain loop")
def _(run: Run) -> None:
    """A loader made before the process group has its rank when it is read."""
    model = run.watch(run.model())
    ddp = nn.parallel.DistributedDataParallel(model) if run.world > 1 else model
    loader = run.loader()
    if run.resumed:
        loader.load_state_dict(json.loads(json.dumps(half_way(run))))

    for epoch in range(1 if run.resumed else 0, EPOCHS):
        loader.set_epoch(epoch)  # no effect within the epoch of the state
        for batch in loader:
            ddp(**batch)["loss"].backward()


@way("plain loop that sets no epoch")
def _(run: Run) -> None:
    loader = run.loader()
    if run.resumed:
        loader.load_state_dict(half_way(run))

    for _ in range(1 if run.resumed else 0, EPOCHS):
        for batch in loader:
            run.see(batch)


def half_way(run: Run) -> Any:
    """Return the state of a loader after `run.stop` batches."""
    loader = run.loader()
    passes = itertools.chain.from_iterable(itertools.repeat(loader))
    for _ in itertools.islice(passes, run.stop):
        pass
    return loader.state_dict()


@way("Accelerate")
def _(run: Run) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == run.world
    loader = run.loader()
    assert accelerator.prepare(loader) is loader
    accelerator.register_for_checkpointing(loader)
    model = accelerator.prepare(run.watch(run.model()))
    if run.resumed:
        loader.load_state_dict(half_way(run))
        accelerator.save_state(run.out)
        next(iter(loader))
        accelerator.wait_for_everyone()
        accelerator.load_state(run.out)

    for epoch in range(1 if run.resumed else 0, EPOCHS):
        loader.set_epoch(epoch)
        for batch in loader:
            accelerator.backward(model(**batch)["loss"])


# Hugging Face's Trainer ----------------------------------------------------------------------------------------------


def hugging_face(
    run: Run, kind: Any, data: Callable[[], dict[str, Any]], stop: int, **options: Any
) -> None:
    """Train; to resume, train with a callback first, then resume from a checkpoint in the second epoch."""
    from transformers import TrainingArguments

    def trainer(**more: Any) -> Any:
        model = run.model()
        if kind is MslmTrainer:
            size = md.load(run.folder).manifest.token_ids.size
            model = MslmModel.wrap(masked_lm(vocab_size=size, max_position_embeddings=512))
        arguments = TrainingArguments(
            run.out,
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=ROWS_OF_A_BATCH,
            save_steps=stop if run.resumed else 10_000,
            remove_unused_columns=False,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            ddp_find_unused_parameters=False,
        )
        return kind(run.watch(model), arguments, **{**data(), **options, **more})

    if not run.resumed:
        trainer().train()
        return

    run.is_watched = False
    trainer(callbacks=[MaskEpochCallback()]).train()
    run.is_watched = True
    trainer().train(resume_from_checkpoint=f"{run.out}/checkpoint-{stop}")


def on_loader(run: Run, kind: Any, **options: Any) -> None:
    hugging_face(run, kind, lambda: {"train_dataset": run.loader()}, run.stop, **options)


def loader_trainer() -> Any:
    """Return the class of docs/training.md."""
    from transformers import Trainer

    class LoaderTrainer(Trainer):
        def get_train_dataloader(self) -> Any:
            return self.train_dataset.for_trainer()

    return LoaderTrainer


@way("Trainer with the callback")
def _(run: Run) -> None:
    on_loader(run, loader_trainer(), callbacks=[MaskEpochCallback()])


@way("Trainer")
def _(run: Run) -> None:
    on_loader(run, loader_trainer())


@way("MslmTrainer")
def _(run: Run) -> None:
    on_loader(run, MslmTrainer)


def on_collated_rows(run: Run, **options: Any) -> None:
    """Train on rows of the library datasets, masked by the collator."""
    import datasets
    from transformers import Trainer

    split = md.load(run.folder)["train"]

    def data() -> dict[str, Any]:
        return {
            "train_dataset": datasets.load_from_disk(run.folder)["train"],
            "data_collator": MaskingCollator(STRATEGIES[run.strategy], split, seed=SEED),
        }

    steps = -(-len(split) // (ROWS_OF_A_BATCH * run.world))
    hugging_face(run, Trainer, data, steps + 2, **options)


@way("Trainer, rows masked by the collator")
def _(run: Run) -> None:
    on_collated_rows(run)


@way("Trainer with the callback, rows masked by the collator")
def _(run: Run) -> None:
    on_collated_rows(run, callbacks=[MaskEpochCallback()])


# Lightning -----------------------------------------------------------------------------------------------------------


@way("Lightning")
def _(run: Run) -> None:
    import lightning.pytorch as lightning
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = run.watch(run.model())

        def training_step(self, batch: dict[str, Any]) -> Any:
            return self.model(**batch)["loss"]

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def fit(steps: int, checkpoint: str | None) -> None:
        kept = ModelCheckpoint(run.out, every_n_train_steps=1, save_last=True)
        trainer = lightning.Trainer(
            accelerator="cpu",
            max_epochs=EPOCHS,
            max_steps=steps,
            callbacks=[kept],
            default_root_dir=run.out,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            **({"strategy": "ddp", "devices": run.world} if run.world > 1 else {"devices": 1}),
        )
        trainer.fit(Module(), run.loader(), ckpt_path=checkpoint)
        assert trainer.world_size == run.world

    if run.resumed:
        run.is_watched = False
        fit(run.stop, None)
        run.is_watched = True
    fit(-1, f"{run.out}/last.ckpt" if run.resumed else None)
