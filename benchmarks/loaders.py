"""`MaskedLoader` and `MaskingCollator` against `datasets`, litdata, streaming and webdataset.

`python -m benchmarks loaders`

Speed in batches per second, and memory of an epoch. Peers with conflicting dependencies run in a
separate environment (`benchmarks.elsewhere`).
"""

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
from benchmarks.batching import SIZE, Endless, digest_rows, memory_growth, unpadded_rows
from benchmarks.folders import tokenizer_columns, usual_table
from benchmarks.harness import (
    Contestant,
    Goal,
    Results,
    Row,
    in_turn,
    make_row,
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
"""Peer -> (collator, number of workers) -> batches per turn, which takes about a second."""
_COLLATES = {
    "pad": ("unmasked", "pads to int64 ids and mask row by row: **it does not mask**"),
    "mlm": ("MLM collator", "pads and masks with the MLM collator"),
}
_EPOCH = 3000
"""Number of batches read to measure memory."""
_LISTS = 20
"""Number of batches of in-memory rows."""
_SHAPES = 200
"""Number of batches whose shapes the limit allocates."""
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
    notes = [f"Loaders: {len(shards['train']):,} sequences, the input {_COPIES} times"]

    table = usual_table(shards, scratch)
    rows = _usual(shards, table, tokenizer)

    # Streaming peers convert these rows, and must return rows of the same digest.
    digest = _write_rows(shards, inputs, scratch)
    memory = _alone("ours", shards.folder)
    rows.append(_memory("datasets", memory, _alone("datasets", scratch / "usual", inputs.vocab)))

    for peer in _STREAMED:
        name = f"into a training loop: `MaskedLoader`, peer {peer}"
        rows += unless_absent(
            name, partial(_streamers, shards, scratch, peer, digest, memory, notes)
        )

    rows += _collators(folders.long_rows(inputs, scratch, copies=1), tokenizer)
    return Results(rows=rows, inputs=notes)


def _streamers(
    shards: Shards, scratch: Path, peer: str, digest: str, memory: float, notes: list[str]
) -> list[Row]:
    """Compare with a peer that reads shards in its own format.

    Args:
        shards: Our folder.
        scratch: Folder for the peer's shards.
        peer: A key of `_STREAMED`.
        digest: Digest of our rows, which the peer's must equal.
        memory: Memory of our loader in MiB.
        notes: Lines about inputs; the versions of the peer's packages are appended.

    Raises:
        AbsentError: The peer does not run here.
    """
    elsewhere.write(peer, scratch)
    with elsewhere.reading(peer, scratch) as reader:
        same(f"rows of {peer}", digest, reader.ask("digest"))
        notes.append(f"In an environment of its own: {reader.ask('versions')}")

    turns = _STREAMED[peer]
    rows = [
        _streamed(shards, scratch, (peer, *workers_), count) for workers_, count in turns.items()
    ]

    with elsewhere.reading(peer, scratch) as reader:
        rows.append(_memory(peer, memory, float(reader.ask(f"memory {_EPOCH}"))))
    return rows


def _alone(who: str, *paths: object) -> float:
    """Return the memory growth in MiB of a process that only reads an epoch."""
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


def _usual(shards: Shards, table: Any, tokenizer: Any) -> list[Row]:
    """Compare `MaskedLoader` with a DataLoader over `datasets`, without and with workers."""
    dataset = _masked(shards)
    ours = dataset.loader(SIZE)
    options: dict[str, Any] = {
        "batch_size": SIZE,
        "shuffle": True,
        "collate_fn": DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15),
    }
    rows = table.with_format("torch")
    peers = {workers: DataLoader(rows, num_workers=workers, **options) for workers in (0, 2)}

    rates = in_turn(
        {
            "ours": _turns(_epochs(ours), len(ours)),
            "limit": _writes(dataset),
            **{
                f"peer {workers}": _turns(partial(_same, peer), 100)
                for workers, peer in peers.items()
            },
        },
        rounds=5,
    )

    return [
        make_row(
            f"into a training loop: `MaskedLoader`, peer datasets ({_workers(workers)})",
            {"ours": rates["ours"], "peer": rates[f"peer {workers}"], "limit": rates["limit"]},
            unit="batches",
            what=f"{_caption(shards)}; the peer is `load_from_disk` with the torch format, the "
            f"four columns that `run_mlm` stores, a shuffling DataLoader, {_workers(workers)}, and "
            f"the MLM collator.{_LIMIT}",
            goal=None if workers else Goal(peer=80),
        )
        for workers in peers
    ]


def _streamed(shards: Shards, scratch: Path, peer_setup: tuple[str, str, int], count: int) -> Row:
    """Compare our loader with a peer in the separate environment.

    Args:
        shards: Our folder.
        scratch: Folder with the peer's shards.
        peer_setup: Name of the peer, its collator ("pad" or "mlm") and number of workers.
        count: Number of batches per turn of the peer.
    """
    name, collates, workers = peer_setup
    ours = _masked(shards).loader(SIZE)
    with elsewhere.reading(name, scratch, collates=collates, workers=workers) as peer:
        rates = in_turn(
            {
                "ours": _turns(_epochs(ours), len(ours)),
                "peer": Contestant(call=lambda _: peer.ask(f"take {count}"), work=count),
                "limit": _writes(_masked(shards)),
            },
            rounds=3,
        )

    workers_ = _workers(workers)
    masks, does = _COLLATES[collates]
    return make_row(
        f"into a training loop: `MaskedLoader`, peer {name} ({masks}, {workers_})",
        rates,
        unit="batches",
        what=f"{_caption(shards)}; the peer reads the same rows, shuffled, from its "
        f"own shards on the local disk, {workers_}, and {does}; it has no other column. Rows of an "
        f"epoch were equal, whatever their order (checked without workers).{_LIMIT}",
        goal=Goal(peer=7, why=_WHY_UNMASKED) if peer_setup == ("litdata", "pad", 0) else None,
    )


