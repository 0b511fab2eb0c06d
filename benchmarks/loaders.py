"""Batches in a training loop, by `MaskedLoader` and `MaskingCollator`, beside usual loaders."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import msgspec
import numpy as np
from torch import from_numpy, where
from torch.utils.data import DataLoader
from transformers import BertTokenizer, DataCollatorForLanguageModeling

from benchmarks import elsewhere, folders
from benchmarks.batches import columns_of, usual_table
from benchmarks.batching import SIZE, Endless, digest_of, grown, rows_of
from benchmarks.harness import (
    Contestant,
    Goal,
    Results,
    Row,
    in_turn,
    row_of,
    same,
    unless_absent,
)
from benchmarks.inputs import ROOT, Inputs
from mslm_data.api.loading import Shards, load
from mslm_data.mask.table import strategy
from mslm_data.torch import MaskedDataset, MaskingCollator

_COPIES = 8
_JOINT = {"elm": 1.0, "blm": 0.075}
_STREAMED = {
    "litdata": {("pad", 0): 1500, ("mlm", 0): 50, ("pad", 2): 100},
    "mosaicml-streaming": {("pad", 0): 300, ("mlm", 0): 50, ("pad", 2): 100},
    "webdataset": {("pad", 0): 300, ("mlm", 0): 50},
}
"""Peer -> (how it collates, workers of its loader) -> batches in a turn of about a second."""
_COLLATES = {
    "pad": ("unmasked", "pads to int64 ids and mask row by row: **it does not mask**"),
    "mlm": ("MLM collator", "pads and masks with the MLM collator"),
}
_EPOCH = 3000
"""Batches of a measurement of memory."""
_LISTS = 20
"""Batches of rows in memory."""
_SHAPES = 200
"""Batches whose shapes the limit writes."""
_LIMIT = " The limit writes arrays of the shapes of our batches and makes tensors of them."
_ENCODER = msgspec.msgpack.Encoder()
_WHY_UNMASKED = (
    "litdata neither masks nor has the other eight columns; writing ours and making tensors of "
    "them is half of the time already, as the limit says"
)
_WHY_LISTS = (
    "reading Python's lists, as the limit does, takes a quarter of the time whoever reads them; "
    "what is left is what a batch from shards takes, and a few calls for each column"
)


def run(inputs: Inputs, scratch: Path) -> Results:
    """Time loaders over sentences, and collators over batches of 32 rows of about 128 tokens."""
    datasets.disable_progress_bars()
    tokenizer = BertTokenizer(vocab=str(inputs.vocab), do_lower_case=not inputs.cased)
    shards = folders.sentences(inputs, scratch, copies=_COPIES)
    says = [f"Loaders: {len(shards['train']):,} sequences, the input {_COPIES} times"]

    table = usual_table(shards, scratch)
    rows = [row for workers in (0, 2) for row in _usual(shards, table, tokenizer, workers)]

    digest = _write_rows(shards, inputs, scratch)
    memory = _alone("ours", shards.folder)
    rows.append(_memory("datasets", memory, _alone("datasets", scratch / "usual", inputs.vocab)))

    for peer in _STREAMED:
        name = f"into a training loop: `MaskedLoader`, peer {peer}"
        rows += unless_absent(
            name, partial(_streamers, shards, scratch, peer, digest, memory, says)
        )

    rows += _collators(folders.long_rows(inputs, scratch, copies=1), tokenizer)
    return Results(rows=rows, inputs=says)


def _streamers(
    shards: Shards, scratch: Path, peer: str, digest: str, memory: float, says: list[str]
) -> list[Row]:
    """Compare with one peer that streams shards of its own, and add its versions to `says`.

    Raises:
        AbsentError: The peer does not run here.
    """
    elsewhere.write(peer, scratch)
    with elsewhere.reading(peer, scratch) as reader:
        same(f"rows of {peer}", digest, reader.ask("digest"))
        says.append(f"In an environment of its own: {reader.ask('versions')}")

    turns = _STREAMED[peer]
    rows = [_streamed(shards, scratch, (peer, *how), many) for how, many in turns.items()]

    with elsewhere.reading(peer, scratch) as reader:
        rows.append(_memory(peer, memory, float(reader.ask(f"memory {_EPOCH}"))))
    return rows


def _alone(who: str, *paths: object) -> float:
    """Return the MiB that an epoch's batches take in a process that does nothing else."""
    command = [sys.executable, "-m", "benchmarks.loaders", who, str(_EPOCH), *map(str, paths)]
    return float(
        subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True).stdout
    )


