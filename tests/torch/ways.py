"""Ways to train for three epochs, which return each row's masks by epoch, or the error.

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
from torch.utils.data import DataLoader, DistributedSampler

import mslm_data as md
from mslm_data.torch import (
    MaskedDataset,
    MaskEpochCallback,
    MaskingCollator,
    MslmModel,
    MslmTrainer,
)
from mslm_data.torch.data.loader import MaskedLoader
from tests.torch.families import masked_lm
from tests.torch.samplers import sampler_of

STRATEGY = md.strategy("token", rate=0.3)
SEED = 3
EPOCHS = 3
SIZE = 8
"""Rows of each rank's batch."""

WAYS: dict[str, Callable[[Run], None]] = {}
"""Name -> way. Filled by `way`."""


@dataclass
class Run:
    """One way in one process.

    Attributes:
        folder: The shards.
        out: Folder for checkpoints.
        rank: Rank of this process.
        world: Number of ranks.
        workers: Number of worker processes, 0 or 1.
        persistent: Whether workers persist between epochs.
        resumed: Whether to resume in the middle of the second epoch.
        seen: Epoch, key, and masked positions of each training row.
    """

    folder: str
    out: str
    rank: int
    world: int
    workers: int
    persistent: bool
    resumed: bool
    seen: list[tuple[int, int, list[int]]] = field(default_factory=list)

    def rows(self) -> MaskedDataset:
        return MaskedDataset(md.load(self.folder)["train"], STRATEGY, seed=SEED)

    @property
    def worker_options(self) -> dict[str, Any]:
        return {"num_workers": self.workers, "persistent_workers": self.persistent}

    @property
    def loader_options(self) -> dict[str, Any]:
        options = {"workers": self.workers, "persistent_workers": self.persistent}
        return {"batch_size": SIZE, **(options if self.workers else {})}

    def data_loader(self, rows: Any, **options: Any) -> DataLoader[Any]:
        return DataLoader(rows, collate_fn=MaskingCollator(), **options, **self.worker_options)

    def see(self, epoch: int, batch: Any) -> None:
        columns = (batch[name].tolist() for name in ("keys", "labels"))
        for key, labels in zip(*columns, strict=True):
            places = [place for place, label in enumerate(labels) if label != -100]
            self.seen.append((epoch, key, places))

    def watch(self, model: nn.Module, epoch: Callable[[], int]) -> nn.Module:
        """Record the inputs of a model."""

        def look(_: nn.Module, __: Any, batch: dict[str, Any]) -> None:
            if self.is_over_first_half:
                self.see(epoch(), batch)

        model.register_forward_pre_hook(look, with_kwargs=True)
        return model

    is_over_first_half: bool = True
    """Whether to record batches; False before the resume."""


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
    """Return the result of each way: the rows seen, and the error, if any."""
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


# Hugging Face's Trainer ----------------------------------------------------------------------------------------------