def _write_rows(shards: Shards, inputs: Inputs, scratch: Path) -> str:
    """Write the rows for peers. Returns the digest of our loader's rows, unmasked by the labels."""
    ids = shards["train"].examples().input_ids
    np.save(scratch / "values.npy", np.asarray(ids.values, np.int32))
    np.save(scratch / "offsets.npy", np.asarray(ids.offsets, np.int64))
    shutil.copyfile(inputs.vocab, scratch / "vocab.txt")

    def unmasked(batch: dict[str, Any]) -> Any:
        return where(batch["labels"] == -100, batch["input_ids"], batch["labels"])

    ours = digest_rows(unpadded_rows(_masked(shards).loader(SIZE), unmasked))
    same("rows of `MaskedLoader`", ours, digest_rows(ids.tolist()))
    return ours


def _collators(shards: Shards, tokenizer: Any) -> list[Row]:
    """Time collators on in-memory rows of lists."""
    lists = [ids for ids in shards["train"].examples().input_ids.tolist() if len(ids) > 100]
    lists = lists[: _LISTS * SIZE]
    usual = [tokenizer_columns(ids) for ids in lists]

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

    peer_caption = (
        "the peer is `DataCollatorForLanguageModeling` on the four columns that `run_mlm` stores, "
        "as lists too"
    )
    return [
        make_row(
            "a 32x128 batch from lists: `MaskingCollator` as a drop-in",
            {"ours": rates["bert"], "peer": rates["peer"], "limit": rates["limit"]},
            unit="batches",
            what=f"strategy `bert` over the peer's own rows; {peer_caption}; the limit is msgspec "
            "packing the three columns that are read, and nothing else.",
            goal=Goal(peer=30, why=_WHY_LISTS),
        ),
        make_row(
            "a 32x128 batch from lists: `MaskingCollator` with words and mentions",
            {"ours": rates["joint"], "peer": rates["peer"]},
            unit="batches",
            what="joint masking over rows of `datasets.load_from_disk` of our own folder, all "
            f"columns; {peer_caption}.",
        ),
    ]


def _masked(shards: Shards) -> MaskedDataset:
    return MaskedDataset(shards["train"], strategy("joint", **_JOINT))


def _epochs(loader: Any) -> Callable[[int], Iterable[Any]]:
    """Return a function of the epoch that returns its batches."""

    def batches(epoch: int) -> Iterable[Any]:
        loader.set_epoch(epoch)
        return loader  # type: ignore[no-any-return]

    return batches


def _same(loader: Any, epoch: int) -> Any:  # noqa: ARG001
    """Return a loader that knows no epoch."""
    return loader


def _turns(epoch: Callable[[int], Iterable[Any]], count: int) -> Contestant:
    """Make a contestant that reads `count` batches per turn, across epochs."""
    endless = Endless(epoch)
    return Contestant(call=lambda _: endless.take(count), work=count)


def _collates(collator: Callable[[list[Any]], Any], rows: list[Any]) -> Contestant:
    batches = [rows[i : i + SIZE] for i in range(0, len(rows), SIZE)]

    def collate(_: None) -> None:
        for batch in batches:
            collator(batch)

    return Contestant(call=collate, work=len(batches), repeat=3)


def _pack(rows: list[dict[str, list[int]]]) -> None:
    """Read all numbers from the lists by msgspec, a lower bound for any collator."""
    for name in ("input_ids", "special_tokens_mask", "attention_mask"):
        _ENCODER.encode([row[name] for row in rows])


def _writes(dataset: MaskedDataset) -> Contestant:
    """Make the limit: allocate and fill arrays of our batches' shapes, and convert to tensors."""
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


def _caption(shards: Shards) -> str:
    return (
        f"`MaskedLoader`: shuffled, joint masking, batches of {SIZE} with all nine columns as "
        f"tensors, over {len(shards['train']):,} sequences"
    )


def _epochs_alone(who: str, folder: str, vocab: str = "") -> Callable[[int], Iterable[Any]]:
    """Return a function of the epoch that returns its batches, of our loader or `datasets`."""
    if who == "ours":
        return _epochs(_masked(load(folder)).loader(SIZE))

    collator = DataCollatorForLanguageModeling(BertTokenizer(vocab=vocab), mlm_probability=0.15)
    table = datasets.load_from_disk(folder).with_format("torch")
    return lambda _: DataLoader(table, batch_size=SIZE, shuffle=True, collate_fn=collator)


if __name__ == "__main__":
    print(memory_growth(Endless(_epochs_alone(sys.argv[1], *sys.argv[3:])), int(sys.argv[2])))
