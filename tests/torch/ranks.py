"""The work of one of two processes that train together, with each trainer and each shape of batches."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import mslm_data as md
from mslm_data.torch import (
    MaskedDataset,
    MaskEpochCallback,
    MaskingCollator,
    MslmModel,
    MslmTrainer,
)
from tests.torch.families import masked_lm
from tests.torch.shards import JOINT

SHAPES: dict[str, dict[str, Any]] = {
    "padded": {"batch_size": 8},
    "packed": {"batch_size": 4, "row_tokens": 64},
    "flat": {"batch_tokens": 256, "flat": True},
}
EPOCHS = 2
GIVEN_BEFORE = 2
"""Number of batches of each rank before its state is saved."""


def dataset_of(folder: str) -> MaskedDataset:
    return MaskedDataset(md.load(folder)["train"], JOINT, seed=3)


def train_in_every_way(folder: str, out: str, rank: int, port: int) -> None:
    """Write the keys seen by each way of training, by way and shape."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NODE_RANK": "0"}

    seen: dict[str, Any] = {}
    early = {name: dataset_of(folder).loader(**options) for name, options in SHAPES.items()}
    _begin(rank)
    for name, options in SHAPES.items():
        late = dataset_of(folder).loader(**options)
        seen[f"plain, loader before the process group, {name}"] = _plain(early[name])
        seen[f"plain, loader after the process group, {name}"] = _plain(late)
        seen[f"Accelerate, {name}"] = _accelerate(dataset_of(folder).loader(**options))
        for kind in ("Trainer", "MslmTrainer", "MslmTrainer with a loader"):
            seen[f"{kind}, {name}"] = _hugging_face(kind, dataset_of(folder), out, options)
        seen[f"Lightning, {name}"] = _lightning(dataset_of(folder).loader(**options), out)

    halves = {name: _half(dataset_of(folder).loader(**options)) for name, options in SHAPES.items()}
    told = {"seen": seen, "halves": halves}
    Path(f"{out}-{rank}.json").write_text(json.dumps(told))
    _end()


def _begin(rank: int) -> None:
    from torch import distributed

    distributed.init_process_group("gloo", rank=rank, world_size=2)


def _end() -> None:
    from torch import distributed

    distributed.destroy_process_group()


def _model(dataset: MaskedDataset) -> Any:
    size = dataset.split.token_ids.size
    plain = masked_lm(vocab_size=size, pad_token_id=dataset.split.token_ids.pad)
    return MslmModel.wrap(plain, labels=["Disease"]).train()


def _keys(batch: Mapping[str, Any]) -> list[int]:
    keys: list[int] = batch["keys"].tolist()
    return keys


def _plain(loader: Any) -> list[list[int]]:
    """Train with DistributedDataParallel."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(_model(loader.dataset))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for epoch in range(EPOCHS):
        loader.set_epoch(epoch)
        seen.append([])
        for batch in loader:
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            seen[-1] += _keys(batch)
    return seen


def _accelerate(loader: Any) -> list[list[int]]:
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == 2
    model = _model(loader.dataset)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    seen = []
    for epoch in range(EPOCHS):
        loader.set_epoch(epoch)
        seen.append([])
        for batch in loader:
            accelerator.backward(model(**batch).loss)
            optimizer.step()
            optimizer.zero_grad()
            seen[-1] += _keys(batch)
    return seen


def _hugging_face(
    kind: str, dataset: MaskedDataset, out: str, options: Mapping[str, Any]
) -> list[list[int]]:
    """Train with a Trainer: batches packed by the collator, or those of a loader."""
    from transformers import Trainer, TrainingArguments

    model = _model(dataset)
    seen: list[list[int]] = [[] for _ in range(EPOCHS)]
    model.register_forward_pre_hook(
        lambda _, __, given: seen[int(trainer.state.epoch + 1e-6)].extend(_keys(given)),
        with_kwargs=True,
    )
    shape = {name: options[name] for name in ("row_tokens", "flat") if name in options}
    arguments = TrainingArguments(
        out,
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=8,  # the rows are a multiple of two such batches
        save_strategy="no",
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    )
    rows = {"train_dataset": dataset, "data_collator": MaskingCollator(**shape)}
    if kind == "Trainer":
        trainer: Any = Trainer(model, arguments, **rows, callbacks=[MaskEpochCallback()])
    elif kind == "MslmTrainer":
        trainer = MslmTrainer(model, arguments, **rows)
    else:
        trainer = MslmTrainer(model, arguments, train_dataset=dataset.loader(**options))
    assert trainer.accelerator.num_processes == 2
    trainer.train()
    return seen


def _lightning(loader: Any, out: str) -> list[list[int]]:
    import lightning.pytorch as lightning
    import torch

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = _model(loader.dataset)
            self.seen: list[list[int]] = [[] for _ in range(EPOCHS)]

        def training_step(self, batch: dict[str, Any]) -> Any:
            self.seen[self.current_epoch] += _keys(batch)
            return self.model(**batch).loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    module = Module()
    trainer = lightning.Trainer(
        accelerator="cpu",
        strategy="ddp",
        devices=2,
        max_epochs=EPOCHS,
        default_root_dir=out,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, loader)
    assert trainer.world_size == 2
    return module.seen


def _half(loader: Any) -> dict[str, Any]:
    """Yield a few batches of an epoch, and the state after them."""
    loader.set_epoch(1)
    batches: Iterator[Any] | Iterable[Any] = itertools.islice(loader, GIVEN_BEFORE)
    return {"keys": [_keys(batch) for batch in batches], "state": loader.state_dict()}