def hugging_face(
    run: Run, kind: str, rows: Any, collator: Any = MaskingCollator, **options: Any
) -> None:
    """Train; to resume, train with a callback first, then resume from a checkpoint in the second epoch."""
    from transformers import Trainer, TrainingArguments

    def trainer(**more: Any) -> Any:
        size = md.load(run.folder).manifest.token_ids.size
        model: nn.Module = Tiny(size)
        if kind == "MslmTrainer":
            model = MslmModel.wrap(masked_lm(vocab_size=size, max_position_embeddings=512))
        steps = -(-len(run.rows()) // (SIZE * run.world))
        arguments = TrainingArguments(
            run.out,
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=SIZE,
            dataloader_num_workers=run.workers,
            dataloader_persistent_workers=run.persistent,
            save_steps=steps + steps // 2,
            remove_unused_columns=False,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            ddp_find_unused_parameters=False,
        )
        made = (MslmTrainer if kind == "MslmTrainer" else Trainer)(
            model,
            arguments,
            data_collator=collator(),
            **{"train_dataset": rows(), **options, **more},
        )
        run.watch(model, lambda: int(made.state.epoch + 1e-6))
        return made

    if not run.resumed:
        trainer().train()
        return

    run.is_over_first_half = False
    before = trainer(callbacks=[MaskEpochCallback()])
    before.train()
    run.is_over_first_half = True
    first = min(Path(run.out).glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    trainer().train(resume_from_checkpoint=str(first))


@way("Trainer")
def _(run: Run) -> None:
    hugging_face(run, "Trainer", run.rows)


@way("Trainer with the callback")
def _(run: Run) -> None:
    callback = MaskEpochCallback()
    hugging_face(run, "Trainer", run.rows, callbacks=[callback])


@way("MslmTrainer")
def _(run: Run) -> None:
    hugging_face(run, "MslmTrainer", run.rows)


@way("MslmTrainer with a loader")
def _(run: Run) -> None:
    hugging_face(run, "MslmTrainer", lambda: run.rows().loader(**run.loader_options))


def of_datasets(run: Run) -> dict[str, Any]:
    """Return rows of the library datasets, and a collator that masks them."""
    import datasets

    split = md.load(run.folder)["train"]
    rows = datasets.load_from_disk(run.folder)["train"]
    return {
        "rows": lambda: rows,
        "collator": lambda: MaskingCollator(STRATEGY, split, seed=SEED),
    }


@way("Trainer, rows masked by the collator")
def _(run: Run) -> None:
    hugging_face(run, "Trainer", **of_datasets(run))


@way("Trainer with the callback, rows masked by the collator")
def _(run: Run) -> None:
    hugging_face(run, "Trainer", **of_datasets(run), callbacks=[MaskEpochCallback()])


# Custom loops --------------------------------------------------------------------------------------------------------


def loop(run: Run, batches: Any, *, begin: Callable[[int], object], step: Any) -> None:
    """Train for all epochs; to resume, from the middle of the second.

    torch's DataLoader cannot resume within an epoch, so earlier batches are computed and discarded.
    """
    first = 1 if run.resumed else 0
    for epoch in range(first, EPOCHS):
        begin(epoch)
        skipped = 0
        if run.resumed and epoch == 1:
            if isinstance(batches, MaskedLoader):
                batches.load_state_dict(half_of(batches))
                begin(epoch)
            else:
                skipped = 2
        for batch in itertools.islice(iter(batches), skipped, None):
            run.see(epoch, batch)
            step(batch)


def half_of(loader: Any) -> Any:
    """Return the state after two batches of each rank."""
    for _ in itertools.islice(loader, 2):
        pass
    return loader.state_dict()


def with_ddp(run: Run, batches: Any, begin: Callable[[int], object]) -> None:
    model: nn.Module = Tiny(md.load(run.folder).manifest.token_ids.size)
    if run.world > 1:
        model = nn.parallel.DistributedDataParallel(model)
    loop(run, batches, begin=begin, step=lambda batch: model(**batch)["loss"].backward())


def with_accelerate(
    run: Run,
    rows: Any,
    begin: Callable[[int], object] | None,
    *,
    prepared: bool,
    **options: Any,
) -> None:
    """Train; without `begin`, `set_epoch` is called on the prepared loader."""
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**options))
    assert accelerator.num_processes == run.world
    model = accelerator.prepare(Tiny(md.load(run.folder).manifest.token_ids.size))
    batches = accelerator.prepare(rows) if prepared else rows
    loop(
        run,
        batches,
        begin=begin or batches.set_epoch,
        step=lambda batch: accelerator.backward(model(**batch)["loss"]),
    )


def nothing(epoch: int) -> None:
    """Do nothing at the start of an epoch."""


@way("DDP, loader")
def _(run: Run) -> None:
    loader = run.rows().loader(**run.loader_options)
    with_ddp(run, loader, loader.set_epoch)


@way("DDP, loader that is not told")
def _(run: Run) -> None:
    first = 1 if run.resumed else 0
    rows = MaskedDataset(md.load(run.folder)["train"], STRATEGY, seed=SEED, epoch=first)
    with_ddp(run, rows.loader(**run.loader_options), nothing)


def distributed_rows(run: Run, rows: MaskedDataset) -> tuple[Any, DistributedSampler[Any]]:
    sampler = DistributedSampler(rows, num_replicas=run.world, rank=run.rank)
    return run.data_loader(rows, batch_size=SIZE, sampler=sampler), sampler