def _memory(peer: str, ours: float, theirs: float) -> Row:
    return Row(
        name=f"into a training loop, memory: `MaskedLoader`, peer {peer}",
        what=f"no workers, {_EPOCH:,} batches, each in a process of its own: what it has more than "
        "at the first, pages of mapped files aside; ours and datasets mask, the streaming ones do "
        "not. Less is better.",
        unit="MiB",
        ours=ours,
        peer=theirs,
    )


def _usual(shards: Shards, table: Any, tokenizer: Any, workers: int) -> list[Row]:
    """Compare our loader and torch's over our dataset with torch's over `datasets`."""
    dataset = _masked(shards)
    options: dict[str, Any] = {"batch_size": SIZE, "shuffle": True, "num_workers": workers}
    ours = dataset.loader(SIZE, workers=workers)
    plain = DataLoader(dataset, collate_fn=MaskingCollator(), **options)
    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    peer = DataLoader(table.with_format("torch"), collate_fn=collator, **options)

    rates = in_turn(
        {
            "loader": _turns(_epochs(ours), 100 if workers else len(ours)),
            "plain": _turns(_epochs(plain, dataset), 100 if workers else 500),
            "peer": _turns(lambda _: peer, 100),
            "limit": _writes(dataset),
        },
        rounds=5,
    )

    # The limit has no workers, so it stands beside loaders without.
    of_loader = {"ours": rates["loader"], "peer": rates["peer"]}
    if not workers:
        of_loader["limit"] = rates["limit"]

    how = _workers(workers)
    against = (
        "the peer is `load_from_disk` with the torch format, the four columns that `run_mlm` "
        f"stores, a shuffling DataLoader, {how}, and the MLM collator."
    )
    return [
        row_of(
            f"into a training loop, {how}: `MaskedLoader`, peer datasets",
            of_loader,
            unit="batches",
            what=f"{_says(shards, how)}; {against}{'' if workers else _LIMIT}",
            goal=None if workers else Goal(peer=80),
        ),
        row_of(
            f"into a training loop, {how}: DataLoader and `MaskingCollator`, peer datasets",
            {"ours": rates["plain"], "peer": rates["peer"]},
            unit="batches",
            what=f"torch's DataLoader, shuffling, {how}, over the same `MaskedDataset`; {against}",
        ),
    ]


def _streamed(shards: Shards, scratch: Path, of: tuple[str, str, int], many: int) -> Row:
    """Compare our loader with a peer that streams shards of its own, in an environment of its own.

    Args:
        shards: Ours.
        scratch: Where the peer's are.
        of: Its name, how it collates, and the workers of its loader.
        many: Batches in a turn of it.
    """
    name, collates, workers = of
    ours = _masked(shards).loader(SIZE)
    with elsewhere.reading(name, scratch, collates=collates, workers=workers) as peer:
        rates = in_turn(
            {
                "ours": _turns(_epochs(ours), len(ours)),
                "peer": Contestant(call=lambda _: peer.ask(f"take {many}"), work=many),
                "limit": _writes(_masked(shards)),
            },
            rounds=3,
        )

    how = _workers(workers)
    masks, does = _COLLATES[collates]
    return row_of(
        f"into a training loop: `MaskedLoader`, peer {name} ({masks}, {how})",
        rates,
        unit="batches",
        what=f"{_says(shards, 'no workers')}; the peer reads the same rows, shuffled, from its own "
        f"shards on the local disk, {how}, and {does}; it has no other column. Rows of an epoch "
        f"were equal, whatever their order (checked without workers).{_LIMIT}",
        goal=Goal(peer=7, why=_WHY_UNMASKED) if of == ("litdata", "pad", 0) else None,
    )


def _write_rows(shards: Shards, inputs: Inputs, scratch: Path) -> str:
    """Write the rows for peers; return the digest of our loader's rows with the masks undone."""
    ids = shards["train"].examples().input_ids
    np.save(scratch / "values.npy", np.asarray(ids.values, np.int32))
    np.save(scratch / "offsets.npy", np.asarray(ids.offsets, np.int64))
    shutil.copyfile(inputs.vocab, scratch / "vocab.txt")

    def unmasked(batch: dict[str, Any]) -> Any:
        return where(batch["labels"] == -100, batch["input_ids"], batch["labels"])

    ours = digest_of(rows_of(_masked(shards).loader(SIZE), unmasked))
    same("rows of `MaskedLoader`", ours, digest_of(ids.tolist()))
    return ours


