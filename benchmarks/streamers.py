"""Peers of `benchmarks.loaders` with their own shard formats: litdata, streaming, webdataset.

`elsewhere.py` runs this module in the environment of `tools/constraints-peers.txt`, as the peers'
dependencies conflict with ours. It must not import `mslm_data`. Commands of
`python -m benchmarks.streamers`:

    write PEER FOLDER: write FOLDER/values.npy and FOLDER/offsets.npy as shards in FOLDER/PEER
    read PEER FOLDER COLLATES WORKERS: answer lines of stdin, each "versions", "digest",
        "take BATCHES" or "memory BATCHES"
    stream litdata URL CACHE: read an epoch of FOLDER/litdata in a bucket, and print as JSON
        `first` and `epoch`, seconds to the first batch and to the end, and `rows`

Rows are shuffled and padded. COLLATES is "pad", or "mlm" to mask them too.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import time
import types
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from benchmarks.batching import SIZE, Endless, digest_rows, memory_growth, unpadded_rows

Rows = Callable[[int], Any]
"""Row number -> ids, int32."""

Collate = Callable[[Sequence[Any]], Any]
"""Rows of ids -> batch."""


def main(arguments: Sequence[str]) -> int:
    """Run `write`, `read` or `stream`; see the module."""
    # Keep the original stdout for answers only.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # prints of the peers' code go to stderr

    verb, name, *remaining = arguments
    if verb == "stream":
        print(json.dumps(_stream_litdata(*remaining)), file=answers, flush=True)
        return 0

    folder = Path(remaining[0])
    write, read = PEERS[name]
    if verb == "write":
        values = np.load(folder / "values.npy")
        offsets = np.load(folder / "offsets.npy")
        write(folder / name, lambda row: values[offsets[row] : offsets[row + 1]], len(offsets) - 1)
    else:
        collates, workers = remaining[1:]
        collate = pad if collates == "pad" else _mlm(folder / "vocab.txt")
        _answer(read(folder / name, collate, int(workers)), name, answers)
    return 0


def _answer(loader: Iterable[Any], name: str, answers: TextIO) -> None:
    """Answer each line of stdin with a line."""
    endless = Endless(lambda _: loader)
    for line in sys.stdin:
        verb, *numbers = line.split()
        answer = "done"
        if verb == "versions":
            answer = ", ".join(
                f"{package} {importlib.metadata.version(package)}"
                for package in (name, "torch", "numpy")
            )
        elif verb == "digest":
            answer = digest_rows(unpadded_rows(loader, lambda batch: batch["input_ids"]))
        elif verb == "memory":
            answer = f"{memory_growth(endless, int(numbers[0])):.1f}"
        else:
            endless.take(int(numbers[0]))
        print(answer, file=answers, flush=True)


def _write_litdata(folder: Path, rows: Rows, count: int) -> None:
    import litdata

    litdata.optimize(
        fn=rows,
        inputs=list(range(count)),
        output_dir=str(folder),
        chunk_bytes=os.environ.get("CHUNK_BYTES", "64MB"),
        num_workers=1,
        start_method="fork",
        verbose=False,
    )


def _read_litdata(folder: Path, collate: Collate, workers: int) -> Iterable[Any]:
    import litdata

    dataset = litdata.StreamingDataset(str(folder), shuffle=True)
    loader: Iterable[Any] = litdata.StreamingDataLoader(
        dataset, batch_size=SIZE, num_workers=workers, collate_fn=collate
    )
    return loader


def _stream_litdata(url: str, cache: str) -> dict[str, float]:
    """Read a shuffled epoch from a bucket in this process."""
    import litdata
    from litdata.streaming import downloader

    # litdata rejects plain HTTP, and has no public option to allow it.
    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True

    start = time.perf_counter()
    dataset = litdata.StreamingDataset(
        url,
        cache_dir=cache,
        shuffle=True,
        storage_options={"endpoint_url": os.environ["AWS_ENDPOINT_URL"]},
    )
    first = 0.0
    rows = 0
    for batch in litdata.StreamingDataLoader(dataset, batch_size=SIZE, collate_fn=pad):
        first = first or time.perf_counter() - start
        rows += len(batch["input_ids"])
    return {"first": first, "epoch": time.perf_counter() - start, "rows": rows}


def _write_mosaic(folder: Path, rows: Rows, count: int) -> None:
    _without_images()
    from streaming import MDSWriter

    with MDSWriter(out=str(folder), columns={"input_ids": "ndarray:int32"}) as writer:
        for row in range(count):
            writer.write({"input_ids": rows(row)})


def _read_mosaic(folder: Path, collate: Collate, workers: int) -> Iterable[Any]:
    _without_images()
    from streaming import StreamingDataset

    dataset = StreamingDataset(local=str(folder), shuffle=True, batch_size=SIZE)
    return torch.utils.data.DataLoader(
        dataset,
        batch_size=SIZE,
        num_workers=workers,
        collate_fn=lambda rows: collate([row["input_ids"] for row in rows]),
    )


def _write_webdataset(folder: Path, rows: Rows, count: int) -> None:
    import webdataset

    folder.mkdir()
    with webdataset.ShardWriter(str(folder / "%06d.tar"), maxcount=10_000, verbose=0) as writer:
        for row in range(count):
            writer.write({"__key__": f"{row:09d}", "npy": np.asarray(rows(row))})


def _read_webdataset(folder: Path, collate: Collate, workers: int) -> Iterable[Any]:
    import webdataset

    urls = sorted(map(str, folder.glob("*.tar")))
    dataset = (
        webdataset.WebDataset(urls, shardshuffle=len(urls)).shuffle(10_000).decode().to_tuple("npy")
    )
    return torch.utils.data.DataLoader(
        dataset,
        batch_size=SIZE,
        num_workers=workers,
        collate_fn=lambda rows: collate([row for (row,) in rows]),
    )


def _without_images() -> None:
    """Replace streaming's image datasets, whose torchvision must match the torch version."""
    sys.modules.setdefault("streaming.vision", types.ModuleType("streaming.vision"))


def pad(rows: Sequence[Any]) -> dict[str, torch.Tensor]:
    """Pad rows to int64 ids and attention mask, `[B, L]`, by a NumPy copy per row."""
    lengths = [len(row) for row in rows]
    ids = np.zeros((len(rows), max(lengths)), np.int64)
    mask = np.zeros_like(ids)
    for i, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        ids[i, :length] = row
        mask[i, :length] = 1
    return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}


def _mlm(vocab: Path) -> Collate:
    """Return transformers' MLM collator over rows of ids."""
    import transformers

    # The older transformers release of the peers' environment has the fast tokenizer by this name.
    fast = transformers.BertTokenizerFast
    tokenizer = fast(vocab_file=str(vocab))
    collator = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    return lambda rows: collator([{"input_ids": row} for row in rows])


PEERS: dict[
    str, tuple[Callable[[Path, Rows, int], None], Callable[[Path, Collate, int], Iterable[Any]]]
] = {
    "litdata": (_write_litdata, _read_litdata),
    "mosaicml-streaming": (_write_mosaic, _read_mosaic),
    "webdataset": (_write_webdataset, _read_webdataset),
}
"""Package -> functions that write and read its shards."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