@way("DDP, DistributedSampler")
def _(run: Run) -> None:
    batches, sampler = distributed_rows(run, run.rows())
    with_ddp(run, batches, sampler.set_epoch)


@way("DDP, DistributedSampler, epoch set by hand")
def _(run: Run) -> None:
    rows = run.rows()
    batches, sampler = distributed_rows(run, rows)

    def begin(epoch: int) -> None:
        sampler.set_epoch(epoch)
        rows.epoch = epoch

    with_ddp(run, batches, begin)


@way("DDP, ShardSampler")
def _(run: Run) -> None:
    rows = run.rows()
    sampler = sampler_of(rows, batch_size=SIZE, rank=None, world=None)
    with_ddp(run, run.data_loader(rows, batch_sampler=sampler), sampler.set_epoch)


@way("Accelerate, loader")
def _(run: Run) -> None:
    loader = run.rows().loader(**run.loader_options)
    with_accelerate(run, loader, loader.set_epoch, prepared=False)


@way("Accelerate, rows")
def _(run: Run) -> None:
    batches = run.data_loader(run.rows(), batch_size=SIZE, shuffle=True)
    with_accelerate(run, batches, None, prepared=True)


@way("Accelerate, rows by a seedable sampler")
def _(run: Run) -> None:
    batches = run.data_loader(run.rows(), batch_size=SIZE, shuffle=True)
    with_accelerate(run, batches, None, prepared=True, use_seedable_sampler=True)


@way("Accelerate, rows, epoch set by hand")
def _(run: Run) -> None:
    rows = run.rows()
    batches = run.data_loader(rows, batch_size=SIZE, shuffle=True)
    with_accelerate(run, batches, lambda epoch: setattr(rows, "epoch", epoch), prepared=True)


@way("Accelerate, ShardSampler")
def _(run: Run) -> None:
    rows = run.rows()
    batches = run.data_loader(rows, batch_sampler=sampler_of(rows, batch_size=SIZE))
    with_accelerate(run, batches, None, prepared=True)


@way("Accelerate, ShardSampler that is told beside the prepared loader")
def _(run: Run) -> None:
    rows = run.rows()
    sampler = sampler_of(rows, batch_size=SIZE)
    batches = run.data_loader(rows, batch_sampler=sampler)
    with_accelerate(run, batches, sampler.set_epoch, prepared=True)


# Lightning -----------------------------------------------------------------------------------------------------------


def lightning_fit(run: Run, make: Callable[[], Any], **options: Any) -> None:
    import lightning.pytorch as lightning
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = Tiny(md.load(run.folder).manifest.token_ids.size)
            run.watch(self.model, lambda: self.current_epoch)

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
            **options,
        )
        trainer.fit(Module(), make(), ckpt_path=checkpoint)
        assert trainer.world_size == run.world

    if run.resumed:
        run.is_over_first_half = False
        steps = -(-len(run.rows()) // (SIZE * run.world))
        fit(steps + 2, None)
        run.is_over_first_half = True
    fit(-1, f"{run.out}/last.ckpt" if run.resumed else None)


@way("Lightning, loader")
def _(run: Run) -> None:
    lightning_fit(run, lambda: run.rows().loader(**run.loader_options))


@way("Lightning, rows")
def _(run: Run) -> None:
    lightning_fit(run, lambda: run.data_loader(run.rows(), batch_size=SIZE, shuffle=True))


@way("Lightning, ShardSampler")
def _(run: Run) -> None:
    def batches() -> Any:
        rows = run.rows()
        sampler = sampler_of(rows, batch_size=SIZE, rank=None, world=None)
        return run.data_loader(rows, batch_sampler=sampler)

    lightning_fit(run, batches, use_distributed_sampler=False)


def expected_masks(folder: str) -> Iterator[dict[int, list[int]]]:
    """Yield the masked positions by key, epoch after epoch."""
    train = md.load(folder)["train"]
    for epoch in range(EPOCHS):
        batches = md.Batches(train, STRATEGY, batch_size=len(train), seed=SEED, epoch=epoch)
        (batch,) = batches
        yield {
            key: [place for place, label in enumerate(labels) if label != -100]
            for key, labels in zip(
                batch["keys"].view("int64").tolist(), batch["labels"].tolist(), strict=True
            )
        }
