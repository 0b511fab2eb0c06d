"""Built folders and processes for the tests of datasets and loaders."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

import mslm_data as md
from mslm_data.batches.batch_options import BatchOptions
from mslm_data.batches.collate import Masked
from mslm_data.torch import MaskedDataset
from mslm_data.torch.data.rows import make_examples
from mslm_data.torch.data.tensors import to_tensors
from tests.generate import IDS, fixed_examples, rows_of

JOINT = md.strategy("joint", elm=0.5, blm=0.2)


def lists(batch: Any) -> dict[str, Any]:
    return {name: array.tolist() for name, array in batch.items()}


def all_lists(batches: Iterable[Any]) -> list[dict[str, Any]]:
    return [lists(batch) for batch in batches]


def of_numpy(batches: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the batches of `md.Batches` as lists, with keys as int64."""
    return [lists({**batch, "keys": batch["keys"].view("int64")}) for batch in batches]


def dictionaries() -> list[dict[str, Any]]:
    """Return rows of 2 to 54 tokens with mentions of two labels, as input of a collator."""
    return [
        {
            "key": row.key,
            "input_ids": row.ids,
            "word_ids": row.word_ids,
            "bio": row.bio,
            "span_starts": [start for start, _, _ in row.mentions],
            "span_ends": [end for _, end, _ in row.mentions],
            "span_labels": [label for _, _, label in row.mentions],
        }
        for row in rows_of(fixed_examples(12))
    ]


def packed_batch(
    rows: list[dict[str, Any]], strategy: md.Strategy, **shape: Any
) -> dict[str, torch.Tensor]:
    """Return rows with the special ids of `IDS` as a masked batch of a form of `BatchOptions`."""
    masked = Masked.by_strategy(make_examples(rows, IDS), strategy, seed=0, epoch=0)
    return to_tensors(masked.batch(options=BatchOptions(**shape)), None)


def consume(folder: str, out: str, die_after: int | None, options: dict[str, Any]) -> None:
    """Log every batch of epoch 1.

    Args:
        folder: Built folder.
        out: Prefix of the files of logs and state.
        die_after: Number of batches, after which rank 0 saves its state and the process is killed; None to resume.
        options: Options of the loader.
    """
    loader = MaskedDataset(md.load(folder)["train"], JOINT, seed=3).loader(batch_size=4, **options)
    loader.set_epoch(1)
    state = Path(f"{out}.json")
    if die_after is None:
        loader.load_state_dict(json.loads(state.read_text()))
    with open(f"{out}-{options['rank']}.log", "a") as log:
        for number, batch in enumerate(loader, start=1):
            print(json.dumps(lists(batch)), file=log, flush=True)
            if number == die_after:
                if options["rank"] == 0:
                    state.write_text(json.dumps(loader.state_dict()))
                os.kill(os.getpid(), signal.SIGKILL)


def train_rank(folder: str, out: str, rank: int, world: int) -> None:
    """Log the keys of this rank's batches, from a loader created before the process group."""
    from torch import distributed

    loader = MaskedDataset(md.load(folder)["train"], JOINT).loader(batch_size=4)
    alone = len(loader)
    distributed.init_process_group(
        "gloo", init_method=f"file://{out}-group", rank=rank, world_size=world
    )

    keys = [batch["keys"].tolist() for batch in loader]

    told = {"alone": alone, "length": len(loader), "keys": keys, "state": loader.state_dict()}
    Path(f"{out}-{rank}.json").write_text(json.dumps(told))
    distributed.destroy_process_group()