def _collators(shards: Shards, tokenizer: Any) -> list[Row]:
    """Time collators over rows that are lists in memory already."""
    lists = [ids for ids in shards["train"].examples().input_ids.tolist() if len(ids) > 100]
    lists = lists[: _LISTS * SIZE]
    usual = [columns_of(ids) for ids in lists]

    table = datasets.load_from_disk(str(shards.folder))["train"]
    words = [row for row in table.select(range(2 * len(lists))) if len(row["input_ids"]) > 100]
    words = words[: len(lists)]

    bert = MaskingCollator(strategy("bert"), tokenizer, plain=True, static=True)
    joint = MaskingCollator(strategy("joint", **_JOINT), tokenizer, static=True)
    theirs = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)

    rates = in_turn(
        {
            "bert": _collates(bert, usual),
            "joint": _collates(joint, words),
            "peer": _collates(theirs, usual),
            "limit": _collates(_pack, usual),
        },
        rounds=7,
    )

    against = (
        "the peer is `DataCollatorForLanguageModeling` on the four columns that `run_mlm` stores, "
        "as lists too"
    )
    return [
        row_of(
            "a 32x128 batch from lists: `MaskingCollator` as a drop-in",
            {"ours": rates["bert"], "peer": rates["peer"], "limit": rates["limit"]},
            unit="batches",
            what=f"strategy `bert` over the peer's own rows; {against}; the limit is msgspec "
            "packing the three columns that are read, and nothing else.",
            goal=Goal(peer=30, why=_WHY_LISTS),
        ),
        row_of(
            "a 32x128 batch from lists: `MaskingCollator` with words and mentions",
            {"ours": rates["joint"], "peer": rates["peer"]},
            unit="batches",
            what="joint masking over rows of `datasets.load_from_disk` of our own folder, all "
            f"columns; {against}.",
        ),
    ]


def _masked(shards: Shards) -> MaskedDataset:
    return MaskedDataset(shards["train"], strategy("joint", **_JOINT))


def _epochs(loader: Any, dataset: MaskedDataset | None = None) -> Callable[[int], Iterable[Any]]:
    """Return a call that sets an epoch and gives its batches.

    The epoch is set on the dataset where one is given: torch's loader has no epochs.
    """

    def batches(epoch: int) -> Iterable[Any]:
        if dataset is None:
            loader.set_epoch(epoch)
        else:
            dataset.epoch = epoch
        return loader  # type: ignore[no-any-return]

    return batches


def _turns(epoch: Callable[[int], Iterable[Any]], many: int) -> Contestant:
    """Take this many batches in each turn, one epoch after the other."""
    endless = Endless(epoch)
    return Contestant(call=lambda _: endless.take(many), work=many)


def _collates(collator: Callable[[list[Any]], Any], rows: list[Any]) -> Contestant:
    batches = [rows[i : i + SIZE] for i in range(0, len(rows), SIZE)]

    def collate(_: None) -> None:
        for batch in batches:
            collator(batch)

    return Contestant(call=collate, work=len(batches), repeat=3)


def _pack(rows: list[dict[str, list[int]]]) -> None:
    """Read the numbers in lists by msgspec, the fastest known way."""
    for name in ("input_ids", "special_tokens_mask", "attention_mask"):
        _ENCODER.encode([row[name] for row in rows])


def _writes(dataset: MaskedDataset) -> Contestant:
    """Write arrays of the first batches' shapes and make tensors of them: no reading, no masks."""
    batches = itertools.islice(dataset.loader(SIZE), _SHAPES)
    shapes = [
        [(tuple(column.shape), column.numpy().dtype) for column in batch.values()]
        for batch in batches
    ]

    def write(_: None) -> None:
        for batch in shapes:
            [from_numpy(np.full(shape, 0, dtype)) for shape, dtype in batch]

    return Contestant(call=write, work=len(shapes), repeat=5)


def _workers(count: int) -> str:
    return f"{count} workers" if count else "no workers"


def _says(shards: Shards, how: str) -> str:
    return (
        f"`MaskedLoader`, {how}: shuffled, joint masking, batches of {SIZE} with all nine columns "
        f"as tensors, over {len(shards['train']):,} sequences"
    )


def _epochs_alone(who: str, folder: str, vocab: str = "") -> Callable[[int], Iterable[Any]]:
    """Return a call that gives an epoch's batches: ours, or those of `datasets`."""
    if who == "ours":
        return _epochs(_masked(load(folder)).loader(SIZE))

    collator = DataCollatorForLanguageModeling(BertTokenizer(vocab=vocab), mlm_probability=0.15)
    table = datasets.load_from_disk(folder).with_format("torch")
    return lambda _: DataLoader(table, batch_size=SIZE, shuffle=True, collate_fn=collator)


if __name__ == "__main__":
    print(grown(Endless(_epochs_alone(sys.argv[1], *sys.argv[3:])), int(sys.argv[2])))
